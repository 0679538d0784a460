//! The editor's messages, line by line and within limits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deputize_core::sanitize::for_terminal_line;
use futures_util::{Sink, Stream, sink, stream};
use serde::de::IgnoredAny;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, BufReader,
};

/// Limit on one message, in bytes.
pub(crate) const LINE_BYTES: usize = 32 * 1024 * 1024;
/// Limit on an invalid line in the answer to it, in characters.
const ECHO_CHARS: usize = 200;

/// Counts the messages on their way to the editor.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingMessages(Arc<AtomicUsize>);

impl PendingMessages {
    pub(crate) fn one_more(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn one_less(&self) {
        // Answers are not counted, so there may be more of them than there were.
        let _none = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }
}

/// Returns a sink that writes messages to the editor, and counts down `waiting`.
pub(crate) fn outgoing(
    output: impl AsyncWrite + Unpin + Send + 'static,
    waiting: PendingMessages,
) -> impl Sink<String, Error = io::Error> + Send + 'static {
    sink::unfold((output, waiting), |(mut output, waiting), mut line: String| async move {
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
        waiting.one_less();
        Ok((output, waiting))
    })
}

/// Wraps the stream of lines from the editor. A line that is not a message is replaced by a short
/// one that is not a message either, so it is answered and reading continues.
pub(crate) fn incoming(
    input: impl AsyncRead + Unpin + Send + 'static,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    stream::unfold(BufReader::new(input), |mut input| async move {
        let line = message(&mut input).await.transpose()?;
        Some((line, input))
    })
}

async fn message(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let limit = LINE_BYTES as u64 + 1;
        if (&mut *input).take(limit).read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        if line.len() > LINE_BYTES && !line.ends_with(b"\n") {
            let rest = pass_over(input).await?;
            let bytes = line.len() + rest;
            let begins = String::from_utf8_lossy(&line);
            let begins = for_terminal_line(&begins, ECHO_CHARS);
            return Ok(Some(format!(
                "a message of {bytes} bytes, and at most {LINE_BYTES} are taken; it begins: {begins}…"
            )));
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            let shown = for_terminal_line(&String::from_utf8_lossy(&line), ECHO_CHARS);
            return Ok(Some(format!("not UTF-8: {shown}…")));
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if text.len() > ECHO_CHARS && serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Ok(Some(format!("not JSON: {}…", for_terminal_line(text, ECHO_CHARS))));
        }
        return Ok(Some(text.to_owned()));
    }
}

/// Reads to the line's end and forgets it; how many bytes that were.
async fn pass_over(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<usize> {
    let mut passed = 0;
    loop {
        let held = input.fill_buf().await?;
        if held.is_empty() {
            return Ok(passed);
        }
        let end = held.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(held.len(), |at| at + 1);
        passed += count;
        input.consume(count);
        if end.is_some() {
            return Ok(passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;

    async fn read(bytes: Vec<u8>) -> Vec<String> {
        incoming(io::Cursor::new(bytes)).map(Result::unwrap).collect().await
    }

    #[tokio::test]
    async fn messages_come_as_they_are_and_garbage_is_short_and_stays_garbage() {
        let garbage = format!("[{}", "1,".repeat(1000));
        let text = format!("{{\"a\":1}}\r\n\n17\n{garbage}\n\u{1b}[2K\nlast");
        let lines = read(text.into_bytes()).await;
        let [one, two, long, short, last] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!([one, two, short, last], ["{\"a\":1}", "17", "\u{1b}[2K", "last"]);
        assert!(long.starts_with("not JSON: [1,1,") && long.len() < 1000, "{long}");
        assert_eq!(read(b"\xff\xfe\n{}\n".to_vec()).await, ["not UTF-8: \u{fffd}\u{fffd}…", "{}"]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let mut text = format!("{{\"a\":\"{}\"}}\n", "x".repeat(LINE_BYTES)).into_bytes();
        text.extend_from_slice(b"{\"b\":2}\n");
        let lines = read(text).await;
        assert!(
            lines[0].starts_with("a message of 33554441 bytes, and at most 33554432"),
            "{}",
            lines[0]
        );
        assert!(lines[0].len() < 1000);
        assert_eq!(lines[1], "{\"b\":2}");
        let fits = format!("{{\"a\":\"{}\"}}\n", "x".repeat(LINE_BYTES - 8));
        assert_eq!(read(fits.into_bytes()).await[0].len(), LINE_BYTES);
    }
}
