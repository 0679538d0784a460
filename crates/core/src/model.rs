//! The interface to a model: one attempt of one request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::message::{Message, OpaqueBlock, names_no_tool};
use crate::tool_spec::ToolDecl;

mod error;

pub use error::{FailureKind, ModelError, PARTIAL_BYTES, bounded_partial};

/// Whether the model may call tools in this request. The tools are sent in any case, so that the
/// cache prefix stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It may call tools.
    Auto,
    /// It must answer in text.
    None,
}

/// A request to a model, as borrowed values; a wire format turns it into bytes.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The model's name as its provider knows it.
    pub model: &'a str,
    /// The system text, in blocks that are joined with a blank line. Blocks shared between agents
    /// come first.
    pub system: &'a [Arc<str>],
    /// The tools, in the order in which they are sent.
    pub tools: &'a [Arc<ToolDecl>],
    /// Messages of the conversation, in order.
    pub messages: &'a [Arc<Message>],
    /// Whether tools may be called.
    pub tool_choice: ToolChoice,
    /// Options of the model.
    pub options: &'a ModelOptions,
}

/// Options of a model request, beside the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelOptions {
    /// `none`, `minimal`, `low`, `medium`, `high` or `xhigh`; `None` means the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Maximum tokens of one answer; `None` means the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

/// A piece of a reply that is arriving. It is shown and never stored, so it cannot be serialized.
#[derive(Debug, Clone, Copy)]
pub enum Delta<'a> {
    /// A piece of the answer.
    Text(&'a str),
    /// A piece of the reasoning.
    Reasoning(&'a str),
    /// A call began or grew by this many bytes. Its content is shown only when the reply is
    /// complete; this signals that the reply is still arriving.
    Call(usize),
}

impl Delta<'_> {
    /// Returns the number of bytes that arrived.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) => text.len(),
            Self::Call(bytes) => *bytes,
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or requests calls.
    Stop,
    /// It reached the output limit.
    Length,
    /// The provider interrupted it and expects the reply back to continue.
    Paused,
    /// The provider or model refused.
    Refused,
    /// It reported that the task was not done; used by rule-based models.
    Undone,
}

/// A call as the wire format delivered it, before it gets an ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCall {
    /// The name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

impl RawCall {
    /// Returns whether the call could not be parsed; see [`ToolCall::is_unreadable`].
    ///
    /// [`ToolCall::is_unreadable`]: crate::ToolCall::is_unreadable
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        names_no_tool(&self.name)
    }
}

/// Tokens of one or more replies, as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, including those read from or written to a cache.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cached: u64,
    /// Input tokens written to the provider's cache, if it counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// All output tokens, including reasoning.
    pub output: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
    /// Input tokens of the last request that the provider made for one reply, if it made several:
    /// the size of the conversation, while `input` is what was paid for. A sum of replies has
    /// `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_input: Option<u64>,
}

impl Usage {
    /// Returns the usage with the input tokens of the conversation, for measuring its size rather
    /// than its cost.
    #[must_use]
    pub fn in_context(self) -> Self {
        Self { input: self.context_input.unwrap_or(self.input), ..self }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Saturates, because a provider may report any count.
impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.context_input = None;
    }
}

/// A complete reply, ended by the wire format's own end marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The model that served the reply.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Its reasoning, if shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The requested calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RawCall>,
    /// Blocks that are sent back byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaqueBlock>,
    /// Why it stopped.
    pub finish: Finish,
    /// Its token usage.
    #[serde(default)]
    pub usage: Usage,
}

impl Reply {
    /// Creates a finished text answer, for models that need no more.
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

    /// Creates a reply that requests calls, given as `(tool, arguments)`.
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

/// A model, or access to one. `reply` makes **one attempt**: retries, fallback models and budgets
/// belong to the driver, so that each attempt is recorded.
pub trait Model: Send + Sync {
    /// Sends one request and waits for the whole reply.
    ///
    /// `live` gets pieces as they arrive. When `cancel` is signalled, the model returns soon with
    /// [`FailureKind::Cancelled`]. It never panics, whatever a provider sends.
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;

    /// Returns the maximum output tokens of a reply to such a request, if known: that of the
    /// options, unless the provider sets another bound.
    fn most_output(&self, options: &ModelOptions) -> Option<u32> {
        options.max_output_tokens
    }

    /// Returns whether replies use tokens, so that usage is estimated where the server does not
    /// count it. Rule-based models use none.
    fn takes_tokens(&self) -> bool {
        false
    }

    /// Returns whether the model of this name at its provider sees images. One that does not is sent
    /// conversations without them.
    fn sees_images(&self, _model: &str) -> bool {
        false
    }

    /// Returns how many tokens the model of this name at its provider makes of a text, if its
    /// tokenizer is known.
    fn count_tokens(&self, _model: &str, _text: &str) -> Option<u64> {
        None
    }

    /// Returns the same model for one agent alone, if that makes a difference: with several keys,
    /// each agent stays with one until the value is dropped. `None` if it is the same for all.
    ///
    /// A model that forwards requests to another one must forward this call too.
    fn for_one_agent(&self) -> Option<Arc<dyn Model>> {
        None
    }
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

    fn most_output(&self, options: &ModelOptions) -> Option<u32> {
        (**self).most_output(options)
    }

    fn takes_tokens(&self) -> bool {
        (**self).takes_tokens()
    }

    fn sees_images(&self, model: &str) -> bool {
        (**self).sees_images(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> Option<u64> {
        (**self).count_tokens(model, text)
    }

    fn for_one_agent(&self) -> Option<Arc<dyn Model>> {
        (**self).for_one_agent()
    }
}

const fn _object_safe(_: &dyn Model) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_tokens_ends_at_the_largest_number() {
        let mut sum = Usage { input: u64::MAX, output: 1, ..Usage::default() };
        sum += Usage {
            input: 1,
            cached: 2,
            cache_write: 5,
            output: 3,
            reasoning: 4,
            ..Usage::default()
        };
        let all = Usage {
            input: u64::MAX,
            cached: 2,
            cache_write: 5,
            output: 4,
            reasoning: 4,
            ..Usage::default()
        };
        assert_eq!(sum, all);
    }
}
