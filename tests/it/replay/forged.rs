//! Recordings that somebody changed: whatever they say, no tool is called, nothing hangs, and each
//! mismatch is reported with its place.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::{
    AgentView, Authority, BoxFuture, Cancel, Catalog, Observer, Record, Tool, ToolCallResult,
    ToolCx, ToolDecl, ToolError, ToolSpec,
};
use deputize_delegate::{DelegateTool, DelegationConfig};
use deputize_runtime::{Recording, Replay, ReplayError, SessionConfig};
use parking_lot::Mutex;
use serde_json::Value;

use super::{Lab, one_look, record, replay};

/// A line of a recording, framed as the program frames it.
fn framed(inside: &str) -> String {
    let crc = crc32fast::hash(inside.as_bytes());
    format!("{{\"len\":{},\"crc\":\"{crc:08x}\",\"line\":{inside}}}\n", inside.len())
}

/// What a framed line holds.
fn inside(line: &str) -> &str {
    let (_, inside) = line.split_once("\"line\":").unwrap();
    inside.strip_suffix('}').unwrap()
}

#[tokio::test]
async fn a_record_that_was_changed_is_reported_with_its_place_although_its_checksum_fits() {
    let lab = Lab::new();
    let (recorded, server) = record(&lab, &["go"], one_look).await;
    recorded.with_code(0);
    drop(server);
    let whole = fs::read_to_string(lab.path("t.jsonl")).unwrap();
    // What is changed where, and what is told of it.
    for (kind, from, to, code, actual) in [
        ("model.response", "\"list_dir\"", "\"read_file\"", 1, "differs from the recording"),
        ("tool.end", "\"text\":\"", "\"text\":\"(forged) ", 1, "differs from the recording"),
        ("model.response", "I saw", "I never saw", 1, "differs from the recording"),
        ("tool.start", "\"type\":\"tool.start\"", "\"type\":\"tool.begin\"", 2, "is damaged"),
        ("tool.start", "\"seq\":", "\"seq\":9", 2, "is missing before it: its record is 9"),
        ("agent.start", "\"grant\":", "\"granted\":", 2, "is damaged"),
        ("session.end", "\"agent\":\"", "\"agent\":\"x", 1, "recording"),
    ] {
        let is =
            |line: &&str| line.contains(&format!("\"type\":\"{kind}\"")) && line.contains(from);
        let Some(line) = whole.lines().find(is) else { panic!("no {kind} with {from}") };
        let forged = framed(&inside(line).replacen(from, to, 1));
        fs::write(lab.path("t.jsonl"), whole.replacen(&format!("{line}\n"), &forged, 1)).unwrap();
        let ended = replay(&lab, &[]).await;
        println!("{kind}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{kind}: {}", ended.err);
        let ended = ended.with_code(code);
        assert!(ended.err.contains(actual), "{kind}: {actual}: {}", ended.err);
    }
}

/// The lines of a recording behind its header, whose records are numbered anew.
fn renumbered(header: &str, lines: &[Value]) -> String {
    let mut seq = 0;
    let line = |line: &Value| {
        let mut line = line.clone();
        for kind in ["before", "record"] {
            if let Some(record) = line.get_mut(kind) {
                record["seq"] = Value::from(seq);
                seq += 1;
            }
        }
        framed(&line.to_string())
    };
    format!("{header}\n{}", lines.iter().map(line).collect::<String>())
}

/// A line in a word: its record, or that it is what a request sent.
fn word(line: &Value) -> String {
    let event = &line["record"]["event"];
    let word = event["type"].as_str().unwrap_or("sent");
    match event["status"].as_str().or(event["result"]["status"].as_str()) {
        Some(status) if word == "tool.end" => format!("{word} ({status})"),
        _ => word.to_owned(),
    }
}

/// Changes that leave a recording that a program may have written: what is missing or more
/// there decides nothing, and what is played is what stands in the file.
fn is_harmless(what: &str, line: &str, other: &str) -> bool {
    let shown = [
        "log",
        "file.read",
        "file.write",
        "agent.heartbeat",
        "approval.request",
        "approval.decision",
        "hook",
    ];
    match what {
        "drop" | "double" => shown.contains(&line),
        _ => shown.contains(&line) || shown.contains(&other),
    }
}

