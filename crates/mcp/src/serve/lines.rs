//! A client's standard streams as messages; other input gets an error.

use std::io;
use std::sync::Arc;

use deputize_core::{Cancel, CancelReason};
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::stdio_transport::{LINE_BYTES, STRAY_LINES, write_line};

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// Limit on the error about a line, in characters.
const WHY_CHARS: usize = 400;

/// Messages of one client, one a line.
pub(super) struct ClientLines<R, W> {
    reader: BufReader<R>,
    /// The part of an incomplete line: reading may be cancelled at any time.
    part: Vec<u8>,
    /// Bytes of an oversized line that were read and dropped.
    passed: usize,
    writer: Arc<Mutex<Option<W>>>,
    /// Answers that are being written: a half one must not stay when reading is left.
    answering: JoinSet<()>,
    /// Number of lines that were not messages.
    strays: u32,
    /// Cancelled at the end of the input.
    end: Cancel,
}

/// The kind of a line.
#[derive(Debug)]
enum ClientLine {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Nobody waits for an answer to it.
    Nothing,
    /// None, and what is said of that.
    Invalid(Value),
}

impl<R, W> ClientLines<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    pub(super) fn new(reader: R, writer: W, end: Cancel) -> Self {
        Self {
            reader: BufReader::new(reader),
            part: Vec::new(),
            passed: 0,
            writer: Arc::new(Mutex::new(Some(writer))),
            answering: JoinSet::new(),
            strays: 0,
            end,
        }
    }

    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let room = (LINE_BYTES + 1).saturating_sub(self.part.len()) as u64;
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.part).await;
            if read.ok()? == 0 && self.part.is_empty() && self.passed == 0 {
                return None;
            }
            let line = std::mem::take(&mut self.part);
            if line.len() > LINE_BYTES && !line.ends_with(b"\n") {
                self.passed += line.len();
                continue;
            }
            if self.passed > 0 {
                let bytes = std::mem::take(&mut self.passed) + line.trim_ascii_end().len();
                let why = format!("a message of {bytes} bytes, and at most {LINE_BYTES} are taken");
                self.answer(wrong(&Value::Null, PARSE_ERROR, &why));
                continue;
            }
            match read_line(&line) {
                ClientLine::Message(message) => return Some(*message),
                ClientLine::Nothing => {}
                ClientLine::Invalid(why) => self.answer(why),
            }
        }
    }

    /// Answers a line that is not a message. The number of answers is limited, since a client may
    /// echo them.
    fn answer(&mut self, why: Value) {
        self.strays += 1;
        if self.strays > STRAY_LINES {
            return;
        }
        let writer = Arc::clone(&self.writer);
        self.answering.spawn(async move { drop(write_line(&writer, &why).await) });
    }
}

/// See [`crate::fuzz::answered`].
#[cfg(feature = "fuzz")]
pub(crate) fn answered(line: &[u8]) -> Option<String> {
    match read_line(line) {
        ClientLine::Invalid(why) => Some(why.to_string()),
        ClientLine::Message(_) | ClientLine::Nothing => None,
    }
}

