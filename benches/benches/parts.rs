//! The inner parts, each by itself: `just bench-parts`.

#![expect(clippy::unwrap_used, reason = "a benchmark that does not run is to stop")]

use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::Grant;
use deputize_core::event::Journal as _;
use deputize_core::message::{CallStatus, UserMessage};
use deputize_core::model::{ModelOptions, Reply, Request, ToolChoice};
use deputize_core::run::{Input, Run};
use deputize_core::sanitize::{FrameSecret, frame_for_model};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{
    AgentId, Authority, CallId, Catalog, Event, Message, Record, SessionId, ToolDecl, ToolResult,
};
use deputize_policy::{CommandContext, classify_command};
use deputize_providers::{Endpoint, StreamEnd, anthropic_messages, openai_chat, openai_responses};
use deputize_runtime::prompt::{BaseParts, Directory, Environment, base_prompt};
use deputize_runtime::{Header, SessionDir, SessionFile};
use deputize_testkit::{chat_sse, messages_sse, responses_sse};
use deputize_workflow::{Graph, Outcome, Schedule, TaskEvent};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use serde_json::json;

fn main() {
    divan::main();
}

/// Bytes that come at once from a connection.
const PIECE: usize = 8 * 1024;

/// An answer of 60 KB, in pieces as servers send it.
fn long_reply() -> Reply {
    Reply::text("m", "Some words of a long answer. ".repeat(2_000))
}

/// A stream is read by one of the wires' parsers.
macro_rules! parse_stream {
    ($name:ident, $wire:ident, $write:ident) => {
        #[divan::bench]
        fn $name(bencher: Bencher<'_, '_>) {
            let body = $write(&long_reply());
            bencher.counter(BytesCount::of_str(&body)).bench(|| {
                let mut stream = $wire::ReplyStream::new("m");
                for piece in black_box(body.as_bytes()).chunks(PIECE) {
                    let _flow = stream.feed(piece, &mut |_| {}).unwrap();
                }
                stream.finish(StreamEnd::InOrder, &mut |_| {}).unwrap()
            });
        }
    };
}

parse_stream!(parse_chat_stream, openai_chat, chat_sse);
parse_stream!(parse_responses_stream, openai_responses, responses_sse);
parse_stream!(parse_messages_stream, anthropic_messages, messages_sse);

fn catalog() -> Catalog {
    Catalog::linked(&[deputize_tools::LINK]).unwrap()
}

fn call(step: u32) -> (Reply, ToolResult) {
    let reply = Reply::calls("m", [("read_file", json!({"path": format!("src/{step}.rs")}))]);
    let id = CallId::new(step, 0);
    let secret = FrameSecret::new(&[7; 16]);
    let agent = AgentId::root(&SessionId::literal("bench"));
    let content = "    let value = compute(&input, \"text\")?;\n".repeat(50);
    let source = Source::tool("read_file");
    let text = frame_for_model(&secret, &agent, id, &source, &content);
    (
        reply,
        ToolResult {
            call: id,
            status: CallStatus::Ok,
            text,
            fingerprint: step.to_string(),
            images: Vec::new(),
            sources: SourceSet::new(),
        },
    )
}

/// A run after so many steps that read 2 KB each.
fn conversation(steps: u32) -> Run {
    let mut run = Run::new(AgentLimits { max_iterations: 1_000, time_ms: 0, wrap_up_ms: 0 }, []);
    run.apply(Input::Message(&UserMessage::new("Begin.".to_owned())));
    for step in 1..=steps {
        let (reply, result) = call(step);
        run.apply(Input::Reply(&reply));
        run.apply(Input::Result { tool: "read_file", args_bytes: 2, result: &result });
    }
    run
}

/// A request of 100 steps becomes bytes, for one of the wires.
macro_rules! request_body {
    ($name:ident, $wire:ident, $dialect:path) => {
        #[divan::bench]
        fn $name(bencher: Bencher<'_, '_>) {
            let catalog = catalog();
            let declared =
                |entry: &deputize_core::CatalogEntry| Arc::new(entry.tool.spec().decl.clone());
            let tools: Vec<Arc<ToolDecl>> = catalog.iter().map(declared).collect();
            let run = conversation(100);
            let system = [Arc::from("You are an agent. ".repeat(100))];
            let messages: &[Arc<Message>] = run.messages();
            let options = ModelOptions::default();
            let endpoint = Endpoint::new("bench", "http://127.0.0.1:1/v1");
            let dialect = $dialect(&endpoint).unwrap();
            let request = Request {
                model: "m",
                system: &system,
                tools: &tools,
                messages,
                tool_choice: ToolChoice::Auto,
                options: &options,
            };
            let bytes = $wire::request_body(&request, &dialect).len();
            bencher
                .counter(BytesCount::new(bytes))
                .bench(|| $wire::request_body(black_box(&request), &dialect));
        }
    };
}

request_body!(chat_request, openai_chat, openai_chat::Dialect::of);
request_body!(responses_request, openai_responses, openai_responses::endpoint_dialect);
request_body!(messages_request, anthropic_messages, anthropic_messages::endpoint_dialect);

