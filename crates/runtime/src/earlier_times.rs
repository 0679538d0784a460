//! How long agents and calls ran in earlier processes, by the times of their records. The present
//! process measures its own time, with a clock that does not jump.

use std::collections::BTreeMap;
use std::time::Duration;

use deputize_core::{AgentId, CallId, Event, Record};

/// Minimum running time of an agent and its open calls in earlier processes.
#[derive(Debug, Default)]
pub(crate) struct EarlierTime {
    /// With its present task.
    pub(crate) agent: Duration,
    /// With the tasks before that one, in this process too.
    pub(crate) tasks: Duration,
    pub(crate) calls: BTreeMap<CallId, Duration>,
}

/// Running time in the earlier processes of a session.
#[derive(Debug, Default)]
pub(crate) struct EarlierTimes {
    /// Of each agent and its calls without a result: of a child from its first message on, of the
    /// top agent in all its turns.
    pub(crate) agents: BTreeMap<AgentId, EarlierTime>,
    /// The time in which at least one child ran.
    pub(crate) children: Duration,
    /// Depths of the agents that run.
    running: BTreeMap<AgentId, u32>,
    /// When the last record was made, in milliseconds since 1970.
    last_ms: u64,
}

impl EarlierTimes {
    /// Folds the records of a session.
    pub(crate) fn of(records: &[Record]) -> Self {
        let mut times = Self::default();
        records.iter().for_each(|record| times.apply(record));
        times
    }

    fn apply(&mut self, record: &Record) {
        if let Event::SessionStart(_) = record.event {
            // Nothing ran between two processes.
            self.last_ms = record.at;
            self.running = BTreeMap::from([(record.agent.clone(), record.depth)]);
        }
        self.add_time(record.at);
        let agent = &record.agent;
        match &record.event {
            Event::AgentEnd(_) => _ = self.running.remove(agent),
            Event::ToolEnd(end) => {
                if let Some(times) = self.agents.get_mut(agent) {
                    times.calls.remove(&end.result.call);
                }
            }
            Event::ToolStart { call, .. } => {
                self.agents.entry(agent.clone()).or_default().calls.entry(*call).or_default();
                self.running.insert(agent.clone(), record.depth);
            }
            Event::AgentResume { task: Some(_), .. } => {
                if let Some(times) = self.agents.get_mut(agent) {
                    times.tasks += std::mem::take(&mut times.agent);
                }
            }
            Event::Message(_) | Event::ModelRequest { .. } => {
                self.running.insert(agent.clone(), record.depth);
            }
            _ => {}
        }
    }

    /// Adds the time since the last record to all that runs.
    fn add_time(&mut self, now_ms: u64) {
        // Clocks jump back, too.
        let passed = Duration::from_millis(now_ms.saturating_sub(self.last_ms));
        self.last_ms = now_ms;
        for id in self.running.keys() {
            self.agents.entry(id.clone()).or_default().agent += passed;
        }
        for ran in self.agents.values_mut().flat_map(|times| times.calls.values_mut()) {
            *ran += passed;
        }
        if self.running.values().any(|depth| *depth > 0) {
            self.children += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::SessionId;
    use deputize_core::event::SessionStart;
    use deputize_core::message::UserMessage;

    use super::*;

    #[test]
    fn nothing_runs_between_two_processes_and_children_share_their_time() {
        let top = AgentId::root(&SessionId::literal("s"));
        let call = CallId::new(1, 0);
        let [first, second] = [0, 1].map(|index| top.child(call, index));
        let record = |at: u64, agent: &AgentId, event| {
            let parent = agent.ancestors().next();
            let depth = u32::from(parent.is_some());
            Record { seq: 0, at: at * 1000, agent: agent.clone(), parent, depth, event }
        };
        let message = || Event::Message(UserMessage::new(String::new()));
        let tool = || Event::ToolStart { call, tool: String::new(), arguments: String::new() };
        let start = || {
            Event::SessionStart(SessionStart {
                cwd: "/w".into(),
                model: String::new(),
                toolsets: Vec::new(),
                program: String::new(),
                endpoint: None,
                config_file: None,
            })
        };
        let records = [
            record(0, &top, start()),
            record(10, &top, tool()),
            record(20, &first, message()),
            record(30, &second, message()),
            record(35, &second, tool()),
            record(40, &first, message()),
            // The clock was set back.
            record(5, &first, message()),
            record(1000, &top, start()),
            record(1100, &second, message()),
            record(1107, &second, message()),
        ];
        let times = EarlierTimes::of(&records);
        let seconds = |agent: &AgentId| {
            let time = &times.agents[agent];
            (time.agent.as_secs(), time.calls.get(&call).map(Duration::as_secs))
        };
        assert_eq!(seconds(&top), (40 + 107, Some(30 + 107)));
        assert_eq!(seconds(&first), (20, None));
        assert_eq!(seconds(&second), (10 + 7, Some(5 + 107)));
        assert_eq!(times.children.as_secs(), 20 + 7);
    }
}
