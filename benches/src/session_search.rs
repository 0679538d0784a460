//! What a search over past sessions takes, with real session files.

use std::io;
use std::path::Path;
use std::time::Instant;

use deputize_core::event::{Journal as _, ToolEnd};
use deputize_core::message::{CallStatus, ModelText, UserMessage};
use deputize_core::model::{RawCall, Reply};
use deputize_core::sanitize::FrameSecret;
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, CallId, Cancel, Event, Record, SessionId, ToolResult};
use deputize_runtime::{Header, SessionDir, SessionFile, top_agent};
use deputize_session_index::{SearchLimits, SearchQuery, SessionIndex};
use serde_json::{Value, json};

use crate::spread::Spread;
use crate::table::{Goal, Report};
use crate::words::Words;

/// Steps of a session: each a reply with a call, and the result.
const STEPS: u32 = 20;
/// Words of a reply.
const REPLY_WORDS: usize = 60;
/// Words of a result, some 4 KB.
const RESULT_WORDS: usize = 600;

/// Measures searches over so many sessions.
pub(crate) fn measure(sessions: u64, runs: usize, report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = SessionDir::new(folder.path());
    let mut words = Words::new();
    for number in 0..sessions {
        write_session(&dir, number, &mut words)?;
    }
    let index = SessionIndex::new(dir.clone());
    let search = |query: &str| -> io::Result<f64> {
        let query = SearchQuery::parse(query).map_err(io::Error::other)?;
        let since = Instant::now();
        let found = index.search(&query, None, SearchLimits::default(), &Cancel::new());
        let ms = since.elapsed().as_secs_f64() * 1e3;
        let found = found.map_err(io::Error::other)?;
        if found.sessions.is_empty() {
            return Err(io::Error::other("nothing was found"));
        }
        Ok(ms)
    };
    let first = search("task")?;
    let several = |query: &dyn Fn(usize) -> io::Result<f64>| -> io::Result<Spread> {
        let values = (0..runs.max(1)).map(query).collect::<io::Result<Vec<f64>>>()?;
        Ok(Spread::of(values))
    };
    // Of a task, a few sessions have both words.
    let rare = several(&|run| search(&format!("task number{} ", run as u64 % sessions)))?;
    let common = several(&|_| search("w0"))?;
    let after = several(&|run| {
        add_prompt(&dir, run as u64 % sessions)?;
        search("again")
    })?;
    let what = format!("a search over {sessions} sessions");
    report.row(&what, "ms", (None, rare), Goal::AtMost(50.0));
    let what = "such a search for a word that is in most texts";
    report.row(what, "ms", (None, common), Goal::AtMost(50.0));
    report.row("such a search after one of them went on", "ms", (None, after), Goal::None);
    let what = "the first such search, which builds the index";
    report.row(what, "ms", (None, Spread::of([first])), Goal::None);
    Ok(())
}

fn session_id(number: u64) -> SessionId {
    SessionId::new(format!("20260101-000000-{number:06}")).unwrap_or(SessionId::literal("s"))
}

fn write_session(dir: &SessionDir, number: u64, words: &mut Words) -> io::Result<()> {
    let session = session_id(number);
    let secret = FrameSecret::new(&[7; 16]);
    let header = Header { format: 1, session: session.clone(), created: 0, secret };
    let file = SessionFile::create(dir, &header).map_err(io::Error::other)?;
    let mut seq = 0;
    let mut add = |event: Event| {
        let agent = AgentId::root(&session);
        let at = 1_767_000_000_000 + number * 3_600_000 + seq * 1_000;
        let record = Record { seq, at, agent, parent: None, depth: 0, event };
        seq += 1;
        file.append_record(&record).map_err(io::Error::other)
    };
    let goal = format!("The task is number{number} {}", words.text(12));
    let spec = top_agent(&session, "local/m", &goal, Path::new("/work"));
    let start: Value = json!({"type": "agent.start", "spec": spec, "system": [], "tools": ""});
    add(serde_json::from_value(start)?)?;
    add(Event::Message(UserMessage::new(goal)))?;
    for step in 1..=STEPS {
        let call = CallId::new(step, 0);
        let arguments = json!({"path": words.text(1).trim()}).to_string();
        let reply = Reply {
            calls: vec![RawCall { name: "read_file".into(), arguments: arguments.clone() }],
            ..Reply::text("m", words.text(REPLY_WORDS))
        };
        add(Event::ModelResponse {
            iteration: step,
            reply,
            ms: 1,
            cost_usd: None,
            estimated: false,
        })?;
        add(Event::ToolStart { call, tool: "read_file".into(), arguments })?;
        add(Event::ToolEnd(Box::new(ToolEnd {
            tool: "read_file".into(),
            result: ToolResult {
                call,
                status: CallStatus::Ok,
                text: ModelText::own(words.text(RESULT_WORDS)),
                fingerprint: String::new(),
                images: Vec::new(),
                sources: SourceSet::new(),
            },
            args_bytes: 0,
            ms: 1,
            facts: Vec::new(),
            display: None,
            error: None,
            boundary: None,
        })))?;
    }
    Ok(())
}

/// The person says something more in a session.
fn add_prompt(dir: &SessionDir, number: u64) -> io::Result<()> {
    let session = session_id(number);
    let (file, stored) = SessionFile::open(dir, &session).map_err(io::Error::other)?;
    let seq = stored.records.len() as u64;
    let agent = AgentId::root(&session);
    let event = Event::Message(UserMessage::new("And again."));
    let record = Record { seq, at: 1_800_000_000_000, agent, parent: None, depth: 0, event };
    file.append_record(&record).map_err(io::Error::other)
}
