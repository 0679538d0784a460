//! How many children run: of one agent over all its calls, and of a session in all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deputize_core::{AgentId, BoxFuture, Resource};
use tokio::sync::{MutexGuard as TurnGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

/// One agent's slots for running children, kept in its store.
#[derive(Debug)]
pub(crate) struct Slots {
    running: Arc<Semaphore>,
    calls: Mutex<u32>,
    /// Held by the call that plans its tasks and queues them.
    planning: tokio::sync::Mutex<()>,
}

impl Resource for Slots {}

impl Slots {
    pub(crate) fn new(children: u32) -> Self {
        let children = usize::try_from(children).unwrap_or(usize::MAX);
        let running = Arc::new(Semaphore::new(children.min(Semaphore::MAX_PERMITS)));
        Self { running, calls: Mutex::new(0), planning: tokio::sync::Mutex::new(()) }
    }

    /// Lets a call in, if fewer than `most` are. It is in until the value is dropped.
    pub(crate) fn enter(self: &Arc<Self>, most: u32) -> Option<CallGuard> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        (*calls < most).then(|| {
            *calls += 1;
            CallGuard(Arc::clone(self))
        })
    }

    /// Waits until every call that came before has queued its tasks.
    pub(crate) async fn plan_turn(&self) -> TurnGuard<'_, ()> {
        self.planning.lock().await
    }

    /// Waits for a slot. Slots are granted in the order in which these futures are first polled;
    /// dropping one leaves the queue.
    pub(crate) fn acquire(&self) -> BoxFuture<'static, Slot> {
        let permit = unconstrained(Arc::clone(&self.running).acquire_owned());
        // The semaphore is never closed, so there is always a permit in the end.
        Box::pin(async move { Slot { _permit: permit.await.ok() } })
    }
}

/// A call that is running.
#[derive(Debug)]
pub(crate) struct CallGuard(Arc<Slots>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut calls = self.0.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls = calls.saturating_sub(1);
    }
}

/// A slot that a child holds while it runs.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// The children that were started in a session, kept in the session's store.
#[derive(Debug)]
pub(crate) struct SpawnRegistry {
    all: Mutex<BTreeSet<AgentId>>,
    earlier: BTreeSet<AgentId>,
}

/// A limit that more children would pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    /// How many there are.
    pub(crate) so_far: usize,
    /// How many would come.
    pub(crate) more: usize,
    /// How many there may be.
    pub(crate) most: u32,
    pub(crate) whose: LimitScope,
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitScope {
    Session,
    /// The agent's, for all below it.
    Agent,
}

impl Resource for SpawnRegistry {}

impl SpawnRegistry {
    /// With those that an earlier process of the session started.
    pub(crate) fn new(earlier: impl IntoIterator<Item = AgentId>) -> Self {
        let earlier: BTreeSet<AgentId> = earlier.into_iter().collect();
        Self { all: Mutex::new(earlier.clone()), earlier }
    }

    /// Whether no earlier process of the session started this one.
    pub(crate) fn is_new(&self, child: &AgentId) -> bool {
        !self.earlier.contains(child)
    }

    /// Whether there is room for these children, all of them: some that are counted already cost
    /// nothing.
    ///
    /// # Errors
    /// When more than `most` would be counted in the session or more than `most_below` under the
    /// parent.
    pub(crate) fn room_for(
        &self,
        parent: &AgentId,
        ids: &BTreeSet<AgentId>,
        limits: (Option<u32>, u32),
    ) -> Result<(), LimitExceeded> {
        fits(&self.lock(), parent, ids, limits)
    }

    /// The same, and counts them in.
    ///
    /// # Errors
    /// As [`SpawnRegistry::room_for`]: then none is counted.
    pub(crate) fn count_in(
        &self,
        parent: &AgentId,
        ids: &BTreeSet<AgentId>,
        limits: (Option<u32>, u32),
    ) -> Result<(), LimitExceeded> {
        let mut started = self.lock();
        fits(&started, parent, ids, limits)?;
        started.extend(ids.iter().cloned());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<AgentId>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fits(
    started: &BTreeSet<AgentId>,
    parent: &AgentId,
    ids: &BTreeSet<AgentId>,
    (most, most_below): (Option<u32>, u32),
) -> Result<(), LimitExceeded> {
    let more = ids.difference(started).count();
    if more == 0 {
        // A limit may be lower than it was when they were counted.
        return Ok(());
    }
    let is_below = |id: &&AgentId| id.ancestors().any(|above| above == *parent);
    let below = started.iter().filter(is_below).count();
    let within = |so_far: usize, most: u32, whose| {
        let over = so_far + more > most as usize;
        if over { Err(LimitExceeded { so_far, more, most, whose }) } else { Ok(()) }
    };
    most.map_or(Ok(()), |most| within(started.len(), most, LimitScope::Session))?;
    within(below, most_below, LimitScope::Agent)
}
