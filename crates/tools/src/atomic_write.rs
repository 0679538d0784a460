//! A file's content is replaced as a whole, or not at all.

use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::{
    Dir, File, Metadata, MetadataExt as _, OpenOptions, Permissions, PermissionsExt as _,
};
use deputize_core::{ToolCx, ToolError};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::blocking::still_wanted;
use crate::granted_path::GrantedPath;
use crate::leftovers::{PREFIX, SUFFIX, mark_as_used, remove_leftovers};
use crate::parent_directory::ParentDirectory;
use crate::path_error::PathError;

/// The part of a file's mode that a new content keeps; that a program runs as its owner is not
/// kept, as the kernel would not either.
const KEPT_MODE: u32 = 0o777;

/// Writes `new` to a new file and moves that to the place. A failure or a cancel at any point
/// leaves the old content whole. `old` is what was there when the change was made up; when
/// something else is there at the end, nothing is written.
///
/// The move is the last thing that is done. The directory is not synced after it: that could take
/// long or fail when the write has happened already. So the loss of power may bring back the old
/// content, whole.
///
/// The new file is made in the same directory, so it gets the rights of files there. It has no name
/// until it is written and synced. For the instant before the move it has one in the session's
/// directory. What a killed program leaves there, the next session removes (`remove_leftovers`). On
/// file systems without unnamed files, such as network file systems, it has a name in the same
/// directory from its beginning; there the next write removes it.
///
/// Other names of the same file (hard links) keep the old content. The owner, the group and the mode
/// stay; where this user cannot give the new file to the owner of the old one, nothing is written.
/// Directories that were created for a file that is not written are removed.
pub(crate) fn replace(
    cx: &ToolCx,
    place: &GrantedPath,
    old: Option<&Metadata>,
    new: &[u8],
) -> Result<(), ToolError> {
    still_wanted(cx)?;
    let failed = |source| PathError::of("write", place.shown(), source);
    let ParentDirectory { dir, name, created } = ParentDirectory::open(place).map_err(failed)?;
    let temporary = TemporaryFile::create(cx, place, dir).map_err(failed)?;
    temporary.fill(place, new, old)?;
    put(cx, place, old, temporary, name)?;
    created.keep();
    Ok(())
}

/// The last step: moves what was written there, if that is still wanted and still right.
fn put(
    cx: &ToolCx,
    place: &GrantedPath,
    old: Option<&Metadata>,
    temporary: TemporaryFile,
    name: &Path,
) -> Result<(), ToolError> {
    check_unchanged(place, &temporary.dir, name, old)?;
    still_wanted(cx)?;
    let failed = |source| PathError::of("write", place.shown(), source);
    Ok(temporary.move_to(name).map_err(failed)?)
}

/// Fails if another file is at a place than `old`, or one where there was none, or one that this
/// process may not write: a new file could take its place all the same.
pub(crate) fn check_unchanged(
    place: &GrantedPath,
    dir: &Dir,
    name: &Path,
    old: Option<&Metadata>,
) -> Result<(), PathError> {
    let now = dir.symlink_metadata(name).ok();
    if now.as_ref().map(stamp) != old.map(stamp) {
        return Err(PathError::Moved(place.shown().to_owned()));
    }
    let allowed = accessat(dir, name, Access::WRITE_OK, AtFlags::empty());
    match allowed {
        Err(Errno::ACCESS) => Err(PathError::NotWritable(place.shown().to_owned())),
        // No file is there, or the next step meets what is wrong.
        _ => Ok(()),
    }
}

/// Returns metadata that changes with a file. Programs can set back the time of the content, but not
/// that of the change.
fn stamp(meta: &Metadata) -> ([u64; 3], [i64; 4]) {
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    ([meta.dev(), meta.ino(), meta.len()], times)
}

/// The new content of a place, without a name as long as possible. Its lock is held until it has its
/// place, so that no other session takes it for a leftover.
pub(crate) struct TemporaryFile {
    /// The directory of the place.
    pub(crate) dir: Dir,
    name: String,
    file: File,
    /// Where it gets its name, if that works: where the next session looks for leftovers.
    home: Arc<Dir>,
    /// The directory in which it has a name, which is taken from it when it does not get its place.
    named_in: Option<Dir>,
}

