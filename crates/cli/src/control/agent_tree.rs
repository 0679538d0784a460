//! The agents of a session as they stand: a fold over its records.

use std::collections::BTreeMap;

use deputize_core::agent::Role;
use deputize_core::budget::{Cost, shown_usd};
use deputize_core::model::Usage;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, CallId, Event, Record};
use serde_json::{Value, json};

use crate::agent_name::short;
use crate::output::events::time;
use crate::screen::summary::{dollars, running, tokens};
use crate::screen::tree::priced;

/// The most characters of a goal.
const GOAL_CHARS: usize = 400;

/// The agents of one session.
#[derive(Debug, Default)]
pub(crate) struct AgentTree {
    agents: BTreeMap<AgentId, AgentRow>,
    /// In the order they began.
    order: Vec<AgentId>,
    /// How its last run ended, if it has.
    pub(crate) ended: Option<&'static str>,
    /// Who said that no new children may start.
    pub(crate) paused: Option<String>,
    /// When the last record was made.
    last: u64,
}

#[derive(Debug)]
struct AgentRow {
    parent: Option<AgentId>,
    depth: u32,
    goal: String,
    role: Role,
    model: String,
    ended: Option<&'static str>,
    stalled: bool,
    rests: bool,
    /// It waits for a place among those that run.
    waits: bool,
    /// The calls that a person is asked about.
    asks: Vec<CallId>,
    /// It was told to end, or gives its closing answer.
    ends: bool,
    calls: Vec<(CallId, String)>,
    iterations: u32,
    /// Calls that have a result.
    tool_calls: usize,
    usage: Usage,
    cost: Cost,
    started: u64,
    /// Milliseconds since then in which no process of the session ran.
    downtime_ms: u64,
    /// How many milliseconds it took, once it has ended.
    took: u64,
}

impl AgentTree {
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut family = Self::default();
        records.iter().for_each(|record| family.apply(record));
        family
    }

    fn apply(&mut self, record: &Record) {
        self.apply_event(record);
        self.last = record.at;
    }

    fn apply_event(&mut self, record: &Record) {
        match &record.event {
            Event::SessionStart(_) => {
                (self.ended, self.paused) = (None, None);
                for member in self.agents.values_mut() {
                    member.calls.clear();
                    member.asks.clear();
                    member.ends = false;
                    // A child is taken up again when its turn comes.
                    member.waits = member.depth > 0 && member.ended.is_none();
                    member.downtime_ms += record.at.saturating_sub(self.last);
                }
            }
            Event::SessionEnd { status, .. } => self.ended = Some(status.as_str()),
            Event::SpawnPaused { by, paused } => self.paused = paused.then(|| by.clone()),
            Event::AgentStart(start) => {
                let spec = &start.spec;
                let member = AgentRow {
                    parent: spec.parent.clone(),
                    depth: spec.depth,
                    goal: for_terminal_line(&spec.goal, GOAL_CHARS),
                    role: spec.role,
                    model: spec.model.clone(),
                    ended: None,
                    stalled: false,
                    rests: false,
                    waits: spec.background,
                    asks: Vec::new(),
                    ends: false,
                    calls: Vec::new(),
                    iterations: 0,
                    tool_calls: 0,
                    usage: Usage::default(),
                    cost: Cost::default(),
                    started: record.at,
                    downtime_ms: 0,
                    took: 0,
                };
                if self.agents.insert(record.agent.clone(), member).is_none() {
                    self.order.push(record.agent.clone());
                }
            }
            event => {
                if let Some(member) = self.agents.get_mut(&record.agent) {
                    member.apply(event);
                }
            }
        }
    }

    /// In the order of a tree: each agent before its children, these as they began.
    fn walk(&self) -> Vec<(&AgentId, &AgentRow)> {
        let mut children: BTreeMap<&AgentId, Vec<&AgentId>> = BTreeMap::new();
        let mut open: Vec<&AgentId> = Vec::new();
        for id in self.order.iter().rev() {
            match self.agents.get(id).and_then(|member| member.parent.as_ref()) {
                Some(parent) => children.entry(parent).or_default().push(id),
                None => open.push(id),
            }
        }
        let mut all = Vec::new();
        while let Some(id) = open.pop() {
            all.extend(self.agents.get_key_value(id));
            open.extend(children.remove(id).unwrap_or_default());
        }
        all
    }

    /// Of each agent with all below it.
    fn totals(&self) -> BTreeMap<AgentId, Total> {
        let mut totals: BTreeMap<AgentId, Total> = BTreeMap::new();
        for (id, member) in &self.agents {
            for agent in std::iter::once(id.clone()).chain(id.ancestors()) {
                totals.entry(agent).or_default().add(member);
            }
        }
        totals
    }

    /// What all agents cost together.
    pub(crate) fn cost(&self) -> Cost {
        let mut total = Total::default();
        self.agents.values().for_each(|member| total.add(member));
        total.cost
    }

    /// The model that the top agent asked last, or is to ask.
    pub(crate) fn model(&self) -> Option<&str> {
        let top = self.agents.values().find(|member| member.parent.is_none());
        top.map(|top| top.model.as_str())
    }

    /// What all agents took together, in words; nothing where there is but one.
    pub(crate) fn total(&self) -> Option<String> {
        let mut total = Total::default();
        self.agents.values().for_each(|member| total.add(member));
        let agents = Some(total.agents).filter(|agents| *agents > 1)?;
        let spent = tokens(total.usage.input + total.usage.output);
        let cost = dollars(total.cost.known_usd()).map(|cost| format!(", {cost}"));
        Some(format!("{agents} agents, {spent} tokens{} in all", cost.unwrap_or_default()))
    }

    /// Returns until when the time of agents counts: where no process runs, until the last record.
    fn until(&self, runs: bool, now: u64) -> u64 {
        if runs { now } else { self.last }
    }

    /// Each agent, for programs.
    pub(crate) fn json(&self, runs: bool, now: u64) -> Vec<Value> {
        let totals = self.totals();
        let now = self.until(runs, now);
        let json = |(id, member): (&AgentId, &AgentRow)| {
            let mut value = member.json(id, runs, now);
            let tree = totals.get(id).map(Total::json);
            if let (Some(map), Some(tree)) = (value.as_object_mut(), tree) {
                map.insert("tree".to_owned(), tree);
            }
            value
        };
        self.walk().into_iter().map(json).collect()
    }

    /// Each agent, as a row of a table.
    pub(crate) fn rows(&self, runs: bool, now: u64, names: Names) -> Vec<[String; 10]> {
        let now = self.until(runs, now);
        let name = |id| match names {
            Names::Whole => AgentId::as_str(id),
            Names::InSession => short(id),
        };
        self.walk().into_iter().map(|(id, member)| member.row(name(id), runs, now)).collect()
    }
}

