//! Limits how deeply elements of a page are nested: a parser looks at all open elements at each tag,
//! so the time of deep pages grows with the square of their length.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The deepest nesting that is kept. Browsers keep 512.
const DEEPEST: usize = 512;
/// Elements that have no end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements whose content is no markup.
const RAW: [&str; 8] =
    ["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];
/// Elements that an element ends which begins directly in them, because their end may be left out.
const ENDED_BY: [(&str, &[&str]); 10] = [
    ("dd", &["dd", "dt"]),
    ("dt", &["dd", "dt"]),
    ("li", &["li"]),
    ("option", &["option"]),
    ("p", &["p"]),
    ("rp", &["rp", "rt"]),
    ("rt", &["rp", "rt"]),
    ("td", &["td", "th"]),
    ("th", &["td", "th"]),
    ("tr", &["td", "th", "tr"]),
];

/// Returns a page without the tags of elements that are nested too deeply; what is in them stays.
/// Tags are found more simply than a parser finds them. Where that errs, only such tags are lost.
pub(super) fn limit_nesting(page: &str) -> Cow<'_, str> {
    // No page nests more elements than it has tags.
    if page.matches('<').count() <= DEEPEST {
        return Cow::Borrowed(page);
    }
    let mut open = OpenElements::default();
    let mut kept = String::new();
    let mut copied = 0;
    let mut rest = 0;
    while let Some(tag) = Tag::find(page, rest) {
        rest = tag.end;
        let is_kept = if tag.is_end { open.end(&tag.name) } else { open.begin(&tag) };
        if !is_kept {
            kept.push_str(page.get(copied..tag.start).unwrap_or_default());
            copied = tag.end;
        } else if !tag.is_end && RAW.contains(&&*tag.name) {
            rest = end_of_raw(page, &tag);
        }
    }
    match copied {
        0 => Cow::Borrowed(page),
        copied => Cow::Owned(kept + page.get(copied..).unwrap_or_default()),
    }
}

/// The elements that are open at a place of a page.
#[derive(Default)]
struct OpenElements {
    names: Vec<String>,
    /// How many begin tags of a name were left out, whose end tags are left out too.
    left_out: BTreeMap<String, usize>,
}

impl OpenElements {
    /// Returns whether a begin tag is kept.
    fn begin(&mut self, tag: &Tag) -> bool {
        let is_foreign = || self.names.iter().any(|name| name == "svg" || name == "math");
        let has_no_elements = VOID.contains(&&*tag.name) || RAW.contains(&&*tag.name);
        if has_no_elements || (tag.is_closed && is_foreign()) {
            return true;
        }
        let ended = ENDED_BY.iter().find(|(name, _)| *name == tag.name);
        let ended = ended.map_or(&[][..], |(_, ended)| *ended);
        while self.names.last().is_some_and(|last| ended.contains(&&**last)) {
            self.names.pop();
        }
        if self.names.len() >= DEEPEST {
            *self.left_out.entry(tag.name.clone()).or_default() += 1;
            return false;
        }
        self.names.push(tag.name.clone());
        true
    }

    /// Returns whether an end tag is kept.
    fn end(&mut self, name: &str) -> bool {
        if let Some(count) = self.left_out.get_mut(name).filter(|count| **count > 0) {
            *count -= 1;
            return false;
        }
        if let Some(index) = self.names.iter().rposition(|open| open == name) {
            self.names.truncate(index);
        }
        true
    }
}

/// A tag of a page.
struct Tag {
    start: usize,
    /// Behind its last character.
    end: usize,
    /// In lower case.
    name: String,
    is_end: bool,
    /// Whether it ends with `/>`.
    is_closed: bool,
}

impl Tag {
    /// Returns the first tag from a place on. Comments and declarations are passed over.
    fn find(page: &str, from: usize) -> Option<Self> {
        let mut from = from;
        loop {
            let start = from + page.get(from..)?.find('<')?;
            let text = page.get(start..)?;
            if let Some(comment) = text.strip_prefix("<!--") {
                let length = comment.find("-->")?;
                from = start + "<!--".len() + length + "-->".len();
                continue;
            }
            let is_end = text.starts_with("</");
            let name = text.get(if is_end { 2 } else { 1 }..)?;
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                from = start + 1;
                continue;
            }
            let length = name.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>'));
            let name = name.get(..length.unwrap_or(name.len()))?.to_ascii_lowercase();
            let length = tag_length(text)?;
            let is_closed = text.get(..length)?.ends_with("/>");
            return Some(Self { start, end: start + length, name, is_end, is_closed });
        }
    }
}

/// Returns the length of the tag that a text begins with. A `>` in a value with quotes ends no tag.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut after_equals = false;
    for (index, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(index + 1),
            (None, b'"' | b'\'') if after_equals => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        after_equals = byte == b'=' || (after_equals && byte.is_ascii_whitespace());
    }
    None
}

/// Returns where the end tag of an element begins whose content is no markup.
fn end_of_raw(page: &str, tag: &Tag) -> usize {
    let mut from = tag.end;
    while let Some(text) = page.get(from..)
        && let Some(at) = text.find("</")
    {
        let start = from + at;
        let name = page.get(start + 2..start + 2 + tag.name.len());
        if name.is_some_and(|name| name.eq_ignore_ascii_case(&tag.name)) {
            return start;
        }
        from = start + 2;
    }
    page.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_beyond_the_deepest_nesting_are_left_out_and_their_text_stays() {
        let page =
            format!("{}<p>deep</p>{}<p>end", "<DIV a='>'>".repeat(600), "</div>".repeat(600));
        let limited = limit_nesting(&page);
        assert_eq!(limited.matches("<DIV").count(), DEEPEST);
        assert_eq!(limited.matches("</div>").count(), DEEPEST);
        assert!(limited.contains("<DIV a='>'>deep</div>"), "{limited}");
        assert!(limited.ends_with("</div><p>end"), "{limited}");
    }

    #[test]
    fn a_page_that_is_long_and_not_deep_stays_as_it_is() {
        for page in [
            "<ul>".to_owned() + &"<li>one".repeat(2_000) + "</ul>",
            "<table>".to_owned() + &"<tr><td>a<td>b".repeat(2_000) + "</table>",
            "<p>one<br><img src=a>".repeat(2_000),
            "<p>one<div>two</div>".repeat(2_000),
            "<svg><path d='M1'/><g><path/></g></svg>".repeat(2_000),
            "<script>if (a<b) c('<div>')</script><!-- <div> -->".repeat(2_000),
            "a < b, <3 and <!doctype x>".repeat(2_000),
            "<dl>".to_owned() + &"<dt>a<dd>b".repeat(2_000),
        ] {
            let head = page.get(..60).unwrap();
            assert!(matches!(limit_nesting(&page), Cow::Borrowed(_)), "{head}");
        }
    }

    #[test]
    fn what_is_not_finished_ends() {
        for end in ["<", "</", "<div", "<!--", "<div a=\"", "<script>", "<script></scrip"] {
            let page = "<div>".repeat(600) + end;
            assert!(limit_nesting(&page).ends_with(end), "{end}");
        }
    }
}
