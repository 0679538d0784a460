//! Work on files runs off the asynchronous threads.

use std::future::pending;
use std::panic::resume_unwind;

/// Runs work on a thread that may block, and returns its result. A panic of the work goes on here.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(lost) => match lost.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime shuts down, and nobody waits for this any more.
            Err(_cancelled) => pending().await,
        },
    }
}
