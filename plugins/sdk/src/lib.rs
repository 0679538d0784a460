//! The C ABI between Deputize and a dynamic tool plugin, without dependencies.
//!
//! A plugin is a dynamic library that exports one static: a table of functions that take and return
//! JSON text. In C its name is `deputize_plugin_v1`; from Rust, the name and version of the crate
//! follow. One line, `export_plugin!()`, makes a plugin of a tool crate, with the feature `tools`:
//! see `plugins/archive` and its siblings in the repository. By hand, with the feature `export`, a
//! plugin is a crate of type `cdylib` with:
//!
//! ```
//! use deputize_plugin::{CallAnswer, CallHost, Tools, export_plugin};
//!
//! struct Greeter;
//!
//! impl Tools for Greeter {
//!     fn describe() -> String {
//!         r#"{"name":"greeter","version":"0.1.0","tools":[{"name":"greet",
//!             "description":"Says hello.","parameters":{"type":"object","properties":{}}}]}"#.into()
//!     }
//!
//!     fn call(tool: &str, _arguments: &str, _host: &CallHost<'_>) -> CallAnswer {
//!         match tool {
//!             "greet" => CallAnswer::text("hello"),
//!             other => CallAnswer::Refused(format!("there is no tool `{other}`")),
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
//! - **Answers** are one JSON object in UTF-8 with one of these members: `{"ok":…}`, what was asked for:
//!   a string as it is, anything else as JSON text; `{"refused":"…"}`, words for the model;
//!   `{"failed":"…"}`, words for the operator; `{"cancelled":…}`, what there was when the call was
//!   cancelled, or null; `{"panicked":true}`. Beside `ok` there may be `"notes":["…"]`, remarks of the
//!   tool itself, which the model reads apart from the content.
//! - **A description** is an answer too; its `ok` is
//!   `{"name","version","tools":[{"name","description","parameters"}]}`, where `parameters` is a JSON
//!   Schema of an object. A tool may also have `toolset` (the plugin's name if it has none), `effects`
//!   (`read_only`, `writes_files`, or `unknown`, which is the default), `repeatable` and `parallel` (false
//!   if not said), `time_limit_ms` (two minutes), `unusable` (why it cannot be used now), `kind`
//!   (`read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`, `delegate`, `think`, or `other`, which
//!   is the default), `subject` (the argument that a call is about) and `verb` (the first word
//!   of the line that people read of a call; that of the kind if not said), and `examples`
//!   (`[{"title","arguments"}]`), which `deputize plugin check` runs. It is the same at every call.
//! - **What a call is about** ([`HostV1::about`]) is JSON text: `{"session","agent","call"}`, names;
//!   `"cwd"`, the directory to which relative paths belong; `"spill"`, where long outputs may go (it may not exist yet); `"read"` and `"write"`, lists of the
//!   directories that the agent may read and write under; `"kept"`, a list of paths at and below which
//!   it may not write all the same, and no more at or below anything called `.git`, `.gitmodules`,
//!   `.envrc` or `.mcp.json`; `"network"`, whether it may use that. Nothing
//!   holds a plugin to it: it keeps to it by itself.
//! - **Bytes** are freed by the side that made them. Borrowed ones live until the call returns.
//! - **A panic** ends one call, not the host. An abort, a stack overflow or an endless loop ends more:
//!   a plugin is trusted code, and opening its library runs it.
//! - **Cancelling** is a question that the plugin asks ([`HostV1::cancelled`]) as often as it likes, from
//!   any of its threads, until the call returns. After a yes it answers soon, with what it has.
//! - **Calls** come from any thread and several at once. No Rust type crosses, so the two sides need
//!   not be built by the same compiler; a plugin has its own allocator, statics and async runtime.
//! - **Notes** ([`HostV1::note`]) tell people how far a call is, while it runs.
//! - **Versions**: the number is in the name of the static and in the table. Within one version fields are
//!   only appended, and `size` says how many there are.
//!
//! Opening libraries is the task of `deputize-plugin-host`.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `export` | no | what a plugin needs: the `Tools` trait and `export_plugin!(Type)`; no dependency |
//! | `tools` | no | `export_plugin!()` for what a tool crate registers, on `deputize-core` and `tokio` |
//!
//! Stability: to build on. A breaking change waits for the next minor version; where possible, a
//! version before it deprecates the old form. The C ABI has a version of its own; within one,
//! fields are only appended.

mod abi;
#[cfg(feature = "export")]
mod answer;
#[cfg(feature = "export")]
mod call_host;
mod check;
#[cfg(feature = "export")]
mod export;
mod plugin;
#[cfg(feature = "tools")]
mod tools;

pub use abi::{ABI, HostV1, MAGIC, OwnedBytes, SYMBOL, TableV1, View};
#[cfg(feature = "export")]
pub use answer::CallAnswer;
#[cfg(feature = "export")]
pub use call_host::CallHost;
pub use check::{Head, TableError};
#[cfg(feature = "export")]
pub use export::{Tools, table};
pub use plugin::{CallContext, CallError, MAX_ANSWER_BYTES, MAX_NOTE_BYTES, Plugin};
#[cfg(feature = "tools")]
pub use tools::{LinkedTools, readable};
