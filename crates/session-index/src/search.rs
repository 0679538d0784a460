//! Looks words up in an index that is up to date.

use deputize_core::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::entry::EntryKind;
use crate::query::SearchQuery;
use crate::results::{FoundSession, FoundText, SearchLimits, SearchResults, UnreadSession};
use crate::session_fold::SessionFold;
use crate::snippet::{FOUND, FOUND_END, Snippet};

/// The most texts that are looked at, best first, to fill the sessions of a result.
const LOOKED_AT: usize = 400;
/// The most results of tools that are ranked, the ones that came last into the index: to rank all would
/// take as long as all else.
pub(crate) const RESULTS_RANKED: i64 = 4_000;
/// Words of a snippet.
const SNIPPET_WORDS: u32 = 28;

/// What to ask a table. Calls are short, which counts as a better match than they are.
const FIND: &str = "
    SELECT entry.id, entry.session, session.name, entry.seq, entry.at, entry.agent, entry.kind
    FROM (
        SELECT rowid AS id, bm25(TABLE) AS points FROM TABLE
        WHERE TABLE MATCH ?1 AND rowid NOT IN (SELECT id FROM entry WHERE session = ?2 AND seq > ?5)
        ORDER BY rowid DESC LIMIT ?4
    ) AS matching
    JOIN entry ON entry.id = matching.id JOIN session ON session.id = entry.session
    ORDER BY matching.points * CASE entry.kind WHEN 'call' THEN 0.5 ELSE 1.0 END,
        entry.at DESC, session.name DESC, entry.seq
    LIMIT ?3";

/// A search in an index.
pub(crate) struct Search<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) query: &'a SearchQuery,
    /// A session of which only what its top agent's conversation has lost is searched.
    pub(crate) except: Option<&'a SessionId>,
    pub(crate) limits: SearchLimits,
}

/// A text that matches.
struct Match {
    id: i64,
    session: i64,
    name: String,
    seq: i64,
    at: i64,
    agent: String,
    kind: String,
}

impl Match {
    fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            session: row.get(1)?,
            name: row.get(2)?,
            seq: row.get(3)?,
            at: row.get(4)?,
            agent: row.get(5)?,
            kind: row.get(6)?,
        })
    }
}

impl Search<'_> {
    pub(crate) fn run(&self) -> rusqlite::Result<SearchResults> {
        let mut expression = self.query.all();
        let mut matches = self.matches(&expression)?;
        let mut has_some_words = false;
        if matches.is_empty() && self.query.has_several() {
            expression = self.query.any();
            matches = self.matches(&expression)?;
            has_some_words = !matches.is_empty();
        }
        let mut has_more = matches.len() == LOOKED_AT;
        let mut has_more_sessions = false;
        let mut sessions: Vec<(i64, FoundSession)> = Vec::new();
        for found in matches {
            let Some(session) = self.session_of(&found, &mut sessions)? else {
                has_more_sessions = true;
                continue;
            };
            if session.texts.len() == self.limits.texts {
                has_more = true;
                continue;
            }
            session.texts.extend(self.text(&found, &expression)?);
        }
        let sessions = sessions.into_iter().map(|(_, session)| session).collect();
        let has_more = has_more || has_more_sessions;
        let unread = self.unread()?;
        Ok(SearchResults { sessions, has_some_words, has_more, has_more_sessions, unread })
    }

    /// Returns the texts that match: first those that were said, then results of tools.
    fn matches(&self, expression: &str) -> rusqlite::Result<Vec<Match>> {
        let mut matches = self.matches_of(EntryKind::Reply, expression, LOOKED_AT)?;
        let left = LOOKED_AT - matches.len();
        if left > 0 {
            matches.extend(self.matches_of(EntryKind::Result, expression, left)?);
        }
        Ok(matches)
    }

    /// Returns at most so many texts that match, of the table that has this kind.
    fn matches_of(
        &self,
        kind: EntryKind,
        expression: &str,
        most: usize,
    ) -> rusqlite::Result<Vec<Match>> {
        let (except, compacted) = self.left_out()?;
        let mut rows = self.connection.prepare(&FIND.replace("TABLE", kind.table()))?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let ranked = if kind == EntryKind::Result { RESULTS_RANKED } else { i64::MAX };
        let values = params![expression, except, most, ranked, compacted];
        rows.query_map(values, Match::of_row)?.collect()
    }

    /// Returns the session that is left out, and the record behind which it is: its last compaction.
    fn left_out(&self) -> rusqlite::Result<(i64, i64)> {
        let sql = "SELECT id FROM session WHERE name = ?1";
        let name = self.except.map(SessionId::as_str);
        let row = self.connection.query_row(sql, [name], |row| row.get(0)).optional()?;
        let Some(id) = row else { return Ok((-1, -1)) };
        let compacted = stored_fold(self.connection, id)?.compacted;
        Ok((id, compacted.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(-1)))
    }

    /// Returns the session of a match among those found; `None` if there is no room for another.
    fn session_of<'s>(
        &self,
        found: &Match,
        sessions: &'s mut Vec<(i64, FoundSession)>,
    ) -> rusqlite::Result<Option<&'s mut FoundSession>> {
        let index = sessions.iter().position(|(id, _)| *id == found.session);
        let index = match index {
            Some(index) => index,
            None if sessions.len() == self.limits.sessions => return Ok(None),
            None => {
                let Ok(session) = SessionId::new(found.name.clone()) else { return Ok(None) };
                let SessionFold { started_ms, goal, outside, .. } =
                    stored_fold(self.connection, found.session)?;
                let started_ms = started_ms.unwrap_or_default();
                let session =
                    FoundSession { session, started_ms, goal, outside, texts: Vec::new() };
                sessions.push((found.session, session));
                sessions.len() - 1
            }
        };
        Ok(sessions.get_mut(index).map(|(_, session)| session))
    }

    fn text(&self, found: &Match, expression: &str) -> rusqlite::Result<Option<FoundText>> {
        let Some(kind) = EntryKind::from_name(&found.kind) else { return Ok(None) };
        let sql = "SELECT snippet(TABLE, 0, ?3, ?4, '…', ?5) FROM TABLE
            WHERE TABLE MATCH ?1 AND rowid = ?2";
        let values =
            params![expression, found.id, FOUND.to_string(), FOUND_END.to_string(), SNIPPET_WORDS];
        let snippet: Option<String> = self
            .connection
            .query_row(&sql.replace("TABLE", kind.table()), values, |row| row.get(0))
            .optional()?;
        Ok(snippet.map(|snippet| FoundText {
            record: found.seq.unsigned_abs(),
            at: found.at.unsigned_abs(),
            agent: found.agent.clone(),
            kind,
            snippet: Snippet::new(&snippet),
        }))
    }

    fn unread(&self) -> rusqlite::Result<Vec<UnreadSession>> {
        let sql = "SELECT name, fault FROM session WHERE fault IS NOT NULL ORDER BY name";
        let mut rows = self.connection.prepare(sql)?;
        let unread = |row: &Row<'_>| Ok(UnreadSession { session: row.get(0)?, why: row.get(1)? });
        rows.query_map([], unread)?.collect()
    }
}

/// Returns what is known of a session.
pub(crate) fn stored_fold(connection: &Connection, id: i64) -> rusqlite::Result<SessionFold> {
    let sql = "SELECT state FROM session WHERE id = ?1";
    let state: String = connection.query_row(sql, [id], |row| row.get(0))?;
    Ok(serde_json::from_str(&state).unwrap_or_default())
}
