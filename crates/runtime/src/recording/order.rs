//! Checks the order of records: every recording that a program writes keeps it.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::event::{RequestPurpose, ToolEnd};
use deputize_core::message::CallStatus;
use deputize_core::{AgentId, CallId, Event, Record};

/// The records of a recording until now, as far as later ones need them.
#[derive(Debug, Default)]
pub(crate) struct RecordOrder {
    /// Whether the session was begun, or taken up, in this recording.
    begun: bool,
    /// Whether it has ended in it.
    ended: bool,
    agents: BTreeMap<AgentId, RecordedAgent>,
}

/// State of an agent in the recording.
#[derive(Debug, Default)]
struct RecordedAgent {
    /// The task that it was made with.
    task: Option<String>,
    /// Whether it was given a message.
    has_message: bool,
    /// Whether it has a request that is not answered.
    asks: bool,
    /// Calls that run, by their tools.
    calls: BTreeMap<CallId, String>,
    /// Those that ran when the session was resumed; they may start again.
    old: BTreeSet<CallId>,
    /// Whether its turn is over.
    over: bool,
    /// Whether that was put on record here, and not before the session was taken up.
    over_here: bool,
}

impl RecordOrder {
    /// Takes a record from before the session was taken up.
    pub(crate) fn before(&mut self, record: &Record) {
        // It was read from the session file, and ended anywhere: what it holds is not judged.
        let _unjudged = self.agent(record);
        let Some(agent) = self.agents.get_mut(&record.agent) else { return };
        (agent.asks, agent.over_here) = (false, false);
        agent.old = agent.calls.keys().copied().collect();
    }

    /// Takes a record; says why it cannot stand there, if it cannot.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            _ if self.ended => return Err("it stands behind the end of the session".to_owned()),
            Event::SessionStart(_) if self.begun => {
                return Err("the session is begun a second time".to_owned());
            }
            Event::SessionStart(_) => self.begun = true,
            // One that was complete is taken up for its end alone.
            Event::SessionEnd { .. } if self.is_complete(&record.agent) => self.ended = true,
            _ if !self.begun => return Err("the session was not begun before it".to_owned()),
            Event::SessionEnd { .. } => {
                let unended = |agent: &RecordedAgent| agent.task.is_some() && !agent.over;
                if self.agents.get(&record.agent).is_some_and(unended) {
                    let agent = &record.agent;
                    return Err(format!(
                        "the session ends, and agent {agent} has no end before it"
                    ));
                }
                self.ended = true;
            }
            _ => {}
        }
        self.agent(record)
    }

    fn is_complete(&self, agent: &AgentId) -> bool {
        !self.begun && self.agents.get(agent).is_some_and(|agent| agent.over)
    }

    fn agent(&mut self, record: &Record) -> Result<(), String> {
        let id = &record.agent;
        let agent = self.agents.entry(id.clone()).or_default();
        match &record.event {
            Event::AgentStart(start) => {
                let first = agent.task.replace(start.spec.task.clone()).is_none();
                ensure(first, || format!("agent {id} is made a second time"))
            }
            event if agent.task.is_none() && is_of_a_turn(event) => {
                Err(format!("agent {id} is not made before it"))
            }
            Event::Message(message) => {
                (agent.over, agent.over_here) = (false, false);
                let first =
                    !std::mem::replace(&mut agent.has_message, true) && message.from.is_none();
                let is_task = agent.task.as_ref().is_none_or(|task| *task == message.text);
                let what = || format!("the first message of agent {id} is not its task");
                ensure(!first || is_task, what)
            }
            Event::AgentResume { task, .. } => {
                (agent.over, agent.over_here) = (false, false);
                ensure(task.is_none() || agent.task.is_some(), || {
                    format!("agent {id} gets a further task and was not made before it")
                })
            }
            Event::ModelRequest { iteration, purpose: RequestPurpose::Turn, .. } => {
                let free = !std::mem::replace(&mut agent.asks, true);
                ensure(free, || {
                    format!(
                        "request {iteration} of agent {id} is sent while another one is not answered"
                    )
                })
            }
            // What was not sent can fail, too.
            Event::ModelError { .. } => {
                agent.asks = false;
                Ok(())
            }
            Event::ModelResponse { iteration, .. } => {
                let asked = std::mem::take(&mut agent.asks);
                ensure(asked, || {
                    format!("reply {iteration} of agent {id} has no request before it")
                })
            }
            Event::ToolStart { call, tool, .. } => agent.start(id, *call, tool),
            Event::ToolEnd(end) => agent.end(id, end),
            Event::AgentEnd(_) => {
                agent.over = true;
                let first = !std::mem::replace(&mut agent.over_here, true);
                ensure(first, || format!("agent {id} ends a second time"))
            }
            _ => Ok(()),
        }
    }
}

impl RecordedAgent {
    fn start(&mut self, id: &AgentId, call: CallId, tool: &str) -> Result<(), String> {
        if let Some(outer) = call.outer_call() {
            let runs = self.calls.contains_key(&outer);
            ensure(runs, || format!("call {call} of agent {id} begins outside of call {outer}"))?;
        }
        let twice = self.calls.insert(call, tool.to_owned()).is_some();
        let what = || format!("call {call} of agent {id} begins a second time");
        ensure(!twice || self.old.remove(&call), what)
    }

    fn end(&mut self, id: &AgentId, end: &ToolEnd) -> Result<(), String> {
        let call = end.result.call;
        let tool = &end.tool;
        self.old.remove(&call);
        match self.calls.remove(&call) {
            Some(begun) => ensure(begun == *tool, || {
                format!("call {call} of agent {id} begins as {begun} and ends as {tool}")
            }),
            // What was refused never began.
            None => ensure(end.result.status != CallStatus::Ok, || {
                format!("call {call} of agent {id} ends and never began")
            }),
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Whether only an agent that was made has such records.
const fn is_of_a_turn(event: &Event) -> bool {
    matches!(
        event,
        Event::Message(_)
            | Event::ModelRequest { .. }
            | Event::ModelResponse { .. }
            | Event::ToolStart { .. }
            | Event::ToolEnd(_)
            | Event::AgentEnd(_)
    )
}
