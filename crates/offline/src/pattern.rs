//! Fixed patterns.

use regex::Regex;

/// Compiles a pattern that stands in this program.
#[expect(clippy::expect_used, reason = "a mistake in the program, which any test of it meets")]
pub(super) fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a fixed pattern is one")
}
