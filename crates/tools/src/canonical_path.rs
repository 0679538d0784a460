//! Paths beneath a directory without links.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, openat};

use crate::path_error::is_escape;

/// For a directory from which nothing is read, so that it needs no right to be read.
#[cfg(target_os = "linux")]
const FOR_PATHS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const FOR_PATHS: OFlags = OFlags::RDONLY;

/// Links that are followed for one path before it counts as a loop, as in the kernel.
const MAX_LINKS: usize = 40;

/// The path beneath the root with all links followed.
///
/// The kernel refuses absolute links altogether; those that point into the root are spelled
/// out here as relative ones and tried again.
pub(crate) fn canonical(dir: &Dir, root: &Path, rel: &Path) -> io::Result<PathBuf> {
    let mut rel = rel.to_owned();
    for _ in 0..MAX_LINKS {
        match dir.canonicalize(&rel) {
            Err(error) if is_escape(&error) => {
                rel = first_link_spelled_out(dir, root, &rel).ok_or(error)?;
            }
            // Another file took the place of this one between two questions to the kernel.
            Ok(found) if is_name_of_deleted(dir, &found) => {}
            found => return found,
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Returns the absolute path of an open directory, where the system knows it. A path that is looked
/// up by its name again may lead elsewhere by then.
pub(crate) fn path_of_open(dir: &Dir) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

/// Opens a directory of this name, not one that a link leads to.
pub(crate) fn open_directory(above: &Dir, name: &Path) -> io::Result<Dir> {
    let flags = FOR_PATHS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(above, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(opened.into()))
}

/// Opens a directory by a path without links.
pub(crate) fn open_without_links(root: &Dir, rel: &Path) -> io::Result<Dir> {
    let mut dir = root.try_clone()?;
    for part in rel.components() {
        dir = open_directory(&dir, part.as_ref())?;
    }
    Ok(dir)
}

/// Whether a path is no name at all, but what the kernel calls a file that has none any more.
fn is_name_of_deleted(dir: &Dir, path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b" (deleted)")
        && dir.symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns the path with its first link replaced by what it points to; `None` if that lies outside.
fn first_link_spelled_out(dir: &Dir, root: &Path, rel: &Path) -> Option<PathBuf> {
    let mut walked = PathBuf::new();
    let mut parts = rel.components();
    while let Some(part) = parts.next() {
        let above = walked.clone();
        walked.push(part);
        let Ok(target) = dir.read_link_contents(&walked) else { continue };
        let target = match target.strip_prefix(root) {
            Ok(inside) => inside.to_owned(),
            Err(_) if target.is_absolute() => return None,
            Err(_) => above.join(target),
        };
        return Some(tidy(&target.join(parts.as_path())));
    }
    None
}

/// The path without `.` parts, and `.` for nothing.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let kept: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if kept.as_os_str().is_empty() { PathBuf::from(".") } else { kept }
}
