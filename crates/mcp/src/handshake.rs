//! The greeting of a server that is slow.
//!
//! A server is greeted the newer way, and after some seconds of silence the older way too: some
//! that know only that one answer nothing else. One that was merely slow, because it is downloaded
//! first, then answers both, and the first answer must not be taken for that to the second greeting.
//! Answers to what nobody asked are dropped, as they are after the greeting: the library would take
//! one for a failed start. Whoever reads the messages bounds how many there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A connection on which each greeting has its own answer.
pub(crate) struct HandshakeTransport<T> {
    inner: T,
    /// The newer greeting, while nobody answered it.
    newer: Option<RequestId>,
    /// The same, once the older greeting went out behind it.
    given_up: Option<RequestId>,
    /// The greeting that waits for its answer.
    open: Option<RequestId>,
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
    pub(crate) fn new(inner: T) -> (Self, LateHandshake) {
        let late = LateHandshake::default();
        (Self { inner, newer: None, given_up: None, open: None, late: late.clone() }, late)
    }

    /// Whether a message answers what nobody waits for any more.
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
                ClientRequest::DiscoverRequest(_) => self.newer = Some(message.id.clone()),
                ClientRequest::InitializeRequest(_) => self.given_up = self.newer.take(),
                _ => return self.inner.send(item),
            }
            self.open = Some(message.id.clone());
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            if !self.is_late(&message) && !self.is_stray(&message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
