//! What a conversation is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{AgentId, CallId};

/// Text that a model reads. It is a type of its own so that text for the operator (errors,
/// logs) cannot slip into a conversation, nor the other way round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelText(String);

impl ModelText {
    /// Text that this program or a tool's author wrote for the model. Content from
    /// anywhere else goes through [`crate::sanitize::to_model`].
    #[must_use]
    pub fn own(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text itself.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for ModelText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One message of a conversation. The system text is not a message; it stands before them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the person, the caller, or the runtime.
    User(UserMessage),
    /// From the model.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    Tool(ToolResult),
}

/// A message that the model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// What it says.
    pub text: String,
    /// The background child that it reports of, if it does: that makes delivering it once a
    /// property of the fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
}

/// A message that the model wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its text; may be empty.
    pub text: String,
    /// Its reasoning, where the wire shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The calls it asked for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Blocks that go back to the provider byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaqueBlock>,
}

/// A provider's own block (signature, encrypted reasoning), kept as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaqueBlock {
    /// The wire format that understands it.
    pub wire: String,
    /// Its JSON, byte for byte.
    pub raw: String,
    /// The model that made it, as agents name models; the runtime fills it in. Another model
    /// is not sent it, because only its maker can read it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

impl OpaqueBlock {
    /// A block of a wire, as it came.
    #[must_use]
    pub fn new(wire: impl Into<String>, raw: impl Into<String>) -> Self {
        Self { wire: wire.into(), raw: raw.into(), model: String::new() }
    }
}

/// One call that the model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id of it.
    pub id: CallId,
    /// The tool's name as the model wrote it: perhaps no tool's name.
    pub name: String,
    /// The arguments as received: perhaps no JSON.
    pub arguments: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool did its work.
    Ok,
    /// The tool, or the way to it, failed.
    Error,
    /// Policy or the person said no.
    Denied,
    /// It was told to end.
    Cancelled,
}

impl CallStatus {
    /// The word that events and reports use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the model gets for one call: exactly one for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: CallId,
    /// How the call ended.
    pub status: CallStatus,
    /// What the model reads, framed where it is content.
    pub text: ModelText,
    /// First 16 hex digits of the SHA-256 of the bare content: equal results have equal ones,
    /// though each frame is different.
    pub fingerprint: String,
}
