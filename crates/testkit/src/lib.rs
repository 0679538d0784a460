//! Tools for testing Deputize and programs built on it: no network, no keys, no waiting.
//!
//! | you test | use |
//! | --- | --- |
//! | an agent with your tools, children and all | [`AgentTest`]: a whole agent in one line, deterministic |
//! | what models answer | [`ScriptedModel`]: in turns, by a rule, or failing; it stores its requests |
//! | what models are asked | [`SeenRequest`], with assertions that show the request when they fail |
//! | a prompt: of a parent, a child, a whole request | [`assert_prompt!`], a snapshot that shows how a change affects the cache prefix |
//! | that any tool keeps its contract | [`check_tool`]: linked, loaded or remote alike |
//! | one tool | [`ToolHarness`], which calls it in a directory |
//! | what happened | [`Recorder`], an observer that stores every record |
//! | that a program still sends the same requests | [`AgentTest::recording`] and [`AgentTest::replay`]; [`replay()`] for sessions of your own |
//! | that things happen at the same time | a [`Barrier`], which holds requests until the test lets them through |
//! | a program or a provider over HTTP | [`MockServer`], which answers, stutters, breaks off and stalls by a script |
//! | crashes, full disks, odd interleavings | [`Steps`], [`SimDisk`] and a [`Seed`]: repeatable failures |
//! | how fast it is | [`Baseline`], the minimal work to compare with |
//!
//! An agent with a tool, and a scripted model:
//!
//! ```standalone_crate
//! use deputize_core::tool;
//! use deputize_core::model::Reply;
//! use deputize_testkit::{ScriptedModel, AgentTest};
//!
//! deputize_core::tool_crate!();
//!
//! /// Count the words of a text.
//! #[tool(toolset = "words", effects = read_only)]
//! async fn count_words(
//!     /// The text.
//!     text: String,
//! ) -> String {
//!     text.split_whitespace().count().to_string()
//! }
//!
//! let model = ScriptedModel::turns([
//!     Reply::calls("m", [("count_words", serde_json::json!({"text": "one two three"}))]),
//!     Reply::text("m", "There are three."),
//! ]);
//! let run = AgentTest::linked(&[LINK]).run(model, "How many words?");
//!
//! assert_eq!(run.answer(), "There are three.");
//! run.request(2).assert_result("\n3\n").assert_continues(run.request(1));
//! // In a test of your own: deputize_testkit::assert_prompt!(run.request(1));
//! ```
//!
//! A test that needs more of a session (a policy, a hook, an approver) builds its own
//! [`SessionConfig`](deputize_runtime::SessionConfig) like a program, with a [`ScriptedModel`] as
//! its model.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: to build on. A breaking change waits for the next minor version; where possible, a
//! version before it deprecates the old form. Snapshots of whole requests change when requests
//! change, and the changelog says so.

mod agent_test;
mod barrier;
mod baseline;
mod chat_sse;
mod counter;
mod messages_sse;
mod prefix;
mod prompt;
mod recorder;
mod replay;
mod responses_sse;
mod scripted;
mod seen_request;
mod server;
mod sim;

pub use agent_test::{AgentTest, AgentTestResult, block_on};
pub use barrier::Barrier;
pub use baseline::Baseline;
pub use chat_sse::chat_sse;
pub use deputize_check::{
    CallRule, CheckReport, ContractRule, SpecRule, ToolCheck, ToolHarness, Violation, Violations,
    check_tool,
};
pub use deputize_core::clock::FixedClock;
pub use insta;
pub use messages_sse::messages_sse;
pub use prefix::PrefixDiff;
pub use prompt::RedactedText;
#[doc(hidden)]
pub use prompt::prompt_settings;
pub use recorder::Recorder;
pub use replay::{ReplayFailure, ReplayResult, replay};
pub use responses_sse::responses_sse;
pub use scripted::{ScriptedModel, ScriptedTurn};
pub use seen_request::SeenRequest;
pub use server::{HttpRequest, MockAnswer, MockServer};
pub use sim::{CrashKind, DiskFault, Seed, SimDisk, Steps, StepsEnd};
