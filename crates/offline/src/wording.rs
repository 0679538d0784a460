//! Numbers and lists as a report words them.

use deputize_core::truncate::truncate_chars;
use deputize_core::wording::{one_line, plural};

/// Lines as a list; `None` if there are none.
pub(super) fn bullets(lines: impl Iterator<Item = String>) -> Option<String> {
    let lines: Vec<String> = lines.map(|line| format!("- {line}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Text from a file in a line of markdown, as it is. A backtick alone would open a span of code.
pub(super) fn quote(text: &str) -> String {
    let open = text.matches('`').count() % 2 == 1;
    if open { text.replace('`', "'") } else { text.to_owned() }
}

/// Text from a file in a cell of a table.
pub(super) fn cell(text: &str) -> String {
    quote(text).replace('|', "\\|")
}

/// Text as a span of code.
pub(super) fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// A version, as code where markdown would read something in it.
pub(super) fn version(text: &str) -> String {
    let marks = ['<', '|', '*', '_', '`', '[', '\\', '&'];
    if text.contains(marks) { code(text) } else { text.to_owned() }
}

/// A report without the characters that steer a terminal or turn the direction of text: names in
/// manifests may have them, as escapes.
pub(super) fn printable(report: &str) -> String {
    let steers = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    report.chars().filter(|c| !steers(*c)).collect()
}

/// Returns the first characters of a text, with a mark where more follows.
pub(super) fn shorten(text: &str, most: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= most {
        return text;
    }
    let cut = truncate_chars(&text, most.saturating_sub(1));
    let cut = cut.rsplit_once(' ').map_or(cut, |(before, _)| before);
    format!("{cut}…")
}

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a number with its noun: `1 line`, `2,000 lines`, `2 directories`.
pub(super) fn count(many: u64, thing: &str) -> String {
    if many == 1 { format!("1 {thing}") } else { format!("{} {}", number(many), plural(thing)) }
}

/// Lists the first names, and says how many more there are.
pub(super) fn and_more(mut names: Vec<String>, most: usize) -> String {
    let left = names.len().saturating_sub(most);
    names.truncate(most);
    let listed = names.join(", ");
    if left > 0 { format!("{listed} and {left} more") } else { listed }
}

/// A share of a whole, in tenths of a percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let thousandths = (part.saturating_mul(2_000) / whole).div_ceil(2);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Returns where the first sentence of a line ends.
pub(crate) fn sentence_end(text: &str) -> Option<usize> {
    let short = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "approx."];
    text.match_indices(". ").map(|(at, _)| at + 1).find(|end| {
        let before = text.get(..*end).unwrap_or_default();
        !short.iter().any(|word| before.ends_with(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let shares: Vec<_> = [(1, 3), (2, 3), (0, 0), (5, 5)].map(|(a, b)| percent(a, b)).into();
        assert_eq!(shares, ["33.3 %", "66.7 %", "0 %", "100.0 %"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([count(1, "line"), count(2, "line")], ["1 line", "2 lines"]);
        assert_eq!([count(1, "entry"), count(2, "entry")], ["1 entry", "2 entries"]);
        let names = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!([and_more(names(), 3), and_more(names(), 1)], ["a, b, c", "a and 2 more"]);
    }
}
