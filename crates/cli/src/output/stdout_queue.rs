//! Standard output behind a queue, so that writers never wait for the reader.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use deputize_core::{Cancel, CancelReason};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Limit on queued bytes.
pub(crate) const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// The reader is too slow.
#[derive(Debug, thiserror::Error)]
#[error(
    "its reader has fallen behind: {waiting} bytes wait and {more} more came, the limit is {most}"
)]
struct QueueFull {
    waiting: usize,
    more: usize,
    most: usize,
}

/// A stream with its own writer thread, which begins with the first bytes. A failed write or a full
/// queue cancels the run.
pub(crate) struct StdoutQueue {
    shared: Arc<QueueInner>,
}

struct QueueInner {
    state: Mutex<QueueState>,
    /// What the thread will write to, until it begins.
    out: Mutex<Option<Box<dyn Write + Send>>>,
    /// Signals new bytes, or that the owner is gone.
    more: Condvar,
    /// Signals that everything is written, or that writing failed.
    written: Notify,
    most: usize,
    cancel: Cancel,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes queued or being written.
    bytes: usize,
    /// Whether the queue accepts no more.
    closed: bool,
    /// Whether the reader is gone.
    gone: bool,
    /// Why the queue closed; `None` if it did not, or the reader is gone.
    failure: Option<io::Error>,
    /// Whether the owner is gone, so that nothing more comes.
    over: bool,
}

impl StdoutQueue {
    /// Returns an empty queue to `out`, for a run that `cancel` ends. It holds up to `most` bytes.
    pub(crate) fn new(out: Box<dyn Write + Send>, most: usize, cancel: Cancel) -> Self {
        let state = Mutex::default();
        let out = Mutex::new(Some(out));
        let more = Condvar::new();
        let written = Notify::new();
        Self { shared: Arc::new(QueueInner { state, out, more, written, most, cancel }) }
    }

    /// Appends bytes to the queue. Bytes after the end are dropped.
    pub(crate) fn push(&self, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        let most = self.shared.most;
        if state.closed {
            return;
        }
        let waiting = state.bytes;
        let more = bytes.len();
        if waiting > 0 && waiting.saturating_add(more) > most {
            state.closed = true;
            state.failure = Some(io::Error::other(QueueFull { waiting, more, most }));
            drop(state);
            self.shared.cancel.cancel(CancelReason::Interrupted);
            return;
        }
        state.bytes += more;
        state.waiting.push_back(bytes);
        drop(state);
        self.shared.more.notify_all();
        self.shared.begin();
    }

    /// Waits until everything is written, or writing failed. It waits without limit for a reader
    /// that stalls.
    pub(crate) async fn written(&self) {
        loop {
            let written = self.shared.written.notified();
            if self.left() == 0 {
                return;
            }
            written.await;
        }
    }

    /// Returns the bytes not written yet.
    pub(crate) fn left(&self) -> usize {
        self.shared.lock().bytes
    }

    /// Takes the failure that closed the queue. A reader that is gone is no failure.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.shared.lock().failure.take()
    }

    /// Returns whether the reader is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.shared.lock().gone
    }
}

impl Drop for StdoutQueue {
    /// Lets the thread end once it has written the queue; nothing waits for it.
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.more.notify_all();
    }
}

impl QueueInner {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Makes the thread that writes, unless there is one.
    fn begin(self: &Arc<Self>) {
        let Some(out) = self.out.lock().take() else { return };
        let mine = Arc::clone(self);
        let thread = thread::Builder::new().name("output".to_owned());
        if let Err(error) = thread.spawn(move || mine.write(out)) {
            self.close(error);
        }
    }

    /// Writes the queue, one piece at a time and without the lock.
    fn write(&self, mut out: Box<dyn Write + Send>) {
        while let Some(bytes) = self.next() {
            let done = out.write_all(&bytes).and_then(|()| out.flush());
            if let Err(error) = done {
                self.close(error);
                return;
            }
            self.lock().bytes -= bytes.len();
        }
        self.written.notify_waiters();
    }

    /// Drops what waits: it cannot be written.
    fn close(&self, error: io::Error) {
        let mut state = self.lock();
        state.waiting.clear();
        state.bytes = 0;
        state.closed = true;
        state.gone = error.kind() == io::ErrorKind::BrokenPipe;
        if !state.gone {
            state.failure.get_or_insert(error);
        }
        drop(state);
        self.cancel.cancel(CancelReason::Interrupted);
        self.written.notify_waiters();
    }

    /// Waits for the next bytes; `None` if the owner is gone.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.waiting.pop_front() {
                return Some(bytes);
            }
            self.written.notify_waiters();
            if state.over {
                return None;
            }
            self.more.wait(&mut state);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{PipeReader, Read as _};

    use super::*;

    /// A pipe that nobody reads and that is full already: a write into it waits.
    pub(crate) fn stalled() -> (PipeReader, Box<dyn Write + Send>) {
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut filler = &writer;
        while filler.write(&[b'.'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        (reader, Box::new(writer))
    }

    pub(crate) fn wait(future: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
    }

    #[test]
    fn a_reader_that_stalls_holds_nobody_up_until_too_much_waits() {
        let (mut reader, writer) = stalled();
        let cancel = Cancel::new();
        let outlet = StdoutQueue::new(writer, 10, cancel.clone());
        outlet.push(b"123456".to_vec());
        outlet.push(b"7890".to_vec());
        assert_eq!((outlet.left(), cancel.is_cancelled()), (10, false));
        outlet.push(b"A".to_vec());
        assert_eq!(cancel.reason(), Some(CancelReason::Interrupted));
        outlet.push(Vec::new());
        let failure = outlet.failure().unwrap().to_string();
        let expected =
            "its reader has fallen behind: 10 bytes wait and 1 more came, the limit is 10";
        assert_eq!(failure, expected);
        // What was taken before is written as soon as somebody reads.
        let reads = thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all.trim_start_matches('.').to_owned()
        });
        wait(outlet.written());
        drop(outlet);
        assert_eq!(reads.join().unwrap(), "1234567890");
    }

    #[test]
    fn one_piece_may_be_longer_than_what_may_wait() {
        let (mut reader, writer) = io::pipe().unwrap();
        let outlet = StdoutQueue::new(Box::new(writer), 3, Cancel::new());
        outlet.push(b"longer".to_vec());
        wait(outlet.written());
        drop(outlet);
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all, "longer");
    }

    #[test]
    fn what_cannot_be_written_ends_the_run_and_is_reported_once() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let cancel = Cancel::new();
        let outlet = StdoutQueue::new(Box::new(full), 100, cancel.clone());
        outlet.push(b"one".to_vec());
        outlet.push(b"two".to_vec());
        wait(cancel.cancelled());
        wait(outlet.written());
        assert_eq!(outlet.failure().unwrap().kind(), io::ErrorKind::StorageFull);
        assert!(outlet.failure().is_none() && !outlet.is_gone());
    }
}
