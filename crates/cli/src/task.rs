//! The task of a run: the argument, or what standard input gives.

use std::io::{self, Read};

/// The most bytes of a task.
const TASK_BYTES: usize = 1024 * 1024;

/// Why there is no task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("there is no task: give it as an argument, or pipe it to standard input")]
    Missing,
    #[error("the task is empty")]
    Blank,
    #[error("the task has more than {TASK_BYTES} bytes; put the material into a file and name it")]
    TooLong,
    #[error("the task is not UTF-8 text")]
    NotText,
    #[error("cannot read the task from standard input")]
    Read(#[source] io::Error),
}

/// The task that was given. `-` reads `input`; so does nothing at all, unless `input` is a
/// terminal, where nobody would know that it waits.
pub(crate) fn task(
    argument: Option<&str>,
    input: impl Read,
    input_is_terminal: bool,
) -> Result<String, TaskError> {
    let text = match argument {
        None if input_is_terminal => return Err(TaskError::Missing),
        None | Some("-") => read(input)?,
        Some(text) => text.to_owned(),
    };
    if text.len() > TASK_BYTES {
        return Err(TaskError::TooLong);
    }
    if text.trim().is_empty() { Err(TaskError::Blank) } else { Ok(text) }
}

fn read(input: impl Read) -> Result<String, TaskError> {
    let mut bytes = Vec::new();
    input.take(TASK_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(TaskError::Read)?;
    if bytes.len() > TASK_BYTES {
        return Err(TaskError::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| TaskError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(argument: Option<&str>, input: &[u8], terminal: bool) -> String {
        task(argument, input, terminal).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn the_argument_or_a_pipe() {
        assert_eq!(check(Some("do it"), b"not read", false), "do it");
        assert_eq!(check(Some("-"), b"from\nthe pipe", false), "from\nthe pipe");
        assert_eq!(check(None, b"from the pipe", false), "from the pipe");
        assert_eq!(check(Some("-"), b"typed", true), "typed");
    }

    #[test]
    fn what_is_no_task_is_said() {
        assert!(check(None, b"x", true).starts_with("there is no task"));
        assert_eq!(check(None, b" \n", false), "the task is empty");
        assert_eq!(check(Some(""), b"x", false), "the task is empty");
        assert_eq!(check(None, b"\xff", false), "the task is not UTF-8 text");
        assert!(
            check(None, &vec![b'x'; TASK_BYTES + 1], false).contains("more than 1048576 bytes")
        );
        assert_eq!(check(None, &vec![b'x'; TASK_BYTES], false).len(), TASK_BYTES);
    }
}