/// What several agents took together.
#[derive(Debug, Default)]
struct Total {
    agents: usize,
    usage: Usage,
    cost: Cost,
}

impl Total {
    fn add(&mut self, member: &AgentRow) {
        self.agents += 1;
        self.usage += member.usage;
        self.cost += member.cost;
    }

    fn json(&self) -> Value {
        json!({
            "agents": self.agents,
            "tokens": tokens_of(self.usage),
            "cost_usd": self.cost.known_usd().map(shown_usd),
        })
    }
}

fn tokens_of(usage: Usage) -> Value {
    json!({"input": usage.input, "cached": usage.cached, "output": usage.output})
}

/// What the columns of [`Family::rows`] are.
pub(crate) const COLUMNS: [&str; 10] =
    ["AGENT", "STATUS", "MODEL", "TOOL", "STEPS", "CALLS", "TOKENS", "COST", "TIME", "GOAL"];

/// Columns that give way where a terminal is too narrow for all of them, in this order.
pub(crate) const GIVE_WAY: [&str; 7] =
    ["MODEL", "CALLS", "COST", "STEPS", "TOKENS", "TOOL", "GOAL"];

/// How the agents of a table are named.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Names {
    /// With their session.
    Whole,
    /// As the tree of a session names them.
    InSession,
}

