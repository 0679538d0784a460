//! The tools of servers in a replay. A server's listing is an input, so each agent gets the tools
//! and descriptions that it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::event::AgentStart;
use deputize_core::tool::ToolIndex;
use deputize_core::{
    AgentView, Availability, BoxFuture, Catalog, CatalogEntry, ResourceMap, Tool, ToolCallResult,
    ToolCx, ToolDecl, ToolError, ToolName, ToolSpec,
};
use serde_json::Value;

use super::read::Recording;

/// Returns the current tools, but of servers only those that these agents had.
pub(crate) fn recorded_catalog(
    now: &Catalog,
    recording: &Recording,
    had: impl FnMut(&&AgentStart) -> bool,
) -> Catalog {
    let mut declared: BTreeMap<ToolName, ToolDecl> = BTreeMap::new();
    let mut index = None;
    for start in recording.starts().filter(had) {
        let list = recording.texts.get(&start.tools).map_or("", |text| &**text);
        let list: Vec<ToolDecl> = serde_json::from_str(list).unwrap_or_default();
        if let Some(recorded) = now.index().and_then(|index| recorded_index(index, &list)) {
            // What the index found is not in the list.
            let found = start.spec.tools.iter().filter_map(|name| now.get(name.as_str()));
            let found = found.filter(|entry| ToolIndex::has(entry));
            declared.extend(found.map(|it| (it.name().clone(), it.tool.spec().decl.clone())));
            index = Some(recorded);
        }
        let own = list.into_iter().filter(|tool| start.spec.tools.contains(&tool.name));
        declared.extend(own.map(|tool| (tool.name.clone(), tool)));
    }
    let of_server = ToolIndex::has;
    // What was usable then is, whatever this machine has.
    let depends = |entry: &CatalogEntry| {
        let settings = ResourceMap::default();
        declared.contains_key(entry.name())
            && entry.tool.availability(&settings) != Availability::Yes
    };
    let mut catalog = now.filtered(|entry| !of_server(entry) && !depends(entry)).without_index();
    for entry in now.iter().filter(|entry| !of_server(entry) && depends(entry)) {
        let tool = Arc::new(RecordedTool(entry.tool.spec().clone()));
        let _unique_as_before = catalog.insert(CatalogEntry { tool, ..entry.clone() });
    }
    for entry in now.iter().filter(|entry| of_server(entry)) {
        let Some(decl) = declared.remove(entry.name()) else { continue };
        let mut entry = entry.clone();
        if entry.tool.spec().decl != decl {
            let spec = ToolSpec { decl, ..entry.tool.spec().clone() };
            entry = CatalogEntry { tool: Arc::new(RecordedTool(spec)), ..entry };
        }
        let _unique_as_before = catalog.insert(entry);
    }
    if let Some(index) = index {
        let _unique_as_before = catalog.set_index(index);
    }
    catalog
}

/// Returns the index as it stands in a recorded list of tools, for an agent that has it whatever its
/// other tools are; `None` if the list has none.
fn recorded_index(index: &ToolIndex, list: &[ToolDecl]) -> Option<ToolIndex> {
    let recorded = |entry: &CatalogEntry| {
        let decl = list.iter().find(|decl| decl.name == *entry.name())?.clone();
        let spec = ToolSpec { decl, ..entry.tool.spec().clone() };
        Some(CatalogEntry { tool: Arc::new(RecordedTool(spec)), ..entry.clone() })
    };
    Some(ToolIndex {
        search: recorded(&index.search)?,
        call: recorded(&index.call)?,
        most_bytes: 0,
    })
}

/// Returns the current tools. Whether one can be used that depends on the machine, or on its person,
/// is an input: it can be used if the agent of this start had it.
pub(crate) fn usable_catalog(now: &Catalog, recording: &Recording, start: &AgentStart) -> Catalog {
    let list = recording.texts.get(&start.tools).map_or("", |text| &**text);
    let list: Vec<ToolDecl> = serde_json::from_str(list).unwrap_or_default();
    let had = |entry: &CatalogEntry| list.iter().any(|tool| tool.name == *entry.name());
    let settings = ResourceMap::default();
    let depends = |entry: &CatalogEntry| {
        entry.tool.spec().usable == Availability::Yes
            && entry.tool.availability(&settings) != Availability::Yes
    };
    let mut catalog = now.filtered(|entry| !depends(entry));
    for entry in now.iter().filter(|entry| depends(entry)) {
        let usable = match had(entry) {
            true => Availability::Yes,
            false => Availability::No("it could not be used when this was recorded".to_owned()),
        };
        let spec = ToolSpec { usable, ..entry.tool.spec().clone() };
        let tool = Arc::new(UsableTool { spec, tool: Arc::clone(&entry.tool) });
        let _unique_as_before = catalog.insert(CatalogEntry { tool, ..entry.clone() });
    }
    catalog
}

/// A tool of the program whose use does not depend on the machine. A replay never calls it.
struct UsableTool {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Tool for UsableTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async { Err(ToolError::refused("a replay calls no tool")) })
    }

    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        self.tool.declare(agent)
    }
}

/// A tool as it was described. A replay never calls it.
struct RecordedTool(ToolSpec);

impl Tool for RecordedTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async { Err(ToolError::refused("a replay calls no tool")) })
    }
}
