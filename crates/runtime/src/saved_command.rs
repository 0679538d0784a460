//! Saves commands that are too long for a question, so that a person can read them whole.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;
use deputize_core::excerpt::SavedCommand;
use deputize_core::policy::{ApprovalAnswer, Question};
use sha2::{Digest as _, Sha256};

use crate::store::{Disk, OpenError};

/// Maximum bytes of a command that a question shows whole.
const WHOLE_BYTES: usize = 32 * 1024;
/// Maximum line breaks of a command that a question shows whole.
const WHOLE_LINES: usize = 200;
/// Maximum bytes of a command that can be approved.
const MAX_BYTES: usize = 1024 * 1024;

/// Saves the command of a question if it is too long to be shown whole.
///
/// # Errors
/// With the answer, if it is too long to be approved or cannot be saved.
pub(crate) fn with_saved_command<'q>(
    disk: &dyn Disk,
    spill: &Path,
    question: &'q Question,
) -> Result<Cow<'q, Question>, ApprovalAnswer> {
    let bytes = question.command.len();
    let lines = question.command.matches('\n').count();
    if bytes <= WHOLE_BYTES && lines <= WHOLE_LINES {
        return Ok(Cow::Borrowed(question));
    }
    if bytes > MAX_BYTES {
        let reason = format!(
            "the call has {bytes} bytes, and at most {MAX_BYTES} can be approved: write long \
             content to files first, or make several smaller calls"
        );
        return Err(ApprovalAnswer { reason, ..ApprovalAnswer::no("the size limit of approvals") });
    }
    let name = format!("{}~{}", question.agent.as_str().replace('/', "~"), question.call);
    let path = spill.join(format!("{name}.command.txt"));
    save(disk, &path, &question.command).map_err(|error| {
        let reason = format!(
            "the call has {bytes} bytes, too many to be shown whole, and {} cannot be written \
             for the user to read: {error}. Make it shorter than {WHOLE_BYTES} bytes and \
             {WHOLE_LINES} lines",
            path.display()
        );
        ApprovalAnswer { reason, ..ApprovalAnswer::no("a failure of the storage") }
    })?;
    let sha256 = HEXLOWER.encode(&Sha256::digest(question.command.as_bytes()));
    let saved = Some(SavedCommand { path, bytes, sha256 });
    Ok(Cow::Owned(Question { saved, ..question.clone() }))
}

/// Writes a new file for this user alone. What stands there, a link too, is removed and not
/// written through.
fn save(disk: &dyn Disk, path: &Path, command: &str) -> Result<(), OpenError> {
    if let Some(folder) = path.parent() {
        disk.make_folder(folder)?;
    }
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(disk.create(path)?.append(command.as_bytes())?)
}
