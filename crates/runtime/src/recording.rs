//! Recordings: what came from outside while a session ran, so that it can be played again
//! without model, tools, network and files.
//!
//! A recording is JSON lines. The first is the header: the format's version, the program, the
//! session, the time, the secret that frame boundaries are derived from, and what the program
//! keeps there for itself. Every other line is `{"len":L,"crc":"xxxxxxxx","line":{…}}`, where
//! the line is one of
//!
//! - `before`: a record of the session from before it was taken up again,
//! - `record`: a record, as the session file has it: replies, results, answers of the person,
//!   interrupts, times,
//! - `request`: what an attempt sent, before the record `model.request` of its agent. System
//!   text and tools are named by hash; the records `agent.start` hold the texts.
//!
//! A replay lets every agent do again what follows from its inputs alone (the loop, prompts, the
//! planning of delegation) and gives it the recorded inputs in the recorded order. Each request
//! that it would send is compared with the recorded one.

mod compare;
mod error;
mod excerpt;
mod order;
mod play;
mod read;
mod tools;
mod write;

pub(crate) use compare::compare;
pub use error::{RecorderError, RecordingError, ReplayError, ReplayPosition};
pub(crate) use excerpt::said;
pub(crate) use play::{Playback, ReplayEnd};
pub use read::Recording;
pub(crate) use write::RecordingStart;
pub use write::SessionRecorder;

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::model::{ModelOptions, ToolChoice};
use deputize_core::sanitize::FrameSecret;
use deputize_core::{AgentId, Message, Record, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The format that this program writes, and the newest it reads.
const FORMAT: u32 = 1;

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
enum RecordingLine {
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
fn hash(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
