//! Turns the records of a session into updates for an editor, without IO.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, ImageContent, MessageId, SessionUpdate, ToolCallContent,
    ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use deputize_core::event::{AgentStart, LogLevel, RequestPurpose, ToolEnd};
use deputize_core::image::Image;
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::model::{Delta, ModelError, Reply};
use deputize_core::run::{BudgetUnit, WrapUpReason};
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, CallId, Event, Record};
use deputize_runtime::SessionSnapshot;

use super::call_view::{self, CallView, update};
use super::child_view::{ChildView, child_title};
use super::prompt::blocks_of;
use super::session_host::SessionFacts;

/// Limit on a remark, in characters.
const REMARK_CHARS: usize = 300;

/// Turns records into updates. The snapshot has the state of the session; the other fields have
/// what the editor received.
#[derive(Debug)]
pub(crate) struct SessionUpdates {
    facts: SessionFacts,
    session: SessionSnapshot,
    root: AgentId,
    /// Whether this is history: it includes the person's messages, and no progress.
    past: bool,
    /// Whether a turn has begun.
    begun: bool,
    /// The person's first words, and the whole message around them.
    opened: Option<(String, String)>,
    reply: StreamedReply,
    /// Calls that the editor shows as running.
    open: BTreeMap<(AgentId, CallId), CallView>,
    children: BTreeMap<AgentId, ChildView>,
}

/// A call that a person is asked about.
#[derive(Debug)]
pub(crate) struct ApprovalUpdate {
    pub(crate) id: String,
    pub(crate) kind: ToolKind,
    /// The title of the child that makes it; empty for the top agent.
    pub(crate) whose: String,
    /// An update that the editor needs first.
    pub(crate) announcement: Option<SessionUpdate>,
}

/// What the editor received of the reply under way.
#[derive(Debug, Default)]
struct StreamedReply {
    /// The record number of its request.
    request: u64,
    has_text: bool,
    has_reasoning: bool,
    /// The text of the last attempt that broke off.
    broken: String,
}

impl SessionUpdates {
    pub(crate) fn new(facts: &SessionFacts) -> Self {
        Self {
            facts: facts.clone(),
            session: SessionSnapshot::new(Arc::clone(&facts.catalog)),
            root: AgentId::root(&facts.id),
            past: false,
            begun: false,
            opened: None,
            reply: StreamedReply::default(),
            open: BTreeMap::new(),
            children: BTreeMap::new(),
        }
    }

    /// Starts a turn, and returns whether it is the first.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Returns the updates of a stored session.
    pub(crate) fn of_past(facts: &SessionFacts, records: &[Record]) -> Vec<SessionUpdate> {
        let mut session_updates = Self { past: true, ..Self::new(facts) };
        let mut updates: Vec<_> =
            records.iter().flat_map(|record| session_updates.add_record(record)).collect();
        updates.extend(session_updates.end());
        updates
    }

    /// Returns the updates for a record.
    pub(crate) fn add_record(&mut self, record: &Record) -> Vec<SessionUpdate> {
        self.session.apply(record);
        if record.agent == self.root { self.of_root(record) } else { self.of_child(record) }
    }

    /// Returns the update for a streamed piece of a reply.
    pub(crate) fn piece(&mut self, agent: &AgentId, delta: Delta<'_>) -> Option<SessionUpdate> {
        if *agent != self.root {
            return None;
        }
        Some(match delta {
            Delta::Text(text) => {
                self.reply.has_text = true;
                self.text_update(text)
            }
            Delta::Reasoning(text) => {
                self.reply.has_reasoning = true;
                self.thought(text)
            }
            Delta::Call(_) => return None,
        })
    }

    /// Keeps the progress text of a running call for the next tick.
    pub(crate) fn progress(&mut self, agent: &AgentId, call: CallId, text: &str) {
        if let Some(child) = self.children.get_mut(agent) {
            child.calls(text.to_owned());
        } else if let Some(call) = self.open.get_mut(&(agent.clone(), call)) {
            call.progress = Some(for_terminal_line(text, REMARK_CHARS));
        }
    }

    /// Returns the pending progress of calls and children.
    pub(crate) fn tick(&mut self) -> Vec<SessionUpdate> {
        let calls = self.open.values_mut().filter_map(|call| {
            let content = vec![ToolCallContent::from(call.progress.take()?)];
            Some(update(call.id.clone(), ToolCallUpdateFields::new().content(content)))
        });
        let session = &self.session;
        let children = self.children.iter_mut();
        let notes = children.filter_map(|(id, child)| child.tick(ended_calls(session, id)));
        calls.chain(notes).collect()
    }

    /// Ends the turn, and everything that the editor shows as running.
    pub(crate) fn end(&mut self) -> Vec<SessionUpdate> {
        let open = std::mem::take(&mut self.open);
        let calls = open.into_values().map(|call| call.id);
        let children = self.children.values_mut().filter_map(ChildView::leave);
        calls.chain(children).map(failed_call).collect()
    }

