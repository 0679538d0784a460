//! Events as JSON lines: `--output events` and exported sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::FurtherTask;
use deputize_core::budget::{Cost, shown_usd};
use deputize_core::compaction::Compaction;
use deputize_core::cut_result::CutResult;
use deputize_core::event::{AgentStart, RequestPurpose, SessionStart, ToolEnd};
use deputize_core::hook::HookRun;
use deputize_core::message::UserMessage;
use deputize_core::model::{Delta, FailureKind, Finish, ModelError, Reply, Usage};
use deputize_core::process::ProcessEnd;
use deputize_core::truncate::truncate_strings;
use deputize_core::{AgentId, CallId, Event, Outcome, Record, Status};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::line::{AgentStartBody, EventBody, EventCall, EventLine, EventTokens};
use super::child_frames::{children_unframed, delivery_unframed};
use super::{preview, to_json_line};
use crate::task::attachment::words_of;

mod line;

/// The version of the lines; it changes when a reader of the old ones would be wrong.
const VERSION: u8 = 1;
/// Bytes of one call's arguments; longer ones become a preview.
const ARGS_BYTES: usize = 4096;

/// Turns records into lines. It keeps the texts of earlier records, because a record names a
/// prompt's parts by hash; beside that, a line depends on its record alone.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    texts: BTreeMap<String, Arc<str>>,
    prompt_layout: Option<&'static str>,
}

impl Projection {
    /// For a session whose children's prompts have this layout, if that is known.
    pub(crate) fn new(prompt_layout: Option<&'static str>) -> Self {
        Self { texts: BTreeMap::new(), prompt_layout }
    }

    /// Applies an earlier record without producing a line.
    pub(crate) fn know(&mut self, record: &Record) {
        if let Event::AgentStart(start) = &record.event {
            self.texts.extend(start.texts.iter().map(|(hash, text)| (hash.clone(), text.clone())));
        }
    }

    /// The line of a record, without a line's end.
    pub(crate) fn line(&mut self, record: &Record) -> Result<String, serde_json::Error> {
        self.know(record);
        let (agent, parent, depth) = subject(record);
        to_json_line(&EventLine {
            v: VERSION,
            seq: Some(record.seq),
            at: time(record.at),
            session: session_of(&record.agent),
            agent: agent.as_str(),
            parent: parent.map(AgentId::as_str),
            depth,
            body: self.body(&record.event),
        })
    }

