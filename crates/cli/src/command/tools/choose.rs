//! `deputize tools enable|disable`: which toolsets agents have, in the person's configuration.

use std::collections::BTreeSet;

use deputize_core::sanitize::for_question;
use deputize_core::{Catalog, CatalogEntry, ToolsetName};

use super::compose;
use crate::args::Choice;
use crate::compose::mcp::toolsets;
use crate::compose::{AssembledProgram, LinkedTools};
use crate::config::edit::{
    FileError, ListChange, UserFile, UserFileLock, change, with_item, without_key,
};
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
    #[error("the toolset `{0}` is off: set `browser.enabled`")]
    Off(String),
    #[error("without `{0}` the list is empty, and an empty list gives agents all toolsets")]
    Last(String),
    #[error("the toolset `{holder}` has tools of `{name}`, and others too")]
    Shared { name: String, holder: String },
}

/// Writes into the person's file that agents have a toolset, or that they have it no longer.
pub(super) fn choose(
    links: &LinkedTools,
    env: &ProcessEnv,
    choice: &Choice,
    enable: bool,
) -> Result<(), CliError> {
    let name = choice.toolset.as_str();
    let sources = env.sources(&choice.settings, Vec::new())?;
    // Also the note at the end is about the file as this change leaves it.
    let lock = UserFileLock::wait(&sources)?;
    let own = UserFile::read(&sources)?;
    let composition = compose(links, env, &choice.settings)?;
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
    let catalog = &composition.assembly.tools.catalog;
    let removed = if enable { Vec::new() } else { removed_with(name, &given, catalog)? };
    let has_all = listed.is_empty() || listed.iter().any(|it| it == name);
    let is_done = if enable { has_all } else { removed.is_empty() };
    if is_done {
        tell(&format!("{word} already: {name}; {path} stays as it is"));
        return note_if_overruled(&sources, listed);
    }
    let mut wanted = given;
    wanted.extend(enable.then(|| name.to_owned()));
    wanted.retain(|it| !removed.contains(it));
    if wanted.is_empty() {
        let last = CliError::usage(ChoiceError::Last(name.to_owned()));
        let list = format_command("toolsets list");
        return Err(last.hint(format!("enable another one first: `{list}` shows them")));
    }
    if enable && there.iter().all(|name| wanted.contains(name)) {
        write(&lock, &sources, &[], |text| without_key(text, KEY))?;
        tell(&format!("{word}: {name}; `{KEY}` is no longer in {path}: agents have all toolsets"));
        return note_if_overruled(&sources, &[]);
    }
    write(&lock, &sources, &wanted, |text| {
        if enable {
            return with_item(text, KEY, ListChange::Add(name), &wanted);
        }
        removed.iter().try_fold(text.to_owned(), |text, removed| {
            with_item(&text, KEY, ListChange::Remove(removed), &wanted)
        })
    })?;
    tell(&format!("{word}: {name}; `{KEY}` in {path} is now [{}]", wanted.join(", ")));
    note_of_change(name, enable, listed, &wanted, catalog);
    note_if_overruled(&sources, &wanted)
}

/// Says what else the change means: that agents had all toolsets before, or that they still have
/// tools of the one that is disabled.
fn note_of_change(
    name: &str,
    enable: bool,
    listed: &[String],
    wanted: &[String],
    catalog: &Catalog,
) {
    let overlapping = |set: &&String| overlap(set, name, catalog) != Overlap::None;
    let holders: Vec<&str> =
        wanted.iter().filter(|_| !enable).filter(overlapping).map(String::as_str).collect();
    if !holders.is_empty() {
        let holders = holders.join(", ");
        tell(&format!("note: agents still have tools of {name}, by these: {holders}"));
    }
    if listed.is_empty() {
        tell(&format!(
            "note: agents had every toolset, and now have only these; to give them one that a plugin \
             or an MCP server adds later, run `{} NAME`",
            format_command("tools enable")
        ));
    }
}

/// How much of a toolset belongs to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    None,
    Some,
    All,
}

/// Returns how much of `set` belongs to the toolset `name`.
fn overlap(set: &str, name: &str, catalog: &Catalog) -> Overlap {
    let tools: Vec<&CatalogEntry> =
        catalog.iter().filter(|entry| has(catalog, set, entry)).collect();
    match tools.iter().filter(|entry| has(catalog, name, entry)).count() {
        0 => Overlap::None,
        shared if shared == tools.len() => Overlap::All,
        _ => Overlap::Some,
    }
}

fn has(catalog: &Catalog, set: &str, entry: &CatalogEntry) -> bool {
    ToolsetName::new(set).is_ok_and(|set| catalog.includes(&set, entry))
}

/// Returns the toolsets to remove so that agents do not have this one: itself, or those that it is
/// made of.
///
/// # Errors
/// If another toolset has only some of its tools.
fn removed_with(name: &str, given: &[String], catalog: &Catalog) -> Result<Vec<String>, CliError> {
    if given.iter().any(|it| it == name) {
        return Ok(vec![name.to_owned()]);
    }
    let with = |wanted| {
        let sets = given.iter().filter(move |set| overlap(set, name, catalog) == wanted);
        sets.cloned().collect::<Vec<String>>()
    };
    let (removed, shared) = (with(Overlap::All), with(Overlap::Some));
    let Some(holder) = shared.first() else { return Ok(removed) };
    let error = ChoiceError::Shared { name: name.to_owned(), holder: holder.clone() };
    let whole: Vec<&str> = removed.iter().chain(&shared).map(String::as_str).collect();
    let whole = whole.join(", ");
    Err(CliError::usage(error).hint(format!(
        "these can be disabled: {whole}; a toolset of single tools is made in `composite_toolsets`"
    )))
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
        let has_it = cfg!(feature = "browser");
        let error = if has_it { ChoiceError::Off } else { ChoiceError::Later };
        return CliError::usage(error(name.to_owned()));
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
    lock: &UserFileLock,
    sources: &Sources,
    all: &[String],
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), CliError> {
    let is_right = |before: &Config, now: &Config| {
        now.toolsets == all
            && Config { toolsets: before.toolsets.clone(), ..now.clone() } == *before
    };
    change(lock, sources, edit, is_right).map(|_| ()).map_err(|error| match (error, all) {
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
