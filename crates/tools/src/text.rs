//! The encodings of text files: detected, decoded, and encoded again without loss.

use std::borrow::Cow;

use encoding_rs::{UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes at the beginning of a file in which a NUL makes it a binary one.
pub(crate) const HEAD: usize = 8 * 1024;

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF16_LE_MARK: &[u8] = b"\xff\xfe";
const UTF16_BE_MARK: &[u8] = b"\xfe\xff";

/// How the text of a file is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    /// With a byte order mark.
    Utf8Marked,
    Utf16Le,
    Utf16Be,
    /// Any text that is neither UTF-8 nor binary: every byte is a character.
    Windows1252,
}

impl Charset {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8Marked => "UTF-8 with a byte order mark",
            Self::Utf16Le => "UTF-16 LE",
            Self::Utf16Be => "UTF-16 BE",
            Self::Windows1252 => "windows-1252 (Latin-1)",
        }
    }

    /// Detects the encoding from the first bytes of a file; `Utf8` may later turn out to be
    /// `Windows1252`. `None` for a binary file.
    pub(crate) fn of_head(head: &[u8]) -> Option<Self> {
        let utf32 = head.starts_with(b"\xff\xfe\0\0");
        if head.starts_with(UTF8_MARK) {
            Some(Self::Utf8Marked)
        } else if head.starts_with(UTF16_LE_MARK) && !utf32 {
            Some(Self::Utf16Le)
        } else if head.starts_with(UTF16_BE_MARK) {
            Some(Self::Utf16Be)
        } else if head.get(..HEAD).unwrap_or(head).contains(&0) {
            None
        } else {
            Some(Self::Utf8)
        }
    }

    /// The bytes that a file begins with before its text.
    pub(crate) const fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 | Self::Windows1252 => b"",
            Self::Utf8Marked => UTF8_MARK,
            Self::Utf16Le => UTF16_LE_MARK,
            Self::Utf16Be => UTF16_BE_MARK,
        }
    }

    /// Decodes text without its mark; what is malformed becomes U+FFFD.
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            // Most text is well formed, which is found out faster than where it is not.
            Self::Utf8 | Self::Utf8Marked => match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) => String::from_utf8_lossy(bytes),
            },
            Self::Utf16Le => UTF_16LE.decode_without_bom_handling(bytes).0,
            Self::Utf16Be => UTF_16BE.decode_without_bom_handling(bytes).0,
            Self::Windows1252 => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        }
    }

    /// Encodes text, with the mark before it.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, TextError> {
        let mut bytes = self.mark().to_vec();
        match self {
            Self::Utf8 | Self::Utf8Marked => bytes.extend_from_slice(text.as_bytes()),
            Self::Utf16Le => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Self::Utf16Be => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
            Self::Windows1252 => {
                let absent = |c: &char| WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2;
                if let Some(character) = text.chars().find(absent) {
                    return Err(TextError::Absent { character, charset: self.name() });
                }
                bytes.extend_from_slice(&WINDOWS_1252.encode(text).0);
            }
        }
        Ok(bytes)
    }
}

/// Why the bytes of a file cannot be edited as text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextError {
    #[error("binary file ({0})")]
    Binary(&'static str),
    #[error("malformed {0} text, which would not survive the edit")]
    Malformed(&'static str),
    #[error("the file is {charset} and has no character {character:?} (U+{:04X})", u32::from(*character))]
    Absent { character: char, charset: &'static str },
}

/// A file's text and how to write it down again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileText {
    pub(crate) text: String,
    pub(crate) charset: Charset,
}

impl FileText {
    /// Decodes a file, if encoding it again gives the same bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, TextError> {
        let mut charset = Charset::of_head(bytes).ok_or_else(|| TextError::Binary(guess(bytes)))?;
        if charset == Charset::Utf8 && std::str::from_utf8(bytes).is_err() {
            charset = Charset::Windows1252;
        }
        let body = bytes.strip_prefix(charset.mark()).unwrap_or(bytes);
        let text = charset.decode(body).into_owned();
        if charset.encode(&text).as_deref() != Ok(bytes) {
            return Err(TextError::Malformed(charset.name()));
        }
        Ok(Self { text, charset })
    }
}

/// Whether bytes that come in pieces are UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Utf8Check {
    rest: Vec<u8>,
    broken: bool,
}

impl Utf8Check {
    /// Takes the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        if self.broken {
            return;
        }
        let joined;
        let bytes = if self.rest.is_empty() {
            piece
        } else {
            joined = [self.rest.as_slice(), piece].concat();
            &joined
        };
        let Err(error) = std::str::from_utf8(bytes) else {
            self.rest.clear();
            return;
        };
        self.broken = error.error_len().is_some();
        self.rest = bytes.get(error.valid_up_to()..).unwrap_or_default().to_vec();
    }

    /// Whether all of it was.
    pub(crate) fn is_valid(&self) -> bool {
        !self.broken && self.rest.is_empty()
    }
}

