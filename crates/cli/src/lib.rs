//! The `deputize` command as a library: configuration, composition, commands, rendering.
//!
//! A program of one's own is [`Cli`] with the tool crates it names; its `main` has five lines.
//! Only this crate reads the environment, the clock and the working directory; everything
//! below it is given values.
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     deputize::Cli::new().tools(deputize_tools::LINK).run()
//! }
//! ```

pub mod config;

mod agent_name;
mod approve;
mod args;
mod cli;
mod command;
mod compose;
mod control;
mod exit;
#[cfg(test)]
mod fixture;
mod hardline;
mod hooks;
mod idle;
mod later;
mod output;
mod own;
mod policy;
mod processes;
mod project;
mod screen;
mod stop;
mod surroundings;
mod task;
mod zone;

pub use cli::Cli;