impl TemporaryFile {
    /// Creates the file for the content of a place in this directory.
    pub(crate) fn create(cx: &ToolCx, place: &GrantedPath, dir: Dir) -> io::Result<Self> {
        let Some(file) = nameless(&dir) else { return Self::create_named(cx, place, dir) };
        mark_as_used(&file);
        let home = place.session_root(cx);
        Ok(Self { dir, name: temporary_name(cx, place), file, home, named_in: None })
    }

    /// For file systems where every file has a name from its beginning.
    fn create_named(cx: &ToolCx, place: &GrantedPath, dir: Dir) -> io::Result<Self> {
        remove_leftovers(&dir);
        let name = temporary_name(cx, place);
        loop {
            let file = dir.open_with(&name, OpenOptions::new().write(true).create_new(true))?;
            mark_as_used(&file);
            // Before it was locked, another session may have taken it for a leftover.
            if dir.exists(&name) {
                let (home, named_in) = (place.session_root(cx), Some(dir.try_clone()?));
                return Ok(Self { dir, name, file, home, named_in });
            }
        }
    }

    /// Writes the content of a place, with the owner, the group and the mode of an old file.
    pub(crate) fn fill(
        &self,
        place: &GrantedPath,
        new: &[u8],
        old: Option<&Metadata>,
    ) -> Result<(), PathError> {
        let failed = |source| PathError::of("write", place.shown(), source);
        let mut file = &self.file;
        if let Some(old) = old {
            if !self.take_owner(old).map_err(failed)? {
                return Err(PathError::OtherOwner(place.shown().to_owned()));
            }
            let mode = Permissions::from_mode(old.mode() & KEPT_MODE);
            file.set_permissions(mode).map_err(failed)?;
        }
        file.write_all(new).map_err(failed)?;
        file.sync_all().map_err(failed)
    }

    /// Gives the new file the owner and the group of an old one, and returns whether it has them. Only
    /// the administrator can give files away; anyone can give a file to a group of their own.
    fn take_owner(&self, old: &Metadata) -> io::Result<bool> {
        let is_same = |new: &Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
        let new = self.file.metadata()?;
        if is_same(&new) {
            return Ok(true);
        }
        let user = (new.uid() != old.uid()).then(|| rustix::fs::Uid::from_raw(old.uid()));
        let group = rustix::fs::Gid::from_raw(old.gid());
        let _whether_it_was_given_shows = rustix::fs::fchown(&self.file, user, Some(group));
        Ok(is_same(&self.file.metadata()?))
    }

    pub(crate) fn move_to(mut self, name: &Path) -> io::Result<()> {
        if self.named_in.is_none() {
            self.named_in = Some(self.give_name()?);
        }
        if let Some(from) = &self.named_in {
            from.rename(&self.name, &self.dir, name)?;
        }
        self.named_in = None;
        Ok(())
    }

    /// Gives it a name, because only a name can take the place of another, and returns the directory:
    /// the session's, unless another device or other rights begin below that.
    fn give_name(&self) -> io::Result<Dir> {
        let link = |dir: &Dir| {
            let from = descriptor(&self.file);
            rustix::fs::linkat(CWD, from, dir, &self.name, AtFlags::SYMLINK_FOLLOW)
        };
        if link(&self.home).is_ok() {
            return self.home.try_clone();
        }
        link(&self.dir)?;
        self.dir.try_clone()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(dir) = &self.named_in {
            let _best_effort = dir.remove_file(&self.name);
        }
    }
}

/// A name of its own for each file that a call writes.
fn temporary_name(cx: &ToolCx, place: &GrantedPath) -> String {
    let process = std::process::id();
    let id = format!("{process} {} {} {}", cx.agent.id().as_str(), cx.call, place.path().display());
    let sum = data_encoding::HEXLOWER.encode(&Sha256::digest(id.as_bytes()));
    format!("{PREFIX}{}{SUFFIX}", sum.get(..16).unwrap_or(&sum))
}

/// A file that has no name in its directory, where the system has such.
#[cfg(target_os = "linux")]
fn nameless(dir: &Dir) -> Option<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(dir, ".", flags, Mode::from_raw_mode(0o666)).ok()?;
    let file = File::from_std(std::fs::File::from(file));
    // Without this folder it could never get a name.
    Path::new(&descriptor(&file)).exists().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Dir) -> Option<File> {
    None
}

