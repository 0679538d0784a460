//! Waits for work that was cancelled.

use std::pin::Pin;
use std::time::Duration;

use deputize_core::{CallId, Cancel, CancelReason};

/// Time that work has to settle after it was cancelled.
pub(crate) const GRACE: Duration = Duration::from_millis(1200);
/// The same for a nested call: less than that of the call that made it, which has to put an end on
/// record after it.
const NESTED_GRACE: Duration = Duration::from_millis(800);
const _: () = assert!(NESTED_GRACE.as_millis() < GRACE.as_millis());
/// Additional grace for each level of agents below.
const GRACE_PER_LEVEL: Duration = Duration::from_millis(150);
/// Limit on the levels that count, so that an interrupt ends within two seconds.
pub(crate) const MAX_GRACE_LEVELS: u32 = 3;

/// Returns the time that a call has to end after it was cancelled, with so many levels of agents below.
pub(crate) fn call_grace(call: CallId, levels: u32) -> Duration {
    match call.nested {
        Some(_) => NESTED_GRACE,
        None => GRACE + GRACE_PER_LEVEL * levels.min(MAX_GRACE_LEVELS),
    }
}

/// Waits for work. At the time limit or a cancel from above, cancels the work and waits for the
/// grace period. Returns `None` if it did not end.
pub(crate) async fn settle<F: Future>(
    mut future: Pin<&mut F>,
    cancel: &Cancel,
    limit: Option<Duration>,
    grace: Duration,
) -> Option<F::Output> {
    let timer = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = &mut future => return Some(done),
        () = cancel.cancelled() => {}
        () = timer => cancel.cancel(CancelReason::TimeLimit),
    }
    tokio::time::timeout(grace, future).await.ok()
}
