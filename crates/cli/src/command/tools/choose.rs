//! `deputize tools enable|disable`: which toolsets agents have, in the person's configuration.

use std::collections::BTreeSet;

use deputize_core::ToolCrate;
use deputize_core::sanitize::for_question;

use super::compose;
use crate::args::Choice;
use crate::compose::AssembledProgram;
use crate::compose::mcp::toolsets;
use crate::config::edit::{FileError, ListChange, UserFile, change, with_item, without_key};
use crate::config::{Config, OPTIONAL_TOOLSETS, Sources, load, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// The key that names the toolsets of agents; an empty list is all of them.
const KEY: &str = "toolsets";

#[derive(Debug, thiserror::Error)]
enum ChoiceError {
    #[error("there is no toolset `{}`", for_question(.0))]
    Unknown(String),
    #[error("the toolset `{0}` has no tools in this version")]
    Later(String),
    #[error("`{0}` is the last toolset, and an empty list gives agents all of them")]
    Last(String),
}

/// Writes into the person's file that agents have a toolset, or that they have it no longer.
pub(super) fn choose(
    links: &[ToolCrate],
    around: &ProcessEnv,
    choice: &Choice,
    enable: bool,
) -> Result<(), CliError> {
    let name = choice.toolset.as_str();
    let sources = around.sources(&choice.settings, Vec::new())?;
    let own = UserFile::read(&sources)?;
    let composition = compose(links, around, &choice.settings)?;
    let there = there(&composition);
    let listed = &own.config.toolsets;
    let mut composites = composition.assembly.tools.catalog.composites();
    let is_there = there.contains(name) || composites.any(|it| it.as_str() == name);
    if !is_there && (enable || !listed.iter().any(|it| it == name)) {
        return Err(unknown(name, &composition, &there));
    }
    let given = if listed.is_empty() { there.iter().cloned().collect() } else { listed.clone() };
    let word = if enable { "enabled" } else { "disabled" };
    let path = own.path.display();
    if given.iter().any(|it| it == name) == enable {
        tell(&format!("{word} already: {name}; {path} stays as it is"));
        return note_if_overruled(&sources, listed);
    }
    let mut wanted = given;
    if enable {
        wanted.push(name.to_owned());
    } else {
        wanted.retain(|it| it != name);
    }
    if wanted.is_empty() {
        let last = CliError::usage(ChoiceError::Last(name.to_owned()));
        let list = format_command("toolsets list");
        return Err(last.hint(format!("enable another one first: `{list}` shows them")));
    }
    if enable && there.iter().all(|name| wanted.contains(name)) {
        write(&sources, &[], |text| without_key(text, KEY))?;
        tell(&format!("{word}: {name}; `{KEY}` is no longer in {path}: agents have all toolsets"));
        return note_if_overruled(&sources, &[]);
    }
    let item = if enable { ListChange::Add(name) } else { ListChange::Remove(name) };
    write(&sources, &wanted, |text| with_item(text, KEY, item, &wanted))?;
    tell(&format!("{word}: {name}; `{KEY}` in {path} is now [{}]", wanted.join(", ")));
    if listed.is_empty() {
        tell(&format!(
            "note: until now it named none, which gives all; what comes later, as by a plugin or an \
             MCP server, is given with `{} NAME`",
            format_command("tools enable")
        ));
    }
    note_if_overruled(&sources, &wanted)
}

/// The toolsets there are, and those of servers that have not said yet what they have.
fn there(composition: &AssembledProgram) -> BTreeSet<String> {
    let servers = toolsets(&composition.config);
    composition
        .assembly
        .tools
        .catalog
        .toolsets()
        .iter()
        .map(ToString::to_string)
        .chain(servers)
        .collect()
}

fn unknown(name: &str, composition: &AssembledProgram, there: &BTreeSet<String>) -> CliError {
    if OPTIONAL_TOOLSETS.contains(&name) {
        return CliError::usage(ChoiceError::Later(name.to_owned()));
    }
    let error = CliError::usage(ChoiceError::Unknown(name.to_owned()));
    if let Some(entry) = composition.assembly.tools.catalog.get(name) {
        return error.hint(format!("that is a tool of the toolset `{}`", entry.toolset));
    }
    match nearest(name, there.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("the nearest name is `{near}`")),
        None => error.hint(format!("`{}` lists them", format_command("toolsets list"))),
    }
}

/// Changes the file so that it names these toolsets, or has no key for them where these are none.
fn write(
    sources: &Sources,
    all: &[String],
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), CliError> {
    let is_right = |before: &Config, now: &Config| {
        now.toolsets == all
            && Config { toolsets: before.toolsets.clone(), ..now.clone() } == *before
    };
    change(sources, edit, is_right).map(|_| ()).map_err(|error| match (error, all) {
        (error @ FileError::Form(_), []) => CliError::from(error)
            .hint(format!("remove `{KEY}` there, and agents have all toolsets")),
        (error @ FileError::Form(_), all) => {
            CliError::from(error).hint(format!("write this there: {KEY}: [{}]", all.join(", ")))
        }
        (error, _) => error.into(),
    })
}

/// The file may not have the last word.
fn note_if_overruled(sources: &Sources, wanted: &[String]) -> Result<(), CliError> {
    let loaded = load(sources).map_err(CliError::usage)?;
    if loaded.config.toolsets != wanted
        && let Some(place) = loaded.origins.get(KEY)
    {
        tell(&format!("note: `{KEY}` is set by {place} too, which is stronger than the file"));
    }
    Ok(())
}