    fn of_root(&mut self, record: &Record) -> Vec<SessionUpdate> {
        match &record.event {
            Event::AgentStart(start) => self.opened = Some(opening_call(start)),
            Event::Message(message) => return self.message(message),
            Event::ModelRequest { purpose: RequestPurpose::Turn, .. } => {
                let broken = std::mem::take(&mut self.reply.broken);
                let request = record.seq;
                self.reply = StreamedReply { request, broken, ..StreamedReply::default() };
            }
            Event::ModelResponse { iteration, reply, .. } => {
                return self.reply_updates(*iteration, reply);
            }
            Event::ModelError { error, retried, .. } => return self.broke(error, *retried),
            Event::ModelRetry { attempt, of, reason, wait_ms } => {
                let reason = for_terminal_line(reason, REMARK_CHARS);
                let seconds = wait_ms.div_ceil(1000);
                return self.remark(&format!("Attempt {attempt} of {of} in {seconds} s: {reason}"));
            }
            Event::Compaction(compaction) => {
                let count = compaction.part.count();
                return self.remark(&format!(
                    "A summary stands for {count} earlier messages, because the model's context \
                     was nearly full."
                ));
            }
            Event::AgentWrapUp { limit, budget } => {
                let limit = match (limit, budget) {
                    (WrapUpReason::Time, _) => "The time is up",
                    (WrapUpReason::Budget, None) => "The budget has no room for more",
                    (WrapUpReason::Budget, Some(BudgetUnit::Seconds)) => {
                        "The time that all children have together is up"
                    }
                    (WrapUpReason::Budget, Some(BudgetUnit::Tokens)) => {
                        "The budget has no tokens for more"
                    }
                    (WrapUpReason::Budget, Some(BudgetUnit::Usd)) => {
                        "The budget has no dollars for more"
                    }
                };
                return self.remark(&format!("{limit}: requesting a closing answer."));
            }
            Event::Log { level, message, .. } if *level >= LogLevel::Warn => {
                return self.remark(&for_terminal_line(message, REMARK_CHARS));
            }
            Event::ToolStart { call, tool, arguments } => {
                return self.call_start_updates(record, *call, tool, arguments);
            }
            Event::ToolEnd(end) => return self.call_end_update(record, end).into_iter().collect(),
            _ => {}
        }
        Vec::new()
    }

