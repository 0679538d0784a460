//! Reads folders of skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::document_error::DocumentFault;
use crate::document_origin::DocumentOrigin;
use crate::read_text::exact_text;
use crate::skill::{SKILL_FILE, Skill, SkillPlace};
use crate::{DOCUMENT_BYTES, MOST_SKILLS};

/// The skills that could be read, and what could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillListing {
    /// The skills, by name.
    pub skills: Vec<Skill>,
    /// Files that are no skills.
    pub faults: Vec<DocumentFault>,
    /// Names that stand for such a file. No other skill has one of them.
    pub faulty: BTreeMap<String, DocumentFault>,
}

/// A folder of skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillFolder {
    pub(crate) origin: DocumentOrigin,
    pub(crate) path: PathBuf,
    pub(crate) within: Option<PathBuf>,
}

/// Reads folders of skills, one after the other.
#[derive(Default)]
pub(crate) struct SkillReader {
    pub(crate) skills: BTreeMap<String, Skill>,
    pub(crate) faults: Vec<DocumentFault>,
    pub(crate) faulty: BTreeMap<String, DocumentFault>,
}

impl SkillReader {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.skills.contains_key(name) || self.faulty.contains_key(name)
    }

    pub(crate) fn read_folder(&mut self, folder: &SkillFolder) {
        let entries = match fs::read_dir(&folder.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.fault(&folder.path, error.to_string()),
            Ok(entries) => entries,
        };
        let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        names.retain(|path| path.is_dir() && !is_hidden(path));
        names.sort();
        if let Some(first) = names.get(MOST_SKILLS) {
            let more = names.len() - MOST_SKILLS;
            let reason = format!(
                "this skill and {} after it are left out: {MOST_SKILLS} is the most of one folder",
                more - 1
            );
            self.fault(&first.clone(), reason);
        }
        for path in names.iter().take(MOST_SKILLS) {
            if let Err(reason) = self.read_skill(path, folder) {
                self.claim(path, &reason);
                self.fault(&path.join(SKILL_FILE), reason);
            }
        }
        let reason = format!("it is left out: {MOST_SKILLS} is the most of one folder");
        names.iter().skip(MOST_SKILLS).for_each(|path| self.claim(path, &reason));
    }

    fn read_skill(&mut self, path: &Path, place: &SkillFolder) -> Result<(), String> {
        let file = path.join(SKILL_FILE);
        let text = exact_text(&file, DOCUMENT_BYTES, place.within.as_deref());
        let text = text.map_err(|error| error.to_string())?;
        let text = text.ok_or("the folder has no such file")?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or("the name of its folder is not UTF-8")?;
        let within = place.within.clone();
        let kept = SkillPlace::Folder { folder: path.to_owned(), within };
        let skill = Skill::parse(name, &text, place.origin, kept);
        let skill = skill.map_err(|error| error.to_string())?;
        if let Some(other) = self.skills.get(name) {
            return Err(format!(
                "there is a {} skill of this name, which is used: rename one of them",
                other.origin.as_str()
            ));
        }
        if let Some(DocumentFault { path, .. }) = self.faulty.get(name) {
            let path = path.display();
            return Err(format!(
                "`{path}` is the skill `{name}` and is faulty: correct it, or rename one of them"
            ));
        }
        self.skills.insert(skill.name.clone(), skill);
        Ok(())
    }

    /// Keeps the name of a faulty skill, which is that of its folder, from others.
    fn claim(&mut self, folder: &Path, reason: &str) {
        let name = folder.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| !self.has(name)) {
            let fault = DocumentFault { path: folder.join(SKILL_FILE), reason: reason.to_owned() };
            self.faulty.insert(name.to_owned(), fault);
        }
    }

    fn fault(&mut self, path: &Path, reason: String) {
        self.faults.push(DocumentFault { path: path.to_owned(), reason });
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
}
