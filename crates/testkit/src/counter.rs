//! A counter that tests can wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// The present, the maximum and the total count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PeakCount {
    pub(crate) now: usize,
    pub(crate) most: usize,
    pub(crate) ever: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Counter(Arc<watch::Sender<PeakCount>>);

impl Default for Counter {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(PeakCount::default())))
    }
}

impl Counter {
    /// Counts one more until the guard is dropped.
    pub(crate) fn enter(&self) -> CountGuard {
        self.0.send_modify(|count| {
            count.now += 1;
            count.ever += 1;
            count.most = count.most.max(count.now);
        });
        CountGuard(self.clone())
    }

    pub(crate) fn count(&self) -> PeakCount {
        *self.0.borrow()
    }

    pub(crate) async fn until(&self, test: impl FnMut(&PeakCount) -> bool) {
        // This value owns the sender, so the channel cannot be closed.
        let mut counts = self.0.subscribe();
        let _never_closed = counts.wait_for(test).await;
    }
}

#[derive(Debug)]
pub(crate) struct CountGuard(Counter);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.now -= 1);
    }
}
