//! Splits what a browser writes into messages.

/// Bytes of a message that is too large, of which its number is read.
const HEAD: usize = 64;

/// Splits bytes at each zero byte. A message of more than a limit is passed over.
#[derive(Debug)]
pub(crate) struct MessageSplitter {
    limit: usize,
    message: Vec<u8>,
    /// The number of a message that is too large, until its end.
    passing: Option<Option<u64>>,
}

/// What was found in the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MessagePart<'m> {
    Message(&'m [u8]),
    /// A message that was passed over, with its number if it begins with one.
    TooLarge {
        id: Option<u64>,
    },
}

impl MessageSplitter {
    /// Creates a splitter for messages of at most so many bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, message: Vec::new(), passing: None }
    }

    /// Takes further bytes and hands out each message that they end.
    pub(crate) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(MessagePart<'_>)) {
        let mut pieces = bytes.split(|byte| *byte == 0).peekable();
        while let Some(piece) = pieces.next() {
            self.add(piece);
            if pieces.peek().is_none() {
                return;
            }
            match self.passing.take() {
                Some(id) => take(MessagePart::TooLarge { id }),
                None => take(MessagePart::Message(&self.message)),
            }
            if self.message.capacity() > HEAD * 1024 {
                // One large message does not hold its memory.
                self.message = Vec::new();
            }
            self.message.clear();
        }
    }

    fn add(&mut self, piece: &[u8]) {
        if self.passing.is_some() {
            return;
        }
        if self.message.len() + piece.len() <= self.limit {
            self.message.extend_from_slice(piece);
            return;
        }
        let head: Vec<u8> = self.message.iter().chain(piece).take(HEAD).copied().collect();
        self.passing = Some(number(&head));
        self.message = Vec::new();
    }
}

/// The number at the beginning of a message: `{"id":7,`.
fn number(head: &[u8]) -> Option<u64> {
    let rest = head.strip_prefix(b"{\"id\":")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut splitter = MessageSplitter::new(limit);
        let mut parts = Vec::new();
        for piece in pieces {
            splitter.push(piece, |part| {
                parts.push(match part {
                    MessagePart::Message(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    MessagePart::TooLarge { id } => format!("too large: {id:?}"),
                });
            });
        }
        parts
    }

    #[test]
    fn messages_are_split_and_large_ones_passed_over() {
        assert_eq!(split(100, &[b"a\0b", b"c\0", b"", b"\0d"]), ["a", "bc", ""]);
        let large: &[&[u8]] = &[b"{\"id\":17,\"re", b"sult\":{}}", b"\0{}\0"];
        assert_eq!(split(12, large), ["too large: Some(17)", "{}"]);
        assert_eq!(split(4, &[b"{\"method\":1}\0ab\0"]), ["too large: None", "ab"]);
    }

    proptest::proptest! {
        /// However the bytes arrive, the messages are the same.
        #[test]
        fn pieces_make_no_difference(
            bytes in proptest::collection::vec(0_u8..4, 0..60),
            cut in 0_usize..60,
        ) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            proptest::prop_assert_eq!(split(5, &[&bytes]), split(5, &[a, b]));
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            proptest::prop_assert_eq!(split(5, &[&bytes]), split(5, &single));
        }
    }
}
