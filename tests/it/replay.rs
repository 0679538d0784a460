//! A recording plays the whole run again, without model, tools, files and network, and says
//! where a program does something else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, hang, model};

mod forged;
mod library;

/// The children of the tree, and the order in which their replies come.
const ODD: [usize; 8] = [5, 0, 7, 2, 1, 6, 3, 4];
const EIGHT: &str = "delegation.max_concurrent_children=8";
const APPROVED: &str = "delegation.subagent_auto_approve=true";
const FILE: &str = "../t.jsonl";

/// The number of a child, by its task.
fn number(asked: &ChatRequest) -> Option<usize> {
    asked.last_user().split("part ").nth(1)?.chars().next()?.to_digit(10).map(|n| n as usize)
}

/// A parent of eight. Each child writes a file, runs a command that waits for its word, asks for a
/// tool that is none, and answers.
fn family(asked: &ChatRequest) -> MockAnswer {
    let child = asked.system().contains("YOUR TASK:");
    if !child {
        return MockAnswer::reply(&if asked.results().is_empty() {
            let goals = (0..8).map(|n| json!({"goal": format!("Do part {n}.")}));
            let tasks: Vec<Value> = goals.collect();
            Reply::calls("mock", [("delegate_task", json!({"tasks": tasks}))])
        } else {
            Reply::text("mock", format!("All eight: {}", asked.results()[0].len()))
        });
    }
    let n = number(asked).expect("a child's number");
    let command = format!("read word < go{n}; echo {n} >> order; echo {n} > done");
    MockAnswer::reply(&match asked.results().len() {
        0 => Reply::calls(
            "mock",
            [
                ("write_file", json!({"path": format!("part{n}"), "content": "done\n"})),
                ("terminal", json!({"command": command})),
                ("no_such_tool", json!({})),
            ],
        ),
        _ => Reply::text("mock", format!("Part {n} is done.")),
    })
}

fn without_key(lab: &Lab, args: &[&str]) -> RunningProgram {
    let mut command = lab.command(crate::program::PROGRAM);
    // Neither the directory nor the home of the recorded run is there.
    let elsewhere = lab.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    command.current_dir(&elsewhere).env("DEPUTIZE_HOME", lab.path("other-home"));
    command.arg("run").args(args);
    RunningProgram::start(command)
}

