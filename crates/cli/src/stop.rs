//! Signals: the first tells everything to end, the second leaves at once.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use deputize_core::{Cancel, CancelReason};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// After a signal, whatever has not ended by then is left behind.
const PATIENCE: Duration = Duration::from_millis(1700);

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
        told: impl FnOnce(),
    ) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.next() => {}
        }
        told();
        cancel.cancel(CancelReason::Interrupted);
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = self.next() => None,
            () = tokio::time::sleep(PATIENCE) => None,
        }
    }
}
