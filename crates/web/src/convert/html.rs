//! Web pages as Markdown.

use dom_query::Document;
use dom_smoothie::{Config, Readability};

use super::{Conversion, ConvertedText};

/// Elements that hold nothing to read.
const SKIPPED: [&str; 11] = [
    "button", "form", "head", "iframe", "input", "noscript", "script", "select", "style", "svg",
    "template",
];
/// Elements that are around the content of a page and repeat on each page of a site.
const AROUND: [&str; 3] = ["aside", "footer", "nav"];

/// Converts a page. Of a page with one main text, only that text is kept, unless all of it is asked
/// for.
pub(crate) fn convert(page: &str, conversion: &Conversion) -> Result<ConvertedText, String> {
    if !conversion.whole
        && let Some(article) = article(page, &conversion.url)
    {
        return Ok(article);
    }
    let page = Document::from(page);
    let mut skipped = SKIPPED.to_vec();
    if !conversion.whole {
        skipped.extend(AROUND);
    }
    let title = page.select_single("title").text().trim().to_owned();
    let title = Some(title).filter(|title| !title.is_empty());
    Ok(ConvertedText { text: page.md(Some(&skipped)).to_string(), title, is_part: false })
}

/// Returns the main text of a page; `None` if the page does not look as if it had one.
fn article(page: &str, url: &str) -> Option<ConvertedText> {
    let config = Config { keep_classes: true, ..Config::default() };
    let mut reader = Readability::new(page, Some(url), Some(config)).ok()?;
    if !reader.is_probably_readable() {
        return None;
    }
    let article = reader.parse().ok()?;
    let text = Document::from(article.content).md(Some(&SKIPPED)).to_string();
    (!text.trim().is_empty()).then(|| ConvertedText {
        text,
        title: Some(article.title).filter(|title| !title.trim().is_empty()),
        is_part: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: &str, whole: bool) -> String {
        let conversion = Conversion { whole, ..Conversion::html("https://example.org/a/") };
        let text = convert(page, &conversion).unwrap();
        format!("{:?} {}\n{}", text.title, text.is_part, text.text)
    }

    const SMALL: &str = "<!doctype html><html><head><title>A &amp; B</title><style>p {}</style></head><body>\
        <nav><a href='/'>Home</a></nav><h1>Head</h1><p>Some <b>bold</b> <a href='x.html'>link</a>.</p>\
        <ul><li>one<li>two</ul><pre><code class=\"language-rust\">fn main() {}\n</code></pre>\
        <table><tr><th>a<th>b<tr><td>1<td>2</table><script>alert(1)</script><footer>Imprint</footer>";

    #[test]
    fn a_page_becomes_markdown_without_what_is_around_it() {
        insta::assert_snapshot!(shown(SMALL, false), @r#"
        Some("A & B") false
        # Head

        Some **bold** [link](x.html).

        - one
        - two

        ```rust
        fn main() {}
        ```


        | a | b |
        | - | - |
        | 1 | 2 |
        "#);
        let whole = shown(SMALL, true);
        assert!(whole.contains("[Home](/)") && whole.contains("Imprint"), "{whole}");
        assert!(!whole.contains("alert"), "{whole}");
    }

    #[test]
    fn of_a_page_with_one_main_text_only_that_is_kept() {
        let words =
            "This is a long sentence about the matter of the page, with commas, and more of it. ";
        let paragraph = format!("<p>{}</p>", words.repeat(6));
        let page = format!(
            "<html><head><title>The matter</title></head><body><div class=\"menu\"><a href=\"/a\">Menu</a></div>\
             <article><h1>The matter</h1>{}<pre><code class=\"language-rust\">let x = 1;\n</code></pre></article>\
             <div class=\"sidebar\">Buy now</div></body></html>",
            paragraph.repeat(5)
        );
        let text = shown(&page, false);
        assert!(text.contains("This is a long sentence") && text.contains("```rust"), "{text}");
        assert!(!text.contains("Buy now") && !text.contains("Menu"), "{text}");
        assert!(shown(&page, true).contains("Buy now"));
    }
}