    fn body<'r>(&self, event: &'r Event) -> EventBody<'r> {
        match event {
            Event::SessionStart(start) => session_start(start),
            Event::AgentStart(start) => self.agent_start(start),
            Event::Message(message) => message_body(message),
            Event::MessageLeft { text, sources } => {
                EventBody::MessageLeft { bytes: text.len(), preview: preview(text), sources }
            }
            Event::ExternalText { text } => external_text(text),
            Event::ModelRequest { iteration, messages, bytes, purpose, .. } => {
                model_request(*iteration, *messages, *bytes, *purpose)
            }
            Event::ModelResponse { iteration, reply, ms, cost_usd, estimated } => {
                model_response(*iteration, reply, *ms, *cost_usd, *estimated)
            }
            Event::ModelError { error, cost, .. } => model_error(error, *cost),
            Event::ModelRetry { attempt, of, reason, wait_ms } => {
                EventBody::ModelRetry { attempt: *attempt, of: *of, reason, wait_ms: *wait_ms }
            }
            Event::ToolStart { call, tool, arguments } => {
                EventBody::ToolStart { call: *call, tool, args_preview: preview(arguments) }
            }
            Event::ToolEnd(end) => tool_end(end),
            Event::ProcessStart(start) => EventBody::ProcessStart(start),
            Event::ProcessEnd(end) => process_end(end),
            Event::ApprovalRequest { call, command, class, reason } => {
                EventBody::ApprovalRequest { call: *call, command, class, reason }
            }
            Event::ApprovalDecision { call, decision, by } => {
                EventBody::ApprovalDecision { call: *call, decision, by }
            }
            Event::Hook(run) => hook(run),
            Event::FileRead { path, version } => {
                EventBody::FileRead { path: path.to_string_lossy(), version }
            }
            Event::FileWrite { path, version, created } => {
                EventBody::FileWrite { path: path.to_string_lossy(), version, created: *created }
            }
            Event::Compaction(it) => compaction(it),
            Event::ResultsCut { results } => results_cut(results),
            Event::AnswerRejected { mistakes } => EventBody::AnswerRejected { mistakes },
            Event::AgentRest => EventBody::AgentRest,
            &Event::AgentHeartbeat { iteration, ref current_tool, idle_ms, stalled } => {
                let current_tool = current_tool.as_deref();
                EventBody::AgentHeartbeat { iteration, current_tool, idle_ms, stalled }
            }
            Event::SpawnPaused { by, paused } => EventBody::SpawnPaused { by, paused: *paused },
            Event::AgentWrapUp { limit, budget } => {
                EventBody::AgentWrapUp { limit: *limit, budget: *budget }
            }
            &Event::AgentStop { ref reason, pending } => EventBody::AgentStop { reason, pending },
            Event::AgentResume { max_iterations, task } => {
                agent_resume(*max_iterations, task.as_ref())
            }
            Event::AgentEnd(outcome) => agent_end(outcome),
            Event::Log { level, message, .. } => EventBody::Log { level, message },
            Event::SessionEnd { status, exit_code, usage, cost_usd } => {
                session_end(*status, *exit_code, *usage, *cost_usd)
            }
        }
    }

    fn agent_start<'r>(&self, start: &'r AgentStart) -> EventBody<'r> {
        let spec = &start.spec;
        let by = spec.spawned_by.as_ref();
        EventBody::AgentStart(Box::new(AgentStartBody {
            goal: &spec.goal,
            role: spec.role.as_str(),
            profile: spec.profile.as_deref(),
            model: &spec.model,
            toolsets: spec.toolsets.iter().map(|name| name.as_str()).collect(),
            tools: spec.tools.iter().map(|name| name.as_str()).collect(),
            task_index: by.map(|by| by.task_index),
            task_count: by.map(|by| by.task_count),
            tool_call: by.map(|by| by.call),
            context: spec.context.as_deref(),
            history: spec.is_fork.then_some("fork"),
            workspace: spec.cwd.to_string_lossy(),
            output_schema: spec.output_schema.as_ref(),
            max_iterations: spec.limits.max_iterations,
            prompt_layout: self.prompt_layout.filter(|_| by.is_some()),
            prompt_sha256: self.prompt_sha256(&start.system),
        }))
    }

    /// Returns the hash of the whole system text, its blocks joined as they are sent; `None` if a
    /// block is unknown.
    fn prompt_sha256(&self, blocks: &[String]) -> Option<String> {
        let mut hash = Sha256::new();
        for (place, block) in blocks.iter().enumerate() {
            if place > 0 {
                hash.update("\n\n");
            }
            hash.update(self.texts.get(block)?.as_bytes());
        }
        Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Returns the agent that a line is about: the record's own, or the child whose end it receives.
fn subject(record: &Record) -> (&AgentId, Option<&AgentId>, u32) {
    match &record.event {
        Event::Message(UserMessage { from: Some(end), .. }) => {
            (&end.child, Some(&record.agent), record.depth + 1)
        }
        _ => (&record.agent, record.parent.as_ref(), record.depth),
    }
}

/// Returns the line for a streamed piece of a reply, if there is something to show. It has no
/// number, since it is not a record.
pub(crate) fn delta_line(
    agent: &AgentId,
    at: u64,
    delta: Delta<'_>,
) -> Option<Result<String, serde_json::Error>> {
    let body = match delta {
        Delta::Text(text) => EventBody::Delta { text: Some(text), reasoning: None },
        Delta::Reasoning(text) => EventBody::Delta { text: None, reasoning: Some(text) },
        Delta::Call(_) => return None,
    };
    Some(unstored_line(agent, at, body))
}

/// Returns the line for a running call's progress. It has no number, since it is not a record.
pub(crate) fn progress_line(
    agent: &AgentId,
    at: u64,
    call: CallId,
    text: &str,
) -> Result<String, serde_json::Error> {
    unstored_line(agent, at, EventBody::Progress { call, text })
}

fn unstored_line(
    agent: &AgentId,
    at: u64,
    body: EventBody<'_>,
) -> Result<String, serde_json::Error> {
    let id = agent.as_str();
    to_json_line(&EventLine {
        v: VERSION,
        seq: None,
        at: time(at),
        session: session_of(agent),
        agent: id,
        parent: id.rsplit_once('/').map(|(parent, _)| parent),
        depth: u32::try_from(id.matches('/').count()).unwrap_or(u32::MAX),
        body,
    })
}

/// Formats Unix milliseconds as RFC 3339.
pub(crate) fn time(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", at.unwrap_or(Timestamp::MAX))
}

fn session_of(agent: &AgentId) -> &str {
    agent.as_str().split('/').next().unwrap_or_default()
}

fn session_start(start: &SessionStart) -> EventBody<'_> {
    let cwd = start.cwd.to_string_lossy();
    EventBody::SessionStart { cwd, model: &start.model, toolsets: &start.toolsets }
}

