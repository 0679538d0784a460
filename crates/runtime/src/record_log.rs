//! Reports records to the program's log, so that no other code reports what it records.

use deputize_core::event::LogLevel;
use deputize_core::hook::{HookDecision, HookRun};
use deputize_core::{AgentId, Event, Outcome, Record, Status};
use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, warn};

/// Reports a record: faults as warnings and errors, the lives of agents as information, requests
/// and calls for debugging. What agents, people and tools say is not reported.
pub(crate) fn log_record(record: &Record) {
    if LevelFilter::current() == LevelFilter::OFF {
        return;
    }
    let agent = &record.agent;
    let seq = record.seq;
    match &record.event {
        Event::ModelRequest { .. }
        | Event::ModelResponse { .. }
        | Event::ModelError { .. }
        | Event::ModelRetry { .. } => log_request(agent, seq, &record.event),
        Event::ToolStart { .. }
        | Event::ToolEnd(_)
        | Event::ProcessStart(_)
        | Event::ProcessEnd(_)
        | Event::ApprovalRequest { .. }
        | Event::ApprovalDecision { .. } => log_call(agent, seq, &record.event),
        Event::Hook(run) => log_hook(agent, seq, run),
        Event::Log { level: LogLevel::Info, message, .. } => info!(seq, %agent, message),
        Event::Log { level: LogLevel::Warn, message, .. } => warn!(seq, %agent, message),
        Event::Log { level: LogLevel::Error, message, .. } => error!(seq, %agent, message),
        Event::SessionStart(_)
        | Event::AgentStart(_)
        | Event::AnswerRejected { .. }
        | Event::AgentWrapUp { .. }
        | Event::Compaction(_)
        | Event::ResultsCut { .. }
        | Event::AgentHeartbeat { .. }
        | Event::SpawnPaused { .. }
        | Event::AgentStop { .. }
        | Event::AgentResume { .. }
        | Event::AgentEnd(_)
        | Event::SessionEnd { .. } => log_life(agent, seq, &record.event),
        Event::Message(_)
        | Event::MessageLeft { .. }
        | Event::ExternalText { .. }
        | Event::FileRead { .. }
        | Event::FileWrite { .. }
        | Event::AgentRest => {}
    }
}

fn log_request(agent: &AgentId, seq: u64, event: &Event) {
    match event {
        Event::ModelRequest { messages, bytes, model, purpose, .. } => {
            debug!(seq, %agent, model, messages, bytes, ?purpose, "request sent");
        }
        Event::ModelResponse { reply, ms, .. } => {
            let usage = &reply.usage;
            let calls = reply.calls.len();
            debug!(seq, %agent, model = reply.model, ms, calls, ?usage, "reply received");
        }
        Event::ModelError { error, retried, .. } => {
            let kind = error.kind;
            let status = error.status;
            warn!(seq, %agent, ?kind, status, retried, error = error.message, "request failed");
        }
        Event::ModelRetry { attempt, of, wait_ms, .. } => {
            info!(seq, %agent, attempt, of, wait_ms, "another attempt follows");
        }
        _ => {}
    }
}

fn log_call(agent: &AgentId, seq: u64, event: &Event) {
    match event {
        Event::ToolStart { call, tool, arguments } => {
            debug!(seq, %agent, %call, tool, args_bytes = arguments.len(), "call started");
        }
        Event::ToolEnd(end) => {
            let call = end.result.call;
            let tool = &end.tool;
            let ms = end.ms;
            let status = end.result.status;
            let bytes = end.result.text.as_str().len();
            match &end.error {
                Some(error) => warn!(seq, %agent, %call, tool, ms, ?status, error, "call failed"),
                None => debug!(seq, %agent, %call, tool, ms, ?status, bytes, "call ended"),
            }
        }
        Event::ProcessStart(start) => {
            debug!(seq, %agent, call = %start.call, process = start.process, "command started");
        }
        Event::ProcessEnd(end) => {
            let exit = end.exit.to_string();
            debug!(seq, %agent, process = end.process, exit, "command ended");
        }
        Event::ApprovalRequest { call, class, reason, .. } => {
            info!(seq, %agent, %call, class, reason, "call needs an approval");
        }
        Event::ApprovalDecision { call, decision, by } => {
            info!(seq, %agent, %call, decision, by, "approval answered");
        }
        _ => {}
    }
}

fn log_hook(agent: &AgentId, seq: u64, run: &HookRun) {
    let point = run.name;
    let hook = &run.by;
    let ms = run.ms;
    match run.decision {
        HookDecision::Pass => debug!(seq, %agent, ?point, hook, ms, "hook passed"),
        HookDecision::Block => {
            info!(seq, %agent, ?point, hook, ms, reason = run.reason, "hook blocked");
        }
        HookDecision::Error => {
            warn!(seq, %agent, ?point, hook, ms, error = run.reason, "hook failed");
        }
    }
}

fn log_life(agent: &AgentId, seq: u64, event: &Event) {
    match event {
        Event::SessionStart(start) => {
            info!(seq, program = start.program, model = start.model, "session started");
        }
        Event::AgentStart(start) => {
            let spec = &start.spec;
            let model = &spec.model;
            let tools = spec.tools.len();
            info!(seq, %agent, depth = spec.depth, model, tools, "agent started");
        }
        Event::AnswerRejected { .. } => info!(seq, %agent, "answer rejected by its schema"),
        Event::Compaction(compaction) => {
            let messages = compaction.part.count();
            let (before, after) = (compaction.bytes_before, compaction.bytes_after);
            info!(seq, %agent, messages, before, after, "conversation compacted");
        }
        Event::ResultsCut { results } => {
            let bytes: u64 = results.iter().map(|result| result.left_out).sum();
            info!(seq, %agent, bytes, "results cut");
        }
        Event::AgentWrapUp { limit, .. } => info!(seq, %agent, ?limit, "limit reached"),
        Event::AgentHeartbeat { idle_ms, stalled: true, .. } => {
            warn!(seq, %agent, idle_ms, "agent stalled");
        }
        Event::SpawnPaused { by, paused } => info!(seq, by, paused, "new children paused"),
        Event::AgentStop { reason, pending } => {
            info!(seq, %agent, ?reason, pending, "agent stopped");
        }
        Event::AgentResume { max_iterations, task } => {
            let further_task = task.is_some();
            info!(seq, %agent, max_iterations, further_task, "agent resumed");
        }
        Event::AgentEnd(outcome) => log_end(agent, seq, outcome),
        Event::SessionEnd { status, exit_code, .. } => {
            info!(seq, ?status, exit_code, "session ended");
        }
        _ => {}
    }
}

fn log_end(agent: &AgentId, seq: u64, outcome: &Outcome) {
    let Outcome { status, exit_reason: reason, iterations, requests, .. } = outcome;
    let ms = outcome.duration_ms;
    let error = &outcome.error;
    match status {
        Status::Completed | Status::Interrupted => {
            info!(seq, %agent, ?status, ?reason, iterations, requests, ms, "agent ended");
        }
        Status::Failed | Status::Timeout => {
            warn!(seq, %agent, ?status, ?reason, iterations, requests, ms, error, "agent ended");
        }
        Status::Error => {
            error!(seq, %agent, ?status, ?reason, iterations, requests, ms, error, "agent ended");
        }
    }
}
