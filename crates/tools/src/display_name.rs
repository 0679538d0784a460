//! Names, numbers and notes in the sentences of results.

use deputize_core::sanitize;
use deputize_core::wording::count;

/// Limit on a name in a sentence, in characters.
const NAME_CHARS: usize = 400;

/// A path or file name on one line, with everything invisible made visible.
pub(crate) fn display_name(name: &str) -> String {
    let mut line = sanitize::for_question(name).replace('\n', "\\u{a}");
    if let Some((at, _)) = line.char_indices().nth(NAME_CHARS) {
        let left_out = line.chars().count() - NAME_CHARS;
        line.truncate(at);
        line.push_str(&format!("… [+{left_out} characters]"));
    }
    line
}

/// Returns the note on marks of chat formats that are written in their original form, if there are
/// any.
pub(crate) fn restored_marks(number: usize) -> Option<String> {
    let marks = (number > 0).then(|| count(number, "chat-format mark"))?;
    Some(format!("{marks} given with ‹ written in the original form"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_its_line_or_hide() {
        assert_eq!(display_name("a\nb\u{202e}c\u{1b}[2J"), "a\\u{a}b\\u{202e}c\\u{1b}[2J");
        assert_eq!(
            display_name(&"x".repeat(450)),
            format!("{}… [+50 characters]", "x".repeat(400))
        );
        assert_eq!(display_name("two  spaces"), "two  spaces");
    }
}
