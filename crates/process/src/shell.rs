//! A shell that keeps its directory and its exported variables, and nothing else: every command
//! is a process of its own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::command::{Command, OutputLimits, SpillFile, Stdin, TIME_LIMIT};
use crate::environment::drop_hooks;
use crate::outcome::CommandOutcome;
use crate::owner::Owner;
use crate::program::{ProgramError, resolve_program};
use crate::shell_state::{
    MissingDirectory, STATE_BEGIN, STATE_END, STATUS_VARIABLE, ShellState, StateChange,
};
use crate::spawn::SpawnError;

/// Bytes of directory and exported variables that are read back after a command.
pub const STATE_LIMIT: usize = 1024 * 1024;

/// Runs the script, and reports directory and variables at its end or at its `exit`.
///
/// All in one line, so that line numbers in messages are those of the script. The report pipe
/// arrives as descriptor 0. The script is evaluated with its own text shifted out of `$1`. The
/// report uses nothing that a script commonly replaces: no `PATH`, no functions, no variables.
const WRAPPER: &str = r#"exec @FD@>&0 </dev/null; trap '@REPORT@' EXIT; eval "shift;$1"; @REPORT@"#;

/// Runs with the status of the script in `$?`, at most once: the pipe is closed after it.
const REPORT: &str = r#"{ @STATUS@=$?; set +exu; command trap - ERR DEBUG; } 2>/dev/null; { command printf "\0%s\0" @BEGIN@ && command pwd && command printf "\0" && /usr/bin/env -0 && command printf "%s\0" @END@; } 2>/dev/null >&@FD@; { exec @FD@>&-; } 2>/dev/null; exit "$@STATUS@""#;

/// `bash`, or the system's `sh`.
///
/// The shell keeps its report pipe at a descriptor that scripts should leave alone: 11 in `bash`,
/// 8 in `sh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    program: PathBuf,
    /// Where the shell keeps the report pipe.
    descriptor: u8,
}

/// A script and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The text, as one would type it.
    pub text: OsString,
    /// Time after which the whole tree is ended.
    pub time_limit: Duration,
    /// How much of the output is kept in memory.
    pub output: OutputLimits,
    /// Where the whole output goes if it exceeds `output`.
    pub spill: Option<SpillFile>,
}

impl Script {
    /// Creates a script with the limits of a [`Command`].
    #[must_use]
    pub fn new(text: impl Into<OsString>) -> Self {
        Self {
            text: text.into(),
            time_limit: TIME_LIMIT,
            output: OutputLimits::default(),
            spill: None,
        }
    }
}

/// Why a script was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The working directory is gone.
    #[error(transparent)]
    Directory(#[from] MissingDirectory),
    /// The shell was not started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// The result of a script.
#[derive(Debug)]
#[non_exhaustive]
pub struct ShellOutcome {
    /// How it ended and what it wrote.
    pub finished: CommandOutcome,
    /// The change of the state.
    pub state: StateChange,
}

impl Shell {
    /// Finds `bash`, else `sh`, in `path`.
    ///
    /// # Errors
    ///
    /// If there is neither.
    pub fn find(path: Option<&OsStr>) -> Result<Self, ProgramError> {
        if let Ok(program) = resolve_program(OsStr::new("bash"), path) {
            // A low one: where few files may be open there is no higher one. `bash` itself takes
            // those from 10 on that are free.
            return Ok(Self { program, descriptor: 11 });
        }
        // A plain shell knows descriptors of one digit only.
        Ok(Self { program: resolve_program(OsStr::new("sh"), path)?, descriptor: 8 })
    }

    /// Returns the program that runs the scripts.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the command that runs `script` in `state` and reports the state after it, for
    /// callers that wrap it in a program which passes descriptor 0 on. After it has run,
    /// [`ShellState::adopt`] takes the new state.
    #[must_use]
    pub fn command(&self, state: &ShellState, script: Script) -> Command {
        let mut env = state.env.clone();
        drop_hooks(&mut env);
        // A logical path survives: the shell uses it if it leads to the same place.
        env.insert("PWD".into(), state.cwd.clone().into());
        let wrapper = WRAPPER
            .replace("@REPORT@", REPORT)
            .replace("@FD@", &self.descriptor.to_string())
            .replace("@STATUS@", STATUS_VARIABLE)
            .replace("@BEGIN@", STATE_BEGIN)
            .replace("@END@", STATE_END);
        let name = self.program.file_name().unwrap_or(OsStr::new("sh"));
        Command {
            program: self.program.clone().into(),
            args: vec!["-c".into(), wrapper.into(), name.to_owned(), script.text],
            cwd: state.cwd.clone(),
            env,
            stdin: Stdin::Report { limit: STATE_LIMIT },
            time_limit: script.time_limit,
            output: script.output,
            spill: script.spill,
        }
    }

    /// Returns the command that runs `text` in `state` and reports nothing, so that its input is
    /// free: for [`Owner::interact`].
    #[must_use]
    pub fn plain_command(&self, state: &ShellState, text: impl Into<OsString>) -> Command {
        let mut env = state.env.clone();
        drop_hooks(&mut env);
        env.insert("PWD".into(), state.cwd.clone().into());
        let args = vec!["-c".into(), text.into()];
        Command { args, env, ..Command::new(self.program.clone(), state.cwd.clone()) }
    }

    /// Runs `script` in `state` and takes over the state after it. If the future is dropped,
    /// `state` is unchanged.
    ///
    /// # Errors
    ///
    /// If nothing was run. If the directory was gone, `state` has moved to the one that the error
    /// names.
    pub async fn run(
        &self,
        owner: &Owner,
        state: &mut ShellState,
        script: Script,
        cancel: &CancellationToken,
    ) -> Result<ShellOutcome, ShellError> {
        state.check()?;
        let finished = owner.run(self.command(state, script), cancel).await?;
        let change = state.adopt(&finished);
        Ok(ShellOutcome { finished, state: change })
    }
}
