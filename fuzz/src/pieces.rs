//! A stream that gives bytes as they were cut, and never has one wait.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// The pieces that are left.
#[derive(Debug)]
pub struct Pieces<'b>(Vec<&'b [u8]>);

impl<'b> Pieces<'b> {
    /// These pieces, in their order.
    #[must_use]
    pub fn new(mut pieces: Vec<&'b [u8]>) -> Self {
        // An empty piece would be read as the end.
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        Self(pieces)
    }
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.pop() {
            let (now, later) = piece.split_at(piece.len().min(into.remaining()));
            into.put_slice(now);
            if !later.is_empty() {
                self.0.push(later);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Does work that never waits.
///
/// # Panics
/// When there can be no runtime.
pub fn at_once<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(work)
}
