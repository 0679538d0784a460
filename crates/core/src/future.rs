//! Boxed futures, for traits that are used as objects.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Polls a future once, now, and returns it with whether it is ready.
///
/// Anything that serves in the order of first polls, such as a semaphore, then serves it in this
/// order, whenever it is awaited.
pub fn poll_once<T: Send + 'static>(
    mut future: BoxFuture<'static, T>,
) -> (BoxFuture<'static, T>, bool) {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => (Box::pin(ready(value)), true),
        Poll::Pending => (future, false),
    }
}
