//! `deputize tools` and `deputize toolsets`.

use deputize_core::authority::ApproverMode;
use deputize_core::sanitize::{for_question, for_terminal_line};
use deputize_core::tool::{ToolIndex, headline};
use deputize_core::{AgentView, Availability, Catalog, CatalogEntry, SessionId, ToolName};
use serde_json::{Value, json};

use crate::args::{Settings, Tools, Toolsets};
use crate::command::print_list;
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, load_config, turned_off, why_off,
};
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
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Tools,
) -> Result<(), CliError> {
    match command {
        Tools::List { view } => {
            let program = ListedProgram::new(links, compose(links, env, &view.settings)?);
            if view.json {
                let tools: Vec<Value> =
                    program.tools().into_iter().map(|entry| program.row_json(entry)).collect();
                return print(&format!("{:#}\n", json!(tools)));
            }
            let rows = program.tools().into_iter().map(|entry| program.row(entry)).collect();
            let head = ["TOOL", "TOOLSET", "FROM", "USABLE", "WHAT IT DOES"];
            let give_way = ["WHAT IT DOES", "FROM", "USABLE"];
            print_list(head, rows, &give_way, "there are no tools")
        }
        Tools::Show { name, view } => {
            let program = ListedProgram::new(links, compose(links, env, &view.settings)?);
            program.show(name, view.json)
        }
        Tools::Enable(choice) => choose::choose_all(links, env, choice, true),
        Tools::Disable(choice) => choose::choose_all(links, env, choice, false),
    }
}

