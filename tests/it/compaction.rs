//! Compaction through the program: a task that is longer than its model's context.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deputize_core::model::{Reply, Usage};
use deputize_providers::count_tokens;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kill::end_by;
use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

/// Tokens of the context.
const WINDOW: u64 = 12_000;
const SET_WINDOW: &str = "providers.openai.context_window=12000";
/// Files that the task reads.
const FILES: usize = 12;

/// The state of a model over the processes that ask it.
#[derive(Default)]
struct Reader {
    /// Number of files that it has asked for.
    files: AtomicUsize,
    summaries: AtomicUsize,
}

fn lab() -> Lab {
    let lab = Lab::new();
    for n in 0..FILES {
        fs::write(lab.work(format!("{n}.txt")), format!("file {n} ").repeat(700)).unwrap();
    }
    lab
}

/// Counts a token for four bytes, as servers do on average.
fn usage(asked: &ChatRequest) -> Usage {
    let input = asked.bytes() as u64 / 4;
    Usage { input, output: 10, ..Usage::default() }
}

fn asks_for_summary(asked: &ChatRequest) -> bool {
    asked.last_user().contains("Your answer to this message will replace")
}

/// A model that writes a note, reads each file, and ends. With `hangs`, the first request after a
/// summary gets no answer.
async fn server(reader: &Arc<Reader>, hangs: bool) -> MockServer {
    let reader = Arc::clone(reader);
    model(move |asked| {
        let usage = usage(asked);
        assert!(usage.input < WINDOW, "{} tokens were sent", usage.input);
        let summaries = reader.summaries.load(Ordering::SeqCst);
        if asks_for_summary(asked) {
            reader.summaries.fetch_add(1, Ordering::SeqCst);
            let text = format!("## Done\nI read {} files.", reader.files.load(Ordering::SeqCst));
            return MockAnswer::reply(&Reply { usage, ..Reply::text("mock", text) });
        }
        if hangs && summaries > 0 {
            return hang();
        }
        let file = reader.files.fetch_add(1, Ordering::SeqCst);
        let reply = match file {
            0 => call("todo", json!({"items": [{"text": "Read all.", "state": "in_progress"}]})),
            1 => call("write_file", json!({"path": "note.md", "content": "Begun.\n"})),
            n if n < FILES + 2 => call("read_file", json!({"path": format!("{}.txt", n - 2)})),
            _ => Reply::text("mock", "All files are read."),
        };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::calls("mock", [(tool, arguments)])
}

/// Checks what stands in the last request in place of the first messages.
fn assert_compacted(server: &MockServer) {
    let last = server.requests().pop().unwrap();
    let last = ChatRequest::of(&last);
    assert!(last.users()[0].ends_with("Read all files"), "{}", last.users()[0]);
    let summary = last.users()[1];
    for part in
        ["this message stands for", "## Done\nI read ", "- [in progress] Read all.", "note.md ("]
    {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let first = ChatRequest::of(&server.requests()[0]);
    assert_eq!(last.system(), first.system());
}

#[tokio::test]
async fn a_task_longer_than_the_models_context_comes_to_its_end() {
    let lab = lab();
    let reader = Arc::new(Reader::default());
    let server = server(&reader, false).await;
    let ended = lab.run(&server, &["--set", SET_WINDOW, "Read all files"]).end().await.with_code(0);
    assert_eq!(ended.out, "All files are read.\n");
    let summaries = reader.summaries.load(Ordering::SeqCst);
    assert!(summaries > 0);
    let line = "context compacted: a summary stands for ";
    assert_eq!(ended.err.matches(line).count(), summaries, "{}", ended.err);
    assert_compacted(&server);
    // The record has all of it.
    let show = lab.deputize(&["sessions", "show", &lab.session(), "--agent", &lab.session()]);
    let show = crate::program::RunningProgram::start(show).end().await.with_code(0);
    for n in 0..FILES {
        assert!(show.out.contains(&format!("file {n} ")), "{n}: {}", show.out);
    }
    assert_eq!(show.out.matches(line).count(), summaries, "{}", show.out);
}

#[tokio::test]
async fn a_file_whose_content_a_summary_replaced_is_read_again_before_it_is_overwritten() {
    let lab = lab();
    let steps = AtomicUsize::new(0);
    let server = model(move |asked| {
        let usage = usage(asked);
        if asks_for_summary(asked) {
            return MockAnswer::reply(&Reply { usage, ..Reply::text("mock", "I read files.") });
        }
        let write = |content| call("write_file", json!({"path": "0.txt", "content": content}));
        let reply = match steps.fetch_add(1, Ordering::SeqCst) {
            n if n < FILES => call("read_file", json!({"path": format!("{n}.txt")})),
            12 => write("Lost.\n"),
            13 => call("read_file", json!({"path": "0.txt"})),
            14 => write("New.\n"),
            _ => Reply::text("mock", asked.results().join("\n")),
        };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await;
    let ended = lab.run(&server, &["--set", SET_WINDOW, "Read all files"]).end().await.with_code(0);
    assert!(ended.err.contains("context compacted: "), "{}", ended.err);
    let refusal = "you have seen only a part of it as it is now: read on, or edit only a part";
    assert_eq!(ended.out.matches(refusal).count(), 1, "{}", ended.out);
    assert_eq!(fs::read_to_string(lab.work("0.txt")).unwrap(), "New.\n");
}

#[tokio::test]
async fn the_request_for_a_summary_is_on_record_with_its_purpose() {
    let lab = lab();
    let reader = Arc::new(Reader::default());
    let server = server(&reader, false).await;
    let args =
        ["--set", SET_WINDOW, "--output", "events", "--record", "../t.jsonl", "Read all files"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let requests = ended.events("model.request");
    assert_eq!(requests.len(), server.requests().len(), "each request is on record");
    let (summaries, turns): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request["purpose"] == "summary");
    assert!(turns.iter().all(|request| request["purpose"].is_null()), "{turns:?}");
    let compactions = ended.events("compaction");
    assert_eq!(summaries.len(), compactions.len());
    for (summary, compaction) in summaries.iter().zip(&compactions) {
        let next = turns.iter().find(|it| it["seq"].as_u64() > compaction["seq"].as_u64()).unwrap();
        assert_eq!(summary["iteration"], next["iteration"]);
        assert_eq!(compaction["seq"].as_u64().unwrap() - summary["seq"].as_u64().unwrap(), 1);
        assert!(summary["bytes"].as_u64() > next["bytes"].as_u64(), "{summary} {next}");
    }
    drop(server);
    let again = ["run", "--replay", "../t.jsonl", "--output", "events"];
    let played =
        crate::program::RunningProgram::start(lab.deputize(&again)).end().await.with_code(0);
    assert_eq!(played.out, ended.out);
}

#[tokio::test]
async fn a_killed_program_goes_on_after_a_compaction() {
    let lab = lab();
    let reader = Arc::new(Reader::default());
    let first = server(&reader, true).await;
    let args = ["--set", SET_WINDOW, "--output", "events", "Read all files"];
    let running = lab.run(&first, &args);
    let compaction = running.event("compaction", |_| true).await;
    let request =
        running.event("model.request", |it| it["seq"].as_u64() > compaction["seq"].as_u64());
    request.await;
    end_by(Signal::KILL, &lab, running).await;
    assert!(compaction["bytes_after"].as_u64() < compaction["bytes_before"].as_u64());
    assert!(compaction["messages"].as_u64().unwrap() >= 4, "{compaction}");
    assert_eq!(compaction["path"], lab.session_file().to_str().unwrap());

    let second = server(&reader, false).await;
    let args = ["--set", SET_WINDOW, "--resume", &lab.session()];
    let ended = lab.run(&second, &args).end().await.with_code(0);
    assert!(ended.out.ends_with("All files are read.\n"), "{}", ended.out);
    let resumed = ChatRequest::of(&second.requests()[0]);
    assert!(resumed.users()[1].contains("this message stands for"), "{:?}", resumed.users());
    assert_compacted(&second);
}
#[tokio::test]
async fn summaries_that_win_nothing_end_the_run_with_what_there_is() {
    let lab = lab();
    // One file after the other: the same call again would end the turn too.
    let file = AtomicUsize::new(0);
    let server = model(move |asked| {
        let usage = usage(asked);
        let read = || {
            let path = format!("{}.txt", file.fetch_add(1, Ordering::SeqCst) % FILES);
            Reply {
                text: "I go on reading.".to_owned(),
                ..call("read_file", json!({"path": path}))
            }
        };
        let reply = match asks_for_summary(asked) {
            true => Reply::text("mock", "Much ado about nothing. ".repeat(1_450)),
            false => read(),
        };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await;
    let ended = lab.run(&server, &["--set", SET_WINDOW, "Read all files"]).end().await.with_code(4);
    assert!(ended.err.contains("3 compactions in a row freed less than a tenth"), "{}", ended.err);
    assert!(ended.err.contains("-m PROVIDER/MODEL"), "{}", ended.err);
    assert!(ended.out.contains("I go on reading."), "{ended:?}");
}

#[tokio::test]
async fn a_published_tokenizer_counts_what_a_server_does_not() {
    let lab = Lab::new();
    let usage = Usage::default();
    let reply = Reply { usage, ..Reply::text("mock", "お誕生日おめでとう") };
    let server = model(move |_| MockAnswer::reply(&reply)).await;
    let url = server.base_url();
    let args = ["run", "-m", "openai/gpt-4o", "--base-url", &url, "--output", "json", "Go"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(actual["tokens"]["output"], 8, "{actual:#}");
    // The whole body is a little more than its texts, which alone are counted.
    let body = server.requests()[0].json().to_string();
    let most = count_tokens("openai", "gpt-4o", &body).unwrap();
    let input = actual["tokens"]["input"].as_u64().unwrap();
    assert!((most * 8 / 10..most).contains(&input), "{input} of {most} tokens");
}
