//! Which tools a child gets: a subset of its parent's, with a reason for each that it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deputize_core::agent::Role;
use deputize_core::{
    ArgumentRole, Catalog, CatalogEntry, Origin, ToolKind, ToolName, ToolSpec, ToolsetName,
};

use crate::config::{DelegationConfig, ToolFlavor};
use crate::drop_reason::{DropReason, LeafReason};
use crate::parent_view::ParentView;
use crate::profiles::ToolRequest;

/// The kinds of tools that a child has which `task` makes, if a call names a file, a pattern or a
/// command. Those of plugins and servers are not basic.
const BASIC: [ToolKind; 4] = [ToolKind::Read, ToolKind::Edit, ToolKind::Search, ToolKind::Execute];

/// A tool of the parent that the child does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedTool {
    /// Name of the tool.
    pub tool: ToolName,
    /// Toolset of the tool.
    pub toolset: ToolsetName,
    /// Why the child does not have it.
    pub reason: DropReason,
}

/// The outcome of the computation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTools {
    /// The child's tools, in the order they are sent: the parent's order, with gaps.
    pub tools: Vec<ToolName>,
    /// The sets that these belong to, by name.
    pub toolsets: Vec<ToolsetName>,
    /// The parent's other tools, in the same order.
    pub dropped: Arc<[DroppedTool]>,
    /// Whether the child may delegate.
    pub role: Role,
    /// Why it may not although it was to; `None` if it got what was asked.
    pub demoted: Option<LeafReason>,
}

impl ChildTools {
    /// The tools that the child lacks for want of approvals alone.
    pub(crate) fn unapproved(&self) -> Vec<ToolName> {
        let unapproved = self.dropped.iter().filter(|it| it.reason == DropReason::Unapproved);
        unapproved.map(|dropped| dropped.tool.clone()).collect()
    }
}

/// Computes a child's tools from its parent's, what the call asks for, and the operator's settings.
///
/// A tool is the child's when it is the parent's and all of this holds: children may have it at
/// all; its set is named, or is an MCP server's and these are inherited; the profile allows it; the
/// ceiling has its set; its calls need no approval, or somebody gives it to children. Tools that delegate depend on the role and
/// the ceiling alone.
#[must_use]
pub fn child_tools(
    parent: ParentView<'_>,
    request: ToolRequest<'_>,
    config: &DelegationConfig,
) -> ChildTools {
    let ToolRequest { role, profile, .. } = request;
    let leaf = leaf_reason(parent, role, config);
    let wanted = request.toolsets_or_default(config);
    let mut out = ChildTools {
        tools: Vec::new(),
        toolsets: Vec::new(),
        dropped: Arc::default(),
        role: if leaf.is_some() { Role::Leaf } else { Role::Orchestrator },
        demoted: leaf.clone().filter(|_| role == Role::Orchestrator),
    };
    let mut toolsets = BTreeSet::new();
    let mut dropped = Vec::new();
    let approver = parent.child_approver(config);
    let approved = |entry: &CatalogEntry| match config.withholds(entry, approver) {
        true => Err(DropReason::Unapproved),
        false => Ok(()),
    };
    for entry in parent.tools() {
        let judged = match class(entry) {
            ToolClass::Never(why) => Err(DropReason::Never(why)),
            ToolClass::Delegating => match &leaf {
                Some(why) => Err(DropReason::Leaf(why.clone())),
                None => Ok(()),
            },
            ToolClass::Common if !may_give(config, entry) => Err(DropReason::NotBasic),
            ToolClass::Common if !parent.same_text_for(entry, config) => {
                Err(DropReason::ToldOtherwise)
            }
            ToolClass::Common => asked_for(parent, entry, request, config),
        };
        let judged = judged.and_then(|()| under_ceiling(entry, parent.catalog, config));
        // The last reason: without it the tool would be the child's.
        match judged.and_then(|()| approved(entry)) {
            Ok(()) => {
                let bound = profile.and_then(|profile| profile.tools.toolsets.as_ref());
                let mut named = [bound, wanted].into_iter().flatten();
                let named = named.find_map(|sets| parent.named_by(sets, entry));
                toolsets.insert(named.unwrap_or(&entry.toolset).clone());
                out.tools.push(entry.name().clone());
            }
            Err(reason) => dropped.push(DroppedTool {
                tool: entry.name().clone(),
                toolset: entry.toolset.clone(),
                reason,
            }),
        }
    }
    out.toolsets = toolsets.into_iter().collect();
    out.dropped = dropped.into();
    out
}

/// Returns why a child does not get a tool that children may have, by what the call asks for: its
/// toolsets, or else the default ones, and its profile.
fn asked_for(
    parent: ParentView<'_>,
    entry: &CatalogEntry,
    request: ToolRequest<'_>,
    config: &DelegationConfig,
) -> Result<(), DropReason> {
    let wanted = request.toolsets_or_default(config);
    let inherited =
        config.options.inherit_mcp_toolsets && matches!(entry.origin, Origin::Mcp { .. });
    let is_named = wanted.is_none_or(|sets| parent.named_by(sets, entry).is_some());
    let beyond = request.profile.filter(|it| !it.tools.allows(parent.catalog, entry));
    match (is_named || inherited, request.toolsets, beyond) {
        (false, Some(_), _) => Err(DropReason::NotRequested),
        (false, None, _) => {
            let key = config.setting_name("default_toolsets").to_owned();
            Err(DropReason::NotDefault { key })
        }
        (true, _, Some(profile)) => Err(DropReason::Profile(profile.name.clone())),
        (true, _, None) => Ok(()),
    }
}

