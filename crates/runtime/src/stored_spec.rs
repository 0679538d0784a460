//! Reads the spec and the tools of an agent from the record of its start.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::ToolDecl;
use deputize_core::agent::AgentSpec;
use deputize_core::event::AgentStart;

/// Returns the spec of an agent with its texts, and its tools as its model was sent them.
pub(crate) fn stored_spec(
    start: &AgentStart,
    texts: &BTreeMap<String, Arc<str>>,
) -> (AgentSpec, Vec<Arc<ToolDecl>>) {
    let mut spec = start.spec.clone();
    spec.system = start.system.iter().filter_map(|hash| texts.get(hash)).cloned().collect();
    let tools = texts.get(&start.tools).and_then(|text| serde_json::from_str(text).ok());
    let tools: Vec<ToolDecl> = tools.unwrap_or_default();
    (spec, tools.into_iter().map(Arc::new).collect())
}
