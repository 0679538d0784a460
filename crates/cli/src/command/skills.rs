//! `deputize skills`: lists, shows, edits and deletes skills.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use deputize_core::sanitize::{Secrets, for_terminal, for_terminal_line};
use deputize_documents::{DocumentOrigin, Skill, SkillError, SkillLibrary, SkillListing};
use deputize_tools::secret_in;
use serde_json::{Value, json};

use crate::args::{Settings, Skills};
use crate::command::editor::edit_text;
use crate::command::print_list;
use crate::compose::{AssemblyInput, LinkedTools, all_secrets, load_config, skill_library};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// Characters of a description in a list.
const LINE_CHARS: usize = 200;

/// Runs the command.
pub(crate) fn skills(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Skills,
) -> Result<(), CliError> {
    match command {
        Skills::List { view } => list(&library(links, env, &view.settings)?, view.json),
        Skills::Show { name, file, settings } => {
            let read = library(links, env, settings)?.read(name, file.as_deref());
            let read = read.map_err(skill_error)?;
            let mark = read.skill.mark().map(|mark| format!("\n[{mark}]\n")).unwrap_or_default();
            print(&for_terminal(&format!("{}{mark}", read.text)))
        }
        Skills::Edit { name, settings } => {
            let loaded = load_config(env, &env.sources(settings, Vec::new())?)?;
            let secrets = all_secrets(&loaded.config, env);
            edit(&library(links, env, settings)?, env, name, &secrets)
        }
        Skills::Rm { name, settings } => {
            let removed = library(links, env, settings)?.remove(name);
            let folder = removed.map_err(removal_error)?;
            print(&format!("deleted: {}\n", for_terminal(&folder.display().to_string())))
        }
    }
}

fn library(
    links: &LinkedTools,
    env: &ProcessEnv,
    settings: &Settings,
) -> Result<SkillLibrary, CliError> {
    let sources = env.sources(settings, Vec::new())?;
    let loaded = load_config(env, &sources)?;
    Ok(skill_library(&AssemblyInput::here(links, &loaded.config, env, &sources)))
}

fn list(library: &SkillLibrary, as_json: bool) -> Result<(), CliError> {
    let SkillListing { skills, faults, faulty } = library.list();
    faults.iter().for_each(|fault| tell(&format!("warning: {fault}")));
    if as_json {
        let skills: Vec<Value> = skills.iter().map(row_json).collect();
        return print(&format!("{:#}\n", json!(skills)));
    }
    let row = |skill: &Skill| {
        let mut description = for_terminal_line(&skill.description, LINE_CHARS);
        if let Some(mark) = skill.mark() {
            description.push_str(&format!(" [{}]", for_terminal_line(&mark, LINE_CHARS)));
        }
        [skill.name.clone(), skill.origin.as_str().to_owned(), description]
    };
    let mut rows: Vec<[String; 3]> = skills.iter().map(row).collect();
    for (name, fault) in faulty {
        rows.push([name, "faulty".to_owned(), for_terminal_line(&fault.reason, LINE_CHARS)]);
    }
    rows.sort();
    print_list(
        ["SKILL", "FROM", "WHAT IT IS FOR"],
        rows,
        &["WHAT IT IS FOR"],
        "there are no skills",
    )
}

fn row_json(skill: &Skill) -> Value {
    json!({
        "name": skill.name,
        "from": skill.origin.as_str(),
        "description": skill.description,
        "for_models": skill.for_models,
        "written_after_reading": skill.sources,
        "path": skill.path(),
    })
}

/// Edits a copy, so that a skill that is broken afterwards does not take the place of one that is
/// not.
fn edit(
    library: &SkillLibrary,
    env: &ProcessEnv,
    name: &str,
    secrets: &Secrets,
) -> Result<(), CliError> {
    let old = match library.own_folder(name) {
        Ok(folder) => Some(read_skill(&folder.join("SKILL.md"))?),
        Err(SkillError::Unknown { .. }) => {
            library.check_skill(name, &template(name)).map_err(skill_error)?;
            None
        }
        // The person's own takes its place.
        Err(SkillError::NotYours { origin: DocumentOrigin::Bundled, .. }) => None,
        Err(error) => return Err(skill_error(error)),
    };
    let text = old.clone().unwrap_or_else(|| {
        library.bundled_text(name).map_or_else(|| template(name), str::to_owned)
    });
    let path = edit_text(env, "SKILL.md", &text, |text| {
        if let Some(secret) = secret_in(text, secrets) {
            return Err(CliError::usage(SecretInSkill(secret)));
        }
        let Some(before) = &old else {
            return library.create(name, text).map_err(skill_error);
        };
        let folder = library.own_folder(name).map_err(skill_error)?;
        if read_skill(&folder.join("SKILL.md"))? != *before {
            return Err(CliError::failed(SkillConflict { name: name.to_owned() }));
        }
        library.replace(name, text).map_err(skill_error)
    })?;
    match path {
        Some(path) => print(&format!("written: {}\n", for_terminal(&path.display().to_string()))),
        None => Ok(()),
    }
}

/// A skill would be read by later sessions.
#[derive(Debug, thiserror::Error)]
#[error("the skill contains a secret ({0}): secrets are never saved")]
struct SecretInSkill(String);

/// A skill is another than the one that was edited.
#[derive(Debug, thiserror::Error)]
#[error("the skill `{name}` was changed meanwhile: edit it again")]
struct SkillConflict {
    name: String,
}

/// A skill cannot be edited: its text cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be read", path.display())]
struct UnreadableSkill {
    path: PathBuf,
    source: std::io::Error,
}

/// Reads the text of a skill; nothing if it has none yet.
fn read_skill(path: &Path) -> Result<String, CliError> {
    match fs::read_to_string(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            let error = UnreadableSkill { path: path.to_owned(), source };
            Err(CliError::failed(error).hint("it must be text in UTF-8: save it so and try again"))
        }
        text => Ok(text.unwrap_or_default()),
    }
}

fn template(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: What it is for, and when to use it.\n---\n\n# {name}\n"
    )
}

/// A skill is part of the program.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` comes with the program and cannot be deleted")]
struct BundledSkill(String);

/// Returns why a skill was not deleted.
fn removal_error(error: SkillError) -> CliError {
    let SkillError::NotYours { name, origin: DocumentOrigin::Bundled } = error else {
        return skill_error(error);
    };
    let (edit, disable) = (format_command("skills edit"), format_command("tools disable"));
    CliError::usage(BundledSkill(name.clone())).hint(format!(
        "`{edit} {name}` makes one of yours that agents read instead; `{disable} skills` takes all \
         skills from them"
    ))
}

fn skill_error(error: SkillError) -> CliError {
    if let SkillError::Faulty { name, origin: DocumentOrigin::User, .. } = &error {
        let (edit, rm) = (format_command("skills edit"), format_command("skills rm"));
        let hint = format!("`{edit} {name}` corrects it, and `{rm} {name}` deletes it");
        return CliError::usage(error).hint(hint);
    }
    let is_other = matches!(error, SkillError::NotYours { .. } | SkillError::Unknown { .. });
    let edit = match &error {
        SkillError::NotYours { name, origin: DocumentOrigin::Bundled } => {
            Some(format!("{} {name}", format_command("skills edit")))
        }
        _ => None,
    };
    let error = match error {
        SkillError::Write { .. } => CliError::failed(error),
        error => CliError::usage(error),
    };
    if let Some(edit) = edit {
        return error.hint(format!("`{edit}` makes one of yours that takes its place"));
    }
    if is_other {
        return error.hint(format!("`{}` shows whose each is", format_command("skills list")));
    }
    error
}
