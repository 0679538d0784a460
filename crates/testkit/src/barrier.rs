//! Holds requests back until a test lets them through.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::counter::Counter;

/// Holds requests until the test lets them through, so that a test can show without sleeping that
/// operations do or do not wait for each other. Clones share the same barrier.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use deputize_testkit::Barrier;
/// let barrier = Barrier::closed();
/// let held = async {
///     barrier.pass().await;
///     "through"
/// };
/// let test = async {
///     barrier.until_waiting(1).await;
///     barrier.let_through(1);
/// };
/// assert_eq!(tokio::join!(held, test).0, "through");
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Barrier {
    permits: Arc<Semaphore>,
    waiting: Counter,
}

impl Barrier {
    /// Creates a barrier that lets nothing through.
    #[must_use]
    pub fn closed() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), waiting: Counter::default() }
    }

    /// Lets `n` more through, the longest waiting first.
    pub fn let_through(&self, n: usize) {
        self.permits.add_permits(n);
    }

    /// Lets everything through from now on.
    pub fn open(&self) {
        self.permits.close();
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.count().now
    }

    /// Waits until at least `n` wait at the same time.
    pub async fn until_waiting(&self, n: usize) {
        self.waiting.until(|count| count.now >= n).await;
    }

    /// Waits to be let through.
    pub async fn pass(&self) {
        let _waiting = self.waiting.enter();
        // An error means that the barrier is open for good.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }
}
