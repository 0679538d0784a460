//! The state of a shell between commands, and how it is read back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::environment::drop_hooks;
use crate::outcome::{CommandOutcome, Exit, StateReport};
use crate::process_tag::OWNER_VARIABLE;

/// The entry before the directory and the variables.
pub(crate) const STATE_BEGIN: &str = "deputize-state";
/// The entry after them.
pub(crate) const STATE_END: &str = "deputize-state-end";
/// The variable that the shell's last lines use; never handed on.
pub(crate) const STATUS_VARIABLE: &str = "__deputize";

/// The working directory and the exported variables of a shell between two commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellState {
    /// Where the next command runs; absolute.
    pub cwd: PathBuf,
    /// The environment of the next command.
    pub env: BTreeMap<OsString, OsString>,
}

/// The working directory does not exist any more. Nothing was run; the state now names the
/// nearest directory above it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing was run: working directory `{}` no longer exists; the next command runs in `{}`",
    gone.display(), now.display()
)]
pub struct MissingDirectory {
    /// The directory that is gone.
    pub gone: PathBuf,
    /// The directory that took its place.
    pub now: PathBuf,
}

/// Whether a command changed the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// The state is what the command left.
    Updated {
        /// Exported variables that are not handed on, because programs run code that they name
        /// (see [`is_hook`](crate::is_hook)).
        dropped: Vec<OsString>,
    },
    /// The state is what it was before the command.
    Unchanged(UnchangedReason),
}

/// Why the state stayed as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnchangedReason {
    /// The shell ended without a report.
    #[error(
        "the directory and variables are those from before this command: the script replaced the \
         shell (exec), set its own EXIT trap, or was killed"
    )]
    NotReported,
    /// The command was ended from here.
    #[error("the directory and variables are those from before this command: it did not finish")]
    Interrupted,
    /// There were too many variables.
    #[error(
        "the directory and variables are those from before this command: the exported variables \
         exceed {limit} bytes"
    )]
    TooLong {
        /// Bytes that a report may have.
        limit: usize,
    },
}

impl ShellState {
    /// Checks that the directory is still there; if not, moves to the nearest one above it, and
    /// says so. The command must not run then: it was written for another place.
    ///
    /// # Errors
    ///
    /// If the directory is gone.
    pub fn check(&mut self) -> Result<(), MissingDirectory> {
        if self.cwd.is_dir() {
            return Ok(());
        }
        let above =
            self.cwd.ancestors().skip(1).find(|above| above.is_absolute() && above.is_dir());
        let now = above.unwrap_or(Path::new("/")).to_owned();
        let gone = std::mem::replace(&mut self.cwd, now.clone());
        Err(MissingDirectory { gone, now })
    }

    /// Takes over what the command reported.
    pub fn adopt(&mut self, finished: &CommandOutcome) -> StateChange {
        match (finished.exit, &finished.report) {
            (Exit::TimedOut | Exit::Cancelled, _) => {
                StateChange::Unchanged(UnchangedReason::Interrupted)
            }
            (_, Some(StateReport::TooLong { limit })) => {
                StateChange::Unchanged(UnchangedReason::TooLong { limit: *limit })
            }
            (_, Some(StateReport::Bytes(bytes))) => match parse_state(bytes) {
                Some(mut state) => {
                    let dropped = drop_hooks(&mut state.env);
                    *self = state;
                    StateChange::Updated { dropped }
                }
                None => StateChange::Unchanged(UnchangedReason::NotReported),
            },
            (_, None) => StateChange::Unchanged(UnchangedReason::NotReported),
        }
    }
}

