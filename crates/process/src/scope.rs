//! The processes that a request is about: those of a command, or of an owner.

use crate::process_tag::ProcessTag;

/// Which processes a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Command(ProcessTag),
    Owner(u32),
}

impl Scope {
    pub(crate) fn holds(self, tag: ProcessTag) -> bool {
        match self {
            Self::Command(command) => command == tag,
            Self::Owner(owner) => owner == tag.owner,
        }
    }

    pub(crate) fn owner(self) -> u32 {
        match self {
            Self::Command(tag) => tag.owner,
            Self::Owner(owner) => owner,
        }
    }
}