/// Guesses the kind of a binary file from its first bytes.
pub(crate) fn guess(head: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 24] = [
        (b"\x7fELF", "ELF program or library"),
        (b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
        (b"MZ", "Windows program or library"),
        (b"\0asm", "WebAssembly module"),
        (b"\xca\xfe\xba\xbe", "Java class or universal binary"),
        (b"!<arch>\n", "static library"),
        (b"\x89PNG", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"RIFF", "RIFF image, sound or video"),
        (b"\0\0\x01\0", "icon"),
        (b"%PDF", "PDF document"),
        (b"PK\x03\x04", "ZIP archive or office document"),
        (b"\x1f\x8b", "gzip archive"),
        (b"BZh", "bzip2 archive"),
        (b"\xfd7zXZ", "xz archive"),
        (b"\x28\xb5\x2f\xfd", "zstd archive"),
        (b"7z\xbc\xaf", "7z archive"),
        (b"SQLite format 3", "SQLite database"),
        (b"ID3", "MP3 sound"),
        (b"OggS", "Ogg sound or video"),
        (b"wOF2", "web font"),
        (b"DIRC", "git index"),
        (b"\xff\xfe\0\0", "UTF-32 text"),
    ];
    if let Some((_, kind)) = KINDS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return kind;
    }
    if head.get(257..262) == Some(b"ustar") {
        return "tar archive";
    }
    if head.get(4..8) == Some(b"ftyp") {
        return "MP4 video or HEIF image";
    }
    // Text in UTF-16 without a mark has its NULs on one side of each pair.
    let nul_share = |first: usize| {
        let side = head.iter().skip(first).step_by(2).take(200);
        let mut all = 0;
        let mut nul = 0;
        side.for_each(|byte| (all, nul) = (all + 1, nul + usize::from(*byte == 0)));
        nul * 10 > all * 7
    };
    match (nul_share(0), nul_share(1)) {
        (true, false) | (false, true) => "perhaps UTF-16 text without a byte order mark",
        _ => "unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> String {
        match FileText::decode(bytes) {
            Ok(text) => format!("{}: {}", text.charset.name(), text.text),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_encoding_is_distinguished() {
        assert_eq!(decoded(b"a\xc3\xa9"), "UTF-8: aé");
        assert_eq!(decoded(b"\xef\xbb\xbfa"), "UTF-8 with a byte order mark: a");
        assert_eq!(decoded(b"\xff\xfea\0"), "UTF-16 LE: a");
        assert_eq!(decoded(b"\xfe\xff\0a"), "UTF-16 BE: a");
        assert_eq!(decoded(b"caf\xe9 \x81\x80"), "windows-1252 (Latin-1): café \u{81}€");
        assert_eq!(decoded(b"\x89PNG\r\n\x1a\n\0"), "binary file (PNG image)");
        assert_eq!(decoded(b"\xff\xfe\0\0a\0\0\0"), "binary file (UTF-32 text)");
        assert_eq!(
            decoded(b"h\0e\0l\0l\0o\0"),
            "binary file (perhaps UTF-16 text without a byte order mark)"
        );
    }

    #[test]
    fn what_would_not_survive_an_edit_is_refused() {
        assert_eq!(
            decoded(b"\xff\xfe\x00\xd8a\0"),
            "malformed UTF-16 LE text, which would not survive the edit"
        );
        assert_eq!(
            decoded(b"\xff\xfea"),
            "malformed UTF-16 LE text, which would not survive the edit"
        );
        assert_eq!(
            decoded(b"\xef\xbb\xbf\xff"),
            "malformed UTF-8 with a byte order mark text, which would not survive the edit"
        );
        assert_eq!(
            Charset::Windows1252.encode("a→b").unwrap_err().to_string(),
            "the file is windows-1252 (Latin-1) and has no character '→' (U+2192)"
        );
    }

    proptest! {
        #[test]
        fn whatever_decodes_encodes_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64), marked in 0..4usize) {
            let mark: &[u8] = [b"".as_slice(), UTF8_MARK, UTF16_LE_MARK, UTF16_BE_MARK][marked];
            let bytes = [mark, &bytes].concat();
            if let Ok(text) = FileText::decode(&bytes) {
                prop_assert_eq!(text.charset.encode(&text.text).unwrap(), bytes);
            }
        }

        #[test]
        fn utf8_in_pieces_is_utf8(text in ".{0,40}", cut in 0..9usize, junk in any::<bool>()) {
            let mut bytes = text.into_bytes();
            if junk { bytes.push(0xff) }
            let mut check = Utf8Check::default();
            bytes.chunks(cut + 1).for_each(|piece| check.feed(piece));
            prop_assert_eq!(check.is_valid(), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
