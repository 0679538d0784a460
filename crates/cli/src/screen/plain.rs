//! Progress as plain lines, for logs and pipes: one for each call, one for each finished task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::event::LogLevel;
use deputize_core::hook::{HookDecision, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::model::Delta;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::process::{ProcessEnd, ProcessExit, ProcessStart};
use deputize_core::run::{BudgetUnit, WrapUpReason};
use deputize_core::sanitize::{for_terminal, for_terminal_line, for_verbatim_line};
use deputize_core::{AgentId, CallId, Catalog, Event, Outcome, Record, Status};
use deputize_runtime::SessionSnapshot;

use super::Detail;
use super::agent_text::{command_wait, goal_text};
use super::call_groups::{CallGroups, nested_words};
use super::call_result::{not_begun, returned};
use super::line::{ScreenLine, Style};
use super::refused_calls::{is_block_of_call, refusal_words};
use super::run_figures::{RunFigures, end_figures};
use super::shown_reasons::ShownReasons;
use super::summary::{compaction_words, cut_words, seconds};
use super::unreadable_calls::UnreadableCalls;
use crate::agent_name::short;

/// Limit on a remark on one line, in characters.
const REMARK_CHARS: usize = 300;
/// Limit on a warning, in characters.
const LOG_CHARS: usize = 1000;
/// Limit on the goal of a finished task, in characters.
const GOAL_CHARS: usize = 100;
/// Bytes of an arriving reply that are held back for a line's end.
const HELD_BYTES: usize = 2000;

/// Milliseconds of waiting for a model before a line shows it in quiet parts of a run.
const QUIET_WAIT_MS: u64 = 5000;

/// A period in which an agent's requests fail.
#[derive(Debug)]
struct Outage {
    agent: AgentId,
    /// End of the last wait that was shown, or the first failure, in Unix milliseconds.
    known_until: u64,
}

/// A part of a reply that has arrived and was not shown: of a thought, or of what is said.
#[derive(Debug, Default)]
struct PartialReply {
    is_thought: bool,
    text: String,
}

/// Progress as lines, and what of replies was not shown yet.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    arriving: BTreeMap<AgentId, PartialReply>,
    /// The answer is printed on the same terminal at the end: it is not shown before.
    prints_answer: bool,
    outage: Option<Outage>,
    /// Whether there is no terminal to ask at.
    unasked: bool,
    /// Calls of a step that share a line.
    groups: CallGroups,
    unreadable: UnreadableCalls,
    reasons: ShownReasons,
    /// What the earlier runs of the session took; `None` in its first one.
    pub(super) earlier: Option<RunFigures>,
}

impl Plain {
    /// Nothing has arrived yet.
    pub(crate) fn new(tools: Arc<Catalog>, unasked: bool) -> Self {
        let groups = CallGroups::new(tools);
        Self { unasked, groups, ..Self::default() }
    }

    /// The same where the answer is printed on the same terminal at the end, or is not.
    pub(crate) fn with_answer_printed(self, prints_answer: bool) -> Self {
        Self { prints_answer, ..self }
    }

