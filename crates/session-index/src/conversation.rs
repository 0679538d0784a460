//! A part of an agent's conversation, as it is in the index.

use deputize_core::SessionId;
use deputize_core::source_set::SourceSet;
use deputize_core::truncate::truncate_bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::entry::EntryKind;
use crate::place::SessionPlace;
use crate::search::stored_fold;
use crate::session_fold::SessionFold;
use crate::words::joined;

/// Texts before and after the one that is asked for.
const TEXTS: usize = 5;
/// Bytes of the text that is asked for.
const TEXT_BYTES: usize = 8 * 1024;
/// Bytes of each text around it.
const AROUND_BYTES: usize = 1_200;
/// The same of results, which would take the place of what was said.
const RESULT_BYTES: usize = 300;

/// A part of an agent's conversation: its texts around one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationPage {
    /// ID of the session.
    pub session: SessionId,
    /// When it began, in Unix time in milliseconds.
    pub started_ms: u64,
    /// The first task of its top agent, on one line.
    pub goal: String,
    /// What its agents read from outside of the machine, such as `web:example.com`.
    pub outside: SourceSet,
    /// The agent without its session; empty for the top agent.
    pub agent: String,
    /// The texts, in their order.
    pub texts: Vec<ConversationText>,
    /// Whether the agent has texts before these.
    pub has_earlier: bool,
    /// Whether the agent has texts after these.
    pub has_later: bool,
}

/// A text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationText {
    /// Number of its record.
    pub record: u64,
    /// When it was written, in Unix time in milliseconds.
    pub at: u64,
    /// What kind of text it is.
    pub kind: EntryKind,
    /// The text, or its beginning.
    pub text: String,
    /// Bytes of it that are left out.
    pub left_out: usize,
}

/// Why a page cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageFault {
    UnknownSession,
    NoText,
}

/// Reads the texts around a place.
pub(crate) fn read_page(
    connection: &Connection,
    place: &SessionPlace,
) -> rusqlite::Result<Result<ConversationPage, PageFault>> {
    let by_name = "SELECT id FROM session WHERE name = ?1";
    let id: Option<i64> =
        connection.query_row(by_name, [place.session.as_str()], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(Err(PageFault::UnknownSession)) };
    let record = i64::try_from(place.record).unwrap_or(i64::MAX);
    // Its own text, else the next one, else the last one.
    let nearest = "SELECT seq, agent FROM entry WHERE session = ?1
        ORDER BY seq < ?2, abs(seq - ?2) LIMIT 1";
    let found: Option<(i64, String)> = connection
        .query_row(nearest, params![id, record], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((seq, agent)) = found else { return Ok(Err(PageFault::NoText)) };
    let side = |compare: &str, order: &str, most: usize| {
        let sql = format!(
            "SELECT entry.seq, entry.at, entry.kind, coalesce(body.text, result.text) FROM entry
             LEFT JOIN body ON body.rowid = entry.id
             LEFT JOIN result ON result.rowid = entry.id
             WHERE session = ?1 AND agent = ?2 AND seq {compare} ?3 ORDER BY seq {order} LIMIT {most}"
        );
        let mut rows = connection.prepare(&sql)?;
        let text = |row: &Row<'_>| text_of(row, seq);
        let texts = rows.query_map(params![id, agent, seq], text)?;
        texts.filter_map(Result::transpose).collect::<rusqlite::Result<Vec<_>>>()
    };
    let mut texts = side("<", "DESC", TEXTS + 1)?;
    let has_earlier = texts.len() > TEXTS;
    texts.truncate(TEXTS);
    texts.reverse();
    let mut later = side(">=", "ASC", TEXTS + 2)?;
    let has_later = later.len() > TEXTS + 1;
    later.truncate(TEXTS + 1);
    texts.extend(later);
    let SessionFold { started_ms, goal, outside, .. } = stored_fold(connection, id)?;
    let session = place.session.clone();
    let started_ms = started_ms.unwrap_or_default();
    Ok(Ok(ConversationPage {
        session,
        started_ms,
        goal,
        outside,
        agent,
        texts,
        has_earlier,
        has_later,
    }))
}

/// Returns the text of a row, of which more is shown if it is the one at `seq`.
fn text_of(row: &Row<'_>, seq: i64) -> rusqlite::Result<Option<ConversationText>> {
    let own: i64 = row.get(0)?;
    let at: i64 = row.get(1)?;
    let kind: String = row.get(2)?;
    let stored: String = row.get(3)?;
    let whole = joined(&stored);
    let Some(kind) = EntryKind::from_name(&kind) else { return Ok(None) };
    let most = match kind {
        _ if own == seq => TEXT_BYTES,
        EntryKind::Result => RESULT_BYTES,
        _ => AROUND_BYTES,
    };
    let text = truncate_bytes(&whole, most);
    Ok(Some(ConversationText {
        record: own.unsigned_abs(),
        at: at.unsigned_abs(),
        kind,
        left_out: whole.len() - text.len(),
        text: text.to_owned(),
    }))
}
