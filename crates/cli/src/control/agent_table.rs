//! The agents of a session as a table, and as JSON for programs.

use std::sync::Arc;

use deputize_core::agent::AgentActivity;
use deputize_core::budget::shown_usd;
use deputize_core::model::Usage;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Catalog};
use deputize_runtime::snapshot::TreeTotals;
use deputize_runtime::{AgentSnapshot, SessionSnapshot, StoredSession};
use serde_json::{Value, json};

use crate::agent_name::short;
use crate::output::events::time;
use crate::screen::agent_text::FORK;
use crate::screen::summary::{dollars, running, tokens};

/// Titles of the columns of [`AgentTable::rows`].
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

/// The agents of one session.
#[derive(Debug)]
pub(crate) struct AgentTable<'s> {
    snapshot: &'s SessionSnapshot,
    /// Whether a process works on the session.
    runs: bool,
    /// Until when the time of agents counts, as Unix time in milliseconds.
    until: u64,
}

/// Returns a stored session as it stands.
pub(crate) fn stored_snapshot(stored: &StoredSession) -> SessionSnapshot {
    SessionSnapshot::of(Arc::new(Catalog::default()), &stored.records)
}

/// Returns what all agents took together, in words; `None` if there is but one.
pub(crate) fn total_words(snapshot: &SessionSnapshot) -> Option<String> {
    let total = snapshot.totals();
    let agents = Some(total.agents()).filter(|agents| *agents > 1)?;
    let spent = tokens(total.tokens.input + total.tokens.output);
    let cost = dollars(total.cost.known_usd()).map(|cost| format!(", {cost}"));
    Some(format!("{agents} agents, {spent} tokens{} in all", cost.unwrap_or_default()))
}

impl<'s> AgentTable<'s> {
    /// Returns the table at a time. The time of agents ends with the last record if no process works
    /// on the session.
    pub(crate) const fn new(snapshot: &'s SessionSnapshot, runs: bool, now: u64) -> Self {
        let until = if runs { now } else { snapshot.last_record_at() };
        Self { snapshot, runs, until }
    }

    /// Returns each agent, for programs.
    pub(crate) fn json(&self) -> Vec<Value> {
        let totals = self.snapshot.subtree_totals();
        let json = |agent: &AgentSnapshot| {
            let mut value = self.agent_json(agent);
            let tree = totals.get(&agent.id).map(total_json);
            if let (Some(map), Some(tree)) = (value.as_object_mut(), tree) {
                map.insert("tree".to_owned(), tree);
            }
            value
        };
        self.snapshot.agents().map(json).collect()
    }

    /// Returns each agent, as a row of a table.
    pub(crate) fn rows(&self, names: Names) -> Vec<[String; 10]> {
        let name = |id| match names {
            Names::Whole => AgentId::as_str(id),
            Names::InSession => short(id),
        };
        self.snapshot.agents().map(|agent| self.row(agent, name(&agent.id))).collect()
    }

    fn status(&self, agent: &AgentSnapshot) -> &'static str {
        match agent.activity() {
            AgentActivity::Ended(status) => status.as_str(),
            _ if !self.runs => "unfinished",
            activity => activity.as_str(),
        }
    }

    fn agent_json(&self, agent: &AgentSnapshot) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "no run takes ten million years")]
        let seconds = agent.elapsed_ms(self.until) as f64 / 1000.0;
        json!({
            "agent": agent.id,
            "parent": agent.parent,
            "depth": agent.depth,
            "goal": agent.goal,
            "role": agent.role.as_str(),
            "profile": agent.profile,
            "history": agent.is_fork.then_some("fork"),
            "status": self.status(agent),
            "model": agent.model,
            "current_tool": current_tool(agent),
            "iterations": agent.usage.iteration,
            "tool_calls": agent.call_count(),
            "tokens": tokens_json(agent.usage.tokens),
            "cost_usd": agent.usage.cost.known_usd().map(shown_usd),
            "started": time(agent.times.started),
            "seconds": seconds,
        })
    }

    fn row(&self, agent: &AgentSnapshot, name: &str) -> [String; 10] {
        let indent = "  ".repeat(agent.depth as usize);
        let tool = current_tool(agent).map(|tool| for_terminal_line(tool, tool.len()));
        [
            format!("{indent}{name}"),
            self.status(agent).to_owned(),
            for_terminal_line(&agent.model, agent.model.len()),
            tool.unwrap_or_default(),
            agent.usage.iteration.to_string(),
            agent.call_count().to_string(),
            tokens(agent.usage.tokens.input + agent.usage.tokens.output),
            dollars(agent.usage.cost.known_usd()).unwrap_or_default(),
            running(agent.elapsed_ms(self.until)),
            if agent.is_fork { format!("{FORK}{}", agent.goal) } else { agent.goal.clone() },
        ]
    }
}

fn current_tool(agent: &AgentSnapshot) -> Option<&str> {
    agent.calls.running.first().map(|call| call.tool.as_str())
}

fn total_json(total: &TreeTotals) -> Value {
    json!({
        "agents": total.agents(),
        "tokens": tokens_json(total.tokens),
        "cost_usd": total.cost.known_usd().map(shown_usd),
    })
}

fn tokens_json(usage: Usage) -> Value {
    json!({"input": usage.input, "cached": usage.cached, "output": usage.output})
}

#[cfg(test)]
mod tests {
    use deputize_core::event::{RequestPurpose, SessionStart};
    use deputize_core::model::{FailureKind, ModelError};
    use deputize_core::outcome::ExitReason;
    use deputize_core::run::WrapUpReason;
    use deputize_core::{Event, Status};

