//! The skills of a person, of a project and of the program.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use deputize_core::Resource;

use crate::DOCUMENT_BYTES;
use crate::document_error::DocumentError;
use crate::document_name::check_name;
use crate::document_origin::DocumentOrigin;
use crate::front_matter::Document;
use crate::read_text::exact_text;
use crate::skill::{SKILL_FILE, Skill, SkillPlace, SkillText};
use crate::skill_error::SkillError;
use crate::skill_files::{FileNames, folder_of, text_of};
use crate::skill_mark::mark_sources;
use crate::skill_reader::{SkillFolder, SkillListing, SkillReader};
use crate::temporary_file::temporary_file;

/// Folders of a project that may have skills.
const PROJECT_FOLDERS: [&str; 3] = [".deputize/skills", ".agents/skills", ".claude/skills"];

/// The places of skills. Nothing is read before it is asked for, and each time anew.
///
/// A skill of the person takes the place of a bundled one of the same name. A skill of a project
/// takes no place of another. A faulty file keeps its place: no other skill stands in for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillLibrary {
    user: Option<PathBuf>,
    bundled: Vec<(&'static str, &'static str)>,
    project: Vec<SkillFolder>,
}

impl Resource for SkillLibrary {}

impl SkillLibrary {
    /// Adds a skill of the program: its name, and the text of its `SKILL.md`.
    #[must_use]
    pub fn with_bundled(mut self, name: &'static str, text: &'static str) -> Self {
        self.bundled.push((name, text));
        self
    }

    /// Sets the folder of the person's skills, which may not exist yet.
    #[must_use]
    pub fn with_user(self, folder: PathBuf) -> Self {
        Self { user: Some(folder), ..self }
    }

    /// Adds the skills of a project: those of `.deputize/skills`, `.agents/skills` and
    /// `.claude/skills` in `cwd` and above it up to `root`.
    #[must_use]
    pub fn with_project(mut self, cwd: &Path, root: &Path) -> Self {
        for dir in cwd.ancestors().take_while(|dir| dir.starts_with(root)) {
            let folders = PROJECT_FOLDERS.iter().map(|name| SkillFolder {
                origin: DocumentOrigin::Project,
                path: dir.join(name),
                within: Some(root.to_owned()),
            });
            self.project.extend(folders);
        }
        self
    }

