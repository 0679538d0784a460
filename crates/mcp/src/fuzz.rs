//! Entry points of the fuzz targets beside the public interface.

use std::sync::Arc;

use rmcp::model::{ClientRequest, JsonRpcMessage, PingRequest, RequestId};
use rmcp::transport::Transport as _;
use tokio::io::AsyncRead;

use crate::stdio_transport::{ConnectionStatus, PipeTransport};

/// The reading of a server's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// Its messages, as JSON.
    pub messages: Vec<String>,
    /// Lines that were none: how many, and the first.
    pub stray: Option<(u32, String)>,
    /// The fault that ended it early; `None` if it was read to its end.
    pub garbage: Option<String>,
}

/// Number of pending requests while input is read.
const OPEN: i64 = 10;

/// Reads all that a server says.
pub async fn read(from: impl AsyncRead + Unpin + Send) -> ReadResult {
    let heard = Arc::new(ConnectionStatus::default());
    let mut lines = PipeTransport::new(from, tokio::io::sink(), Arc::clone(&heard));
    for id in 0..OPEN {
        let asked = ClientRequest::PingRequest(PingRequest::default());
        let _a_sink = lines.send(JsonRpcMessage::request(asked, RequestId::Number(id))).await;
    }
    let mut messages = Vec::new();
    while let Some(message) = lines.receive().await {
        messages.push(serde_json::to_string(&message).unwrap_or_default());
    }
    let garbage = heard.fault().map(|garbage| garbage.to_string());
    ReadResult { messages, stray: heard.stray(), garbage }
}

/// Returns the answer to a client's line that is not a message; `None` if it is one, or if nobody
/// waits for an answer.
#[must_use]
pub fn answered(line: &[u8]) -> Option<String> {
    crate::serve::answered(line)
}
