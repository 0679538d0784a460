//! What the supervisor and the running commands both know: who owns what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mark::{Mark, Seal};

/// Shared between the supervisor, its owners and its thread.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) seal: Seal,
    registry: Mutex<Registry>,
}

/// The owners and the direct children.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Owners whose processes are ours to end.
    pub(crate) owners: BTreeSet<u32>,
    /// Owners that may start commands.
    pub(crate) open: BTreeSet<u32>,
    /// The first process of each command, which leads its session, by number. Kept until the
    /// session is empty.
    pub(crate) roots: BTreeMap<i32, Root>,
}

/// The first process of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) mark: Mark,
    /// Its exit status is waited for by a running command; nobody else may collect it.
    pub(crate) watched: bool,
}

/// Which processes a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One command's.
    Command(Mark),
    /// One owner's.
    Owner(u32),
    /// Every owner's of the supervisor.
    All,
}

impl Scope {
    pub(crate) fn holds(self, mark: Mark) -> bool {
        match self {
            Self::Command(command) => command == mark,
            Self::Owner(owner) => owner == mark.owner,
            Self::All => true,
        }
    }
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self { seal: Seal::of_this_process(), registry: Mutex::default() }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        // Every change is one insertion or removal, so a panic leaves nothing half done.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
