//! Escapes characters that a reader cannot see.

use crate::truncate::truncate_chars;

/// What stands for a line break on one line.
const LINE_BREAK: &str = " ⏎ ";

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
    if content.len() <= most && content.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return content.to_owned();
    }
    let mut line = String::with_capacity(content.len().min(most));
    for c in truncate_chars(content, most.saturating_add(1)).chars() {
        match c {
            ' '..='~' => line.push(c),
            '\n' | '\t' | '\r' => line.extend(c.escape_default()),
            c if c.is_control() || is_invisible(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    if truncate_chars(&line, most).len() < line.len() {
        line.truncate(truncate_chars(&line, most.saturating_sub(1)).len());
        line.push('…');
    }
    line
}

/// Returns content for a question to a person: complete, with invisible characters escaped.
#[must_use]
pub fn for_question(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    for c in content.chars() {
        push_visible(&mut shown, c);
    }
    shown
}

/// Adds a character to a text, escaped if it is invisible, and returns how many characters that are.
fn push_visible(text: &mut String, c: char) -> usize {
    let is_plain = matches!(c, ' '..='~' | '\n');
    if !is_plain && (c.is_control() || is_invisible(c)) {
        text.extend(c.escape_unicode());
        return c.escape_unicode().len();
    }
    text.push(c);
    1
}

/// Sanitizes content for one line on which nothing is smoothed away, such as a command: invisible
/// characters are escaped, a line break is `⏎`, and characters after `most` are counted.
#[must_use]
pub fn for_verbatim_line(content: &str, most: usize) -> String {
    match verbatim_start(content, most) {
        (line, 0) => line,
        (line, rest) => format!("{line}… ({rest} more characters)"),
    }
}

/// Returns the start of content as [`for_verbatim_line`] shows it, in at most `most` characters, and
/// the number of characters of the content after it.
#[must_use]
pub fn verbatim_start(content: &str, most: usize) -> (String, usize) {
    let mut line = String::new();
    let mut length = 0;
    let mut rest = content.trim().chars();
    while let Some(c) = rest.clone().next() {
        let before = line.len();
        length += match c {
            '\n' => {
                line.push_str(LINE_BREAK);
                LINE_BREAK.chars().count()
            }
            c => push_visible(&mut line, c),
        };
        if length > most {
            line.truncate(before);
            return (line, rest.count());
        }
        rest.next();
    }
    (line, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verbatim_line_shows_or_counts_each_character() {
        for (text, line) in [
            ("abcd", "abcd"),
            ("abcde", "abcd… (1 more characters)"),
            ("a\nb", "a ⏎ … (1 more characters)"),
            ("a\0\0", "a… (2 more characters)"),
        ] {
            assert_eq!(for_verbatim_line(text, 4), line);
        }
        let padded = for_verbatim_line(&format!("ls{}; rm -rf x", " ".repeat(500)), 160);
        assert!(padded.ends_with("… (352 more characters)"), "{padded}");
    }

    #[test]
    fn of_a_command_each_character_is_shown() {
        let describe = |text, most| for_exact_line(text, most);
        assert_eq!(
            describe("printf 'a    b' # x\nrm -rf  y", 80),
            r"printf 'a    b' # x\nrm -rf  y"
        );
        assert_eq!(
            describe("my  file\u{200b}\u{1b}[2K\t.txt", 80),
            r"my  file\u{200b}\u{1b}[2K\t.txt"
        );
        assert_eq!(describe("abcdef", 6), "abcdef");
        assert_eq!(describe("abcdefg", 6), "abcde…");
    }

    #[test]
    fn a_question_hides_nothing() {
        assert_eq!(
            for_question("rm\u{202e} \u{1b}[2K-rf\u{200b}"),
            "rm\\u{202e} \\u{1b}[2K-rf\\u{200b}"
        );
    }
}
