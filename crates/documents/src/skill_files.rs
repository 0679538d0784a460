//! The files in a skill's folder.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use crate::SKILL_FILE_BYTES;
use crate::read_text::{open_root, read_beneath};
use crate::skill::{SKILL_FILE, Skill, SkillPlace};

/// Levels of folders in a skill that are listed.
const MOST_LEVELS: usize = 4;
/// Files of a skill that are listed.
const MOST_FILES: usize = 50;

/// Opens a skill's folder. No link leads out of the project that it is of.
pub(crate) fn folder_of(skill: &Skill) -> io::Result<Dir> {
    let SkillPlace::Folder { folder, within } = &skill.place else {
        return Err(io::Error::other("the skill has no other files"));
    };
    let (dir, rel) = open_root(folder, within.as_deref())?;
    dir.open_dir(rel)
}

/// Returns the text of a file in a skill's folder. No path and no link leads out of the folder.
pub(crate) fn text_of(skill: &Skill, file: &str) -> io::Result<String> {
    let folder = folder_of(skill)?;
    let bytes = read_beneath(&folder, Path::new(file), SKILL_FILE_BYTES).map_err(|error| {
        // The library's own refusal, or its word for the system's, has no number.
        let is_escape =
            error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
        if is_escape { io::Error::other("it leads out of the folder of the skill") } else { error }
    })?;
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
