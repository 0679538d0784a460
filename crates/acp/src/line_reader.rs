//! The program's standard streams as lines, within limits.

use std::io;
use std::sync::Arc;

use deputize_core::sanitize::for_terminal_line;
use futures_util::{Sink, Stream, sink, stream};
use parking_lot::Mutex;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};

use crate::error::ProtocolFault;

/// Limit on one message, in bytes.
pub(crate) const LINE_BYTES: usize = 8 * 1024 * 1024;
/// Limit on a program's whole output, in bytes.
pub(crate) const TOTAL_BYTES: u64 = 64 * 1024 * 1024;
/// Number of lines that are not messages and are skipped: some programs print a greeting.
pub(crate) const STRAY_LINES: u32 = 100;
/// Limit on the first such line in an error, in characters.
const STRAY_CHARS: usize = 200;

/// The fault that ended reading; `None` if there was none.
pub(crate) type SharedFault = Arc<Mutex<Option<ProtocolFault>>>;

/// Returns a sink for the lines that go to the program.
pub(crate) fn outgoing(
    stdin: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
) -> impl Sink<String, Error = io::Error> + Send + 'static {
    sink::unfold(stdin, |mut stdin, mut line: String| async move {
        line.push('\n');
        stdin.write_all(line.as_bytes()).await?;
        stdin.flush().await?;
        Ok(stdin)
    })
}

struct LineReader<R> {
    reader: BufReader<R>,
    total: u64,
    stray: u32,
    first_stray: String,
    fault: SharedFault,
}

/// Returns a stream of the lines that the program sends. It ends at the first fault.
pub(crate) fn incoming(
    stdout: impl AsyncRead + Unpin + Send + 'static,
    fault: SharedFault,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    let incoming = LineReader {
        reader: BufReader::new(stdout),
        total: 0,
        stray: 0,
        first_stray: String::new(),
        fault,
    };
    stream::unfold(incoming, |mut incoming| async move {
        let line = incoming.message().await.transpose()?;
        Some((line, incoming))
    })
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads the next message; `None` at the end.
    async fn message(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut line = Vec::new();
            let limit = LINE_BYTES as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut line).await?;
            if read == 0 {
                return Ok(None);
            }
            self.total += read as u64;
            if read > LINE_BYTES {
                return Err(self.fail(ProtocolFault::LongLine { limit: LINE_BYTES }));
            }
            if self.total > TOTAL_BYTES {
                return Err(self.fail(ProtocolFault::Flood { limit: TOTAL_BYTES }));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim();
            // A message is a JSON object; a batch of them is an array.
            if serde_json::from_str::<serde_json::Value>(text)
                .is_ok_and(|value| value.is_object() || value.is_array())
            {
                return Ok(Some(text.to_owned()));
            }
            if !text.is_empty() {
                self.pass_over(text)?;
            }
        }
    }

    fn pass_over(&mut self, text: &str) -> io::Result<()> {
        if self.stray == 0 {
            self.first_stray = for_terminal_line(text, STRAY_CHARS);
        }
        self.stray += 1;
        if self.stray > STRAY_LINES {
            let count = self.stray;
            let first = self.first_stray.clone();
            return Err(self.fail(ProtocolFault::NoMessages { count, first }));
        }
        Ok(())
    }

    fn fail(&self, garbage: ProtocolFault) -> io::Error {
        let error = io::Error::other(garbage.to_string());
        *self.fault.lock() = Some(garbage);
        error
    }
}

/// The last bytes of a stream, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Vec<u8>);

impl StderrTail {
    /// Limit on the bytes kept.
    const KEPT: usize = 4096;

    /// Reads to the end.
    pub(crate) async fn push(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; Self::KEPT];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            self.0.extend(chunk.iter().take(read));
            let surplus = self.0.len().saturating_sub(Self::KEPT);
            self.0.drain(..surplus);
        }
    }

    /// Returns its last lines, joined into one.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default();
        for_terminal_line(&last.join(" | "), 500)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;

    async fn read(bytes: &[u8]) -> (Vec<String>, Option<ProtocolFault>) {
        let fault = SharedFault::default();
        let bytes = io::Cursor::new(bytes.to_vec());
        let lines =
            incoming(bytes, Arc::clone(&fault)).take_while(|line| std::future::ready(line.is_ok()));
        let lines = lines.filter_map(|line| std::future::ready(line.ok())).collect().await;
        let fault = fault.lock().clone();
        (lines, fault)
    }

    #[tokio::test]
    async fn messages_come_through_and_stray_lines_do_not() {
        let (lines, fault) = read(b"hello\n\xff\xfe\n{\"a\":1}\r\n\n17\n[1]\n{\"b\"").await;
        assert_eq!((lines, fault), (vec!["{\"a\":1}".to_owned(), "[1]".to_owned()], None));
    }

    #[tokio::test]
    async fn what_goes_too_far_ends_it() {
        let garbage = "x y\u{1b}[2K\n".repeat(STRAY_LINES as usize + 1);
        let (lines, fault) = read(garbage.as_bytes()).await;
        let first = "x y".to_owned();
        assert_eq!(lines, Vec::<String>::new());
        assert_eq!(fault, Some(ProtocolFault::NoMessages { count: STRAY_LINES + 1, first }));

        let long = format!("{{\"a\":\"{}", "x".repeat(LINE_BYTES));
        assert_eq!(
            read(long.as_bytes()).await.1,
            Some(ProtocolFault::LongLine { limit: LINE_BYTES })
        );
        // One byte less is a message.
        let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(LINE_BYTES - 8));
        assert_eq!(read(fits.as_bytes()).await.0.len(), 1);
    }

    #[tokio::test]
    async fn the_last_words_are_bounded() {
        let mut words = StderrTail::default();
        words.push(io::Cursor::new("early\n".repeat(100_000) + "why\n\n\u{1b}[31mlate\n")).await;
        assert!(words.0.len() <= StderrTail::KEPT);
        assert_eq!(words.text(), "early | early | early | why | late");
    }
}