fn process_end(end: &ProcessEnd) -> EventBody<'_> {
    EventBody::ProcessEnd {
        process: &end.process,
        command: &end.command,
        exit: end.exit,
        ms: end.ms,
        output_bytes: end.output_bytes,
        notifies: end.message.is_some(),
    }
}

fn message_body(message: &UserMessage) -> EventBody<'_> {
    let bytes = message.text.len();
    let sources = &message.sources;
    match message.from {
        Some(_) => {
            let preview = preview(&delivery_unframed(&message.text));
            EventBody::ChildDelivered { bytes, preview, sources }
        }
        None => EventBody::Message { bytes, preview: preview(words_of(&message.text)), sources },
    }
}

fn agent_resume(max_iterations: u32, task: Option<&FurtherTask>) -> EventBody<'_> {
    let goal = task.map(|task| task.goal.as_str());
    EventBody::AgentResume { max_iterations, goal, tool_call: task.map(|task| task.call) }
}

fn session_end(
    status: Status,
    exit_code: u8,
    usage: Usage,
    cost_usd: Option<f64>,
) -> EventBody<'static> {
    let status = status.as_str();
    let usage = EventTokens::from(usage);
    let cost_usd = cost_usd.map(shown_usd);
    EventBody::SessionEnd { status, exit_code, usage, cost_usd }
}

fn model_request<'r>(
    iteration: u32,
    messages: u64,
    bytes: u64,
    purpose: RequestPurpose,
) -> EventBody<'r> {
    let purpose = (purpose == RequestPurpose::Summary).then_some("summary");
    EventBody::ModelRequest { iteration, messages, bytes, purpose }
}

fn model_response(
    iteration: u32,
    reply: &Reply,
    ms: u64,
    cost_usd: Option<f64>,
    estimated: bool,
) -> EventBody<'_> {
    let call = |(slot, raw): (u32, &'_ deputize_core::model::RawCall)| EventCall {
        id: CallId::new(iteration, slot),
        name: raw.name.clone(),
        args: arguments(&raw.arguments),
    };
    EventBody::ModelResponse {
        iteration,
        model: &reply.model,
        outcome: outcome_of(reply),
        text: &reply.text,
        tool_calls: (0..).zip(&reply.calls).map(call).collect(),
        usage: EventTokens::from(reply.usage),
        estimated,
        cost_usd: cost_usd.map(shown_usd),
        ms,
    }
}

fn outcome_of(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Refused | Finish::Undone => "refused",
        Finish::Length | Finish::Paused => "truncated",
        Finish::Stop if !reply.calls.is_empty() => "tool_calls",
        Finish::Stop if reply.text.trim().is_empty() => "empty",
        Finish::Stop => "final",
    }
}

