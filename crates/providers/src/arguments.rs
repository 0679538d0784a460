//! Arguments of calls, as models and servers write them.

use crate::json::Json;

/// How far a JSON object has come, kept up with each piece: looking at the whole text again
/// and again would take the square of its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ObjectProgress {
    #[default]
    Blank,
    Open {
        depth: usize,
        quoted: bool,
        escaped: bool,
    },
    Closed,
    Other,
}

impl ObjectProgress {
    pub(crate) fn with(self, text: &str) -> Self {
        text.bytes().fold(self, Self::after)
    }

    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Blank | Self::Closed, byte) if byte.is_ascii_whitespace() => self,
            (Self::Blank, b'{') => Self::Open { depth: 1, quoted: false, escaped: false },
            (Self::Blank | Self::Closed | Self::Other, _) => Self::Other,
            (Self::Open { depth, quoted: true, escaped: true }, _) => {
                Self::Open { depth, quoted: true, escaped: false }
            }
            (Self::Open { depth, quoted: true, .. }, b'\\') => {
                Self::Open { depth, quoted: true, escaped: true }
            }
            (Self::Open { depth, quoted, .. }, b'"') => {
                Self::Open { depth, quoted: !quoted, escaped: false }
            }
            (Self::Open { depth: 1, quoted: false, .. }, b'}') => Self::Closed,
            (Self::Open { depth, quoted: false, .. }, b'{' | b'[') => {
                Self::Open { depth: depth + 1, quoted: false, escaped: false }
            }
            (Self::Open { depth, quoted: false, .. }, b'}' | b']') => {
                Self::Open { depth: depth.saturating_sub(1).max(1), quoted: false, escaped: false }
            }
            (open @ Self::Open { .. }, _) => open,
        }
    }
}

/// The text of arguments; some servers give an object in its place.
pub(crate) fn text_of(value: Option<&Json<'_>>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone().into_owned(),
        Some(other) => other.to_string(),
    }
}

/// Whether a text is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    let text = text.trim();
    ObjectProgress::default().with(text) == ObjectProgress::Closed
        && crate::json::parse(text).is_ok()
}

/// Returns arguments with unambiguous repairs; everything else stays as received, so that the model
/// gets an error.
pub(crate) fn mended(arguments: &str) -> String {
    let text = arguments.trim();
    if text.is_empty() || text == "null" {
        return "{}".to_owned();
    }
    // An object that was written as JSON twice.
    if text.starts_with('"')
        && let Ok(inner) = serde_json::from_str::<String>(text)
        && is_object(&inner)
    {
        return inner;
    }
    let halves = text.split_at_checked(text.len() / 2);
    match halves {
        Some((one, two)) if one == two && is_object(one) => one.to_owned(),
        _ => arguments.to_owned(),
    }
}
