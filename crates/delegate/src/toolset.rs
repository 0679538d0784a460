//! Which tools a child gets: a subset of its parent's, with a reason for each that it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, Role};
use deputize_core::authority::ApproverMode;
use deputize_core::{
    AgentView, ArgumentRole, Authority, Availability, Catalog, CatalogEntry, Origin, ResourceMap,
    ToolDecl, ToolKind, ToolName, ToolsetName,
};

use crate::config::{DelegationConfig, ToolFlavor, ToolSchemas};
use crate::names::{TASK, TOOLSET};
use crate::profiles::ToolRequest;

/// The tool that runs scripts of mechanical steps, if a program has one.
pub(crate) const EXECUTE_CODE: &str = "execute_code";

/// Tools that no child has, wherever they live, and why.
const NEVER: [(&str, &str); 8] = [
    ("clarify", "a child has nobody to ask"),
    ("cronjob", "it outlives the turn"),
    (EXECUTE_CODE, "it would run beside the rules that calls are judged by"),
    ("memory", "what is remembered is the top agent's"),
    ("send_message", "only the top agent speaks to others"),
    ("session_search", "it would read the parent's conversation"),
    ("skill_manage", "what is learned is the top agent's"),
    ("todo", "the plan is the parent's"),
];
/// The kinds of tools that a child has which `task` makes, if a call names a file, a pattern or a
/// command. Those of plugins and servers are not basic.
const BASIC: [ToolKind; 4] = [ToolKind::Read, ToolKind::Edit, ToolKind::Search, ToolKind::Execute];

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
    /// Of a running agent.
    #[must_use]
    pub fn of(agent: &'a AgentView) -> Self {
        let AgentView { spec, authority, catalog, declared, session, .. } = agent;
        let settings = Some(&session.settings);
        Self { spec, authority, catalog, declared, shell: None, settings }
    }

    /// Its tools, in the order they are sent: those it was given and may still call.
    pub fn tools(self) -> impl Iterator<Item = &'a CatalogEntry> {
        let entries =
            self.spec.tools.iter().filter_map(move |name| self.catalog.get(name.as_str()));
        entries.filter(move |entry| self.authority.permits(*entry).is_ok())
    }

    /// Whether it has a tool of that name.
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

    /// Whether its model is sent a tool of that name.
    pub(crate) fn is_sent(self, tool: &str) -> bool {
        self.tools().any(|entry| entry.name().as_str() == tool && self.can_use(entry))
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
    fn same_text_for(self, entry: &CatalogEntry, config: &DelegationConfig) -> bool {
        let shared = config.options.tool_schemas == ToolSchemas::CachePreserving;
        let told = self.declared.iter().find(|tool| tool.name == *entry.name());
        let told = told.filter(|_| shared && matches!(entry.origin, Origin::Mcp { .. }));
        told.is_none_or(|told| **told == entry.tool.spec().decl)
    }

    /// Its toolsets, by name, and the composite toolsets of which it has a tool.
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
    fn named_by<'s>(
        self,
        sets: &'s BTreeSet<ToolsetName>,
        entry: &CatalogEntry,
    ) -> Option<&'s ToolsetName> {
        let own = sets.get(&entry.toolset);
        own.or_else(|| sets.iter().find(|set| self.catalog.includes(set, entry)))
    }
}

/// Why a child does not have a tool of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropReason {
    /// The call named toolsets, and not this one.
    NotRequested,
    /// The call named none, and this one is not among those that children then get.
    NotDefault {
        /// The operator's name of the list; empty if it has none.
        key: String,
    },
    /// No child has it; why.
    Never(&'static str),
    /// The child may not delegate, for this reason.
    Leaf(LeafReason),
    /// The child's profile, of this name, does not allow it.
    Profile(String),
    /// The operator's ceiling does not have its toolset.
    Ceiling {
        /// What the operator calls the ceiling; empty: it is not named.
        key: String,
    },
    /// Children that `task` makes have the basic tools alone.
    NotBasic,
    /// Children share the parent's declarations, and this tool has changed since.
    ToldOtherwise,
    /// Each of its calls needs an approval, and children get none.
    Unapproved,
}

