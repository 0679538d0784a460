//! Records for the tests of this crate: a small session, built by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::{AgentLimits, AgentSpec, Role, SpawnedBy};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::event::{AgentStart, RequestPurpose, ToolEnd};
use deputize_core::file_state::FileVersion;
use deputize_core::message::{CallStatus, ModelText};
use deputize_core::model::{Finish, ModelOptions, RawCall, Reply, Usage};
use deputize_core::outcome::{ExitReason, Receipts, ToolTrace};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{
    AgentId, CallId, Catalog, Event, Outcome, Record, SessionId, Status, ToolEffect, ToolName,
    ToolResult, ToolsetName,
};

use crate::compose::{LinkedTools, linked_catalog};

/// 2026-01-02T03:04:05.006Z.
pub(crate) const START: u64 = 1_767_323_045_006;

pub(crate) fn root() -> AgentId {
    AgentId::root(&SessionId::literal("s1"))
}

/// The tools of the program, including those that delegate.
pub(crate) fn tools() -> Arc<Catalog> {
    Arc::new(linked_catalog(&LinkedTools::new(vec![deputize_tools::LINK])))
}

/// The first call of the first step.
pub(crate) const CALL: CallId = CallId::new(1, 0);

pub(crate) fn child(index: u32) -> AgentId {
    root().child(CALL, index)
}

/// Makes records in a row, a hundred milliseconds apart.
#[derive(Default)]
pub(crate) struct TestWriter {
    pub(crate) records: Vec<Record>,
}

impl TestWriter {
    pub(crate) fn add(&mut self, agent: &AgentId, event: Event) -> &mut Self {
        let seq = self.records.len() as u64;
        let parent = agent.as_str().rsplit_once('/').map(|(parent, _)| id(parent));
        let depth = agent.as_str().matches('/').count() as u32;
        let at = START + seq * 100;
        self.records.push(Record { seq, at, agent: agent.clone(), parent, depth, event });
        self
    }
}

pub(crate) fn id(text: &str) -> AgentId {
    serde_json::from_value(text.into()).unwrap()
}

pub(crate) fn spec(agent: &AgentId, goal: &str) -> AgentSpec {
    let parent = agent.as_str().rsplit_once('/').map(|(parent, _)| id(parent));
    let index = agent.as_str().rsplit_once('.').map(|(_, index)| index.parse().unwrap());
    AgentSpec {
        id: agent.clone(),
        depth: agent.as_str().matches('/').count() as u32,
        role: Role::Leaf,
        spawned_by: parent.is_some().then(|| SpawnedBy {
            call: CALL,
            task_index: index.unwrap_or(0),
            task_count: 3,
        }),
        parent,
        goal: goal.to_owned(),
        task: goal.to_owned(),
        model: "local/m".to_owned(),
        images: Vec::new(),
        model_pinned: false,
        options: ModelOptions::default(),
        system: Vec::new(),
        prefill: Vec::new(),
        is_fork: false,
        toolsets: vec![ToolsetName::literal("file")],
        tools: vec![ToolName::literal("read_file"), ToolName::literal("write_file")],
        grant: Grant::default(),
        approver: ApproverMode::Deny,
        limits: AgentLimits { max_iterations: 50, time_ms: 600_000, wrap_up_ms: 20_000 },
        cwd: PathBuf::from("/repo/project"),
        context: None,
        output_schema: None,
        background: false,
        declared: None,
        unapproved: Vec::new(),
        profile: None,
        profile_max_iterations: None,
        task_sources: SourceSet::new(),
        system_sources: SourceSet::new(),
    }
}

pub(crate) fn started(agent: &AgentId, goal: &str) -> Event {
    let texts = [("aa", "You are an agent."), ("bb", "Be brief.")];
    let texts: BTreeMap<String, Arc<str>> =
        texts.into_iter().map(|(hash, text)| (hash.to_owned(), Arc::from(text))).collect();
    Event::AgentStart(Box::new(AgentStart {
        spec: spec(agent, goal),
        system: vec!["aa".to_owned(), "bb".to_owned()],
        tools: "cc".to_owned(),
        texts,
    }))
}

pub(crate) fn usage(input: u64) -> Usage {
    Usage { input, cached: input / 2, output: input / 10, ..Usage::default() }
}

/// A request to a model.
pub(crate) fn asked(iteration: u32) -> Event {
    Event::ModelRequest {
        iteration,
        messages: 1,
        bytes: 1,
        model: "local/m".to_owned(),
        purpose: RequestPurpose::Turn,
    }
}

/// A reply with calls, each as `(tool, arguments)`.
pub(crate) fn replied(iteration: u32, text: &str, calls: &[(&str, &str)]) -> Event {
    let raw = |(name, arguments): &(&str, &str)| RawCall {
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    };
    let reply = Reply {
        model: "m-2026".to_owned(),
        text: text.to_owned(),
        reasoning: String::new(),
        calls: calls.iter().map(raw).collect(),
        opaque: Vec::new(),
        finish: Finish::Stop,
        usage: usage(1000),
    };
    Event::ModelResponse { iteration, reply, ms: 1234, cost_usd: Some(0.0125), estimated: false }
}

pub(crate) fn called(call: CallId, tool: &str, arguments: &str) -> Event {
    Event::ToolStart { call, tool: tool.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) fn returned(
    call: CallId,
    tool: &str,
    status: CallStatus,
    text: &str,
    facts: Vec<ToolEffect>,
) -> Event {
    Event::ToolEnd(Box::new(ToolEnd {
        tool: tool.to_owned(),
        result: ToolResult {
            call,
            status,
            text: ModelText::own(text),
            fingerprint: "0123456789abcdef".to_owned(),
            images: Vec::new(),
            sources: [Source::tool(tool)].into(),
        },
        args_bytes: 12,
        ms: 57,
        facts,
        display: None,
        error: None,
        boundary: None,
    }))
}

pub(crate) fn version(text: &str) -> FileVersion {
    FileVersion::of(text.as_bytes())
}

pub(crate) fn outcome(agent: &AgentId, status: Status, reason: ExitReason) -> Outcome {
    let completed = status == Status::Completed;
    Outcome {
        agent: agent.clone(),
        external: false,
        status,
        exit_reason: reason,
        text: completed.then(|| "All done.".to_owned()),
        error: (!completed).then(|| "it went wrong".to_owned()),
        output: None,
        partial: false,
        cause: None,
        provider_unavailable: false,
        model: "m-2026".to_owned(),
        profile: None,
        iterations: 2,
        requests: 2,
        usage: usage(1000),
        children_usage: Usage::default(),
        cost_usd: None,
        duration_ms: 12_340,
        trace: vec![
            ToolTrace {
                tool: "read_file".to_owned(),
                args_bytes: 12,
                result_bytes: 400,
                status: CallStatus::Ok,
            },
            ToolTrace {
                tool: "terminal".to_owned(),
                args_bytes: 20,
                result_bytes: 30,
                status: CallStatus::Denied,
            },
        ],
        receipts: Receipts::default(),
        below: BTreeMap::new(),
        inspection: None,
        session_path: None,
    }
}

pub(crate) fn ended(agent: &AgentId, status: Status, reason: ExitReason) -> Event {
    Event::AgentEnd(Box::new(outcome(agent, status, reason)))
}
