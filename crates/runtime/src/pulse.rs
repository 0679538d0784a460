//! Signs of life of children: one timer for the whole tree.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::Event;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::presence::Presence;
use crate::shared::Shared;

/// When children give signs of life, and when they are stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// Between two signs of life of a child.
    pub every: Duration,
    /// Without progress for so long, an idle child is stalled; zero: never.
    pub stale_idle: Duration,
    /// The same for a child inside a tool.
    pub stale_in_tool: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            stale_idle: Duration::from_secs(450),
            stale_in_tool: Duration::from_secs(1200),
        }
    }
}

impl Pulse {
    fn is_stale(self, presence: &Presence, in_tool: bool) -> bool {
        let limit = if in_tool { self.stale_in_tool } else { self.stale_idle };
        !limit.is_zero() && presence.idle() >= limit
    }
}

impl Shared {
    /// Lets the children give signs of life, if they are to and nothing does so yet.
    pub(crate) fn feel_pulse(self: &Arc<Self>) {
        let Some(pulse) = self.parts.pulse else { return };
        if std::mem::replace(&mut self.tree().felt, true) {
            return;
        }
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut timer = interval_at(Instant::now() + pulse.every, pulse.every);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    biased;
                    () = shared.cancel.cancelled() => return,
                    _ = timer.tick() => {}
                }
                if !shared.beat(pulse) {
                    return;
                }
            }
        });
    }

    /// One beat of all children; false: there are none any more.
    fn beat(&self, pulse: Pulse) -> bool {
        // The lock keeps a child from ending meanwhile: nothing of it follows its end.
        let mut tree = self.tree();
        // The deepest first: what a child does counts for its parent.
        let children = tree.live.values().rev().filter(|child| child.spec.depth > 0);
        let mut alive = false;
        for child in children {
            alive = true;
            let current_tool = child.current_tool();
            let stalled = pulse.is_stale(child, current_tool.is_some());
            if child.set_stalled(stalled) && stalled {
                continue;
            }
            let beat = Event::AgentHeartbeat {
                iteration: child.iteration(),
                current_tool,
                idle_ms: u64::try_from(child.idle().as_millis()).unwrap_or(u64::MAX),
                stalled,
            };
            // Whoever works for the journal learns that it takes nothing.
            let _kept = self.bus.record(&child.spec, beat);
            let parent = child.spec.parent.as_ref().and_then(|parent| tree.live.get(parent));
            if let Some(parent) = parent.filter(|_| !stalled) {
                parent.moved();
            }
        }
        tree.felt = alive;
        alive
    }
}
