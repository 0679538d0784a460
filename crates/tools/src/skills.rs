//! Skills: instructions for kinds of work, of which a model first learns only the names.

use std::sync::Arc;

use deputize_core::prompt::{Section, fill};
use deputize_core::sanitize::{for_terminal_line, frame_quote};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{ResourceMap, ToolError};
use deputize_documents::{DocumentOrigin, Skill, SkillError, SkillLibrary};

mod manage;
mod view;

/// The tool that reads a skill.
const VIEW: &str = "skill_view";
/// Characters of a description in a prompt.
const PROMPT_CHARS: usize = 250;
/// Characters of a description in a list that was asked for.
const LIST_CHARS: usize = 1024;
/// Bytes of all descriptions in a prompt; skills beyond them are counted.
const PROMPT_BYTES: usize = 4_000;
/// Bytes of a list that was asked for.
const LIST_BYTES: usize = 32_000;

const GUIDANCE: &str = include_str!("../prompts/skills.md");
const PROJECT_GUIDANCE: &str = include_str!("../prompts/project_skills.md");
const SPLIT_WORK: &str = include_str!("../skills/split-work/SKILL.md");

/// Returns the skills that come with this crate. A program adds its places and puts the library
/// into its session's settings.
///
/// ```
/// let library = deputize_tools::bundled_skills();
/// assert_eq!(library.list().skills[0].name, "split-work");
/// ```
#[must_use]
pub fn bundled_skills() -> SkillLibrary {
    SkillLibrary::default().with_bundled("split-work", SPLIT_WORK)
}

/// Returns the skills of a session.
fn library(settings: &ResourceMap) -> Arc<SkillLibrary> {
    settings.get_or_insert_with(bundled_skills)
}

/// Returns the part of a prompt that names the skills; `None` without any.
fn guidance(library: &SkillLibrary) -> Option<String> {
    let skills = for_models(library);
    let (theirs, ours): (Vec<_>, Vec<_>) =
        skills.iter().partition(|skill| skill.origin == DocumentOrigin::Project);
    let ours = lines(&ours, PROMPT_CHARS, PROMPT_BYTES);
    let theirs = lines(&theirs, PROMPT_CHARS, PROMPT_BYTES);
    if ours.is_empty() && theirs.is_empty() {
        return None;
    }
    let ours = if ours.is_empty() { "(none)".to_owned() } else { ours };
    let text = fill(GUIDANCE, &[("tool", VIEW), ("skills", &ours)]).ok()?;
    let mut text = Section::plain(&text).to_string();
    if !theirs.is_empty() {
        let frame = frame_quote(&Source::project("skills"), &theirs);
        text.push_str(&format!("\n{PROJECT_GUIDANCE}{frame}"));
    }
    Some(text)
}

/// Returns the sources of the descriptions of some skills: those that their marks name and the
/// project, if it has one of them.
fn list_sources(skills: &[Skill]) -> SourceSet {
    let mut sources = SourceSet::new();
    for skill in skills {
        if skill.origin == DocumentOrigin::Project {
            sources.insert(Source::project("skills"));
        }
        sources.extend(skill.sources.iter().map(|label| Source::from_lasting_label(label)));
    }
    sources
}

/// Returns the skills that models may learn of, by name.
fn for_models(library: &SkillLibrary) -> Vec<Skill> {
    let skills = library.list().skills.into_iter();
    skills.filter(|skill| skill.for_models).collect()
}

/// Returns an error if a skill is not for models.
fn check_for_models(skill: &Skill) -> Result<(), ToolError> {
    if skill.for_models {
        return Ok(());
    }
    Err(ToolError::refused(format!(
        "the skill `{}` is for people only: its author says so",
        skill.name
    )))
}

/// Returns a line for each skill, as far as there is room, and how many more there are.
fn lines(skills: &[&Skill], chars: usize, bytes: usize) -> String {
    let mut text = String::new();
    for (index, skill) in skills.iter().enumerate() {
        let line = format!("- {}: {}", skill.name, for_terminal_line(&skill.description, chars));
        if text.len() + line.len() > bytes {
            let more = skills.len() - index;
            text.push_str(&format!("[{more} more skills are left out here]\n"));
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Returns an error of a skill as a model reads it.
fn tool_error(library: &SkillLibrary, error: SkillError) -> ToolError {
    match error {
        SkillError::Unknown { name, .. } => {
            let known = for_models(library).into_iter().map(|skill| skill.name).collect();
            ToolError::refused(SkillError::Unknown { name, known }.to_string())
        }
        SkillError::Write { .. } => ToolError::failed(error),
        // What is wrong may quote the file, and its project speaks in frames alone.
        SkillError::Faulty { name, fault, origin: DocumentOrigin::Project } => {
            ToolError::refused(format!(
                "the skill `{name}` of the project cannot be used: something is wrong with its file, {}",
                fault.path.display()
            ))
        }
        error => ToolError::refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