impl AgentRow {
    fn apply(&mut self, event: &Event) {
        self.stalled = matches!(event, Event::AgentHeartbeat { stalled: true, .. });
        // What became of what was under way is put on record before its turn comes.
        self.waits &= !matches!(
            event,
            Event::Message(_)
                | Event::ModelRequest { .. }
                | Event::ToolStart { .. }
                | Event::AgentRest
        );
        match event {
            Event::ToolStart { call, tool, .. } => self.calls.push((*call, tool.clone())),
            Event::ToolEnd(end) => {
                self.calls.retain(|(call, _)| *call != end.result.call);
                self.tool_calls += 1;
            }
            // By the name that agents know it by: how a server calls it is told by its replies.
            Event::ModelRequest { model, .. } if !model.is_empty() => self.model.clone_from(model),
            Event::ModelResponse { iteration, reply, cost_usd, .. } => {
                self.iterations = *iteration;
                self.usage += reply.usage;
                self.cost += priced(reply.usage, *cost_usd);
            }
            Event::ModelError { error, cost, .. } => {
                self.usage += error.usage.as_deref().copied().unwrap_or_default();
                self.cost += cost.unwrap_or_default();
            }
            Event::ApprovalRequest { call, .. } => self.asks.push(*call),
            Event::ApprovalDecision { call, .. } => self.asks.retain(|asked| asked != call),
            Event::AgentWrapUp { .. } | Event::AgentStop { .. } => self.ends = true,
            Event::AgentRest => self.rests = true,
            Event::Message(_) => self.rests = false,
            Event::AgentResume { .. } => (self.ended, self.ends) = (None, false),
            Event::AgentEnd(outcome) => {
                self.cost.unpriced |= outcome.external;
                self.ended = Some(outcome.status.as_str());
                self.took = outcome.duration_ms;
                self.tool_calls = outcome.trace.len();
                self.calls.clear();
            }
            _ => {}
        }
    }

