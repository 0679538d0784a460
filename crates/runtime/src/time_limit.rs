//! The time that children may take together.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::setting_names::SettingNames;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How the children's time limit affected a child.
pub(crate) enum TimeShortage {
    /// The time was over before the child began.
    BeforeItBegan,
    /// Nothing is left for a closing answer.
    NoneLeft,
    /// It did not close within so many milliseconds.
    NoClosingAnswer(u64),
}

impl TimeShortage {
    /// Returns the shortage in words, with the host's names of the settings.
    pub(crate) fn describe(&self, names: &SettingNames) -> String {
        let note = names.note("children_time");
        let time = format!("the time that all children have together{note}");
        match self {
            Self::BeforeItBegan => format!("{time} was over before it began"),
            Self::NoneLeft => {
                let note = names.note("wrap_up_seconds");
                format!("{time} was up; none is left for a closing answer{note}")
            }
            Self::NoClosingAnswer(ms) => {
                let seconds = ms.div_ceil(1000);
                format!("{time} was up, and there was no closing answer within {seconds} s")
            }
        }
    }
}

/// Time in which at least one child ran, of a limit.
#[derive(Debug)]
pub(crate) struct TimeLimit {
    limit: Duration,
    state: Mutex<TimeLimitState>,
}

#[derive(Debug)]
struct TimeLimitState {
    running: usize,
    /// Since when some run.
    since: Instant,
    /// Time that was spent before.
    spent: Duration,
}

impl TimeLimit {
    pub(crate) fn new(limit: Duration, spent: Duration) -> Self {
        Self {
            limit,
            state: Mutex::new(TimeLimitState { running: 0, since: Instant::now(), spent }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TimeLimitState> {
        self.state.lock()
    }

    /// A child runs until the guard is dropped. As long as one does the time goes on, so that
    /// the moment at which all of it is spent is the same for all of them.
    pub(crate) fn enter(self: &Arc<Self>) -> RunningCount {
        let mut state = self.lock();
        let now = Instant::now();
        if state.running == 0 {
            state.since = now;
        }
        state.running += 1;
        let left = self.limit.saturating_sub(state.spent);
        RunningCount { until: state.since + left, limit: Arc::clone(self) }
    }
}

/// See [`TimeLimit::enter`].
#[derive(Debug)]
pub(crate) struct RunningCount {
    /// When the time is spent.
    pub(crate) until: Instant,
    limit: Arc<TimeLimit>,
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        let mut state = self.limit.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            let ran = state.since.elapsed();
            state.spent += ran;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_time_in_which_a_child_runs_counts_and_once() {
        let limit = Arc::new(TimeLimit::new(Duration::from_secs(100), Duration::from_secs(10)));
        let begun = Instant::now();
        let first = limit.enter();
        assert_eq!(first.until - begun, Duration::from_secs(90));
        tokio::time::advance(Duration::from_secs(30)).await;
        let second = limit.enter();
        assert_eq!(second.until, first.until);
        drop(first);
        tokio::time::advance(Duration::from_secs(30)).await;
        drop(second);
        tokio::time::advance(Duration::from_secs(1000)).await;
        let third = limit.enter();
        assert_eq!(third.until - Instant::now(), Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(50)).await;
        drop(third);
        let late = limit.enter();
        assert!(late.until <= Instant::now());
    }
}
