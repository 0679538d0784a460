//! What the mark of an entry says: the sources from outside that its writer had read.

use std::collections::BTreeSet;

use deputize_core::source::Source;

/// What the mark of an entry begins with, before its sources and a bracket.
const MARK: &str = " [written after reading ";
/// Sources that a mark names; the rest is counted.
const MARK_SOURCES: usize = 4;
/// What follows the number of sources that a mark does not name.
const MORE: &str = " more";

/// The sources of an entry: some by their labels, and how many more there were.
#[derive(Default)]
pub(super) struct SourceMark {
    named: BTreeSet<String>,
    more: usize,
}

impl SourceMark {
    /// Splits an entry into its text and what its mark says.
    pub(super) fn split(entry: &str) -> (&str, Self) {
        let parts = entry.strip_suffix(']').and_then(|entry| entry.rsplit_once(MARK));
        let Some((text, labels)) = parts else { return (entry, Self::default()) };
        let mut mark = Self::default();
        for label in labels.split(", ") {
            match label.strip_suffix(MORE).and_then(|count| count.parse::<usize>().ok()) {
                Some(more) => mark.more = mark.more.saturating_add(more),
                None => {
                    mark.named.insert(label.to_owned());
                }
            }
        }
        (text, mark)
    }

    /// Adds sources by their labels.
    pub(super) fn add(&mut self, labels: &[String]) {
        self.named.extend(labels.iter().cloned());
    }

    /// Returns the sources that the mark names.
    pub(super) fn into_sources(self) -> impl Iterator<Item = Source> {
        self.named.into_iter().map(|label| Source::from_lasting_label(&label))
    }

    /// Returns the entry of a text with this mark; without one if there are no sources.
    pub(super) fn entry(self, text: &str) -> String {
        let more = self.more.saturating_add(self.named.len().saturating_sub(MARK_SOURCES));
        let mut named: Vec<String> = self.named.into_iter().take(MARK_SOURCES).collect();
        named.extend((more > 0).then(|| format!("{more}{MORE}")));
        if named.is_empty() {
            text.to_owned()
        } else {
            format!("{text}{MARK}{}]", named.join(", "))
        }
    }
}
