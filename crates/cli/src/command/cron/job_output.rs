//! Where the answer of a job's run goes: to a file, and to a target of messages.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use deputize_core::sanitize::{Secrets, for_terminal};
use deputize_core::{Cancel, Clock as _, SessionId};
use deputize_cron::{Job, RunStatus, timestamp};
use deputize_runtime::SystemClock;
use deputize_tools::{MESSAGE_BYTES, MessageError, MessageSettings, Messenger, Processes};
use jiff::tz::TimeZone;

/// Answers of one job that are kept.
const KEPT: usize = 20;
/// Bytes of an answer in a message, below what a message may have.
const SENT_BYTES: usize = MESSAGE_BYTES - 512;

/// The answer of a run. No secret is in it.
pub(super) struct JobAnswer {
    pub(super) job: Job,
    pub(super) status: RunStatus,
    pub(super) session: SessionId,
    pub(super) text: String,
}

impl JobAnswer {
    /// Writes it to a new file in a folder, and deletes the oldest ones there.
    pub(super) fn write(&self, folder: &Path, zone: &TimeZone) -> io::Result<PathBuf> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let now = timestamp(SystemClock.now_ms()).to_zoned(zone.clone());
        let (name, status) = (&self.job.name, self.status.as_str());
        let head = format!("# {name}\n\n{status}, {}", now.strftime("%Y-%m-%d %H:%M %:z"));
        // The name begins with the time, so that names have the order of times.
        let path = folder.join(format!("{}.md", self.session));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        write!(file, "{head}, session {}\n\n{}\n", self.session, for_terminal(&self.text))?;
        file.persist(&path).map_err(|error| error.error)?;
        delete_oldest(folder)?;
        Ok(path)
    }

    /// Sends it to a target of messages, cut to what a message may have.
    pub(super) async fn send(
        &self,
        target: &str,
        settings: &MessageSettings,
        processes: &Processes,
    ) -> Result<(), MessageError> {
        let cancel = Cancel::new();
        // A mark is no secret any more.
        let text = self.text.replace(Secrets::MASK, "[redacted ");
        let end = text.floor_char_boundary(SENT_BYTES.min(text.len()));
        let (shown, rest) = text.split_at(end);
        let more = match rest.len() {
            0 => String::new(),
            bytes => format!("\n[{bytes} more bytes: session {}]", self.session),
        };
        let text = format!("{} {}: {shown}{more}", self.job.name, self.status.as_str());
        let messenger = Messenger { settings, processes, cancel: &cancel };
        messenger.send(target, &text).await.map(drop)
    }
}

fn delete_oldest(folder: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "md") {
            files.push(path);
        }
    }
    files.sort();
    let count = files.len().saturating_sub(KEPT);
    files.iter().take(count).try_for_each(fs::remove_file)
}