#[tokio::test]
async fn a_line_that_is_dropped_doubled_or_swapped_is_reported() {
    let lab = Lab::new();
    let (recorded, server) = record(&lab, &["go"], one_look).await;
    recorded.with_code(0);
    drop(server);
    let file = lab.path("t.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let (header, rest) = whole.split_once('\n').unwrap();
    let lines: Vec<Value> =
        rest.lines().map(|line| serde_json::from_str(inside(line)).unwrap()).collect();
    let mut changed = vec![("nothing", 0, lines.clone())];
    for at in 0..lines.len() {
        let mut dropped = lines.clone();
        let mut doubled = lines.clone();
        dropped.remove(at);
        doubled.insert(at, lines[at].clone());
        changed.extend([("drop", at, dropped), ("double", at, doubled)]);
        if at + 1 < lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            changed.push(("swap", at, swapped));
        }
    }
    // Changes inside a line.
    let at = |kind: &str| lines.iter().position(|line| word(line).starts_with(kind)).unwrap();
    let ends = lines.iter().rposition(|line| word(line) == "agent.end").unwrap();
    for (at, pointer, to) in [
        (at("message"), "/record/event/text", Value::from("Another task.")),
        (at("tool.end"), "/record/event/tool", Value::from("read_file")),
        (ends, "/record/event/usage/output", Value::from(987_654)),
        (ends, "/record/event/iterations", Value::from(77)),
        (lines.len() - 1, "/record/event/status", Value::from("failed")),
    ] {
        let mut lines = lines.clone();
        *lines[at].pointer_mut(pointer).expect(pointer) = to;
        changed.push(("edit", at, lines));
    }
    let mut refused = 0;
    for (what, at, changed) in changed {
        fs::write(&file, renumbered(header, &changed)).unwrap();
        let ended = replay(&lab, &[]).await;
        let other = lines.get(at + 1).map(word).unwrap_or_default();
        let line = word(&lines[at]);
        let actual = &ended.err;
        println!("{what} {at} {line} {other}: {:?} {actual}", ended.code);
        assert!(!actual.contains("panicked"), "{what} {line}: {actual}");
        if ended.code == Some(0) {
            // As it was, or the same agents with the same words.
            let harmless = what == "nothing" || is_harmless(what, &line, &other);
            // What was sent stands anywhere before its request, and once more says nothing.
            let sent = what == "double" && line == "sent"
                || what == "swap" && (line == "sent" || other == "sent");
            assert!(harmless || sent, "{what} {line} {other}");
        } else {
            assert!(matches!(ended.code, Some(1 | 2)), "{what} {line}: {ended:#?}");
            assert!(actual.contains("recording"), "{what} {line}: {actual}");
            refused += 1;
        }
    }
    assert!(refused > lines.len() * 2, "{refused}");
}

/// The tools of the program, of which none but the one that starts agents may be called.
struct ForbiddenTool(Arc<dyn Tool>, Arc<AtomicUsize>);

impl Tool for ForbiddenTool {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn call<'a>(&'a self, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(ToolError::refused("not in a replay")) })
    }

    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        self.0.declare(agent)
    }
}

#[derive(Default)]
struct RecordList(Mutex<Vec<Record>>);

impl Observer for RecordList {
    fn on_record(&self, record: &Record) {
        self.0.lock().push(record.clone());
    }
}

fn session_config(called: &Arc<AtomicUsize>) -> SessionConfig {
    let linked = Catalog::linked(&[deputize_tools::LINK]).unwrap();
    let mut catalog = Catalog::default();
    for entry in linked.iter() {
        let mut entry = entry.clone();
        entry.tool = Arc::new(ForbiddenTool(Arc::clone(&entry.tool), Arc::clone(called)));
        catalog.insert(entry).unwrap();
    }
    let delegate = DelegateTool::new(DelegationConfig::default(), Arc::new(FixedClock(0))).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    SessionConfig { clock: Arc::new(FixedClock(0)), ..SessionConfig::new(catalog) }
}

/// Plays a recording, if it is one; gives how that ended.
fn played(file: &Path, bytes: &[u8]) -> Option<Result<usize, ReplayError>> {
    fs::write(file, bytes).unwrap();
    let recording = Recording::read(file).ok()?;
    let records: Vec<Record> = recording.records().cloned().collect();
    let spec = recording.top_agent()?;
    let called = Arc::default();
    let seen = Arc::new(RecordList::default());
    let mut config = session_config(&called);
    config.observers.push(Arc::clone(&seen) as Arc<dyn Observer>);
    let replay = Replay::new(recording, config);
    let authority = Authority::root(replay.session().catalog(), &Grant::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cancel = Cancel::new();
    let play = replay.run(spec, authority, &cancel);
    let ended =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), play).await });
    let ended = ended.expect("a replay waits for nothing");
    assert_eq!(called.load(Ordering::SeqCst), 0, "a tool was called: {ended:?}");
    let seen = seen.0.lock();
    assert_eq!(records.get(..seen.len()), Some(seen.as_slice()), "{ended:?}");
    Some(ended.map(|_| seen.len()))
}

/// Recordings that fuzzing begins with: lines behind a `+` are framed here.
fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/recording");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.map(|path| fs::read_to_string(path).unwrap());
    let frame = |line: &str| line.strip_prefix('+').map_or(format!("{line}\n"), framed);
    texts.map(|text| text.lines().map(frame).collect()).collect()
}

#[test]
fn whatever_is_changed_in_a_recording_no_tool_is_called_and_it_comes_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.jsonl");
    let mut played_on = 0;
    let mut refused = 0;
    let mut differ = 0;
    for whole in corpus() {
        let lines: Vec<&str> = whole.lines().collect();
        let mut dice = fastrand::Rng::with_seed(whole.len() as u64);
        for _ in 0..150.min(lines.len() * 20) {
            let mut changed: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
            let at = dice.usize(..changed.len());
            match dice.u8(..4) {
                0 => drop(changed.remove(at)),
                1 => changed.swap(at, dice.usize(..lines.len())),
                2 if at > 0 => {
                    // Another value somewhere, under a checksum that fits.
                    let text = inside(lines[at]);
                    let digit = text.char_indices().filter(|(_, c)| c.is_ascii_digit());
                    let places: Vec<usize> = digit.map(|(place, _)| place).collect();
                    let Some(place) = dice.choice(&places) else { continue };
                    let digit = dice.digit(10).to_string();
                    changed[at] = framed(&[&text[..*place], &digit, &text[place + 1..]].concat());
                }
                _ => changed.truncate(at + 1),
            }
            match played(&file, changed.concat().as_bytes()) {
                None => refused += 1,
                Some(Ok(_)) => played_on += 1,
                Some(Err(_)) => differ += 1,
            }
        }
    }
    println!("{refused} refused, {differ} told where they differ, {played_on} played");
    assert!(refused > 50 && differ > 50, "{refused} {differ} {played_on}");
}
