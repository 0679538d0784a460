//! Reads a shell command as the shell does, and says what it would do.
//!
//! [`classify_command`] parses the text once, follows every simple command at every level after
//! static expansion, and judges each by rules that have names. What it cannot resolve is unknown: in
//! the place of a program, or as an operand of a command that destroys, that is dangerous. It runs
//! nothing and reads nothing but its arguments. It catches accidents and cheap attacks; it is no
//! boundary.
//!
//! ```
//! use deputize_policy::{CommandClass, CommandContext, classify_command};
//!
//! let class = |text| classify_command(text, &CommandContext::default()).class;
//! assert_eq!(class("cargo test"), CommandClass::Safe);
//! assert_eq!(class("git push --force"), CommandClass::Dangerous);
//! assert_eq!(class("r\\m -rf $'\\x2f'"), CommandClass::Hardline);
//! ```
//!
//! # Features and stability
//!
//! It has no features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod brace_expansion;
mod builtin;
mod call_stack;
mod command_class;
mod decode;
mod evaluator;
mod field;
mod file_contents;
mod findings;
mod glob;
mod invocation;
mod limits;
mod nested_command;
mod parse;
mod paths;
mod program;
mod rule;
mod rules;
mod shell_state;
mod syntax;
mod word_expansion;
mod work_counter;

pub use command_class::{CommandClass, CommandContext, CommandVerdict};
pub use limits::{COMMANDS_MAX, DEPTH_MAX, TEXT_BYTES_MAX};

/// Judges a command for `bash`. Total: any text gets a verdict, in bounded time.
#[must_use]
pub fn classify_command(text: &str, context: &CommandContext) -> CommandVerdict {
    evaluator::judge(text, context)
}
