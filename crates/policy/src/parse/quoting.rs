//! Quotes and escapes.

use crate::syntax::Piece;

/// Adds text without quotes: a backslash quotes what follows it.
pub(super) fn push_bare(pieces: &mut Vec<Piece>, text: &str) {
    let mut chars = text.chars();
    let mut bare = String::new();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bare.push(c);
            continue;
        }
        match chars.next() {
            Some('\n') => {}
            Some('\r') if chars.as_str().starts_with('\n') => {
                chars.next();
            }
            Some(quoted) => {
                push_text(pieces, &mut bare);
                pieces.push(Piece::Quoted(quoted.to_string()));
            }
            None => bare.push('\\'),
        }
    }
    push_text(pieces, &mut bare);
}

fn push_text(pieces: &mut Vec<Piece>, bare: &mut String) {
    if !bare.is_empty() {
        pieces.push(Piece::Bare(std::mem::take(bare)));
    }
}

/// Returns text between double quotes without its escapes.
pub(super) fn unescape_double(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => {
                chars.next();
            }
            ('\\', Some(next @ ('$' | '`' | '"' | '\\'))) => {
                plain.push(*next);
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_quotes_keep_other_backslashes() {
        assert_eq!(unescape_double(r#"a\$b\"c\\d\ne"#), "a$b\"c\\d\\ne");
    }
}
