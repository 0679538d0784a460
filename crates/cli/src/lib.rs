//! The `deputize` command as a library: configuration, composition, commands, rendering.
//!
//! A program of one's own is [`Cli`] with the tool crates it names; its `main` has five lines. The
//! first is `#![deny(unused_crate_dependencies)]`: it makes a crate of `Cargo.toml` that is not
//! named an error, since the linker would leave it out.
//! Only this crate reads the environment, the clock and the working directory; everything
//! below it is given values.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     deputize::Cli::new().tools(deputize_tools::LINK).run()
//! }
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `browser` | no | a browser for agents, which is a Chromium of the machine |
//! | `offline-c-java` | no | C and Java by their syntax for the model `offline`: 1 MB of grammars |
//! | `session-search` | no | search over past sessions, with SQLite |
//! | `tokenizer` | no | counts tokens with the tokenizers that are published: 6 MB of vocabularies |
//!
//! Stability: to build on. A change that breaks a program waits for the next minor version,
//! after a version in which the old form is deprecated where that is possible. The command line
//! is an interface of its own, described by `deputize --help`.

pub use deputize_config as config;

mod agent_name;
mod approve;
mod args;
mod cli;
mod command;
mod compose;
mod control;
mod exit;
mod extensions;
#[cfg(test)]
mod fixture;
mod hooks;
mod inactivity;
mod invocation;
mod later;
mod log;
mod output;
mod process_env;
mod processes;
mod reply_wait;
mod runtime;
mod screen;
mod stdio;
mod stop;
mod task;
mod zone;

pub use cli::Cli;
