//! A machine that is short of something: open files, threads, memory.

use std::fs;
use std::io::Write as _;
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_requirements::{require, root};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::kill::{call, text};
use crate::program::{Lab, PROGRAM, ProgramEnd, RunningProgram, model};

/// Below it, a run does not begin.
const LEAST: u32 = 32;

/// A run that may have so many files open, and whose commands may, too.
async fn with_files(lab: &Lab, server: &MockServer, most: u32, args: &[&str]) -> ProgramEnd {
    let mut command = lab.command("prlimit");
    let url = server.base_url();
    let run = ["run", "-m", "openai/mock", "--base-url", &url, "--approve", "auto"];
    command.arg(format!("--nofile={most}:{most}")).arg(PROGRAM).args(run).args(args);
    RunningProgram::start(command).end().await
}

#[tokio::test]
async fn with_too_few_open_files_nothing_is_begun_and_the_limit_is_reported() {
    let server = MockServer::start([]).await.unwrap();
    for most in [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 24, LEAST - 1] {
        let lab = Lab::new();
        let ended = with_files(&lab, &server, most, &["Work"]).await;
        println!("{most}: {}", ended.err);
        let ended = ended.with_code(1);
        assert!(!ended.err.contains("panicked"), "{most}: {}", ended.err);
        let expected = format!("{most} files may be open at most, and a run needs {LEAST}");
        assert!(ended.err.contains(&expected), "{most}: {}", ended.err);
        assert!(ended.err.contains("hint: raise the limit (ulimit -Hn"), "{most}: {}", ended.err);
    }
    assert_eq!(server.requests().len(), 0);
}

/// Commands, files and children at once, more of them than descriptors are there for.
fn crowd() -> MockAnswer {
    let command = |n: usize| ("terminal", json!({"command": format!("echo {n}; sleep 0.2")}));
    let read = |n: usize| ("read_file", json!({"path": format!("f{n}")}));
    let goals: Vec<_> = (0..8).map(|n| json!({"goal": format!("part {n}")})).collect();
    let calls = (0..8).flat_map(|n| [command(n), read(n)]);
    let calls = calls.chain([("delegate_task", json!({ "tasks": goals }))]);
    MockAnswer::reply(&Reply::calls("mock", calls.collect::<Vec<_>>()))
}

#[tokio::test]
async fn what_there_are_no_descriptors_for_is_a_result_and_the_run_goes_on() {
    let server = model(|asked| {
        if asked.system().contains("YOUR TASK:") {
            return match asked.replies() {
                0 => call("terminal", json!({"command": "echo child; sleep 0.2"})),
                _ => text("Done."),
            };
        }
        match asked.replies() {
            0 => crowd(),
            1 => call("terminal", json!({"command": "echo later"})),
            _ => text(asked.results().last().copied().unwrap_or_default()),
        }
    });
    let server = server.await;
    let eight = ["--set", "delegation.max_concurrent_children=8", "Work"];
    let auto = ["--set", "delegation.subagent_auto_approve=true"];
    for most in [LEAST, 36, 40, 48, 64] {
        let lab = Lab::new();
        (0..8).for_each(|n| fs::write(lab.work(format!("f{n}")), "text\n").unwrap());
        let ended = with_files(&lab, &server, most, &[&auto[..], &eight].concat()).await;
        assert!(!ended.err.contains("panicked"), "{most}: {}", ended.err);
        println!("{most}: {:?} {}", ended.code, ended.err);
        match ended.code {
            // All that was refused is given back: a later command finds what it needs.
            Some(0) => assert!(ended.out.contains("later"), "{most}: {ended:#?}"),
            // The session or the connection itself: said in these words, and nothing is lost.
            _ => assert!(ended.err.contains("open files"), "{most}: {ended:#?}"),
        }
        assert_eq!(lab.processes(), [], "{most}");
    }
}

