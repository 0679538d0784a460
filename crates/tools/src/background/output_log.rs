//! The output of a background command: the new part in memory, all of it in a file.

use std::collections::VecDeque;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use deputize_process::{HEAD_LIMIT, Output, SpillFile, TAIL_LIMIT};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

/// Bytes from the end of the output that a message about the end of the command has at most.
const LAST_BYTES: usize = 2048;
/// Lines of it.
const LAST_LINES: usize = 20;

/// The output that was not read yet, and the end of all output.
#[derive(Debug, Default)]
pub(crate) struct UnreadOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes since the last read.
    bytes: u64,
    /// Bytes in all.
    total: u64,
    last: VecDeque<u8>,
    search: Option<TextSearch>,
}

/// A text that is looked for in the output as it comes.
#[derive(Debug)]
struct TextSearch {
    text: Vec<u8>,
    /// The end of what has come, shorter than the text.
    carry: Vec<u8>,
    found: bool,
}

impl TextSearch {
    fn push(&mut self, bytes: &[u8]) {
        if self.found {
            return;
        }
        self.carry.extend_from_slice(bytes);
        self.found = contains(&self.carry, &self.text);
        let excess = self.carry.len().saturating_sub(self.text.len().saturating_sub(1));
        self.carry.drain(..excess);
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && bytes.windows(text.len()).any(|window| window == text)
}

/// Adds bytes to the last ones, of which so many are kept.
fn push_last(last: &mut VecDeque<u8>, bytes: &[u8], kept: usize) {
    let bytes = bytes.get(bytes.len().saturating_sub(kept)..).unwrap_or_default();
    let excess = (last.len() + bytes.len()).saturating_sub(kept).min(last.len());
    last.drain(..excess);
    last.extend(bytes);
}

impl UnreadOutput {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(search) = &mut self.search {
            search.push(bytes);
        }
        push_last(&mut self.last, bytes, LAST_BYTES);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = HEAD_LIMIT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        push_last(&mut self.tail, rest, TAIL_LIMIT);
    }

    /// Returns what was not read yet, which stays so.
    pub(crate) fn peek(&self) -> Output {
        let tail = self.tail.iter().copied().collect();
        Output { head: self.head.clone(), tail, total: self.bytes }
    }

    /// Takes what was not read yet.
    pub(crate) fn take(&mut self) -> Output {
        let head = std::mem::take(&mut self.head);
        let tail = std::mem::take(&mut self.tail);
        Output { head, tail: tail.into(), total: std::mem::take(&mut self.bytes) }
    }

    /// Returns how many bytes were not read yet.
    pub(crate) const fn unread(&self) -> u64 {
        self.bytes
    }

    /// Returns how many bytes there were in all.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Looks for a text from here on. Returns whether the unread output in memory has it after so
    /// many bytes of all output.
    pub(crate) fn begin_search(&mut self, text: &str, from: u64) -> bool {
        let skipped =
            |start: u64| usize::try_from(from.saturating_sub(start)).unwrap_or(usize::MAX);
        let in_head = skipped(self.total - self.bytes);
        let in_tail = skipped(self.total - self.tail.len() as u64);
        let text = text.as_bytes().to_vec();
        let mut search = TextSearch { text, carry: Vec::new(), found: false };
        search.push(self.head.get(in_head..).unwrap_or_default());
        if self.bytes > (self.head.len() + self.tail.len()) as u64 {
            // What is between is not here.
            search.carry.clear();
        }
        search.push(self.tail.make_contiguous().get(in_tail..).unwrap_or_default());
        let found = search.found;
        self.search = Some(search);
        found
    }

    /// Returns whether the text has come.
    pub(crate) fn has_found(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.found)
    }

    /// Looks for nothing any more.
    pub(crate) fn end_search(&mut self) {
        self.search = None;
    }

    /// Returns whether unread output is no longer in memory.
    pub(crate) fn lacks_some(&self) -> bool {
        self.bytes > (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the last lines of all output.
    pub(crate) fn last_lines(&self) -> String {
        let bytes: Vec<u8> = self.last.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        // It may begin inside a character.
        let text = text.trim_start_matches('\u{fffd}');
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
    }
}

/// The file with the whole output, up to its limit.
#[derive(Debug)]
pub(crate) struct OutputFile {
    target: SpillFile,
    /// `None` before the first output, and after a failure.
    file: Option<File>,
    written: u64,
    failed: Option<String>,
}

impl OutputFile {
    pub(crate) const fn new(target: SpillFile) -> Self {
        Self { target, file: None, written: 0, failed: None }
    }

    pub(crate) async fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let room = usize::try_from(self.target.limit - self.written).unwrap_or(usize::MAX);
        let taken = bytes.get(..room).unwrap_or(bytes);
        if let Err(error) = self.write(taken).await {
            self.failed = Some(error.to_string());
        } else if taken.len() < bytes.len() {
            let limit = self.target.limit;
            self.failed = Some(format!("the {limit} bytes that are kept on disk are full"));
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            self.file = Some(options.open(&self.target.path).await?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes).await?;
        // Whoever is told of the bytes may look at once.
        file.flush().await?;
        self.written = self.written.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Returns why it does not hold the whole output, if it does not.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Returns how many bytes it holds.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }
}

/// Returns whether a file has a text after so many bytes.
pub(crate) fn file_contains(path: &Path, from: u64, text: &str) -> io::Result<bool> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let text = text.as_bytes().to_vec();
    let mut search = TextSearch { text, carry: Vec::new(), found: false };
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        search.push(buffer.get(..read).unwrap_or_default());
        if search.found || read == 0 {
            return Ok(search.found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_pieces_and_across_what_was_read() {
        let mut output = UnreadOutput::default();
        output.push(b"is it rea");
        assert!(!output.begin_search("ready", 0));
        output.push(b"d");
        assert!(!output.has_found());
        output.push(b"y or not");
        assert!(output.has_found());
        assert_eq!(output.take().head, b"is it ready or not");
        assert!(!output.begin_search("ready", 0));
    }

    #[test]
    fn what_came_before_a_position_is_no_answer() {
        let mut output = UnreadOutput::default();
        output.push(b"read ");
        output.take();
        output.push(b"ok> ok");
        let from = output.total();
        assert!(output.begin_search("ok", from - 2) && !output.begin_search("ok", from - 1));
        assert!(!output.begin_search("ok", from));
        output.push(b" ok");
        assert!(output.has_found());
        // Also where only the ends are kept.
        output.push(&[b'a'; HEAD_LIMIT + TAIL_LIMIT]);
        output.push(b"ok");
        let from = output.total();
        assert!(output.begin_search("ok", from - 2) && !output.begin_search("ok", from - 1));
    }

    #[test]
    fn the_ends_of_a_long_output_are_kept_and_its_middle_is_not_one_text() {
        let mut output = UnreadOutput::default();
        output.push(&[b'a'; HEAD_LIMIT]);
        output.push(&[b'b'; TAIL_LIMIT + 10]);
        assert!(output.lacks_some());
        assert!(!output.begin_search("ab", 0));
        let taken = output.take();
        assert_eq!((taken.omitted(), taken.total), (10, (HEAD_LIMIT + TAIL_LIMIT + 10) as u64));
        assert_eq!(output.unread(), 0);
        assert_eq!(output.last_lines().len(), LAST_BYTES);
    }
}