/// Reads the last complete report in `bytes`: entries ended by NUL, which are the begin mark, the
/// directory with a newline, the variables as `NAME=value`, and the end mark. Other processes may
/// have written to the pipe as well; without a complete report there is no state.
#[must_use]
pub fn parse_state(bytes: &[u8]) -> Option<ShellState> {
    let entries: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let end = entries.iter().rposition(|entry| *entry == STATE_END.as_bytes())?;
    let entries = entries.get(..end)?;
    let begin = entries.iter().rposition(|entry| *entry == STATE_BEGIN.as_bytes())?;
    let (cwd, variables) = entries.get(begin + 1..)?.split_first()?;
    let cwd = PathBuf::from(OsStr::from_bytes(cwd.strip_suffix(b"\n")?));
    if !cwd.is_absolute() {
        return None;
    }
    Some(ShellState {
        cwd,
        env: variables.iter().filter_map(|entry| parse_variable(entry)).collect(),
    })
}

fn parse_variable(entry: &[u8]) -> Option<(OsString, OsString)> {
    let at = entry.iter().position(|byte| *byte == b'=')?;
    let name = OsStr::from_bytes(entry.get(..at)?);
    let value = entry.get(at + 1..)?;
    // Ours, and what every shell sets anew. `PWD` is the directory.
    let internal = ["", "_", "PWD", "SHLVL", OWNER_VARIABLE, STATUS_VARIABLE];
    if internal.iter().any(|internal| name == *internal) {
        return None;
    }
    Some((name.to_owned(), OsStr::from_bytes(value).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(cwd: &str, variables: &[&str]) -> Vec<u8> {
        let mut bytes = format!("\0{STATE_BEGIN}\0{cwd}\n\0");
        for variable in variables {
            bytes.push_str(variable);
            bytes.push('\0');
        }
        bytes.push_str(STATE_END);
        bytes.push('\0');
        bytes.into_bytes()
    }

    fn state(cwd: &str, variables: &[(&str, &str)]) -> ShellState {
        let env = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        ShellState { cwd: cwd.into(), env }
    }

    #[test]
    fn values_with_newlines_and_equal_signs_are_kept() {
        let bytes = report("/a\nb\n", &["A=1\n2\n", "B==", "C=", "noise", "=x"]);
        let expected = state("/a\nb\n", &[("A", "1\n2\n"), ("B", "="), ("C", "")]);
        assert_eq!(parse_state(&bytes), Some(expected));
    }

    #[test]
    fn our_own_variables_do_not_come_back() {
        let bytes = report(
            "/",
            &["PWD=/x", "OLDPWD=/y", "SHLVL=3", "_=/bin/x", "DEPUTIZE_OWNER=1", "__deputize=0"],
        );
        assert_eq!(parse_state(&bytes), Some(state("/", &[("OLDPWD", "/y")])));
    }

    #[test]
    fn the_last_complete_report_counts() {
        let mut bytes = b"junk from a child".to_vec();
        bytes.extend(report("/one", &["A=1"]));
        bytes.extend(report("/two", &["A=2"]));
        bytes.extend(b"\0deputize-state\0/three\n\0A=3\0");
        assert_eq!(parse_state(&bytes), Some(state("/two", &[("A", "2")])));
    }

    #[test]
    fn a_report_without_end_or_directory_is_none() {
        let whole = report("/a", &["A=1"]);
        for cut in 0..whole.len() - 1 {
            assert_eq!(parse_state(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(parse_state(&report("", &[])), None);
        assert_eq!(parse_state(&report("a", &[])), None);
        assert_eq!(parse_state(b"\0deputize-state\0deputize-state-end\0"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>, cut in 0..200_usize) {
            let _ = parse_state(&bytes);
            let mut mixed = report("/a", &["A=1", "B=2"]);
            mixed.splice(cut.min(mixed.len())..cut.min(mixed.len()), bytes);
            let _ = parse_state(&mixed);
        }
    }

    #[test]
    fn a_directory_that_is_gone_is_named_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("a/b/c");
        let mut state = ShellState { cwd: gone.clone(), env: BTreeMap::new() };
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let now = dir.path().join("a");
        assert_eq!(state.check(), Err(MissingDirectory { gone, now: now.clone() }));
        assert_eq!(state.cwd, now);
        assert_eq!(state.check(), Ok(()));
    }
}