/// Why a child may not delegate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafReason {
    /// Nobody asked for more.
    Role,
    /// The operator switched it off.
    Disabled {
        /// The operator's name of the switch; empty if it has none.
        key: String,
    },
    /// Children are runs of another program.
    External {
        /// The operator's name of the setting; empty if it has none.
        key: String,
    },
    /// Every agent at its depth is a leaf.
    Depth {
        /// The child's depth.
        depth: u32,
        /// The depth from which on agents are leaves.
        limit: u32,
        /// The operator's name of the limit; empty if it has none.
        key: String,
    },
    /// The parent was granted one level below it, whatever the limit is by now.
    OneLevel,
    /// The operator's ceiling does not have the toolset for it.
    Ceiling {
        /// What the operator calls the ceiling; empty: it is not named.
        key: String,
    },
    /// The parent may not itself.
    Parent,
}

impl fmt::Display for LeafReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Role => "a leaf cannot delegate",
            Self::Disabled { key } if key.is_empty() => "no child may delegate",
            Self::Disabled { key } => return write!(f, "{key} is false"),
            Self::External { key } if key.is_empty() => "children are another program here",
            Self::External { key } => {
                return write!(f, "children are another program here ({key})");
            }
            Self::Depth { depth, limit, key } => {
                let name = if key.is_empty() { "the depth limit" } else { key };
                return write!(f, "a child at depth {depth} is a leaf: {name} is {limit}");
            }
            Self::OneLevel => "the parent may delegate, but its children may not",
            Self::Ceiling { key } => {
                let name = if key.is_empty() { "the ceiling for children" } else { key };
                return write!(f, "{name} does not have the toolset `{TOOLSET}`");
            }
            Self::Parent => "the parent does not have it",
        })
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRequested => f.write_str("not asked for"),
            Self::NotDefault { key } => {
                let name = if key.is_empty() { "children's default toolsets" } else { key };
                write!(f, "not in {name}")
            }
            Self::Never(why) => write!(f, "no child has it: {why}"),
            Self::Profile(name) => write!(f, "not in the profile `{name}`"),
            Self::Leaf(why) => why.fmt(f),
            Self::Ceiling { key } => {
                let name = if key.is_empty() { "the ceiling for children" } else { key };
                write!(f, "not in {name}")
            }
            Self::NotBasic => write!(f, "`{TASK}` gives basic tools only"),
            Self::ToldOtherwise => f.write_str("its server describes it otherwise by now"),
            Self::Unapproved => f.write_str("it needs approval, which children cannot get"),
        }
    }
}

/// A tool of the parent that the child does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedTool {
    /// The tool.
    pub tool: ToolName,
    /// Its set.
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
    pub dropped: Vec<DroppedTool>,
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
        dropped: Vec::new(),
        role: if leaf.is_some() { Role::Leaf } else { Role::Orchestrator },
        demoted: leaf.clone().filter(|_| role == Role::Orchestrator),
    };
    let mut toolsets = BTreeSet::new();
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
            Err(reason) => out.dropped.push(DroppedTool {
                tool: entry.name().clone(),
                toolset: entry.toolset.clone(),
                reason,
            }),
        }
    }
    out.toolsets = toolsets.into_iter().collect();
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
    let is_text = matches!(spec.subject.main(), Some((_, ArgumentRole::Text)));
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
    match never_reason(entry.name()) {
        Some(why) => ToolClass::Never(why),
        None if entry.tool.spec().kind == ToolKind::Delegate => ToolClass::Delegating,
        None => ToolClass::Common,
    }
}

fn never_reason(tool: &ToolName) -> Option<&'static str> {
    NEVER.iter().find(|(never, _)| *never == tool.as_str()).map(|(_, why)| *why)
}

/// Whether no child ever has a tool of that name.
pub(crate) fn is_never(tool: &ToolName) -> bool {
    never_reason(tool).is_some()
}

/// The order in which tools are sent: by name, but those that children lose come last, so that
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
mod tests {
    use std::fmt::Write as _;

    use deputize_core::authority::Grant;

    use super::*;
    use crate::config::{
        ChildApprovals, ChildToolsets, DelegationHost, DelegationLimits, DelegationOptions,
    };
    use crate::fixture::{ParentFixture, toolsets};

    const PARENT: &str = "file/read_file file/write_file terminal/terminal web/web_fetch \
        mcp-git/git_log core/todo core/clarify mixed/memory mixed/note \
        delegation/delegate_task delegation/workflow - chat/send_message";

