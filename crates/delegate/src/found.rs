//! What is found out of a child when it ends. It is kept with the child's outcome, so that
//! everybody who is told of that gets the same: hooks, `--output json`, and the parent, also after
//! a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::{AgentId, AgentSpec, AgentView, ChildFound, Outcome, Resource};

use crate::files::Before;
use crate::keep::keep_one;
use crate::policy::Policy;
use crate::report::Caps;
use crate::tool::unseen_writes;

/// The files that an agent had read as they were when its calls began, by the children of these
/// calls. Kept in the agent's store until it is told of the child's end.
#[derive(Default)]
pub(crate) struct Begun(Mutex<BTreeMap<AgentId, Arc<Before>>>);

impl Resource for Begun {}

impl Begun {
    pub(crate) fn of(agent: &AgentView) -> Arc<Self> {
        agent.store.get_or_insert_with(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Arc<Before>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, child: &AgentId, before: &Arc<Before>) {
        self.lock().insert(child.clone(), Arc::clone(before));
    }

    pub(crate) fn forget(&self, child: &AgentId) {
        self.lock().remove(child);
    }

    /// The files when a child began. Of one that began in an earlier process only its receipts
    /// tell.
    pub(crate) fn before(&self, parent: &AgentView, child: &AgentId) -> Arc<Before> {
        let known = self.lock().get(child).cloned();
        known.unwrap_or_else(|| Arc::new(Before::look(&parent.session.files, parent.id())))
    }
}

/// What there is to find out of a child at its end, if anything.
pub(crate) fn found(
    parent: &AgentView,
    policy: &Policy,
    (child, end): (&AgentSpec, &Outcome),
    now_ms: u64,
) -> Option<ChildFound> {
    let files = &parent.session.files;
    let before = Begun::of(parent).before(parent, &child.id);
    let stale = before.stale_by(files, parent.id(), end);
    // Each background child is told of by itself.
    let by = child.spawned_by.as_ref().filter(|_| !child.background);
    let siblings = by.map_or(1, |by| by.task_count as usize);
    let caps = Caps::of(parent, policy);
    let kept = keep_one(parent, policy, (child, end), (siblings, caps), now_ms);
    let found = ChildFound {
        stale_paths: stale.into_iter().map(|file| file.path).collect(),
        unseen_writes: unseen_writes(end, files, &child.cwd),
        summary_path: kept.summary,
        diagnostic_path: kept.diagnostic,
    };
    (found != ChildFound::default()).then_some(found)
}
