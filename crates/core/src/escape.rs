//! Escapes characters that a reader cannot see.

/// Returns whether a character is invisible.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes a command or a name for one line of a terminal, cut to `most` characters with an
/// ellipsis. Each character counts: spaces stay, and line breaks and invisible characters are
/// escaped.
#[must_use]
pub fn for_exact_line(content: &str, most: usize) -> String {
    let visible = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c if c.is_control() || is_invisible(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    let head = content.chars().take(most.saturating_add(1));
    let text: String = head.map(visible).collect();
    if text.chars().count() <= most {
        return text;
    }
    let mut line: String = text.chars().take(most.saturating_sub(1)).collect();
    line.push('…');
    line
}

/// Returns content for a question to a person: complete, with invisible characters escaped.
#[must_use]
pub fn for_question(content: &str) -> String {
    let visible = |c: char| match c {
        '\n' => "\n".to_owned(),
        c if c.is_control() || is_invisible(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    content.chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_command_each_character_is_told() {
        let told = |text, most| for_exact_line(text, most);
        assert_eq!(told("printf 'a    b' # x\nrm -rf  y", 80), r"printf 'a    b' # x\nrm -rf  y");
        assert_eq!(told("my  file\u{200b}\u{1b}[2K\t.txt", 80), r"my  file\u{200b}\u{1b}[2K\t.txt");
        assert_eq!(told("abcdef", 6), "abcdef");
        assert_eq!(told("abcdefg", 6), "abcde…");
    }

    #[test]
    fn a_question_hides_nothing() {
        assert_eq!(
            for_question("rm\u{202e} \u{1b}[2K-rf\u{200b}"),
            "rm\\u{202e} \\u{1b}[2K-rf\\u{200b}"
        );
    }
}