    /// Returns the folder of the person's skills, if one is known.
    #[must_use]
    pub fn user_folder(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// Reads the descriptions of all skills.
    #[must_use]
    pub fn list(&self) -> SkillListing {
        let mut found = SkillReader::default();
        let user = self.user.iter().map(|path| SkillFolder {
            origin: DocumentOrigin::User,
            path: path.clone(),
            within: None,
        });
        user.for_each(|folder| found.read_folder(&folder));
        for (name, text) in &self.bundled {
            let place = SkillPlace::Program(text);
            if !found.has(name)
                && let Ok(skill) = Skill::parse(name, text, DocumentOrigin::Bundled, place)
            {
                found.skills.insert(skill.name.clone(), skill);
            }
        }
        self.project.iter().for_each(|folder| found.read_folder(folder));
        let SkillReader { skills, faults, faulty } = found;
        SkillListing { skills: skills.into_values().collect(), faults, faulty }
    }

    /// Returns a skill.
    ///
    /// # Errors
    /// If there is none of this name that could be read.
    pub fn find(&self, name: &str) -> Result<Skill, SkillError> {
        let SkillListing { skills, mut faulty, .. } = self.list();
        if let Some(skill) = skills.iter().find(|skill| skill.name == name) {
            return Ok(skill.clone());
        }
        let name = name.to_owned();
        if let Some(fault) = faulty.remove(&name) {
            let is_own = self.user.as_ref().is_some_and(|user| fault.path.starts_with(user));
            let origin = if is_own { DocumentOrigin::User } else { DocumentOrigin::Project };
            return Err(SkillError::Faulty { name, fault, origin });
        }
        let known = skills.into_iter().map(|skill| skill.name).collect();
        Err(SkillError::Unknown { name, known })
    }

    /// Reads the body of a skill, or another file of it by its path in the skill's folder.
    ///
    /// # Errors
    /// If there is no such skill, or its file cannot be read, is not text, is too long, or lies
    /// outside of its folder.
    pub fn read(&self, name: &str, file: Option<&str>) -> Result<SkillText, SkillError> {
        let skill = self.find(name)?;
        let error = |file: &str, source| SkillError::File {
            skill: name.to_owned(),
            file: file.to_owned(),
            source,
        };
        if let Some(file) = file.filter(|file| *file != SKILL_FILE) {
            let text = text_of(&skill, file).map_err(|source| error(file, source))?;
            return Ok(SkillText { skill, text, files: Vec::new(), more_files: 0 });
        }
        let whole = match &skill.place {
            SkillPlace::Program(text) => (*text).to_owned(),
            SkillPlace::Folder { folder, within } => {
                exact_text(&folder.join(SKILL_FILE), DOCUMENT_BYTES, within.as_deref())
                    .and_then(|text| text.ok_or_else(|| io::ErrorKind::NotFound.into()))
                    .map_err(|source| error(SKILL_FILE, source))?
            }
        };
        let text = Document::parse(&whole)?.body().to_owned();
        let mut files = FileNames::default();
        if let Ok(dir) = folder_of(&skill) {
            files.add(&dir, Path::new(""), 1);
        }
        Ok(SkillText { skill, text, files: files.names, more_files: files.more })
    }

    /// Returns the `SKILL.md` of a skill of the program; `None` if it brings none of this name.
    #[must_use]
    pub fn bundled_text(&self, name: &str) -> Option<&'static str> {
        self.bundled.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Creates a skill of the person from the text of its `SKILL.md`.
    ///
    /// # Errors
    /// If the text is no skill of this name, there is a skill of the person of this name already,
    /// or it cannot be written. Nothing is left then.
    pub fn create(&self, name: &str, text: &str) -> Result<PathBuf, SkillError> {
        let folder = self.check_skill(name, text)?;
        let failed = |source| SkillError::Write { name: name.to_owned(), source };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(SkillError::Exists(name.to_owned()));
            }
            created => created.map_err(failed)?,
        }
        let written = write_whole(&folder, text);
        if written.is_err() {
            let _best_effort = fs::remove_dir(&folder);
        }
        written.map_err(failed)
    }

    /// Replaces the `SKILL.md` of a skill of the person, whole or not at all.
    ///
    /// # Errors
    /// If the text is no skill of this name, the skill is not the person's, or it cannot be
    /// written.
    pub fn replace(&self, name: &str, text: &str) -> Result<PathBuf, SkillError> {
        let folder = self.own_folder(name)?;
        self.check_skill(name, text)?;
        write_whole(&folder, text)
            .map_err(|source| SkillError::Write { name: name.to_owned(), source })
    }

    /// Removes a skill of the person with all its files.
    ///
    /// # Errors
    /// If it is not the person's, or it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<PathBuf, SkillError> {
        let folder = self.own_folder(name)?;
        let failed = |source| SkillError::Write { name: name.to_owned(), source };
        // With this name it is no skill any more, however far the removal gets.
        let hidden = tempfile::Builder::new()
            .prefix(".removed-")
            .tempdir_in(folder.parent().unwrap_or(Path::new("/")));
        let hidden = hidden.map_err(failed)?;
        fs::rename(&folder, hidden.path().join(name)).map_err(failed)?;
        hidden.close().map_err(failed)?;
        Ok(folder)
    }

    /// Returns the folder of a skill of the person, broken or not.
    ///
    /// # Errors
    /// If there is none: the skill is another's, or unknown.
    pub fn own_folder(&self, name: &str) -> Result<PathBuf, SkillError> {
        let folder = self.user_folder().ok_or(SkillError::NoFolder)?;
        let own = folder.join(name);
        if check_name("skill", name).is_ok() && own.is_dir() {
            return Ok(own);
        }
        let origin = self.find(name)?.origin;
        Err(SkillError::NotYours { name: name.to_owned(), origin })
    }

    /// Returns the `SKILL.md` of a skill of the person, broken or not; empty if it has none.
    ///
    /// # Errors
    /// If the skill is not the person's, or its file is there and cannot be read.
    pub fn own_text(&self, name: &str) -> Result<String, SkillError> {
        let path = self.own_folder(name)?.join(SKILL_FILE);
        if !path.is_file() {
            return Ok(String::new());
        }
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(DOCUMENT_BYTES).read_to_end(&mut bytes));
        let failed = |source| SkillError::File {
            skill: name.to_owned(),
            file: SKILL_FILE.to_owned(),
            source,
        };
        read.map_err(failed)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the sources that the mark of a skill of the person names, broken or not.
    ///
    /// # Errors
    /// If the skill is not the person's, or its file is there and cannot be read.
    pub fn own_sources(&self, name: &str) -> Result<Vec<String>, SkillError> {
        self.own_text(name).map(|text| mark_sources(&text))
    }

    /// Checks the name and the text of a skill of the person, and returns the folder that is to
    /// hold it.
    ///
    /// # Errors
    /// If it cannot be the name of a skill, or the text is no skill of this name.
    pub fn check_skill(&self, name: &str, text: &str) -> Result<PathBuf, SkillError> {
        let folder = self.user_folder().ok_or(SkillError::NoFolder)?.join(name);
        if text.len() as u64 > DOCUMENT_BYTES {
            let bytes = text.len();
            return Err(SkillError::Invalid(DocumentError::whole(format!(
                "the text has {bytes} bytes, and {DOCUMENT_BYTES} is the most: put parts into \
                 files beside it"
            ))));
        }
        let place = SkillPlace::Folder { folder: folder.clone(), within: None };
        Skill::parse(name, text, DocumentOrigin::User, place)?;
        Ok(folder)
    }
}

/// Writes the file of a skill, whole or not at all.
fn write_whole(folder: &Path, text: &str) -> io::Result<PathBuf> {
    let path = folder.join(SKILL_FILE);
    temporary_file(folder, text)?.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests;
