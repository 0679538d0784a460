//! A command that another one runs.

use crate::invocation::Input;
use crate::shell_state::ShellState;

/// What is run.
pub(crate) enum NestedCode {
    /// Words that run without a shell.
    Words(Vec<String>),
    /// Text for a shell.
    Text(String),
    /// Text for a shell that may be any code where it is unknown.
    Code(String),
    /// Words that may be a command: only what never runs counts.
    SuspectWords(Vec<String>),
    /// Text that may be a command: only what never runs counts.
    SuspectText(String),
}

/// The shell in which it runs.
pub(crate) enum NestedShell {
    /// The present one, which it may change.
    Present,
    /// A copy of the present one.
    Copy,
    /// One with a state of its own.
    New(ShellState),
}

/// A command that another one runs.
pub(crate) struct NestedCommand {
    pub(crate) code: NestedCode,
    pub(crate) input: Input,
    pub(crate) shell: NestedShell,
}

impl NestedCommand {
    /// Returns one that reads nothing, in a copy of the shell.
    pub(crate) fn new(code: NestedCode) -> Self {
        Self { code, input: Input::Nothing, shell: NestedShell::Copy }
    }

    pub(crate) fn with_input(self, input: &Input) -> Self {
        Self { input: input.clone(), ..self }
    }

    pub(crate) fn in_shell(self, shell: NestedShell) -> Self {
        Self { shell, ..self }
    }
}

/// How a command goes on that a program was found for.
pub(crate) enum Continuation {
    /// It ends, and this is what it printed.
    Output(Option<String>),
    /// It runs another command, and prints what that one prints.
    Command(NestedCommand),
}
