//! Shows how a changed prompt affects the cache prefix.

use std::fmt;

use deputize_core::sanitize::for_terminal_line;

/// Maximum characters shown of the first line that differs.
const SHOWN: usize = 100;

/// The common prefix of an earlier and a new text. Providers serve a request from their cache up to
/// the first byte that differs; everything after it is paid in full.
///
/// ```
/// use deputize_testkit::PrefixDiff;
///
/// let prefix = PrefixDiff::of("You count words.\nToday is Monday.", "You count words.\nToday is Tuesday.");
/// assert_eq!((prefix.kept, prefix.lost, prefix.anew), (26, 7, 8));
/// assert!(!prefix.is_whole());
/// assert_eq!(PrefixDiff::of("One.", "One. Two.").to_string(), "cached prefix: all 4 bytes kept, 5 bytes added");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixDiff {
    /// Bytes that both texts begin with.
    pub kept: usize,
    /// Bytes of the earlier text after the common prefix, whose cache is useless.
    pub lost: usize,
    /// Bytes of the new text after the common prefix.
    pub anew: usize,
    /// Number of the first line that differs, from 1.
    pub line: usize,
    /// The text of that line in the new text.
    pub at: String,
}

impl PrefixDiff {
    /// Compares an earlier text with a new one.
    #[must_use]
    pub fn of(before: &str, now: &str) -> Self {
        let same = before.bytes().zip(now.bytes()).take_while(|(before, now)| before == now);
        let kept = now.floor_char_boundary(same.count());
        let start = now.get(..kept).unwrap_or_default();
        let line_start = start.rfind('\n').map_or(0, |at| at + 1);
        let at = now.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        Self {
            kept,
            lost: before.len() - kept,
            anew: now.len() - kept,
            line: start.matches('\n').count() + 1,
            at: for_terminal_line(at, SHOWN),
        }
    }

    /// Returns whether the new text begins with the whole earlier text, so that no cached byte is
    /// lost.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.lost == 0
    }
}

impl fmt::Display for PrefixDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kept, lost, anew, line, at } = self;
        if self.is_whole() {
            return write!(f, "cached prefix: all {kept} bytes kept, {anew} bytes added");
        }
        write!(
            f,
            "cached prefix: {kept} bytes kept, {lost} bytes lost, {anew} bytes sent anew; \
             it ends in line {line}: {at}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_begins_where_the_texts_differ() {
        let prefix = PrefixDiff::of("a\nbc\nd", "a\nbX\nd");
        assert_eq!(
            prefix.to_string(),
            "cached prefix: 3 bytes kept, 3 bytes lost, 3 bytes sent anew; it ends in line 2: bX"
        );
        assert_eq!(PrefixDiff::of("same", "same").kept, 4);
        assert!(PrefixDiff::of("", "x").is_whole());
        assert_eq!(PrefixDiff::of("longer", "long").lost, 2);
    }

    #[test]
    fn a_character_that_differs_in_its_last_byte_is_not_kept() {
        let prefix = PrefixDiff::of("aä", "aå");
        assert_eq!((prefix.kept, prefix.lost, prefix.anew), (1, 2, 2));
    }
}
