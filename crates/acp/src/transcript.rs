//! The transcript of an external agent: its text, and its tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCallContent, ToolCallStatus, ToolCallUpdate,
};
use deputize_core::CallId;
use deputize_core::external_agent::ExternalAgentHost;
use deputize_core::message::CallStatus;
use deputize_core::truncate::truncate_bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::call_details::{CallDetails, PermissionRequest, block_words};

/// Limit on the stored text of one answer, in bytes.
const TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Limit on calls open at once; further calls are dropped.
const OPEN_CALLS: usize = 1000;

/// Turns the program's updates into calls and text for the host.
pub(crate) struct Transcript {
    host: Arc<dyn ExternalAgentHost>,
    state: Mutex<TranscriptState>,
}

#[derive(Default)]
struct TranscriptState {
    /// Text since the last call.
    text: String,
    /// The last text before that which is not empty.
    before: String,
    /// The answer as it stood when the closing request was sent.
    until_closing: Option<String>,
    /// Whether the closing request was sent.
    closing: bool,
    /// Bytes of text dropped at the limit.
    cut: usize,
    /// Running calls, by the program's own ids.
    open: BTreeMap<String, OpenToolCall>,
    calls: u32,
    /// Number of the current prompt, from 1.
    turn: u32,
}

struct OpenToolCall {
    call: CallId,
    about: CallDetails,
    text: String,
}

/// One update of a call.
struct CallUpdate {
    id: String,
    about: CallDetails,
    status: Option<ToolCallStatus>,
    text: Option<String>,
}

impl Transcript {
    pub(crate) fn new(host: Arc<dyn ExternalAgentHost>) -> Self {
        Self { host, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, TranscriptState> {
        self.state.lock()
    }

    /// Starts a prompt: earlier text is not part of its answer.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        state.turn += 1;
        (state.text, state.before) = (String::new(), String::new());
    }

    /// Starts the closing request; without an answer to it, the earlier answer stands.
    pub(crate) fn close(&self) {
        let until_closing = self.answer();
        self.begin();
        let mut state = self.lock();
        (state.until_closing, state.closing, state.cut) = (until_closing, true, 0);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Returns the answer: the text after the last call, or else the last text.
    pub(crate) fn answer(&self) -> Option<String> {
        let state = self.lock();
        let last = [&state.text, &state.before].into_iter().find(|text| !text.trim().is_empty());
        let Some(last) = last else { return state.until_closing.clone() };
        let mut answer = last.trim().to_owned();
        if state.cut > 0 {
            answer.push_str(&format!("\n[{} more bytes left out]", state.cut));
        }
        Some(answer)
    }

    /// Ends the transcript, and drops calls that are still open.
    pub(crate) fn end(&self) {
        let open = std::mem::take(&mut self.lock().open);
        for call in open.into_values() {
            self.host.on_call_end(
                &call.about.to_call(call.call),
                CallStatus::Cancelled,
                &call.text,
            );
        }
    }

    /// Applies an update.
    pub(crate) fn apply_update(&self, update: SessionUpdate) {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.push_text(&block_words(&chunk.content)),
            SessionUpdate::ToolCall(call) => self.call(CallUpdate::of(&call.into())),
            SessionUpdate::ToolCallUpdate(update) => self.call(CallUpdate::of(&update)),
            // Thoughts, plans, modes and commands are the program's own affair.
            _ => {}
        }
    }

    /// Returns the permission request, merged with the earlier updates of its call.
    pub(crate) fn record_question(&self, update: &ToolCallUpdate) -> PermissionRequest {
        let CallUpdate { id, about, .. } = CallUpdate::of(update);
        let mut state = self.lock();
        match self.merge_update(&mut state, &id, about.clone()) {
            Some(open) => open.about.permission_request(open.call),
            None => about.permission_request(state.next_call()),
        }
    }

    fn push_text(&self, piece: &str) {
        let mut state = self.lock();
        let room = TEXT_BYTES.saturating_sub(state.text.len());
        let kept = truncate_bytes(piece, room);
        state.text.push_str(kept);
        self.host.on_text(kept);
        state.cut += piece.len() - kept.len();
    }

    /// Merges an update into the call of this id, and starts the call if it is new.
    fn merge_update<'s>(
        &self,
        state: &'s mut TranscriptState,
        id: &str,
        about: CallDetails,
    ) -> Option<&'s mut OpenToolCall> {
        if !state.open.contains_key(id) {
            if state.open.len() >= OPEN_CALLS {
                return None;
            }
            let call = state.next_call();
            if !state.text.trim().is_empty() {
                state.before = std::mem::take(&mut state.text);
            }
            self.host.on_call_start(&about.to_call(call));
            state.open.insert(
                id.to_owned(),
                OpenToolCall { call, about: CallDetails::default(), text: String::new() },
            );
        }
        let open = state.open.get_mut(id)?;
        open.about.merge(about);
        Some(open)
    }

    fn call(&self, update: CallUpdate) {
        let mut state = self.lock();
        // An update of a call that has ended changes nothing.
        if !state.open.contains_key(&update.id) && !update.about.begins() {
            return;
        }
        let Some(open) = self.merge_update(&mut state, &update.id, update.about) else { return };
        if let Some(text) = update.text.filter(|text| !text.is_empty()) {
            open.text = text;
        }
        let status = match update.status {
            Some(ToolCallStatus::Completed) => CallStatus::Ok,
            Some(ToolCallStatus::Failed) => CallStatus::Error,
            _ => return,
        };
        if let Some(open) = state.open.remove(&update.id) {
            self.host.on_call_end(&open.about.to_call(open.call), status, &open.text);
        }
    }
}

impl TranscriptState {
    /// Returns the next call id.
    fn next_call(&mut self) -> CallId {
        let call = CallId::new(self.turn, self.calls);
        self.calls += 1;
        call
    }
}

impl CallUpdate {
    fn of(update: &ToolCallUpdate) -> Self {
        let fields = &update.fields;
        let raw =
            |output: &Value| output.as_str().map_or_else(|| output.to_string(), str::to_owned);
        let text = fields.content.as_deref().map(contents).filter(|text| !text.is_empty());
        Self {
            id: update.tool_call_id.to_string(),
            about: CallDetails::of(fields),
            status: fields.status,
            text: text.or_else(|| fields.raw_output.as_ref().map(raw)),
        }
    }
}

fn contents(contents: &[ToolCallContent]) -> String {
    let texts = contents.iter().map(|content| match content {
        ToolCallContent::Content(content) => block_words(&content.content),
        ToolCallContent::Diff(diff) => format!("[a change of {}]", diff.path.display()),
        _ => "[a terminal]".to_owned(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
