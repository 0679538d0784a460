//! Shells, with their program as an argument, in a file, or on standard input.

use crate::field::HOLE;
use crate::file_contents::FileContents;
use crate::findings::Findings;
use crate::invocation::{Input, Invocation};
use crate::nested_command::{Continuation, NestedCode, NestedCommand, NestedShell};
use crate::rule::{PIPE_TO_SHELL, UNKNOWN_COMMAND};
use crate::shell_state::ShellState;

const SHELLS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "csh", "tcsh", "rbash", "ksh93",
    "yash", "hush",
];

/// Runs a shell; `None` if the program is none.
pub(super) fn run(
    invocation: &Invocation<'_>,
    state: &ShellState,
    files: &FileContents,
    findings: &mut Findings,
) -> Option<Continuation> {
    if !SHELLS.contains(&invocation.program) {
        return None;
    }
    let ShellArguments { operands, is_text, reads_input } =
        ShellArguments::new(invocation.arguments);
    Some(match operands.split_first() {
        Some((text, positional)) if is_text => {
            let mut state = state.clone();
            state.name = positional.first().cloned().unwrap_or_else(|| "bash".to_owned());
            state.positional = Some(positional.get(1..).unwrap_or_default().to_vec());
            let command = NestedCommand::new(NestedCode::Code(text.clone()));
            let command = command.with_input(invocation.input);
            Continuation::Command(command.in_shell(NestedShell::New(state)))
        }
        Some((script, positional)) if !reads_input => {
            match read_script(script, invocation.input, files) {
                Some(text) => run_input(&text, positional, state, findings),
                None => {
                    if script.starts_with(HOLE) && !script.contains('/') {
                        findings.dangerous(&UNKNOWN_COMMAND);
                    }
                    Continuation::Output(None)
                }
            }
        }
        _ => run_input(invocation.input, operands, state, findings),
    })
}

/// Returns what a shell reads from a script, if that is known.
fn read_script(script: &str, input: &Input, files: &FileContents) -> Option<Input> {
    if matches!(script, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") {
        return Some(input.clone());
    }
    files.read(script)
}

/// The arguments of a shell.
struct ShellArguments<'a> {
    /// What stands behind the options.
    operands: &'a [String],
    /// Whether the first operand is a text to run.
    is_text: bool,
    /// Whether the operands are for a text on standard input.
    reads_input: bool,
}

impl<'a> ShellArguments<'a> {
    fn new(arguments: &'a [String]) -> Self {
        let mut rest = arguments;
        let (mut is_text, mut reads_input) = (false, false);
        while let Some((first, behind)) = rest.split_first() {
            let is_option = first.len() > 1 && first.starts_with(['-', '+']);
            if !is_option {
                break;
            }
            rest = behind;
            if first == "--" {
                break;
            }
            if matches!(first.as_str(), "--rcfile" | "--init-file") {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let is_cluster = !first.starts_with("--");
            is_text |= (is_cluster && first.contains('c')) || first.starts_with("--command");
            reads_input |= is_cluster && first.starts_with('-') && first.contains('s');
            if is_cluster && first.ends_with(['o', 'O']) {
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        Self { operands: rest, is_text, reads_input }
    }
}

/// Runs the text on standard input.
pub(crate) fn run_input(
    input: &Input,
    positional: &[String],
    state: &ShellState,
    findings: &mut Findings,
) -> Continuation {
    match input {
        Input::Text(text) => {
            let mut state = state.clone();
            state.positional = Some(positional.to_vec());
            let command = NestedCommand::new(NestedCode::Code(text.to_string()));
            return Continuation::Command(command.in_shell(NestedShell::New(state)));
        }
        Input::Unknown => findings.dangerous(&PIPE_TO_SHELL),
        Input::File | Input::Nothing => {}
    }
    Continuation::Output(None)
}
