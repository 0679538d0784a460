//! `deputize tools enable|disable`: which toolsets agents have, in the person's configuration.

use std::collections::BTreeSet;

use deputize_core::sanitize::for_question;
use deputize_core::{Catalog, CatalogEntry, ToolsetName};

use super::compose;
use crate::args::{Choice, Settings};
use crate::compose::mcp::toolsets;
use crate::compose::{AssembledProgram, LinkedTools, missing_feature};
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

/// Why an optional toolset is disabled already.
const OFF: &str = if cfg!(feature = "browser") {
    "it is off until `browser.enabled` is set"
} else {
    "this program was built without it, the feature `browser`"
};

#[derive(Debug, thiserror::Error)]
enum ChoiceError {
    #[error("there is no toolset `{}`", for_question(.0))]
    Unknown(String),
    #[error("{0}")]
    NotBuilt(String),
    #[error("the toolset `{0}` is off: set `browser.enabled`")]
    Off(String),
    #[error("without `{0}` the list is empty, and an empty list gives agents all toolsets")]
    Last(String),
    #[error("the toolset `{holder}` has tools of `{name}`, and others too")]
    Shared { name: String, holder: String },
}

/// Changes the person's file for one toolset after the other.
pub(super) fn choose_all(
    links: &LinkedTools,
    env: &ProcessEnv,
    choice: &Choice,
    enable: bool,
) -> Result<(), CliError> {
    let settings = &choice.settings;
    if choice.toolsets.len() > 1 {
        // Nothing is written if one of the names is wrong.
        let own = UserFile::read(&env.sources(settings, Vec::new())?)?;
        let composition = compose(links, env, settings)?;
        let check = |name| is_known(name, enable, &composition, &own.config).map(drop);
        choice.toolsets.iter().try_for_each(|name| check(name))?;
    }
    let change = |name: &String| choose(links, env, settings, ToolsetChange { name, enable });
    choice.toolsets.iter().try_for_each(change)
}

/// Whether agents are to have a toolset.
struct ToolsetChange<'c> {
    name: &'c str,
    enable: bool,
}

/// Writes into the person's file that agents have a toolset, or that they have it no longer.
fn choose(
    links: &LinkedTools,
    env: &ProcessEnv,
    settings: &Settings,
    ToolsetChange { name, enable }: ToolsetChange<'_>,
) -> Result<(), CliError> {
    let sources = env.sources(settings, Vec::new())?;
    // Also the note at the end is about the file as this change leaves it.
    let lock = UserFileLock::wait(&sources)?;
    let own = UserFile::read(&sources)?;
    let composition = compose(links, env, settings)?;
    let there = there(&composition);
    let listed = &own.config.toolsets;
    if !is_known(name, enable, &composition, &own.config)? {
        tell(&format!("disabled already: {name}: {OFF}"));
        return Ok(());
    }
    let given = if listed.is_empty() { there.iter().cloned().collect() } else { listed.clone() };
    let word = if enable { "enabled" } else { "disabled" };
    let path = own.path.display();
    let catalog = &composition.assembly.tools.catalog;
    let (removed, parts) =
        if enable { (Vec::new(), Vec::new()) } else { removed_with(name, &given, catalog)? };
    let has_all = listed.is_empty() || is_covered(name, listed, catalog);
    let is_done = if enable { has_all } else { removed.is_empty() };
    if is_done {
        tell(&format!("{word} already: {name}; {path} stays as it is"));
        return note_if_overruled(&sources, listed);
    }
    let mut wanted = given;
    wanted.extend(enable.then(|| name.to_owned()));
    wanted.extend(parts.iter().cloned());
    wanted.retain(|it| !removed.contains(it));
    if wanted.is_empty() {
        let last = CliError::usage(ChoiceError::Last(name.to_owned()));
        let list = format_command("toolsets list");
        return Err(last.hint(format!("enable another one first: `{list}` shows them")));
    }
    if enable && there.iter().all(|set| is_covered(set, &wanted, catalog)) {
        write(&lock, &sources, &[], |text| without_key(text, KEY))?;
        tell(&format!("{word}: {name}; `{KEY}` is no longer in {path}: agents have all toolsets"));
        return note_if_overruled(&sources, &[]);
    }
    write(&lock, &sources, &wanted, |text| {
        if enable {
            return with_item(text, KEY, ListChange::Add(name), &wanted);
        }
        // A list is never empty in between.
        let added = parts.iter().map(|part| ListChange::Add(part));
        let mut changes = added.chain(removed.iter().map(|removed| ListChange::Remove(removed)));
        changes.try_fold(text.to_owned(), |text, change| with_item(&text, KEY, change, &wanted))
    })?;
    tell(&format!("{word}: {name}; `{KEY}` in {path} is now [{}]", wanted.join(", ")));
    note_of_removed(name, &removed, &parts);
    note_of_change(name, enable, listed, &wanted, catalog);
    note_if_overruled(&sources, &wanted)
}

