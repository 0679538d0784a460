//! The files in a skill's folder.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::SKILL_FILE_BYTES;
use crate::skill::{SKILL_FILE, Skill, SkillPlace};

/// Levels of folders in a skill that are listed.
const MOST_LEVELS: usize = 4;
/// Files of a skill that are listed.
const MOST_FILES: usize = 50;

/// Returns the text of a file in a skill's folder. No path and no link leads out of the folder.
pub(crate) fn text_of(skill: &Skill, file: &str) -> io::Result<String> {
    let SkillPlace::Folder { folder, within } = &skill.place else {
        return Err(io::Error::other("the skill has no other files"));
    };
    let folder = folder.canonicalize()?;
    if within.as_ref().is_some_and(|within| !folder.starts_with(within)) {
        return Err(io::Error::other("the skill is a link that leaves the project"));
    }
    let dir = Dir::open_ambient_dir(folder, ambient_authority())?;
    let meta = dir.metadata(file)?;
    // Opening a FIFO would wait for a writer.
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    dir.open(file)?.take(SKILL_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SKILL_FILE_BYTES {
        let message = format!("it has {} bytes, more than {SKILL_FILE_BYTES}", meta.len());
        return Err(io::Error::other(message));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// The names of the files of a skill.
#[derive(Default)]
pub(crate) struct FileNames {
    pub(crate) names: Vec<String>,
    pub(crate) more: usize,
}

impl FileNames {
    /// Adds the files of a folder, those of its folders last.
    pub(crate) fn add(&mut self, dir: &Dir, at: &Path, level: usize) {
        let mut entries: Vec<_> = dir.entries().into_iter().flatten().flatten().collect();
        entries.sort_by_key(cap_std::fs::DirEntry::file_name);
        let mut folders = Vec::new();
        for entry in entries {
            let path = at.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && level < MOST_LEVELS => folders.push((entry, path)),
                Ok(kind) if kind.is_dir() => {}
                _ if path == Path::new(SKILL_FILE) => {}
                _ if self.names.len() >= MOST_FILES => self.more += 1,
                _ => self.names.push(path.to_string_lossy().into_owned()),
            }
        }
        for (entry, path) in folders {
            if let Ok(dir) = entry.open_dir() {
                self.add(&dir, &path, level + 1);
            }
        }
    }
}
