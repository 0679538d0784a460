//! Signs of life of children: one timer for the whole tree.

use std::sync::Arc;

use deputize_core::Event;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::heartbeat_config::Heartbeat;
use crate::session_inner::SessionInner;

/// Starts the heartbeats of children, if they are configured and not running yet.
pub(crate) fn start_heartbeat(shared: &Arc<SessionInner>) {
    let Some(heartbeat) = shared.config.children.heartbeat else { return };
    if std::mem::replace(&mut shared.tree().has_heartbeat, true) {
        return;
    }
    let session = Arc::clone(shared);
    shared.tasks.spawn(async move {
        let shared = session;
        let mut timer = interval_at(Instant::now() + heartbeat.every, heartbeat.every);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shared.cancel.cancelled() => return,
                _ = timer.tick() => {}
            }
            if !beat(&shared, heartbeat) {
                return;
            }
        }
    });
}

/// One beat of all children; false: there are none any more.
fn beat(shared: &SessionInner, heartbeat: Heartbeat) -> bool {
    // The lock keeps a child from ending meanwhile: nothing of it follows its end.
    let mut tree = shared.tree();
    // The deepest first: what a child does counts for its parent.
    let children = tree.live.values().rev().filter(|child| child.spec.depth > 0);
    let mut alive = false;
    for child in children {
        alive = true;
        let current_tool = child.progress.current_tool();
        let stalled = heartbeat.is_stale(child, current_tool.is_some());
        if child.progress.set_stalled(stalled) && stalled {
            continue;
        }
        let beat = Event::AgentHeartbeat {
            iteration: child.progress.iteration(),
            current_tool,
            idle_ms: u64::try_from(child.progress.idle().as_millis()).unwrap_or(u64::MAX),
            stalled,
        };
        // Whoever works for the journal learns that it takes nothing.
        let _kept = shared.bus.record(&child.spec, beat);
        let parent = child.spec.parent.as_ref().and_then(|parent| tree.live.get(parent));
        if let Some(parent) = parent.filter(|_| !stalled) {
            parent.progress.mark();
        }
    }
    tree.has_heartbeat = alive;
    alive
}