    fn of_child(&mut self, record: &Record) -> Vec<SessionUpdate> {
        if let Event::AgentStart(start) = &record.event {
            return self.child_starts(record, start);
        }
        let Some(child) = self.children.get_mut(&record.agent) else { return Vec::new() };
        let ended = ended_calls(&self.session, &record.agent);
        match &record.event {
            Event::ToolStart { call, .. } => {
                let agent = self.session.agent(&record.agent);
                let running = agent.and_then(|agent| agent.calls.running(*call));
                child.calls(running.map(|call| call.text.clone()).unwrap_or_default());
                let known = self.open.contains_key(&(record.agent.clone(), *call));
                let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                let update = known.then(|| update(call_id(&record.agent, *call), fields));
                update.into_iter().collect()
            }
            Event::ToolEnd(end) => {
                let progress = child.record_call(ended).filter(|_| !self.past);
                // Only a call that was asked for is told of by itself.
                let own = self.call_end_update(record, end);
                progress.into_iter().chain(own).collect()
            }
            Event::AgentResume { .. } => child.goes_on().into_iter().collect(),
            Event::AgentEnd(outcome) => child.ends(outcome, ended).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn child_starts(&mut self, record: &Record, start: &AgentStart) -> Vec<SessionUpdate> {
        let above = record.parent.as_ref().and_then(|parent| self.children.get(parent));
        let child = ChildView::new(short(&record.agent), &start.spec, above);
        let update = child.update(self.title(&record.agent));
        self.children.insert(record.agent.clone(), child);
        vec![update]
    }

    /// Returns the title of a child.
    fn title(&self, id: &AgentId) -> String {
        let child = self.session.agent(id);
        child.map(|child| child_title(&self.session, child)).unwrap_or_default()
    }

    fn message(&self, message: &UserMessage) -> Vec<SessionUpdate> {
        // What the person just said the editor shows by itself; what a child reports, it has seen.
        if !self.past || message.from.is_some() {
            return Vec::new();
        }
        let text = match &self.opened {
            Some((request, whole)) if *whole == message.text => request,
            _ => &message.text,
        };
        let image = |image: &Image| {
            ContentBlock::Image(ImageContent::new(image.base64(), image.format().media_type()))
        };
        let blocks = blocks_of(text).into_iter().chain(message.images.iter().map(image));
        blocks.map(|block| SessionUpdate::UserMessageChunk(ContentChunk::new(block))).collect()
    }

    /// Records a failed attempt. The editor keeps what it saw of the last one.
    fn broke(&mut self, error: &ModelError, retried: bool) -> Vec<SessionUpdate> {
        if !error.partial.trim().is_empty() {
            self.reply.broken.clone_from(&error.partial);
        }
        if retried {
            return Vec::new();
        }
        let text = std::mem::take(&mut self.reply.broken);
        let is_shown = self.past && !text.is_empty();
        is_shown.then(|| self.text_update(&text)).into_iter().collect()
    }

    fn reply_updates(&mut self, iteration: u32, reply: &Reply) -> Vec<SessionUpdate> {
        self.reply.broken.clear();
        let mut updates = Vec::new();
        if !self.reply.has_reasoning && !reply.reasoning.is_empty() {
            updates.push(self.thought(&reply.reasoning));
        }
        if !self.reply.has_text && !reply.text.is_empty() {
            updates.push(self.text_update(&reply.text));
        }
        for (slot, raw) in (0..).zip(&reply.calls) {
            let id = CallId::new(iteration, slot);
            let agent = self.root.clone();
            updates.push(self.announce(&agent, id, &raw.name, &raw.arguments));
        }
        updates
    }

    fn announce(
        &mut self,
        agent: &AgentId,
        id: CallId,
        tool: &str,
        arguments: &str,
    ) -> SessionUpdate {
        let below = self.children.get(agent).map(|child| child.id().to_owned());
        let mut call = CallView::new(call_id(agent, id), tool, arguments, &self.facts);
        call.below = below;
        let update = SessionUpdate::ToolCall(call.update(ToolCallStatus::Pending));
        self.open.insert((agent.clone(), id), call);
        update
    }

    /// Returns the call in question, its agent's title, and the update that introduces it: editors
    /// do not know the calls of children.
    pub(crate) fn question(&mut self, agent: &AgentId, id: CallId, tool: &str) -> ApprovalUpdate {
        let key = (agent.clone(), id);
        let announcement =
            (!self.open.contains_key(&key)).then(|| self.announce(agent, id, tool, ""));
        let kind = self.open.get(&key).map(|call| call.kind).unwrap_or_default();
        let whose =
            if self.children.contains_key(agent) { self.title(agent) } else { String::new() };
        ApprovalUpdate { id: call_id(agent, id), kind, whose, announcement }
    }

    fn call_start_updates(
        &mut self,
        record: &Record,
        id: CallId,
        tool: &str,
        arguments: &str,
    ) -> Vec<SessionUpdate> {
        let key = (record.agent.clone(), id);
        let mut updates = Vec::new();
        // A call that a crash cut off runs again in another process, which was told of none.
        if !self.open.contains_key(&key) {
            updates.push(self.announce(&record.agent, id, tool, arguments));
        }
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        updates.push(update(call_id(&record.agent, id), fields));
        updates
    }

    fn call_end_update(&mut self, record: &Record, end: &ToolEnd) -> Option<SessionUpdate> {
        let id = end.result.call;
        let call = self.open.remove(&(record.agent.clone(), id))?;
        let status = match end.result.status {
            CallStatus::Ok => ToolCallStatus::Completed,
            CallStatus::Error | CallStatus::Denied | CallStatus::Cancelled => {
                ToolCallStatus::Failed
            }
        };
        let fields =
            ToolCallUpdateFields::new().status(status).content(call_view::content(end, &call));
        let fields = match call_view::places(end) {
            places if places.is_empty() => fields,
            places => fields.locations(places),
        };
        Some(update(call.id, fields))
    }

    fn text_update(&self, text: &str) -> SessionUpdate {
        SessionUpdate::AgentMessageChunk(chunk(text).message_id(self.message_id("m")))
    }

    fn thought(&self, text: &str) -> SessionUpdate {
        SessionUpdate::AgentThoughtChunk(chunk(text).message_id(self.message_id("t")))
    }

    /// Returns a message id; each attempt is a message of its own.
    fn message_id(&self, kind: &str) -> MessageId {
        MessageId::new(format!("{kind}{}", self.reply.request))
    }

    /// Returns a remark of the program as a thought, since it is not part of the answer.
    fn remark(&self, text: &str) -> Vec<SessionUpdate> {
        if self.past {
            return Vec::new();
        }
        vec![SessionUpdate::AgentThoughtChunk(chunk(&format!("\n[{text}]\n")))]
    }
}

/// Returns how many calls of an agent have ended.
fn ended_calls(session: &SessionSnapshot, id: &AgentId) -> usize {
    session.agent(id).map_or(0, |agent| agent.calls.ended)
}

fn opening_call(start: &AgentStart) -> (String, String) {
    (start.spec.request().to_owned(), start.spec.task.clone())
}

pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text.to_owned()))
}

fn failed_call(id: String) -> SessionUpdate {
    update(id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed))
}

/// Returns an agent's short id: `1.0.0` is the first task of the top agent's call `call_1_0`.
fn short(agent: &AgentId) -> String {
    agent.as_str().split_once('/').map(|(_, path)| path.to_owned()).unwrap_or_default()
}

/// Returns a call id that is unique in the session.
pub(crate) fn call_id(agent: &AgentId, call: CallId) -> String {
    match short(agent).as_str() {
        "" => call.to_string(),
        path => format!("{path}/{call}"),
    }
}

#[cfg(test)]
mod tests;