    use super::*;

    use crate::fixture::{CALL, TestWriter, child, ended, replied, root, started};

    fn snapshot(records: &TestWriter) -> SessionSnapshot {
        SessionSnapshot::of(Arc::default(), &records.records)
    }

    fn json(records: &TestWriter) -> Vec<Value> {
        AgentTable::new(&snapshot(records), true, 0).json()
    }

    #[test]
    fn what_an_agent_does_is_reported_in_the_words_of_delegate_control() {
        let mut writer = TestWriter::default();
        let mut describe = |event| {
            writer.add(&root(), event);
            json(&writer)[0]["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(describe(started(&root(), "all")), "running");
        let command = "rm x".to_owned();
        let class = "dangerous".to_owned();
        let reason = "it deletes".to_owned();
        let request = Event::ApprovalRequest { call: CALL, command, class, reason };
        assert_eq!(describe(request), "asking");
        let decision = "deny".to_owned();
        let by = "user".to_owned();
        assert_eq!(describe(Event::ApprovalDecision { call: CALL, decision, by }), "running");
        assert_eq!(
            describe(Event::AgentWrapUp { limit: WrapUpReason::Time, budget: None }),
            "ending"
        );
        assert_eq!(describe(ended(&root(), Status::Timeout, ExitReason::Timeout)), "timeout");
    }

    #[test]
    fn a_child_that_waits_for_its_turn_after_a_resume_is_shown_so() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        writer.add(&child(0), started(&child(0), "a"));
        let mut describe = |agent: &AgentId, event| {
            writer.add(agent, event);
            json(&writer)[1]["status"].as_str().unwrap().to_owned()
        };
        let again = || {
            let cwd = "/w".into();
            let model = "p/m".to_owned();
            let toolsets = Vec::new();
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
            Event::ModelRequest {
                iteration: 1,
                messages: 1,
                bytes: 1,
                model,
                purpose: RequestPurpose::Turn,
            }
        };
        assert_eq!(describe(&child(0), asks()), "running");
        assert_eq!(describe(&root(), again()), "waiting");
        // What became of its request is told before its turn comes.
        let error = ModelError::new(FailureKind::Incomplete, "the program ended");
        let lost = Event::ModelError { error, retried: true, cost: None };
        assert_eq!(describe(&child(0), lost), "waiting");
        assert_eq!(describe(&child(0), asks()), "running");
        let end = ended(&child(0), Status::Completed, ExitReason::Completed);
        assert_eq!(describe(&child(0), end), "completed");
        assert_eq!(describe(&root(), again()), "completed");
    }

    #[test]
    fn a_model_has_one_name_before_and_after_its_reply_and_another_one_after_a_fallback() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        let mut asks = |model: &str, replies: bool| {
            let model = model.to_owned();
            let messages = 1;
            let bytes = 1;
            writer.add(
                &root(),
                Event::ModelRequest {
                    iteration: 1,
                    messages,
                    bytes,
                    model,
                    purpose: RequestPurpose::Turn,
                },
            );
            if replies {
                writer.add(&root(), replied(1, "", &[]));
            }
            json(&writer)[0]["model"].clone()
        };
        let named = [("p/m", false), ("p/m", true), ("q/other", false), ("q/other", true)];
        for (model, replies) in named {
            assert_eq!(asks(model, replies), model);
        }
    }

    #[test]
    fn time_ends_with_the_last_record_where_no_process_runs() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        writer.add(&root(), replied(1, "", &[]));
        let [first, last] = [0, 1].map(|at: usize| writer.records[at].at);
        let family = snapshot(&writer);
        let seconds = |runs| {
            AgentTable::new(&family, runs, last + 60_000).json()[0]["seconds"].as_f64().unwrap()
        };
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let took = (last - first) as f64 / 1000.0;
        assert!((seconds(false) - took).abs() < 0.001, "{}", seconds(false));
        assert!((seconds(true) - took - 60.0).abs() < 0.001, "{}", seconds(true));
    }

    #[test]
    fn a_call_counts_from_its_start() {
        let mut records = TestWriter::default();
        records.add(&root(), started(&root(), "all"));
        let tool = "terminal".to_owned();
        let arguments = "{}".to_owned();
        records.add(&root(), Event::ToolStart { call: CALL, tool, arguments });
        let agents = json(&records);
        assert_eq!(
            (&agents[0]["current_tool"], &agents[0]["tool_calls"]),
            (&json!("terminal"), &json!(1))
        );
    }

    #[test]
    fn an_agent_is_stopped_with_all_below_it() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "all"));
        writer.add(&root(), replied(1, "", &[]));
        assert_eq!(total_words(&snapshot(&writer)), None);
        writer.add(&child(0), started(&child(0), "a"));
        writer.add(&child(0), replied(1, "", &[]));
        writer.add(&child(0), replied(2, "", &[]));
        let actual = json(&writer);
        let own = |index: usize| actual[index]["tokens"]["input"].as_u64().unwrap();
        let tree = |index: usize| actual[index]["tree"]["tokens"]["input"].as_u64().unwrap();
        assert_eq!(tree(0), own(0) + own(1));
        assert_eq!((tree(1), own(1)), (own(1), 2 * own(0)));
        assert_eq!(
            (&actual[0]["tree"]["agents"], &actual[1]["tree"]["agents"]),
            (&json!(2), &json!(1))
        );
        let total = total_words(&snapshot(&writer)).unwrap();
        assert!(total.starts_with("2 agents, ") && total.ends_with(" in all"), "{total}");
    }
}