    /// Returns the lines for a record. The snapshot has applied the record already.
    pub(crate) fn lines(
        &mut self,
        snapshot: &SessionSnapshot,
        record: &Record,
        detail: Detail,
    ) -> Vec<ScreenLine> {
        let mut lines = self.rest_of_reply(snapshot, record);
        let refused = self.refusal(snapshot, record);
        if detail == Detail::Normal {
            let words = self.unreadable.apply(record);
            let line = |words| agent_line(snapshot, &record.agent).with(Style::Bad, words);
            lines.extend(words.map(line));
        }
        if let Event::ToolEnd(end) = &record.event
            && detail != Detail::Quiet
        {
            lines.extend(not_begun(|| agent_line(snapshot, &record.agent), end));
        }
        if detail == Detail::Quiet {
            lines.extend(self.long_wait(snapshot, record));
        }
        match &record.event {
            // The warning showed the whole call already.
            Event::ToolStart { call, .. }
                if is_approved_unasked(snapshot, &record.agent, *call) => {}
            Event::ToolEnd(end) if refused.is_some() => {
                // It counts among the calls of its script.
                self.groups.end_call(&record.agent, end.result.call);
                let line = |words| agent_line(snapshot, &record.agent).with(Style::Bad, words);
                lines.extend(refused.filter(|_| detail != Detail::Quiet).map(line));
            }
            Event::ToolStart { call, tool, .. } if detail != Detail::Quiet => {
                let agent = snapshot.agent(&record.agent);
                let running = agent.and_then(|agent| agent.calls.running(*call));
                let words = running.map(|running| running.text.clone()).unwrap_or_default();
                let words = match (call.nested, detail) {
                    (Some(_), Detail::Verbose) => Some(nested_words(&words)),
                    _ => self.groups.start_call(&record.agent, *call, tool, words),
                };
                let line = |words| agent_line(snapshot, &record.agent).with(Style::Plain, words);
                lines.extend(words.map(line));
            }
            Event::ToolEnd(_) if self.unreadable.has(&record.agent) => {}
            _ => {
                lines.extend(self.group_calls(snapshot, record, detail));
                self.reasons.begin_turn(snapshot.turn());
                let earlier = self.earlier.as_ref().filter(|_| record.depth == 0);
                let reasons = &mut self.reasons;
                lines.extend(line_of_record(snapshot, record, detail, reasons, earlier));
            }
        }
        lines
    }

    /// Returns what to show of a call whose end this is, if its approval was denied.
    fn refusal(&self, snapshot: &SessionSnapshot, record: &Record) -> Option<String> {
        let Event::ToolEnd(end) = &record.event else { return None };
        refusal_words(snapshot.agent(&record.agent)?, end, self.unasked)
    }

    /// Follows the steps of agents, and returns the lines of a call that ends: its words if it failed
    /// and they were not shown, and how many calls it has made.
    fn group_calls(
        &mut self,
        snapshot: &SessionSnapshot,
        record: &Record,
        detail: Detail,
    ) -> Vec<ScreenLine> {
        let line = |words| agent_line(snapshot, &record.agent).with(Style::Plain, words);
        match &record.event {
            Event::ModelResponse { reply, .. } if detail == Detail::Normal => {
                self.groups.begin_step(&record.agent, &reply.calls);
            }
            Event::ToolEnd(end) => {
                let failed = end.result.status != CallStatus::Ok;
                let words = self.groups.end_call(&record.agent, end.result.call);
                let made = self.groups.end_script(&record.agent, end.result.call);
                let made = made.filter(|_| detail == Detail::Normal);
                return words.filter(|_| failed).into_iter().chain(made).map(line).collect();
            }
            Event::AgentEnd(_) => self.groups.end_agent(&record.agent),
            _ => {}
        }
        Vec::new()
    }

    /// Returns the line for a wait that lasts [`QUIET_WAIT_MS`] longer than what was shown of the
    /// outage. Agents that wait side by side share a line.
    fn long_wait(&mut self, snapshot: &SessionSnapshot, record: &Record) -> Option<ScreenLine> {
        let is_over = matches!(
            &record.event,
            Event::ModelResponse { .. }
                | Event::AgentEnd(_)
                | Event::ModelError { retried: false, .. }
        );
        if is_over && self.outage.as_ref().is_some_and(|outage| outage.agent == record.agent) {
            self.outage = None;
        }
        let Event::ModelRetry { attempt, of, reason, wait_ms } = &record.event else { return None };
        let outage = self
            .outage
            .get_or_insert_with(|| Outage { agent: record.agent.clone(), known_until: record.at });
        let until = record.at.saturating_add(*wait_ms);
        if until.saturating_sub(outage.known_until) < QUIET_WAIT_MS {
            return None;
        }
        outage.known_until = until;
        let again = again(*attempt, *of, *wait_ms, &for_terminal_line(reason, REMARK_CHARS));
        Some(
            agent_line(snapshot, &record.agent)
                .with(Style::Asking, format!("waiting for the model: {again}")),
        )
    }

