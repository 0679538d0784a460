//! How many children of one agent run, over all its calls.

use std::sync::Arc;

use deputize_core::{AgentView, BoxFuture, Resource};
use parking_lot::Mutex;
use tokio::sync::{MutexGuard as TurnGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

use crate::config::DelegationConfig;

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
    /// Returns the slots of an agent.
    pub(crate) fn of(agent: &AgentView, config: &DelegationConfig) -> Arc<Self> {
        agent.store.get_or_insert_with(|| Self::new(config.concurrency()))
    }

    fn new(children: u32) -> Self {
        let children = usize::try_from(children).unwrap_or(usize::MAX);
        let running = Arc::new(Semaphore::new(children.min(Semaphore::MAX_PERMITS)));
        Self { running, calls: Mutex::new(0), planning: tokio::sync::Mutex::new(()) }
    }

    /// Acquires a place among the calls that run, released on drop; `None` if `most` run already.
    pub(crate) fn enter(self: &Arc<Self>, most: u32) -> Option<CallGuard> {
        let mut calls = self.calls.lock();
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
        let mut calls = self.0.calls.lock();
        *calls = calls.saturating_sub(1);
    }
}

/// A slot that a child holds while it runs.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}