    fn status(&self, runs: bool) -> &'static str {
        match self.ended {
            Some(status) => status,
            None if !runs => "unfinished",
            None if self.ends => "ending",
            None if self.waits => "waiting",
            None if !self.asks.is_empty() => "asking",
            None if self.stalled => "stalled",
            None if self.rests => "resting",
            None => "running",
        }
    }

    /// Milliseconds that it has taken while a process of the session ran.
    fn took(&self, now: u64) -> u64 {
        match self.ended {
            Some(_) => self.took,
            None => now.saturating_sub(self.started).saturating_sub(self.downtime_ms),
        }
    }

    fn tool(&self) -> Option<&str> {
        self.calls.first().map(|(_, tool)| tool.as_str())
    }

    /// The calls with a result and those that run.
    fn calls_begun(&self) -> usize {
        self.tool_calls + self.calls.len()
    }

    fn json(&self, id: &AgentId, runs: bool, now: u64) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "no run takes ten million years")]
        let seconds = self.took(now) as f64 / 1000.0;
        json!({
            "agent": id,
            "parent": self.parent,
            "depth": self.depth,
            "goal": self.goal,
            "role": self.role.as_str(),
            "status": self.status(runs),
            "model": self.model,
            "current_tool": self.tool(),
            "iterations": self.iterations,
            "tool_calls": self.calls_begun(),
            "tokens": tokens_of(self.usage),
            "cost_usd": self.cost.known_usd().map(shown_usd),
            "started": time(self.started),
            "seconds": seconds,
        })
    }

    fn row(&self, name: &str, runs: bool, now: u64) -> [String; 10] {
        let indent = "  ".repeat(self.depth as usize);
        [
            format!("{indent}{name}"),
            self.status(runs).to_owned(),
            for_terminal_line(&self.model, self.model.len()),
            self.tool().map(|tool| for_terminal_line(tool, tool.len())).unwrap_or_default(),
            self.iterations.to_string(),
            self.calls_begun().to_string(),
            tokens(self.usage.input + self.usage.output),
            dollars(self.cost.known_usd()).unwrap_or_default(),
            running(self.took(now)),
            self.goal.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::Status;
    use deputize_core::event::SessionStart;
    use deputize_core::model::{FailureKind, ModelError};
    use deputize_core::outcome::ExitReason;
    use deputize_core::run::WrapUpReason;

    use super::*;

    use crate::fixture::{CALL, TestWriter, child, ended, replied, root, started};

    #[test]
    fn what_an_agent_does_is_told_in_the_words_of_delegate_control() {
        let mut tape = TestWriter::default();
        let mut told = |event| {
            tape.add(&root(), event);
            AgentTree::of(&tape.records).json(true, 0)[0]["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(told(started(&root(), "all")), "running");
        let command = "rm x".to_owned();
        let (class, reason) = ("dangerous".to_owned(), "it deletes".to_owned());
        let request = Event::ApprovalRequest { call: CALL, command, class, reason };
        assert_eq!(told(request), "asking");
        let (decision, by) = ("deny".to_owned(), "user".to_owned());
        assert_eq!(told(Event::ApprovalDecision { call: CALL, decision, by }), "running");
        assert_eq!(told(Event::AgentWrapUp { limit: WrapUpReason::Time, budget: None }), "ending");
        assert_eq!(told(ended(&root(), Status::Timeout, ExitReason::Timeout)), "timeout");
    }

    #[test]
    fn a_child_that_waits_for_its_turn_after_a_resume_is_told_so() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&child(0), started(&child(0), "a"));
        let mut told = |agent: &AgentId, event| {
            tape.add(agent, event);
            AgentTree::of(&tape.records).json(true, 0)[1]["status"].as_str().unwrap().to_owned()
        };
        let again = || {
            let (cwd, model, toolsets) = ("/w".into(), "p/m".to_owned(), Vec::new());
            let program = "deputize".to_owned();
            Event::SessionStart(SessionStart {
                cwd,
                model,
                toolsets,
                program,
                endpoint: None,
                config_file: None,
            })
        };
        let asks = || {
            let model = "p/m".to_owned();
            Event::ModelRequest { iteration: 1, messages: 1, bytes: 1, model }
        };
        assert_eq!(told(&child(0), asks()), "running");
        assert_eq!(told(&root(), again()), "waiting");
        // What became of its request is told before its turn comes.
        let error = ModelError::new(FailureKind::Incomplete, "the program ended");
        let lost = Event::ModelError { error, retried: true, cost: None };
        assert_eq!(told(&child(0), lost), "waiting");
        assert_eq!(told(&child(0), asks()), "running");
        let end = ended(&child(0), Status::Completed, ExitReason::Completed);
        assert_eq!(told(&child(0), end), "completed");
        assert_eq!(told(&root(), again()), "completed");
    }

    #[test]
    fn a_model_has_one_name_before_and_after_its_reply_and_another_one_after_a_fallback() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        let mut asks = |model: &str, replies: bool| {
            let (model, messages, bytes) = (model.to_owned(), 1, 1);
            tape.add(&root(), Event::ModelRequest { iteration: 1, messages, bytes, model });
            if replies {
                tape.add(&root(), replied(1, "", &[]));
            }
            AgentTree::of(&tape.records).json(true, 0)[0]["model"].clone()
        };
        let named = [("p/m", false), ("p/m", true), ("q/other", false), ("q/other", true)];
        for (model, replies) in named {
            assert_eq!(asks(model, replies), model);
        }
    }

    #[test]
    fn time_ends_with_the_last_record_where_no_process_runs() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&root(), replied(1, "", &[]));
        let [first, last] = [0, 1].map(|at: usize| tape.records[at].at);
        let family = AgentTree::of(&tape.records);
        let seconds = |runs| family.json(runs, last + 60_000)[0]["seconds"].as_f64().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let took = (last - first) as f64 / 1000.0;
        assert!((seconds(false) - took).abs() < 0.001, "{}", seconds(false));
        assert!((seconds(true) - took - 60.0).abs() < 0.001, "{}", seconds(true));
    }

    #[test]
    fn a_call_counts_from_its_start() {
        let mut records = TestWriter::default();
        records.add(&root(), started(&root(), "all"));
        let (tool, arguments) = ("terminal".to_owned(), "{}".to_owned());
        records.add(&root(), Event::ToolStart { call: CALL, tool, arguments });
        let agents = AgentTree::of(&records.records).json(true, 0);
        assert_eq!(
            (&agents[0]["current_tool"], &agents[0]["tool_calls"]),
            (&json!("terminal"), &json!(1))
        );
    }

    #[test]
    fn an_agent_is_told_with_all_below_it() {
        let mut tape = TestWriter::default();
        tape.add(&root(), started(&root(), "all"));
        tape.add(&root(), replied(1, "", &[]));
        let alone = AgentTree::of(&tape.records);
        assert_eq!(alone.total(), None);
        tape.add(&child(0), started(&child(0), "a"));
        tape.add(&child(0), replied(1, "", &[]));
        tape.add(&child(0), replied(2, "", &[]));
        let family = AgentTree::of(&tape.records);
        let told = family.json(true, 0);
        let own = |index: usize| told[index]["tokens"]["input"].as_u64().unwrap();
        let tree = |index: usize| told[index]["tree"]["tokens"]["input"].as_u64().unwrap();
        assert_eq!(tree(0), own(0) + own(1));
        assert_eq!((tree(1), own(1)), (own(1), 2 * own(0)));
        assert_eq!(
            (&told[0]["tree"]["agents"], &told[1]["tree"]["agents"]),
            (&json!(2), &json!(1))
        );
        let total = family.total().unwrap();
        assert!(total.starts_with("2 agents, ") && total.ends_with(" in all"), "{total}");
    }
}
