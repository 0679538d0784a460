//! The connection with a browser: its own protocol (DevTools) over two pipes.
//!
//! Messages are JSON with a zero byte at their end. A pipe needs no port, which other users of this
//! machine could reach.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::message_splitter::{MessagePart, MessageSplitter};

/// Bytes of the largest message that is read.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Why a command of the protocol has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevToolsError {
    #[error("the browser has ended")]
    Closed,
    /// It was refused, in the browser's words.
    #[error("the browser refused `{method}`: {message}")]
    Refused { method: &'static str, message: String },
    #[error("the browser's answer to `{method}` is larger than {MESSAGE_BYTES} bytes")]
    TooLarge { method: &'static str },
    #[error("the browser's answer to `{method}` cannot be read")]
    Answer {
        method: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

/// An event of the browser.
#[derive(Debug)]
pub(crate) struct DevToolsEvent<'e> {
    pub(crate) method: &'e str,
    /// The session that it belongs to; `None` for the browser itself.
    pub(crate) session: Option<&'e str>,
    params: &'e str,
}

impl DevToolsEvent<'_> {
    /// Reads its parameters; `None` if they are of another kind.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params).ok()
    }
}

/// Receives the events of a browser, in order, before later answers are delivered.
pub(crate) trait EventHandler: Send + Sync + 'static {
    /// Takes an event; may send commands whose answers nobody needs.
    fn handle(&self, event: &DevToolsEvent<'_>, commands: &CommandSender);
    /// Takes note that the browser is gone.
    fn close(&self);
}

#[derive(Debug, Clone)]
pub(crate) struct CommandSender {
    next: Arc<AtomicU64>,
    messages: mpsc::UnboundedSender<Vec<u8>>,
}

impl CommandSender {
    /// Sends a command to a session, or to the browser itself, and returns its number.
    pub(crate) fn send(&self, session: Option<&str>, method: &str, params: &Value) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let (Some(message), Some(session)) = (message.as_object_mut(), session) {
            message.insert("sessionId".to_owned(), session.into());
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        // Who waits for an answer learns of the end by the reader.
        let _ended = self.messages.send(bytes);
        id
    }
}

/// A connection with a browser. Dropping it ends its tasks.
#[derive(Debug)]
pub(crate) struct DevTools {
    commands: CommandSender,
    waiting: Arc<PendingAnswers>,
    _tasks: JoinSet<()>,
}

impl DevTools {
    /// Connects with a browser whose protocol is on these pipes.
    pub(crate) fn new(input: Sender, output: Receiver, handler: Arc<dyn EventHandler>) -> Self {
        let (messages, queue) = mpsc::unbounded_channel();
        let commands = CommandSender { next: Arc::new(AtomicU64::new(1)), messages };
        let waiting = Arc::new(PendingAnswers::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(write(input, queue));
        tasks.spawn(read(output, commands.clone(), Arc::clone(&waiting), handler));
        Self { commands, waiting, _tasks: tasks }
    }

    /// Sends a command and returns its result.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: &Value,
    ) -> Result<T, DevToolsError> {
        let answer = {
            // Held until the number is known: the answer may come at once.
            let mut waiting = self.waiting.0.lock();
            let Some(waiting) = waiting.as_mut() else { return Err(DevToolsError::Closed) };
            let id = self.commands.send(session, method, params);
            let (send, answer) = oneshot::channel();
            waiting.insert(id, send);
            answer
        };
        match answer.await {
            Err(_) => Err(DevToolsError::Closed),
            Ok(Answer::TooLarge) => Err(DevToolsError::TooLarge { method }),
            Ok(Answer::Refused(message)) => Err(DevToolsError::Refused { method, message }),
            Ok(Answer::Result(text)) => {
                let read = serde_json::from_str(&text);
                read.map_err(|source| DevToolsError::Answer { method, source })
            }
        }
    }
}

#[derive(Debug)]
enum Answer {
    Result(String),
    Refused(String),
    TooLarge,
}

/// Who waits for which answer; `None` when there are no more answers.
#[derive(Debug)]
struct PendingAnswers(Mutex<Option<BTreeMap<u64, oneshot::Sender<Answer>>>>);

impl Default for PendingAnswers {
    fn default() -> Self {
        Self(Mutex::new(Some(BTreeMap::new())))
    }
}

impl PendingAnswers {
    fn deliver(&self, id: u64, answer: Answer) {
        let waiting = self.0.lock().as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(waiting) = waiting {
            // Who waited may have given up.
            let _gone = waiting.send(answer);
        }
    }
}

async fn write(mut input: Sender, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(message) = queue.recv().await {
        if input.write_all(&message).await.is_err() {
            return;
        }
    }
}

async fn read(
    mut output: Receiver,
    commands: CommandSender,
    waiting: Arc<PendingAnswers>,
    handler: Arc<dyn EventHandler>,
) {
    let mut splitter = MessageSplitter::new(MESSAGE_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = read_some(&mut output, &mut buffer).await {
        splitter.push(buffer.get(..count).unwrap_or_default(), |part| match part {
            MessagePart::Message(bytes) => dispatch_message(bytes, &commands, &waiting, &*handler),
            MessagePart::TooLarge { id: Some(id) } => waiting.deliver(id, Answer::TooLarge),
            MessagePart::TooLarge { id: None } => {}
        });
    }
    *waiting.0.lock() = None;
    handler.close();
}

async fn read_some(output: &mut Receiver, buffer: &mut [u8]) -> io::Result<usize> {
    output.read(buffer).await
}

/// Takes one message. What cannot be read is an event of a newer browser.
fn dispatch_message(
    bytes: &[u8],
    commands: &CommandSender,
    waiting: &PendingAnswers,
    handler: &dyn EventHandler,
) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Message<'m> {
        id: Option<u64>,
        method: Option<std::borrow::Cow<'m, str>>,
        session_id: Option<std::borrow::Cow<'m, str>>,
        #[serde(borrow)]
        params: Option<&'m RawValue>,
        #[serde(borrow)]
        result: Option<&'m RawValue>,
        error: Option<ErrorObject>,
    }
    #[derive(Deserialize)]
    struct ErrorObject {
        message: String,
    }
    let text = String::from_utf8_lossy(bytes);
    let message: Message<'_> = match serde_json::from_str(&text) {
        Ok(message) => message,
        Err(error) => return tracing::debug!(error = error.to_string(), "message of a browser"),
    };
    if let Some(id) = message.id {
        let answer = match (message.error, message.result) {
            (Some(error), _) => Answer::Refused(error.message),
            (None, Some(result)) => Answer::Result(result.get().to_owned()),
            (None, None) => Answer::Result("{}".to_owned()),
        };
        waiting.deliver(id, answer);
    } else if let Some(method) = &message.method {
        let params = message.params.map_or("{}", RawValue::get);
        let session = message.session_id.as_deref();
        handler.handle(&DevToolsEvent { method, session, params }, commands);
    }
}
