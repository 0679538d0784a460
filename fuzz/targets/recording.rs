//! Any bytes as a recording: it is read, and what can be read is played. No tool is ever called,
//! no model asked, and no record is seen that the recording does not have.
//!
//! The input: the file, but for lines that begin with `+`. Those hold a line of the recording
//! alone, which is framed as it should be, so that what is inside is reached as well.
#![no_main]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::{
    AgentView, Authority, BoxFuture, Cancel, Catalog, Observer, Record, Tool, ToolCallResult,
    ToolCx, ToolDecl, ToolError, ToolSpec,
};
use deputize_delegate::{DelegateTool, DelegationConfig};
use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::one_line;
use deputize_runtime::{Recording, Replay, SessionConfig, top_agent};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A record of a few bytes more than its names fills structures of some hundred bytes.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 200 };
/// Characters of an error on one line; the rest of it quotes the recording.
const TOLD_CHARS: usize = 2000;

fuzz_target!(|input: &[u8]| {
    let bytes = written(input);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    std::fs::write(&file, &bytes).expect("a file");
    let recording = match LIMIT.during(bytes.len(), || Recording::read(&file)) {
        Ok(recording) => recording,
        Err(error) => {
            let actual = error.to_string();
            return one_line(actual.split('{').next().unwrap_or_default(), TOLD_CHARS);
        }
    };
    let records: Vec<Record> = recording.records().cloned().collect();
    let first = recording.before().len() as u64;
    assert!(records.iter().zip(first..).all(|(record, seq)| record.seq == seq));
    let called = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(RecordCollector::default());
    let config = session_config(&called, &seen);
    let spec = recording.top_agent().unwrap_or_else(|| somebody(&recording));
    let replay = Replay::new(recording, config);
    let authority = Authority::root(replay.session().catalog(), &Grant::default());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    let ended = runtime.block_on(replay.run(spec, authority, &Cancel::new()));
    drop(runtime);
    assert!(!called.load(Ordering::SeqCst), "a replay has called a tool: {ended:?}");
    let seen = seen.0.lock().expect("nobody panics");
    assert_eq!(records.get(..seen.len()), Some(seen.as_slice()), "{ended:?}");
    let files = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(files, 1, "nothing but the recording");
});

/// The file that an input stands for.
fn written(input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * input.len());
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let Some((b'+', inside)) = line.split_first() else {
            bytes.extend_from_slice(line);
            continue;
        };
        let (inside, end) = match inside.strip_suffix(b"\n") {
            Some(inside) => (inside, "}\n"),
            None => (inside, "}"),
        };
        let len = inside.len();
        let crc = crc32fast::hash(inside);
        let head = format!("{{\"len\":{len},\"crc\":\"{crc:08x}\",\"line\":");
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(inside);
        bytes.extend_from_slice(end.as_bytes());
    }
    bytes
}

/// The tools of the program, of which none but the one that starts agents may be called.
fn session_config(called: &Arc<AtomicBool>, seen: &Arc<RecordCollector>) -> SessionConfig {
    let linked = Catalog::linked(&[deputize_tools::LINK]).expect("the tools of the program");
    let mut catalog = Catalog::default();
    for entry in linked.iter() {
        let mut entry = entry.clone();
        let tool = Arc::clone(&entry.tool);
        let called = Arc::clone(called);
        entry.tool = Arc::new(ForbiddenTool { tool, called });
        catalog.insert(entry).expect("one of each name");
    }
    let delegate = DelegateTool::new(DelegationConfig::default(), Arc::new(FixedClock(0)));
    catalog.insert(delegate.expect("a tool").into_entry()).expect("one more tool");
    let mut config =
        SessionConfig { clock: Arc::new(FixedClock(0)), ..SessionConfig::new(catalog) };
    config.observers.push(Arc::clone(seen) as Arc<dyn Observer>);
    config
}

/// For a recording of no agent.
fn somebody(recording: &Recording) -> AgentSpec {
    top_agent(recording.session(), "m", "go", "/".as_ref())
}

struct ForbiddenTool {
    tool: Arc<dyn Tool>,
    called: Arc<AtomicBool>,
}

impl Tool for ForbiddenTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        self.called.store(true, Ordering::SeqCst);
        Box::pin(async { Err(ToolError::refused("not in a replay")) })
    }

    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        self.tool.declare(agent)
    }
}

#[derive(Default)]
struct RecordCollector(Mutex<Vec<Record>>);

impl Observer for RecordCollector {
    fn on_record(&self, record: &Record) {
        self.0.lock().expect("nobody panics").push(record.clone());
    }
}
