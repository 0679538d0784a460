//! A server's standard streams as messages, within limits.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use deputize_core::sanitize::for_terminal_line;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientNotification, GetMeta as _, JsonRpcMessage, ProgressToken, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::watch;

use crate::error::ProtocolViolation;
use crate::json::{self, no_json, unreadable};

/// Limit on one message, in bytes.
pub const LINE_BYTES: usize = 8 * 1024 * 1024;
/// Limit on unrequested messages.
pub const UNASKED: u64 = 10_000;
/// Limit on unrequested messages, in bytes.
pub const UNASKED_BYTES: u64 = 64 * 1024 * 1024;
/// Number of lines between two answers that may be something other than messages: some programs
/// print a greeting.
pub const STRAY_LINES: u32 = 100;
/// Limit on a requested progress note, in bytes; a longer one counts as unrequested.
const PROGRESS_BYTES: usize = 4096;
/// Limit on the first of them in an error, in characters.
const STRAY_CHARS: usize = 200;

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStatus {
    closed: watch::Sender<bool>,
    /// Number of messages being written.
    writing: AtomicU32,
    fault: Mutex<Option<ProtocolViolation>>,
    stray: Mutex<(u32, String)>,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// The requests that wait for an answer, and under which token each asks for progress.
    open: Mutex<Vec<(RequestId, Option<ProgressToken>)>>,
}

