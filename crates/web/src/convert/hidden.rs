//! What a page has in it and shows to nobody.

use dom_query::{Document, NodeRef};
use url::Url;

/// Elements that hold nothing to read.
pub(super) const SKIPPED: [&str; 10] = [
    "button", "head", "iframe", "input", "noscript", "script", "select", "style", "svg", "template",
];
/// Properties by which a style hides an element, and whether one in it can be shown again.
const HIDING: [(&str, bool); 3] = [("display", false), ("visibility", true), ("font-size", true)];
/// Elements that pages hide until a script has run.
const OUTERMOST: [&str; 2] = ["body", "html"];
/// Schemes of addresses that lead nowhere: the content itself, or a program.
const INLINE_SCHEMES: [&str; 3] = ["data", "javascript", "vbscript"];

/// Removes the elements that are hidden by an attribute of their own, and returns how many had a
/// text: people do not see it, so it may be there for models alone. What a style sheet hides stays.
pub(super) fn remove_hidden(page: &Document) -> usize {
    let hidden = page.select("[hidden], [style]");
    let hidden = hidden.nodes().iter().filter(|node| is_hidden(node));
    let outermost: Vec<&NodeRef<'_>> =
        hidden.filter(|node| !node.ancestors_it(None).any(|above| is_hidden(&above))).collect();
    let mut count = 0;
    for node in outermost {
        let is_read = node.node_name().is_none_or(|name| !SKIPPED.contains(&&*name));
        count += usize::from(is_read && !node.text().trim().is_empty());
        node.remove_from_parent();
    }
    count
}

fn is_hidden(node: &NodeRef<'_>) -> bool {
    if node.node_name().is_none_or(|name| OUTERMOST.contains(&&*name)) {
        return false;
    }
    // A browser shows what it finds in one with that value.
    let hidden = node.attr("hidden");
    hidden.is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || HIDING.iter().any(|(property, can_be_undone)| {
            let is_shown = |node: &NodeRef<'_>| hides(node, property) == Some(false);
            hides(node, property) == Some(true)
                && !(*can_be_undone && node.descendants_it().any(|node| is_shown(&node)))
        })
}

/// Returns whether the style of an element hides it by a property; `None` if it does not set that.
fn hides(node: &NodeRef<'_>, property: &str) -> Option<bool> {
    let style = node.attr("style")?;
    let settings = style.split(';').filter_map(|setting| setting.split_once(':'));
    let mut values = settings.filter(|(name, _)| name.trim().eq_ignore_ascii_case(property));
    let (_, value) = values.next_back()?;
    let value = value.split('!').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match property {
        "font-size" => {
            let is_unit = |c: char| c.is_ascii_alphabetic() || c == '%';
            value.trim_end_matches(is_unit).parse() == Ok(0.0)
        }
        _ => matches!(&*value, "none" | "hidden" | "collapse"),
    })
}

/// Removes addresses that have the content in them. The text of a link stays, and that of an image
/// without any other address.
pub(super) fn remove_inline_addresses(page: &Document) {
    for node in page.select("a[href], area[href]").nodes() {
        remove_inline(node, "href");
    }
    for image in page.select("img").nodes() {
        let removed = ["src", "srcset", "data-src"].map(|name| remove_inline(image, name));
        let is_left = ["src", "srcset", "data-src"].iter().any(|name| image.has_attr(name));
        if removed.contains(&true) && !is_left {
            let text = image.attr("alt").unwrap_or_default();
            image.replace_with(&page.tree.new_text(text));
        }
    }
}

/// Removes an attribute if it is an address with the content in it, and returns whether it was.
fn remove_inline(node: &NodeRef<'_>, attribute: &str) -> bool {
    let is_inline = node.attr(attribute).is_some_and(|address| is_inline_address(&address));
    if is_inline {
        node.remove_attr(attribute);
    }
    is_inline
}

fn is_inline_address(address: &str) -> bool {
    // A page has thousands of addresses, and to parse one takes microseconds.
    let first = address.trim_start_matches(|c: char| c <= ' ').chars().next();
    let first = first.map(|c| c.to_ascii_lowercase());
    let may_be = INLINE_SCHEMES.iter().any(|scheme| scheme.chars().next() == first);
    may_be
        && address.contains(':')
        && Url::parse(address).is_ok_and(|address| INLINE_SCHEMES.contains(&address.scheme()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::page_parser::parse_page;

    /// What is left of a page, with the number of hidden texts.
    fn left(page: &str) -> (usize, String) {
        let page = parse_page(page);
        remove_inline_addresses(&page);
        let count = remove_hidden(&page);
        (count, page.md(None).to_string())
    }

    #[test]
    fn hidden_elements_go_and_those_with_a_text_are_counted() {
        for hiding in [
            "hidden",
            "hidden=''",
            "style='display:none'",
            "style='color: red; DISPLAY : None !important'",
            "style='visibility:hidden'",
            "style='visibility:collapse;'",
            "style='font-size:0'",
            "style='font-size: 0.0px'",
            "style='display:block;display:none'",
        ] {
            let page = format!("<p>a</p><div {hiding}>x<p {hiding}>y</p></div><p>b</p>");
            assert_eq!(left(&page), (1, "a\n\nb".to_owned()), "{hiding}");
        }
        let empty = "<p>a</p><i hidden> </i><svg hidden><title>x</title></svg>";
        assert_eq!(left(empty), (0, "a".to_owned()));
    }

    #[test]
    fn what_people_see_stays() {
        for page in [
            "<body style='display:none'><p>a</p>",
            "<html style='visibility:hidden'><p>a</p>",
            "<p hidden=until-found>a</p>",
            "<p style='display:none;display:block'>a</p>",
            "<p style='font-size:10px'>a</p>",
            "<p aria-hidden=true>a</p>",
            // Mails and lists without space between their parts are made so.
            "<div style='font-size:0px'><p style='font-size:13px'>a</p></div>",
            "<div style='visibility:hidden'><p style='visibility:visible'>a</p></div>",
        ] {
            assert_eq!(left(page), (0, "a".to_owned()), "{page}");
        }
        let inner = "<div style='display:none'><p style='display:block'>a</p></div>";
        assert_eq!(left(inner), (1, String::new()));
    }

    #[test]
    fn an_address_with_the_content_in_it_goes_and_its_text_stays() {
        let page = "<p><img src='data:image/png;base64,AAAA' alt='a chart'> \
            <img src=' DATA:image/png,x'> <img src='data:image/gif,x' data-src='/lazy.png' alt='lazy'> \
            <img srcset='data:image/png;base64,AAAA 2x' alt='set'> \
            <a href='java\nscript:go()'>open</a> <a href='javascript:'>close</a> \
            <a href='data:text/html,x'><img src='data:image/png,x' alt='both'></a> \
            <a href='/data:x'>kept</a></p>";
        let text = "a chart ![lazy](/lazy.png) set open close both [kept](/data:x)";
        assert_eq!(left(page), (0, text.to_owned()));
    }
}
