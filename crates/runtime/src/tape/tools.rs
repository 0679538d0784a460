//! The tools of servers in a replay: what a server said is an input, so each agent has those that
//! it had, told as they were told.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::{
    AgentId, AgentStart, BoxFuture, CallId, Catalog, Entry, Origin, Tool, ToolCallResult, ToolCx,
    ToolDecl, ToolError, ToolName, ToolSpec,
};
use serde_json::Value;

use super::play::Play;
use super::read::Recording;

impl Play {
    /// The tools that the children of a call had.
    pub(crate) fn tools_for(&self, agent: &AgentId, call: CallId, now: &Catalog) -> Arc<Catalog> {
        let of_call = |start: &&AgentStart| {
            start.spec.parent.as_ref() == Some(agent)
                && start.spec.spawned_by.as_ref().is_some_and(|by| by.call == call)
        };
        Arc::new(recorded(now, &self.recording, of_call))
    }

    /// The tools that an agent had. The top agent has those of the program, as it is played.
    pub(crate) fn tools_of(&self, agent: &AgentId, now: &Arc<Catalog>) -> Arc<Catalog> {
        let is_child = |start: &&AgentStart| start.spec.id == *agent && start.spec.depth > 0;
        if !self.recording.starts().any(|start| is_child(&start)) {
            return Arc::clone(now);
        }
        Arc::new(recorded(now, &self.recording, is_child))
    }
}

/// The tools of now, but of servers only what these agents had.
fn recorded(
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
    let of_server = |entry: &Entry| matches!(entry.origin, Origin::Mcp { .. });
    let mut catalog = now.filtered(|entry| !of_server(entry));
    for entry in now.iter().filter(|entry| of_server(entry)) {
        let Some(decl) = told.remove(entry.name()) else { continue };
        let mut entry = entry.clone();
        if entry.tool.spec().decl != decl {
            let spec = ToolSpec { decl, ..entry.tool.spec().clone() };
            entry = Entry { tool: Arc::new(AsTold(spec)), ..entry };
        }
        let _unique_as_before = catalog.insert(entry);
    }
    catalog
}

/// A tool of a server as it was told of. A replay calls none.
struct AsTold(ToolSpec);

impl Tool for AsTold {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async { Err(ToolError::refused("a replay calls no tool of a server")) })
    }
}
