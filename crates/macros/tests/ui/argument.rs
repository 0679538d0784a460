//! What an argument must be.
use deputize_core::{ToolCx, tool};

/// All of it wrong.
#[tool(toolset = "words")]
async fn wrong(
    /// Lent.
    text: &str,
    /// Lent, if at all.
    maybe: Option<&str>,
    undocumented: u32,
    /// In parts.
    (a, b): (u32, u32),
    owned: ToolCx,
) -> String {
    String::new()
}

/// Too many.
#[tool(toolset = "words")]
async fn two(first: &ToolCx, second: &ToolCx) -> String {
    String::new()
}

fn main() {}
