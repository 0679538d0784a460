//! The waits between the attempts of an agent's requests.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::ModelError;
use deputize_core::rate_limit::NextAttempt;
use deputize_core::retry::retry_wait;

use crate::agent_context::AgentContext;

/// Waits of one agent in one turn.
pub(crate) struct RetryWaits {
    cx: Arc<AgentContext>,
    total: Duration,
}

impl RetryWaits {
    pub(crate) fn new(cx: &Arc<AgentContext>) -> Self {
        Self { cx: Arc::clone(cx), total: Duration::ZERO }
    }

    /// Returns the wait before the next attempt; `None` for no further attempt.
    pub(crate) fn wait_for(
        &self,
        attempt: u32,
        error: &ModelError,
        next: NextAttempt,
    ) -> Option<Duration> {
        let config = &self.cx.shared.config;
        let (NextAttempt::Wait(opens) | NextAttempt::Queue(opens)) = next else { return None };
        let jitter = config.requests.random.lock().u32(..=1000);
        let wait = retry_wait(&config.requests.retry, attempt, error, jitter)?.max(opens);
        (self.total + wait <= config.requests.retry.total_wait).then_some(wait)
    }

    /// Waits, and returns whether the agent was cancelled meanwhile.
    pub(crate) async fn rest(&mut self, wait: Duration) -> bool {
        self.total += wait;
        let work = self.cx.cancel.child();
        let rested = async {
            tokio::select! {
                biased;
                () = work.cancelled() => true,
                () = tokio::time::sleep(wait) => false,
            }
        };
        self.cx.time.bound(&work, rested).await
    }
}
