//! Two tools in place of many in what a model is sent: one finds them, the other calls them.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::entry::CatalogEntry;
use crate::origin::Origin;
use crate::tool_spec::ToolDecl;

/// The arguments of [`ToolIndex::call`]: an object with these members.
#[derive(Debug, Clone, Deserialize)]
pub struct IndexedCall {
    /// Name of the tool.
    pub name: String,
    /// Its arguments, by its schema.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl IndexedCall {
    /// Parses the arguments of a call. Arguments that are JSON in a text are parsed too, as some
    /// models send them.
    #[must_use]
    pub fn parse(arguments: &str) -> Option<Self> {
        let mut call: Value = serde_json::from_str(arguments).ok()?;
        if let Some(inner) = call.get_mut("arguments")
            && let Some(parsed) = inner.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *inner = parsed;
        }
        serde_json::from_value(call).ok()
    }
}

/// An index of the tools of servers. A model whose agent has more of them than fit into a limit is
/// sent two tools instead: one finds the others, and one calls them. The agent has the others all
/// the same: a call through the index is a call of the other tool, and is judged and recorded so.
#[derive(Clone)]
pub struct ToolIndex {
    /// Finds tools, for their declarations.
    pub search: CatalogEntry,
    /// Calls a tool, by [`IndexedCall`]. It runs itself only where a call names no tool of the
    /// index, to say so.
    pub call: CatalogEntry,
    /// Limit in bytes of JSON of the declarations that are sent themselves.
    pub most_bytes: u64,
}

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolIndex({:?}, {:?}, {} bytes)", self.search, self.call, self.most_bytes)
    }
}

impl ToolIndex {
    /// Returns whether a tool is found by indexes: only those of servers are.
    #[must_use]
    pub const fn has(entry: &CatalogEntry) -> bool {
        matches!(entry.origin, Origin::Mcp { .. })
    }

    /// Returns both tools.
    #[must_use]
    pub fn tools(&self) -> [&CatalogEntry; 2] {
        [&self.search, &self.call]
    }

    /// Returns one of both tools by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CatalogEntry> {
        self.tools().into_iter().find(|entry| entry.name().as_str() == name)
    }

    /// Returns whether a model was sent the index instead of the tools.
    #[must_use]
    pub fn is_declared(&self, declared: &[Arc<ToolDecl>]) -> bool {
        declared.iter().any(|tool| tool.name == *self.call.name())
    }

    /// Returns the size of declarations, in bytes of JSON.
    #[must_use]
    pub fn bytes<'d>(declared: impl IntoIterator<Item = &'d ToolDecl>) -> u64 {
        let bytes = |tool: &ToolDecl| serde_json::to_string(tool).map_or(0, |json| json.len());
        declared.into_iter().map(|tool| bytes(tool) as u64).sum()
    }
}
