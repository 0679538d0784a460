//! The tools of an agent, as its model is sent them.

use std::sync::Arc;

use deputize_core::tool::ToolIndex;
use deputize_core::{AgentView, Availability, CatalogEntry, ToolDecl};

/// Returns the tools of an agent as its model is sent them: the list that its spec has, or else, in
/// the order of its spec, those that it may use and that can be used now. The catalog's index stands
/// for servers' tools whose declarations are too long.
#[must_use]
pub fn declare(view: &AgentView) -> Vec<Arc<ToolDecl>> {
    if let Some(declared) = &view.spec.declared {
        return declared.to_vec();
    }
    let known = view.spec.tools.iter().filter_map(|name| view.catalog.get(name.as_str()));
    let mine = known.filter(|entry| view.authority.permits(*entry).is_ok());
    let usable =
        mine.filter(|entry| entry.tool.availability(&view.session.settings) == Availability::Yes);
    let declare = |entry: &CatalogEntry| match entry.tool.declare(view) {
        Some(changed) => Some(Arc::new(changed)),
        None => view.catalog.declaration(entry.name().as_str()).cloned(),
    };
    let mut declared = usable.filter_map(declare).collect();
    if let Some(index) = view.catalog.index() {
        replace_indexed(index, view, &mut declared);
    }
    declared
}

/// Puts the index in place of the declarations that it finds, if they are above its limit.
fn replace_indexed(index: &ToolIndex, view: &AgentView, declared: &mut Vec<Arc<ToolDecl>>) {
    let is_found =
        |tool: &Arc<ToolDecl>| view.catalog.get(tool.name.as_str()).is_some_and(ToolIndex::has);
    let Some(first) = declared.iter().position(is_found) else { return };
    let found = declared.iter().filter(|tool| is_found(tool)).map(|tool| &**tool);
    if ToolIndex::bytes(found) <= index.most_bytes {
        return;
    }
    let own = |entry: &CatalogEntry| {
        let declared = entry.tool.declare(view);
        Arc::new(declared.unwrap_or_else(|| entry.tool.spec().decl.clone()))
    };
    declared.retain(|tool| !is_found(tool));
    declared.splice(first..first, index.tools().map(own));
}
