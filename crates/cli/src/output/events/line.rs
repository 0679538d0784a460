//! The shape of the lines: which fields each type has, by the names that readers know.

use std::borrow::Cow;

use deputize_core::event::LogLevel;
use deputize_core::file_state::FileVersion;
use deputize_core::model::Usage;
use deputize_core::process::{ProcessExit, ProcessStart};
use deputize_core::run::{BudgetUnit, WrapUpReason};
use deputize_core::source_set::SourceSet;
use deputize_core::{CallId, CancelReason};
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub(super) struct EventLine<'r> {
    pub(super) v: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
    pub(super) at: String,
    pub(super) session: &'r str,
    pub(super) agent: &'r str,
    pub(super) parent: Option<&'r str>,
    pub(super) depth: u32,
    #[serde(flatten)]
    pub(super) body: EventBody<'r>,
}

#[derive(Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "the names of the fields are those that readers of the lines know"
)]
pub(super) struct EventTokens {
    pub(super) input_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) reasoning_tokens: u64,
}

impl From<Usage> for EventTokens {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            reasoning_tokens: usage.reasoning,
        }
    }
}

#[derive(Serialize)]
pub(super) struct EventCall {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) args: Value,
}

#[derive(Serialize)]
pub(super) struct AgentStartBody<'r> {
    pub(super) goal: &'r str,
    pub(super) role: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<&'r str>,
    pub(super) model: &'r str,
    pub(super) toolsets: Vec<&'r str>,
    pub(super) tools: Vec<&'r str>,
    pub(super) task_index: Option<u32>,
    pub(super) task_count: Option<u32>,
    pub(super) tool_call: Option<CallId>,
    pub(super) context: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<&'static str>,
    pub(super) workspace: Cow<'r, str>,
    pub(super) output_schema: Option<&'r Value>,
    pub(super) max_iterations: u32,
    pub(super) prompt_layout: Option<&'static str>,
    pub(super) prompt_sha256: Option<String>,
}

/// The fields of each type of line.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum EventBody<'r> {
    #[serde(rename = "session.start")]
    SessionStart { cwd: Cow<'r, str>, model: &'r str, toolsets: &'r [String] },
    #[serde(rename = "agent.start")]
    AgentStart(Box<AgentStartBody<'r>>),
    #[serde(rename = "message")]
    Message {
        bytes: usize,
        preview: String,
        #[serde(skip_serializing_if = "SourceSet::is_empty")]
        sources: &'r SourceSet,
    },
    #[serde(rename = "message.left")]
    MessageLeft {
        bytes: usize,
        preview: String,
        #[serde(skip_serializing_if = "SourceSet::is_empty")]
        sources: &'r SourceSet,
    },
    #[serde(rename = "external.text")]
    ExternalText { bytes: usize, preview: String },
    #[serde(rename = "model.request")]
    ModelRequest {
        iteration: u32,
        messages: u64,
        bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        purpose: Option<&'static str>,
    },
    #[serde(rename = "model.delta")]
    Delta {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<&'r str>,
    },
    #[serde(rename = "tool.progress")]
    Progress { call: CallId, text: &'r str },
    #[serde(rename = "model.response")]
    ModelResponse {
        iteration: u32,
        model: &'r str,
        outcome: &'static str,
        text: &'r str,
        tool_calls: Vec<EventCall>,
        #[serde(flatten)]
        usage: EventTokens,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        cost_usd: Option<f64>,
        ms: u64,
    },
    #[serde(rename = "model.error")]
    ModelError {
        kind: &'static str,
        status: Option<u16>,
        message: &'r str,
        partial_bytes: u64,
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        estimated: bool,
        cost_usd: Option<f64>,
    },
    #[serde(rename = "model.retry")]
    ModelRetry { attempt: u32, of: u32, reason: &'r str, wait_ms: u64 },
    #[serde(rename = "tool.start")]
    ToolStart { call: CallId, tool: &'r str, args_preview: String },
    #[serde(rename = "tool.end")]
    ToolEnd {
        call: CallId,
        tool: &'r str,
        status: &'static str,
        ms: u64,
        result_bytes: usize,
        preview: String,
        #[serde(skip_serializing_if = "SourceSet::is_empty")]
        sources: &'r SourceSet,
    },
    #[serde(rename = "process.start")]
    ProcessStart(&'r ProcessStart),
    #[serde(rename = "process.end")]
    ProcessEnd {
        process: &'r str,
        command: &'r str,
        exit: ProcessExit,
        ms: Option<u64>,
        output_bytes: Option<u64>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        notifies: bool,
    },
    #[serde(rename = "approval.request")]
    ApprovalRequest { call: CallId, command: &'r str, class: &'r str, reason: &'r str },
    #[serde(rename = "approval.decision")]
    ApprovalDecision { call: CallId, decision: &'r str, by: &'r str },
    #[serde(rename = "hook")]
    Hook {
        name: &'static str,
        by: &'r str,
        call: Option<CallId>,
        tool: Option<&'r str>,
        child: Option<&'r str>,
        decision: &'static str,
        reason: &'r str,
        ms: u64,
        output_bytes: u64,
    },
    #[serde(rename = "file.read")]
    FileRead { path: Cow<'r, str>, version: &'r FileVersion },
    #[serde(rename = "file.write")]
    FileWrite { path: Cow<'r, str>, version: &'r FileVersion, created: bool },
    #[serde(rename = "answer.rejected")]
    AnswerRejected { mistakes: &'r str },
    #[serde(rename = "agent.heartbeat")]
    AgentHeartbeat { iteration: u32, current_tool: Option<&'r str>, idle_ms: u64, stalled: bool },
    #[serde(rename = "agent.rest")]
    AgentRest,
    #[serde(rename = "child.delivered")]
    ChildDelivered {
        bytes: usize,
        preview: String,
        #[serde(skip_serializing_if = "SourceSet::is_empty")]
        sources: &'r SourceSet,
    },
    #[serde(rename = "spawn.paused")]
    SpawnPaused { by: &'r str, paused: bool },
    #[serde(rename = "compaction")]
    Compaction {
        messages: usize,
        bytes_before: u64,
        bytes_after: u64,
        path: Cow<'r, str>,
        model: &'r str,
        #[serde(flatten)]
        usage: EventTokens,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        cost_usd: Option<f64>,
        ms: u64,
    },
    #[serde(rename = "results.cut")]
    ResultsCut { results: usize, bytes: u64 },
    #[serde(rename = "agent.wrap_up")]
    AgentWrapUp {
        limit: WrapUpReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetUnit>,
    },
    #[serde(rename = "agent.stop")]
    AgentStop {
        reason: &'r CancelReason,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pending: bool,
    },
    #[serde(rename = "agent.resume")]
    AgentResume {
        max_iterations: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        goal: Option<&'r str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call: Option<CallId>,
    },
    #[serde(rename = "agent.end")]
    AgentEnd {
        status: &'static str,
        exit_reason: &'static str,
        summary_bytes: usize,
        #[serde(flatten)]
        usage: EventTokens,
        cost_usd: Option<f64>,
        tool_calls: usize,
        denied_tool_calls: usize,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        files_written: Vec<Cow<'r, str>>,
        duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_path: Option<Cow<'r, str>>,
    },
    #[serde(rename = "log")]
    Log { level: &'r LogLevel, message: &'r str },
    #[serde(rename = "session.end")]
    SessionEnd {
        status: &'static str,
        exit_code: u8,
        #[serde(flatten)]
        usage: EventTokens,
        cost_usd: Option<f64>,
    },
}
