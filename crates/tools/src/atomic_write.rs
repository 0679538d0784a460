//! A file's content is replaced as a whole, or not at all.

use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{
    Dir, File, Metadata, MetadataExt as _, OpenOptions, Permissions, PermissionsExt as _,
};
use deputize_core::{ToolCx, ToolError};
use deputize_file_lock::lock;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, openat};
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

/// The longest wait for another session. The lock is held for an instant; a program that holds the lock
/// of a directory for longer is none of ours.
const TURN_LIMIT: Duration = Duration::from_secs(1);

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
    let ParentDirectory { dir, name, created } = ParentDirectory::open(place)?;
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
    let _turn = wait_for_turn(cx, &temporary.dir);
    check_unchanged(place, &temporary.dir, name, old)?;
    still_wanted(cx)?;
    let failed = |source| PathError::of("write", place.shown(), source);
    Ok(temporary.move_to(name).map_err(failed)?)
}

/// Waits until no other session is between its last look at a file of this directory and its move, and
/// holds them back until the lock is dropped. Where there is no lock, nobody is held back.
pub(crate) fn wait_for_turn(cx: &ToolCx, dir: &Dir) -> Option<std::fs::File> {
    // The descriptor of a `Dir` is for paths alone, and cannot be locked.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = openat(dir, ".", flags, Mode::empty()).ok()?;
    lock(own.into(), TURN_LIMIT, || cx.cancel.is_cancelled()).ok()
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
mod tests;
