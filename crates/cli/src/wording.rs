//! Words of texts for people.

/// Returns `1 thing` or `2 things`.
pub(crate) fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("{n} {thing}") } else { format!("{n} {thing}s") }
}