pub(crate) fn toolsets(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Toolsets,
) -> Result<(), CliError> {
    let view = match command {
        Toolsets::List { view } => view,
        Toolsets::Resolve { child, view } => {
            let composition = compose(links, env, &view.settings)?;
            return resolve::resolve(&composition, child, view.json);
        }
    };
    let composition = compose(links, env, &view.settings)?;
    let catalog = &composition.assembly.tools.catalog;
    let mut names = catalog.toolsets();
    names.extend(catalog.composites().cloned());
    // Only whole toolsets are off here.
    let off = turned_off(links, &composition.config);
    let off = off.filtered(|entry| !names.contains(&entry.toolset));
    names.extend(off.toolsets());
    let sets: Vec<(String, Vec<String>)> = names
        .into_iter()
        .map(|set| {
            let tools = catalog.iter().filter(|entry| catalog.includes(&set, entry));
            let tools = tools.chain(off.iter().filter(|entry| entry.toolset == set));
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
    links: &LinkedTools,
    env: &ProcessEnv,
    settings: &Settings,
) -> Result<AssembledProgram, CliError> {
    let sources = env.sources(settings, Vec::new())?;
    let loaded = load_config(env, &sources)?;
    let composition =
        AssembledProgram::new(&AssemblyInput::here(links, &loaded.config, env, &sources))?;
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    Ok(composition)
}

/// Returns the first sentence of a description, on one line.
fn first_sentence(description: &str) -> String {
    let line = headline(description);
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    for_terminal_line(line.get(..end).unwrap_or(&line), line.len())
}

/// A program, and what its top agent's model is sent.
struct ListedProgram {
    composition: AssembledProgram,
    top: AgentView,
    /// The tools that the configuration turns off.
    off: Catalog,
}

impl ListedProgram {
    fn new(links: &LinkedTools, composition: AssembledProgram) -> Self {
        let assembly = &composition.assembly;
        let mode = ApproverMode::Deny;
        let top = assembly.top_agent(&SessionId::literal("preview"), "", "", mode);
        let authority = assembly.authority(mode, top.cwd.clone());
        let top = assembly.view(top, authority, composition.tool_settings());
        let off = turned_off(links, &composition.config);
        Self { composition, top, off }
    }

    fn catalog(&self) -> &Catalog {
        &self.composition.assembly.tools.catalog
    }

    /// Returns all tools by name, also those that find and call tools of MCP servers.
    fn tools(&self) -> Vec<&CatalogEntry> {
        let index = self.catalog().index().into_iter().flat_map(ToolIndex::tools);
        let mut tools: Vec<_> = self.catalog().iter().chain(index).chain(self.off.iter()).collect();
        tools.sort_by_key(|entry| entry.name());
        tools
    }

    /// Returns why agents cannot use a tool now, if they cannot.
    fn why_not(&self, entry: &CatalogEntry) -> Option<String> {
        if let Some(index) = self.index_of(entry) {
            return self.top.index().is_none().then(|| self.why_no_index(index));
        }
        let set = &entry.toolset;
        let tools = &self.composition.assembly.tools;
        let is_off = self.off.get(entry.name().as_str()).is_some();
        if !is_off && !tools.toolsets.iter().any(|given| tools.catalog.includes(given, entry)) {
            return Some(format!("not enabled ({} {set})", format_command("tools enable")));
        }
        if is_off && let Some(why) = why_off(&self.composition.config, entry) {
            return Some(why);
        }
        match entry.tool.availability(&self.composition.tool_settings()) {
            Availability::Yes => None,
            Availability::No(why) => Some(why),
        }
    }

    /// Returns the index that a tool belongs to.
    fn index_of(&self, entry: &CatalogEntry) -> Option<&ToolIndex> {
        self.catalog().index().filter(|index| index.get(entry.name().as_str()).is_some())
    }

    fn why_no_index(&self, index: &ToolIndex) -> String {
        let is_indexed =
            |name: &ToolName| self.catalog().get(name.as_str()).is_some_and(ToolIndex::has);
        let sent = self.top.declared.iter().filter(|tool| is_indexed(&tool.name));
        format!(
            "the tools of MCP servers are sent themselves: they have {} bytes \
             (limits.mcp_schema_bytes is {})",
            ToolIndex::bytes(sent.map(|tool| &**tool)),
            index.most_bytes
        )
    }

    /// Returns the tool by which the model finds this one, if it is not sent it.
    fn found_by(&self, entry: &CatalogEntry) -> Option<&ToolName> {
        let index = self.top.index().filter(|_| ToolIndex::has(entry))?;
        Some(index.search.name())
    }

    fn usable(&self, entry: &CatalogEntry) -> String {
        match (self.why_not(entry), self.found_by(entry)) {
            (Some(why), _) => format!("no: {why}"),
            (None, Some(search)) => format!("yes, by {search}"),
            (None, None) => "yes".to_owned(),
        }
    }

    fn row(&self, entry: &CatalogEntry) -> [String; 5] {
        [
            entry.name().to_string(),
            entry.toolset.to_string(),
            entry.origin.to_string(),
            self.usable(entry),
            first_sentence(&entry.tool.spec().decl.description),
        ]
    }

    fn row_json(&self, entry: &CatalogEntry) -> Value {
        let spec = entry.tool.spec();
        let why = self.why_not(entry);
        json!({
            "name": entry.name(),
            "toolset": entry.toolset,
            "origin": entry.origin,
            "usable": why.is_none(),
            "why_not": why,
            "found_by": self.found_by(entry),
            "effects": spec.effects,
            "description": spec.decl.description,
        })
    }

    fn find(&self, name: &str) -> Result<&CatalogEntry, CliError> {
        let tools = self.tools();
        let known = tools.iter().find(|entry| entry.name().as_str() == name);
        known.copied().ok_or_else(|| {
            let error = CliError::usage(NoTool { name: name.to_owned() });
            match nearest(name, tools.iter().map(|entry| entry.name().as_str())) {
                Some(near) => error.hint(format!("the nearest name is `{near}`")),
                None => error.hint(format!("`{}` lists them", format_command("tools list"))),
            }
        })
    }

    /// Shows a tool as the top agent's model is sent it, or as its author wrote it where it is sent
    /// none.
    fn show(&self, name: &str, as_json: bool) -> Result<(), CliError> {
        let entry = self.find(name)?;
        let sent = self.top.declared.iter().find(|tool| tool.name == *entry.name());
        let decl = sent.map_or(&entry.tool.spec().decl, |decl| &**decl);
        let schema: Value =
            serde_json::from_str(decl.parameters.as_str()).map_err(CliError::failed)?;
        if as_json {
            let mut shown = self.row_json(entry);
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
            self.usable(entry),
            decl.description
        ))
    }
}
