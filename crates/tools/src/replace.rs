//! A file's content is replaced as a whole, or not at all.

use std::io::{self, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, Permissions, PermissionsExt as _};
use deputize_core::{ToolCx, ToolError};
use sha2::{Digest as _, Sha256};

use crate::blocking::still_wanted;
use crate::path_error::PathError;
use crate::place::Place;

/// The part of a file's mode that a new content keeps; that a program runs as its owner is not
/// kept, as the kernel would not either.
const KEPT_MODE: u32 = 0o777;

/// Writes `new` to a file beside the place and moves it there. A failure or a cancel at any point
/// leaves the old content whole. `old` is what was there when the change was made up; when
/// something else is there at the end, nothing is written.
///
/// The move is the last thing that is done. The directory is not synced after it: that could take
/// long or fail when the write has happened already. So the loss of power may bring back the old
/// content, whole.
///
/// Other names of the same file (hard links) keep the old content.
pub(crate) fn replace(
    cx: &ToolCx,
    place: &Place,
    old: Option<&Metadata>,
    new: &[u8],
) -> Result<(), ToolError> {
    still_wanted(cx)?;
    let failed = |source| PathError::of("write", place.shown(), source);
    let (dir, name) = parent(place).map_err(failed)?;
    let temporary = Temporary::create(cx, dir).map_err(failed)?;
    temporary.fill(new, old).map_err(failed)?;
    put(cx, place, old, temporary, name)
}

/// The last step: moves what was written there, if that is still wanted and still right.
fn put(
    cx: &ToolCx,
    place: &Place,
    old: Option<&Metadata>,
    temporary: Temporary,
    name: &Path,
) -> Result<(), ToolError> {
    let now = temporary.dir.symlink_metadata(name).ok();
    if now.as_ref().map(stamp) != old.map(stamp) {
        return Err(PathError::Moved(place.shown().to_owned()).into());
    }
    still_wanted(cx)?;
    let failed = |source| PathError::of("write", place.shown(), source);
    Ok(temporary.move_to(name).map_err(failed)?)
}

/// The directory of a place, made if need be, and the name in it.
fn parent(place: &Place) -> io::Result<(Dir, &Path)> {
    let rel = place.rel();
    let name = rel.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let dir = match rel.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        None => place.root().try_clone()?,
        Some(parent) => {
            place.root().create_dir_all(parent)?;
            place.root().open_dir(parent)?
        }
    };
    Ok((dir, Path::new(name)))
}

/// What changes when a file does.
fn stamp(meta: &Metadata) -> (u64, u64, u64, i64, i64) {
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())
}

/// A file beside the place, removed unless it is moved there.
struct Temporary {
    dir: Dir,
    name: String,
    file: cap_std::fs::File,
    moved: bool,
}

impl Temporary {
    fn create(cx: &ToolCx, dir: Dir) -> io::Result<Self> {
        // One call writes one file, so its id makes the name its own; what an earlier run of the
        // same call left behind in a crash is garbage.
        let id = format!("{} {}", cx.agent.id().as_str(), cx.call);
        let sum = data_encoding::HEXLOWER.encode(&Sha256::digest(id.as_bytes()));
        let name = format!(".deputize-{}.tmp", sum.get(..16).unwrap_or(&sum));
        match dir.remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = dir.open_with(&name, OpenOptions::new().write(true).create_new(true))?;
        Ok(Self { dir, name, file, moved: false })
    }

    fn fill(&self, new: &[u8], old: Option<&Metadata>) -> io::Result<()> {
        let mut file = &self.file;
        if let Some(old) = old {
            // Only the administrator can give files away; for anyone else the new file is theirs.
            let (user, group) =
                (rustix::fs::Uid::from_raw(old.uid()), rustix::fs::Gid::from_raw(old.gid()));
            let _ours_then = rustix::fs::fchown(file, Some(user), Some(group));
            file.set_permissions(Permissions::from_mode(old.mode() & KEPT_MODE))?;
        }
        file.write_all(new)?;
        file.sync_all()
    }

    fn move_to(mut self, name: &Path) -> io::Result<()> {
        self.dir.rename(&self.name, &self.dir, name)?;
        self.moved = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.moved {
            let _best_effort = self.dir.remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Bench;

    #[test]
    fn what_changed_meanwhile_is_not_overwritten() {
        let bench = Bench::new();
        bench.put("f", "read");
        let place = Place::to_write(&bench.cx, "f").unwrap();
        let read = place.metadata().unwrap();
        bench.put("f", "written by someone else");
        for old in [Some(&read), None] {
            let error = replace(&bench.cx, &place, old, b"mine").unwrap_err().to_string();
            assert!(error.contains("another program changed it during this call"), "{error}");
        }
        assert_eq!(bench.get("f"), b"written by someone else");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }

    #[test]
    fn a_cancel_while_the_new_content_is_written_changes_nothing() {
        let bench = Bench::new();
        bench.put("f", "old");
        let place = Place::to_write(&bench.cx, "f").unwrap();
        let old = place.metadata().unwrap();
        let temporary = Temporary::create(&bench.cx, place.root().try_clone().unwrap()).unwrap();
        temporary.fill(b"new", Some(&old)).unwrap();
        bench.cx.cancel.cancel(deputize_core::CancelReason::Interrupted);
        let error = put(&bench.cx, &place, Some(&old), temporary, Path::new("f")).unwrap_err();
        assert!(matches!(error, ToolError::Cancelled(_)), "{error}");
        assert_eq!(bench.get("f"), b"old");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_crash_left_behind_is_replaced() {
        let bench = Bench::new();
        let place = Place::to_write(&bench.cx, "f").unwrap();
        let left = Temporary::create(&bench.cx, place.root().try_clone().unwrap()).unwrap();
        std::mem::forget(left);
        replace(&bench.cx, &place, None, b"new").unwrap();
        assert_eq!(bench.get("f"), b"new");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }
}
