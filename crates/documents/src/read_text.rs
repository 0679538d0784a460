//! Reads files that people wrote for agents.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;

/// Returns the text of a regular file; `None` if there is none. Bytes that are not UTF-8 are
/// replaced. A link may not lead out of `within`: a project must not send other files to the model.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is longer than `most` bytes, or lies outside
/// of `within`.
pub fn read_text(path: &Path, most: u64, within: Option<&Path>) -> io::Result<Option<String>> {
    let bytes = read_bytes(path, most, within)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the text of a regular file that is UTF-8 without NUL; `None` if there is none. For a file
/// that is written back, so that nothing of it is lost.
///
/// # Errors
/// As [`read_text`], and if the file is not such text: the line with the first byte that is not.
pub fn read_exact_text(path: &Path, most: u64) -> io::Result<Option<String>> {
    exact_text(path, most, None)
}

/// Returns the text of a file as [`read_exact_text`] does, beneath `within` as [`read_text`].
pub(crate) fn exact_text(
    path: &Path,
    most: u64,
    within: Option<&Path>,
) -> io::Result<Option<String>> {
    let Some(bytes) = read_bytes(path, most, within)? else { return Ok(None) };
    let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    let valid = bytes.iter().take(valid).position(|byte| *byte == 0).unwrap_or(valid);
    if let Some(head) = bytes.get(..valid).filter(|_| valid < bytes.len()) {
        let line = head.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} is not UTF-8 text");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    String::from_utf8(bytes).map(Some).map_err(io::Error::other)
}

fn read_bytes(path: &Path, most: u64, within: Option<&Path>) -> io::Result<Option<Vec<u8>>> {
    let (dir, rel) = match open_root(path, within) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    read_beneath(&dir, &rel, most).map(Some)
}

/// Opens `within`, or else the directory that a path leads to, and returns the place beneath it
/// that the path leads to.
pub(crate) fn open_root(path: &Path, within: Option<&Path>) -> io::Result<(Dir, PathBuf)> {
    let real = path.canonicalize()?;
    let root = within.or(real.parent()).unwrap_or(&real);
    let Ok(rel) = real.strip_prefix(root) else {
        return Err(io::Error::other("it is a link that leaves the project"));
    };
    let dir = Dir::open_ambient_dir(root, ambient_authority())?;
    Ok((dir, Path::new(".").join(rel)))
}

/// Returns the bytes of a regular file. Whatever takes its place meanwhile, no link leads out of the
/// directory.
pub(crate) fn read_beneath(dir: &Dir, rel: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Asked before opening too, because opening a device can already do something.
    must_be_file(&dir.metadata(rel)?)?;
    let file = open_beneath(dir, rel)?;
    let meta = file.metadata()?;
    must_be_file(&meta)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it has {} bytes, more than {most}", meta.len());
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

/// Opens something beneath a directory, without waiting for a writer and without becoming its
/// terminal.
///
/// # Errors
///
/// If it is not there or cannot be opened, or if its path leaves the directory.
pub fn open_beneath(dir: &Dir, rel: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    dir.open_with(rel, &options)
}

fn must_be_file(meta: &Metadata) -> io::Result<()> {
    if meta.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, mkfifoat, renameat_with};

    use super::*;

    /// Calls a function many times while two entries of a directory exchange their places.
    fn while_exchanged(one: &Path, other: &Path, mut read: impl FnMut()) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            (0..4_000).for_each(|_| read());
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_file_leads_to_nothing_outside() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let top = base.join("project");
        fs::create_dir_all(top.join("a")).unwrap();
        fs::write(base.join("secret"), "outside").unwrap();
        fs::write(top.join("a/AGENTS.md"), "inside").unwrap();
        symlink("../../secret", top.join("a/link")).unwrap();
        symlink(top.join("a"), top.join("inside")).unwrap();
        let path = top.join("inside/AGENTS.md");
        let mut texts = std::collections::BTreeSet::new();
        while_exchanged(&top.join("a/AGENTS.md"), &top.join("a/link"), || {
            texts.extend(read_text(&path, 100, Some(&top)).ok());
        });
        assert_eq!(Vec::from_iter(texts), [Some("inside".to_owned())]);
    }

    #[test]
    fn a_folder_that_takes_the_place_of_a_skill_leads_to_nothing_outside() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let top = base.join("project");
        for (folder, text) in [("project/.claude/skills/s", "inside"), ("other", "outside")] {
            fs::create_dir_all(base.join(folder)).unwrap();
            let skill = format!("---\nname: s\ndescription: {text}\n---\n{text}");
            fs::write(base.join(folder).join("SKILL.md"), skill).unwrap();
            fs::write(base.join(folder).join(text), text).unwrap();
            fs::write(base.join(folder).join("f"), text).unwrap();
        }
        let skills = top.join(".claude/skills");
        symlink("../../../other", skills.join("link")).unwrap();
        let library = crate::SkillLibrary::default().with_project(&top, &top);
        let mut texts = std::collections::BTreeSet::new();
        while_exchanged(&skills.join("s"), &skills.join("link"), || {
            for file in [None, Some("f")] {
                if let Ok(read) = library.read("s", file) {
                    texts.extend([vec![read.skill.description, read.text], read.files].concat());
                }
            }
        });
        assert_eq!(Vec::from_iter(texts), ["f", "inside"]);
    }

    /// Also when a pipe takes a file's place after it was looked at.
    #[test]
    fn opening_never_waits_for_a_writer() {
        let temp = tempfile::tempdir().unwrap();
        mkfifoat(CWD, temp.path().join("p"), 0o600.into()).unwrap();
        let (dir, rel) = open_root(&temp.path().join("p"), None).unwrap();
        assert!(open_beneath(&dir, &rel).is_ok());
    }
}
