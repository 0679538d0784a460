//! What the fuzz targets of this repository reach.

use crate::ax_node::AxTree;
use crate::element_refs::ElementRefs;
use crate::message_splitter::{MessagePart, MessageSplitter};
use crate::page_text::{PageFrames, page_text};

/// Writes the tree of a page as a text; `None` if the bytes are no such tree.
#[must_use]
pub fn text_of_tree(bytes: &[u8]) -> Option<String> {
    let main: AxTree = serde_json::from_slice(bytes).ok()?;
    let frames = PageFrames { main, ..PageFrames::default() };
    Some(page_text(&frames, &mut ElementRefs::default()))
}

/// Splits what a browser writes into messages of at most so many bytes; `None` for a larger one.
#[must_use]
pub fn messages(limit: usize, pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut splitter = MessageSplitter::new(limit);
    let mut found = Vec::new();
    for piece in pieces {
        splitter.push(piece, |part| {
            found.push(match part {
                MessagePart::Message(bytes) => Some(bytes.to_owned()),
                MessagePart::TooLarge { .. } => None,
            });
        });
    }
    found
}