/// How much memory a run took at most, in KiB, as far as could be seen until its end.
async fn most_memory(running: RunningProgram) -> (ProgramEnd, u64) {
    let status = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let look = async {
        let mut most = 0;
        loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
            most = most.max(now.unwrap_or(0));
            if now.is_none() && most > 0 {
                return most;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    let (ended, most) = tokio::join!(running.end(), look);
    (ended, most)
}

/// Half a gigabyte of zeros in half a megabyte: a member of a few kilobytes, many times.
fn bomb() -> Vec<u8> {
    let mut gzip = Program::new("gzip");
    gzip.arg("-9").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gzip = gzip.spawn().unwrap();
    let mut stdin = gzip.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(&vec![0; 8 << 20]));
    let member = gzip.wait_with_output().unwrap().stdout;
    writing.join().unwrap().unwrap();
    assert!((1000..64_000).contains(&member.len()), "{}", member.len());
    member.repeat(64)
}

#[tokio::test]
async fn a_bomb_of_a_provider_takes_less_than_64_mb_more() {
    const MORE: u64 = 64 << 10;
    let said = "x".repeat(60 << 20);
    let deep = "[".repeat(32 << 20);
    let event = |data: &str| MockAnswer::sse(format!("data: {data}\n\ndata: [DONE]\n\n"));
    // None of these is wrong, and there are more and more of them.
    let flood = |delta: &str| {
        let event = format!("data: {{\"choices\":[{{\"delta\":{{{delta}}}}}]}}\n\n");
        MockAnswer::body("text/event-stream", event.repeat((40 << 20) / event.len()))
    };
    let words = "word ".repeat(200);
    let compressed = |coding: &str| {
        MockAnswer::body("text/event-stream", bomb()).header("content-encoding", coding)
    };
    let rows: [(&str, MockAnswer); 11] = [
        ("compressed", compressed("gzip")),
        ("compressed, a failure", compressed("gzip").status(400)),
        ("compressed, twice", compressed("gzip, gzip")),
        ("compressed, not said", MockAnswer::body("text/event-stream", bomb())),
        ("one line", event(&format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{said}\"}}}}]}}"))),
        ("deep", event(&deep)),
        ("many small valid events", flood(&format!("\"content\":\"{words}\""))),
        ("many tiny ones", flood("\"content\":\"x\"")),
        ("reasoning", flood(&format!("\"reasoning_content\":\"{words}\""))),
        (
            "arguments",
            flood(&format!(
                "\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"terminal\",\"arguments\":\"{words}\"}}}}]"
            )),
        ),
        ("a document", MockAnswer::body("application/json", format!("{{\"choices\":\"{said}\"}}"))),
    ];
    let (ended, floor) = against(text("Hello.")).await;
    assert_eq!(ended.with_code(0).out, "Hello.\n");
    // Side by side: one of them is tried again for a while.
    let mut runs = JoinSet::new();
    for (name, answer) in rows {
        runs.spawn(async move { (name, against(answer).await) });
    }
    for (name, (ended, most)) in runs.join_all().await {
        println!("{name}: {most} KiB, {floor} without; {:?} {}", ended.code, ended.err);
        assert_ne!(ended.code, Some(0), "{name}: {ended:#?}");
        assert!(!ended.err.contains("panicked") && ended.code.is_some(), "{name}: {ended:#?}");
        assert!(most < floor + MORE, "{name}: {most} KiB, {floor} KiB without it");
    }
}

/// Events of a reply in some wire that each bring a piece: its beginning, and what stands before
/// and behind each piece.
type Flood = (&'static str, &'static str, &'static str, [&'static str; 2]);

