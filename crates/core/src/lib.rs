//! The vocabulary, traits and turn loop of Deputize, without IO.
//!
//! Depend on this crate to write a tool, a model or another component of an agent; depend on
//! `deputize-runtime` to run agents. Nothing here opens a file, starts a process, reads the
//! environment or reads a clock.
//!
//! A complete tool crate:
//!
//! ```
//! use deputize_core::{ToolError, tool};
//!
//! deputize_core::tool_crate!();
//!
//! /// Turn a text around.
//! #[tool(toolset = "words", effects = read_only)]
//! async fn reverse(
//!     /// The text.
//!     text: String,
//! ) -> Result<String, ToolError> {
//!     if text.is_empty() {
//!         return Err(ToolError::refused("the text is empty: send one"));
//!     }
//!     Ok(text.chars().rev().collect())
//! }
//!
//! let catalog = deputize_core::Catalog::linked(&[LINK])?;
//! assert!(catalog.get("reverse").is_some());
//! # Ok::<(), deputize_core::CatalogError>(())
//! ```
//!
//! # Where things are
//!
//! The root has what an author of tools needs. The rest is in modules by subject:
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`agent`], [`profile`], [`authority`], [`outcome`] | what an agent is made of, may do, and ends with |
//! | [`run`], [`step_calls`] | the loop as a state machine |
//! | [`model`], [`message`], [`image`], [`prompt`], [`context_use`], [`compaction`], [`cut_result`] | requests and replies, conversations, prompts |
//! | [`mod@tool`], [`schema`], [`origin`], [`server_names`], [`excerpt`], [`mod@todo`] | tools, their arguments, where they come from and how servers' are named, large results, the todo list |
//! | [`policy`], [`hook`], [`protected_path`], [`file_state`] | what judges and watches calls and files |
//! | [`nested_call`] | calls that a running call makes of its agent's tools |
//! | [`event`], [`clock`], [`future`], [`name`] | the stream of facts, time, futures, identifiers |
//! | [`budget`], [`rate_limit`], [`retry`] | costs, waiting and trying again |
//! | [`answer`], [`sanitize`], [`truncate`], [`wording`] | typed answers, text that is safe to show or send, or short, words of texts |
//! | [`source`], [`source_set`], [`outside_sources`] | who said a text, and what an agent read from outside |
//! | [`external_agent`], [`memory`], [`person`], [`process`], [`process_recorder`], [`setting_names`], [`shell_directory`] | what a host connects |
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `macros` | yes | the attributes [`tool`](macro@tool) and [`arguments`](macro@arguments) |
//!
//! Stability: to build on. A breaking change waits for the next minor version; where possible, a
//! version before it deprecates the old form.

pub mod agent;
mod agent_spec;
pub mod answer;
pub mod authority;
pub mod budget;
mod call_check;
mod cancel;
pub mod clock;
pub mod compaction;
pub mod context_use;
pub mod cut_result;
mod denial;
mod error_text;
mod escape;
pub mod event;
pub mod excerpt;
pub mod external_agent;
pub mod file_state;
pub mod future;
pub mod hook;
pub mod image;
pub mod memory;
pub mod message;
pub mod model;
pub mod name;
pub mod nested_call;
pub mod origin;
pub mod outcome;
pub mod outside_sources;
pub mod person;
pub mod policy;
pub mod process;
pub mod process_recorder;
pub mod profile;
pub mod prompt;
pub mod protected_path;
pub mod rate_limit;
mod resource;
pub mod retry;
pub mod run;
pub mod sanitize;
pub mod schema;
pub mod server_names;
pub mod setting_names;
pub mod shell_directory;
pub mod source;
pub mod source_set;
mod status;
pub mod step_calls;
pub mod todo;
pub mod tool;
mod tool_effect;
mod tool_output;
mod tool_return;
mod tool_spec;
mod tool_subject;
pub mod truncate;
pub mod wording;

pub use agent::Agent;
pub use authority::Authority;
pub use cancel::{Cancel, CancelReason};
pub use clock::Clock;
#[cfg(feature = "macros")]
pub use deputize_macros::{arguments, tool};
pub use error_text::describe_error;
pub use event::{Event, Observer, Record};
pub use future::BoxFuture;
pub use inventory;
pub use message::{Message, ToolCall, ToolResult};
pub use model::Model;
pub use name::{AgentId, CallId, SessionId, ToolName, ToolsetName};
pub use origin::Origin;
pub use outcome::Outcome;
pub use policy::{Approver, Policy};
pub use resource::{Resource, ResourceMap};
pub use schemars;
pub use serde;
pub use serde_json;
pub use status::Status;
pub use tool::{
    AgentView, Catalog, CatalogEntry, CatalogError, Tool, ToolCrate, ToolCx, ToolSource, TypedTool,
    erase,
};
pub use tool_effect::ToolEffect;
pub use tool_output::{Display, ToolCallResult, ToolError, ToolOutput};
pub use tool_return::Json;
pub use tool_spec::{Availability, Effects, Example, ParentOnly, ToolDecl, ToolSpec};
pub use tool_subject::{ArgumentRole, Subject, ToolKind};
