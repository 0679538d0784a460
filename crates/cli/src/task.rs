//! The task of a run: the words of the argument, or of standard input, and what is piped in
//! beside words.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::invocation::format_command;

pub(crate) mod attachment;
pub(crate) mod image_files;

/// Limit on a task, in bytes.
const TASK_BYTES: usize = 1024 * 1024;
/// Limit on piped input beside a task, in bytes.
const MATERIAL_BYTES: usize = 64 * 1024 * 1024;
/// Time limit for the first byte of an open pipe that the run does not need: a parent that never
/// writes must not block it.
pub(crate) const INPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of one read, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Why there is no task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error(
        "there is no task: give it as an argument, as in `{} 'List the files here'`, or pipe it to \
         standard input",
        format_command("run")
    )]
    Missing,
    #[error(
        "the task is empty: give it as an argument, as in `{} 'List the files here'`, or pipe it \
         to standard input",
        format_command("run")
    )]
    Blank,
    #[error(
        "the task has more than {TASK_BYTES} bytes; put the material into a file and name the \
         file, or pipe it in and pass the task as an argument"
    )]
    TooLong,
    #[error(
        "standard input has more than {MATERIAL_BYTES} bytes; put it into a file and name the file \
         in the task, with `< /dev/null`"
    )]
    TooMuch,
    #[error("the task is not UTF-8 text")]
    NotText,
    #[error("cannot read standard input")]
    Read(#[source] io::Error),
}

/// Standard input, as a task is read from it.
pub(crate) struct TaskInput<'a> {
    pub(crate) file: &'a File,
    pub(crate) is_terminal: bool,
    /// Silence after which a hint is printed.
    pub(crate) timeout: Duration,
    pub(crate) tell: &'a dyn Fn(&str),
}

/// Returns the words of a task. They come from standard input if the argument is `-`, or is missing
/// and standard input is not a terminal. Returns `None` for a run that needs no task.
pub(crate) fn words(
    argument: Option<&str>,
    needed: bool,
    input: &TaskInput<'_>,
) -> Result<Option<String>, TaskError> {
    let text = match argument {
        None if input.is_terminal && needed => return Err(TaskError::Missing),
        None if input.is_terminal => return Ok(None),
        None | Some("-") => {
            let waits = needed || argument.is_some();
            let bytes = input.read(TASK_BYTES, waits)?.unwrap_or_default();
            if bytes.len() > TASK_BYTES {
                return Err(TaskError::TooLong);
            }
            String::from_utf8(bytes).map_err(|_| TaskError::NotText)?
        }
        Some(text) => text.to_owned(),
    };
    match text.trim().is_empty() {
        _ if text.len() > TASK_BYTES => Err(TaskError::TooLong),
        true if needed => Err(TaskError::Blank),
        true => Ok(None),
        false => Ok(Some(text)),
    }
}

/// Returns the input piped in beside a task argument, if any.
pub(crate) fn piped(
    argument: Option<&str>,
    input: &TaskInput<'_>,
) -> Result<Option<Vec<u8>>, TaskError> {
    if matches!(argument, None | Some("-")) || input.is_terminal {
        return Ok(None);
    }
    let Some(bytes) = input.read(MATERIAL_BYTES, false)? else { return Ok(None) };
    if bytes.len() > MATERIAL_BYTES {
        return Err(TaskError::TooMuch);
    }
    // A device (`/dev/null`) was put there to say nothing; a pipe or a file was to hold something.
    let holds = |meta: Metadata| meta.is_file() || meta.file_type().is_fifo();
    if bytes.is_empty() && input.file.metadata().is_ok_and(holds) {
        (input.tell)("note: standard input was empty: nothing of it goes with the task");
    }
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

impl TaskInput<'_> {
    /// Reads all input, or a little more than `most` bytes. Returns `None` if no byte came in time
    /// although the pipe is open; input that has begun, or is needed, has no time limit.
    fn read(&self, most: usize, needed: bool) -> Result<Option<Vec<u8>>, TaskError> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut noted = false;
        while bytes.len() <= most {
            if !self.is_ready().map_err(TaskError::Read)? {
                let seconds = self.timeout.as_secs();
                if bytes.is_empty() && !needed {
                    (self.tell)(&format!(
                        "warning: standard input is a pipe, and nothing came in {seconds} s; \
                         continuing without it. Pass `< /dev/null` if there is no input. Put \
                         slower input into a file, or after the task in the pipe: `(echo TASK; \
                         COMMAND) | {}`",
                        format_command("run")
                    ));
                    return Ok(None);
                }
                if !std::mem::replace(&mut noted, true) {
                    let count = bytes.len();
                    (self.tell)(&format!(
                        "note: waiting for the end of standard input, {count} bytes so far"
                    ));
                }
                continue;
            }
            let mut file = self.file;
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if is_passing(&error) => {}
                // It is open, and not for reading: `nohup` does that.
                Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => {
                    return Ok(None);
                }
                Err(error) => return Err(TaskError::Read(error)),
            }
        }
        Ok(Some(bytes))
    }

    /// Waits for bytes or the end.
    fn is_ready(&self) -> io::Result<bool> {
        let timeout = Timespec::try_from(self.timeout).map_err(io::Error::other)?;
        let mut polled = [PollFd::new(self.file, PollFlags::IN)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether to retry a read.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests;
