//! Reasons why a command cannot be started, and the checks before an attempt.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::command::Command;
use crate::helper::HelperError;
use crate::program::{ProgramError, resolve_program};

/// Bytes of arguments and variables that are handed on to the system, which takes less.
const TEXT_LIMIT: usize = 8 * 1024 * 1024;

/// Why a command was not started. Nothing runs then, and nothing is left open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The working directory is gone, or never was.
    #[error("working directory `{}` does not exist; create it or choose another one", cwd.display())]
    DirectoryMissing {
        /// The directory.
        cwd: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter working directory `{}`; check its kind and permissions", cwd.display())]
    Directory {
        /// The directory.
        cwd: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A text that no program can be given.
    #[error("{what} cannot be passed to a program: it {fault}")]
    Text {
        /// Which text.
        what: String,
        /// The fault.
        fault: &'static str,
    },
    /// More text than the system passes to a program.
    #[error(
        "arguments and environment are too long ({total} bytes, the longest {longest}; Linux allows \
         131072 for one and about 2 MiB in all); write long text to a file and pass its path"
    )]
    TooLong {
        /// Bytes of all arguments and variables.
        total: usize,
        /// Bytes of the longest one.
        longest: usize,
    },
    /// The system did not start it.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The helper that starts commands cannot be used.
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// Nobody would write the output of a durable command to its file.
    #[error(
        "a durable command needs a helper program, which writes its output to a file; this program \
         has none"
    )]
    NoHelper,
    /// The file for the output of a durable command cannot be created.
    #[error("cannot create `{}` for the output; nothing was started", path.display())]
    OutputFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The owner, or its supervisor, has been ended.
    #[error("the agent that owns this command has ended; nothing more is started for it")]
    OwnerEnded,
}

/// Why the system did not start a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The program was found, and the system refused to run it.
    #[error("the system refused to run `{}`; check its permissions and those of its directory", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file is no program, or its interpreter is missing.
    #[error("`{}` cannot be run: it is neither a program for this machine nor a script whose interpreter exists", program.display())]
    Format {
        /// The file.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// No descriptor is left.
    #[error(
        "too many open files, the command was not started; wait for other commands to end or raise the limit (ulimit -n)"
    )]
    Descriptors {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// No memory or no process is left.
    #[error("no memory or process left to start the command; end other programs and try again")]
    Exhausted {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot start `{}`", program.display())]
    Other {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl SpawnError {
    /// Sorts what the system said about a resource that is not the program itself.
    pub(crate) fn from_system(source: io::Error, program: &Path) -> Self {
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => SystemError::Descriptors { source },
            Some(libc::ENOMEM | libc::EAGAIN) => SystemError::Exhausted { source },
            _ => SystemError::Other { program: program.to_owned(), source },
        }
        .into()
    }
}

/// Checks the command and finds its program, on a thread that may wait for the disk.
pub(crate) async fn prepared(command: Command) -> Result<(Command, PathBuf), SpawnError> {
    let name = PathBuf::from(&command.program);
    let checked = tokio::task::spawn_blocking(move || {
        let program = prepare(&command)?;
        Ok((command, program))
    });
    let lost = |error| SystemError::Other { program: name, source: io::Error::other(error) };
    checked.await.unwrap_or_else(|error| Err(lost(error).into()))
}

fn prepare(command: &Command) -> Result<PathBuf, SpawnError> {
    check_texts(command)?;
    check_directory(&command.cwd)?;
    let path = command.env.get(OsStr::new("PATH"));
    Ok(resolve_program(&command.program, path.map(|path| path.as_os_str()))?)
}

/// Bytes of a command's texts: all of them, and the longest one.
fn lengths(command: &Command) -> (usize, usize) {
    let variables = command.env.iter().map(|(name, value)| name.len() + value.len() + 2);
    let all = || command.args.iter().map(|arg| arg.len() + 1).chain(variables.clone());
    (all().sum(), all().max().unwrap_or(0))
}

fn too_long(command: &Command) -> SpawnError {
    let (total, longest) = lengths(command);
    SpawnError::TooLong { total, longest }
}

fn check_directory(cwd: &Path) -> Result<(), SpawnError> {
    let is_dir = std::fs::metadata(cwd).map(|metadata| metadata.is_dir());
    let source = match is_dir {
        Ok(true) if cwd.is_absolute() => return Ok(()),
        Ok(true) => io::Error::other("it is a relative path"),
        Ok(false) => io::ErrorKind::NotADirectory.into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SpawnError::DirectoryMissing { cwd: cwd.to_owned() });
        }
        Err(error) => error,
    };
    Err(SpawnError::Directory { cwd: cwd.to_owned(), source })
}

fn check_texts(command: &Command) -> Result<(), SpawnError> {
    if lengths(command).0 > TEXT_LIMIT {
        return Err(too_long(command));
    }
    let text = |what: String, fault| Err(SpawnError::Text { what, fault });
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    if has_nul(&command.program) || has_nul(command.cwd.as_os_str()) {
        return text("the program or its directory".to_owned(), "contains a NUL byte");
    }
    for (index, arg) in command.args.iter().enumerate() {
        if has_nul(arg) {
            return text(format!("argument {}", index + 1), "contains a NUL byte");
        }
    }
    for (name, value) in &command.env {
        let what = || format!("variable `{}`", name.display());
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return text(what(), "has an empty name or one with `=`");
        }
        if has_nul(name) || has_nul(value) {
            return text(what(), "contains a NUL byte");
        }
    }
    Ok(())
}

/// Returns the reason of the system's refusal to start a command.
pub(crate) fn explain(source: io::Error, command: &Command, program: &Path) -> SpawnError {
    let program = program.to_owned();
    match source.raw_os_error() {
        Some(libc::E2BIG) => too_long(command),
        // The directory was there, and so was the program.
        Some(libc::ENOENT) => match check_directory(&command.cwd) {
            Err(gone) => gone,
            Ok(()) => SystemError::Format { program, source }.into(),
        },
        Some(libc::ENOEXEC) => SystemError::Format { program, source }.into(),
        Some(libc::EACCES | libc::EPERM) => match std::fs::read_dir(&command.cwd) {
            Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => {
                SpawnError::Directory { cwd: command.cwd.clone(), source }
            }
            _ => SystemError::Refused { program, source }.into(),
        },
        _ => SpawnError::from_system(source, &program),
    }
}
