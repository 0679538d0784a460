//! How often children report that they are alive, and when they are stalled.

use std::time::Duration;

use crate::agent_handle::AgentHandle;

/// How often children report that they are alive, and when they are stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two heartbeats of a child.
    pub every: Duration,
    /// Time without progress after which an idle child is stalled. Never if 0.
    pub stale_idle: Duration,
    /// Time without progress after which a child with a running tool is stalled. Never if 0.
    pub stale_in_tool: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(Self::EVERY_SECONDS.into()),
            stale_idle: Duration::from_secs(Self::STALE_IDLE_SECONDS.into()),
            stale_in_tool: Duration::from_secs(Self::STALE_IN_TOOL_SECONDS.into()),
        }
    }
}

impl Heartbeat {
    /// Seconds between two heartbeats, unless set otherwise.
    pub const EVERY_SECONDS: u32 = 30;
    /// Seconds without progress after which an idle child is stalled, unless set otherwise.
    pub const STALE_IDLE_SECONDS: u32 = 450;
    /// Seconds without progress after which a child with a running tool is stalled, unless set
    /// otherwise.
    pub const STALE_IN_TOOL_SECONDS: u32 = 1200;

    pub(crate) fn is_stale(self, handle: &AgentHandle, in_tool: bool) -> bool {
        let limit = if in_tool { self.stale_in_tool } else { self.stale_idle };
        !limit.is_zero() && handle.progress.idle() >= limit
    }
}
