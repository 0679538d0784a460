//! Signals: the first cancels the work, a later one exits at once.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use deputize_core::{Cancel, CancelReason};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Time limit after a signal; work that has not ended by then is abandoned.
const STOP_TIMEOUT: Duration = Duration::from_millis(1700);

/// Signals within this time of the first count as one: `timeout` signals the program and then its
/// whole group.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A notice about a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalNotice {
    /// The first signal: the work is ending.
    First,
    /// The work has not ended yet, and another signal exits at once.
    Waiting,
}

/// The signals that ask a program to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Handled so that writing beyond the system's file size limit is an error, not the end of the
    /// program.
    _file_size: Signal,
}

impl Signals {
    /// Installs the handlers.
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

    /// Runs the work. A signal is reported and cancels it. Returns `None` if the work was
    /// abandoned.
    pub(crate) async fn guard<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &Cancel,
        report: impl Fn(SignalNotice),
    ) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.next() => {}
        }
        let first = Instant::now();
        report(SignalNotice::First);
        cancel.cancel(CancelReason::Interrupted);
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = self.another(first + AT_ONCE, &report) => None,
            () = sleep_until(first + STOP_TIMEOUT) => None,
        }
    }

    /// Waits for a signal after `from`.
    async fn another(&mut self, from: Instant, report: &impl Fn(SignalNotice)) {
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
        report(SignalNotice::Waiting);
        self.next().await;
    }
}
