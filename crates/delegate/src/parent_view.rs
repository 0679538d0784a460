//! What is read of a parent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::{
    AgentView, Authority, Availability, Catalog, CatalogEntry, Origin, ParentOnly, ResourceMap,
    ToolDecl, ToolName, ToolsetName,
};

use crate::config::{DelegationConfig, ToolSchemas};

/// The values of a parent that are read here; never the running agent.
#[derive(Debug, Clone, Copy)]
pub struct ParentView<'a> {
    /// Its spec.
    pub spec: &'a AgentSpec,
    /// What it may do.
    pub authority: &'a Authority,
    /// The program's tools as of now: of those that it was given, children have what is still the
    /// same.
    pub catalog: &'a Catalog,
    /// The declarations that its model has; empty while they are being made.
    pub declared: &'a [Arc<ToolDecl>],
    /// The directory that its shell is in, where that is another one than its own and is there.
    pub shell: Option<&'a Path>,
    /// The settings by which tools say whether they can be used; `None`: all can.
    pub settings: Option<&'a ResourceMap>,
}

impl<'a> ParentView<'a> {
    /// Creates the view of a running agent.
    #[must_use]
    pub fn of(agent: &'a AgentView) -> Self {
        let AgentView { spec, authority, catalog, declared, session, .. } = agent;
        let settings = Some(&session.settings);
        Self { spec, authority, catalog, declared, shell: None, settings }
    }

    /// Returns its tools in the order they are sent: those it was given and may still call.
    pub fn tools(self) -> impl Iterator<Item = &'a CatalogEntry> {
        let entries =
            self.spec.tools.iter().filter_map(move |name| self.catalog.get(name.as_str()));
        entries.filter(move |entry| self.authority.permits(*entry).is_ok())
    }

    /// Returns whether it has a tool of that name.
    #[must_use]
    pub fn has(self, tool: &str) -> bool {
        self.tools().any(|entry| entry.name().as_str() == tool)
    }

    /// Whether a tool can be used now. One that cannot be used is not sent to models, and no text for
    /// them names it.
    pub(crate) fn can_use(self, entry: &CatalogEntry) -> bool {
        let usable = |settings| entry.tool.availability(settings) == Availability::Yes;
        self.settings.is_none_or(usable)
    }

    /// Returns the first tool that its model is sent and that no child has for that reason.
    pub(crate) fn sent_parent_only(self, why: ParentOnly) -> Option<&'a ToolName> {
        let is_it = |entry: &&CatalogEntry| entry.tool.spec().parent_only == Some(why);
        self.tools().filter(is_it).find(|entry| self.can_use(entry)).map(CatalogEntry::name)
    }

    /// How questions of its children are answered.
    pub(crate) fn child_approver(self, config: &DelegationConfig) -> ApproverMode {
        config.approvals.mode.min(self.authority.approver())
    }

    /// Those that it was given and may not call any more, or that are not there any more.
    pub(crate) fn lost(self) -> impl Iterator<Item = &'a ToolName> {
        self.spec.tools.iter().filter(move |name| !self.has(name.as_str()))
    }

    /// Returns whether a child's model gets a server tool's current description. With the parent's
    /// own list, it gets the older one.
    pub(crate) fn same_text_for(self, entry: &CatalogEntry, config: &DelegationConfig) -> bool {
        let shared = config.options.tool_schemas == ToolSchemas::CachePreserving;
        let declared = self.declared.iter().find(|tool| tool.name == *entry.name());
        let declared = declared.filter(|_| shared && matches!(entry.origin, Origin::Mcp { .. }));
        declared.is_none_or(|declared| **declared == entry.tool.spec().decl)
    }

    /// Returns its toolsets, by name, and the composite toolsets of which it has a tool.
    #[must_use]
    pub fn toolsets(self) -> BTreeSet<ToolsetName> {
        let composites = self
            .catalog
            .composites()
            .filter(|set| self.tools().any(|entry| self.catalog.includes(set, entry)));
        self.tools().map(|entry| &entry.toolset).chain(composites).cloned().collect()
    }

    /// Returns the one of these toolsets by which a tool is meant: its own, or else the first
    /// composite one that has it.
    pub(crate) fn named_by<'s>(
        self,
        sets: &'s BTreeSet<ToolsetName>,
        entry: &CatalogEntry,
    ) -> Option<&'s ToolsetName> {
        let own = sets.get(&entry.toolset);
        own.or_else(|| sets.iter().find(|set| self.catalog.includes(set, entry)))
    }
}