    /// Returns the lines that a streamed piece completes.
    pub(crate) fn delta(
        &mut self,
        snapshot: &SessionSnapshot,
        agent: &AgentId,
        delta: Delta<'_>,
    ) -> Vec<ScreenLine> {
        let (is_thought, text) = match delta {
            Delta::Text(text) => (false, text),
            Delta::Reasoning(text) => (true, text),
            Delta::Call(_) => return Vec::new(),
        };
        let may_be_answer = self.may_be_answer(snapshot, agent);
        let arriving = self.arriving.entry(agent.clone()).or_default();
        let mut lines = Vec::new();
        if arriving.is_thought != is_thought {
            lines = reply_lines(snapshot, agent, &std::mem::take(arriving));
            arriving.is_thought = is_thought;
        }
        arriving.text.push_str(text);
        if may_be_answer && !is_thought {
            return lines;
        }
        let end = match arriving.text.rfind('\n') {
            Some(at) => at + 1,
            None if arriving.text.len() > HELD_BYTES => arriving.text.len(),
            None => return lines,
        };
        let rest = arriving.text.split_off(end);
        let text = std::mem::replace(&mut arriving.text, rest);
        lines.extend(reply_lines(snapshot, agent, &PartialReply { is_thought, text }));
        lines
    }

    /// Whether what an agent says may be the answer that is printed at the end.
    fn may_be_answer(&self, snapshot: &SessionSnapshot, agent: &AgentId) -> bool {
        self.prints_answer && snapshot.top().is_some_and(|top| top.id == *agent)
    }

    /// Returns the rest of an arriving reply when it is complete or broke off; of a possible
    /// answer, when the agent goes on.
    fn rest_of_reply(&mut self, snapshot: &SessionSnapshot, record: &Record) -> Vec<ScreenLine> {
        let may_be_answer = self.may_be_answer(snapshot, &record.agent);
        match &record.event {
            Event::AgentEnd(outcome)
                if may_be_answer && outcome.text.is_some() && !outcome.partial =>
            {
                self.arriving.remove(&record.agent);
                return Vec::new();
            }
            Event::ModelResponse { .. } if may_be_answer => return Vec::new(),
            Event::ModelRequest { .. } | Event::ToolStart { .. } if may_be_answer => {}
            Event::ModelResponse { .. } | Event::ModelError { .. } | Event::AgentEnd(_) => {}
            _ => return Vec::new(),
        }
        let left = self.arriving.remove(&record.agent).unwrap_or_default();
        reply_lines(snapshot, &record.agent, &left)
    }
}

/// Returns whether a call may run because all calls may.
fn is_approved_unasked(snapshot: &SessionSnapshot, agent: &AgentId, call: CallId) -> bool {
    let approval = snapshot.agent(agent).and_then(|agent| agent.calls.approval(call));
    let decision = approval.and_then(|approval| approval.decision.as_ref());
    decision.is_some_and(|it| it.is_allowed && it.by == ApprovalAnswer::AUTO)
}

