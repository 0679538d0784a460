//! The seam to a model: one attempt of one request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::message::{Message, Opaque};
use crate::tool::ToolDecl;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whether the model may call tools in this request. The tools themselves are sent all the
/// same, so that the cached prefix stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It may.
    Auto,
    /// It must answer in text.
    None,
}

/// What is sent, as borrowed values; a wire turns it into bytes.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The model's name as its provider knows it.
    pub model: &'a str,
    /// The system text, in blocks that are joined with a blank line. Blocks that agents
    /// share come first.
    pub system: &'a [Arc<str>],
    /// The tools, in the order they are sent.
    pub tools: &'a [Arc<ToolDecl>],
    /// The conversation.
    pub messages: &'a [Arc<Message>],
    /// Whether tools may be called.
    pub tool_choice: ToolChoice,
    /// What the caller wants of the model.
    pub options: &'a ModelOptions,
}

/// What the caller wants of a model, beside the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelOptions {
    /// `none`, `minimal`, `low`, `medium`, `high` or `xhigh`; nothing: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// The most tokens of one answer; nothing: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// A piece of a reply while it arrives. It is shown and never stored, so it cannot be
/// serialised.
#[derive(Debug, Clone, Copy)]
pub enum Delta<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// A piece of the reasoning.
    Reasoning(&'a str),
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or wants its calls run.
    Stop,
    /// The output limit cut it.
    Length,
    /// The provider or model refused.
    Refused,
}

/// One call as the wire delivered it, before we mint its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCall {
    /// The name as written.
    pub name: String,
    /// The arguments as written.
    pub arguments: String,
}

/// Tokens of one or more replies, as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones among them.
    pub input: u64,
    /// Input tokens that came from the provider's cache.
    pub cached: u64,
    /// All output tokens, reasoning among them.
    pub output: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
        self.reasoning += other.reasoning;
    }
}

/// A whole reply: the format's own end mark was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The model that really served.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Its reasoning, where shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The calls it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RawCall>,
    /// Blocks that go back byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<Opaque>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost in tokens.
    #[serde(default)]
    pub usage: Usage,
}

impl Reply {
    /// A finished answer in text, for models that need no more.
    #[must_use]
    pub fn text(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            text: text.into(),
            reasoning: String::new(),
            calls: Vec::new(),
            opaque: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
        }
    }

    /// A reply that asks for calls, given as `(tool, arguments)`.
    #[must_use]
    pub fn calls<'c>(
        model: impl Into<String>,
        calls: impl IntoIterator<Item = (&'c str, serde_json::Value)>,
    ) -> Self {
        let raw = |(name, arguments): (&str, serde_json::Value)| RawCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        Self { calls: calls.into_iter().map(raw).collect(), ..Self::text(model, "") }
    }
}

/// What kind of failure an attempt met; it decides what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Failed before any output: worth another try.
    Transient,
    /// Broke off: nothing of it is final; worth another try.
    Incomplete,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The provider cannot be used: key, quota, model name, refused connection.
    Unavailable,
    /// The request or the reply is wrong in itself.
    Fatal,
    /// We told it to end.
    Cancelled,
}

/// One failed attempt. Its message is for the operator and never holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// What kind it is.
    pub kind: FailureKind,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong, with provider and model, and what to do.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Text that had arrived before it broke.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial: String,
}

impl ModelError {
    /// An error of a kind, without more.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
            retry_after_ms: None,
            partial: String::new(),
        }
    }

    /// How long the provider asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

/// A model, or a way to one. `reply` is **one attempt**: retries, fallback and budget are the
/// driver's, so that each attempt is recorded.
pub trait Model: Send + Sync {
    /// Sends one request and waits for the whole reply.
    ///
    /// `live` gets pieces as they arrive. When `cancel` is signalled the model returns soon,
    /// with [`FailureKind::Cancelled`]. It never panics on what a provider sends.
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        (**self).reply(request, live, cancel)
    }
}

const fn _object_safe(_: &dyn Model) {}
