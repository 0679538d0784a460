//! Profiles: kinds of agents, as people describe them in files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_spec::Role;
use crate::name::{ToolName, ToolsetName};
use crate::tool::{Catalog, CatalogEntry};

/// A kind of agent: instructions, and upper bounds on what such an agent gets. It gives no right
/// that the agent would not have without it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What the agent is for, as models that delegate read it.
    pub description: String,
    /// Instructions for the agent; may be empty.
    pub instructions: String,
    /// Upper bound on its tools.
    pub tools: ProfileTools,
    /// Its model, as `PROVIDER/MODEL`, if the host offers that one; `None` means no choice.
    pub model: Option<String>,
    /// How hard it thinks; `None` means no choice.
    pub reasoning_effort: Option<String>,
    /// Upper bound on its model requests; `None` means none of its own.
    pub max_iterations: Option<u32>,
    /// Whether it may delegate: never as a leaf, and as an orchestrator where the host allows it.
    /// `None` means no choice.
    pub role: Option<Role>,
    /// JSON Schema of its answer; `None` for any text.
    pub output_schema: Option<Value>,
    /// Whether a project's file describes it, whose words are not the person's.
    pub from_project: bool,
}

/// Upper bound on the tools of an agent. By default there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProfileTools {
    /// The toolsets that it may have; `None` means any.
    pub toolsets: Option<BTreeSet<ToolsetName>>,
    /// The tools that it may have; `None` means any.
    pub only: Option<BTreeSet<ToolName>>,
    /// The tools that it may not have.
    pub without: BTreeSet<ToolName>,
    /// The toolsets of which it may have no tool.
    #[serde(default)]
    pub without_toolsets: BTreeSet<ToolsetName>,
}

impl ProfileTools {
    /// Returns whether the bound allows a tool.
    #[must_use]
    pub fn allows(&self, catalog: &Catalog, entry: &CatalogEntry) -> bool {
        let in_set =
            |sets: &BTreeSet<ToolsetName>| sets.iter().any(|it| catalog.includes(it, entry));
        self.toolsets.as_ref().is_none_or(in_set)
            && self.only.as_ref().is_none_or(|only| only.contains(entry.name()))
            && !self.without.contains(entry.name())
            && !in_set(&self.without_toolsets)
    }
}