/// Arguments as JSON, with long strings as previews; what is no JSON, or is still too long, is
/// a preview as a whole.
fn arguments(raw: &str) -> Value {
    let Ok(mut value) = serde_json::from_str(raw) else { return Value::String(preview(raw)) };
    if raw.len() > ARGS_BYTES {
        truncate_strings(&mut value, preview);
        if value.to_string().len() > ARGS_BYTES {
            return Value::String(preview(raw));
        }
    }
    value
}

fn model_error(error: &ModelError, cost: Option<Cost>) -> EventBody<'_> {
    let kind = match error.kind {
        FailureKind::Transient => "transient",
        FailureKind::Incomplete | FailureKind::Cancelled => "incomplete",
        FailureKind::ContextOverflow => "context_overflow",
        FailureKind::Unavailable | FailureKind::Fatal => "fatal",
    };
    EventBody::ModelError {
        kind,
        status: error.status,
        message: &error.message,
        partial_bytes: error.partial_bytes(),
        input_tokens: error.usage.as_deref().map(|usage| usage.input),
        output_tokens: error.usage.as_deref().map(|usage| usage.output),
        estimated: error.estimated,
        cost_usd: cost.and_then(|cost| cost.known_usd()).map(shown_usd),
    }
}

fn compaction(compaction: &Compaction) -> EventBody<'_> {
    let request = &compaction.request;
    EventBody::Compaction {
        messages: compaction.part.count(),
        bytes_before: compaction.bytes_before,
        bytes_after: compaction.bytes_after,
        path: compaction.path.to_string_lossy(),
        model: &request.model,
        usage: EventTokens::from(request.usage),
        estimated: request.estimated,
        cost_usd: request.cost_usd.map(shown_usd),
        ms: request.ms,
    }
}

fn results_cut(results: &[CutResult]) -> EventBody<'_> {
    let bytes = results.iter().map(|result| result.left_out).sum();
    EventBody::ResultsCut { results: results.len(), bytes }
}

fn external_text(text: &str) -> EventBody<'_> {
    EventBody::ExternalText { bytes: text.len(), preview: preview(text) }
}

fn tool_end(end: &ToolEnd) -> EventBody<'_> {
    EventBody::ToolEnd {
        call: end.result.call,
        tool: &end.tool,
        status: end.result.status.as_str(),
        ms: end.ms,
        result_bytes: end.result.text.as_str().len(),
        sources: &end.result.sources,
        preview: preview(
            &children_unframed(&end.content()).unwrap_or_else(|| end.content().into()),
        ),
    }
}

fn hook(run: &HookRun) -> EventBody<'_> {
    EventBody::Hook {
        name: run.name.as_str(),
        by: &run.by,
        call: run.call,
        tool: run.tool.as_deref(),
        child: run.child.as_ref().map(AgentId::as_str),
        decision: run.decision.as_str(),
        reason: &run.reason,
        ms: run.ms,
        output_bytes: run.output_bytes,
    }
}

fn agent_end(outcome: &Outcome) -> EventBody<'_> {
    let denied = |trace: &&deputize_core::outcome::ToolTrace| trace.status.as_str() == "denied";
    EventBody::AgentEnd {
        status: outcome.status.as_str(),
        exit_reason: outcome.exit_reason.as_str(),
        summary_bytes: outcome.text.as_deref().map_or(0, str::len),
        usage: EventTokens::from(outcome.tree_usage()),
        cost_usd: outcome.cost_usd.map(shown_usd),
        tool_calls: outcome.trace.len(),
        denied_tool_calls: outcome.trace.iter().filter(denied).count(),
        files_written: outcome
            .receipts
            .files_written
            .keys()
            .map(|it| it.to_string_lossy())
            .collect(),
        duration_ms: outcome.duration_ms,
        session_path: outcome.session_path.as_deref().map(Path::to_string_lossy),
    }
}

#[cfg(test)]
mod tests;
