//! The tools of an agent, as its model is sent them.

use std::sync::Arc;

use deputize_core::{AgentView, Availability, ToolDecl};

/// Returns the tools of an agent as its model is sent them: the list that its spec has, or else, in
/// the order of its spec, those that it may use and that can be used now.
#[must_use]
pub fn declare(view: &AgentView) -> Vec<Arc<ToolDecl>> {
    if let Some(declared) = &view.spec.declared {
        return declared.to_vec();
    }
    let known = view.spec.tools.iter().filter_map(|name| view.catalog.get(name.as_str()));
    let mine = known.filter(|entry| view.authority.permits(*entry).is_ok());
    let usable =
        mine.filter(|entry| entry.tool.availability(&view.session.settings) == Availability::Yes);
    let declare = |entry: &deputize_core::CatalogEntry| match entry.tool.declare(view) {
        Some(told) => Some(Arc::new(told)),
        None => view.catalog.declaration(entry.name().as_str()).cloned(),
    };
    usable.filter_map(declare).collect()
}