/// Returns whether there is a toolset of this name, or the file has one; else it is one that is off.
///
/// # Errors
/// If there is none.
fn is_known(
    name: &str,
    enable: bool,
    composition: &AssembledProgram,
    own: &Config,
) -> Result<bool, CliError> {
    let there = there(composition);
    let mut composites = composition.assembly.tools.catalog.composites();
    let is_there = there.contains(name) || composites.any(|it| it.as_str() == name);
    if is_there || !enable && own.toolsets.iter().any(|it| it == name) {
        return Ok(true);
    }
    if !enable && OPTIONAL_TOOLSETS.contains(&name) {
        return Ok(false);
    }
    Err(unknown(name, composition, &there))
}

/// Says which toolsets are gone with a composite one, and the way back.
fn note_of_removed(name: &str, removed: &[String], parts: &[String]) {
    // Parts that stay stand in place of the composite one.
    if parts.is_empty() && removed.iter().any(|removed| removed != name) {
        let enable = format_command("tools enable");
        let gone = removed.join(", ");
        tell(&format!("note: no longer there: {gone}; `{enable} {name}` gives them back"));
    }
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

/// Returns whether a list has a toolset, or others that have all its tools.
fn is_covered(name: &str, list: &[String], catalog: &Catalog) -> bool {
    let mut tools = catalog.iter().filter(|entry| has(catalog, name, entry)).peekable();
    let is_had = |entry: &CatalogEntry| list.iter().any(|set| has(catalog, set, entry));
    list.iter().any(|it| it == name) || tools.peek().is_some() && tools.all(is_had)
}

/// Returns the toolsets that a composite one is made of, without those with tools of `name`; `None`
/// if these do not have all its other tools.
fn parts_without(holder: &str, name: &str, catalog: &Catalog) -> Option<Vec<String>> {
    let mut parts: Vec<String> = catalog.toolsets().iter().map(ToString::to_string).collect();
    parts.retain(|set| {
        overlap(set, holder, catalog) == Overlap::All
            && overlap(set, name, catalog) == Overlap::None
    });
    let mut others =
        catalog.iter().filter(|entry| has(catalog, holder, entry) && !has(catalog, name, entry));
    others.all(|entry| parts.iter().any(|part| has(catalog, part, entry))).then_some(parts)
}

/// Returns the toolsets to remove so that agents do not have this one: itself, or those that it is
/// made of, or that include it; and those to add, which are the other parts of the latter.
///
/// # Errors
/// If another toolset has only some of its tools, and is not made of such parts.
fn removed_with(
    name: &str,
    given: &[String],
    catalog: &Catalog,
) -> Result<(Vec<String>, Vec<String>), CliError> {
    if given.iter().any(|it| it == name) {
        return Ok((vec![name.to_owned()], Vec::new()));
    }
    let with = |wanted| {
        let sets = given.iter().filter(move |set| overlap(set, name, catalog) == wanted);
        sets.cloned().collect::<Vec<String>>()
    };
    let (removed, shared) = (with(Overlap::All), with(Overlap::Some));
    let mut parts: Vec<String> = Vec::new();
    let mut fixed = None;
    for holder in &shared {
        match parts_without(holder, name, catalog) {
            Some(found) => parts.extend(found),
            None => fixed = fixed.or(Some(holder)),
        }
    }
    parts.sort();
    parts.dedup();
    parts.retain(|part| !given.contains(part));
    let Some(holder) = fixed else { return Ok(([removed, shared].concat(), parts)) };
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
    if let Some(error) = missing_feature(name) {
        return CliError::usage(ChoiceError::NotBuilt(error));
    }
    if OPTIONAL_TOOLSETS.contains(&name) {
        return CliError::usage(ChoiceError::Off(name.to_owned()));
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