/// The loop's own part of 20 steps.
#[divan::bench]
fn fold_of_20_steps(bencher: Bencher<'_, '_>) {
    let steps: Vec<_> = (1..=20).map(call).collect();
    bencher.counter(ItemsCount::new(steps.len())).bench(|| {
        let mut run = Run::new(AgentLimits { max_iterations: 99, time_ms: 0, wrap_up_ms: 0 }, []);
        run.apply(Input::Message(&UserMessage::new("Begin.".to_owned())));
        for (reply, result) in black_box(&steps) {
            run.apply(Input::Reply(reply));
            run.apply(Input::Result { tool: "read_file", args_bytes: 2, result });
        }
        run
    });
}

/// One record of 2 KB in the session file, not synced.
#[divan::bench]
fn journal_append(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let session = SessionId::literal("bench");
    let secret = FrameSecret::new(&[7; 16]);
    let header = Header { format: 0, session: session.clone(), created: 0, secret };
    let file = SessionFile::create(&SessionDir::new(folder.path()), &header).unwrap();
    let text = "A line of a message, with \"quotes\".\n".repeat(55);
    let event = Event::Message(UserMessage::new(text));
    let agent = AgentId::root(&session);
    let mut record = Record { seq: 0, at: 1, agent, parent: None, depth: 0, event };
    bencher.bench_local(move || {
        file.append_record(&record).unwrap();
        record.seq += 1;
    });
}

/// Content for the model: cleaned and framed.
#[divan::bench(args = ["plain", "coloured"])]
fn frame_64_kb(bencher: Bencher<'_, '_>, kind: &str) {
    let line = match kind {
        "plain" => "    let value = compute(&input, \"text\")?;\n",
        _ => "\u{1b}[31merror\u{1b}[0m: it did not work\u{200b} here\n",
    };
    let content = line.repeat(64 * 1024 / line.len());
    let agent = AgentId::root(&SessionId::literal("bench"));
    let secret = FrameSecret::new(&[7; 16]);
    let id = CallId::new(1, 0);
    let source = Source::tool("terminal");
    bencher
        .counter(BytesCount::of_str(&content))
        .bench(|| frame_for_model(&secret, &agent, id, &source, black_box(&content)));
}

/// What a child may do.
#[divan::bench]
fn authority_meet(bencher: Bencher<'_, '_>) {
    let catalog = catalog();
    let root = Authority::root(&catalog, &Grant::default());
    let tools = catalog.iter().take(4).map(|entry| entry.name().clone()).collect();
    let grant = Grant { tools: Some(tools), spawn_depth: Some(0), ..Grant::default() };
    bencher.bench(|| root.intersect(black_box(&grant)));
}

/// 2,000 tasks without edges, each started and ended.
#[divan::bench]
fn schedule_2000(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(2_000_usize)).bench(|| {
        let mut schedule = Schedule::new(Graph::flat(2_000));
        while let Some(task) = schedule.ready(usize::MAX).next() {
            let _changes = schedule.apply(TaskEvent::Started { task }).unwrap();
        }
        for task in 0..2_000 {
            let ended = TaskEvent::Finished { task, outcome: Outcome::Success };
            let _changes = schedule.apply(ended).unwrap();
        }
        schedule
    });
}

/// The arguments of a call against the schema of its tool.
#[divan::bench]
fn check_arguments(bencher: Bencher<'_, '_>) {
    let catalog = catalog();
    let schema = catalog.get("read_file").unwrap().tool.spec().decl.parameters.to_value();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let text = r#"{"path": "src/main.rs"}"#;
    bencher.bench(|| {
        let value: serde_json::Value = serde_json::from_str(black_box(text)).unwrap();
        assert!(validator.iter_errors(&value).next().is_none());
    });
}

/// The same schema, made ready.
#[divan::bench]
fn compile_a_schema(bencher: Bencher<'_, '_>) {
    let catalog = catalog();
    let schema = catalog.get("read_file").unwrap().tool.spec().decl.parameters.to_value();
    bencher.bench(|| jsonschema::validator_for(black_box(&schema)).unwrap());
}

/// The base prompt of an agent.
#[divan::bench]
fn build_a_prompt(bencher: Bencher<'_, '_>) {
    let directory = Some(Directory { path: Path::new("/repo"), git: true });
    let environment = Environment { os: "linux", directory };
    let parts = BaseParts::new("2026-01-31", environment);
    bencher.bench(|| base_prompt(black_box(&parts)).unwrap().render().into_blocks());
}

/// A command of every day, classified.
#[divan::bench(args = [
    "cargo test",
    "git log --oneline -20 | grep -v merge",
    "for f in *.md; do pandoc \"$f\" -o \"${f%.md}.html\"; done",
    "echo cm0gLXJmIC8= | base64 -d | sh",
])]
fn classify_a_command(bencher: Bencher<'_, '_>, text: &str) {
    let context = CommandContext::default();
    bencher.bench(|| classify_command(black_box(text), &context));
}

/// 128 KB of short commands, and of one here-document.
#[divan::bench(args = ["commands", "here-document"])]
fn classify_128_kb(bencher: Bencher<'_, '_>, kind: &str) {
    let text = match kind {
        "commands" => "echo one two; ".repeat(128 * 1024 / 14),
        _ => format!("cat > out <<'END'\n{}END\n", "let x = y(\"z\");\n".repeat(128 * 1024 / 16)),
    };
    let context = CommandContext::default();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| classify_command(black_box(&text), &context));
}
