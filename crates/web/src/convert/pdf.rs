//! The text of PDF files.

use super::ConvertedText;

/// Returns the text of a PDF file, page by page.
pub(crate) fn convert(file: &[u8]) -> Result<ConvertedText, String> {
    let pages = pdf_extract::extract_text_from_mem_by_pages(file);
    let pages = pages.map_err(|_| "its structure cannot be read".to_owned())?;
    let mut text = String::new();
    for (index, page) in pages.iter().enumerate() {
        text.push_str(&format!("## Page {}\n\n{}\n\n", index + 1, page.trim()));
    }
    if pages.iter().all(|page| page.trim().is_empty()) {
        return Err("it has no text, only pictures perhaps".to_owned());
    }
    Ok(ConvertedText { text, title: None, is_part: false, hidden: 0 })
}
