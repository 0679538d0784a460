//! `env`, which runs a command with variables.

use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rules;
use crate::shell_state::ShellState;

/// Runs the command of `env`; `None` if the program is another one.
pub(super) fn run(
    invocation: &Invocation<'_>,
    state: &ShellState,
    findings: &mut Findings,
) -> Option<Continuation> {
    if !invocation.is(&["env", "cross-env"]) {
        return None;
    }
    let mut state = state.clone();
    let code = read_command(invocation.arguments, &mut state, findings);
    let command = NestedCommand::new(code).with_input(invocation.input);
    Some(Continuation::Command(command.in_shell(NestedShell::New(state))))
}

/// Assigns the variables, and returns the command behind them.
fn read_command(
    arguments: &[String],
    state: &mut ShellState,
    findings: &mut Findings,
) -> NestedCode {
    let mut rest = arguments;
    while let Some((first, behind)) = rest.split_first() {
        if let Some((name, value)) = first.split_once('=').filter(|_| !first.starts_with('-')) {
            rules::judge_variable(name, value, findings);
            state.assign(name, vec![value.to_owned()]);
        } else if !first.starts_with('-') {
            break;
        }
        rest = behind;
        if matches!(first.as_str(), "-u" | "--unset" | "-C" | "--chdir") {
            rest = rest.get(1..).unwrap_or_default();
        } else if let Some(text) = split_text(first) {
            let words = [&[text.to_owned()], rest].concat();
            return NestedCode::Code(words.join(" "));
        }
    }
    NestedCode::Words(rest.to_vec())
}

/// Returns the beginning of the text that an option makes `env` split into words.
fn split_text(option: &str) -> Option<&str> {
    match option {
        "--split-string" => Some(""),
        _ => option
            .strip_prefix("-S")
            .or_else(|| option.strip_prefix("-vS"))
            .or_else(|| option.strip_prefix("--split-string=")),
    }
}
