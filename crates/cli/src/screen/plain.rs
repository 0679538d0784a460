//! Progress as plain lines, for logs and pipes: one for each call, one for each finished task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::event::{LogLevel, ToolEnd};
use deputize_core::hook::{HookDecision, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::model::Delta;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::run::{BudgetUnit, WrapUpReason};
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_core::{AgentId, CallId, Catalog, Event, Outcome, Record, Status, ToolEffect};
use serde_json::Value;

use super::Detail;
use super::call::of_result;
use super::call_groups::CallGroups;
use super::line::{ScreenLine, Style};
use super::refused_calls::{RefusedCalls, is_block_of_call};
use super::shown_reasons::ShownReasons;
use super::summary::{as_is, count, dollars, seconds};
use super::tree::ScreenTree;
use super::unreadable_calls::UnreadableCalls;
use crate::agent_name::short;

/// The most characters of a remark on one line.
const REMARK_CHARS: usize = 300;
/// The most characters of a warning.
const LOG_CHARS: usize = 1000;
/// The most characters of the goal of a finished task.
const TOLD_CHARS: usize = 100;
/// Tasks that are listed by their numbers; more are counted.
const NUMBERED_TASKS: usize = 10;
/// Bytes of an arriving reply that are held back for a line's end.
const HELD_BYTES: usize = 2000;

/// For how long a model may be waited for before that is shown though little is to be told.
const QUIET_WAIT_MS: u64 = 5000;

/// A time in which an agent gets no reply because its requests fail.
#[derive(Debug)]
struct Outage {
    agent: AgentId,
    /// Until when the person knows that there is no reply, in milliseconds since 1970: the end of
    /// the last wait that was shown, or the first failure.
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
    refused: RefusedCalls,
    /// Calls that were approved without asking: the warning of that has the whole call.
    approved: BTreeSet<(AgentId, CallId)>,
    /// Calls of a step that share a line.
    groups: CallGroups,
    unreadable: UnreadableCalls,
    reasons: ShownReasons,
}

impl Plain {
    /// Nothing has arrived yet.
    pub(crate) fn new(tools: Arc<Catalog>, unasked: bool) -> Self {
        let groups = CallGroups::new(tools);
        Self { refused: RefusedCalls::new(unasked), groups, ..Self::default() }
    }

    /// The same where the answer is printed on the same terminal at the end, or is not.
    pub(crate) fn with_answer_printed(self, prints_answer: bool) -> Self {
        Self { prints_answer, ..self }
    }

    /// The lines that a record is worth. The tree has taken the record already.
    pub(crate) fn lines(
        &mut self,
        tree: &ScreenTree,
        record: &Record,
        detail: Detail,
    ) -> Vec<ScreenLine> {
        let mut lines = self.rest_of_reply(tree, record);
        let refused = self.refused.apply(record);
        if detail == Detail::Normal {
            let words = self.unreadable.apply(record);
            let line = |words| prefixed(tree, &record.agent).with(Style::Bad, words);
            lines.extend(words.map(line));
        }
        if let Event::ToolEnd(end) = &record.event
            && detail != Detail::Quiet
        {
            lines.extend(not_begun(&prefixed(tree, &record.agent), end));
        }
        if detail == Detail::Quiet {
            lines.extend(self.long_wait(tree, record));
        }
        match &record.event {
            Event::ApprovalDecision { call, decision, by }
                if by == ApprovalAnswer::AUTO && decision == "allow" =>
            {
                self.approved.insert((record.agent.clone(), *call));
            }
            // The warning told of it already.
            Event::ToolStart { call, .. }
                if self.approved.contains(&(record.agent.clone(), *call)) => {}
            Event::ToolEnd(_) if refused.is_some() => {
                let line = |words| prefixed(tree, &record.agent).with(Style::Bad, words);
                lines.extend(refused.filter(|_| detail != Detail::Quiet).map(line));
            }
            Event::ToolStart { call, tool, arguments } if detail != Detail::Quiet => {
                let words = self.groups.start_call(&record.agent, *call, tool, arguments);
                let line = |words| prefixed(tree, &record.agent).with(Style::Plain, words);
                lines.extend(words.map(line));
            }
            Event::ToolEnd(_) if self.unreadable.has(&record.agent) => {}
            _ => {
                lines.extend(self.group_calls(tree, record, detail));
                self.reasons.apply(record);
                lines.extend(worth(tree, record, detail, &mut self.reasons));
            }
        }
        lines
    }

    /// Follows the steps of agents, and returns the line of a grouped call that failed.
    fn group_calls(
        &mut self,
        tree: &ScreenTree,
        record: &Record,
        detail: Detail,
    ) -> Option<ScreenLine> {
        match &record.event {
            Event::ModelResponse { reply, .. } if detail == Detail::Normal => {
                self.groups.begin_step(&record.agent, &reply.calls);
            }
            Event::ToolEnd(end) => {
                let words = self.groups.end_call(&record.agent, end.result.call)?;
                let failed = end.result.status != CallStatus::Ok;
                return failed.then(|| prefixed(tree, &record.agent).with(Style::Plain, words));
            }
            Event::AgentEnd(_) => self.groups.end_agent(&record.agent),
            _ => {}
        }
        None
    }

    /// Returns the line for a wait that lasts [`QUIET_WAIT_MS`] longer than what was shown of the
    /// outage. Agents that wait side by side share a line.
    fn long_wait(&mut self, tree: &ScreenTree, record: &Record) -> Option<ScreenLine> {
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
        let again = again((*attempt, *of), *wait_ms, &for_terminal_line(reason, REMARK_CHARS));
        Some(
            prefixed(tree, &record.agent)
                .with(Style::Asking, format!("waiting for the model: {again}")),
        )
    }

    /// The lines that a piece of a reply completes.
    pub(crate) fn delta(
        &mut self,
        tree: &ScreenTree,
        agent: &AgentId,
        delta: Delta<'_>,
    ) -> Vec<ScreenLine> {
        let (is_thought, text) = match delta {
            Delta::Text(text) => (false, text),
            Delta::Reasoning(text) => (true, text),
            Delta::Call(_) => return Vec::new(),
        };
        let may_be_answer = self.may_be_answer(tree, agent);
        let arriving = self.arriving.entry(agent.clone()).or_default();
        let mut lines = Vec::new();
        if arriving.is_thought != is_thought {
            lines = said(tree, agent, &std::mem::take(arriving));
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
        lines.extend(said(tree, agent, &PartialReply { is_thought, text }));
        lines
    }

    /// Whether what an agent says may be the answer that is printed at the end.
    fn may_be_answer(&self, tree: &ScreenTree, agent: &AgentId) -> bool {
        self.prints_answer && tree.top() == Some(agent)
    }

    /// What is left of an arriving reply when it is whole or broke off; of what may be the answer,
    /// when the agent goes on.
    fn rest_of_reply(&mut self, tree: &ScreenTree, record: &Record) -> Vec<ScreenLine> {
        let may_be_answer = self.may_be_answer(tree, &record.agent);
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
        said(tree, &record.agent, &left)
    }
}

fn said(tree: &ScreenTree, agent: &AgentId, part: &PartialReply) -> Vec<ScreenLine> {
    let lead = if part.is_thought { "thinking | " } else { "| " };
    let line = |text: &str| prefixed(tree, agent).with(Style::Dim, format!("{lead}{text}"));
    for_terminal(&part.text).lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// Returns the line for a request of which no byte of a reply has come for this long.
pub(super) fn waiting_for_reply(
    tree: &ScreenTree,
    agent: &AgentId,
    waited: Duration,
) -> ScreenLine {
    let waited = waited.as_secs();
    let text = format!("waiting for the model: nothing has come of its reply for {waited} s");
    prefixed(tree, agent).with(Style::Asking, text)
}

/// What a running call tells of itself.
pub(super) fn progressed(tree: &ScreenTree, agent: &AgentId, text: &str) -> ScreenLine {
    prefixed(tree, agent).with(Style::Dim, format!("… {}", for_terminal_line(text, REMARK_CHARS)))
}

/// A line that begins with the agent's tag.
fn prefixed(tree: &ScreenTree, agent: &AgentId) -> ScreenLine {
    let tag = tree.get(agent).map(|node| node.tag.as_str()).unwrap_or_default();
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

fn worth(
    tree: &ScreenTree,
    record: &Record,
    detail: Detail,
    reasons: &mut ShownReasons,
) -> Option<ScreenLine> {
    let line = || prefixed(tree, &record.agent);
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
        Event::ToolEnd(end) => returned(line(), end, detail),
        Event::ModelRetry { attempt, of, reason, wait_ms } => {
            let reason = for_terminal_line(reason, REMARK_CHARS);
            let text = again((*attempt, *of), *wait_ms, &reason);
            Some(line().with(Style::Asking, text))
        }
        Event::AgentStart(_) if detail == Detail::Verbose => {
            let goal = tree.get(&record.agent).map(|node| node.goal.clone())?;
            Some(line().with(Style::Busy, "▸ ").with(Style::Bold, goal))
        }
        Event::AgentWrapUp { limit, budget } => {
            let limit = reached(*limit, *budget);
            Some(line().with(Style::Asking, format!("{limit}: it is asked for a closing answer")))
        }
        Event::AnswerRejected { .. } => {
            Some(line().with(Style::Asking, "the answer misses its schema"))
        }
        Event::AgentHeartbeat { current_tool, idle_ms, stalled: true, .. } => {
            let place =
                current_tool.as_ref().map(|tool| format!(" in {}", for_terminal_line(tool, 80)));
            let (place, idle) = (place.unwrap_or_default(), seconds(*idle_ms));
            Some(line().with(Style::Asking, format!("stalled{place}: no progress for {idle}")))
        }
        Event::SpawnPaused { by, paused } => {
            Some(line().with(Style::Asking, spawn_pause(by, *paused)))
        }
        Event::AgentEnd(outcome) => {
            let why = reasons.words_of_end(&record.agent, outcome);
            Some(finished(tree, record, outcome, why))
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
        | Event::AgentRest
        | Event::AgentHeartbeat { .. }
        | Event::AgentResume { .. }
        | Event::SessionEnd { .. } => None,
    }
}

/// Which limit an agent has come to.
const fn reached(limit: WrapUpReason, budget: Option<BudgetUnit>) -> &'static str {
    match (limit, budget) {
        (WrapUpReason::Time, _) => "the time is up",
        (WrapUpReason::Budget, Some(BudgetUnit::Seconds)) => {
            "the time that all children have together is up (delegation.budget.seconds)"
        }
        (WrapUpReason::Budget, Some(BudgetUnit::Tokens)) => {
            "the tokens of the budget do not allow another request beside that for the closing answer"
        }
        (WrapUpReason::Budget, Some(BudgetUnit::Usd)) => {
            "the dollars of the budget do not allow another request beside that for the closing \
             answer"
        }
        (WrapUpReason::Budget, None) => {
            "the budget does not allow another request beside that for the closing answer"
        }
    }
}

/// Another request after one that failed: which of how many, when, and why.
fn again((attempt, of): (u32, u32), wait_ms: u64, reason: &str) -> String {
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
    let message = as_is(message, LOG_CHARS);
    (detail >= least).then(|| line.with(style, format!("{word}: ")).with(Style::Plain, message))
}

/// A hook that blocked or failed; one that let something pass, when everything is to be told.
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

/// The end of a call: only what went wrong, unless everything is to be told.
fn returned(line: ScreenLine, end: &ToolEnd, detail: Detail) -> Option<ScreenLine> {
    let tool = for_terminal_line(&end.tool, REMARK_CHARS);
    let status = end.result.status;
    if status == CallStatus::Ok {
        let bytes = end.result.text.as_str().len();
        let text = format!("  {tool}: {bytes} bytes in {}", seconds(end.ms));
        return (detail == Detail::Verbose).then(|| line.with(Style::Dim, text));
    }
    if status == CallStatus::Cancelled && detail != Detail::Verbose {
        return Some(line.with(Style::Bad, format!("{tool} cancelled")));
    }
    if let Some(why) = refusal(end) {
        let why = for_terminal_line(&why, why.len());
        return Some(line.with(Style::Bad, format!("{tool} refused: ")).with(Style::Plain, why));
    }
    let why = of_result(end.error.as_deref().unwrap_or(&end.content()), REMARK_CHARS);
    let said = if why.starts_with(status.as_str()) { "" } else { status.as_str() };
    let sep = if said.is_empty() { "" } else { ": " };
    Some(line.with(Style::Bad, format!("{tool} {said}{sep}")).with(Style::Plain, why))
}

/// Whether a call's end tells of children that are no agents, and so have no row in a tree: tasks
/// that were never begun, or that were refused.
pub(super) fn has_no_row(end: &ToolEnd) -> bool {
    let not_begun = |fact: &ToolEffect| matches!(fact, ToolEffect::NotBegun { .. });
    end.facts.iter().any(not_begun) || refusal(end).is_some()
}

/// Tasks of a call for which no agent was begun: a line for each reason, with their numbers.
fn not_begun(line: &ScreenLine, end: &ToolEnd) -> Vec<ScreenLine> {
    let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for fact in &end.facts {
        if let ToolEffect::NotBegun { error, task_index, .. } = fact {
            reasons.entry(error).or_default().push(task_index.saturating_add(1));
        }
    }
    let told = |(why, tasks): (&str, Vec<u32>)| {
        let text = format!("{} not begun: ", task_numbers(&tasks));
        let why = for_terminal_line(why, REMARK_CHARS);
        line.clone().with(Style::Asking, text).with(Style::Plain, why)
    };
    reasons.into_iter().map(told).collect()
}

/// Tasks by their numbers, or how many they are.
fn task_numbers(tasks: &[u32]) -> String {
    match tasks {
        [only] => format!("task {only}"),
        few if few.len() <= NUMBERED_TASKS => {
            let numbers: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("tasks {}", numbers.join(", "))
        }
        many => count(many.len(), "task"),
    }
}

/// What stood against a call by which children were to be had, in words: each thing once.
fn refusal(end: &ToolEnd) -> Option<String> {
    if end.result.status != CallStatus::Error {
        return None;
    }
    let content = end.content();
    let json = content.strip_prefix("error: ").unwrap_or(&content);
    let value = serde_json::Deserializer::from_str(json).into_iter::<Value>().next()?.ok()?;
    let mut remedies: Vec<(&str, usize)> = Vec::new();
    for error in value.get("errors")?.as_array()? {
        let Some(remedy) = error.get("remedy").and_then(Value::as_str) else { continue };
        match remedies.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, times)) => *times += 1,
            None => remedies.push((remedy, 1)),
        }
    }
    let told = |(remedy, times)| match times {
        1 => str::to_owned(remedy),
        times => format!("{remedy} ({})", count(times, "task")),
    };
    let told: Vec<String> = remedies.into_iter().map(told).collect();
    Some(told.join("; ")).filter(|told| !told.is_empty())
}

