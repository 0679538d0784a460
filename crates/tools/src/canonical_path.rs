//! Paths beneath a directory without links.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;

use crate::path_error::is_escape;

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
