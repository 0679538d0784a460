//! Whether more of a reply is wanted, and how its bytes ended.

/// Whether more bytes are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStatus {
    /// More bytes are wanted.
    More,
    /// The end mark was seen.
    Done,
}

/// How the bytes of a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The body was over, as the transport frames it: by its length or its last chunk.
    InOrder,
    /// The connection was closed, and the body had no other end: it may be whole or cut.
    Closed,
    /// Nothing came any more.
    Silent,
    /// The connection broke inside the body.
    Broken,
}

impl StreamEnd {
    /// Whether the transport says that there was no more.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::InOrder | Self::Closed)
    }
}
