//! What kind of document a body is, and its text.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// A kind of document that is shown as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    Html,
    Json,
    Pdf,
    Text,
}

impl DocumentKind {
    /// Returns the kind of a body by its media type, and by its beginning where that says nothing;
    /// `None` if it is no text.
    pub(crate) fn of(content_type: &str, body: &[u8]) -> Option<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media.as_str() {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "application/pdf" | "application/x-pdf" => Some(Self::Pdf),
            "application/json" | "text/json" => Some(Self::Json),
            "application/javascript"
            | "application/xml"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/x-sh"
            | "application/ld+json"
            | "application/x-ndjson"
            | "image/svg+xml" => Some(Self::Text),
            media if media.ends_with("+json") => Some(Self::Json),
            media if media.ends_with("+xml") || media.starts_with("text/") => Some(Self::Text),
            "" | "application/octet-stream" | "binary/octet-stream" => Self::sniff(body),
            _ => None,
        }
    }

    fn sniff(body: &[u8]) -> Option<Self> {
        let head = body.get(..1024).unwrap_or(body);
        if head.starts_with(b"%PDF-") {
            return Some(Self::Pdf);
        }
        if head.contains(&0) {
            return None;
        }
        let head = String::from_utf8_lossy(head).trim_start().to_ascii_lowercase();
        let is_html = head.starts_with("<!doctype html") || head.starts_with("<html");
        Some(if is_html { Self::Html } else { Self::Text })
    }
}

/// Decodes a text by the charset of its media type, its byte order mark, or the declaration of a page
/// or of XML. What is malformed becomes U+FFFD.
pub(crate) fn decode(kind: DocumentKind, content_type: &str, body: &[u8]) -> String {
    let named = content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        (name.trim().eq_ignore_ascii_case("charset")).then(|| value.trim().trim_matches('"'))
    });
    let named = named.and_then(|label| Encoding::for_label(label.as_bytes()));
    named.or_else(|| declared(kind, body)).unwrap_or(UTF_8).decode(body).0.into_owned()
}

/// Returns the encoding that a document declares in itself. One that could be read is not UTF-16,
/// whatever it says.
fn declared(kind: DocumentKind, body: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(body.get(..1024).unwrap_or(body)).to_ascii_lowercase();
    let xml = head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split("?>").next());
    let label = match (kind, xml) {
        (DocumentKind::Html | DocumentKind::Text, Some(xml)) => value_of(xml, "encoding"),
        _ => None,
    };
    let meta = || {
        let tags = head.split("<meta").skip(1).filter_map(|rest| rest.split('>').next());
        tags.filter(|_| kind == DocumentKind::Html).find_map(|tag| value_of(tag, "charset"))
    };
    let encoding = Encoding::for_label(label.or_else(meta)?.as_bytes())?;
    Some(if [UTF_16LE, UTF_16BE].contains(&encoding) { UTF_8 } else { encoding })
}

/// Returns what stands after a name and `=`.
fn value_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text.split_once(name)?.1.trim_start().strip_prefix('=')?;
    let rest = rest.trim_start().trim_start_matches(['"', '\'']);
    rest.split(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_the_type_or_the_beginning() {
        let rows: [(&str, &[u8], Option<DocumentKind>); 12] = [
            ("text/html; charset=utf-8", b"", Some(DocumentKind::Html)),
            ("TEXT/HTML", b"", Some(DocumentKind::Html)),
            ("application/json", b"", Some(DocumentKind::Json)),
            ("application/vnd.api+json", b"", Some(DocumentKind::Json)),
            ("application/pdf", b"", Some(DocumentKind::Pdf)),
            ("text/markdown", b"", Some(DocumentKind::Text)),
            ("application/atom+xml", b"", Some(DocumentKind::Text)),
            ("image/png", b"\x89PNG", None),
            ("application/octet-stream", b"%PDF-1.7", Some(DocumentKind::Pdf)),
            ("", b"\n<!DOCTYPE HTML><p>", Some(DocumentKind::Html)),
            ("", b"plain", Some(DocumentKind::Text)),
            ("", b"a\0b", None),
        ];
        for (content_type, body, kind) in rows {
            assert_eq!(DocumentKind::of(content_type, body), kind, "{content_type} {body:?}");
        }
    }

    #[test]
    fn texts_are_decoded_as_they_say() {
        let decoded = |content_type: &str, body: &[u8]| {
            decode(DocumentKind::of(content_type, body).unwrap(), content_type, body)
        };
        assert_eq!(decoded("text/html; charset=ISO-8859-1", b"caf\xe9"), "café");
        let page = |meta: &str, end: &[u8]| [meta.as_bytes(), end].concat();
        for (meta, end, expected) in [
            ("<meta charset=\"windows-1252\">", b"\x80".as_slice(), "€"),
            ("<meta content='text/html; charset = windows-1252'>", b"\x80", "€"),
            ("<?xml version='1.0' encoding='windows-1252'?><html>", b"\x80", "€"),
            // What is read as ASCII is not UTF-16.
            ("<meta charset=utf-16>", "é".as_bytes(), "é"),
            ("<script src='a.js?charset=windows-1252'></script>", "é".as_bytes(), "é"),
        ] {
            assert_eq!(decoded("text/html", &page(meta, end)), format!("{meta}{expected}"));
        }
        // Only pages have `<meta>`, and only XML has a declaration.
        for text in
            ["<meta charset=\"windows-1252\"> é", "iconv --encoding=latin1 charset=latin1 é"]
        {
            assert_eq!(decoded("text/plain", text.as_bytes()), text);
            assert_eq!(decoded("application/json", text.as_bytes()), text);
            assert_eq!(decoded("application/xml", text.as_bytes()), text);
        }
        let xml = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>";
        assert_eq!(decoded("application/xml", &page(xml, b"\xe9")), format!("{xml}é"));
        assert_eq!(decoded("application/json", &page(xml, "é".as_bytes())), format!("{xml}é"));
        assert_eq!(decoded("text/plain; charset=\"utf-8\"", "é".as_bytes()), "é");
        assert_eq!(decoded("text/plain", b"\xff\xfea\0"), "a");
        assert_eq!(decoded("text/plain; charset=nothing", b"a\xff"), "a\u{fffd}");
    }
}
