//! A number that tests can wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// How many there are now, and how many there were at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) now: usize,
    pub(crate) most: usize,
    pub(crate) ever: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Tally(Arc<watch::Sender<Count>>);

impl Default for Tally {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Count::default())))
    }
}

impl Tally {
    /// One more, until what this gives is dropped.
    pub(crate) fn enter(&self) -> Present {
        self.0.send_modify(|count| {
            count.now += 1;
            count.ever += 1;
            count.most = count.most.max(count.now);
        });
        Present(self.clone())
    }

    pub(crate) fn count(&self) -> Count {
        *self.0.borrow()
    }

    pub(crate) async fn until(&self, test: impl FnMut(&Count) -> bool) {
        // The sender is ours, so the channel cannot be closed.
        let mut counts = self.0.subscribe();
        let _never_closed = counts.wait_for(test).await;
    }
}

#[derive(Debug)]
pub(crate) struct Present(Tally);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.now -= 1);
    }
}
