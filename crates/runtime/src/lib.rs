//! Drives the loop of Deputize: steps, tool calls, retries, cancellation, children, the bus
//! and the session file. Depend on it to run agents inside a program of your own.
//!
//! An agent with a tool and a model of its own, in a session that is kept in a folder. The
//! model here is a rule; `deputize-providers` has real ones, `deputize-testkit` scripted ones.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use deputize_core::{Authority, BoxFuture, Cancel, Catalog, Model};
//! use deputize_core::authority::Grant;
//! use deputize_core::model::{Delta, ModelError};
//! use deputize_core::{Message, SessionId, ToolCallResult, ToolCx, ToolOutput};
//! use deputize_core::model::{Reply, Request};
//! use deputize_core::{ToolSpec, TypedTool};
//! use deputize_core::tool::spec_of;
//! use deputize_runtime::{SessionConfig, Session, SessionDir};
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
//! impl TypedTool for Reverse {
//!     type Args = Args;
//!     fn spec() -> ToolSpec {
//!         ToolSpec::read_only(spec_of::<Args>("reverse", "Turn a text around."))
//!     }
//!     async fn run(&self, args: Args, _cx: &ToolCx) -> ToolCallResult {
//!         Ok(ToolOutput::text(args.text.chars().rev().collect::<String>()))
//!     }
//! }
//! deputize_core::register_tool!("words", Reverse);
//!
//! struct Parrot;
//! impl Model for Parrot {
//!     fn reply<'a>(
//!         &'a self,
//!         request: &'a Request<'a>,
//!         _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
//!         _cancel: &'a Cancel,
//!     ) -> BoxFuture<'a, Result<Reply, ModelError>> {
//!         Box::pin(async {
//!             Ok(match request.messages.last().map(|message| &**message) {
//!                 Some(Message::Tool(result)) => Reply::text("parrot", result.text.as_str()),
//!                 _ => Reply::calls("parrot", [("reverse", serde_json::json!({"text": "stop"}))]),
//!             })
//!         })
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let mut config = SessionConfig::new(Catalog::linked(&[LINK])?);
//! config.models.insert("zoo/parrot", "parrot", Arc::new(Parrot));
//! let session = Session::create(&SessionDir::new(folder), SessionId::literal("s1"), config)?;
//! let spec = session.top_agent("zoo/parrot", "Turn `stop` around.", folder);
//! let authority = Authority::root(session.catalog(), &Grant::default());
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let outcome = runtime.block_on(session.run(spec, authority, &Cancel::new()));
//! // What a tool gives reaches the model in a frame that says where it is from.
//! assert!(outcome.text.unwrap_or_default().contains("\npots\n"));
//! # Ok(())
//! # }
//! ```
//!
//! # An answer as a value of a type
//!
//! The agent receives the schema of the type; an answer that does not match is requested again.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::sync::Arc;
//! # use deputize_core::{Authority, Cancel, Catalog, SessionId};
//! # use deputize_core::authority::Grant;
//! # use deputize_core::model::Reply;
//! # use deputize_runtime::{SessionConfig, Session, SessionDir};
//! # use deputize_testkit::ScriptedModel;
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Count {
//!     /// How many tests there are.
//!     tests: u32,
//! }
//!
//! let model = ScriptedModel::turns([
//!     Reply::text("m", "There are seven."),
//!     Reply::text("m", r#"{"tests": 7}"#),
//! ]);
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! # let mut config = SessionConfig::new(Catalog::default());
//! # config.models.insert("scripted/m", "m", Arc::new(model));
//! # let session = Session::create(&SessionDir::new(folder), SessionId::literal("s1"), config)?;
//! # let authority = Authority::root(session.catalog(), &Grant::default());
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let spec = session.top_agent("scripted/m", "Count the tests.", folder);
//! let spec = spec.answering_as::<Count>();
//! let outcome = runtime.block_on(session.run(spec, authority, &Cancel::new()));
//! let count: Count = outcome.value()?;
//! assert_eq!((count.tests, outcome.iterations), (7, 2));
//! # Ok(())
//! # }
//! ```
//!
//! # An agent that delegates
//!
//! The whole of `examples/embed.rs`:
//!
//! ```
#![doc = include_str!("../examples/embed.rs")]
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `fuzz` | no | opens what the fuzz targets and the simulation need; nothing else may use it |
//!
//! Stability: to build on. A change that breaks a program waits for the next minor version,
//! after a version in which the old form is deprecated where that is possible.

mod agent_context;
mod agent_handle;
mod agent_progress;
mod agent_registry;
mod agent_state;
mod agent_states;
mod agent_tree;
mod approval;
mod budget_ledger;
mod budget_shortage;
mod budgets;
mod bus;
mod call_text;
mod child_authority;
mod child_end;
mod clock;
mod compaction;
mod compaction_config;
mod continuation;
mod cost_history;
mod declare;
mod delta_redactor;
mod descendant_counter;
mod driver;
mod earlier_times;
mod external_agent;
mod external_command;
mod external_reporter;
mod external_words;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod heartbeat;
mod heartbeat_config;
mod hook;
mod hook_runner;
mod inbox;
mod launch;
mod model_call;
mod model_failure;
mod models;
mod nested_runner;
mod orphan;
mod outcome;
mod process_journal;
mod program_start;
pub mod prompt;

mod rate_limiters;
mod readable_messages;
mod record_log;
mod recorded_path;
mod recording;
mod replay;
mod replay_agent;
mod request_budget;
mod request_size;
mod restored_files;
mod resume;
mod retry_waits;
mod saved_command;
mod session;
mod session_config;
mod session_control;
mod session_inner;
mod session_run;
mod settle;
pub mod snapshot;
mod spawn;
mod store;
mod stored_agent;
mod stored_spec;
mod structured_output;
mod text_hashes;
mod time_limit;
mod token_counter;
mod tool_runner;
mod turn_time;
mod validate;

pub use budgets::Budgets;
pub use call_text::{describe_call, describe_result, describe_tasks};
pub use clock::SystemClock;
pub use compaction_config::CompactionConfig;
pub use declare::declare;
pub use heartbeat_config::Heartbeat;
pub use hook::MESSAGE_BLOCKED;
pub use models::Models;
pub use rate_limiters::RateLimiters;
pub use recording::{
    RecorderError, Recording, RecordingError, ReplayError, ReplayPosition, SessionRecorder,
};
pub use replay::Replay;
pub use resume::{Continue, Recovery, ResumeError, UnknownCall};
pub use session::{Session, SessionError, top_agent};
pub use session_config::{
    ChildConfig, HOOK_TIME_LIMIT, HookConfig, RecordConfig, RequestConfig, SessionConfig, SyncMode,
    ToolConfig,
};
pub use session_control::{ControlError, SessionControl};
pub use snapshot::{AgentSnapshot, SessionSnapshot, SnapshotObserver};
pub use store::{
    Disk, DiskFile, FileDamage, FileTail, Header, OPENINGS_LIMIT, OpenError, OpeningCount,
    PositionError, ReadError, RealDisk, RecordPosition, SLOW_SYNC, SessionDir, SessionFile,
    SessionSummary, SpokenText, StoredSession,
};
