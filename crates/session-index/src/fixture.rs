//! Sessions for the tests of this crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use deputize_core::compaction::{Compaction, ReplacedPart, SummaryRequest};
use deputize_core::event::{Journal as _, ToolEnd};
use deputize_core::message::{CallStatus, ModelText, UserMessage};
use deputize_core::model::{Reply, Usage};
use deputize_core::sanitize::FrameSecret;
use deputize_core::{AgentId, CallId, Cancel, Event, Record, SessionId, ToolResult};
use deputize_runtime::{Header, ReadError, SessionDir, SessionFile, top_agent};
use serde_json::{Value, json};

use crate::index::SessionIndex;
use crate::query::SearchQuery;
use crate::results::{SearchLimits, SearchResults};

/// 2026-01-02T03:04:05.006Z.
const START: u64 = 1_767_323_045_006;

/// A record as it is stored.
pub(crate) fn record(seq: u64, agent: &str, event: &Value) -> String {
    let depth = agent.matches('/').count();
    json!({"seq": seq, "at": seq, "agent": agent, "parent": null, "depth": depth, "event": event})
        .to_string()
}

/// The beginning of an agent whose first message has a line of the host before its goal.
pub(crate) fn agent_start(agent: &str, goal: &str) -> Value {
    let session = SessionId::new(agent.split('/').next().unwrap().to_owned()).unwrap();
    let mut spec = top_agent(&session, "local/m", goal, Path::new("/w"));
    spec.task = format!("[date]\n{goal}");
    json!({"type": "agent.start", "spec": spec, "system": [], "tools": ""})
}

/// The event with which an agent begins.
pub(crate) fn started(session: &str, goal: &str) -> Event {
    serde_json::from_value(agent_start(session, goal)).unwrap()
}

pub(crate) fn said(text: &str) -> Event {
    Event::Message(UserMessage::new(text))
}

pub(crate) fn replied(text: &str) -> Event {
    let reply = Reply::text("m", text);
    Event::ModelResponse { iteration: 1, reply, ms: 1, cost_usd: None, estimated: false }
}

pub(crate) fn called(tool: &str, arguments: &str) -> Event {
    let call = CallId::new(1, 0);
    Event::ToolStart { call, tool: tool.to_owned(), arguments: arguments.to_owned() }
}

/// The end of a call that read from outside.
pub(crate) fn fetched(source: &str) -> Event {
    ended("web_fetch", "page", source)
}

/// The end of a call that returned this text.
pub(crate) fn returned(text: &str) -> Event {
    ended("terminal", text, "tool:terminal")
}

/// A compaction of the conversation before it.
pub(crate) fn compacted() -> Event {
    Event::Compaction(Box::new(Compaction {
        part: ReplacedPart { first: 0, end: 1, kept: Vec::new() },
        text: "A summary".to_owned(),
        bytes_before: 2,
        bytes_after: 1,
        path: "/s.jsonl".into(),
        request: SummaryRequest {
            model: "m".to_owned(),
            usage: Usage::default(),
            estimated: false,
            cost_usd: None,
            ms: 1,
        },
    }))
}

fn ended(tool: &str, text: &str, source: &str) -> Event {
    Event::ToolEnd(Box::new(ToolEnd {
        tool: tool.to_owned(),
        result: ToolResult {
            call: CallId::new(1, 0),
            status: CallStatus::Ok,
            text: ModelText::own(text),
            fingerprint: String::new(),
            images: Vec::new(),
            sources: [source.parse().unwrap()].into(),
        },
        args_bytes: 0,
        ms: 0,
        facts: Vec::new(),
        display: None,
        error: None,
        boundary: None,
    }))
}

/// A folder of sessions. Each record that is added is a minute after the one before.
pub(crate) struct SessionFolder {
    _folder: tempfile::TempDir,
    pub(crate) dir: SessionDir,
    minutes: AtomicU64,
}

impl SessionFolder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = SessionDir::new(folder.path().join("sessions"));
        Self { _folder: folder, dir, minutes: AtomicU64::new(0) }
    }

    /// Adds records of the top agent to a session, which is made if it is not there.
    pub(crate) fn add(&self, session: &str, events: impl IntoIterator<Item = Event>) {
        let events = events.into_iter().map(|event| (String::new(), event));
        self.add_of(session, events).unwrap();
    }

    /// Adds records of agents, each by the path that follows its session.
    pub(crate) fn add_of(
        &self,
        session: &str,
        events: impl IntoIterator<Item = (String, Event)>,
    ) -> Result<(), ReadError> {
        let id = SessionId::new(session.to_owned()).unwrap();
        if !self.dir.file(&id).exists() {
            let secret = FrameSecret::new(&[7; 16]);
            let header = Header { format: 1, session: id.clone(), created: START, secret };
            drop(SessionFile::create(&self.dir, &header)?);
        }
        let (file, stored) = SessionFile::open(&self.dir, &id)?;
        for (seq, (path, event)) in (stored.records.len() as u64..).zip(events) {
            let agent =
                if path.is_empty() { session.to_owned() } else { format!("{session}/{path}") };
            let depth = agent.matches('/').count() as u32;
            let agent: AgentId = serde_json::from_value(agent.into()).unwrap();
            let at = START + self.minutes.fetch_add(1, Ordering::Relaxed) * 60_000;
            file.append_record(&Record { seq, at, agent, parent: None, depth, event }).unwrap();
        }
        Ok(())
    }

    pub(crate) fn path(&self, session: &str) -> PathBuf {
        self.dir.file(&SessionId::new(session.to_owned()).unwrap())
    }

    pub(crate) fn remove(&self, session: &str) {
        fs::remove_file(self.path(session)).unwrap();
    }

    pub(crate) fn index(&self) -> SessionIndex {
        SessionIndex::new(self.dir.clone())
    }

    pub(crate) fn search(&self, query: &str) -> SearchResults {
        let query = SearchQuery::parse(query).unwrap();
        self.index().search(&query, None, SearchLimits::default(), &Cancel::new()).unwrap()
    }

    /// What is found, as `SESSION#RECORD` and words, a line each.
    pub(crate) fn found(&self, query: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for found in self.search(query).sessions {
            lines.extend(found.texts.iter().map(|text| {
                format!("{}#{} {}", found.session, text.record, text.snippet.marked("<", ">"))
            }));
        }
        lines
    }
}
