//! The directory of a new content, made if need be.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use rustix::io::Errno;

use crate::canonical_path::open_directory;
use crate::granted_path::GrantedPath;
use crate::path_error::PathError;

/// The directory of a place, and the name in it.
pub(crate) struct ParentDirectory<'p> {
    pub(crate) dir: Dir,
    pub(crate) name: &'p Path,
    pub(crate) created: CreatedDirectories,
}

impl<'p> ParentDirectory<'p> {
    /// Opens the directory, and creates it and those above it where they are missing. No link is
    /// followed: the place has none, and one that takes the place of a directory meanwhile may lead
    /// to a path that nobody has judged.
    pub(crate) fn open(place: &'p GrantedPath) -> Result<Self, PathError> {
        let rel = place.rel();
        Self::open_below(place.root(), rel).map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::LOOP | Errno::NOTDIR) => PathError::Moved(place.shown().to_owned()),
            _ => PathError::of("write", place.shown(), source),
        })
    }

    fn open_below(root: &Dir, rel: &'p Path) -> io::Result<Self> {
        let name = Path::new(rel.file_name().ok_or(io::ErrorKind::IsADirectory)?);
        let mut created = CreatedDirectories::default();
        let mut dir = root.try_clone()?;
        for part in rel.parent().into_iter().flat_map(Path::components) {
            dir = created.open_or_create(dir, part.as_ref())?;
        }
        Ok(Self { dir, name, created })
    }
}

/// Directories that were made for new files, by the directory that each is in and its name, the outer
/// ones first. They are removed when this is dropped, unless they are kept or something is in them.
#[derive(Default)]
pub(crate) struct CreatedDirectories(Vec<(Dir, PathBuf)>);

impl CreatedDirectories {
    /// Opens a directory, and creates it first if it is missing.
    fn open_or_create(&mut self, above: Dir, name: &Path) -> io::Result<Dir> {
        match open_directory(&above, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let is_created = match above.create_dir(name) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let opened = open_directory(&above, name);
        if is_created {
            self.0.push((above, name.to_owned()));
        }
        opened
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
        for (above, name) in self.0.iter().rev() {
            // One in which something is stays.
            let _best_effort = above.remove_dir(name);
        }
    }
}