/// The answer to what is no message.
fn wrong(id: &Value, code: i32, why: &str) -> Value {
    // What is wrong with a message may be told in its own words, of any length.
    let message = deputize_core::sanitize::for_terminal_line(why, WHY_CHARS);
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn read_line(line: &[u8]) -> ClientLine {
    if line.trim_ascii().is_empty() {
        return ClientLine::Nothing;
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let place =
                format!("this line is no JSON ({error}): a message is one object on a line");
            return ClientLine::Invalid(wrong(&Value::Null, PARSE_ERROR, &place));
        }
    };
    let is_id = |id: &&Value| id.is_number() || id.is_string();
    let id = value.get("id").filter(is_id).cloned();
    let (method, is_answer) = match &value {
        Value::Object(object) => {
            let is_answer = object.contains_key("result") || object.contains_key("error");
            (object.get("method").and_then(Value::as_str).map(str::to_owned), is_answer)
        }
        _ => (None, false),
    };
    match serde_json::from_value(value) {
        Ok(message) => ClientLine::Message(Box::new(message)),
        Err(_) if is_answer || (method.is_some() && id.is_none()) => ClientLine::Nothing,
        Err(error) => {
            let id = id.unwrap_or_default();
            match method {
                Some(method) => {
                    let method = deputize_core::sanitize::for_terminal_line(&method, 60);
                    let why = format!("\"{method}\" is not asked like this: {error}");
                    ClientLine::Invalid(wrong(&id, INVALID_PARAMS, &why))
                }
                None => {
                    let why = "this is no message of JSON-RPC 2.0: an object with \"jsonrpc\", \
                               \"method\" and, for an answer, \"id\"";
                    ClientLine::Invalid(wrong(&id, INVALID_REQUEST, why))
                }
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for ClientLines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move { write_line(&writer, &item).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let next = self.next().await;
        if next.is_none() {
            // The library would wait for the calls first, and for seconds.
            self.end.cancel(CancelReason::Interrupted);
            while self.answering.join_next().await.is_some() {}
        }
        next
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reading of a line: a message's method, nothing, or the code and words of an
    /// answer.
    fn read(line: &str) -> String {
        match read_line(line.as_bytes()) {
            ClientLine::Message(message) => {
                serde_json::to_value(*message).unwrap()["method"].to_string()
            }
            ClientLine::Nothing => String::new(),
            ClientLine::Invalid(answer) => {
                assert_eq!(answer["jsonrpc"], "2.0");
                format!(
                    "{} {} {}",
                    answer["id"], answer["error"]["code"], answer["error"]["message"]
                )
            }
        }
    }

    #[test]
    fn what_is_no_message_is_answered_with_why_and_its_id() {
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), "\"ping\"");
        for silent in
            ["", " \r\n", r#"{"id":1,"result":7}"#, r#"{"method":"notifications/x","params":7}"#]
        {
            assert_eq!(read(silent), "", "{silent}");
        }
        for (line, words) in [
            ("hello", "null -32700 \"this line is no JSON (expected value at line 1 column 1)"),
            ("{\"a\"", "null -32700"),
            ("[]", "null -32600 \"this is no message of JSON-RPC 2.0"),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, "\"a\" -32600"),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":7}"#,
                "4 -32602 \"\\\"tools/call\\\" is not asked like this",
            ),
        ] {
            assert!(read(line).starts_with(words), "{line}: {}", read(line));
        }
        let long =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":7}}"#, "m".repeat(9000));
        assert!(read(&long).len() < 600, "{}", read(&long));
        let long = "x".repeat(9000);
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":"{long}"}}}}"#
        );
        assert!(read(&long).len() < 600, "{}", read(&long));
    }

    #[tokio::test]
    async fn what_comes_behind_a_stray_line_is_read_and_the_end_is_reported() {
        let strays = "x\n".repeat(STRAY_LINES as usize + 5);
        let text = format!("{strays}{}\n", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let end = Cancel::new();
        let mut lines = ClientLines::new(io::Cursor::new(text), ours, end.clone());
        assert!(lines.receive().await.is_some());
        assert!(lines.receive().await.is_none() && end.is_cancelled());
        lines.close().await.unwrap();
        drop(lines);
        let mut answers = String::new();
        theirs.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("-32700").count(), STRAY_LINES as usize);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_and_what_follows_is_read() {
        const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let long = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        let bytes = 2 * LINE_BYTES + 5;
        // The last one has no end.
        let text = format!("{}\n{PING}\n{}", long(bytes), long(LINE_BYTES + 1));
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let mut lines = ClientLines::new(io::Cursor::new(text), ours, Cancel::new());
        assert!(lines.receive().await.is_some() && lines.receive().await.is_none());
        drop(lines);
        let mut answers = String::new();
        theirs.read_to_string(&mut answers).await.unwrap();
        let actual: Vec<Value> =
            answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let why = |bytes| format!("a message of {bytes} bytes, and at most {LINE_BYTES} are taken");
        assert_eq!(
            actual,
            [bytes, LINE_BYTES + 1].map(|bytes| wrong(&Value::Null, PARSE_ERROR, &why(bytes)))
        );
    }
}
