//! Whether a tool keeps its contract: linked, loaded or remote alike.
//!
//! [`check_tool`] looks at what a tool says of itself and makes the calls that it offers as
//! examples: alone, twice, side by side, cancelled before and in between. What it finds is a list
//! of [`Violation`]s, each with its [`ContractRule`] and what to do. It does not care who made the tool,
//! so one check serves a linked crate, a dynamic plugin and an MCP server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use deputize_check::check_tool;
//! use deputize_core::{Example, ToolCallResult, ToolCx, ToolOutput, ToolSpec, TypedTool};
//! use deputize_core::{erase, spec_of};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Args {
//!     /// What to turn around.
//!     text: String,
//! }
//!
//! struct Reverse;
//!
//! impl TypedTool for Reverse {
//!     type Args = Args;
//!     fn spec() -> ToolSpec {
//!         let arguments = serde_json::json!({"text": "stop"});
//!         ToolSpec {
//!             examples: vec![Example { title: "A word", arguments }],
//!             ..ToolSpec::read_only(spec_of::<Args>("reverse", "Turn a text around."))
//!         }
//!     }
//!     async fn run(&self, args: Args, _cx: &ToolCx) -> ToolCallResult {
//!         Ok(ToolOutput::text(args.text.chars().rev().collect::<String>()))
//!     }
//! }
//!
//! let checked = check_tool(&erase(Reverse)).await?;
//! assert!(checked.calls > 0 && checked.advice.is_empty());
//! # Ok(()) }
//! ```
//!
//! Tests get it, with much else, from `deputize-testkit`; a program that checks the tools of
//! others depends on this crate.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: to build on. A change that breaks a program waits for the next minor version,
//! after a version in which the old form is deprecated where that is possible. Rules may be
//! added: a tool that passes may have something to mend after an update.

mod calls;
mod conformance;
mod declared;
mod tool_harness;
mod violation;

pub use conformance::{CheckReport, ToolCheck, check_tool};
pub use tool_harness::{NoSpawn, ToolHarness};
pub use violation::{ContractRule, Violation, Violations};
