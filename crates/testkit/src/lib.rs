//! For tests of Deputize, and of what you build on it: no network, no key, no waiting.
//!
//! | you test | use |
//! | --- | --- |
//! | an agent, a run, a delegation | [`ScriptedModel`], which answers as told and keeps what it was asked |
//! | that things happen at the same time | a [`Gate`], which holds requests until the test lets them go |
//! | a program or a provider over HTTP | [`MockServer`], which speaks, stutters, breaks off and stalls as told |
//! | a prompt | [`assert_prompt!`], a snapshot beside your own test |
//! | what happened | [`Recorder`], an observer that keeps every record |
//! | one tool | [`Bench`], which calls it in a directory |
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

mod bench;
mod chat_sse;
mod gate;
mod prompt;
mod recorder;
mod scripted;
mod seen;
mod server;
mod tally;

pub use bench::{Bench, NoSpawn};
pub use chat_sse::chat_sse;
pub use deputize_core::FixedClock;
pub use gate::Gate;
pub use insta;
pub use recorder::Recorder;
pub use scripted::{ScriptedModel, Turn};
pub use seen::SeenRequest;
pub use server::{Answer, HttpRequest, MockServer};
