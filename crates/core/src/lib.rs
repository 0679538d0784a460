//! The vocabulary, the traits and the turn loop of Deputize, without IO.
//!
//! Depend on this crate to write a tool, a model, or another part that works with an agent;
//! depend on `deputize-runtime` to run one. Nothing here opens a file, starts a process,
//! reads the environment or looks at a clock.
//!
//! A tool crate in full:
//!
//! ```
//! use deputize_core::{ToolCallResult, ToolCx, ToolOutput, ToolSpec, TypedTool, spec_of};
//!
//! deputize_core::tool_crate!();
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
//!         ToolSpec::read_only(spec_of::<Args>("reverse", "Turn a text around."))
//!     }
//!     async fn run(&self, args: Args, _cx: &ToolCx) -> ToolCallResult {
//!         Ok(ToolOutput::text(args.text.chars().rev().collect::<String>()))
//!     }
//! }
//!
//! deputize_core::register_tool!("words", Reverse);
//!
//! let catalog = deputize_core::Catalog::linked(&[LINK])?;
//! assert!(catalog.get("reverse").is_some());
//! # Ok::<(), deputize_core::CatalogError>(())
//! ```

mod agent;
mod answer;
mod authority;
mod budget;
mod cancel;
mod catalog;
mod clock;
mod context_use;
pub mod door;
mod event;
mod external;
mod file_state;
mod gate;
mod hook;
mod memory;
mod message;
mod model;
mod name;
mod outcome;
mod policy;
mod prompt;
mod retry;
mod returned;
mod run;
mod schema;
mod tool;

pub use agent::{
    Agent, AgentSpec, AgentView, AttachError, Glance, Handoff, Limits, Progress, Resource, Role,
    SessionView, Spawn, SpawnedBy, Store, ToolCx,
};
pub use answer::{CORRECTIONS, ValueError, rejection, value_in};
pub use authority::{ApproverMode, Authority, Grant, NotPermitted};
pub use budget::{Budget, Cost, Fit, Price, Purse};
pub use cancel::{Cancel, CancelReason};
pub use catalog::{
    Catalog, CatalogError, Entry, Origin, Registration, ToolCrate, Toolset, ToolsetError,
};
pub use clock::{Clock, FixedClock};
pub use context_use::ContextUse;
#[cfg(feature = "macros")]
pub use deputize_macros::{arguments, tool};
pub use event::{
    AgentStart, Endpoint, Event, Journal, JournalError, LogLevel, Observer, Record, SessionStart,
    ToolEnd,
};
pub use external::{External, Host, Told};
pub use file_state::{Extent, FileLedger, OnStaleWrite, Stale, Version};
pub use gate::{Admission, GateState, Leave, Next, Pass, RateGate, Ticket};
pub use hook::{Hook, HookAnswer, HookDecision, HookInput, HookPoint, HookRun, Moment};
pub use inventory;
pub use memory::{MEMORY_SECONDS, Memory, MemoryError};
pub use message::{
    AssistantMessage, CallStatus, Message, ModelText, Opaque, ToolCall, ToolResult, UserMessage,
};
pub use model::{
    BoxFuture, Delta, FailureKind, Finish, Model, ModelError, ModelOptions, PARTIAL_BYTES, RawCall,
    Reply, Request, ToolChoice, Usage, kept_partial,
};
pub use name::{AgentId, CallId, NameError, SessionId, ToolName, ToolsetName};
pub use outcome::{ExitReason, Outcome, Receipts, Status, ToolTrace};
pub use policy::{AllowAll, Answer, Approver, NoPerson, Policy, Question, Verdict, effective_mode};
pub use prompt::{FillError, Prompt, PromptParts, Section, fill};
pub use retry::{RetryPolicy, retry_wait};
pub use returned::{IntoToolCallResult, IntoToolOutput, Json};
pub use run::{End, Input, Run, Step, WrapUp};
pub use schema::{Schema, SchemaError};
pub use schemars;
pub use serde;
pub use serde_json;
pub use tool::{
    ChildFound, Display, Effects, Example, Fact, Tool, ToolCallResult, ToolDecl, ToolError,
    ToolOutput, ToolSpec, TypedTool, Usable, erase, headline, spec_of,
};
