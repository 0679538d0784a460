//! Entries of the memory as text.

use std::collections::BTreeSet;

use deputize_core::source::Source;

use super::topic::{MEMORY_BYTES, MemoryTopic};

/// What an entry begins with.
pub(super) const BULLET: &str = "- ";
/// What the mark of an entry begins with, before its sources and a bracket.
const MARK: &str = " [written after reading ";
/// Sources that a mark names; the rest is counted.
const MARK_SOURCES: usize = 4;
/// Returns the entry with a mark that names its sources from outside; without one if there are
/// none.
pub(super) fn marked(text: String, sources: BTreeSet<String>) -> String {
    if sources.is_empty() {
        return text;
    }
    let more = sources.len().saturating_sub(MARK_SOURCES);
    let mut named: Vec<String> = sources.into_iter().take(MARK_SOURCES).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!("{text}{MARK}{}]", named.join(", "))
}

/// Returns the text of an entry, and the sources of its mark.
pub(super) fn unmarked(entry: &str) -> (&str, Vec<&str>) {
    let parts = entry.strip_suffix(']').and_then(|entry| entry.rsplit_once(MARK));
    parts.map_or((entry, Vec::new()), |(text, sources)| (text, sources.split(", ").collect()))
}

/// Returns the sources that the mark of an entry names.
pub(super) fn mark_sources(entry: &str) -> impl Iterator<Item = Source> {
    unmarked(entry).1.into_iter().map(Source::from_lasting_label)
}

/// An entry as a text has it.
pub(super) struct TextEntry {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Returns the entries of a text. Each line begins an entry, but for the title, and for indented
/// lines without a bullet: they belong to the entry before them. Nothing else is left out.
pub(super) fn parse(topic: MemoryTopic, text: &str) -> Vec<TextEntry> {
    let mut entries: Vec<TextEntry> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let text = line.trim();
        if text.is_empty() || text == BULLET.trim() || text == topic.title() {
            continue;
        }
        let bulleted = text.strip_prefix(BULLET);
        let continues = bulleted.is_none() && line.starts_with(char::is_whitespace);
        match entries.last_mut().filter(|_| continues) {
            Some(last) => {
                last.text.push(' ');
                last.text.push_str(text);
            }
            None => {
                let text = bulleted.unwrap_or(text).trim().to_owned();
                entries.push(TextEntry { line: index + 1, text });
            }
        }
    }
    entries
}

/// Keeps of the entries what fits into what agents read of a file: from the first on each one for
/// which there is room.
pub(super) fn keep_fitting(topic: MemoryTopic, entries: &mut Vec<String>) {
    let mut bytes = topic.title().len() + 1;
    entries.retain(|entry| {
        let more = BULLET.len() + entry.len() + 1;
        let fits = bytes + more <= MEMORY_BYTES;
        bytes += if fits { more } else { 0 };
        fits
    });
}

pub(super) fn text_of(topic: MemoryTopic, entries: &[String]) -> String {
    let lines = entries.iter().map(|entry| format!("{BULLET}{entry}\n"));
    format!("{}\n{}", topic.title(), lines.collect::<String>())
}
