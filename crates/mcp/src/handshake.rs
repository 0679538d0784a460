//! The greeting of a server that is slow.
//!
//! A server is asked `server/discover` first, and after a short silence gets `initialize` too: some
//! that know only that one answer nothing else. How long the silence lasts is decided here, since
//! the library waits for ten seconds whatever the limit of the start is. One that was merely slow,
//! because it is downloaded first, then answers both, and the first answer must not be taken for
//! that to the second greeting.
//! Answers to what nobody asked are dropped, as they are after the greeting: the library would take
//! one for a failed start. Whoever reads the messages bounds how many there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::{Instant, timeout_at};

use crate::json::as_answer;

/// A connection on which each greeting has its own answer.
pub(crate) struct HandshakeTransport<T> {
    inner: T,
    /// The newer greeting, while nobody answered it.
    newer: Option<RequestId>,
    /// The same, once the older greeting went out behind it.
    given_up: Option<RequestId>,
    /// The greeting that waits for its answer.
    open: Option<RequestId>,
    /// Time limit for an answer to `server/discover`.
    discover_timeout: Duration,
    /// When the request that is unanswered now has been so for too long.
    discover_deadline: Option<Instant>,
    late: LateHandshake,
}

/// Whether a server took the newer greeting after it was given up.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateHandshake(Arc<AtomicBool>);

impl LateHandshake {
    pub(crate) fn took_it(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl<T> HandshakeTransport<T> {
    pub(crate) fn new(inner: T, discover_timeout: Duration) -> (Self, LateHandshake) {
        let late = LateHandshake::default();
        let transport = Self {
            inner,
            newer: None,
            given_up: None,
            open: None,
            discover_timeout,
            discover_deadline: None,
            late: late.clone(),
        };
        (transport, late)
    }

    /// Returns the answer that stands for the missing one to `server/discover`: the library takes it
    /// for that of a server that knows only `initialize`, and sends this next.
    fn unanswered_discover(&self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let id = self.newer.as_ref()?;
        let error = ErrorData::invalid_request("no answer to server/discover", None);
        Some(as_answer(error, id))
    }

    /// Returns whether a message answers a request that was given up.
    fn is_late(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let (id, took_it) = match message {
            JsonRpcMessage::Response(response) => (Some(&response.id), true),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), false),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return false,
        };
        self.newer.take_if(|newer| id == Some(&*newer));
        // A server that could not read an id names none; it answers in order.
        if self.given_up.take_if(|gone| id.is_none_or(|id| *id == *gone)).is_none() {
            return false;
        }
        self.late.0.store(took_it, Ordering::Release);
        true
    }

    /// Whether a message answers something else than the greeting that waits for its answer.
    fn is_stray(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                // It answers the greeting: the server could not read its id.
                None => return false,
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return false,
        };
        // Some servers send a number back as a text.
        let answers = |open: &RequestId| open == id || open.to_string() == id.to_string();
        let waits = self.open.is_some();
        waits && self.open.take_if(|open| answers(open)).is_none()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for HandshakeTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(message) = &item {
            match message.request {
                ClientRequest::DiscoverRequest(_) => {
                    self.newer = Some(message.id.clone());
                    self.discover_deadline = Some(Instant::now() + self.discover_timeout);
                }
                ClientRequest::InitializeRequest(_) => {
                    self.given_up = self.newer.take();
                    self.discover_deadline = None;
                }
                _ => return self.inner.send(item),
            }
            self.open = Some(message.id.clone());
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match self.discover_deadline {
                None => self.inner.receive().await?,
                Some(deadline) => match timeout_at(deadline, self.inner.receive()).await {
                    Ok(message) => message?,
                    Err(_) => {
                        self.discover_deadline = None;
                        match self.unanswered_discover() {
                            Some(answer) => return Some(answer),
                            None => continue,
                        }
                    }
                },
            };
            if !self.is_late(&message) && !self.is_stray(&message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
