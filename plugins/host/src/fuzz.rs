//! Functions for the fuzz targets.

use deputize_core::ToolError;
use tokio::io::AsyncRead;

use crate::wire::{HostMessage, message};

/// Messages of a host process, each as it would be written again, and the error after the last
/// one; `None` at the end of the input.
pub type Frames = (Vec<Vec<u8>>, Option<String>);

/// Reads all messages of a host process.
pub async fn read(mut from: impl AsyncRead + Unpin) -> Frames {
    let mut found = Vec::new();
    loop {
        match crate::wire::read::<HostMessage>(&mut from).await {
            Ok(Some((head, text))) => found.push(message(&head, &text).unwrap_or_default()),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

/// Reads all messages like [`read`], blocking.
#[must_use]
pub fn read_blocking(mut from: &[u8]) -> Frames {
    let mut found = Vec::new();
    loop {
        match crate::wire::read_blocking::<HostMessage>(&mut from) {
            Ok(Some((head, text))) => found.push(message(&head, &text).unwrap_or_default()),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}

/// Returns what is wrong with a plugin's answer to a call; `None` if it is valid.
#[must_use]
pub fn fault(answer: &str) -> Option<String> {
    match crate::answer::parse_answer(answer) {
        Ok(_) => {
            // Valid answers become results like those of any tool.
            let _given: Result<_, ToolError> = crate::answer::tool_result("fuzz", answer);
            None
        }
        Err(error) => Some(error.to_string()),
    }
}