/// Returns whether a child may have the tool in this form of delegation.
fn may_give(config: &DelegationConfig, entry: &CatalogEntry) -> bool {
    let spec = entry.tool.spec();
    let is_linked = matches!(entry.origin, Origin::Linked { .. });
    let is_text =
        matches!(spec.subject.main(), Some((_, ArgumentRole::Text | ArgumentRole::Patch)));
    let is_basic = is_linked && BASIC.contains(&spec.kind) && !is_text;
    config.options.tool_name == ToolFlavor::DelegateTask || is_basic
}

pub(crate) fn under_ceiling(
    entry: &CatalogEntry,
    catalog: &Catalog,
    config: &DelegationConfig,
) -> Result<(), DropReason> {
    match &config.toolsets.ceiling {
        Some(ceiling) if !ceiling.iter().any(|set| catalog.includes(set, entry)) => {
            Err(DropReason::Ceiling { key: config.setting_name("toolset_ceiling").to_owned() })
        }
        _ => Ok(()),
    }
}

/// The parent's sets that a call may name, and what a child would get of each.
pub(crate) fn offered<'a>(
    parent: ParentView<'a>,
    config: &DelegationConfig,
) -> BTreeMap<&'a str, Vec<&'a ToolName>> {
    let mut sets: BTreeMap<&str, Vec<&ToolName>> = BTreeMap::new();
    let approver = parent.child_approver(config);
    for entry in parent.tools() {
        let common = matches!(class(entry), ToolClass::Common) && may_give(config, entry);
        let common = common && !config.withholds(entry, approver);
        if common && under_ceiling(entry, parent.catalog, config).is_ok() {
            sets.entry(entry.toolset.as_str()).or_default().push(entry.name());
        }
    }
    let given: BTreeSet<&ToolName> = sets.values().flatten().copied().collect();
    let mut composites: Vec<(&str, Vec<&ToolName>)> = Vec::new();
    for composite in parent.catalog.composites() {
        let tools = parent.tools().filter(|entry| {
            given.contains(entry.name()) && parent.catalog.includes(composite, entry)
        });
        composites.push((composite.as_str(), tools.map(CatalogEntry::name).collect()));
    }
    // Small ones first: one that is made of whole sets is named by these.
    composites.sort_by_key(|(_, tools)| tools.len());
    for (name, tools) in composites {
        let is_within = |set: &&Vec<&ToolName>| set.iter().all(|tool| tools.contains(tool));
        let whole: BTreeSet<&ToolName> =
            sets.values().filter(is_within).flatten().copied().collect();
        if tools.iter().any(|tool| !whole.contains(tool)) {
            sets.insert(name, tools);
        }
    }
    sets
}

/// Returns why a child of that role may not delegate; `None` if it may.
pub(crate) fn leaf_reason(
    parent: ParentView<'_>,
    role: Role,
    config: &DelegationConfig,
) -> Option<LeafReason> {
    let entry = parent.tools().find(|entry| *entry.name() == config.tool());
    let Some(entry) = entry else { return Some(LeafReason::Parent) };
    let depth = parent.spec.depth + 1;
    let limit = config.leaf_depth();
    let key = |field| config.setting_name(field).to_owned();
    if role == Role::Leaf {
        Some(LeafReason::Role)
    } else if config.is_external() {
        Some(LeafReason::External { key: key("external_needs") })
    } else if !config.options.orchestrator_enabled {
        Some(LeafReason::Disabled { key: key("orchestrator_enabled") })
    } else if depth >= limit {
        Some(LeafReason::Depth { depth, limit, key: key("max_spawn_depth") })
    } else if parent.authority.spawn_depth() < 2 {
        Some(LeafReason::OneLevel)
    } else {
        under_ceiling(entry, parent.catalog, config)
            .err()
            .map(|_| LeafReason::Ceiling { key: key("toolset_ceiling") })
    }
}

/// Returns whether children of the parent, or their children, may delegate. Agents of every depth
/// get the same answer.
pub(crate) fn nests(parent: ParentView<'_>, config: &DelegationConfig) -> bool {
    let entry = parent.tools().find(|entry| *entry.name() == config.tool());
    config.options.orchestrator_enabled
        && !config.is_external()
        && config.leaf_depth() > 1
        && entry.is_some_and(|entry| under_ceiling(entry, parent.catalog, config).is_ok())
}

/// Whether children may have a tool.
enum ToolClass {
    Common,
    Delegating,
    Never(&'static str),
}

fn class(entry: &CatalogEntry) -> ToolClass {
    match entry.tool.spec() {
        ToolSpec { parent_only: Some(why), .. } => ToolClass::Never(why.reason()),
        ToolSpec { kind: ToolKind::Delegate, .. } => ToolClass::Delegating,
        _ => ToolClass::Common,
    }
}

/// Whether no child ever has a tool.
pub(crate) fn is_never(entry: &CatalogEntry) -> bool {
    entry.tool.spec().parent_only.is_some()
}

/// Returns the order in which tools are sent: by name, but those that children lose come last, so that
/// a child's list begins like its parent's and shares a provider's cache with it. An orchestrator
/// keeps the tools that delegate and loses the rest of these, so they come first.
#[must_use]
pub fn send_order<'a>(
    tools: impl IntoIterator<Item = &'a CatalogEntry>,
    config: &DelegationConfig,
) -> Vec<ToolName> {
    let withheld = |entry: &CatalogEntry| config.withholds(entry, config.approvals.mode);
    let group = |entry: &CatalogEntry| match class(entry) {
        ToolClass::Common if !may_give(config, entry) || withheld(entry) => 2_u8,
        ToolClass::Common => 0,
        ToolClass::Delegating => 1,
        ToolClass::Never(_) => 3,
    };
    let mut tools: Vec<(u8, ToolName)> =
        tools.into_iter().map(|entry| (group(entry), entry.name().clone())).collect();
    tools.sort();
    tools.dedup();
    tools.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
