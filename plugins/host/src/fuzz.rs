//! What the fuzz targets reach beside the public interface.

use deputize_core::ToolError;
use tokio::io::AsyncRead;

use crate::wire::{Tell, message};

/// Messages of a host process, each as it would be written again, and why there are no more of
/// them; nothing at the end.
pub type Frames = (Vec<Vec<u8>>, Option<String>);

/// Reads all that a host process tells.
pub async fn read(mut from: impl AsyncRead + Unpin) -> Frames {
    let mut found = Vec::new();
    loop {
        match crate::wire::read::<Tell>(&mut from).await {
            Ok(Some((head, text))) => found.push(message(&head, &text).unwrap_or_default()),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

/// The same, in a thread.
#[must_use]
pub fn read_blocking(mut from: &[u8]) -> Frames {
    let mut found = Vec::new();
    loop {
        match crate::wire::read_blocking::<Tell>(&mut from) {
            Ok(Some((head, text))) => found.push(message(&head, &text).unwrap_or_default()),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

/// What a plugin's answer to a call is wrong with, for the person; nothing where it is an answer.
#[must_use]
pub fn fault(answer: &str) -> Option<String> {
    match crate::answer::said(answer) {
        Ok(_) => {
            // What it says goes to a model or to the person by the same way as that of any tool.
            let _given: Result<_, ToolError> = crate::answer::result("fuzz", answer);
            None
        }
        Err(error) => Some(error.to_string()),
    }
}
