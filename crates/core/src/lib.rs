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
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `macros` | yes | the attributes [`tool`](macro@tool) and [`arguments`](macro@arguments) |
//!
//! Stability: to build on. A breaking change waits for the next minor version; where possible, a
//! version before it deprecates the old form.

mod agent;
mod agent_spec;
mod answer;
mod authority;
mod budget;
mod cancel;
mod clock;
mod context_use;
mod error_text;
mod escape;
mod event;
mod excerpt;
mod external_agent;
mod file_state;
mod future;
mod hook;
mod memory;
mod message;
mod model;
mod name;
mod origin;
mod outcome;
mod policy;
mod prompt;
mod protected_path;
mod rate_limit;
mod resource;
mod retry;
mod run;
pub mod sanitize;
mod schema;
mod shell_directory;
mod status;
mod step_calls;
mod tool;
mod tool_effect;
mod tool_output;
mod tool_return;
mod tool_spec;
mod tool_subject;

pub use agent::{Agent, AgentActivity, AgentSummary, AttachError, Delivery};
pub use agent_spec::{AgentLimits, AgentSpec, Role, SpawnedBy};
pub use answer::{AnswerValue, CORRECTIONS, rejection, values_in};
pub use authority::{ApproverMode, Authority, Grant, NotPermitted};
pub use budget::{
    Budget, BudgetAccount, Cost, OutputEstimator, Price, Reservation, ReserveRequest,
    ReserveResult, TaskCost, TaskCostEstimator, TokenEstimator, shown_usd,
};
pub use cancel::{Cancel, CancelReason};
pub use clock::{Clock, FixedClock};
pub use context_use::ContextUse;
#[cfg(feature = "macros")]
pub use deputize_macros::{arguments, tool};
pub use error_text::describe_error;
pub use event::{
    AgentStart, Event, Journal, JournalError, LogLevel, ModelEndpoint, Observer, Record,
    SessionStart, ToolEnd,
};
pub use excerpt::{Excerpt, SavedCommand};
pub use external_agent::{ExternalAgentHost, ExternalAgents, ExternalToolCall};
pub use file_state::{FileLedger, FileVersion, OnStaleWrite, ReadRange, StaleWrite};
pub use future::{BoxFuture, poll_once};
pub use hook::{Hook, HookAnswer, HookDecision, HookEvent, HookInput, HookPoint, HookRun};
pub use inventory;
pub use memory::{MEMORY_SECONDS, Memory, MemoryError};
pub use message::{
    AssistantMessage, CallStatus, Message, ModelText, OpaqueBlock, ToolCall, ToolResult,
    UserMessage,
};
pub use model::{
    Delta, FailedModel, FailureKind, Finish, Model, ModelError, ModelOptions, PARTIAL_BYTES,
    RawCall, Reply, Request, ToolChoice, Usage, bounded_partial,
};
pub use name::{AgentId, CallId, NameError, SessionId, ToolName, ToolsetName};
pub use origin::{Origin, ToolIdentity};
pub use outcome::{ChildInspection, Outcome, Receipts, ToolTrace, ValueError};
pub use policy::{
    AllowAll, ApprovalAnswer, Approver, NoPerson, Policy, Question, Verdict, effective_mode,
};
pub use prompt::{FillError, Prompt, PromptParts, Section, fill};
pub use protected_path::ProtectedPath;
pub use rate_limit::{
    Admission, LimiterState, NextAttempt, Permit, QueueTicket, RateLimiter, SendLease,
};
pub use resource::{Resource, ResourceMap};
pub use retry::{RetryPolicy, retry_wait};
pub use run::{BudgetUnit, Input, Run, Step, TASK_NOT_DONE, TurnEnd, WrapUpReason};
pub use schema::{
    SCHEMA_LAYERS, SCHEMA_NESTING, SCHEMA_PARTS, Schema, SchemaError, bounded_schema, looks_within,
};
pub use schemars;
pub use serde;
pub use serde_json;
pub use shell_directory::ShellPlace;
pub use status::{ExitReason, Status};
pub use step_calls::{StepCall, StepCalls};
pub use tool::{
    AgentView, Catalog, CatalogEntry, CatalogError, ChildLifecycle, Progress, Registration,
    SessionView, Spawn, Tool, ToolCrate, ToolCx, ToolSource, TypedTool, erase,
};
pub use tool_effect::ToolEffect;
pub use tool_output::{Display, ToolCallResult, ToolError, ToolOutput};
pub use tool_return::{IntoToolCallResult, IntoToolOutput, Json};
pub use tool_spec::{Availability, Effects, Example, ToolDecl, ToolSpec, headline, spec_of};
pub use tool_subject::{ArgumentRole, Subject, ToolKind};