impl ConnectionStatus {
    /// Whether nothing comes any more.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// That nothing comes any more.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Until nothing comes any more.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        let _closed = closed.wait_for(|closed| *closed).await;
    }

    /// Whether a message was begun that the server has not taken yet.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// Returns the server's violation of the protocol, if any.
    pub(crate) fn fault(&self) -> Option<ProtocolViolation> {
        self.fault.lock().clone()
    }

    /// Lines that were no messages: how many, and the first one.
    pub(crate) fn stray(&self) -> Option<(u32, String)> {
        let stray = self.stray.lock().clone();
        (stray.0 > 0).then_some(stray)
    }

    /// That a message goes out: what comes after a request may have been asked for.
    fn record_request(&self, message: &TxJsonRpcMessage<RoleClient>) {
        let mut open = self.open.lock();
        match message {
            JsonRpcMessage::Request(asked) => {
                self.messages.store(0, Ordering::Relaxed);
                self.bytes.store(0, Ordering::Relaxed);
                let token = asked.request.get_meta().get_progress_token();
                open.push((asked.id.clone(), token));
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(gone) = &sent.notification
                    && let Some(id) = &gone.params.request_id
                {
                    open.retain(|(open, _)| open != id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Counts a message. An answer resets all counts.
    fn came(&self, message: &RxJsonRpcMessage<RoleClient>) {
        let id = match message {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(answer) => answer.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let mut open = self.open.lock();
        let all = open.len();
        open.retain(|(open, _)| Some(open) != id);
        if open.len() < all {
            self.messages.store(0, Ordering::Relaxed);
            self.bytes.store(0, Ordering::Relaxed);
            *self.stray.lock() = Default::default();
        }
    }

    /// Whether a request with this id waits for an answer.
    fn waits_for(&self, id: &Value) -> bool {
        let open = self.open.lock();
        serde_json::from_value(id.clone())
            .is_ok_and(|id: RequestId| open.iter().any(|(open, _)| *open == id))
    }

    /// Returns whether the message is progress of a request that subscribed to it and is still
    /// pending.
    fn asked_for(&self, message: &Value) -> bool {
        if message.get("method").and_then(Value::as_str) != Some("notifications/progress") {
            return false;
        }
        let token = message.pointer("/params/progressToken").cloned().unwrap_or_default();
        let Ok(token) = serde_json::from_value::<ProgressToken>(token) else { return false };
        let open = self.open.lock();
        open.iter().any(|(_, asked)| asked.as_ref() == Some(&token))
    }

    /// Counts a line, and says when it is too much.
    fn count(&self, bytes: u64) -> Result<(), ProtocolViolation> {
        let messages = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if messages > UNASKED {
            return Err(ProtocolViolation::Flood { limit: UNASKED, what: "messages" });
        }
        if bytes > UNASKED_BYTES {
            return Err(ProtocolViolation::Flood { limit: UNASKED_BYTES, what: "bytes" });
        }
        Ok(())
    }

    fn pass_over(&self, text: &str) -> Result<(), ProtocolViolation> {
        let mut stray = self.stray.lock();
        if stray.0 == 0 {
            stray.1 = for_terminal_line(text, STRAY_CHARS);
        }
        stray.0 += 1;
        if stray.0 > STRAY_LINES {
            return Err(ProtocolViolation::NoMessages { count: stray.0, first: stray.1.clone() });
        }
        Ok(())
    }

    fn fail(&self, garbage: ProtocolViolation) {
        *self.fault.lock() = Some(garbage);
    }
}

/// Messages over two pipes, one a line.
pub(crate) struct PipeTransport<R, W> {
    reader: BufReader<R>,
    /// The part of an incomplete line: reading may be cancelled at any time.
    part: Vec<u8>,
    /// Messages of a batch that nobody took yet.
    waiting: VecDeque<Value>,
    writer: Arc<tokio::sync::Mutex<Option<W>>>,
    heard: Arc<ConnectionStatus>,
}

impl<R: AsyncRead + Unpin, W> PipeTransport<R, W> {
    pub(crate) fn new(reader: R, writer: W, heard: Arc<ConnectionStatus>) -> Self {
        let writer = Arc::new(tokio::sync::Mutex::new(Some(writer)));
        Self {
            reader: BufReader::new(reader),
            part: Vec::new(),
            waiting: VecDeque::new(),
            writer,
            heard,
        }
    }

    /// Returns the next message; `None` at the end, or where the server went too far.
    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(value) = self.waiting.pop_front() {
                if let Some(message) = message(value) {
                    self.heard.came(&message);
                    return Some(message);
                }
            }
            if let Err(garbage) = self.line().await? {
                self.heard.fail(garbage);
                return None;
            }
        }
    }

    /// Reads a line; `None` at the end.
    async fn line(&mut self) -> Option<Result<(), ProtocolViolation>> {
        let room = (LINE_BYTES + 1).saturating_sub(self.part.len()) as u64;
        let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.part).await;
        if read.ok()? == 0 && self.part.is_empty() {
            return None;
        }
        let line = std::mem::take(&mut self.part);
        if line.len() > LINE_BYTES {
            return Some(Err(ProtocolViolation::LongLine { limit: LINE_BYTES }));
        }
        let text = String::from_utf8_lossy(&line);
        let found = json::read(&text);
        // Of what is told of how far a call is, the newest is kept: it cannot become too much.
        let asked_for = found.as_ref().is_some_and(|found| self.heard.asked_for(found));
        if !(asked_for && line.len() <= PROGRESS_BYTES)
            && let Err(flood) = self.heard.count(line.len() as u64)
        {
            return Some(Err(flood));
        }
        match found {
            Some(Value::Array(batch)) => self.waiting.extend(batch),
            Some(value @ Value::Object(_)) => self.waiting.push_back(value),
            _ if text.trim().is_empty() => {}
            _ => match no_json(&text).filter(|error| self.heard.waits_for(&error["id"])) {
                Some(error) => self.waiting.push_back(error),
                None => return Some(self.heard.pass_over(text.trim())),
            },
        }
        Some(Ok(()))
    }
}

/// Sends a message whole, and nothing else beside it.
pub(crate) async fn write_line<W: AsyncWrite + Unpin>(
    writer: &tokio::sync::Mutex<Option<W>>,
    message: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let writer = writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    writer.write_all(&line).await?;
    writer.flush().await
}

/// A message of the protocol. An answer that is none is one that says so: whoever asked must not
/// wait for it any longer.
fn message(value: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
    let answers = value.get("method").is_none();
    let id = value.get("id").filter(|id| id.is_number() || id.is_string()).cloned();
    if let Ok(message) = serde_json::from_value(value) {
        return Some(message);
    }
    let id = id.filter(|_| answers)?;
    serde_json::from_value(unreadable(&id, "the answer is no message of JSON-RPC 2.0")).ok()
}

impl<R, W> Transport<RoleClient> for PipeTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        self.heard.record_request(&item);
        let heard = Arc::clone(&self.heard);
        async move {
            heard.writing.fetch_add(1, Ordering::AcqRel);
            let written = write_line(&writer, &item).await;
            heard.writing.fetch_sub(1, Ordering::AcqRel);
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let next = self.next().await;
        if next.is_none() {
            self.heard.close();
        }
        next
    }

    async fn close(&mut self) -> io::Result<()> {
        self.heard.close();
        // A message that is being written keeps it; the end of the server's tree ends that too.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
        Ok(())
    }
}

/// The last words of a stream, however much it says, and the first ones: an interpreter says what
/// is wrong before it says where it was.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Mutex<StderrWords>);

#[derive(Debug, Default)]
struct StderrWords {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Whether something between them is not kept.
    cut: bool,
}

impl StderrTail {
    /// Limit on the last and the first output kept, each in bytes.
    const KEPT: usize = 4096;
    const FIRST: usize = 1024;
    /// Limit on the lines shown of each.
    const LINES: usize = 5;

    /// Reads to the end.
    pub(crate) async fn read_all(&self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; Self::KEPT];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            let mut kept = self.0.lock();
            let room = Self::FIRST - kept.first.len();
            kept.first.extend(chunk.iter().take(read.min(room)));
            kept.last.extend(chunk.iter().take(read).skip(room));
            let surplus = kept.last.len().saturating_sub(Self::KEPT);
            kept.last.drain(..surplus);
            kept.cut |= surplus > 0;
        }
    }

    /// The first and the last lines of it, on one line.
    pub(crate) fn describe(&self) -> String {
        let kept = self.0.lock();
        let gap: &[u8] = if kept.cut { b"\n" } else { b"" };
        let text = [&kept.first, gap, &kept.last].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let describe = |lines: &[&str]| for_terminal_line(&lines.join(" | "), 500);
        if lines.len() <= 2 * Self::LINES {
            return describe(&lines);
        }
        let (first, rest) = lines.split_at(Self::LINES);
        let (_, last) = rest.split_at(rest.len() - Self::LINES);
        format!("{} | … | {}", describe(first), describe(last))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
    use serde_json::json;

    use super::*;
    use crate::json::UNREADABLE;

    async fn read(bytes: &[u8]) -> (Vec<Value>, Option<ProtocolViolation>) {
        read_by(0, bytes).await
    }

    /// The same while so many requests wait for answers, each with its id as its token.
    async fn read_by(asked: i64, bytes: &[u8]) -> (Vec<Value>, Option<ProtocolViolation>) {
        let heard = Arc::new(ConnectionStatus::default());
        let mut lines = PipeTransport::new(
            io::Cursor::new(bytes.to_vec()),
            tokio::io::sink(),
            Arc::clone(&heard),
        );
        for id in 0..asked {
            let call = CallToolRequest::new(CallToolRequestParams::new("a"));
            let mut asked = ClientRequest::CallToolRequest(call);
            asked.get_meta_mut().set_progress_token(ProgressToken(RequestId::Number(id)));
            lines.send(JsonRpcMessage::request(asked, RequestId::Number(id))).await.unwrap();
        }
        let mut found = Vec::new();
        while let Some(message) = lines.receive().await {
            found.push(serde_json::to_value(message).unwrap());
        }
        assert!(heard.is_closed());
        (found, heard.fault())
    }

    const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

    #[tokio::test]
    async fn messages_come_through_and_stray_lines_do_not() {
        let text = format!("hello\n\u{0}\n{PING}\r\n\n17\n[{PING},{PING}]\n{{\"b\"");
        let (found, fault) = read(&[text.as_bytes(), b"\n\xff\xfe\n"].concat()).await;
        assert_eq!((found.len(), fault), (3, None));
    }

    #[tokio::test]
    async fn an_answer_that_is_none_ends_the_waiting_of_whoever_asked() {
        let (found, _) = read(b"{\"id\":3,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":4}\n").await;
        let ids =
            found.iter().map(|message| (message["id"].clone(), message["error"]["code"].clone()));
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids, [(json!(3), json!(UNREADABLE)), (json!(4), json!(UNREADABLE))]);
    }

    #[tokio::test]
    async fn an_answer_that_is_no_json_ends_it_too_and_half_a_character_is_no_hindrance() {
        let lines = [
            r#"{"jsonrpc":"2.0","id":0,"result":{"a":"b\ud83d"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#,
        ];
        let (found, _) = read_by(2, lines.join("\n").as_bytes()).await;
        assert_eq!(found[0]["result"]["a"], "b\u{fffd}", "{found:?}");
        assert_eq!(found[1]["error"]["code"], UNREADABLE, "{found:?}");
        assert_eq!(found.len(), 2, "nobody waits for the third: {found:?}");
    }

    #[tokio::test]
    async fn progress_that_was_asked_for_is_no_flood() {
        let most = usize::try_from(UNASKED).unwrap();
        let progress = |token: i64, message: &str| {
            let params = json!({"progressToken": token, "progress": 1, "message": message});
            let note =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            format!("{note}\n").repeat(most + 1)
        };
        let flood = Some(ProtocolViolation::Flood { limit: UNASKED, what: "messages" });
        let (found, fault) = read_by(1, progress(0, "half way").as_bytes()).await;
        assert_eq!((found.len(), fault), (most + 1, None));
        assert_eq!(read_by(1, progress(7, "half way").as_bytes()).await.1, flood);
        let answer = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
        let after = format!("{answer}\n{}", progress(0, "half way"));
        assert_eq!(read_by(1, after.as_bytes()).await.1, flood, "nobody waits any more");
    }

    #[tokio::test]
    async fn what_it_is_answered_lets_a_server_ask_no_more() {
        let heard = Arc::new(ConnectionStatus::default());
        let pings = format!("{PING}\n").repeat(usize::try_from(UNASKED).unwrap() + 1);
        let mut lines =
            PipeTransport::new(io::Cursor::new(pings), tokio::io::sink(), Arc::clone(&heard));
        let mut answered = 0;
        while lines.receive().await.is_some() {
            let answer: TxJsonRpcMessage<RoleClient> =
                serde_json::from_value(json!({"jsonrpc": "2.0", "id": 7, "result": {}})).unwrap();
            lines.send(answer).await.unwrap();
            answered += 1;
        }
        let flood = Some(ProtocolViolation::Flood { limit: UNASKED, what: "messages" });
        assert_eq!((answered, heard.fault()), (UNASKED, flood));
    }

    #[tokio::test]
    async fn with_an_answer_the_counts_begin_anew() {
        let answer = |id: i64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        let stray = "debug\n".repeat(STRAY_LINES as usize);
        let each = |id: i64| format!("{stray}{}", answer(id));
        let (found, fault) = read_by(3, (0..3).map(each).collect::<String>().as_bytes()).await;
        assert_eq!((found.len(), fault), (3, None));
        let unasked = format!("{stray}{}{stray}", answer(9));
        assert!(matches!(
            read_by(3, unasked.as_bytes()).await.1,
            Some(ProtocolViolation::NoMessages { .. })
        ));
    }

    #[tokio::test]
    async fn what_goes_too_far_ends_it() {
        let stray = "x y\u{1b}[2K\n".repeat(STRAY_LINES as usize + 1);
        let first = "x y".to_owned();
        assert_eq!(
            read(stray.as_bytes()).await.1,
            Some(ProtocolViolation::NoMessages { count: STRAY_LINES + 1, first })
        );
        let long = format!("{{\"a\":\"{}", "x".repeat(LINE_BYTES));
        assert_eq!(
            read(long.as_bytes()).await.1,
            Some(ProtocolViolation::LongLine { limit: LINE_BYTES })
        );
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
        let most = usize::try_from(UNASKED).unwrap();
        let (found, fault) = read(format!("{note}\n").repeat(most).as_bytes()).await;
        assert_eq!((found.len(), fault), (most, None));
        let (_, fault) = read(format!("{note}\n").repeat(most + 1).as_bytes()).await;
        assert_eq!(fault, Some(ProtocolViolation::Flood { limit: UNASKED, what: "messages" }));
    }

    #[tokio::test]
    async fn the_last_words_are_bounded() {
        let words = StderrTail::default();
        words
            .read_all(io::Cursor::new("early\n".repeat(100_000) + "why\n\n\u{1b}[31mlate\n"))
            .await;
        assert!(words.0.lock().last.len() <= StderrTail::KEPT);
        let early = ["early"; 5].join(" | ");
        assert_eq!(words.describe(), format!("{early} | … | early | early | early | why | late"));
        // Of a trace both ends are told; of little, all.
        let words = StderrTail::default();
        let trace = (1..=20).map(|n| format!("line {n}\n")).collect::<String>();
        words.read_all(io::Cursor::new(trace)).await;
        let actual = words.describe();
        assert!(
            actual.starts_with("line 1 | ")
                && actual.ends_with("… | line 16 | line 17 | line 18 | line 19 | line 20"),
            "{actual}"
        );
        let words = StderrTail::default();
        words.read_all(io::Cursor::new("a\n\nb\n")).await;
        assert_eq!(words.describe(), "a | b");
    }
}
