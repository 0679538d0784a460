//! Why a child lacks a tool of its parent.

use std::fmt;

use crate::names::{DELEGATION_TOOLSET, TASK_TOOL};

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
                return write!(f, "{name} does not have the toolset `{DELEGATION_TOOLSET}`");
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
            Self::NotBasic => write!(f, "`{TASK_TOOL}` gives basic tools only"),
            Self::ToldOtherwise => f.write_str("its server describes it otherwise by now"),
            Self::Unapproved => f.write_str("it needs approval, which children cannot get"),
        }
    }
}
