//! Checks that a tool keeps its contract, whether linked, loaded or remote.
//!
//! [`check_tool`] checks a tool's specification and runs its examples: alone, twice, concurrently,
//! and cancelled before and during the call. It returns a list of [`Violation`]s, each with its
//! [`ContractRule`] and what to do. Who made the tool does not matter, so the same check serves
//! linked crates, plugins and MCP servers.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use deputize_check::check_tool;
//! use deputize_core::{Example, ToolCallResult, ToolCx, ToolOutput, ToolSpec, TypedTool};
//! use deputize_core::erase;
//! use deputize_core::tool::spec_of;
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
//! Tests get this crate as part of `deputize-testkit`; a program that checks other people's tools
//! depends on it directly.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: to build on. A breaking change waits for the next minor version; where possible, a
//! version before it deprecates the old form. Rules may be added: a tool that passes may need
//! changes after an update.

mod calls;
mod conformance;
mod declared;
mod tool_harness;
mod violation;

pub use conformance::{CheckReport, ToolCheck, check_tool};
pub use tool_harness::ToolHarness;
pub use violation::{CallRule, ContractRule, SpecRule, Violation, Violations};
