//! Requests whose replies begin late or stall. A quiet run shows them, because it shows little else.
//!
//! This is a timer, not a fold of the session: a snapshot has no clock, and the parts of a reply that
//! restart the timer are on no record.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use deputize_core::model::Delta;
use deputize_core::{AgentId, Event, Observer, Record};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// For how long a reply may be waited for before that is shown.
pub(crate) const SHOWN_AFTER: Duration = Duration::from_secs(5);

/// The requests whose replies have not ended.
#[derive(Debug, Default)]
pub(crate) struct ReplyWaits {
    /// When the wait of each is to be shown.
    due: Mutex<BTreeMap<AgentId, Instant>>,
    added: Notify,
}

impl ReplyWaits {
    /// Calls `show` with the agent of each request of whose reply nothing came for [`SHOWN_AFTER`],
    /// once for each request. Never ends.
    pub(crate) async fn watch(&self, show: impl Fn(&AgentId)) -> Infallible {
        loop {
            self.take_overdue().iter().for_each(&show);
            let next = self.lock().values().min().copied();
            let wait = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => {}
                () = self.added.notified() => {}
            }
        }
    }

    /// Returns the agents whose waits are to be shown now, and forgets those waits.
    fn take_overdue(&self) -> Vec<AgentId> {
        let now = Instant::now();
        self.lock().extract_if(.., |_, due| *due <= now).map(|(agent, _)| agent).collect()
    }

    fn begin(&self, agent: &AgentId) {
        self.lock().insert(agent.clone(), Instant::now() + SHOWN_AFTER);
        self.added.notify_one();
    }

    fn end(&self, agent: &AgentId) {
        self.lock().remove(agent);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Instant>> {
        self.due.lock()
    }
}

impl Observer for ReplyWaits {
    fn on_record(&self, record: &Record) {
        match &record.event {
            Event::ModelRequest { .. } => self.begin(&record.agent),
            // Another attempt begins with a request of its own.
            Event::ModelResponse { .. }
            | Event::ModelError { .. }
            | Event::ModelRetry { .. }
            | Event::Compaction(_)
            | Event::AgentEnd(_) => self.end(&record.agent),
            _ => {}
        }
    }

    fn on_delta(&self, agent: &AgentId, _: Delta<'_>) {
        if let Some(due) = self.lock().get_mut(agent) {
            *due = Instant::now() + SHOWN_AFTER;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestWriter, asked, child, replied, root};

    const SECOND: Duration = Duration::from_secs(1);

    /// Shows an event to the waits.
    fn see(waits: &ReplyWaits, agent: &AgentId, event: Event) {
        let mut writer = TestWriter::default();
        writer.add(agent, event);
        writer.records.iter().for_each(|record| waits.on_record(record));
    }

    /// Returns the waits that are shown while `run` goes on, with the seconds since its beginning.
    async fn shown(run: impl AsyncFnOnce(&ReplyWaits)) -> Vec<(u64, AgentId)> {
        let waits = ReplyWaits::default();
        let begin = Instant::now();
        let shown = Mutex::new(Vec::new());
        let show = |agent: &AgentId| {
            shown.lock().push((begin.elapsed().as_secs(), agent.clone()));
        };
        tokio::select! {
            never = waits.watch(show) => match never {},
            () = run(&waits) => {}
        }
        shown.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_without_a_byte_for_five_seconds_is_shown_once() {
        let shown = shown(async |waits: &ReplyWaits| {
            see(waits, &root(), asked(1));
            tokio::time::sleep(3 * SECOND).await;
            see(waits, &child(1), asked(1));
            tokio::time::sleep(60 * SECOND).await;
            see(waits, &root(), replied(1, "Fine.", &[]));
            see(waits, &root(), asked(2));
            tokio::time::sleep(60 * SECOND).await;
        });
        assert_eq!(shown.await, [(5, root()), (8, child(1)), (68, root())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_ended_is_not_waited_for_and_one_that_stalls_is() {
        let shown = shown(async |waits: &ReplyWaits| {
            for agent in [root(), child(1), child(2)] {
                see(waits, &agent, asked(1));
            }
            tokio::time::sleep(4 * SECOND).await;
            waits.on_delta(&root(), Delta::Reasoning("Hm"));
            see(waits, &child(1), replied(1, "Fine.", &[]));
            let reason = "busy".to_owned();
            see(waits, &child(2), Event::ModelRetry { attempt: 2, of: 5, reason, wait_ms: 9000 });
            tokio::time::sleep(9 * SECOND).await;
            see(waits, &child(2), asked(1));
            tokio::time::sleep(60 * SECOND).await;
        });
        assert_eq!(shown.await, [(9, root()), (18, child(2))]);
    }
}
