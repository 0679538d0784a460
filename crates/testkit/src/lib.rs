//! For tests of Deputize, and of what you build on it: no network, no key, no waiting.
//!
//! | you test | use |
//! | --- | --- |
//! | an agent with your tools, children and all | [`AgentTest`]: a whole agent in one line, the same every time |
//! | what models answer | [`ScriptedModel`]: by turns, by a rule, by failure; it keeps what it was asked |
//! | what models are asked | [`SeenRequest`], with assertions that show the request when they fail |
//! | a prompt: of a parent, a child, a whole request | [`assert_prompt!`], a snapshot that tells what a change costs of the cached prefix |
//! | that any tool keeps its contract | [`check_tool`]: linked, loaded or remote alike |
//! | one tool | [`Bench`], which calls it in a directory |
//! | what happened | [`Recorder`], an observer that keeps every record |
//! | that a program still sends what it sent | [`AgentTest::recording`] and [`AgentTest::replay`]; [`replay()`] for sessions of your own |
//! | that things happen at the same time | a [`Barrier`], which holds requests until the test lets them go |
//! | a program or a provider over HTTP | [`MockServer`], which speaks, stutters, breaks off and stalls as told |
//! | crashes, full disks, odd interleavings | [`Steps`], [`SimDisk`] and a [`Seed`]: a failure that can be repeated |
//! | how fast it is | [`Baseline`], the least that can be done, to measure against |
//!
//! An agent with a tool, and a model that answers as told:
//!
//! ```standalone_crate
//! use deputize_core::{Reply, tool};
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
//! let told = AgentTest::linked(&[LINK]).run(model, "How many words?");
//!
//! assert_eq!(told.answer(), "There are three.");
//! told.request(2).assert_result("\n3\n").assert_continues(told.request(1));
//! // In a test of your own: deputize_testkit::assert_prompt!(told.request(1));
//! ```
//!
//! Where a test needs more of a session (a policy, a hook, an approver), it makes one of
//! [`SessionConfig`](deputize_runtime::SessionConfig) as a program does, with a [`ScriptedModel`] among them.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: to build on. A change that breaks a program waits for the next minor version,
//! after a version in which the old form is deprecated where that is possible. Snapshots of
//! whole requests change when what is sent changes, and the changelog says so.

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
mod seen;
mod server;
mod sim;

pub use agent_test::{AgentTest, AgentTestResult, block_on};
pub use barrier::Barrier;
pub use baseline::Baseline;
pub use chat_sse::chat_sse;
pub use deputize_check::{
    CheckReport, ContractRule, NoSpawn, ToolCheck, ToolHarness, Violation, Violations, check_tool,
};
pub use deputize_core::FixedClock;
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
pub use seen::SeenRequest;
pub use server::{HttpRequest, MockAnswer, MockServer};
pub use sim::{CrashKind, DiskFault, Seed, SimDisk, Steps, StepsEnd};
