//! When children give signs of life.

use std::time::Duration;

use crate::agent_handle::AgentHandle;

/// When children give signs of life, and when they are stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Between two signs of life of a child.
    pub every: Duration,
    /// Without progress for so long, an idle child is stalled; zero: never.
    pub stale_idle: Duration,
    /// The same for a child inside a tool.
    pub stale_in_tool: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            stale_idle: Duration::from_secs(450),
            stale_in_tool: Duration::from_secs(1200),
        }
    }
}

impl Heartbeat {
    pub(crate) fn is_stale(self, handle: &AgentHandle, in_tool: bool) -> bool {
        let limit = if in_tool { self.stale_in_tool } else { self.stale_idle };
        !limit.is_zero() && handle.progress.idle() >= limit
    }
}
