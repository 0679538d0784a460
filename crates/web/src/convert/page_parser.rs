//! Parses pages, and limits how deeply their elements are nested: a parser looks at all open elements
//! at each tag, so the time of deep pages grows with the square of their length.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use dom_query::{Document, NodeId};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer,
};
use html5ever::tree_builder::{Tracer, TreeBuilder, TreeBuilderOpts};
use html5ever::{LocalName, TokenizerResult};

/// The deepest nesting that is kept. Browsers keep 512.
const DEEPEST: usize = 512;
/// HTML elements that have no end, or whose content is no markup: no other element begins in them.
const FLAT: [&str; 22] = [
    "area", "base", "br", "col", "embed", "hr", "iframe", "img", "input", "link", "meta",
    "noembed", "noframes", "param", "script", "source", "style", "textarea", "title", "track",
    "wbr", "xmp",
];

/// Parses a page without the tags of elements that are nested too deeply; what is in them stays.
pub(super) fn parse_page(page: &str) -> Document {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let builder = TreeBuilder::new(Document::default(), options);
    let limited = LimitedBuilder { builder, left_out: RefCell::default() };
    let tokenizer = Tokenizer::new(limited, Default::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(page));
    // It stops at each script that ends.
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.builder.sink
}

/// A builder of a tree that gets no tag of an element that would be nested too deeply.
struct LimitedBuilder {
    builder: TreeBuilder<NodeId, Document>,
    /// How many begin tags of a name were left out, whose end tags are left out too.
    left_out: RefCell<BTreeMap<LocalName, usize>>,
}

impl LimitedBuilder {
    fn keeps(&self, tag: &Tag) -> bool {
        match tag.kind {
            TagKind::StartTag => self.keeps_begin(tag),
            TagKind::EndTag => self.keeps_end(tag),
        }
    }

    fn keeps_begin(&self, tag: &Tag) -> bool {
        let mut left_out = self.left_out.borrow_mut();
        if self.open_elements() < DEEPEST {
            // What was left out was in the deepest elements, of which one has ended.
            left_out.clear();
            return true;
        }
        let is_flat = if self.adjusted_current_node_present_but_not_in_html_namespace() {
            tag.self_closing
        } else {
            FLAT.contains(&&*tag.name)
        };
        if !is_flat {
            *left_out.entry(tag.name.clone()).or_default() += 1;
        }
        is_flat
    }

    fn keeps_end(&self, tag: &Tag) -> bool {
        match self.left_out.borrow_mut().get_mut(&tag.name) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        }
    }

    /// Returns how many elements the builder looks at: those that are open, those such as `<b>` that
    /// it would open again, and a few others.
    fn open_elements(&self) -> usize {
        let counter = HandleCounter::default();
        self.builder.trace_handles(&counter);
        counter.count.get()
    }
}

impl TokenSink for LimitedBuilder {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        match &token {
            Token::TagToken(tag) if !self.keeps(tag) => TokenSinkResult::Continue,
            _ => self.builder.process_token(token, line),
        }
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Counts the elements that a builder looks at.
#[derive(Default)]
struct HandleCounter {
    count: Cell<usize>,
}

impl Tracer for HandleCounter {
    type Handle = NodeId;

    fn trace_handle(&self, _: &NodeId) {
        self.count.set(self.count.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns how deeply the elements of a page are nested when it was parsed.
    fn depth(page: &str) -> usize {
        let document = parse_page(page);
        let mut nodes = vec![(document.root(), 0)];
        let mut deepest = 0;
        while let Some((node, depth)) = nodes.pop() {
            deepest = deepest.max(depth);
            nodes.extend(node.children().into_iter().map(|child| (child, depth + 1)));
        }
        deepest
    }

    fn html(page: &str) -> String {
        parse_page(page).html().to_string()
    }

    #[test]
    fn no_page_makes_elements_deeper_than_the_limit() {
        let divs = "<div>".repeat(5_000);
        for page in [
            divs.clone(),
            format!("<!-->{divs}"),
            format!("<!--->{divs}"),
            format!("<a =\">{divs}"),
            format!("<svg><style>{divs}"),
            format!("<svg><title>{}", "<g>".repeat(5_000)),
            format!("<math><mi>{divs}"),
            format!("<template>{divs}"),
            "<div><table><tr><td></div>".repeat(5_000),
            "<table><div>".repeat(5_000),
            "<template><svg><desc>".repeat(5_000),
            "<b><i>".repeat(5_000),
            "<button><object><marquee></button>".repeat(5_000),
            (0..5_000).map(|id| format!("<font size={id}>")).collect(),
        ] {
            let head = page.get(..26).unwrap();
            assert!(depth(&page) < 2 * DEEPEST, "{head}: {}", depth(&page));
        }
    }

    #[test]
    fn tags_beyond_the_deepest_nesting_are_left_out_and_their_text_stays() {
        let page =
            format!("{}<i>deep</i>{}<h1>end", "<DIV a='>'>".repeat(600), "</div>".repeat(600));
        let html = html(&page);
        let kept = html.matches("<div").count();
        assert!(kept > DEEPEST - 10 && kept <= DEEPEST, "{kept}");
        assert!(html.contains("<div a=\"&gt;\">deep</div>"), "{html}");
        assert!(html.contains("</div><h1>end</h1></body>"), "{html}");
    }

    #[test]
    fn elements_that_ended_count_no_more() {
        let deep = format!("{}<p>deep</h1>", "<div>".repeat(600));
        let page = format!("<section>{deep}</section><p>one</p>two");
        assert!(html(&page).ends_with("</section><p>one</p>two</body></html>"), "{}", html(&page));
        let page = format!("{}{}", "<div>".repeat(600), "<script>a<b</script><br>".repeat(2));
        let end = "<script>a<b</script><br><script>a<b</script><br></div>";
        assert!(html(&page).contains(end), "{}", html(&page));
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
            "<p>one<b>two".repeat(100),
        ] {
            assert_eq!(html(&page), Document::from(page.as_str()).html().to_string());
        }
    }

    proptest! {
        #[test]
        fn small_pages_are_parsed_as_without_a_limit(page in "(<(/?(a|b|p|td|table|svg|style|script|template|li)|!--|!)>?|-->|x|=\"){0,60}") {
            prop_assert_eq!(html(&page), Document::from(page.as_str()).html().to_string());
        }
    }
}
