//! The directory of a new content, made if need be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use crate::granted_path::GrantedPath;

/// The directory of a place, and the name in it.
pub(crate) struct ParentDirectory<'p> {
    pub(crate) dir: Dir,
    pub(crate) name: &'p Path,
    pub(crate) created: CreatedDirectories,
}

impl<'p> ParentDirectory<'p> {
    /// Opens the directory, and creates it and those above it where they are missing.
    pub(crate) fn open(place: &'p GrantedPath) -> io::Result<Self> {
        let rel = place.rel();
        let name = Path::new(rel.file_name().ok_or(io::ErrorKind::IsADirectory)?);
        let root = place.root();
        let Some(parent) = rel.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            let created = CreatedDirectories::default();
            return Ok(Self { dir: root.try_clone()?, name, created });
        };
        if let Ok(dir) = root.open_dir(parent) {
            return Ok(Self { dir, name, created: CreatedDirectories::default() });
        }
        let mut created = CreatedDirectories::default();
        created.create(root, parent)?;
        Ok(Self { dir: root.open_dir(parent)?, name, created })
    }
}

/// Directories that were made for new files, with the granted directories that they are in, the
/// outer ones first. They are removed when this is dropped, unless they are kept or something is in
/// them.
#[derive(Default)]
pub(crate) struct CreatedDirectories(Vec<(Arc<Dir>, PathBuf)>);

impl CreatedDirectories {
    fn create(&mut self, root: &Arc<Dir>, parent: &Path) -> io::Result<()> {
        let mut path = PathBuf::new();
        for part in parent.components() {
            path.push(part);
            match root.create_dir(&path) {
                Ok(()) => self.0.push((Arc::clone(root), path.clone())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds those that were made later.
    pub(crate) fn add(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }

    /// Keeps them, because the files are there.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for CreatedDirectories {
    fn drop(&mut self) {
        for (root, path) in self.0.iter().rev() {
            // One in which something is stays.
            let _best_effort = root.remove_dir(path);
        }
    }
}
