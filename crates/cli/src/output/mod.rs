//! Output of `run` on standard output for other programs.

use std::io;

use deputize_core::sanitize::clean;
use deputize_core::truncate::{truncate_chars, truncate_with_ellipsis};
use serde::Serialize;
use serde_json::ser::Formatter;

pub(crate) mod child_frames;
pub(crate) mod events;
pub(crate) mod json;
pub(crate) mod stdout_queue;
pub(crate) mod stream;

/// Limit on a preview, in characters.
pub(crate) const PREVIEW_CHARS: usize = 200;

/// The beginning of a text without what a reader cannot see; a cut one ends with `…`.
pub(crate) fn preview(text: &str) -> String {
    // What cleaning removes must not make room for nothing: take enough to fill the preview.
    let head = truncate_chars(text, PREVIEW_CHARS * 4);
    let cleaned = clean(head).text;
    if head.len() == text.len() {
        return truncate_with_ellipsis(&cleaned, PREVIEW_CHARS);
    }
    format!("{}…", truncate_chars(&cleaned, PREVIEW_CHARS - 1))
}

/// A value as JSON on one line. Characters that a terminal would obey or not show are written
/// as escapes, so that the line may be printed and yet reads back as it was.
pub(crate) fn to_json_line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut line = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Printable))?;
    String::from_utf8(line).map_err(serde::ser::Error::custom)
}

/// Compact JSON whose strings hold nothing invisible.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_hidden) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            let mut units = [0; 2];
            for unit in chars.next().unwrap_or_default().encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Controls beyond ASCII's first row (JSON escapes that itself), direction marks, joiners, tags.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_safe_to_print_and_reads_back_the_same() {
        let text = "a\u{9b}2Jb\u{202e}c\u{1b}[1m\nd é 漢 \u{e0041}\"\\\u{2028}\u{7f}";
        let line = to_json_line(&text).unwrap();
        assert_eq!(
            line,
            "\"a\\u009b2Jb\\u202ec\\u001b[1m\\nd é 漢 \\udb40\\udc41\\\"\\\\\\u2028\\u007f\""
        );
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn a_preview_says_that_it_is_cut() {
        assert_eq!(preview("a\u{1b}[31mb\n"), "ab\n");
        let long = preview(&"é".repeat(201));
        assert_eq!((long.chars().count(), long.ends_with("é…")), (200, true));
        assert_eq!(preview(&"x".repeat(200)), "x".repeat(200));
        let hidden = "\u{200b}".repeat(5000);
        assert_eq!(preview(&hidden), "…");
    }
}
