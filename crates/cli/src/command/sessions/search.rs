//! `deputize sessions search`: finds words in the conversations of all sessions.

use deputize_core::Cancel;
use deputize_core::sanitize::{Secrets, for_terminal_line};
use deputize_runtime::SessionDir;
use deputize_session_index::{
    EntryKind, FoundSession, FoundText, IndexError, SearchLimits, SearchQuery, SearchResults,
    SessionIndex,
};
use serde_json::{Value, json};

use super::local;
use crate::exit::CliError;
use crate::output::events::time;
use crate::stdio::{output_columns, print, tell, wrap_lines};

/// The most texts of a session that are printed.
const TEXTS: usize = 5;
/// Prefix of each text.
const TEXT: &str = "  ";

/// Prints what is found, without the secrets that this environment knows.
pub(super) fn search(
    dir: SessionDir,
    words: &str,
    limit: usize,
    as_json: bool,
    secrets: &Secrets,
) -> Result<(), CliError> {
    let query = SearchQuery::parse(words).map_err(index_error)?;
    let limits = SearchLimits { sessions: limit, texts: TEXTS };
    let found = SessionIndex::new(dir).search(&query, None, limits, &Cancel::new());
    let found = found.map_err(index_error)?;
    for unread in &found.unread {
        let session = for_terminal_line(&unread.session, 60);
        let why = for_terminal_line(&unread.why, 400);
        tell(&format!("warning: session `{session}` is not searched: {why}"));
    }
    if as_json {
        return print(&secrets.scrub(&format!("{:#}\n", results_json(&found))));
    }
    print(&secrets.scrub(&results_text(&found, output_columns())))?;
    for note in notes(&found) {
        tell(note);
    }
    Ok(())
}

/// Returns what is said beside the results.
fn notes(found: &SearchResults) -> impl Iterator<Item = &'static str> {
    let notes = [
        (found.sessions.is_empty(), "nothing was found"),
        (found.has_some_words, "no text has all of these words; these have some of them"),
        (found.has_more_sessions, "more sessions were found; add words, or use --limit"),
        // A limit on sessions would not help.
        (found.has_more && !found.has_more_sessions, "more was found in these; add words"),
    ];
    notes.into_iter().filter_map(|(applies, note)| applies.then_some(note))
}

fn results_text(found: &SearchResults, columns: usize) -> String {
    let mut out = String::new();
    for session in &found.sessions {
        let FoundSession { session, started_ms, goal, texts, .. } = session;
        out.push_str(&wrap_lines(&format!("{session}  {}  {goal}", local(*started_ms)), columns));
        for text in texts {
            let line = format!("{}: {}", speaker(text), text.snippet.marked("**", "**"));
            let rows = wrap_lines(&line, columns.saturating_sub(TEXT.len()));
            out.extend(rows.lines().map(|row| format!("{TEXT}{row}\n")));
        }
    }
    out
}

/// Returns the kind of a text, with the agent if it is not the top one.
fn speaker(text: &FoundText) -> String {
    let kind: EntryKind = text.kind;
    match text.agent.as_str() {
        "" => kind.as_str().to_owned(),
        agent => format!("{} ({agent})", kind.as_str()),
    }
}

fn results_json(found: &SearchResults) -> Value {
    let text = |text: &FoundText| {
        json!({
            "record": text.record,
            "at": time(text.at),
            "agent": text.agent,
            "kind": text.kind.as_str(),
            "snippet": text.snippet.marked("**", "**"),
        })
    };
    let session = |found: &FoundSession| {
        json!({
            "session": found.session,
            "begun": time(found.started_ms),
            "goal": found.goal,
            "outside": found.outside,
            "texts": found.texts.iter().map(text).collect::<Vec<_>>(),
        })
    };
    json!({
        "sessions": found.sessions.iter().map(session).collect::<Vec<_>>(),
        "has_some_words": found.has_some_words,
        "has_more": found.has_more,
    })
}

fn index_error(error: IndexError) -> CliError {
    match error {
        IndexError::NoWords | IndexError::Long { .. } => CliError::usage(error),
        // As of the other commands about sessions, with what to do.
        IndexError::Sessions(error) => CliError::failed(error),
        IndexError::Index { ref path, is_full: false, .. } => {
            let path = path.display().to_string();
            CliError::failed(error)
                .hint(format!("if it can be deleted, do so: the next search makes it anew: {path}"))
        }
        error => CliError::failed(error),
    }
}
