//! Files that a parent had read and that are something else when its children have ended.
//!
//! Writes by tools are in the ledger. Commands write behind its back, so what the parent had read
//! is looked at before and after: a file whose size, times or identity changed is read and
//! compared. That happens in place: it is one `stat` for each such file, and a bounded number of
//! bytes read. Of a call that an earlier process began nobody knows what was there then: all that
//! the parent had read is compared.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::slice;

use deputize_core::file_state::{FileLedger, FileVersion, StaleWrite};
use deputize_core::{AgentId, Outcome};

use crate::report::StaleFile;

/// Bytes that are read to compare; a file beyond that is taken as changed when its size or its
/// times say so.
const COMPARED_BYTES: u64 = 32 * 1024 * 1024;

/// What tells without reading whether a file may have changed: device, number, size, and the
/// times of content and of entry, to the nanosecond.
type FileStamp = (u64, u64, u64, (i64, i64), (i64, i64));

fn stamp(path: &Path) -> Option<FileStamp> {
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let (content, entry) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    Some((meta.dev(), meta.ino(), meta.len(), content, entry))
}

/// The files that a parent had read, as they are when its call begins.
pub(crate) struct FileSnapshot {
    mark: u64,
    stamps: BTreeMap<PathBuf, Option<FileStamp>>,
    /// Whether an earlier process began the call, so that its children may have changed them before
    /// they were looked at.
    late: bool,
}

impl FileSnapshot {
    /// Looks at them.
    pub(crate) fn take(files: &FileLedger, parent: &AgentId) -> Self {
        let known = files.read_by(parent).into_iter();
        let stamps = known.map(|(path, _)| (stamp(&path), path)).map(|(stamp, path)| (path, stamp));
        Self { mark: files.mark(), stamps: stamps.collect(), late: false }
    }

    /// As they are when a call is taken up again.
    pub(crate) fn late(self) -> Self {
        Self { late: true, ..self }
    }

    /// Those that one child has changed, as far as that can be told when it ends.
    pub(crate) fn stale_by(
        &self,
        files: &FileLedger,
        parent: &AgentId,
        child: &Outcome,
    ) -> Vec<StaleFile> {
        // Only what may have written behind the ledger's back is worth a look at every file.
        let looks = child.may_change_unseen();
        let mut stale = self.changed(files, parent, (slice::from_ref(child), looks));
        stale.retain(|file| file.is_of(child));
        stale
    }

    /// Those that are something else now than the parent knows. The ledger knows what happened
    /// while this process ran; of children that had ended before a resume, the receipts tell.
    pub(crate) fn stale(
        &self,
        files: &FileLedger,
        parent: &AgentId,
        outcomes: &[Outcome],
    ) -> Vec<StaleFile> {
        self.changed(files, parent, (outcomes, true))
    }

    fn changed(
        &self,
        files: &FileLedger,
        parent: &AgentId,
        (outcomes, looks): (&[Outcome], bool),
    ) -> Vec<StaleFile> {
        let mut stale: BTreeMap<PathBuf, StaleFile> = BTreeMap::new();
        let mut enter = |path: PathBuf, by: Option<AgentId>, gone: bool| {
            stale.entry(path.clone()).or_insert(StaleFile { path, by, gone });
        };
        for (path, by) in files.changed_since(self.mark, parent) {
            let gone = self.was_there(&path) && !path.exists();
            enter(path, Some(by), gone);
        }
        let mut room = COMPARED_BYTES;
        let known = if looks { files.read_by(parent) } else { Vec::new() };
        for (path, known) in known {
            let before = self.stamps.get(&path).copied().flatten();
            match stamp(&path) {
                // What was not there when the call began is not lost by it.
                _ if before.is_none() && !self.late => {}
                None => enter(path, None, true),
                same if same == before && !self.late => {}
                Some(now) => match content(&path, now.2, &mut room) {
                    Some(version) if version == known => {}
                    // Without room to read it its size tells.
                    None if before == Some(now) && now.2 == known.bytes => {}
                    version => {
                        let written = files.last_write(&path);
                        let by = written.filter(|(_, wrote)| version.as_ref() == Some(wrote));
                        enter(path, by.map(|(by, _)| by), false);
                    }
                },
            }
        }
        for (by, seen) in outcomes.iter().flat_map(Outcome::all_receipts) {
            for (path, version) in &seen.files_written {
                if let Err(StaleWrite::Changed { .. }) = files.check(parent, path, version) {
                    enter(path.clone(), Some(by.clone()), false);
                }
            }
        }
        stale.into_values().filter(|file| file.by.as_ref() != Some(parent)).collect()
    }

    fn was_there(&self, path: &Path) -> bool {
        self.stamps.get(path).is_some_and(Option::is_some)
    }
}

/// What is in a file, if there is room to read it.
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
            self.parent.child(CallId { step: 1, slot: 0 }, index)
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
            before.stale(&self.files, &self.parent, &[]).into_iter().map(show).collect()
        }
    }

    #[test]
    fn commands_that_change_move_and_delete_are_found_by_comparing() {
        let rig = LedgerFixture::new(&[
            "changed", "deleted", "moved", "kept", "replaced", "touched", "same",
        ]);
        let before = FileSnapshot::take(&rig.files, &rig.parent);
        rig.shell(
            "echo new > changed; rm deleted; mv moved elsewhere; touch touched; printf old > same
             printf OLD > x; touch -r replaced x; mv x replaced",
        );
        assert_eq!(
            rig.stale(&before),
            ["changed ?", "deleted ? gone", "moved ? gone", "replaced ?"]
        );
        // The next call does not tell it again.
        assert_eq!(rig.stale(&FileSnapshot::take(&rig.files, &rig.parent)), [] as [&str; 0]);
    }

    #[test]
    fn what_was_changed_before_a_call_was_taken_up_again_is_found_too() {
        let rig = LedgerFixture::new(&["changed", "deleted", "kept"]);
        rig.shell("printf new > changed; rm deleted");
        let look = || FileSnapshot::take(&rig.files, &rig.parent);
        assert_eq!(rig.stale(&look()), [] as [&str; 0]);
        assert_eq!(rig.stale(&look().late()), ["changed ?", "deleted ? gone"]);
    }

    #[test]
    fn writes_by_tools_say_who_it_was_unless_a_command_came_after() {
        let rig = LedgerFixture::new(&["a", "b", "mine", "back"]);
        let before = FileSnapshot::take(&rig.files, &rig.parent);
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
        let before = FileSnapshot::take(&rig.files, &rig.parent);
        rig.shell("rm pipe folder link; mkfifo pipe; mkdir folder; ln -s /dev/zero link");
        assert_eq!(rig.stale(&before), ["folder ? gone", "link ? gone", "pipe ? gone"]);
    }
}