/// Everything that there is below a directory.
fn everything(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_tree_of_eight_is_played_to_the_byte_ten_times() {
    for output in ["events", "json", "text"] {
        let lab = Lab::new();
        let mut done = lab.pipe("done");
        let words: Vec<_> = (0..8).map(|n| lab.pipe(&format!("go{n}"))).collect();
        let server = model(family).await;
        let args = ["--set", EIGHT, "--set", APPROVED, "--output", output, "--record", FILE, "go"];
        let running = lab.run(&server, &args);
        for n in ODD {
            fs::write(lab.work(format!("go{n}")), "go\n").unwrap();
            assert_eq!(done.lines(1).await, [n.to_string()]);
        }
        let recorded = running.end().await.with_code(0);
        drop((server, words, done));
        assert!(recorded.out.contains("All eight"), "{}", recorded.out);
        if output == "events" {
            let ends = recorded.events("agent.end");
            assert_eq!(ends.len(), 9);
        }
        assert_eq!(fs::read_to_string(lab.work("order")).unwrap().lines().count(), 8);
        fs::remove_dir_all(lab.work("")).unwrap();
        let file = lab.path("t.jsonl");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let before = everything(&lab.path(""));
        let rounds = if output == "events" { 10 } else { 1 };
        for _ in 0..rounds {
            let args = ["--replay", file.to_str().unwrap(), "--output", output];
            let played = without_key(&lab, &args).end().await.with_code(0);
            assert_eq!(played.out, recorded.out);
        }
        assert_eq!(everything(&lab.path("")), before, "a replay touches nothing");
    }
}

/// Records a run of one agent by a rule.
async fn record(
    lab: &Lab,
    args: &[&str],
    rule: fn(&ChatRequest) -> MockAnswer,
) -> (ProgramEnd, MockServer) {
    let server = model(rule).await;
    let mut all = vec!["--output", "events", "--record", FILE];
    all.extend(args);
    let ended = lab.run(&server, &all).end().await;
    (ended, server)
}

async fn replay(lab: &Lab, args: &[&str]) -> ProgramEnd {
    let file = lab.path("t.jsonl");
    let mut all = vec!["--replay", file.to_str().unwrap(), "--output", "events"];
    all.extend(args);
    without_key(lab, &all).end().await
}

fn one_look(asked: &ChatRequest) -> MockAnswer {
    MockAnswer::reply(&match asked.results().len() {
        0 => Reply::calls("mock", [("list_dir", json!({}))]),
        _ => Reply::text("mock", format!("I saw {} bytes.", asked.results()[0].len())),
    })
}

/// Fails in every way: busy at first, then calls that are denied, wrong and unknown.
fn trouble(asked: &ChatRequest) -> MockAnswer {
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    if ASKED.fetch_add(1, Ordering::Relaxed) == 0 {
        return MockAnswer::error(429, "slow down").header("retry-after", "1");
    }
    MockAnswer::reply(&match asked.results().len() {
        0 => Reply::calls(
            "mock",
            [
                ("terminal", json!({"command": "rm -r everything"})),
                ("read_file", json!({"path": "not-there"})),
                ("read_file", json!({"pth": 1})),
                ("no_such_tool", json!({})),
            ],
        ),
        _ => Reply::text("mock", "It did not work."),
    })
}

#[tokio::test]
async fn retries_denied_and_failed_calls_are_played() {
    let lab = Lab::new();
    let (recorded, _server) = record(&lab, &["--approve", "deny", "go"], trouble).await;
    let recorded = recorded.with_code(0);
    assert_eq!(recorded.events("model.retry").len(), 1);
    let statuses: Vec<String> = recorded
        .events("tool.end")
        .iter()
        .map(|end| end["status"].as_str().unwrap().to_owned())
        .collect();
    assert!(statuses.contains(&"denied".to_owned()) && statuses.contains(&"error".to_owned()));
    assert_eq!(replay(&lab, &[]).await.with_code(0).out, recorded.out);
}

#[tokio::test]
async fn a_provider_that_cannot_be_used_is_played_with_its_exit_code() {
    let lab = Lab::new();
    let rule = |_: &ChatRequest| MockAnswer::error(401, "no such key");
    let (recorded, _server) = record(&lab, &["go"], rule).await;
    let recorded = recorded.with_code(3);
    let played = replay(&lab, &[]).await.with_code(3);
    assert_eq!(played.out, recorded.out);
    assert!(!played.err.contains("--resume"), "{}", played.err);
}

#[tokio::test]
async fn an_interrupt_is_played() {
    let lab = Lab::new();
    let server = model(|asked| match asked.system().contains("YOUR TASK:") {
        true => hang(),
        false => MockAnswer::reply(&Reply::calls(
            "mock",
            // The fourth one waits for a place and never begins.
            [(
                "delegate_task",
                json!({"tasks": [
                    {"goal": "a"}, {"goal": "b"}, {"goal": "c"}, {"goal": "d"}
                ]}),
            )],
        )),
    })
    .await;
    let set =
        ["--set", "delegation.over_limit=queue", "--output", "events", "--record", FILE, "go"];
    let running = lab.run(&server, &set);
    let asks = |event: &Value| event["depth"] == 1;
    running.event("model.request", asks).await;
    running.signal(Signal::INT);
    let recorded = running.end().await.with_code(130);
    assert_eq!(replay(&lab, &[]).await.with_code(130).out, recorded.out);
}

/// A parent of three that it does not wait for. Each looks around first.
fn background(asked: &ChatRequest) -> MockAnswer {
    let child = asked.system().contains("YOUR TASK:");
    let goals = ["a", "b", "c"].map(|goal| json!({"goal": goal}));
    let actual = asked.users().iter().filter(|it| it.starts_with("Your background child")).count();
    MockAnswer::reply(&match (child, asked.results().len()) {
        (true, 0) => Reply::calls("mock", [("list_dir", json!({}))]),
        (true, _) => Reply::text("mock", "I looked."),
        (false, 0) => {
            Reply::calls("mock", [("delegate_task", json!({"tasks": goals, "background": true}))])
        }
        (false, _) => Reply::text("mock", format!("I know of {actual}.")),
    })
}

#[tokio::test]
async fn children_that_nobody_waits_for_are_played() {
    let lab = Lab::new();
    let args = ["--set", "delegation.background=true", "go"];
    let (recorded, _server) = record(&lab, &args, background).await;
    let recorded = recorded.with_code(0);
    assert_eq!(recorded.events("child.delivered").len(), 3, "{}", recorded.out);
    assert!(!recorded.events("agent.rest").is_empty(), "{}", recorded.out);
    let played = replay(&lab, &[]).await.with_code(0);
    assert_eq!(played.out, recorded.out);
}

#[tokio::test]
async fn a_session_that_was_taken_up_again_is_played() {
    let lab = Lab::new();
    let server = model(one_look).await;
    lab.run(&server, &["first"]).end().await.with_code(0);
    let session = lab.session();
    let args = ["--resume", &session, "--output", "events", "--record", FILE, "second"];
    let recorded = lab.run(&server, &args).end().await.with_code(0);
    assert!(recorded.events("session.start")[0]["seq"].as_u64().unwrap() > 5);
    drop(server);
    assert_eq!(replay(&lab, &[]).await.with_code(0).out, recorded.out);
    let same = replay(&lab, &["second"]).await.with_code(0);
    assert_eq!(same.out, recorded.out);
    let other = replay(&lab, &["third"]).await.with_code(2);
    insta::assert_snapshot!(other.err);
}

#[tokio::test]
async fn children_that_a_kill_left_behind_are_played_with_the_end_that_they_got() {
    let lab = Lab::new();
    let server = model(|asked| match asked.system().contains("YOUR TASK:") {
        true => hang(),
        false => family(asked),
    })
    .await;
    let running = lab.run(&server, &["--set", EIGHT, "--output", "events", "go"]);
    running.event("model.request", |event| event["agent"].as_str().unwrap().ends_with(".7")).await;
    running.signal(Signal::KILL);
    running.end().await;
    // Three are taken up again; the others have nobody who asks for them.
    let session = lab.session();
    let queue = "delegation.over_limit=queue";
    let args = ["--resume", &session, "--set", queue, "--output", "events", "--record", FILE];
    let running = lab.run(&server, &args);
    running.event("model.request", |event| event["depth"] == 1).await;
    running.signal(Signal::INT);
    let recorded = running.end().await.with_code(130);
    assert_eq!(recorded.events("agent.end").len(), 9, "{}", recorded.out);
    assert_eq!(replay(&lab, &[]).await.with_code(130).out, recorded.out);
}

/// Returns the message about a difference, without what varies from run to run.
fn describe(lab: &Lab, ended: &ProgramEnd) -> String {
    let file = fs::read_to_string(lab.path("t.jsonl")).unwrap();
    let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    let mut text = ended.err.clone();
    for place in [lab.path("").canonicalize().unwrap(), lab.path("")] {
        text = text.replace(place.to_str().unwrap().trim_end_matches('/'), "LAB");
    }
    let date = header["setup"]["found"]["date"].as_str().unwrap();
    text.replace(header["session"].as_str().unwrap(), "SESSION").replace(date, "DATE")
}

#[tokio::test]
async fn other_tools_instructions_and_tasks_are_shown_as_they_differ() {
    let lab = Lab::new();
    fs::write(lab.work("AGENTS.md"), "Use tabs.\nBe brief.\nTest first.\n").unwrap();
    let (recorded, server) = record(&lab, &["--project-files", "go"], one_look).await;
    let recorded = recorded.with_code(0);
    drop(server);

    let work = lab.work("");
    let there = ["-C", work.to_str().unwrap(), "--project-files"];
    let same = replay(&lab, &there).await.with_code(0);
    assert_eq!(same.out, recorded.out);
    fs::write(lab.work("AGENTS.md"), "Use tabs.\nBe verbose.\nTest first.\n").unwrap();
    let other = replay(&lab, &there).await.with_code(1);
    insta::assert_snapshot!("other_instructions", describe(&lab, &other));
    assert!(recorded.out.starts_with(&other.out) && !other.out.is_empty());
    // The recording has the instructions in it.
    assert_eq!(replay(&lab, &["-q"]).await.with_code(0).err, "");

    let other = replay(&lab, &["-t", "file"]).await.with_code(1);
    insta::assert_snapshot!("other_tools", describe(&lab, &other));
    let other = replay(&lab, &["go away"]).await.with_code(2);
    assert!(other.err.contains("the task differs from the recorded one, which is `go`"));
    for flag in [["-m", "offline"], ["--set", "model=offline"], ["--record", "x"]] {
        replay(&lab, &flag).await.with_code(2);
    }
}

#[tokio::test]
async fn a_recording_that_was_cut_short_is_played_to_where_it_ends() {
    let lab = Lab::new();
    let (recorded, server) = record(&lab, &["go"], one_look).await;
    let recorded = recorded.with_code(0);
    drop(server);
    let whole = fs::read_to_string(lab.path("t.jsonl")).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert!(lines.len() > 8, "{whole}");
    for cut in 3..lines.len() {
        let mut text = lines[..cut].concat();
        let torn = &lines[cut][..lines[cut].len() / 2];
        text.push_str(torn);
        fs::write(lab.path("t.jsonl"), text).unwrap();
        let ended = replay(&lab, &[]).await.with_code(1);
        assert!(ended.err.contains("the recording ends here, after"), "{}", ended.err);
        let said = format!("{} bytes of an incomplete line", torn.len());
        assert!(ended.err.contains(&said), "{}", ended.err);
        assert!(recorded.out.starts_with(&ended.out), "{}", ended.out);
    }
}

#[tokio::test]
async fn the_recording_of_a_program_that_was_killed_is_played_to_where_it_ends() {
    let lab = Lab::new();
    let server = model(|asked| match asked.results().len() {
        0 => MockAnswer::reply(&Reply::calls("mock", [("list_dir", json!({}))])),
        _ => hang(),
    })
    .await;
    let running = lab.run(&server, &["--output", "events", "--record", FILE, "go"]);
    let event = running.event("model.request", |event| event["iteration"] == 2).await;
    running.signal(Signal::KILL);
    let recorded = running.end().await;
    let ended = replay(&lab, &[]).await.with_code(1);
    assert_eq!(ended.out, recorded.out);
    let records = event["seq"].as_u64().unwrap() + 1;
    assert!(ended.err.contains(&format!("after {records} records: it was cut short")));
}

#[tokio::test]
async fn files_that_are_damaged_or_no_recordings_are_refused_with_the_place() {
    let lab = Lab::new();
    let (recorded, _server) = record(&lab, &["go"], one_look).await;
    recorded.with_code(0);
    let whole = fs::read(lab.path("t.jsonl")).unwrap();
    let newlines = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let ends: Vec<usize> = newlines.map(|(at, _)| at).collect();
    let refused = async |bytes: &[u8], words: &str| {
        fs::write(lab.path("t.jsonl"), bytes).unwrap();
        let ended = replay(&lab, &[]).await.with_code(2);
        assert_eq!(ended.out, "");
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    };
    let mut flipped = whole.clone();
    flipped[(ends[4] + ends[5]) / 2] ^= 1;
    refused(&flipped, "line 6 of recording").await;
    let text = String::from_utf8(whole.clone()).unwrap();
    let one = text.lines().position(|line| line.contains("I saw")).unwrap() + 1;
    let other = text.replacen("I saw", "I sew", 1);
    refused(other.as_bytes(), &format!("line {one} of recording")).await;
    refused(other.as_bytes(), "is damaged: its checksum is").await;
    let mut gone = whole.clone();
    gone.drain(ends[2]..ends[3]);
    refused(&gone, "line ").await;
    refused(b"", "is not a recording").await;
    refused(b"\0\xff\n", "is not a recording").await;
    refused(br#"{"recording":99}"#, "has format 99, this program reads up to 1").await;
    let session = fs::read(lab.session_file()).unwrap();
    refused(&session, "is not a recording").await;

    fs::remove_file(lab.path("t.jsonl")).unwrap();
    let _pipe = lab.pipe("p");
    fs::rename(lab.work("p"), lab.path("t.jsonl")).unwrap();
    let ended = replay(&lab, &[]).await.with_code(2);
    assert!(ended.err.contains("it is not a regular file"), "{}", ended.err);
}

#[tokio::test]
async fn a_recording_replaces_no_file_and_holds_no_secret() {
    let lab = Lab::new();
    let server = model(|asked| MockAnswer::reply(&Reply::text("mock", asked.last_user()))).await;
    let secret = "sk-canary-0123456789";
    let record = || {
        let mut command = lab.run_command(&server, &["--record", FILE, "say sk-canary-0123456789"]);
        command.args(["--api-key-env", "MY_KEY"]).env("MY_KEY", secret);
        RunningProgram::start(command)
    };
    record().end().await.with_code(0);
    let text = fs::read_to_string(lab.path("t.jsonl")).unwrap();
    assert!(!text.contains(secret) && text.contains("say [redacted:MY_KEY]"), "{text}");
    let again = record().end().await.with_code(2);
    assert!(again.err.contains("exists already: choose another name, or remove it"));
    assert_eq!(fs::read_to_string(lab.path("t.jsonl")).unwrap(), text);
    replay(&lab, &["say sk-canary-0123456789"]).await.with_code(2);
    replay(&lab, &[]).await.with_code(0);
}

#[tokio::test]
async fn the_commands_of_the_page_do_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/record-replay.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script: String = blocks.collect();
    assert!(script.lines().count() >= 5, "{script}");
    let lab = Lab::new();
    fs::write(lab.work("README.md"), "# Kite\n").unwrap();
    let mut command = lab.command("bash");
    let program = crate::program::PROGRAM;
    command.arg("-euo").arg("pipefail").arg("-c");
    command.arg(format!("deputize() {{ {program} \"$@\"; }}\n{script}"));
    let ended = RunningProgram::start(command).end().await.with_code(0);
    assert!(ended.out.contains("model.response"), "{}", ended.out);
    assert!(ended.err.contains("differs from the recording in the system text"), "{}", ended.err);
}
