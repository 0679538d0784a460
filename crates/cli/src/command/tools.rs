//! `deputize tools` and `deputize toolsets`.

use deputize_core::sanitize::{for_question, for_terminal_line};
use deputize_core::tool::headline;
use deputize_core::{Availability, CatalogEntry, ToolCrate};
use serde_json::{Value, json};

use crate::args::{Settings, Tools, Toolsets};
use crate::command::print_list;
use crate::compose::{AssembledProgram, AssemblyInput, load_config};
use crate::config::nearest;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

mod choose;
mod resolve;

#[derive(Debug, thiserror::Error)]
#[error("there is no tool `{}`", for_question(name))]
struct NoTool {
    name: String,
}

/// Lists or shows tools.
pub(crate) fn tools(
    links: &[ToolCrate],
    around: &ProcessEnv,
    command: &Tools,
) -> Result<(), CliError> {
    match command {
        Tools::List { view } => {
            let composition = compose(links, around, &view.settings)?;
            if view.json {
                let tools = composition
                    .assembly
                    .tools
                    .catalog
                    .iter()
                    .map(|entry| row_json(entry, &composition));
                let tools: Vec<Value> = tools.collect();
                return print(&format!("{:#}\n", json!(tools)));
            }
            let rows = composition
                .assembly
                .tools
                .catalog
                .iter()
                .map(|entry| row(entry, &composition))
                .collect();
            let head = ["TOOL", "TOOLSET", "FROM", "USABLE", "WHAT IT DOES"];
            let give_way = ["WHAT IT DOES", "FROM", "USABLE"];
            print_list(head, rows, &give_way, "there are no tools")
        }
        Tools::Show { name, view } => {
            let composition = compose(links, around, &view.settings)?;
            show(&composition, name, view.json)
        }
        Tools::Enable(choice) => choose::choose(links, around, choice, true),
        Tools::Disable(choice) => choose::choose(links, around, choice, false),
    }
}

/// Lists toolsets.
pub(crate) fn toolsets(
    links: &[ToolCrate],
    around: &ProcessEnv,
    command: &Toolsets,
) -> Result<(), CliError> {
    let view = match command {
        Toolsets::List { view } => view,
        Toolsets::Resolve { child, view } => {
            let composition = compose(links, around, &view.settings)?;
            return resolve::resolve(&composition, child, view.json);
        }
    };
    let composition = compose(links, around, &view.settings)?;
    let catalog = &composition.assembly.tools.catalog;
    let mut names = catalog.toolsets();
    names.extend(catalog.composites().cloned());
    let sets: Vec<(String, Vec<String>)> = names
        .into_iter()
        .map(|set| {
            let tools = catalog.iter().filter(|entry| catalog.includes(&set, entry));
            (set.to_string(), tools.map(|entry| entry.name().to_string()).collect())
        })
        .collect();
    let given = &composition.assembly.tools.toolsets;
    let is_given = |set: &str, tools: &[String]| {
        let is_included = |tool: &String| {
            let entry = catalog.get(tool);
            entry.is_some_and(|entry| given.iter().any(|given| catalog.includes(given, entry)))
        };
        given.iter().any(|given| given.as_str() == set) || tools.iter().all(is_included)
    };
    if view.json {
        let row = |(set, tools): &(String, Vec<String>)| json!({"toolset": set, "enabled": is_given(set, tools), "tools": tools});
        let sets: Vec<Value> = sets.iter().map(row).collect();
        return print(&format!("{:#}\n", json!(sets)));
    }
    let rows = sets
        .iter()
        .map(|(set, tools)| {
            let enabled = if is_given(set, tools) { "yes" } else { "no" };
            [set.clone(), enabled.to_owned(), tools.join(", ")]
        })
        .collect();
    print_list(["TOOLSET", "ENABLED", "TOOLS"], rows, &["TOOLS"], "there are no toolsets")
}

fn compose(
    links: &[ToolCrate],
    around: &ProcessEnv,
    settings: &Settings,
) -> Result<AssembledProgram, CliError> {
    let sources = around.sources(settings, Vec::new())?;
    let loaded = load_config(around, &sources)?;
    let composition =
        AssembledProgram::new(&AssemblyInput::here(links, &loaded.config, around, &sources))?;
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    Ok(composition)
}

/// Why agents cannot use a tool now, if they cannot.
fn why_not(entry: &CatalogEntry, composition: &AssembledProgram) -> Option<String> {
    let set = &entry.toolset;
    let tools = &composition.assembly.tools;
    if !tools.toolsets.iter().any(|given| tools.catalog.includes(given, entry)) {
        return Some(format!("not enabled ({} {set})", format_command("tools enable")));
    }
    match entry.tool.availability(&composition.tool_settings()) {
        Availability::Yes => None,
        Availability::No(why) => Some(why),
    }
}

fn usable(entry: &CatalogEntry, composition: &AssembledProgram) -> String {
    why_not(entry, composition).map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"))
}

/// Returns the first sentence of a description, on one line.
fn first_sentence(description: &str) -> String {
    let line = headline(description);
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    for_terminal_line(line.get(..end).unwrap_or(&line), line.len())
}

fn row(entry: &CatalogEntry, composition: &AssembledProgram) -> [String; 5] {
    [
        entry.name().to_string(),
        entry.toolset.to_string(),
        entry.origin.to_string(),
        usable(entry, composition),
        first_sentence(&entry.tool.spec().decl.description),
    ]
}

fn row_json(entry: &CatalogEntry, composition: &AssembledProgram) -> Value {
    let spec = entry.tool.spec();
    let why = why_not(entry, composition);
    json!({
        "name": entry.name(),
        "toolset": entry.toolset,
        "origin": entry.origin,
        "usable": why.is_none(),
        "why_not": why,
        "effects": spec.effects,
        "description": spec.decl.description,
    })
}

fn show(composition: &AssembledProgram, name: &str, as_json: bool) -> Result<(), CliError> {
    let Some(entry) = composition.assembly.tools.catalog.get(name) else {
        let names = composition.assembly.tools.catalog.iter().map(|entry| entry.name().as_str());
        let error = CliError::usage(NoTool { name: name.to_owned() });
        return Err(match nearest(name, names) {
            Some(near) => error.hint(format!("the nearest name is `{near}`")),
            None => error.hint(format!("`{}` lists them", format_command("tools list"))),
        });
    };
    let decl = composition.assembly.declare(entry);
    let schema: Value = serde_json::from_str(decl.parameters.as_str()).map_err(CliError::failed)?;
    if as_json {
        let mut shown = row_json(entry, composition);
        if let Some(map) = shown.as_object_mut() {
            map.insert("description".to_owned(), json!(decl.description));
            map.insert("parameters".to_owned(), schema);
        }
        return print(&format!("{shown:#}\n"));
    }
    print(&format!(
        "{name}\ntoolset: {}\nfrom:    {}\nusable:  {}\n\n{}\n\n{schema:#}\n",
        entry.toolset,
        entry.origin,
        usable(entry, composition),
        decl.description
    ))
}
