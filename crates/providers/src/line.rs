//! A server's words on one line of ours.

use deputize_core::truncate::truncate_chars;
use deputize_core::wording::one_line;

use crate::limits::SHOWN_CHARS;

/// How the note of a cut begins: here, and of a body that was not read to its end.
pub(crate) const CUTS: [&str; 2] = ["… (", " [of the first "];

/// A text on one line, without controls, cut at [`SHOWN_CHARS`] characters with a note of how
/// many were left out.
pub(crate) fn truncate_to_line(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let words: String = text.chars().map(printable).collect();
    let words = one_line(&words);
    let more = words.chars().count().saturating_sub(SHOWN_CHARS);
    if more == 0 {
        return words;
    }
    format!("{}… ({more} more characters)", truncate_chars(&words, SHOWN_CHARS))
}

/// What a web page calls itself: its title, or its first heading.
pub(crate) fn page_title(page: &str) -> String {
    let title = ["title", "h1"].into_iter().find_map(|tag| element(page, tag));
    title.map_or_else(|| "a web page".to_owned(), |title| format!("a web page titled `{title}`"))
}

fn element(page: &str, tag: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let open = lower.find(&format!("<{tag}"))?;
    let from = open + lower.get(open..)?.find('>')? + 1;
    let to = from + lower.get(from..)?.find("</")?;
    Some(truncate_to_line(page.get(from..to)?)).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_become_one_and_a_cut_is_reported() {
        assert_eq!(truncate_to_line("a\r\n\tb\u{1b}[31m c\0"), "a b [31m c");
        let long = truncate_to_line(&"é".repeat(SHOWN_CHARS + 7));
        assert!(long.ends_with("é… (7 more characters)"));
    }

    #[test]
    fn a_page_is_known_by_its_title() {
        let page = "<!doctype html><HTML><Title lang=en>502 Bad\n Gateway</Title><h1>x</h1>";
        assert_eq!(page_title(page), "a web page titled `502 Bad Gateway`");
        assert_eq!(page_title("<html><h1>Ä</h1>"), "a web page titled `Ä`");
        assert_eq!(page_title("<title>cut"), "a web page");
    }
}
