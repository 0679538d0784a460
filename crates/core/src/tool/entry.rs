//! A tool of a catalog.

use std::fmt;
use std::sync::Arc;

use super::Tool;
use crate::name::{ToolName, ToolsetName};
use crate::origin::{Origin, ToolIdentity};

/// A tool with its toolset and origin.
#[derive(Clone)]
pub struct CatalogEntry {
    /// The toolset that it is granted or withheld with.
    pub toolset: ToolsetName,
    /// Where it comes from.
    pub origin: Origin,
    /// Implementation of the tool.
    pub tool: Arc<dyn Tool>,
}

impl CatalogEntry {
    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.tool.spec().decl.name
    }
}

impl fmt::Debug for CatalogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name(), self.toolset, self.origin)
    }
}

impl<'e> From<&'e CatalogEntry> for ToolIdentity<'e> {
    fn from(entry: &'e CatalogEntry) -> Self {
        let schema = entry.tool.spec().decl.parameters.digest();
        Self { name: entry.name(), origin: &entry.origin, schema }
    }
}