/// The path of an open file, named or not.
fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::apply_patch::ApplyPatch;
    use crate::edit_file::EditFile;
    use crate::fixture::{ToolFixture, again_without_rights};
    use crate::read_file::ReadFile;
    use crate::write_file::WriteFile;
    use deputize_requirements::{require, root, test_path};
    use serde_json::json;

    #[test]
    fn what_changed_meanwhile_is_not_overwritten() {
        let bench = ToolFixture::new();
        bench.put("f", "read");
        let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
        let read = place.metadata().unwrap();
        bench.put("f", "written by someone else");
        for old in [Some(&read), None] {
            let error = replace(&bench.cx, &place, old, b"mine").unwrap_err().to_string();
            assert!(error.contains("another program changed it during this call"), "{error}");
        }
        let new = GrantedPath::to_write(&bench.cx, "new/er/f").unwrap();
        replace(&bench.cx, &new, Some(&read), b"mine").unwrap_err();
        assert_eq!(bench.get("f"), b"written by someone else");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }

    #[test]
    fn a_change_whose_time_is_set_back_is_not_overwritten() {
        let bench = ToolFixture::new();
        bench.put("f", "read");
        let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
        let read = place.metadata().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(bench.path("f")).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        // The clock of files may stand still between two steps of this test.
        while place.metadata().unwrap().ctime_nsec() == read.ctime_nsec() {
            (&file).write_all(b"else").unwrap();
            std::io::Seek::rewind(&mut &file).unwrap();
            file.set_modified(time).unwrap();
        }
        let error = replace(&bench.cx, &place, Some(&read), b"mine").unwrap_err().to_string();
        assert!(error.contains("another program changed it during this call"), "{error}");
        assert_eq!(bench.get("f"), b"else");
    }

    #[test]
    fn a_file_that_this_user_may_not_write_is_not_replaced() {
        again_without_rights(test_path!(), || {
            let bench = ToolFixture::new();
            bench.put("f", "old\n");
            std::fs::set_permissions(bench.path("f"), PermissionsExt::from_mode(0o444)).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                bench.call(ReadFile, json!({"path": "f"})).await;
                let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n";
                let results = [
                    bench.call(WriteFile, json!({"path": "f", "content": "new"})).await,
                    bench.call(EditFile, json!({"path": "f", "old": "old", "new": "new"})).await,
                    bench.call(ApplyPatch, json!({"patch": patch})).await,
                ];
                for result in results {
                    assert!(result.starts_with("refused: permission denied: f may"), "{result}");
                }
            });
            assert_eq!(bench.get("f"), b"old\n");
            assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
        });
    }

    #[tokio::test]
    async fn a_changed_file_keeps_its_owner_and_its_group() {
        use std::os::unix::fs::{MetadataExt as _, chown};
        require!(root());
        let bench = ToolFixture::new();
        for name in ["written", "edited", "patched"] {
            bench.put(name, "old\n");
            chown(bench.path(name), Some(12_345), Some(23_456)).unwrap();
            bench.call(ReadFile, json!({"path": name})).await;
        }
        let patch = "--- a/patched\n+++ b/patched\n@@ -1 +1 @@\n-old\n+new\n";
        bench.call(WriteFile, json!({"path": "written", "content": "new\n"})).await;
        bench.call(EditFile, json!({"path": "edited", "old": "old", "new": "new"})).await;
        bench.call(ApplyPatch, json!({"patch": patch})).await;
        for name in ["written", "edited", "patched"] {
            let meta = bench.path(name).metadata().unwrap();
            assert_eq!(bench.get(name), b"new\n");
            assert_eq!((meta.uid(), meta.gid()), (12_345, 23_456), "{name}");
        }
    }

    /// A file of the administrator that everybody may write: each process of this test knows it by
    /// the one that began.
    fn file_of_root(process: u32) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("deputize-file-of-root-{process}"))
    }

    #[test]
    fn a_file_that_would_change_its_owner_is_not_changed() {
        struct RootFile(std::path::PathBuf);
        impl Drop for RootFile {
            fn drop(&mut self) {
                std::fs::remove_file(&self.0).unwrap();
            }
        }
        let of_root = root().is_ok().then(|| {
            let file = RootFile(file_of_root(std::process::id()));
            std::fs::write(&file.0, "old\n").unwrap();
            std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o666)).unwrap();
            file
        });
        again_without_rights(test_path!(), || {
            let file = file_of_root(std::os::unix::process::parent_id());
            let made = file.exists().then_some(()).ok_or_else(|| "it needs root".to_owned());
            require!(made);
            let bench = ToolFixture::new();
            std::fs::hard_link(file, bench.path("f")).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                bench.call(ReadFile, json!({"path": "f"})).await;
                let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n--- /dev/null\n+++ b/d/g\n\
                             @@ -0,0 +1 @@\n+new\n";
                let results = [
                    bench.call(WriteFile, json!({"path": "f", "content": "new"})).await,
                    bench.call(EditFile, json!({"path": "f", "old": "old", "new": "new"})).await,
                    bench.call(ApplyPatch, json!({"patch": patch})).await,
                ];
                for result in results {
                    assert!(result.contains("f belongs to another user or group"), "{result}");
                }
            });
            assert_eq!(bench.get("f"), b"old\n");
            assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
        });
        drop(of_root);
    }

    #[test]
    fn a_cancel_while_the_new_content_is_written_changes_nothing() {
        let bench = ToolFixture::new();
        bench.put("f", "old");
        let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
        let old = place.metadata().unwrap();
        let dir = place.root().try_clone().unwrap();
        let temporary = TemporaryFile::create(&bench.cx, &place, dir).unwrap();
        temporary.fill(&place, b"new", Some(&old)).unwrap();
        bench.cx.cancel.cancel(deputize_core::CancelReason::Interrupted);
        let error = put(&bench.cx, &place, Some(&old), temporary, Path::new("f")).unwrap_err();
        assert!(matches!(error, ToolError::Cancelled(_)), "{error}");
        assert_eq!(bench.get("f"), b"old");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }

    /// Ways to write a content, and how many files a crash leaves behind before its move.
    type WriteFn = fn(&ToolCx, &GrantedPath, Dir) -> io::Result<TemporaryFile>;
    const WAYS: [(WriteFn, usize); 2] =
        [(TemporaryFile::create, 0), (TemporaryFile::create_named, 1)];

    #[test]
    fn a_crash_while_the_new_content_is_written_leaves_nothing_in_the_directory() {
        for (create, left) in WAYS {
            let bench = ToolFixture::new();
            let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
            if left == 0 && nameless(place.root()).is_none() {
                println!("not run: this file system names every file");
                continue;
            }
            let dir = place.root().try_clone().unwrap();
            let temporary = create(&bench.cx, &place, dir).unwrap();
            temporary.fill(&place, b"new", None).unwrap();
            std::mem::forget(temporary);
            assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), left);
        }
    }

    #[test]
    fn a_leftover_lies_where_the_next_session_looks_and_one_in_use_stays() {
        let bench = ToolFixture::new();
        let roots = Arc::new(crate::GrantedRoots::of(&bench.root()));
        bench.cx.agent.session.settings.share(Arc::clone(&roots));
        let mine = [".deputize-notes.md", "a.tmp", ".deputize-d.tmp/f"];
        bench.put("d/f", "").put(mine[0], "").put(mine[1], "").put(mine[2], "");
        for (create, left) in WAYS {
            let own = left == 1;
            let place = GrantedPath::to_write(&bench.cx, "d/f").unwrap();
            let dir = place.root().open_dir("d").unwrap();
            let mut temporary = create(&bench.cx, &place, dir).unwrap();
            if temporary.named_in.is_none() {
                temporary.named_in = Some(temporary.give_name().unwrap());
            }
            let left = bench.path(if own { "d" } else { "" }).join(&temporary.name);
            let next = || match own {
                true => remove_leftovers(&place.root().open_dir("d").unwrap()),
                false => roots.remove_leftovers(),
            };
            next();
            assert!(left.exists(), "another session still writes it");
            temporary.named_in = None;
            drop(temporary);
            assert!(left.exists(), "as if its writer had been killed");
            next();
            assert!(!left.exists());
        }
        assert!(mine.iter().all(|name| bench.path(name).exists()));
    }

    #[test]
    fn a_content_gets_its_place_or_goes() {
        for (create, _) in WAYS {
            let bench = ToolFixture::new();
            let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
            let dir = || place.root().try_clone().unwrap();
            let create = || create(&bench.cx, &place, dir()).unwrap();
            drop(create());
            assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 0);
            let temporary = create();
            temporary.fill(&place, b"new", None).unwrap();
            put(&bench.cx, &place, None, temporary, Path::new("f")).unwrap();
            assert_eq!(bench.get("f"), b"new");
            assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
        }
    }
}