fn finished(
    tree: &ScreenTree,
    record: &Record,
    outcome: &Outcome,
    why: Option<String>,
) -> ScreenLine {
    let (mark, style) = match outcome.status {
        Status::Completed => ("✓", Style::Good),
        Status::Interrupted => ("■", Style::Asking),
        Status::Failed | Status::Error | Status::Timeout => ("✗", Style::Bad),
    };
    let node = tree.get(&record.agent);
    let tag = node.map(|node| node.tag.as_str()).unwrap_or_default();
    let goal = node.map(|node| node.goal.clone()).unwrap_or_default();
    let mut line = ScreenLine::default().with(style, format!("{mark} "));
    if !tag.is_empty() {
        line.push(Style::Dim, format!("[{tag}] "));
    }
    if why.is_some() {
        line.push(Style::Dim, format!("{}: ", short(&record.agent)));
    }
    line.push(Style::Plain, for_terminal_line(&goal, TOLD_CHARS));
    let cost = dollars(outcome.cost_usd).map(|usd| format!(" · {usd}")).unwrap_or_default();
    line.push(Style::Dim, format!(" ({}{cost})", seconds(outcome.duration_ms)));
    if let Some(why) = why {
        line.push(Style::Plain, format!(": {why}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use deputize_core::CallId;
    use deputize_core::outcome::ExitReason;
    use serde_json::json;

    use super::*;
    use crate::approve::NO_TERMINAL;
    use crate::fixture::{
        CALL, TestWriter, called, child, ended, replied, returned, root, started, tools,
    };

    fn print(tape: &TestWriter, detail: Detail) -> String {
        let (mut tree, mut plain) = (ScreenTree::new(tools()), Plain::new(tools(), false));
        let mut out = Vec::new();
        for record in &tape.records {
            tree.apply(record);
            let lines = plain.lines(&tree, record, detail);
            out.extend(lines.iter().map(|line| line.render(false)));
        }
        out.join("\n")
    }

    fn session() -> TestWriter {
        let (kid, below) = (child(1), child(1).child(CALL, 0));
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "Tidy up"));
        tape.add(&root(), called(CALL, "delegate_task", r#"{"tasks":[1,2,3]}"#));
        tape.add(&kid, started(&kid, "Sort the\nimports"));
        tape.add(&kid, replied(1, "I look.", &[]));
        tape.add(&kid, called(CALL, "read_file", r#"{"path":"src/a.rs"}"#));
        tape.add(&kid, returned(CALL, "read_file", CallStatus::Ok, "fn a() {}", Vec::new()));
        tape.add(&below, started(&below, "Check"));
        let second = CallId { step: 2, slot: 0 };
        tape.add(&below, called(second, "terminal", r#"{"command":"cargo\u001b[2J check"}"#));
        let text = "denied: no user to ask";
        tape.add(&below, returned(second, "terminal", CallStatus::Denied, text, Vec::new()));
        let (reason, wait_ms) = ("provider local: 503".to_owned(), 1400);
        tape.add(&below, Event::ModelRetry { attempt: 2, of: 5, reason, wait_ms });
        tape.add(&below, ended(&below, Status::Failed, ExitReason::Error));
        tape.add(&kid, ended(&kid, Status::Completed, ExitReason::Completed));
        for level in [LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
            tape.add(
                &root(),
                Event::Log { level, message: "line one\nline two".to_owned(), cause: None },
            );
        }
        tape.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
        tape
    }

    #[test]
    fn a_session_line_by_line() {
        insta::assert_snapshot!(print(&session(), Detail::Normal));
    }

    #[test]
    fn a_session_in_detail() {
        insta::assert_snapshot!(print(&session(), Detail::Verbose));
    }

    #[test]
    fn many_calls_of_one_step_take_one_line_and_failures_one_each() {
        let arguments: Vec<String> =
            (0..120).map(|n| format!(r#"{{"path":"src/a{n}.rs"}}"#)).collect();
        let mut calls: Vec<(&str, &str)> =
            arguments.iter().map(|arguments| ("read_file", arguments.as_str())).collect();
        calls.extend([("list_dir", "{}"), ("now", "{}")]);
        calls.extend([("now", "{}"); 9]);
        calls.extend([("terminal", r#"{"command":"make"}"#); 7]);
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "a"));
        tape.add(&root(), replied(1, "", &calls));
        for (slot, (tool, arguments)) in (0..).zip(&calls) {
            tape.add(&root(), called(CallId { step: 1, slot }, tool, arguments));
        }
        for (slot, (tool, _)) in (0..).zip(&calls) {
            let status = if slot == 7 { CallStatus::Error } else { CallStatus::Ok };
            let text = "not found: src/a7.rs";
            tape.add(&root(), returned(CallId { step: 1, slot }, tool, status, text, Vec::new()));
        }
        let failed = "read src/a7.rs\nread_file error: not found: src/a7.rs";
        let commands = ["run make"; 7].join("\n");
        let shown = format!("read 120 files\nlist .\nnow: 10 calls\n{commands}\n{failed}");
        assert_eq!(print(&tape, Detail::Normal), shown);
        let every = print(&tape, Detail::Verbose);
        assert_eq!(every.matches("\nread src/a").count(), 120, "{every}");
        assert_eq!(print(&tape, Detail::Quiet), "");
    }

    #[test]
    fn a_cancelled_call_is_told_without_what_the_model_is_told() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "a"));
        let text = "<output>half</output>";
        tape.add(&root(), returned(CALL, "terminal", CallStatus::Cancelled, text, Vec::new()));
        assert_eq!(print(&tape, Detail::Normal), "terminal cancelled");
    }

    #[test]
    fn a_call_that_was_approved_without_asking_is_shown_once() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "a"));
        let other = CallId { step: 1, slot: 1 };
        for (call, by) in [(CALL, ApprovalAnswer::AUTO), (other, "user")] {
            if by == ApprovalAnswer::AUTO {
                let message = "approved without asking: make all".to_owned();
                tape.add(&root(), Event::Log { level: LogLevel::Warn, message, cause: None });
            }
            let (decision, by) = ("allow".to_owned(), by.to_owned());
            tape.add(&root(), Event::ApprovalDecision { call, decision, by });
            tape.add(&root(), called(call, "terminal", r#"{"command":"make all"}"#));
        }
        let shown = "warning: approved without asking: make all\nrun make all";
        assert_eq!(print(&tape, Detail::Normal), shown);
    }

    #[test]
    fn a_refused_call_is_told_with_its_rule_and_how_to_allow_it() {
        let told = |agent: &AgentId, by: &str, unasked| {
            let mut tape = TestWriter::default();
            tape.add(&root(), started(&root(), "a"));
            tape.add(&child(0), started(&child(0), "b"));
            let (command, class) = ("make all".to_owned(), "dangerous".to_owned());
            let reason = "commands can do anything".to_owned();
            tape.add(agent, Event::ApprovalRequest { call: CALL, command, class, reason });
            let (decision, by) = ("deny".to_owned(), by.to_owned());
            tape.add(agent, Event::ApprovalDecision { call: CALL, decision, by });
            let text = "denied by rule, words for the model: use read_file";
            tape.add(agent, returned(CALL, "terminal", CallStatus::Denied, text, Vec::new()));
            let (mut tree, mut plain) = (ScreenTree::new(tools()), Plain::new(tools(), unasked));
            let tell = |record| {
                tree.apply(record);
                plain.lines(&tree, record, Detail::Normal)
            };
            let lines: Vec<ScreenLine> = tape.records.iter().flat_map(tell).collect();
            lines.iter().map(|line| line.render(false)).collect::<Vec<_>>().join("\n")
        };
        let lead = "terminal refused: make all (dangerous: commands can do anything); ";
        let no_terminal = "there is no terminal to ask at; `--approve auto` allows it";
        for (agent, by, unasked, why) in [
            (root(), ApprovalAnswer::NOBODY, true, no_terminal),
            (root(), NO_TERMINAL, false, no_terminal),
            (root(), ApprovalAnswer::NOBODY, false, "approvals are off; `--approve ask` asks you"),
            (root(), "user", false, "you said no"),
            (root(), "editor", false, "denied by editor"),
        ] {
            assert_eq!(told(&agent, by, unasked), format!("{lead}{why}"));
        }
        let child = told(&child(0), ApprovalAnswer::NOBODY, true);
        let why = "calls of children are not approved; `delegation.approvals: ask` or `auto` \
                   allows it";
        assert_eq!(child, format!("[1/3] {lead}{why}"));
    }

    #[test]
    fn tasks_that_never_began_and_those_that_were_refused_are_told() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "a"));
        let (status, error) = (Status::Interrupted, "it ended: it was not started".to_owned());
        let fact = |task_index| ToolEffect::NotBegun {
            agent: child(task_index),
            task_index,
            model: "m".to_owned(),
            status,
            error: error.clone(),
        };
        let facts = vec![fact(1), fact(2)];
        tape.add(&root(), returned(CALL, "delegate_task", CallStatus::Cancelled, "{}", facts));
        let error = |remedy| json!({"code": "E_TYPE", "field": "role", "remedy": remedy});
        let text = json!({"error": "no child was started", "errors": [error("a"), error("b")]});
        let text = text.to_string();
        tape.add(&root(), returned(CALL, "delegate_task", CallStatus::Error, &text, Vec::new()));
        let told = "tasks 2, 3 not begun: it ended: it was not started\n\
                    delegate_task cancelled\n\
                    delegate_task refused: a; b";
        assert_eq!(print(&tape, Detail::Normal), told);
        assert_eq!(print(&tape, Detail::Quiet), "");
    }

    #[test]
    fn quiet_shows_each_wait_that_makes_five_more_seconds_of_silence() {
        /// Records a retry of an agent that waits so long.
        fn retry(tape: &mut TestWriter, agent: &AgentId, attempt: u32, wait_ms: u64) {
            let reason = "provider local: HTTP 503: busy".to_owned();
            tape.add(agent, Event::ModelRetry { attempt, of: 5, reason, wait_ms });
        }
        let shown = |waits: &[u64]| {
            let mut tape = TestWriter::default();
            tape.add(&root(), started(&root(), "Go"));
            let mut begin = 0;
            for (attempt, wait) in (2..).zip(waits) {
                retry(&mut tape, &root(), attempt, *wait);
                tape.records.last_mut().unwrap().at += begin;
                begin += wait;
            }
            print(&tape, Detail::Quiet)
        };
        let busy = "provider local: HTTP 503: busy";
        assert_eq!(shown(&[500, 1500]), "", "that is soon over");
        assert_eq!(
            shown(&[500, 1500, 4500, 20_300]),
            format!(
                "waiting for the model: attempt 4 of 5 in 4.5 s: {busy}\n\
                 waiting for the model: attempt 5 of 5 in 20.3 s: {busy}"
            )
        );
        assert_eq!(
            shown(&[5000]),
            format!("waiting for the model: attempt 2 of 5 in 5.0 s: {busy}")
        );
        assert_eq!(shown(&[60_000; 4]).lines().count(), 4);

        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "Go"));
        for _ in 0..2 {
            for agent in [root(), child(0), child(1)] {
                retry(&mut tape, &agent, 2, 6000);
            }
            tape.add(&root(), replied(1, "Fine.", &[]));
        }
        assert_eq!(print(&tape, Detail::Quiet).lines().count(), 2, "one line for all agents");
    }

    #[test]
    fn quiet_tells_errors_only() {
        assert_eq!(print(&session(), Detail::Quiet), "error: line one ⏎ line two");
    }

    #[test]
    fn a_reply_arrives_in_whole_lines_and_nothing_of_it_is_lost() {
        let mut tree = ScreenTree::default();
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "a"));
        tape.add(&child(0), started(&child(0), "b"));
        tape.add(&child(0), replied(1, "", &[]));
        tape.records.iter().for_each(|record| tree.apply(record));
        let mut plain = Plain::default();
        let mut out = Vec::new();
        for piece in ["Hel", "lo\nyou", "\u{1b}", "[2J and", " me\n\nlast"] {
            out.extend(plain.delta(&tree, &child(0), Delta::Text(piece)));
        }
        out.extend(plain.delta(&tree, &root(), Delta::Reasoning("hm\n")));
        out.extend(plain.lines(&tree, &tape.records[2], Detail::Verbose));
        let out: Vec<String> = out.iter().map(|line| line.render(false)).collect();
        assert_eq!(out, ["[1/3] | Hello", "[1/3] | you and me", "thinking | hm", "[1/3] | last"]);
        let long = "x".repeat(HELD_BYTES + 1);
        assert_eq!(plain.delta(&tree, &root(), Delta::Text(&long)).len(), 1);
    }
}
