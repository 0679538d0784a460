//! What a model reads of past sessions.

use deputize_core::ToolOutput;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use jiff::Timestamp;

use crate::conversation::ConversationPage;
use crate::entry::EntryKind;
use crate::results::{FoundSession, SearchResults};

/// Sources from outside that are named of a session; the rest is counted.
const SOURCES: usize = 4;
/// Sessions that cannot be read and are named; the rest is counted.
const UNREAD: usize = 3;

/// Returns the output for what was found.
pub(crate) fn found_output(results: &SearchResults) -> ToolOutput {
    let mut content = String::new();
    for found in &results.sessions {
        let FoundSession { session, started_ms, goal, outside, texts } = found;
        content.push_str(&head(session.as_str(), *started_ms, goal, outside));
        for text in texts {
            let words = text.snippet.marked("**", "**");
            let who = speaker(text.kind, &text.agent);
            content.push_str(&format!("#{} {who}: {words}\n", text.record));
        }
        content.push('\n');
    }
    let mut output = ToolOutput::text(content.trim_end());
    if results.sessions.is_empty() {
        output = output.note("nothing was found: try other words, or fewer");
    } else if results.has_some_words {
        output = output.note("no text has all of these words; these have some of them");
    } else if results.has_more {
        output = output.note("more was found than is shown: add words to narrow it");
    }
    if !results.unread.is_empty() {
        let mut names: Vec<String> = results.unread.iter().take(UNREAD).map(unread_name).collect();
        let more = results.unread.len() - names.len();
        names.extend((more > 0).then(|| format!("{more} more")));
        output = output.note(format!("sessions that cannot be read: {}", names.join(", ")));
    }
    let outside = results.sessions.iter().flat_map(|found| &found.outside);
    with_sources(output, outside)
}

fn unread_name(unread: &crate::results::UnreadSession) -> String {
    for_terminal_line(&unread.session, 60)
}

/// Returns the output for a part of a conversation.
pub(crate) fn page_output(page: &ConversationPage) -> ToolOutput {
    let ConversationPage { session, started_ms, goal, outside, agent, texts, .. } = page;
    let mut content = head(session.as_str(), *started_ms, goal, outside);
    for text in texts {
        content.push_str(&format!(
            "\n#{} {}:\n{}",
            text.record,
            speaker(text.kind, agent),
            text.text
        ));
        content.push_str(&match text.left_out {
            0 => "\n".to_owned(),
            bytes => format!(" … [{bytes} more bytes]\n"),
        });
    }
    let mut output = ToolOutput::text(content.trim_end());
    let place = |record: u64| format!("`{session}#{record}`");
    let ends = texts.first().zip(texts.last());
    if let Some((first, last)) = ends {
        let earlier =
            page.has_earlier.then(|| format!("before this: around {}", place(first.record)));
        let later = page.has_later.then(|| format!("after this: around {}", place(last.record)));
        output.notes.extend(earlier.into_iter().chain(later));
    }
    with_sources(output, outside.iter())
}

/// Returns a line about a session, and one about what it read from outside.
fn head(session: &str, started_ms: u64, goal: &str, outside: &SourceSet) -> String {
    let mut text = format!("{session} ({}): {goal}\n", date(started_ms));
    if !outside.is_empty() {
        let mut named = outside.lasting_labels();
        let more = named.len().saturating_sub(SOURCES);
        named.truncate(SOURCES);
        named.extend((more > 0).then(|| format!("{more} more")));
        text.push_str(&format!("[it had read {}]\n", named.join(", ")));
    }
    text
}

/// Returns the kind of a text, with the agent if it is not the top one.
fn speaker(kind: EntryKind, agent: &str) -> String {
    match agent {
        "" => kind.as_str().to_owned(),
        agent => format!("{} ({agent})", kind.as_str()),
    }
}

/// Returns the day of a time, in UTC.
fn date(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Adds what the sessions had read from outside: whoever reads of them has read it too.
fn with_sources<'s>(output: ToolOutput, outside: impl Iterator<Item = &'s Source>) -> ToolOutput {
    ToolOutput { sources: outside.cloned().collect(), ..output }
}
