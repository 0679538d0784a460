//! The folder of one browser: its profile, its cache and its temporary files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What the names of these folders begin with.
const PREFIX: &str = "deputize-browser-";
/// What they begin with until they are locked.
const NEW_PREFIX: &str = ".new-deputize-browser-";
/// The file in each that its owner holds locked.
const LOCK: &str = "owner";

/// A folder for a browser, removed when it is dropped. If this program is killed instead, the next
/// browser of any program removes it.
#[derive(Debug)]
pub(crate) struct ProfileFolder {
    path: PathBuf,
    _lock: File,
}

impl ProfileFolder {
    /// Creates one in a place for temporary files, readable by this user only.
    pub(crate) fn create(place: &Path) -> io::Result<Self> {
        remove_abandoned(place);
        // Not before it is locked may others find it by its name.
        let new = tempfile::Builder::new().prefix(NEW_PREFIX).tempdir_in(place)?;
        let lock = File::create_new(new.path().join(LOCK))?;
        lock.lock()?;
        let name = new.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = place.join(name.replacen(NEW_PREFIX, PREFIX, 1));
        fs::rename(new.path(), &path)?;
        let _moved = new.keep();
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProfileFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(error = error.to_string(), "profile of a browser is left");
        }
    }
}

/// Removes the folders of browsers whose owner is gone.
fn remove_abandoned(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Folders of other users cannot be opened. A link is not followed.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if is_folder && lock.try_lock().is_ok() {
            let _what_cannot_be_removed_stays = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_owner_or_by_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let create = || ProfileFolder::create(place.path()).unwrap();
        let first = create();
        fs::write(first.path().join("cookies"), "x").unwrap();
        let abandoned = place.path().join(format!("{PREFIX}x"));
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(LOCK), "").unwrap();
        let second = create();
        assert!(first.path().join("cookies").exists(), "its owner lives");
        assert!(!abandoned.exists());
        drop((first, second));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
