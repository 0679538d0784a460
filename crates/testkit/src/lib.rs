//! For tests of Deputize, and of what you build on it: no network, no key, no waiting.
//!
//! | you test | use |
//! | --- | --- |
//! | an agent, a run, a delegation | [`ScriptedModel`], which answers as told and keeps what it was asked |
//! | that things happen at the same time | a [`Gate`], which holds requests until the test lets them go |
//! | a program or a provider over HTTP | [`MockServer`], which speaks, stutters, breaks off and stalls as told |
//! | a prompt | [`assert_prompt!`], a snapshot beside your own test |
//! | what happened | [`Recorder`], an observer that keeps every record |
//! | crashes, full disks, odd interleavings | [`Steps`], [`SimDisk`] and a [`Seed`]: a failure that can be repeated |
//! | that a program still sends what it sent | [`replay()`], which plays a recording |
//! | one tool | [`Bench`], which calls it in a directory |
//! | that any tool keeps its contract | [`check_tool`]: linked, loaded or remote alike |
//! | how fast it is | [`Floor`], the least that can be done, to measure against |
//!
//! A whole agent with your tool and a scripted model. Frame boundaries come from a random
//! secret; a fixed one makes every request the same, so that it can be a snapshot.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use deputize_core::door::FrameSecret;
//! use deputize_core::{Authority, Cancel, Catalog, Grant, Reply, SessionId};
//! use deputize_core::{ToolCallResult, ToolCx, ToolOutput, ToolSpec, TypedTool, spec_of};
//! use deputize_runtime::{Parts, Session, SessionDir};
//! use deputize_testkit::ScriptedModel;
//!
//! deputize_core::tool_crate!();
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Args { /** The words. */ text: String }
//! struct CountWords; // as in the documentation of `TypedTool`
//! # impl TypedTool for CountWords {
//! #     type Args = Args;
//! #     fn spec() -> ToolSpec {
//! #         ToolSpec::read_only(spec_of::<Args>("count_words", "Count the words of a text."))
//! #     }
//! #     async fn run(&self, args: Args, _cx: &ToolCx) -> ToolCallResult {
//! #         Ok(ToolOutput::text(args.text.split_whitespace().count().to_string()))
//! #     }
//! # }
//! deputize_core::register_tool!("words", CountWords);
//!
//! let model = Arc::new(ScriptedModel::turns([
//!     Reply::calls("m", [("count_words", serde_json::json!({"text": "one two three"}))]),
//!     Reply::text("m", "There are three."),
//! ]));
//! let folder = tempfile::tempdir()?;
//! let mut parts = Parts::new(Catalog::linked(&[LINK])?);
//! parts.models.insert("test/m", "m", model.clone());
//! parts.secret = FrameSecret::new(&[0; 16]);
//! let dir = SessionDir::new(folder.path());
//! let session = Session::create(&dir, SessionId::literal("test"), parts)?;
//! let mut spec = session.top_agent("test/m", "How many words?", folder.path());
//! spec.system = vec!["You count words.".into()];
//! let authority = Authority::root(session.catalog(), &Grant::default());
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let outcome = runtime.block_on(session.run(spec, authority, &Cancel::new()));
//!
//! assert_eq!(outcome.text.as_deref(), Some("There are three."));
//! let second = &model.requests()[1];
//! assert!(second.results()[0].text.as_str().contains("\n3\n"), "a result is framed");
//! // In a test of your own: deputize_testkit::assert_prompt!(second.body);
//! # Ok(()) }
//! ```
//!
//! The model alone:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use deputize_core::{Cancel, Model as _, ModelOptions, Reply, Request, ToolChoice};
//! use deputize_testkit::ScriptedModel;
//!
//! let model = ScriptedModel::turns([
//!     Reply::calls("m", [("list_files", serde_json::json!({"path": "."}))]),
//!     Reply::text("m", "There are two files."),
//! ]);
//! # let request = Request {
//! #     model: "m", system: &[], tools: &[], messages: &[],
//! #     tool_choice: ToolChoice::Auto, options: &ModelOptions::default(),
//! # };
//! let reply = model.reply(&request, &mut |_| {}, &Cancel::new()).await.unwrap();
//! assert_eq!(reply.calls[0].name, "list_files");
//! assert_eq!(model.requests().len(), 1);
//! # }
//! ```

mod chat_sse;
mod floor;
mod gate;
mod messages_sse;
mod prompt;
mod recorder;
mod replay;
mod responses_sse;
mod scripted;
mod seen;
mod server;
mod sim;
mod tally;

pub use chat_sse::chat_sse;
pub use deputize_check::{Bench, Check, Checked, NoSpawn, Rule, Violation, Violations, check_tool};
pub use deputize_core::FixedClock;
pub use floor::Floor;
pub use gate::Gate;
pub use insta;
pub use messages_sse::messages_sse;
pub use recorder::Recorder;
pub use replay::{ReplayFailure, Replayed, replay};
pub use responses_sse::responses_sse;
pub use scripted::{ScriptedModel, Turn};
pub use seen::SeenRequest;
pub use server::{Answer, HttpRequest, MockServer};
pub use sim::{End, Ended, Seed, SimDisk, Steps, Trouble};
