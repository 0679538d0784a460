//! The lines of a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::model::{ModelOptions, ToolChoice};
use deputize_core::sanitize::FrameSecret;
use deputize_core::{AgentId, Message, Record, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The format that this program writes, and the newest it reads.
pub(super) const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecordingHeader {
    /// The version of the format. The field's name distinguishes a recording from other files.
    pub(crate) recording: u32,
    pub(crate) program: String,
    pub(crate) session: SessionId,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub(crate) created: u64,
    pub(crate) secret: FrameSecret,
    /// Whether the session had been stored before and was taken up again.
    pub(crate) taken_up: bool,
    /// Data of the program itself.
    #[serde(default)]
    pub(crate) setup: Value,
}

/// Content of a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordingLine {
    Before(Record),
    Record(Record),
    Request(SentRequest),
}

/// Content of one attempt of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentRequest {
    pub(crate) agent: AgentId,
    /// The model as agents name it.
    pub(crate) model: String,
    /// The model as its provider names it.
    pub(crate) at_provider: String,
    /// Hashes of the blocks of the system text.
    pub(crate) system: Vec<String>,
    /// Hash of the tools, as a JSON array.
    pub(crate) tools: String,
    /// Texts of those that no line before it holds, by hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) texts: BTreeMap<String, Arc<str>>,
    /// Number of messages of the agent's last request that also begin this one.
    pub(crate) kept: usize,
    /// The messages after those.
    pub(crate) added: Vec<Arc<Message>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) options: ModelOptions,
}

/// The name of a text: lowercase hex of its SHA-256, as `agent.start` has it.
pub(super) fn hash(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
