//! The tools of servers in a replay. A server's listing is an input, so each agent gets the tools
//! and descriptions that it had.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::event::AgentStart;
use deputize_core::{
    Availability, BoxFuture, Catalog, CatalogEntry, Origin, ResourceMap, Tool, ToolCallResult,
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
    let mut told: BTreeMap<ToolName, ToolDecl> = BTreeMap::new();
    for start in recording.starts().filter(had) {
        let list = recording.texts.get(&start.tools).map_or("", |text| &**text);
        let list: Vec<ToolDecl> = serde_json::from_str(list).unwrap_or_default();
        let own = list.into_iter().filter(|tool| start.spec.tools.contains(&tool.name));
        told.extend(own.map(|tool| (tool.name.clone(), tool)));
    }
    let of_server = |entry: &CatalogEntry| matches!(entry.origin, Origin::Mcp { .. });
    // What was usable then is, whatever this machine has.
    let depends = |entry: &CatalogEntry| {
        let settings = ResourceMap::default();
        told.contains_key(entry.name()) && entry.tool.availability(&settings) != Availability::Yes
    };
    let mut catalog = now.filtered(|entry| !of_server(entry) && !depends(entry));
    for entry in now.iter().filter(|entry| !of_server(entry) && depends(entry)) {
        let tool = Arc::new(RecordedTool(entry.tool.spec().clone()));
        let _unique_as_before = catalog.insert(CatalogEntry { tool, ..entry.clone() });
    }
    for entry in now.iter().filter(|entry| of_server(entry)) {
        let Some(decl) = told.remove(entry.name()) else { continue };
        let mut entry = entry.clone();
        if entry.tool.spec().decl != decl {
            let spec = ToolSpec { decl, ..entry.tool.spec().clone() };
            entry = CatalogEntry { tool: Arc::new(RecordedTool(spec)), ..entry };
        }
        let _unique_as_before = catalog.insert(entry);
    }
    catalog
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
