//! Text as its markup shows it: Markdown, reStructuredText and HTML.

use deputize_core::wording::one_line;

/// Text without links, tags and pictures.
pub(super) fn strip(text: &str) -> String {
    shown_text(text, true).0
}

/// Returns the same, with or without the texts of links, and the number of links.
pub(super) fn shown_text(text: &str, with_links: bool) -> (String, usize) {
    let text = ["&emsp;", "&ensp;", "&nbsp;"].iter().fold(text.to_owned(), |text, space| {
        // A space of another width.
        text.replace(space, " ")
    });
    let mut out = String::new();
    let mut links = 0;
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['[', '!', '<', '`']) {
        let (before, from) = rest.split_at(at);
        if let Some((span, after)) = span(from) {
            out.push_str(without_role(before));
            match span {
                Span::Code(code) => out.push_str(&format!("`{code}`")),
                Span::Link(label) => {
                    links += 1;
                    out.push_str(if with_links { label } else { "" });
                }
            }
            rest = after;
            continue;
        }
        out.push_str(before);
        // `#[attribute]` is code, not a link.
        let code = before.ends_with('#');
        let (shown, after) = link(from).filter(|_| !code).unwrap_or_else(|| {
            let end = from.chars().next().map_or(0, char::len_utf8);
            from.split_at(end)
        });
        let linked = from.starts_with('[') && shown != "[";
        links += usize::from(linked && !shown.is_empty());
        out.push_str(if linked && !with_links { "" } else { shown });
        rest = after;
    }
    out.push_str(rest);
    (one_line(&out), links)
}

/// Text in backticks.
enum Span<'t> {
    Code(&'t str),
    /// A link of reStructuredText, by what is shown of it.
    Link(&'t str),
}

/// Reads what stands in backticks at the begin of a text, and what follows it.
fn span(from: &str) -> Option<(Span<'_>, &str)> {
    if let Some((code, rest)) = from.strip_prefix("``").and_then(|inner| inner.split_once("``")) {
        return (!code.contains('`')).then_some((Span::Code(code), rest));
    }
    let (inner, rest) = from.strip_prefix('`')?.split_once('`')?;
    let ended = rest.trim_start_matches('_');
    let link = ended.len() < rest.len() && !ended.starts_with(char::is_alphanumeric);
    if link {
        let label = inner.split_once('<').map_or(inner, |(label, _)| label);
        return Some((Span::Link(label.trim()), ended));
    }
    Some((Span::Code(inner.trim_start_matches('~')), rest))
}

/// Returns a text without the role of reStructuredText at its end, as `:class:` is.
fn without_role(text: &str) -> &str {
    let role = text.strip_suffix(':').and_then(|inner| inner.rsplit_once(':'));
    match role {
        Some((before, name)) if !name.is_empty() && name.chars().all(char::is_alphanumeric) => {
            before
        }
        _ => text,
    }
}

/// Returns the visible part of a link, a picture or a tag at the beginning of a text, and the rest.
fn link(from: &str) -> Option<(&str, &str)> {
    if let Some(picture) = from.strip_prefix('!') {
        let (_, rest) = split_bracket(picture)?;
        return Some(("", target(rest).unwrap_or(rest)));
    }
    if let Some(tag) = from.strip_prefix('<') {
        let (inner, rest) = tag.split_once('>')?;
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') {
            return None;
        }
        return (inner.len() < 200 && !inner.contains(' ')
            || inner.contains('=')
            || inner.ends_with('/'))
        .then_some(("", rest));
    }
    let (shown, rest) = split_bracket(from)?;
    // A picture that leads somewhere is a badge.
    let shown = if shown.starts_with("![") { "" } else { shown };
    match target(rest) {
        Some(rest) => Some((shown, rest)),
        None => (shown.trim().len() > 1).then_some((shown, rest)),
    }
}

/// Returns the text after the target of a link.
fn target(rest: &str) -> Option<&str> {
    match rest.strip_prefix('(') {
        Some(target) => Some(target.split_once(')')?.1),
        None => Some(split_bracket(rest)?.1),
    }
}

/// Returns the text in brackets at the beginning of a text, and the rest.
pub(super) fn split_bracket(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let mut open = 1_usize;
    let end = inner.char_indices().find_map(|(at, c)| {
        open = match c {
            '[' => open + 1,
            ']' => open - 1,
            _ => open,
        };
        (open == 0).then_some(at)
    })?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}
