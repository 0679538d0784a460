//! What agents have read from outside, over any sequence of records.

use std::path::Path;

use deputize_core::agent::SpawnedBy;
use deputize_core::compaction::{Compaction, CompactionLimits, SummaryRequest};
use deputize_core::event::{AgentStart, ToolEnd};
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::model::{Reply, Usage};
use deputize_core::name::ChildEndId;
use deputize_core::source_set::SourceSet;
use deputize_core::{CallId, Outcome, SessionId, Status, ToolResult};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::agent_state::NextStep;
use crate::session::top_agent;

/// What happens next to the top agent, or to its child.
#[derive(Debug, Clone, Copy)]
enum HistoryStep {
    /// A call whose result has one of these sources.
    Read(&'static str),
    /// A call that makes a nested one, whose result has this source.
    ReadNested(&'static str),
    ChildRead(&'static str),
    ChildStart {
        is_fork: bool,
    },
    /// The child ends, and a message reports it.
    ChildEnd,
    Compact,
    /// The next records are of another process.
    Resume,
}

fn history_step() -> impl Strategy<Value = HistoryStep> {
    let source = || proptest::sample::select(&["web:a", "web:b", "mcp:m", "tool:look"][..]);
    prop_oneof![
        3 => source().prop_map(HistoryStep::Read),
        1 => source().prop_map(HistoryStep::ReadNested),
        2 => source().prop_map(HistoryStep::ChildRead),
        2 => any::<bool>().prop_map(|is_fork| HistoryStep::ChildStart { is_fork }),
        2 => Just(HistoryStep::ChildEnd),
        2 => Just(HistoryStep::Compact),
        1 => Just(HistoryStep::Resume),
    ]
}

/// A session's records and their fold.
#[derive(Default)]
struct RecordedSession {
    states: AgentStates,
    records: Vec<Record>,
    children: u32,
    child: Option<AgentId>,
}

fn top() -> AgentId {
    AgentId::root(&SessionId::literal("s"))
}

impl RecordedSession {
    fn begun() -> Self {
        let mut session = Self::default();
        let spec = top_agent(&SessionId::literal("s"), "p/m", "go", Path::new("/w"));
        session.start(spec);
        session.record(&top(), said("go", Source::user()));
        session
    }

    /// Adds a record, as its file gives it back.
    fn record(&mut self, agent: &AgentId, event: Event) {
        let parent = agent.ancestors().next();
        let depth = u32::from(parent.is_some());
        let record = Record { seq: 0, at: 0, agent: agent.clone(), parent, depth, event };
        let stored = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        self.states.apply(&stored);
        self.records.push(stored);
    }

    fn start(&mut self, spec: AgentSpec) {
        let id = spec.id.clone();
        let (system, tools, texts) = (Vec::new(), String::new(), Default::default());
        let start = AgentStart { spec, system, tools, texts };
        self.record(&id, Event::AgentStart(Box::new(start)));
    }

    fn next_call(&self, agent: &AgentId) -> CallId {
        match self.states.get(agent).unwrap().read().next_step() {
            NextStep::Ask { iteration, .. } => CallId::new(iteration, 0),
            step => panic!("{agent} does not ask: {step:?}"),
        }
    }

    fn call(&mut self, agent: &AgentId) -> CallId {
        let call = self.next_call(agent);
        let reply = Reply::calls("m", [("read", json!({ "step": call.step }))]);
        self.record(agent, replied(call.step, reply));
        self.begin_call(agent, call);
        call
    }

    fn begin_call(&mut self, agent: &AgentId, call: CallId) {
        let (tool, arguments) = ("read".to_owned(), String::new());
        self.record(agent, Event::ToolStart { call, tool, arguments });
    }

    fn end_call(&mut self, agent: &AgentId, call: CallId, sources: SourceSet) {
        let result = ToolResult {
            sources,
            ..ToolResult::host(call, CallStatus::Ok, format!("{call} read {agent}"))
        };
        let (tool, facts) = ("read".to_owned(), Vec::new());
        let (display, error, boundary) = (None, None, None);
        let end = ToolEnd { tool, result, args_bytes: 0, ms: 0, facts, display, error, boundary };
        self.record(agent, Event::ToolEnd(Box::new(end)));
    }

    fn read(&mut self, agent: &AgentId, source: &str, is_nested: bool) {
        let call = self.call(agent);
        let source = source.parse().unwrap();
        if !is_nested {
            return self.end_call(agent, call, [source].into());
        }
        self.begin_call(agent, call.nested_call(1));
        self.end_call(agent, call.nested_call(1), [source].into());
        let sources = self.states.get(agent).unwrap().read().call_sources(call);
        self.end_call(agent, call, sources);
    }

    fn start_child(&mut self, is_fork: bool) {
        let call = self.call(&top());
        self.children += 1;
        let id = top().child(call, 0);
        let spawned_by = Some(SpawnedBy { call, task_index: 0, task_count: 1 });
        let spec = top_agent(&SessionId::literal("s"), "p/m", "go", Path::new("/w"));
        self.start(AgentSpec {
            id: id.clone(),
            parent: Some(top()),
            depth: 1,
            spawned_by,
            is_fork,
            background: true,
            ..spec
        });
        let (parent, child) = (self.outside()[&top()].clone(), self.outside()[&id].clone());
        assert_eq!(child, if is_fork { parent } else { SourceSet::new() });
        let sources = self.states.parent_sources(&top());
        let task = UserMessage::new("go").with_sources(sources);
        self.record(&id, Event::Message(task));
        self.end_call(&top(), call, [Source::tool("delegate")].into());
        self.child = Some(id);
    }

    fn end_child(&mut self, child: &AgentId) {
        let call = self.next_call(child);
        self.record(child, replied(call.step, Reply::text("m", "done")));
        let outcome =
            Outcome::not_started(child.clone(), "p/m".to_owned(), Status::Completed, String::new());
        self.record(child, Event::AgentEnd(Box::new(outcome)));
        let sources = self.states.get(&top()).unwrap().read().child_sources(child);
        let from = Some(ChildEndId { child: child.clone(), number: 1 });
        let report = UserMessage::new("It has ended.").with_sources(sources);
        self.record(&top(), Event::Message(UserMessage { from, ..report }));
    }

    fn compact(&mut self) {
        let limits = CompactionLimits { tail: 0, step: 0, requests: 0, least: 0 };
        let part = self.states.get(&top()).unwrap().read().run().replaceable_part(limits);
        let Some(part) = part else { return };
        let request = SummaryRequest {
            model: "p/m".to_owned(),
            usage: Usage::default(),
            estimated: false,
            cost_usd: None,
            ms: 0,
        };
        let (text, path) = ("Summary.".to_owned(), "/s".into());
        let compaction = Compaction { part, text, bytes_before: 9, bytes_after: 1, path, request };
        self.record(&top(), Event::Compaction(Box::new(compaction)));
    }

    fn apply(&mut self, step: HistoryStep) {
        match (step, self.child.clone()) {
            (HistoryStep::Read(source), _) => self.read(&top(), source, false),
            (HistoryStep::ReadNested(source), _) => self.read(&top(), source, true),
            (HistoryStep::ChildRead(source), Some(child)) => self.read(&child, source, false),
            (HistoryStep::ChildStart { is_fork }, None) => self.start_child(is_fork),
            (HistoryStep::ChildEnd, Some(child)) => {
                self.end_child(&child);
                self.child = None;
            }
            (HistoryStep::Compact, _) => self.compact(),
            (HistoryStep::Resume, _) => self.states = AgentStates::of(&self.records),
            (HistoryStep::ChildRead(_) | HistoryStep::ChildEnd, None)
            | (HistoryStep::ChildStart { .. }, Some(_)) => {}
        }
    }

    /// Returns what each agent has read from outside.
    fn outside(&self) -> IndexMap<AgentId, SourceSet> {
        let states = self.states.lock();
        states.iter().map(|(id, state)| (id.clone(), state.read().outside().clone())).collect()
    }

    /// Returns what the messages that an agent has now say of it.
    fn said_by_messages(&self, agent: &AgentId) -> SourceSet {
        let messages = self.states.get(agent).unwrap().messages();
        SourceSet::outside(messages.iter().flat_map(|message| message.sources()))
    }

    /// Returns what an agent has read from outside by a replay of its own records.
    fn replayed(&self, agent: &AgentId) -> SourceSet {
        let states = AgentStates::default();
        let mut shared = None;
        for record in &self.records {
            match &record.event {
                Event::AgentStart(start) if record.agent == *agent => {
                    shared = Some(states.open(&start.spec));
                }
                event if record.agent == *agent => shared.as_ref().unwrap().replay(event),
                // Whatever it was forked from.
                Event::AgentStart(start) => drop(states.open(&start.spec)),
                event => states.get(&record.agent).unwrap().replay(event),
            }
        }
        shared.unwrap().read().outside().clone()
    }
}

impl RecordedSession {
    /// Returns the sources of the summary in the top agent's conversation.
    fn summary_sources(&self) -> SourceSet {
        let messages = self.states.get(&top()).unwrap().messages();
        let summary = messages.iter().find(|it| it.sources().contains(&Source::summary("p/m")));
        summary.unwrap().sources().clone()
    }
}

fn said(text: &str, source: Source) -> Event {
    Event::Message(UserMessage::new(text).with_sources([source]))
}

fn replied(iteration: u32, reply: Reply) -> Event {
    Event::ModelResponse { iteration, reply, ms: 1, cost_usd: None, estimated: false }
}

proptest! {
    #[test]
    fn what_was_read_from_outside_never_shrinks(
        steps in proptest::collection::vec(history_step(), 0..40),
    ) {
        let mut session = RecordedSession::begun();
        let mut before = session.outside();
        for step in steps {
            session.apply(step);
            let now = session.outside();
            for (agent, read) in &before {
                prop_assert!(read.iter().all(|it| now[agent].contains(it)), "{:?}: {} lost some", step, agent);
            }
            for (agent, read) in &now {
                prop_assert_eq!(read, &session.said_by_messages(agent), "{:?}", step);
                prop_assert_eq!(read, &session.replayed(agent), "{:?}", step);
            }
            prop_assert_eq!(&now, &RecordedSession {
                states: AgentStates::of(&session.records), ..RecordedSession::default()
            }.outside());
            before = now;
        }
    }
}

#[test]
fn a_report_has_the_sources_of_its_child() {
    let mut session = RecordedSession::begun();
    session.start_child(false);
    let child = session.child.clone().unwrap();
    session.read(&child, "web:a", false);
    assert_eq!(session.outside()[&top()], SourceSet::new());
    session.end_child(&child);
    let read = [Source::child(child.as_str()), Source::web("a")];
    assert_eq!(session.outside()[&top()], SourceSet::from(read.clone()));
    session.compact();
    let said = session.summary_sources();
    assert!(read.iter().all(|it| said.contains(it)));
}

#[test]
fn a_summary_has_all_sources_of_what_it_replaces() {
    let mut session = RecordedSession::begun();
    session.read(&top(), "tool:look", false);
    session.compact();
    let sources = [Source::summary("p/m"), Source::tool("look")];
    let said = session.summary_sources();
    assert!(sources.iter().all(|it| said.contains(it)));
}

#[test]
fn what_the_system_text_names_from_outside_counts_as_read() {
    let mut session = RecordedSession::begun();
    session.start_child(false);
    let child = session.child.clone().unwrap();
    let states = AgentStates::default();
    for record in &mut session.records {
        if let Event::AgentStart(start) = &mut record.event {
            start.spec.system_sources = [Source::web("b"), Source::memory("work")].into();
        }
        states.apply(record);
    }
    for agent in [top(), child] {
        let read = states.get(&agent).unwrap().read().outside().clone();
        assert_eq!(read, SourceSet::from([Source::web("b")]));
    }
}

#[test]
fn an_older_record_names_its_sources_as_an_effect() {
    let mut session = RecordedSession::begun();
    let call = session.call(&top());
    let result = json!({"call": call, "status": "ok", "text": "page", "fingerprint": ""});
    let facts = ["web:a", "children"].map(|it| json!({"fact": "outside_read", "source": it}));
    let end = json!({"type": "tool.end", "tool": "fetch", "result": result, "args_bytes": 0,
        "ms": 1, "facts": facts});
    session.record(&top(), serde_json::from_value(end).unwrap());
    session
        .record(&top(), serde_json::from_value(json!({"type": "message", "text": "on"})).unwrap());
    let read = [Source::child("unknown"), Source::web("a")];
    assert_eq!(session.outside()[&top()], SourceSet::from(read));
}
