//! Documents as text: the part of the work that reads foreign bytes.

#[cfg(feature = "html")]
mod hidden;
#[cfg(feature = "html")]
mod html;
#[cfg(feature = "html")]
mod page_parser;
#[cfg(feature = "pdf")]
mod pdf;

use serde::{Deserialize, Serialize};

/// What is to be converted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Conversion {
    /// Whether it is a PDF file, or else a web page.
    pub(crate) pdf: bool,
    /// The address of the page, for its links.
    pub(crate) url: String,
    /// Whether all of the page is wanted, and not only its main text.
    pub(crate) whole: bool,
}

/// A document as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConvertedText {
    pub(crate) text: String,
    /// The title of the document, if it has one.
    pub(crate) title: Option<String>,
    /// Whether only the main text of a page is in it.
    pub(crate) is_part: bool,
    /// How many texts of a page that people do not see are not in it.
    pub(crate) hidden: usize,
}

impl Conversion {
    #[cfg(all(test, feature = "html"))]
    pub(crate) fn html(url: &str) -> Self {
        Self { pdf: false, url: url.to_owned(), whole: false }
    }

    /// Converts a document.
    pub(crate) fn run(&self, document: &[u8]) -> Result<ConvertedText, String> {
        if self.pdf { pdf_text(document) } else { html_text(document, self) }
    }
}

#[cfg(feature = "pdf")]
fn pdf_text(document: &[u8]) -> Result<ConvertedText, String> {
    pdf::convert(document)
}

#[cfg(not(feature = "pdf"))]
fn pdf_text(_: &[u8]) -> Result<ConvertedText, String> {
    Err("this program was built without a reader of PDF files".to_owned())
}

#[cfg(feature = "html")]
fn html_text(document: &[u8], conversion: &Conversion) -> Result<ConvertedText, String> {
    html::convert(&String::from_utf8_lossy(document), conversion)
}

#[cfg(not(feature = "html"))]
fn html_text(document: &[u8], _: &Conversion) -> Result<ConvertedText, String> {
    let text = String::from_utf8_lossy(document).into_owned();
    Ok(ConvertedText { text, title: None, is_part: false, hidden: 0 })
}
