//! Text that arrives in pieces, perhaps cut inside a character.

use crate::json::surrogate_of;

/// A growing text. The first half of a character waits for its second half.
#[derive(Debug, Default)]
pub(crate) struct Utf16Text {
    whole: String,
    high: Option<u16>,
}

impl Utf16Text {
    /// Adds a piece, and returns the added text. `marked` is whether the piece has marks for lone
    /// surrogates.
    pub(crate) fn push(&mut self, piece: &str, marked: bool) -> &str {
        let from = self.whole.len();
        if marked {
            for char in piece.chars() {
                self.push_char(char);
            }
        } else if !piece.is_empty() {
            self.give_up();
            self.whole.push_str(piece);
        }
        self.whole.get(from..).unwrap_or_default()
    }

    fn push_char(&mut self, char: char) {
        match surrogate_of(char) {
            Some(high @ ..=0xDBFF) => {
                self.give_up();
                self.high = Some(high);
            }
            Some(low) => {
                let pair = char::decode_utf16([self.high.take().unwrap_or(low), low]).next();
                let char = pair.and_then(Result::ok);
                self.whole.push(char.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            None => {
                self.give_up();
                self.whole.push(char);
            }
        }
    }

    /// A first half stays alone.
    fn give_up(&mut self) {
        if self.high.take().is_some() {
            self.whole.push(char::REPLACEMENT_CHARACTER);
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.whole
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.high.is_none()
    }

    pub(crate) fn into_string(mut self) -> String {
        self.give_up();
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut text = Utf16Text::default();
        let mut grown = String::new();
        for piece in pieces {
            let quoted = format!("\"{piece}\"");
            let json = crate::json::parse(&quoted).unwrap();
            grown.push_str(text.push(json.value.as_str().unwrap(), json.marked));
        }
        let whole = text.into_string();
        assert!(whole.starts_with(&grown));
        whole
    }

    #[test]
    fn halves_of_a_character_meet() {
        assert_eq!(joined(&[r"a\ud83d", r"\ude00b"]), "a\u{1f600}b");
        assert_eq!(joined(&[r"\ud83d", "", r"\ude00"]), "\u{1f600}");
    }

    #[test]
    fn a_half_that_stays_alone_is_replaced() {
        assert_eq!(joined(&[r"\ud83d", "b"]), "\u{fffd}b");
        assert_eq!(joined(&[r"\ud83d\ud83d", r"\ude00"]), "\u{fffd}\u{1f600}");
        assert_eq!(joined(&[r"\ude00x"]), "\u{fffd}x");
        assert_eq!(joined(&[r"x\ud83d"]), "x\u{fffd}");
    }
}
