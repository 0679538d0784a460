//! How the program ends: one error type at its edge, and the exit codes.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use deputize_agent::plugins::PluginLoadError;
use deputize_core::describe_error;
use deputize_core::sanitize::for_terminal;
use deputize_plugin_host::{PluginError, PluginFileError};
use deputize_runtime::{ReadError, RecordingError, SessionError};

use crate::config::edit::FileError;
use crate::config::{ConfigError, VerbError};

/// Exit code of a command that fails before or beside an agent's run.
/// [`deputize_core::Outcome::exit_code`] has the code of a run. The numbers are part of the
/// interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The provider could not be used.
    Provider = 3,
    /// It was interrupted.
    Interrupted = 130,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command failed: what kind of failure it is, the chain of causes, and what to do.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    source: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
}

impl CliError {
    /// An error that ends the program with this code.
    pub(crate) fn new(exit: Exit, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, source: source.into(), hint: None }
    }

    /// Wrong usage or configuration.
    pub(crate) fn usage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::Usage, source)
    }

    /// Something failed.
    pub(crate) fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::Failed, source)
    }

    /// The same with a sentence on what to do.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The error and its causes on one line, without a prefix. It may quote text from elsewhere, so it
    /// is cleaned for the screen.
    pub(crate) fn chain(&self) -> String {
        for_terminal(&describe_error(self.source.as_ref()))
    }

    /// The chain of causes and what to do, for somebody who is no terminal.
    pub(crate) fn in_one_line(&self) -> String {
        let hint = self.hint.as_deref().or_else(|| hint_of(self.source.as_ref()));
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.chain())
    }

    /// Returns the error behind it, if it is of this type.
    pub(crate) fn source_as<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// Returns the exit code of the program.
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Config(error) => Self::usage(error),
            other => Self::failed(other),
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.chain();
        if self.source.is::<ConfigError>() || self.source.is::<VerbError>() {
            // Each line is a mistake of its own.
            said = said.replace('\n', "\nerror: ");
        }
        write!(f, "error: {said}")?;
        match self.hint.as_deref() {
            Some(hint) => write!(f, "\nhint: {}", for_terminal(hint)),
            None if is_full(self.source.as_ref()) && !said.contains("make room") => {
                write!(f, "\nhint: make room on that disk")
            }
            None => match hint_of(self.source.as_ref()) {
                Some(hint) => write!(f, "\nhint: {hint}"),
                None => Ok(()),
            },
        }
    }
}

/// Returns what to do about an error of a library, which knows nothing of this program's words.
fn hint_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let file = match error.downcast_ref::<SessionError>() {
        Some(SessionError::File(file)) => Some(file),
        _ => error.downcast_ref::<ReadError>(),
    };
    match file {
        Some(ReadError::Folder { .. }) => return Some("DEPUTIZE_HOME chooses another place"),
        Some(ReadError::InUse { .. }) => {
            return Some(
                "wait until it has ended: `deputize agents` shows what it does, and `deputize \
                 agents stop SESSION --tree` ends it",
            );
        }
        _ => {}
    }
    if let Some(PluginLoadError::Named(PluginError::File(PluginFileError::Digest { .. }))) =
        error.downcast_ref()
    {
        return Some("if the change is yours, `deputize plugin check` on it prints the new entry");
    }
    match error.downcast_ref::<RecordingError>() {
        Some(RecordingError::Foreign(_)) => Some("`run --record FILE` makes a recording"),
        _ => None,
    }
}

/// Whether something found no room on a disk.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    };
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<io::Error>().is_some_and(full) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open session `a`")]
    struct OpenFailure(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("it failed: {0}")]
    struct RepeatingError(#[source] io::Error);

    #[test]
    fn errors_of_libraries_get_the_words_of_the_program() {
        let path = std::path::PathBuf::from("/x");
        let source = io::Error::other("no room");
        let folder = ReadError::Folder { path: path.clone(), source };
        let pinned = "aa".to_owned();
        let found = "bb".to_owned();
        let plugin = PluginFileError::Digest { path: path.clone(), pinned, found };
        let in_use = ReadError::InUse { path: path.clone(), owner: "process 1".to_owned() };
        let cases: [(CliError, &str); 4] = [
            (CliError::failed(SessionError::from(folder)), "DEPUTIZE_HOME"),
            (CliError::failed(in_use), "deputize agents stop SESSION"),
            (CliError::usage(RecordingError::Foreign(path)), "--record FILE"),
            (CliError::usage(PluginLoadError::Named(plugin.into())), "plugin check"),
        ];
        for (error, words) in cases {
            let shown = error.to_string();
            let actual = error.in_one_line();
            assert!(shown.contains("\nhint: ") && shown.contains(words), "{shown}");
            assert!(actual.contains("; ") && actual.contains(words), "{actual}");
        }
    }

    #[test]
    fn the_chain_is_reported_once() {
        let error = CliError::failed(OpenFailure(io::Error::other("no\u{1b}[2Jspace")));
        assert_eq!(error.to_string(), "error: cannot open session `a`: nospace");
        let error =
            CliError::failed(RepeatingError(io::Error::other("no space"))).hint("make room");
        assert_eq!(error.to_string(), "error: it failed: no space\nhint: make room");
        let error = CliError::failed(OpenFailure(io::ErrorKind::StorageFull.into())).to_string();
        assert!(error.ends_with("\nhint: make room on that disk"), "{error}");
    }
}
