//! The C ABI between Deputize and a dynamic tool plugin. It depends on nothing.
//!
//! A plugin is a dynamic library with one exported static, `deputize_plugin_v1`: a table of functions
//! that take and give JSON text. With the feature `export` a Rust plugin is this much, in a crate of type
//! `cdylib`:
//!
//! ```
//! use deputize_plugin::{Answer, CallHost, Tools, export_plugin};
//!
//! struct Greeter;
//!
//! impl Tools for Greeter {
//!     fn describe() -> String {
//!         r#"{"name":"greeter","version":"0.1.0","tools":[{"name":"greet",
//!             "description":"Says hello.","parameters":{"type":"object","properties":{}}}]}"#.into()
//!     }
//!
//!     fn call(tool: &str, _arguments: &str, _host: &CallHost<'_>) -> Answer {
//!         match tool {
//!             "greet" => Answer::text("hello"),
//!             other => Answer::Refused(format!("there is no tool `{other}`")),
//!         }
//!     }
//! }
//!
//! export_plugin!(Greeter);
//!
//! // What a host does, once it has found the static in a library it keeps loaded for good:
//! // SAFETY: the table is a static of this program.
//! let plugin = unsafe { deputize_plugin::Plugin::from_table(&raw const deputize_plugin_v1) }?;
//! assert_eq!(plugin.call("greet", "{}", &|| false)?, r#"{"ok":"hello"}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A plugin in C includes `include/deputize_plugin.h`, which describes the same table.
//!
//! # The contract
//!
//! - **Answers** are one JSON object in UTF-8 with one member: `{"ok":…}`, with what was asked for;
//!   `{"refused":"…"}`, with words for the model; `{"failed":"…"}`, with words for the operator;
//!   `{"panicked":true}`.
//! - **A description** is an answer too; its `ok` is
//!   `{"name","version","tools":[{"name","description","parameters"}]}`, where `parameters` is a JSON
//!   Schema. It is the same at every call.
//! - **Bytes** are freed by the side that made them. Borrowed ones live until the call returns.
//! - **A panic** ends one call, not the host. An abort, a stack overflow or an endless loop ends more:
//!   a plugin is trusted code, and opening its library runs it.
//! - **Cancelling** is a question that the plugin asks ([`HostV1::cancelled`]) as often as it likes, from
//!   any of its threads, until the call returns. After a yes it answers soon, with what it has.
//! - **Calls** come from any thread and several at once. No Rust type crosses, so the two sides need
//!   not be built by the same compiler; a plugin has its own allocator, statics and async runtime.
//! - **Versions**: the number is in the name of the static and in the table. Within one version fields are
//!   only appended, and `size` says how many there are.
//!
//! Plugin authors depend on this crate with the feature `export`, a host without it. It deliberately
//! does not open libraries, parse JSON, or know Deputize's own tool types.

mod abi;
#[cfg(feature = "export")]
mod answer;
mod check;
#[cfg(feature = "export")]
mod export;
mod plugin;

pub use abi::{ABI, HostV1, MAGIC, Owned, SYMBOL, TableV1, View};
#[cfg(feature = "export")]
pub use answer::Answer;
pub use check::{Head, TableError};
#[cfg(feature = "export")]
pub use export::{CallHost, Tools, table};
pub use plugin::{CallError, MAX_ANSWER_BYTES, Plugin};
