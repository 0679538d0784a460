//! Signals: the first tells everything to end, a later one leaves at once.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use deputize_core::{Cancel, CancelReason};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// After a signal, whatever has not ended by then is left behind.
const PATIENCE: Duration = Duration::from_millis(1700);

/// Signals that come within this time of the first are one: `timeout` sends its own to the program
/// and then to its group, in which the program is.
const AT_ONCE: Duration = Duration::from_millis(500);

/// What is to be told of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalNotice {
    /// The first one: it ends.
    First,
    /// It has not ended yet, and from now on another one leaves at once.
    Waiting,
}

/// The signals that ask a program to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Taken over so that a file beyond the system's limit is an error of its write, not the end.
    _file_size: Signal,
}

impl Signals {
    /// Takes them over from the system's defaults.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }

    /// Does the work. A signal cancels it, after `told`; `None`: it was left before it ended.
    pub(crate) async fn guard<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &Cancel,
        told: impl Fn(SignalNotice),
    ) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.next() => {}
        }
        let first = Instant::now();
        told(SignalNotice::First);
        cancel.cancel(CancelReason::Interrupted);
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = self.another(first + AT_ONCE, &told) => None,
            () = sleep_until(first + PATIENCE) => None,
        }
    }

    /// Waits for a signal that comes later than that.
    async fn another(&mut self, from: Instant, told: &impl Fn(SignalNotice)) {
        let ignored = async {
            loop {
                self.next().await;
            }
        };
        tokio::select! {
            biased;
            never = ignored => never,
            () = sleep_until(from) => {}
        }
        told(SignalNotice::Waiting);
        self.next().await;
    }
}
