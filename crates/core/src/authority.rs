//! The rights of an agent, as a value that can only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::ToolName;
use crate::origin::{Origin, ToolIdentity};
use crate::protected_path::ProtectedPath;

/// How a request for permission is answered, in order of trust.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ApproverMode {
    /// Deny every question.
    Deny,
    /// Ask the person; deny if there is none.
    #[default]
    Ask,
    /// Approve every question, and log it.
    Auto,
}

/// A request for rights, as plain data that grants nothing by itself. A field that is `None`
/// requests everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grant {
    /// Names of the permitted tools; `None` permits all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<ToolName>>,
    /// The directories under which it may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<BTreeSet<PathBuf>>,
    /// The directories under which it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<BTreeSet<PathBuf>>,
    /// Whether it may use the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    /// Most permissive approval mode for its questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<ApproverMode>,
    /// Levels of descendants that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_depth: Option<u32>,
    /// Total number of descendants that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_number: Option<u32>,
    /// The models that it and its descendants may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<BTreeSet<String>>,
}

/// The tool that a right applies to, beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Binding {
    origin: Origin,
    schema: Arc<str>,
}

impl Binding {
    fn of(tool: ToolIdentity<'_>) -> Self {
        Self { origin: tool.origin.clone(), schema: tool.schema }
    }

    fn is_of(&self, tool: &ToolIdentity<'_>) -> bool {
        self.origin == *tool.origin && self.schema == tool.schema
    }
}

/// Why a tool call is not permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ToolDenial {
    /// The agent does not have the tool.
    #[error("this agent does not have that tool")]
    NoTool,
    /// The tool with this name is not the one that was granted.
    #[error(
        "that tool is no longer the one this agent was given: its source or its arguments changed"
    )]
    Changed,
}

/// The rights of an agent. [`Authority::intersect`] and [`Authority::with_protected_paths`] only
/// reduce them, and they cannot be deserialized: a stored right is a [`Grant`] that is intersected
/// with the parent's present authority, so no resume and no remote side can forge one.
///
/// ```
/// use deputize_core::{Authority, Catalog};
/// use deputize_core::authority::{ApproverMode, Grant};
/// let root = Authority::root(&Catalog::default(), &Grant::default());
/// let child = root.intersect(&Grant { spawn_depth: Some(0), ..Grant::default() });
/// assert!(child.is_within(&root));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Authority {
    /// Shared with the parent where both have the same.
    tools: Arc<BTreeMap<ToolName, Arc<Binding>>>,
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    #[serde(skip_serializing_if = "has_no_paths")]
    kept: Arc<BTreeSet<PathBuf>>,
    network: bool,
    approver: ApproverMode,
    spawn_depth: u32,
    spawn_number: u32,
    models: Option<BTreeSet<String>>,
}

impl Authority {
    /// Returns the authority of a top agent: the part of these tools that the person grants, such
    /// as a whole [`Catalog`](crate::Catalog). Defaults for what the grant leaves out: all tools,
    /// no paths, no network, no approver, no children, any model.
    #[must_use]
    pub fn root<'t, T: Into<ToolIdentity<'t>>>(
        tools: impl IntoIterator<Item = T>,
        grant: &Grant,
    ) -> Self {
        let wanted = |name: &ToolName| grant.tools.as_ref().is_none_or(|some| some.contains(name));
        let tools = tools.into_iter().map(Into::into).filter(|tool| wanted(tool.name));
        let bound = |tool: ToolIdentity<'_>| (tool.name.clone(), Arc::new(Binding::of(tool)));
        Self {
            tools: Arc::new(tools.map(bound).collect()),
            read: grant.read.clone().unwrap_or_default(),
            write: grant.write.clone().unwrap_or_default(),
            kept: Arc::default(),
            network: grant.network.unwrap_or(false),
            approver: grant.approver.unwrap_or(ApproverMode::Deny),
            spawn_depth: grant.spawn_depth.unwrap_or(0),
            spawn_number: grant.spawn_number.unwrap_or(0),
            models: grant.models.clone(),
        }
    }

    /// Removes the right to write these paths and everything below them, whatever the write roots
    /// are, for this agent and its descendants. A relative path applies in every directory.
    #[must_use]
    pub fn with_protected_paths(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Arc::make_mut(&mut self.kept).extend(paths);
        self
    }