/// A text, a thought and the arguments of a call in each wire.
const FLOODS: [Flood; 9] = [
    ("openai-chat", "text", "", [r#"{"choices":[{"delta":{"content":""#, r#""}}]}"#]),
    ("openai-chat", "thought", "", [r#"{"choices":[{"delta":{"reasoning_content":""#, r#""}}]}"#]),
    (
        "openai-chat",
        "arguments",
        "",
        [
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"terminal","arguments":""#,
            r#""}}]}}]}"#,
        ],
    ),
    (
        "openai-responses",
        "text",
        "",
        [r#"{"type":"response.output_text.delta","item_id":"a","delta":""#, r#""}"#],
    ),
    (
        "openai-responses",
        "thought",
        "",
        [r#"{"type":"response.reasoning_text.delta","item_id":"a","delta":""#, r#""}"#],
    ),
    (
        "openai-responses",
        "arguments",
        "",
        [r#"{"type":"response.function_call_arguments.delta","item_id":"a","delta":""#, r#""}"#],
    ),
    (
        "anthropic-messages",
        "text",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#,
            r#""}}"#,
        ],
    ),
    (
        "anthropic-messages",
        "thought",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
        [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":""#,
            r#""}}"#,
        ],
    ),
    (
        "anthropic-messages",
        "arguments",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"terminal","input":{}}}"#,
        [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""#,
            r#""}}"#,
        ],
    ),
];

#[tokio::test]
async fn a_flood_of_valid_pieces_takes_less_than_64_mb_more_in_every_wire() {
    const MORE: u64 = 64 << 10;
    let (ended, floor) = against(text("Hello.")).await;
    assert_eq!(ended.with_code(0).out, "Hello.\n");
    for (api, what, first, [before, behind]) in FLOODS {
        let mut runs = JoinSet::new();
        for size in [20, 1_000, 10_000, 500_000] {
            let event = format!("data: {before}{}{behind}\n\n", "x".repeat(size));
            let first = if first.is_empty() { String::new() } else { format!("data: {first}\n\n") };
            let body = first + &event.repeat((36 << 20) / event.len());
            let answer = MockAnswer::body("text/event-stream", body);
            runs.spawn(async move { (size, against_wire(api, answer).await) });
        }
        for (size, (ended, most)) in runs.join_all().await {
            let name = format!("{api}, {what} in {size}s");
            println!("{name}: {most} KiB, {floor} without; {:?} {}", ended.code, ended.err);
            assert_eq!(ended.code, Some(1), "{name}: {ended:#?}");
            assert!(ended.err.contains("the reply holds more"), "{name}: {ended:#?}");
            assert!(most < floor + MORE, "{name}: {most} KiB, {floor} KiB without it");
        }
    }
}

/// A run against a model that always answers this.
async fn against(answer: MockAnswer) -> (ProgramEnd, u64) {
    against_wire("openai-chat", answer).await
}

async fn against_wire(api: &str, answer: MockAnswer) -> (ProgramEnd, u64) {
    let lab = Lab::new();
    let server = MockServer::start_with(move |_| answer.clone()).await.unwrap();
    let set = format!(
        "model: p/m\nproviders:\n  p: {{ base_url: \"{}\", api: {api} }}\n",
        server.base_url()
    );
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), set).unwrap();
    most_memory(RunningProgram::start(lab.deputize(&["run", "Hello"]))).await
}

/// A run of a user who has nothing else and may start so many threads and processes.
async fn with_threads(most: u32) -> ProgramEnd {
    let lab = Lab::new();
    let server = model(|asked| match asked.replies() {
        0 => call("terminal", json!({"command": "echo worked"})),
        _ => text(asked.results().last().copied().unwrap_or_default()),
    });
    let server = server.await;
    // Nobody else's, also when several tests run at once.
    let user = (1_000_000_000 + std::process::id()).to_string();
    for folder in [lab.path("."), lab.path("home"), lab.work(".")] {
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::chown(&folder, user.parse().ok(), user.parse().ok()).unwrap();
    }
    let mut command = lab.command("prlimit");
    command.arg(format!("--nproc={most}:{most}"));
    command.args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", PROGRAM]);
    command.args(["run", "-m", "openai/mock", "--base-url", &server.base_url()]);
    command.args(["--approve", "auto", "Work"]);
    RunningProgram::start(command).end().await
}

#[tokio::test]
async fn with_too_few_threads_nothing_is_begun_and_with_enough_nothing_breaks() {
    // Only root can be a user without other processes.
    require!(root());
    let least = std::thread::available_parallelism().unwrap().get() as u32 + 8;
    for most in (1..=least).chain([least + 1, least + 4]) {
        let ended = with_threads(most).await;
        println!("{most}: {:?} {}", ended.code, ended.err);
        assert!(!ended.err.contains("panicked"), "{most}: {}", ended.err);
        // The program's own thread counts, too.
        if most <= least {
            let expected = format!(
                "{} more threads and processes may be started, and a run needs {least}",
                most - 1
            );
            let ended = ended.with_code(1);
            assert!(ended.err.contains(&expected), "{most}: {}", ended.err);
            assert!(ended.err.contains("hint: "), "{most}: {}", ended.err);
        } else {
            assert!(ended.with_code(0).out.contains("worked"), "{most}");
        }
    }
}
