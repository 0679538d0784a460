//! Keeping the output of a command: both ends in memory, all of it on disk.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use crate::command::{OutputLimits, SpillFile};
use crate::outcome::{Output, Spill, SpillProblem};

/// The first and the last bytes of a stream.
#[derive(Debug)]
struct Window {
    limits: OutputLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Window {
    fn new(limits: OutputLimits) -> Self {
        Self { limits, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// True if nothing would be lost by adding that many bytes.
    fn holds(&self, more: usize) -> bool {
        let room = (self.limits.head as u64).saturating_add(self.limits.tail as u64);
        self.total.saturating_add(more as u64) <= room
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.limits.head.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // Only the last bytes of a chunk that is longer than the tail can stay in it.
        let rest = rest.get(rest.len().saturating_sub(self.limits.tail)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.limits.tail);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend(rest);
    }

    fn into_output(self) -> Output {
        Output { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

/// Keeps the output of one command while it is written: both ends in memory, and all of it in a spill
/// file if it exceeds the limits.
#[derive(Debug)]
pub struct OutputCapture {
    window: Window,
    spill: Option<SpillFile>,
    disk: Option<SpillWriter>,
}

impl OutputCapture {
    /// Creates a capture within these limits; without a spill file, what exceeds them is counted only.
    #[must_use]
    pub fn new(limits: OutputLimits, spill: Option<SpillFile>) -> Self {
        Self { window: Window::new(limits), spill, disk: None }
    }

    /// Adds bytes to the output. Must be called inside a tokio runtime.
    pub async fn push(&mut self, bytes: &[u8]) {
        if self.disk.is_none()
            && !self.window.holds(bytes.len())
            && let Some(spill) = &self.spill
        {
            // Up to here the window holds everything.
            let mut disk = SpillWriter::create(&spill.path, spill.limit).await;
            disk.write(&self.window.head).await;
            disk.write(self.window.tail.make_contiguous()).await;
            self.disk = Some(disk);
        }
        self.window.push(bytes);
        if let Some(disk) = &mut self.disk {
            disk.write(bytes).await;
        }
    }

    /// Returns the output and its spill file. Waits at most `max_wait` for the disk.
    pub async fn finish(self, max_wait: Duration) -> (Output, Option<Spill>) {
        let spill = match (self.disk, self.spill) {
            (Some(disk), Some(spill)) => Some(disk.finish(&spill.path, max_wait).await),
            _ => None,
        };
        (self.window.into_output(), spill)
    }
}

/// A spill file being written.
#[derive(Debug)]
struct SpillWriter {
    file: Option<File>,
    limit: u64,
    written: u64,
    problem: Option<SpillProblem>,
}

impl SpillWriter {
    async fn create(path: &Path, limit: u64) -> Self {
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await;
        Self::new(opened, limit)
    }

    fn new(opened: io::Result<File>, limit: u64) -> Self {
        let (file, problem) = match opened {
            Ok(file) => (Some(file), None),
            Err(source) => (None, Some(SpillProblem::Write { source })),
        };
        Self { file, limit, written: 0, problem }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = usize::try_from(self.limit - self.written).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        if let Err(source) = file.write_all(taken).await {
            self.fail(source).await;
            return;
        }
        self.written += taken.len() as u64;
        if taken.len() < bytes.len() {
            self.flush().await;
            self.problem.get_or_insert(SpillProblem::Full { limit: self.limit });
            self.file = None;
        }
    }

    async fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        if let Err(source) = file.flush().await {
            self.fail(source).await;
        }
    }

    /// Stops writing. Writes are reported late, so the count is taken from the file.
    async fn fail(&mut self, source: io::Error) {
        if let Some(file) = self.file.take()
            && let Ok(metadata) = file.metadata().await
        {
            self.written = metadata.len().min(self.written);
        }
        self.problem = Some(SpillProblem::Write { source });
    }

    async fn finish(mut self, path: &Path, max_wait: Duration) -> Spill {
        if tokio::time::timeout(max_wait, self.flush()).await.is_err() {
            self.problem = Some(SpillProblem::Stalled { waited: max_wait });
        }
        Spill { path: path.to_owned(), written: self.written, problem: self.problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    async fn capture(
        limits: OutputLimits,
        spill: Option<SpillFile>,
        chunks: &[&[u8]],
    ) -> (Output, Option<Spill>) {
        let mut capture = OutputCapture::new(limits, spill);
        for chunk in chunks {
            capture.push(chunk).await;
        }
        capture.finish(TIMEOUT).await
    }

    proptest! {
        #[test]
        fn both_ends_are_kept_however_the_bytes_arrive(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            head in 0..50_usize,
            tail in 0..50_usize,
        ) {
            let mut window = Window::new(OutputLimits { head, tail });
            for chunk in &chunks {
                window.push(chunk);
            }
            let all = chunks.concat();
            let output = window.into_output();
            let at = head.min(all.len());
            prop_assert_eq!(&output.head, &all[..at]);
            prop_assert_eq!(&output.tail, &all[all.len().saturating_sub(tail).max(at)..]);
            prop_assert_eq!(output.total, all.len() as u64);
            prop_assert_eq!(
                output.omitted() as usize, all.len() - output.head.len() - output.tail.len());
        }
    }

    #[tokio::test]
    async fn output_that_fits_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::new(dir.path().join("out"));
        let limits = OutputLimits { head: 3, tail: 3 };
        let (output, report) = capture(limits, Some(spill.clone()), &[b"abc", b"def"]).await;
        assert_eq!((output.head.as_slice(), output.tail.as_slice()), (&b"abc"[..], &b"def"[..]));
        assert!(report.is_none() && !spill.path.exists());
    }

    #[tokio::test]
    async fn longer_output_is_in_the_file_from_its_first_byte() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::new(dir.path().join("out"));
        let limits = OutputLimits { head: 3, tail: 3 };
        let (output, report) =
            capture(limits, Some(spill.clone()), &[b"ab", b"\0def", b"\xffg"]).await;
        let report = report.unwrap();
        assert_eq!(std::fs::read(&spill.path).unwrap(), b"ab\0def\xffg");
        assert_eq!(report.written, 8);
        assert!(report.problem.is_none());
        assert_eq!(output.omitted(), 2);
    }

    #[tokio::test]
    async fn the_file_stops_at_its_limit_and_the_count_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile { path: dir.path().join("out"), limit: 7 };
        let limits = OutputLimits { head: 1, tail: 1 };
        let (output, report) =
            capture(limits, Some(spill.clone()), &[b"abcd", b"efgh", b"ijkl"]).await;
        let report = report.unwrap();
        assert_eq!(std::fs::read(&spill.path).unwrap(), b"abcdefg");
        assert_eq!((report.written, output.total), (7, 12));
        assert!(matches!(report.problem, Some(SpillProblem::Full { limit: 7 })));
    }

    #[tokio::test]
    async fn a_file_that_exists_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let spill = SpillFile::new(dir.path().join("out"));
        std::fs::write(&spill.path, "old").unwrap();
        let limits = OutputLimits { head: 1, tail: 1 };
        let (output, report) = capture(limits, Some(spill.clone()), &[b"abcd", b"ef"]).await;
        assert_eq!(std::fs::read(&spill.path).unwrap(), b"old");
        assert_eq!(output.total, 6);
        let report = report.unwrap();
        assert!(matches!(report.problem, Some(SpillProblem::Write { .. })));
        assert_eq!(report.written, 0);
    }

    #[tokio::test]
    async fn a_full_disk_is_reported() {
        if cfg!(target_os = "linux") {
            let full = OpenOptions::new().write(true).open("/dev/full").await;
            let mut disk = SpillWriter::new(full, 1 << 20);
            for _ in 0..4 {
                disk.write(&[7; 4096]).await;
            }
            let spill = disk.finish(Path::new("/dev/full"), TIMEOUT).await;
            let Some(SpillProblem::Write { source }) = spill.problem else { panic!("{spill:?}") };
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            assert_eq!(spill.written, 0);
        }
    }
}
