//! Web pages as Markdown.

use dom_query::Document;
use dom_smoothie::{Config, Readability};
use url::Url;

use super::hidden::{SKIPPED, remove_hidden, remove_inline_addresses};
use super::page_parser::parse_page;
use super::{Conversion, ConvertedText};

/// Elements that are around the content of a page and repeat on each page of a site.
const AROUND: [&str; 3] = ["aside", "footer", "nav"];
/// Elements that are lines of their own, and that the library writes into the line.
const BLOCKS: [&str; 15] = [
    "address",
    "aside",
    "dd",
    "details",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "legend",
    "main",
    "nav",
    "summary",
];

/// Columns of a cell at most.
const WIDEST_CELL: usize = 50;

/// Converts a page. Of a page with one main text, only that text is kept, unless all of it is asked
/// for.
pub(crate) fn convert(page: &str, conversion: &Conversion) -> Result<ConvertedText, String> {
    let VisiblePage { document: page, hidden } = match conversion.whole {
        true => VisiblePage::parse(page),
        false => match article(VisiblePage::parse(page), &conversion.url) {
            Ok(article) => return Ok(article),
            Err(unchanged) => unchanged.unwrap_or_else(|| VisiblePage::parse(page)),
        },
    };
    let mut skipped = SKIPPED.to_vec();
    if !conversion.whole {
        skipped.extend(AROUND);
    }
    make_absolute(&page, &conversion.url);
    let title = page.select_single("title").text().trim().to_owned();
    let title = Some(title).filter(|title| !title.is_empty());
    Ok(ConvertedText { text: markdown(&page, &skipped), title, is_part: false, hidden })
}

/// What people see of a page.
struct VisiblePage {
    document: Document,
    /// Number of texts that they do not see.
    hidden: usize,
}

impl VisiblePage {
    fn parse(page: &str) -> Self {
        let document = parse_page(page);
        remove_inline_addresses(&document);
        let hidden = remove_hidden(&document);
        Self { document, hidden }
    }
}

/// Returns the main text of a page. Without one, returns the page, if it is still as it was.
fn article(page: VisiblePage, url: &str) -> Result<ConvertedText, Option<VisiblePage>> {
    let config = Config { keep_classes: true, ..Config::default() };
    let VisiblePage { document, hidden } = page;
    let reader = Readability::with_document(document, Some(url), Some(config));
    let mut reader = reader.map_err(|_| None)?;
    if !reader.is_probably_readable() {
        return Err(Some(VisiblePage { document: reader.doc, hidden }));
    }
    let article = reader.parse().map_err(|_| None)?;
    let text = markdown(&parse_page(&article.content), &SKIPPED);
    if text.trim().is_empty() {
        return Err(None);
    }
    let title = Some(article.title).filter(|title| !title.trim().is_empty());
    Ok(ConvertedText { text, title, is_part: true, hidden })
}

/// Returns a page as Markdown without these elements.
fn markdown(page: &Document, skipped: &[&str]) -> String {
    make_tables_even(page);
    let blocks: Vec<&str> = BLOCKS.iter().filter(|name| !skipped.contains(name)).copied().collect();
    page.select(&blocks.join(",")).rename("div");
    page.md(Some(skipped)).to_string()
}

/// Puts the caption of a table before it, and empty cells where a cell is wider than one: the library
/// leaves captions out, and runs the cells of uneven rows together.
fn make_tables_even(page: &Document) {
    for caption in page.select("table > caption").nodes() {
        if let Some(table) = caption.parent() {
            table.insert_before(caption);
            caption.rename("div");
        }
    }
    for cell in page.select("td[colspan], th[colspan]").nodes() {
        let width = cell.attr("colspan").and_then(|width| width.trim().parse().ok());
        for _ in 1..width.unwrap_or(1).min(WIDEST_CELL) {
            cell.insert_after(&page.tree.new_element("td"));
        }
    }
}

/// Makes the addresses of a page absolute, but for those of its own parts: as an article has them.
fn make_absolute(page: &Document, url: &str) {
    let Ok(mut base) = Url::parse(url) else { return };
    let given = page.base_uri().and_then(|given| base.join(&given).ok());
    let link = if given.is_some() { "a[href]" } else { "a[href]:not([href^='#'])" };
    base = given.unwrap_or(base);
    for (selector, attribute) in
        [(link, "href"), ("img[src]", "src"), ("img[data-src]", "data-src")]
    {
        for node in page.select(selector).nodes() {
            let address = node.attr(attribute).filter(|address| !address.trim().is_empty());
            if let Some(Ok(address)) = address.map(|address| base.join(&address)) {
                node.set_attr(attribute, address.as_str());
            }
        }
    }
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

        Some **bold** [link](https://example.org/a/x.html).

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
        assert!(
            whole.contains("[Home](https://example.org/)") && whole.contains("Imprint"),
            "{whole}"
        );
        assert!(!whole.contains("alert"), "{whole}");
    }

    #[test]
    fn what_is_a_line_of_its_own_is_one() {
        let page = "<details><summary>Sum</summary>body</details><dl><dt>term<dd>meaning</dl>\
            <figure><img src=i.png alt=i><figcaption>caption</figcaption></figure>\
            <header>top</header><main>middle</main><footer>end</footer>";
        insta::assert_snapshot!(shown(page, true), @r"
        None false
        Sum

        body

        term

        meaning

        ![i](https://example.org/a/i.png)

        caption

        top

        middle

        end
        ");
    }

    #[test]
    fn what_stands_in_a_form_is_read() {
        // Pages of ASP.NET are one form.
        let words = "Words of the page, with a comma. ";
        let article = format!("<p>{}</p>", words.repeat(20)).repeat(5);
        let inputs = "<input value=in><select><option>choice</select><button>Send</button>";
        let page =
            |text: &str| format!("<body><form action='/'><h1>Head</h1>{inputs}{text}</form>");
        for (text, is_part) in [(words, false), (&*article, true)] {
            for whole in [true, false] {
                let shown = shown(&page(text), whole);
                assert!(shown.starts_with(&format!("None {}\n", is_part && !whole)), "{shown}");
                assert!(shown.contains("Words of the page"), "{whole}: {shown}");
                assert!(!shown.contains("choice") && !shown.contains("Send"), "{shown}");
            }
        }
    }

    #[test]
    fn addresses_are_absolute() {
        let page = "<p><a href='?q=1'>query</a> <a href='#part'>part</a> <a href='mailto:a@b.c'>mail</a> \
            <a href='https://['>broken</a> <img src='../i.png' alt='image'></p>";
        insta::assert_snapshot!(shown(page, true), @r"
        None false
        [query](https://example.org/a/?q=1) [part](#part) [mail](mailto:a@b.c) [broken](https://[) ![image](https://example.org/i.png)
        ");
        let page = format!("<base href='/docs/'>{page}");
        insta::assert_snapshot!(shown(&page, false), @r"
        None false
        [query](https://example.org/docs/?q=1) [part](https://example.org/docs/#part) [mail](mailto:a@b.c) [broken](https://[) ![image](https://example.org/i.png)
        ");
    }

    /// Without a limit this takes minutes.
    #[test]
    fn a_page_that_is_nested_very_deeply_is_read() {
        let page = format!("{}deep{}", "<div>".repeat(100_000), "</div>".repeat(100_000));
        for whole in [false, true] {
            assert!(shown(&page, whole).ends_with("deep"), "{}", shown(&page, whole));
        }
        let page = format!("{}deep<script>no();", "<b><i>".repeat(100_000));
        let text = shown(&page, true);
        assert!(text.contains("deep") && !text.contains("no()"), "{text}");
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