fn reply_lines(
    snapshot: &SessionSnapshot,
    agent: &AgentId,
    part: &PartialReply,
) -> Vec<ScreenLine> {
    let lead = if part.is_thought { "thinking | " } else { "| " };
    let line = |text: &str| agent_line(snapshot, agent).with(Style::Dim, format!("{lead}{text}"));
    for_terminal(&part.text).lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// Returns the line for a request of which no byte of a reply has come for this long.
pub(super) fn waiting_for_reply(
    snapshot: &SessionSnapshot,
    agent: &AgentId,
    waited: Duration,
) -> ScreenLine {
    let waited = waited.as_secs();
    let text = format!("waiting for the model: nothing has come of its reply for {waited} s");
    agent_line(snapshot, agent).with(Style::Asking, text)
}

/// Returns the line for a running call's progress.
pub(super) fn progressed(snapshot: &SessionSnapshot, agent: &AgentId, text: &str) -> ScreenLine {
    agent_line(snapshot, agent)
        .with(Style::Dim, format!("… {}", for_terminal_line(text, REMARK_CHARS)))
}

/// Returns a line that begins with the agent's tag.
fn agent_line(snapshot: &SessionSnapshot, agent: &AgentId) -> ScreenLine {
    let tag = snapshot.task_path(agent);
    let mut line = ScreenLine::default();
    if !tag.is_empty() {
        line.push(Style::Dim, format!("[{tag}] "));
    }
    line
}

fn spawn_pause(by: &str, paused: bool) -> String {
    let what = if paused { "paused" } else { "allowed again" };
    format!("new children: {what} by {}", for_terminal_line(by, 80))
}

fn process_start_words(start: &ProcessStart) -> String {
    let command = for_verbatim_line(&start.command, REMARK_CHARS);
    format!("{} runs in the background: {command}", start.process)
}

fn process_end_words(end: &ProcessEnd) -> String {
    let verb = if let ProcessExit::LeftRunning { .. } = end.exit { "was" } else { "has ended:" };
    format!("{} {verb} {}", end.process, end.exit)
}

fn stall_words(tool: Option<&str>, idle_ms: u64) -> String {
    let place = tool.map(|tool| format!(" in {}", for_terminal_line(tool, 80)));
    format!("stalled{}: no progress for {}", place.unwrap_or_default(), seconds(idle_ms))
}

/// Returns the line that shows a record at this level of detail, if it is shown at all.
fn line_of_record(
    snapshot: &SessionSnapshot,
    record: &Record,
    detail: Detail,
    reasons: &mut ShownReasons,
    earlier: Option<&RunFigures>,
) -> Option<ScreenLine> {
    let line = || agent_line(snapshot, &record.agent);
    let dim = |text: String| Some(line().with(Style::Dim, text));
    let asking = |text: String| Some(line().with(Style::Asking, text));
    match &record.event {
        Event::Log { level, message, cause } => {
            let is_shown = log(line(), *level, message, detail).is_some();
            let words = || reasons.words_of_log(&record.agent, message, cause.as_deref());
            let message = is_shown.then(words)?;
            log(line(), *level, &message, detail)
        }
        Event::Hook(run) if is_block_of_call(run) && detail != Detail::Verbose => None,
        Event::Hook(run) => hook(line(), run, detail),
        _ if detail == Detail::Quiet => None,
        Event::ToolEnd(end) => returned(line, end, detail),
        Event::ProcessStart(start) => dim(process_start_words(start)),
        Event::ProcessEnd(end) => dim(process_end_words(end)),
        Event::ModelRetry { attempt, of, reason, wait_ms } => {
            let reason = for_terminal_line(reason, REMARK_CHARS);
            asking(again(*attempt, *of, *wait_ms, &reason))
        }
        Event::AgentStart(_) | Event::AgentResume { task: Some(_), .. }
            if detail == Detail::Verbose =>
        {
            let agent = snapshot.agent(&record.agent)?;
            Some(line().with(Style::Busy, "▸ ").with(Style::Bold, goal_text(snapshot, agent)))
        }
        Event::AgentWrapUp { limit, budget } => {
            asking(format!("{}: requesting a closing answer", limit_text(*limit, *budget)))
        }
        Event::Compaction(compaction) => dim(compaction_words(compaction)),
        Event::ResultsCut { results } => dim(cut_words(results)),
        Event::AnswerRejected { .. } => asking("the answer misses its schema".to_owned()),
        Event::AgentHeartbeat { current_tool, idle_ms, stalled: true, .. } => {
            asking(stall_words(current_tool.as_deref(), *idle_ms))
        }
        Event::SpawnPaused { by, paused } => asking(spawn_pause(by, *paused)),
        // Children that it waits for have lines of their own.
        Event::AgentRest => dim(command_wait(snapshot.agent(&record.agent)?)?),
        Event::AgentEnd(outcome) => {
            let why = reasons.words_of_end(&record.agent, outcome);
            Some(end_line(snapshot, record, outcome, earlier, why))
        }
        Event::SessionStart(_)
        | Event::AgentStart(_)
        | Event::Message(_)
        | Event::MessageLeft { .. }
        | Event::ExternalText { .. }
        | Event::ModelRequest { .. }
        | Event::ModelResponse { .. }
        | Event::ModelError { .. }
        | Event::ToolStart { .. }
        | Event::ApprovalRequest { .. }
        | Event::ApprovalDecision { .. }
        | Event::FileRead { .. }
        | Event::FileWrite { .. }
        | Event::AgentStop { .. }
        | Event::AgentHeartbeat { .. }
        | Event::AgentResume { .. }
        | Event::SessionEnd { .. } => None,
    }
}

/// Which limit an agent has come to.
const fn limit_text(limit: WrapUpReason, budget: Option<BudgetUnit>) -> &'static str {
    match (limit, budget) {
        (WrapUpReason::Time, _) => "the time is up",
        (WrapUpReason::Budget, Some(BudgetUnit::Seconds)) => {
            "the time that all children have together is up (delegation.budget.seconds)"
        }
        (WrapUpReason::Budget, Some(BudgetUnit::Tokens)) => {
            "the budget's tokens leave room for the closing request only"
        }
        (WrapUpReason::Budget, Some(BudgetUnit::Usd)) => {
            "the budget's dollars leave room for the closing request only"
        }
        (WrapUpReason::Budget, None) => "the budget leaves room for the closing request only",
    }
}

