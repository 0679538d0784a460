//! Files that a parent had read, as they are when its call begins, and what of them changes behind
//! the back of the ledger.
//!
//! Writes by tools are in the ledger. Commands write behind its back, so what the parent had read
//! is looked at before and after: a file whose size, times or identity changed is read and
//! compared. That is one `stat` for each such file, and a bounded number of bytes read. If an
//! earlier process began the call, nothing is known of the files as they were then, so all that the
//! parent had read are compared.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::file_state::{FileLedger, FileVersion};
use deputize_core::tool::SessionView;
use deputize_core::{AgentId, Outcome};

use crate::blocking::run_blocking;
use crate::output_file::is_saved;

/// Bytes that are read to compare; a file beyond that is taken as changed when its size or its
/// times say so.
const COMPARED_BYTES: u64 = 32 * 1024 * 1024;

/// Metadata that shows a change without reading the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When its content changed: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    /// When its inode changed.
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of a regular file; `None` if there is none.
    fn read(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// A file as its reader knows it, and as it is.
struct KnownFile {
    version: FileVersion,
    stamp: Option<FileStamp>,
}

/// The files that a parent had read, as they are when its call begins.
pub(crate) struct FileSnapshot {
    mark: u64,
    files: BTreeMap<PathBuf, KnownFile>,
    /// Whether an earlier process began the call, so that its children may have changed them before
    /// they were looked at.
    is_of_earlier_process: bool,
}

/// A file that the parent had read and that is something else since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Which agent wrote it; `None` means a command or another program.
    pub by: Option<AgentId>,
    /// Whether it is no longer there.
    pub gone: bool,
}

impl StaleFile {
    /// Returns whether a child, or an agent below it, changed it, as far as that is known. What an
    /// external agent did is not observed, so it may have run anything.
    pub(crate) fn is_of(&self, outcome: &Outcome) -> bool {
        match &self.by {
            Some(by) => *by == outcome.agent || by.ancestors().any(|above| above == outcome.agent),
            None => outcome.may_change_unseen(),
        }
    }
}

impl FileSnapshot {
    /// Looks at the files that an agent has read.
    pub(crate) async fn take(session: &Arc<SessionView>, parent: &AgentId) -> Self {
        // A replay changes no files, and stays on its thread.
        if session.files.read_by(parent).is_empty() || !is_saved(session) {
            return Self {
                mark: session.files.mark(),
                files: BTreeMap::new(),
                is_of_earlier_process: false,
            };
        }
        let session = Arc::clone(session);
        let parent = parent.clone();
        run_blocking(move || Self::look(&session.files, &parent)).await
    }

    /// Looks at the files, on a thread that may block.
    pub(crate) fn look(files: &FileLedger, parent: &AgentId) -> Self {
        let mark = files.mark();
        let known = files.read_by(parent).into_iter();
        let known = known.map(|(path, version)| {
            let stamp = FileStamp::read(&path);
            (path, KnownFile { version, stamp })
        });
        Self { mark, files: known.collect(), is_of_earlier_process: false }
    }

    /// Marks it as the snapshot of a call that an earlier process began.
    pub(crate) fn of_earlier_process(self) -> Self {
        Self { is_of_earlier_process: true, ..self }
    }

    /// Returns the files that other agents wrote by tools since.
    pub(crate) fn written_since(&self, files: &FileLedger, parent: &AgentId) -> Vec<StaleFile> {
        let changed = files.changed_since(self.mark, parent).into_iter();
        changed.map(|(path, by)| StaleFile { path, by: Some(by), gone: false }).collect()
    }

    /// Returns whether the parent has read a file again since.
    pub(crate) fn is_read_again(&self, files: &FileLedger, parent: &AgentId, path: &Path) -> bool {
        let Some(known) = self.files.get(path) else { return false };
        let now = files.read_by(parent).into_iter().find(|(read, _)| read == path);
        now.is_some_and(|(_, version)| version != known.version)
    }

    /// Returns the files that are something else now than the parent knows, by tools or without
    /// them. This looks at each file and reads some, on a thread that may block.
    pub(crate) fn compare(&self, files: &FileLedger, parent: &AgentId) -> Vec<StaleFile> {
        let mut stale: BTreeMap<PathBuf, StaleFile> = BTreeMap::new();
        for file in self.written_since(files, parent) {
            let gone = self.was_there(&file.path) && !file.path.exists();
            stale.insert(file.path.clone(), StaleFile { gone, ..file });
        }
        let mut enter = |path: PathBuf, by: Option<AgentId>, gone: bool| {
            stale.entry(path.clone()).or_insert(StaleFile { path, by, gone });
        };
        let mut room = COMPARED_BYTES;
        for (path, known) in files.read_by(parent) {
            let before = self.files.get(&path).and_then(|file| file.stamp);
            match FileStamp::read(&path) {
                // What was not there when the call began is not lost by it.
                _ if before.is_none() && !self.is_of_earlier_process => {}
                None => enter(path, None, true),
                same if same == before && !self.is_of_earlier_process => {}
                Some(now) => match content(&path, now.bytes, &mut room) {
                    Some(version) if version == known => {}
                    // Without room to read it its size tells.
                    None if before == Some(now) && now.bytes == known.bytes => {}
                    version => {
                        let written = files.last_write(&path);
                        let by = written.filter(|(_, wrote)| version.as_ref() == Some(wrote));
                        enter(path, by.map(|(by, _)| by), false);
                    }
                },
            }
        }
        stale.into_values().filter(|file| file.by.as_ref() != Some(parent)).collect()
    }

