//! Saves commands that are too long for a question, so that a person can read them whole.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;
use deputize_core::{Answer, Cancel, Question, SavedCommand};
use sha2::{Digest as _, Sha256};

use crate::shared::Shared;
use crate::store::{Disk, OpenError};

/// Maximum bytes of a command that a question shows whole.
const WHOLE_BYTES: usize = 32 * 1024;
/// Maximum bytes of a command that can be approved.
const MAX_BYTES: usize = 1024 * 1024;

impl Shared {
    /// Asks the approver. A command that is too long to be shown whole is saved first.
    pub(crate) async fn ask_approver(&self, question: &Question, work: &Cancel) -> Answer {
        let approver = &self.parts.approver;
        if let Some(answer) = approver.answer_without_asking(question) {
            return answer;
        }
        match self.with_saved_command(question) {
            Ok(question) => approver.ask(&question, work).await,
            Err(answer) => answer,
        }
    }

    fn with_saved_command<'q>(&self, question: &'q Question) -> Result<Cow<'q, Question>, Answer> {
        let bytes = question.command.len();
        if bytes <= WHOLE_BYTES {
            return Ok(Cow::Borrowed(question));
        }
        if bytes > MAX_BYTES {
            let reason = format!(
                "the call has {bytes} bytes, and at most {MAX_BYTES} can be approved: write long \
                 content to files first, or make several smaller calls"
            );
            return Err(Answer { reason, ..Answer::no("the size limit of approvals") });
        }
        let name = format!("{}~{}", question.agent.as_str().replace('/', "~"), question.call);
        let path = self.view.spill.join(format!("{name}.command.txt"));
        save(&*self.disk, &path, &question.command).map_err(|error| {
            let reason = format!(
                "the call has {bytes} bytes, too many to be shown whole, and {} cannot be written \
                 for the user to read: {error}. Make it shorter than {WHOLE_BYTES} bytes",
                path.display()
            );
            Answer { reason, ..Answer::no("a failure of the storage") }
        })?;
        let sha256 = HEXLOWER.encode(&Sha256::digest(question.command.as_bytes()));
        let saved = Some(SavedCommand { path, bytes, sha256 });
        Ok(Cow::Owned(Question { saved, ..question.clone() }))
    }
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
