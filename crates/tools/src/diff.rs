//! Unified diffs that stay short and say so.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::shown::count;

/// Time for a diff of two unlike texts; after it the rest counts as replaced.
const TIME: Duration = Duration::from_millis(500);
/// Lines of a diff that a model gets.
pub(crate) const MODEL_LINES: usize = 80;
/// Lines of a diff that a screen gets.
pub(crate) const SCREEN_LINES: usize = 2_000;
/// Bytes of one line of a diff.
const LINE_BYTES: usize = 500;

/// How one text differs from another.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The hunks, whole.
    lines: Vec<String>,
    /// Lines that are new.
    pub(crate) added: u64,
    /// Lines that are gone.
    pub(crate) removed: u64,
}

impl Difference {
    pub(crate) fn between(old: &str, new: &str) -> Self {
        let diff = TextDiff::configure().timeout(TIME).diff_lines(old, new);
        let changes = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let (added, removed) = (changes(ChangeTag::Insert), changes(ChangeTag::Delete));
        let unified = diff.unified_diff().to_string();
        let lines = unified.lines().map(cut).collect();
        Self { lines, added: added as u64, removed: removed as u64 }
    }

    /// The first lines of the diff, and a remark on the others.
    pub(crate) fn first(&self, lines: usize) -> (String, Option<String>) {
        let shown = self.lines.get(..lines).unwrap_or(&self.lines);
        let left_out = self.lines.len() - shown.len();
        let note = (left_out > 0)
            .then(|| format!("{} of the diff left out", count(left_out as u64, "line")));
        (shown.join("\n"), note)
    }
}

fn cut(line: &str) -> String {
    if line.len() <= LINE_BYTES {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(LINE_BYTES);
    format!("{}… [+{} bytes]", line.get(..end).unwrap_or_default(), line.len() - end)
}
