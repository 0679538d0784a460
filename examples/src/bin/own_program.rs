//! `deputize` with a tool of one's own. A tool crate has the tool and `LINK`, and the program
//! names it; here both are one file. A program in a package of its own begins with
//! `#![deny(unused_crate_dependencies)]`, so that a crate it forgets is an error; this one shares
//! its `Cargo.toml` with the other examples.
//!
//! `own_program tools show count_words` shows it as models get it;
//! `own_program run "…"` runs an agent that has it.

use deputize_core::{ToolCx, ToolError, arguments, tool};

deputize_core::tool_crate!();

/// Which words are counted.
#[arguments]
#[derive(Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Every one.
    All,
    /// Each once.
    Different,
}

/// Count the words of a text.
#[tool(toolset = "words", effects = read_only, example("Two words", {"text": "a b a", "which": "different"}))]
pub async fn count_words(
    /// The text.
    text: String,
    /// Which words; all without it.
    which: Option<Which>,
    cx: &ToolCx,
) -> Result<String, ToolError> {
    if text.trim().is_empty() {
        return Err(ToolError::refused("the text has no words: send some"));
    }
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::default()));
    }
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if matches!(which, Some(Which::Different)) {
        words.sort_unstable();
        words.dedup();
    }
    Ok(words.len().to_string())
}

fn main() -> std::process::ExitCode {
    deputize::Cli::new().tools(deputize_tools::LINK).tools(LINK).run()
}