    fn was_there(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|file| file.stamp.is_some())
    }
}

/// Returns the version of a file's content, if it fits into the rest of the limit.
fn content(path: &Path, bytes: u64, room: &mut u64) -> Option<FileVersion> {
    *room = room.checked_sub(bytes)?;
    let mut content = Vec::new();
    fs::File::open(path).ok()?.take(bytes + 1).read_to_end(&mut content).ok()?;
    Some(FileVersion::of(&content))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use deputize_core::{CallId, SessionId};
    use tempfile::TempDir;

    use super::*;

    struct LedgerFixture {
        dir: TempDir,
        files: FileLedger,
        parent: AgentId,
    }

    impl LedgerFixture {
        /// A parent that has read these files.
        fn new(names: &[&str]) -> Self {
            let parent = AgentId::root(&SessionId::literal("s1"));
            let rig = Self { dir: TempDir::new().unwrap(), files: FileLedger::default(), parent };
            for name in names {
                fs::write(rig.path(name), "old").unwrap();
                rig.files.record_read(&rig.parent, &rig.path(name), FileVersion::of(b"old"));
            }
            rig
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn child(&self, index: u32) -> AgentId {
            self.parent.child(CallId::new(1, 0), index)
        }

        fn write(&self, by: &AgentId, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
            self.files.record_write(by, &self.path(name), FileVersion::of(text.as_bytes()));
        }

        fn shell(&self, script: &str) {
            let mut shell = Command::new("/bin/sh");
            assert!(shell.args(["-ec", script]).current_dir(&self.dir).status().unwrap().success());
        }

        fn stale(&self, before: &FileSnapshot) -> Vec<String> {
            let show = |file: StaleFile| {
                let name = file.path.file_name().unwrap().to_string_lossy().into_owned();
                let by = file.by.map_or("?".to_owned(), |by| by.to_string());
                format!("{name} {by}{}", if file.gone { " gone" } else { "" })
            };
            before.compare(&self.files, &self.parent).into_iter().map(show).collect()
        }
    }

    #[test]
    fn commands_that_change_move_and_delete_are_found_by_comparing() {
        let rig = LedgerFixture::new(&[
            "changed", "deleted", "moved", "kept", "replaced", "touched", "same",
        ]);
        let before = FileSnapshot::look(&rig.files, &rig.parent);
        rig.shell(
            "echo new > changed; rm deleted; mv moved elsewhere; touch touched; printf old > same
             printf OLD > x; touch -r replaced x; mv x replaced",
        );
        assert_eq!(
            rig.stale(&before),
            ["changed ?", "deleted ? gone", "moved ? gone", "replaced ?"]
        );
        // The next call does not tell it again.
        assert_eq!(rig.stale(&FileSnapshot::look(&rig.files, &rig.parent)), [] as [&str; 0]);
    }

    #[test]
    fn what_was_changed_before_a_call_was_taken_up_again_is_found_too() {
        let rig = LedgerFixture::new(&["changed", "deleted", "kept"]);
        rig.shell("printf new > changed; rm deleted");
        let look = || FileSnapshot::look(&rig.files, &rig.parent);
        assert_eq!(rig.stale(&look()), [] as [&str; 0]);
        assert_eq!(rig.stale(&look().of_earlier_process()), ["changed ?", "deleted ? gone"]);
    }

    #[test]
    fn writes_by_tools_say_who_it_was_unless_a_command_came_after() {
        let rig = LedgerFixture::new(&["a", "b", "mine", "back"]);
        let before = FileSnapshot::look(&rig.files, &rig.parent);
        rig.write(&rig.child(0), "a", "new");
        rig.write(&rig.child(1), "b", "new");
        rig.write(&rig.child(1), "unread", "new");
        rig.write(&rig.parent, "mine", "new");
        rig.shell("rm b");
        assert_eq!(rig.stale(&before), ["a s1/1.0.0", "b s1/1.0.1 gone"]);
    }

    #[test]
    fn what_takes_a_files_place_is_not_waited_for() {
        let rig = LedgerFixture::new(&["pipe", "folder", "link"]);
        let before = FileSnapshot::look(&rig.files, &rig.parent);
        rig.shell("rm pipe folder link; mkfifo pipe; mkdir folder; ln -s /dev/zero link");
        assert_eq!(rig.stale(&before), ["folder ? gone", "link ? gone", "pipe ? gone"]);
    }
}