/// Returns the line for a retry: its number, when, and why.
fn again(attempt: u32, of: u32, wait_ms: u64, reason: &str) -> String {
    match wait_ms {
        // Another key is not waited for, and is no attempt of its own.
        0 => format!("again at once, with another key: {reason}"),
        _ => format!("attempt {attempt} of {of} in {}: {reason}", seconds(wait_ms)),
    }
}

fn log(line: ScreenLine, level: LogLevel, message: &str, detail: Detail) -> Option<ScreenLine> {
    let (word, style, least) = match level {
        LogLevel::Info => ("note", Style::Dim, Detail::Verbose),
        LogLevel::Warn => ("warning", Style::Asking, Detail::Normal),
        LogLevel::Error => ("error", Style::Bad, Detail::Quiet),
    };
    // A command that was approved without asking is in here: it is told as it is.
    let message = for_verbatim_line(message, LOG_CHARS);
    (detail >= least).then(|| line.with(style, format!("{word}: ")).with(Style::Plain, message))
}

/// Returns the line for a hook that blocked or failed; for one that allowed, only if `detail` is
/// verbose.
fn hook(line: ScreenLine, run: &HookRun, detail: Detail) -> Option<ScreenLine> {
    let (what, style, least) = match run.decision {
        HookDecision::Pass => ("let it pass", Style::Dim, Detail::Verbose),
        HookDecision::Block => ("blocked", Style::Asking, Detail::Normal),
        HookDecision::Error => ("failed", Style::Asking, Detail::Normal),
    };
    let point = run.name.as_str();
    let about = run.tool.as_deref().map(|tool| format!(" of {tool}")).unwrap_or_default();
    let by = for_terminal_line(&run.by, REMARK_CHARS);
    let reason = match run.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", for_terminal_line(reason, REMARK_CHARS)),
    };
    let text = format!("hook {point}{about} (`{by}`) {what}{reason}");
    (detail >= least).then(|| line.with(style, text))
}

fn end_line(
    snapshot: &SessionSnapshot,
    record: &Record,
    outcome: &Outcome,
    earlier: Option<&RunFigures>,
    why: Option<String>,
) -> ScreenLine {
    let (mark, style) = match outcome.status {
        Status::Completed => ("✓", Style::Good),
        Status::Interrupted => ("■", Style::Asking),
        Status::Failed | Status::Error | Status::Timeout => ("✗", Style::Bad),
    };
    let agent = snapshot.agent(&record.agent);
    let tag = snapshot.task_path(&record.agent);
    let goal = agent.map(|agent| goal_text(snapshot, agent)).unwrap_or_default();
    let mut line = ScreenLine::default().with(style, format!("{mark} "));
    if !tag.is_empty() {
        line.push(Style::Dim, format!("[{tag}] "));
    }
    if why.is_some() {
        line.push(Style::Dim, format!("{}: ", short(&record.agent)));
    }
    line.push(Style::Plain, for_terminal_line(&goal, GOAL_CHARS));
    line.push(Style::Dim, format!(" ({})", end_figures(outcome, earlier)));
    if let Some(why) = why {
        line.push(Style::Plain, format!(": {why}"));
    }
    line
}

#[cfg(test)]
mod tests;
