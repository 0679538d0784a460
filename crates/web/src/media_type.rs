//! What kind of document a body is.

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

/// Decodes a text by the charset of its media type, its byte order mark, or the declaration of a
/// page. What is malformed becomes U+FFFD.
pub(crate) fn decode(content_type: &str, body: &[u8]) -> String {
    let named = content_type.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        (name.trim().eq_ignore_ascii_case("charset")).then(|| value.trim().trim_matches('"'))
    });
    let declared = || {
        let head = String::from_utf8_lossy(body.get(..1024).unwrap_or(body)).to_ascii_lowercase();
        let (_, rest) = head.split_once("charset=")?;
        let rest = rest.trim_start_matches(['"', '\'']);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c));
        encoding_rs::Encoding::for_label(rest.get(..end.unwrap_or(rest.len()))?.as_bytes())
    };
    let named = named.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
    named.or_else(declared).unwrap_or(encoding_rs::UTF_8).decode(body).0.into_owned()
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
        assert_eq!(decode("text/html; charset=ISO-8859-1", b"caf\xe9"), "café");
        assert_eq!(
            decode("text/html", b"<meta charset=\"windows-1252\">\x80"),
            "<meta charset=\"windows-1252\">€"
        );
        assert_eq!(decode("text/plain; charset=\"utf-8\"", "é".as_bytes()), "é");
        assert_eq!(decode("text/plain", b"\xff\xfea\0"), "a");
        assert_eq!(decode("text/plain; charset=nothing", b"a\xff"), "a\u{fffd}");
    }
}
