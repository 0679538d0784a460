//! What programs do with their arguments: what they print, and which commands they run.

mod env;
mod interpreters;
mod printed;
mod shells;
mod unknown;
mod wrappers;

use crate::file_contents::FileContents;
use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::nested_command::Continuation;
use crate::rules;
use crate::shell_state::ShellState;

pub(crate) use shells::run_input;
pub(crate) use unknown::run_unknown;

/// Judges a program that is none of the shell's own commands.
pub(crate) fn run(
    invocation: &Invocation<'_>,
    state: &ShellState,
    files: &mut FileContents,
    findings: &mut Findings,
) -> Continuation {
    let found = env::run(invocation, state, findings)
        .or_else(|| wrappers::run(invocation, findings))
        .or_else(|| shells::run(invocation, state, files, findings))
        .or_else(|| interpreters::run(invocation, files, findings));
    found.unwrap_or_else(|| {
        rules::judge_program(invocation, findings);
        files.fetch(invocation.program, invocation.arguments);
        Continuation::Output(printed::output_of(invocation))
    })
}