    /// Returns the rights that are both held here and requested; never more than either.
    #[must_use]
    pub fn intersect(&self, grant: &Grant) -> Self {
        let mut tools = Arc::clone(&self.tools);
        if let Some(wanted) = &grant.tools
            && !tools.keys().all(|name| wanted.contains(name))
        {
            Arc::make_mut(&mut tools).retain(|name, _| wanted.contains(name));
        }
        Self {
            tools,
            read: intersect_roots(&self.read, grant.read.as_ref()),
            write: intersect_roots(&self.write, grant.write.as_ref()),
            kept: Arc::clone(&self.kept),
            network: self.network && grant.network.unwrap_or(true),
            approver: grant.approver.map_or(self.approver, |asked| asked.min(self.approver)),
            spawn_depth: grant.spawn_depth.map_or(self.spawn_depth, |n| n.min(self.spawn_depth)),
            spawn_number: grant
                .spawn_number
                .map_or(self.spawn_number, |n| n.min(self.spawn_number)),
            models: match (&self.models, &grant.models) {
                (Some(mine), Some(asked)) => Some(mine & asked),
                (mine, asked) => mine.clone().or_else(|| asked.clone()),
            },
        }
    }

    /// Returns whether `other` allows everything that this allows.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.tools.iter().all(|(name, binding)| other.tools.get(name) == Some(binding))
            && self.read.iter().all(|root| other.may_read(root))
            && self.write.iter().all(|root| other.has_write_root(root))
            && other.kept.is_subset(&self.kept)
            && self.network <= other.network
            && self.approver <= other.approver
            && self.spawn_depth <= other.spawn_depth
            && self.spawn_number <= other.spawn_number
            && match (&self.models, &other.models) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(mine), Some(theirs)) => mine.is_subset(theirs),
            }
    }

    /// Checks whether this exact tool may be called.
    ///
    /// # Errors
    /// If the agent does not have it, or has a different one of that name.
    pub fn permits<'t>(&self, tool: impl Into<ToolIdentity<'t>>) -> Result<(), ToolDenial> {
        let tool = tool.into();
        match self.tools.get(tool.name) {
            None => Err(ToolDenial::NoTool),
            Some(binding) if !binding.is_of(&tool) => Err(ToolDenial::Changed),
            Some(_) => Ok(()),
        }
    }

    /// Returns the names of its tools.
    pub fn tools(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }

    /// Returns whether it has a tool of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Returns the directories under which it may read, as absolute paths.
    #[must_use]
    pub fn read_roots(&self) -> &BTreeSet<PathBuf> {
        &self.read
    }

    /// Returns the directories under which it may write, as absolute paths.
    #[must_use]
    pub fn write_roots(&self) -> &BTreeSet<PathBuf> {
        &self.write
    }

    /// Returns whether a path (absolute, without `..`) is under a directory it may read.
    #[must_use]
    pub fn may_read(&self, path: &Path) -> bool {
        self.read.iter().any(|root| path.starts_with(root))
    }

    /// Returns the paths at and below which it may not write, in any directory if relative.
    #[must_use]
    pub fn protected_paths(&self) -> &BTreeSet<PathBuf> {
        &self.kept
    }

    /// Returns whether a path (absolute, without `..`) is under a directory it may write, and not
    /// [protected](Authority::protects).
    #[must_use]
    pub fn may_write(&self, path: &Path) -> bool {
        self.has_write_root(path) && self.protects(path).is_none()
    }

    /// Returns why a path (absolute, without `..`) is protected, even under a directory it may
    /// write. A tool that follows links also checks the target.
    #[must_use]
    pub fn protects(&self, path: &Path) -> Option<ProtectedPath> {
        ProtectedPath::by_name(path).or_else(|| ProtectedPath::by_place(path, &*self.kept))
    }

    fn has_write_root(&self, path: &Path) -> bool {
        self.write.iter().any(|root| path.starts_with(root))
    }

    /// Returns whether it may use the network.
    #[must_use]
    pub const fn network(&self) -> bool {
        self.network
    }

    /// Returns the most permissive mode in which its questions may be answered.
    #[must_use]
    pub const fn approver(&self) -> ApproverMode {
        self.approver
    }

    /// Returns the levels of descendants that it may have; 0 means no children.
    #[must_use]
    pub const fn spawn_depth(&self) -> u32 {
        self.spawn_depth
    }

    /// Returns the total number of descendants that it may have.
    #[must_use]
    pub const fn spawn_number(&self) -> u32 {
        self.spawn_number
    }

    /// Returns whether it may use a model.
    #[must_use]
    pub fn may_use_model(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|some| some.contains(model))
    }
}

fn has_no_paths(paths: &Arc<BTreeSet<PathBuf>>) -> bool {
    paths.is_empty()
}

/// Returns the trees that lie in both sets of trees.
fn intersect_roots(
    mine: &BTreeSet<PathBuf>,
    asked: Option<&BTreeSet<PathBuf>>,
) -> BTreeSet<PathBuf> {
    let Some(asked) = asked else { return mine.clone() };
    let deeper = |a: &PathBuf, b: &PathBuf| {
        if a.starts_with(b) { Some(a.clone()) } else { b.starts_with(a).then(|| b.clone()) }
    };
    mine.iter().flat_map(|a| asked.iter().filter_map(move |b| deeper(a, b))).collect()
}
