//! A skill: instructions for one kind of work, in a folder with a `SKILL.md`.

use std::path::{Path, PathBuf};

use crate::document_error::DocumentError;
use crate::document_name::check_name;
use crate::document_origin::DocumentOrigin;
use crate::front_matter::Document;
use crate::skill_mark::FIELD;

/// The file of a skill's folder that makes it a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// Sources that a mark names; the rest is counted.
const MARK_SOURCES: usize = 4;
/// Characters of a description at most.
const DESCRIPTION_CHARS: usize = 1024;

/// Where the files of a skill are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SkillPlace {
    /// In the program, as the text of `SKILL.md`.
    Program(&'static str),
    /// In a folder, which must lie within the second one if there is one.
    Folder { folder: PathBuf, within: Option<PathBuf> },
}

/// A skill, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name, which is that of its folder.
    pub name: String,
    /// What it is for and when to use it.
    pub description: String,
    /// Who wrote it.
    pub origin: DocumentOrigin,
    /// Whether models learn of it by themselves. Its author may keep it for people.
    pub for_models: bool,
    /// What the agent that wrote it had read from outside, by its mark.
    pub sources: Vec<String>,
    pub(crate) place: SkillPlace,
}

impl Skill {
    /// Parses the text of a `SKILL.md`.
    pub(crate) fn parse(
        name: &str,
        text: &str,
        origin: DocumentOrigin,
        place: SkillPlace,
    ) -> Result<Self, DocumentError> {
        check_name("skill", name)?;
        let document = Document::parse(text)?;
        let fields = document.fields();
        if let Some(own) = fields.text("name")?
            && own != name
        {
            return Err(DocumentError::whole(format!(
                "its `name` is `{own}` and its folder is `{name}`: they must be the same"
            )));
        }
        let description = fields.text("description")?.ok_or_else(|| {
            DocumentError::whole("it has no `description`: say what it is for and when to use it")
        })?;
        let chars = description.chars().count();
        if chars > DESCRIPTION_CHARS {
            return Err(DocumentError::whole(format!(
                "its `description` has {chars} characters, and {DESCRIPTION_CHARS} is the most"
            )));
        }
        let for_models = !fields.flag("disable-model-invocation")?;
        let sources = fields.words(FIELD)?.unwrap_or_default();
        Ok(Self { name: name.to_owned(), description, origin, for_models, sources, place })
    }

    /// Returns the words of its mark, which name some of the sources; `None` without a mark.
    #[must_use]
    pub fn mark(&self) -> Option<String> {
        let mut named: Vec<String> = self.sources.iter().take(MARK_SOURCES).cloned().collect();
        let more = self.sources.len() - named.len();
        named.extend((more > 0).then(|| format!("{more} more")));
        (!named.is_empty()).then(|| format!("written after reading {}", named.join(", ")))
    }

    /// Returns the folder of its files; `None` if it is part of the program.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            SkillPlace::Program(_) => None,
            SkillPlace::Folder { folder, .. } => Some(folder),
        }
    }

    /// Returns the path of its `SKILL.md`; `None` if it is part of the program.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.folder()?.join(SKILL_FILE))
    }
}

/// A text of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    /// The skill.
    pub skill: Skill,
    /// The body of its `SKILL.md`, or the whole of another file.
    pub text: String,
    /// Its other files, as paths in its folder, in order; only beside the body.
    pub files: Vec<String>,
    /// How many more files it has.
    pub more_files: usize,
}