    struct ToolsetCase<'a> {
        parent: &'a str,
        request: Option<&'a str>,
        role: Role,
        config: DelegationConfig,
    }

    impl Default for ToolsetCase<'_> {
        fn default() -> Self {
            let config = DelegationConfig {
                limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
                ..DelegationConfig::default()
            };
            Self { parent: PARENT, request: None, role: Role::Leaf, config }
        }
    }

    fn asked(toolsets: Option<&BTreeSet<ToolsetName>>, role: Role) -> ToolRequest<'_> {
        ToolRequest { toolsets, role, profile: None }
    }

    /// The only function here that knows the signature under test.
    fn child(case: &ToolsetCase<'_>) -> String {
        let family = ParentFixture::new(case.parent);
        let request = case.request.map(toolsets);
        let child = child_tools(family.parent(), asked(request.as_ref(), case.role), &case.config);
        let names: Vec<&str> = child.tools.iter().map(ToolName::as_str).collect();
        let mut out = format!("{}: {}\n", child.role.as_str(), names.join(" "));
        for dropped in &child.dropped {
            writeln!(out, "- {}/{}: {}", dropped.toolset, dropped.tool, dropped.reason).unwrap();
        }
        if let Some(why) = child.demoted {
            writeln!(out, "not an orchestrator: {why}").unwrap();
        }
        out
    }

    #[test]
    fn a_leaf_that_names_nothing_gets_what_children_may_have() {
        insta::assert_snapshot!(child(&ToolsetCase::default()), @"
        leaf: git_log note read_file terminal web_fetch write_file
        - delegation/delegate_task: a leaf cannot delegate
        - delegation/workflow: a leaf cannot delegate
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
    }

    #[test]
    fn a_leaf_has_nothing_to_hand_work_on_with_and_an_orchestrator_all_of_it() {
        let parent = "delegation/delegate_task delegation/delegate_control delegation/workflow";
        let tools = |role| {
            let case = ToolsetCase { parent, role, ..ToolsetCase::default() };
            child(&case).lines().next().unwrap().to_owned()
        };
        assert_eq!(tools(Role::Leaf), "leaf: ");
        let all = "orchestrator: delegate_control delegate_task workflow";
        assert_eq!(tools(Role::Orchestrator), all);
    }

    #[test]
    fn an_orchestrator_keeps_the_tools_to_hand_work_on() {
        let role = Role::Orchestrator;
        insta::assert_snapshot!(child(&ToolsetCase { role, request: Some("file"), ..ToolsetCase::default() }), @"
        orchestrator: git_log read_file write_file delegate_task workflow
        - mixed/note: not asked for
        - terminal/terminal: not asked for
        - web/web_fetch: not asked for
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
    }

    #[test]
    fn an_mcp_tool_stays_although_nobody_asked_unless_the_operator_says_otherwise() {
        let request = Some("web");
        insta::assert_snapshot!(child(&ToolsetCase { request, ..ToolsetCase::default() }), @"
        leaf: git_log web_fetch
        - mixed/note: not asked for
        - file/read_file: not asked for
        - terminal/terminal: not asked for
        - file/write_file: not asked for
        - delegation/delegate_task: a leaf cannot delegate
        - delegation/workflow: a leaf cannot delegate
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
        let config = DelegationConfig {
            options: DelegationOptions {
                inherit_mcp_toolsets: false,
                ..DelegationOptions::default()
            },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!(child(&ToolsetCase { request, config, ..ToolsetCase::default() }), @"
        leaf: web_fetch
        - mcp-git/git_log: not asked for
        - mixed/note: not asked for
        - file/read_file: not asked for
        - terminal/terminal: not asked for
        - file/write_file: not asked for
        - delegation/delegate_task: a leaf cannot delegate
        - delegation/workflow: a leaf cannot delegate
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
    }

    #[test]
    fn a_name_that_only_looks_like_mcp_is_not_retained() {
        let family = ParentFixture::new("file/read_file file/mcp__git__log");
        let request = toolsets("web");
        let child = child_tools(
            family.parent(),
            asked(Some(&request), Role::Leaf),
            &DelegationConfig::default(),
        );
        assert_eq!(child.tools, []);
    }

    #[test]
    fn the_ceiling_cuts_everything_the_way_to_hand_on_too() {
        let config = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
            toolsets: ChildToolsets {
                ceiling: Some(toolsets("file web")),
                ..ChildToolsets::default()
            },
            ..DelegationConfig::default()
        };
        let role = Role::Orchestrator;
        insta::assert_snapshot!(child(&ToolsetCase { role, config, ..ToolsetCase::default() }), @"
        leaf: read_file web_fetch write_file
        - mcp-git/git_log: not in the ceiling for children
        - mixed/note: not in the ceiling for children
        - terminal/terminal: not in the ceiling for children
        - delegation/delegate_task: the ceiling for children does not have the toolset `delegation`
        - delegation/workflow: the ceiling for children does not have the toolset `delegation`
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        not an orchestrator: the ceiling for children does not have the toolset `delegation`
        ");
    }

    #[test]
    fn the_default_is_for_calls_that_name_none() {
        let config = || DelegationConfig {
            toolsets: ChildToolsets { default: toolsets("file ghost"), ..ChildToolsets::default() },
            ..DelegationConfig::default()
        };
        insta::assert_snapshot!(child(&ToolsetCase { config: config(), ..ToolsetCase::default() }), @"
        leaf: git_log read_file write_file
        - mixed/note: not in children's default toolsets
        - terminal/terminal: not in children's default toolsets
        - web/web_fetch: not in children's default toolsets
        - delegation/delegate_task: a leaf cannot delegate
        - delegation/workflow: a leaf cannot delegate
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
        let named =
            ToolsetCase { request: Some("web"), config: config(), ..ToolsetCase::default() };
        insta::assert_snapshot!(child(&named), @"
        leaf: git_log web_fetch
        - mixed/note: not asked for
        - file/read_file: not asked for
        - terminal/terminal: not asked for
        - file/write_file: not asked for
        - delegation/delegate_task: a leaf cannot delegate
        - delegation/workflow: a leaf cannot delegate
        - core/clarify: no child has it: a child has nobody to ask
        - mixed/memory: no child has it: what is remembered is the top agent's
        - core/todo: no child has it: the plan is the parent's
        ");
    }

    #[test]
    fn why_an_orchestrator_becomes_a_leaf() {
        let why = |parent: &str, depth: u32, config: DelegationConfig| {
            let mut family = ParentFixture::new(parent);
            family.spec.depth = depth;
            child_tools(family.parent(), asked(None, Role::Orchestrator), &config).demoted
        };
        let deep = || DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        assert_eq!(why(PARENT, 1, deep()), None);
        let depth = |depth, limit| LeafReason::Depth { depth, limit, key: String::new() };
        assert_eq!(why(PARENT, 2, deep()), Some(depth(3, 3)));
        assert_eq!(why(PARENT, 0, DelegationConfig::default()), Some(depth(1, 1)));
        let disabled = DelegationConfig {
            options: DelegationOptions { orchestrator_enabled: false, ..deep().options },
            ..deep()
        };
        let reason = LeafReason::Disabled { key: String::new() };
        assert_eq!(why(PARENT, 0, disabled), Some(reason));
        assert_eq!(why("file/read_file", 0, deep()), Some(LeafReason::Parent));
    }

    #[test]
    fn a_demotion_names_depth_limit_and_key_and_a_program_without_keys_none() {
        let why = |depth: u32, config: &DelegationConfig| {
            let mut family = ParentFixture::new(PARENT);
            family.spec.depth = depth;
            let child = child_tools(family.parent(), asked(None, Role::Orchestrator), config);
            child.demoted.map(|why| why.to_string()).unwrap_or_default()
        };
        let plain = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 2, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        assert_eq!(why(1, &plain), "a child at depth 2 is a leaf: the depth limit is 2");
        let off = DelegationConfig {
            options: DelegationOptions { orchestrator_enabled: false, ..plain.options },
            ..plain.clone()
        };
        assert_eq!(why(0, &off), "no child may delegate");
        let named = DelegationConfig {
            host: DelegationHost {
                setting_names: [("max_spawn_depth", "levels"), ("orchestrator_enabled", "nesting")]
                    .into_iter()
                    .collect(),
                ..plain.host
            },
            ..plain
        };
        assert_eq!(why(1, &named), "a child at depth 2 is a leaf: levels is 2");
        assert_eq!(
            why(
                0,
                &DelegationConfig {
                    options: DelegationOptions { orchestrator_enabled: false, ..named.options },
                    ..named
                }
            ),
            "nesting is false"
        );
        let mut family = ParentFixture::new(PARENT);
        family.authority =
            family.authority.intersect(&Grant { spawn_depth: Some(1), ..Grant::default() });
        let deep = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            ..DelegationConfig::default()
        };
        let child = child_tools(family.parent(), asked(None, Role::Orchestrator), &deep);
        assert_eq!(child.demoted, Some(LeafReason::OneLevel), "no limit is at fault");
    }

    /// Settings under which commands are asked about, and by whom.
    fn asking(approvals: ApproverMode, person_available: bool) -> DelegationConfig {
        let approval_effects = vec![deputize_core::Effects::Unknown];
        let config = DelegationConfig {
            approvals: ChildApprovals {
                mode: approvals,
                effects: approval_effects,
                person_available,
            },
            ..DelegationConfig::default()
        };
        DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 2, ..config.limits },
            ..config
        }
    }

    #[test]
    fn a_childs_list_begins_like_its_parents() {
        use ApproverMode::{Auto, Deny};
        for config in [asking(Auto, true), asking(Deny, false), DelegationConfig::default()] {
            let config = DelegationConfig {
                limits: DelegationLimits { max_spawn_depth: 2, ..config.limits },
                ..config
            };
            let family = ParentFixture::under(PARENT, &config);
            for role in [Role::Leaf, Role::Orchestrator] {
                let child = child_tools(family.parent(), asked(None, role), &config);
                assert!(family.spec.tools.starts_with(&child.tools), "{:?}", child.tools);
            }
        }
    }

    #[test]
    fn without_anybody_who_approves_it_a_child_has_no_tool_that_needs_approval() {
        use ApproverMode::{Ask, Auto, Deny};
        for (config, has) in [
            (asking(Deny, true), false),
            (asking(Ask, false), false),
            (asking(Ask, true), true),
            (asking(Auto, false), true),
            // Whatever its parent may be approved.
            (
                DelegationConfig {
                    approvals: ChildApprovals {
                        effects: Vec::new(),
                        ..asking(Deny, true).approvals
                    },
                    ..asking(Deny, true)
                },
                true,
            ),
        ] {
            let mut family = ParentFixture::under(PARENT, &config);
            let open = Grant { approver: Some(Auto), ..family.spec.grant.clone() };
            family.authority = deputize_core::Authority::root(&family.catalog, &open);
            let child = child_tools(family.parent(), asked(None, Role::Orchestrator), &config);
            let dropped = child.dropped.iter().find(|it| it.tool.as_str() == "terminal");
            assert_eq!(child.tools.iter().any(|tool| tool.as_str() == "terminal"), has);
            assert_eq!(dropped.map(|it| &it.reason), (!has).then_some(&DropReason::Unapproved));
            assert_eq!(offered(family.parent(), &config).contains_key("terminal"), has);
        }
        // Nobody approves for a child what nobody may approve for its parent.
        let config = asking(Auto, true);
        let mut family = ParentFixture::under(PARENT, &config);
        let shut = Grant { approver: Some(Deny), ..Grant::default() };
        family.authority = family.authority.intersect(&shut);
        let child = child_tools(family.parent(), asked(None, Role::Leaf), &config);
        assert!(child.dropped.iter().any(|it| it.reason == DropReason::Unapproved));
    }

    #[test]
    fn what_else_is_in_the_way_is_reported_before_the_approval() {
        let config = asking(ApproverMode::Deny, false);
        let reason = |request: Option<&str>, config: &DelegationConfig| {
            let family = ParentFixture::under(PARENT, config);
            let request = request.map(toolsets);
            let child = child_tools(family.parent(), asked(request.as_ref(), Role::Leaf), config);
            child.dropped.into_iter().find(|it| it.tool.as_str() == "terminal").unwrap().reason
        };
        assert_eq!(reason(None, &config), DropReason::Unapproved);
        assert_eq!(reason(Some("file"), &config), DropReason::NotRequested);
        let ceiling = DelegationConfig {
            toolsets: ChildToolsets { ceiling: Some(toolsets("file")), ..config.toolsets },
            ..config
        };
        assert_eq!(reason(None, &ceiling), DropReason::Ceiling { key: String::new() });
    }
}
