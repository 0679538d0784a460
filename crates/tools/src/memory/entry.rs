//! Entries of the memory as text.

use super::topic::{MEMORY_BYTES, MemoryTopic};

/// What an entry begins with.
pub(super) const BULLET: &str = "- ";
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
