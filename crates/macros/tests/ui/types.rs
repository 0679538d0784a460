//! What the types must be.
use std::rc::Rc;

use deputize_core::{ToolError, tool};

struct Plain;

struct OwnError;

/// A result that is no text.
#[tool(toolset = "words")]
async fn no_text() -> Plain {
    Plain
}

/// An error without a message.
#[tool(toolset = "words")]
async fn no_error() -> Result<String, OwnError> {
    Ok(String::new())
}

/// It cannot change its thread.
#[tool(toolset = "words")]
async fn not_send() -> Result<String, ToolError> {
    let kept = Rc::new(1);
    std::future::ready(()).await;
    Ok(kept.to_string())
}

fn main() {}
