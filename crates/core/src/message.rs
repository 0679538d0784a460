//! Messages, the elements of a conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::name::{CallId, ChildEndId};
use crate::source::Source;
use crate::source_set::SourceSet;

/// Text that a model reads. A separate type, so that text for the operator (errors, logs) cannot
/// end up in a conversation or the other way round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelText(String);

impl ModelText {
    /// Wraps text that this program or a tool's author wrote for the model. Content from anywhere
    /// else goes through [`crate::sanitize::frame_for_model`].
    #[must_use]
    pub fn own(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as an owned string.
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

/// A message of a conversation. The system text is not a message; it precedes them.
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

impl Message {
    /// Returns the images that a model sees with it.
    #[must_use]
    pub fn images(&self) -> &[Image] {
        match self {
            Self::User(user) => &user.images,
            Self::Tool(result) => &result.images,
            Self::Assistant(_) => &[],
        }
    }

    /// Returns the sources of what the model did not write; none if they are unknown.
    #[must_use]
    pub fn sources(&self) -> &SourceSet {
        const NONE: &SourceSet = &SourceSet::new();
        match self {
            Self::User(user) => &user.sources,
            Self::Tool(result) => &result.sources,
            Self::Assistant(_) => NONE,
        }
    }

    /// Returns the bytes of its text, with its calls and what goes back to the provider. Images
    /// count as the text that takes as many tokens.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        let bytes = match self {
            Self::User(user) => user.text.len(),
            Self::Assistant(said) => {
                let calls = said.calls.iter().map(|call| call.name.len() + call.arguments.len());
                let opaque = said.opaque.iter().map(|block| block.raw.len());
                said.text.len() + said.reasoning.len() + calls.chain(opaque).sum::<usize>()
            }
            Self::Tool(result) => result.text.as_str().len(),
        };
        bytes as u64 + self.images().iter().map(Image::text_bytes).sum::<u64>()
    }
}

/// A message that the model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// The end of a background child that it reports, if any. The agent loop uses it to deliver
    /// each report exactly once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ChildEndId>,
    /// Images that the model sees with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Who said what is in it; empty if that is unknown, as in older records.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
}

impl UserMessage {
    /// Creates a message with only text, of unknown sources.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), from: None, images: Vec::new(), sources: SourceSet::new() }
    }

    /// Returns the same with these sources.
    #[must_use]
    pub fn with_sources(self, sources: impl IntoIterator<Item = Source>) -> Self {
        Self { sources: sources.into_iter().collect(), ..self }
    }
}

/// A message that the model wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its text; may be empty.
    pub text: String,
    /// Its reasoning, where the wire format shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The requested calls, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Blocks that are sent back to the provider byte for byte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opaque: Vec<OpaqueBlock>,
}

/// A provider-specific block (signature, encrypted reasoning), stored as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpaqueBlock {
    /// The wire format that understands it.
    pub wire: String,
    /// Its JSON, byte for byte.
    pub raw: String,
    /// The model that produced it, as agents name models; filled in by the runtime. It is not sent
    /// to other models, because only its producer can read it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

impl OpaqueBlock {
    /// Creates a block of a wire format, as received.
    #[must_use]
    pub fn new(wire: impl Into<String>, raw: impl Into<String>) -> Self {
        Self { wire: wire.into(), raw: raw.into(), model: String::new() }
    }
}

/// A call that the model requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The ID that this program gave it.
    pub id: CallId,
    /// The tool name as the model wrote it; there may be no such tool.
    pub name: String,
    /// The arguments as received; may not be valid JSON.
    pub arguments: String,
}

impl ToolCall {
    /// Returns whether the call could not be parsed where it came from: it names no tool, and its
    /// arguments are the text that the model wrote instead of a call.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        names_no_tool(&self.name)
    }
}

/// Returns whether a call with this name names no tool.
pub(crate) fn names_no_tool(name: &str) -> bool {
    name.trim().is_empty()
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool succeeded.
    Ok,
    /// The tool failed or could not be called.
    Error,
    /// The policy or the person denied it.
    Denied,
    /// It was cancelled.
    Cancelled,
}

impl CallStatus {
    /// Returns the name used in events and reports.
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

/// The result of a call for the model; each call has exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: CallId,
    /// How the call ended.
    pub status: CallStatus,
    /// The text for the model; foreign content is framed.
    pub text: ModelText,
    /// First 16 hexadecimal digits of the SHA-256 of the content without its frame, so that equal
    /// results have equal fingerprints although frames differ.
    pub fingerprint: String,
    /// Images that the model sees with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Who said what is in it; empty if that is unknown, as in older records.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
}

impl ToolResult {
    /// Creates a result in the host's own words.
    #[must_use]
    pub fn host(call: CallId, status: CallStatus, text: impl Into<String>) -> Self {
        Self {
            call,
            status,
            text: ModelText::own(text),
            fingerprint: String::new(),
            images: Vec::new(),
            sources: [Source::host()].into(),
        }
    }
}
