//! A turn of which nothing comes any more: `inactivity_timeout_seconds`.

use std::time::Duration;

use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Event, Observer, Record};
use parking_lot::Mutex;
use tokio::time::Instant;

/// When something last came of a turn. A record marks it active, and so does a piece of a reply;
/// that a child still runs does not.
#[derive(Debug)]
pub(crate) struct Inactivity {
    last: Mutex<Instant>,
}

impl Inactivity {
    /// A turn that begins now.
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(Instant::now()) }
    }

    /// Waits until nothing has come of it for so long. No limit is never.
    pub(crate) async fn over(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            let last = *self.last.lock();
            if last.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(last + limit).await;
        }
    }

    fn mark(&self) {
        *self.last.lock() = Instant::now();
    }
}

impl Observer for Inactivity {
    fn on_record(&self, record: &Record) {
        if !matches!(record.event, Event::AgentHeartbeat { .. }) {
            self.mark();
        }
    }

    fn on_delta(&self, _: &AgentId, _: Delta<'_>) {
        self.mark();
    }

    fn on_progress(&self, _: &AgentId, _: CallId, _: &str) {
        self.mark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestWriter, root};

    #[tokio::test(start_paused = true)]
    async fn what_comes_of_a_turn_puts_its_end_off_and_signs_of_life_do_not() {
        let idle = Inactivity::new();
        let began = Instant::now();
        let seconds = Duration::from_secs;
        let mut writer = TestWriter::default();
        let heartbeat =
            Event::AgentHeartbeat { iteration: 1, current_tool: None, idle_ms: 0, stalled: false };
        writer.add(&root(), heartbeat);
        let over = idle.over(Some(seconds(10)));
        let works = async {
            tokio::time::sleep(seconds(6)).await;
            idle.on_delta(&root(), Delta::Text("still here"));
            tokio::time::sleep(seconds(6)).await;
            writer.records.iter().for_each(|record| idle.on_record(record));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = over => {}
            () = works => {}
        }
        assert_eq!(began.elapsed(), seconds(16));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_it_never_ends() {
        let idle = Inactivity::new();
        let over = tokio::time::timeout(Duration::from_secs(1_000_000), idle.over(None));
        assert!(over.await.is_err());
    }
}
