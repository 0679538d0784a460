//! The program as a person or a script starts it, against a model server on this machine.

#![cfg(test)]
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// Upper bound on each wait; a test that reaches it fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// A person's home, a directory to work in, and perhaps a server.
struct TestHome {
    dir: tempfile::TempDir,
    server: Option<MockServer>,
}

impl TestHome {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir, server: None }
    }

    async fn with(answers: impl IntoIterator<Item = MockAnswer>) -> Self {
        let server = MockServer::start(answers).await.unwrap();
        Self { server: Some(server), ..Self::empty() }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deputize"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("DEPUTIZE_HOME", self.dir.path().join("home"))
            .env("TZ", "UTC")
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// `run` with the server's model.
    fn run(&self, arguments: &[&str]) -> Command {
        let url = self.server.as_ref().unwrap().base_url();
        let mut all = vec!["run", "-m", "openai/m", "--base-url", &url];
        all.extend(arguments);
        self.command(&all)
    }

    fn sessions(&self) -> Vec<String> {
        let sessions = std::fs::read_dir(self.dir.path().join("home/sessions")).unwrap();
        let names = sessions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect()
    }
}

/// What a finished program said: code, standard output, standard error.
fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

async fn ended(mut command: Command) -> (Option<i32>, String, String) {
    said(&command.output().await.unwrap())
}

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("m", text))
}

fn calls<'c>(calls: impl IntoIterator<Item = (&'c str, Value)>) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("m", calls))
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_goes_to_stdout_and_nothing_else_does() {
    let write = calls([("write_file", json!({"path": "a.txt", "content": "one\n"}))]);
    let home = TestHome::with([write, text("Done.")]).await;
    let (code, out, err) = ended(home.run(&["make a file"])).await;
    assert_eq!((code, out.as_str()), (Some(0), "Done.\n"), "{err}");
    assert!(err.contains("write a.txt\n"), "{err}");
    assert!(err.contains("1 file changed:\n  new a.txt +1\n"), "{err}");
    assert_eq!(std::fs::read_to_string(home.work().join("a.txt")).unwrap(), "one\n");
    assert!(!err.contains('\u{1b}'), "no terminal, no colours: {err:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_is_quiet_and_json_is_one_object() {
    let home = TestHome::with([text("Done.")]).await;
    let (code, out, err) = ended(home.run(&["-q", "--output", "json", "go"])).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["status"], "completed");
    assert_eq!(object["answer"], "Done.");
    assert_eq!(object["children"], json!([]));
    assert_eq!(object["session"], home.sessions()[0].as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn event_lines_are_json_without_gaps_and_children_are_in_them() {
    let delegate = calls([("delegate_task", json!({"goal": "Say b."}))]);
    let home = TestHome::with([delegate, text("b"), text("It said b.")]).await;
    let (code, out, _) = ended(home.run(&["--output", "events", "-v", "go"])).await;
    assert_eq!(code, Some(0));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbered: Vec<&Value> = lines.iter().filter(|line| line["type"] != "model.delta").collect();
    for (seq, line) in numbered.iter().enumerate() {
        assert_eq!(line["seq"], seq, "{line}");
    }
    let kinds: Vec<&str> = numbered.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("session.start", "session.end"));
    let start = numbered.iter().find(|line| line["type"] == "agent.start" && line["depth"] == 1);
    let start = start.unwrap();
    assert_eq!((&start["goal"], &start["task_count"]), (&json!("Say b."), &json!(1)));
    assert_eq!(start["prompt_sha256"].as_str().unwrap().len(), 64);
    let deltas: Vec<&Value> = lines.iter().filter(|line| line["type"] == "model.delta").collect();
    assert!(!deltas.is_empty() && deltas.iter().all(|line| line.get("seq").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_run_quietly() {
    let gate = Barrier::closed();
    let never = Barrier::closed();
    let first = calls([("list_dir", json!({"path": "."}))]).stall_at(0, &gate);
    let home = TestHome::with([first, text("never").stall_at(0, &never)]).await;
    let mut child = home.run(&["--output", "events", "-q", "go"]).spawn().unwrap();
    home.server.as_ref().unwrap().until_requests(1).await;
    drop(child.stdout.take());
    gate.open();
    let (code, _, err) = said(&child.wait_with_output().await.unwrap());
    assert_eq!(code, Some(130));
    assert_eq!(err, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_whole_tree() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let gate = Barrier::closed();
        let delegate = calls([("delegate_task", json!({"goal": "Wait."}))]);
        let home = TestHome::with([delegate, text("never").stall_at(0, &gate)]).await;
        let child = home.run(&["--output", "json", "go"]).spawn().unwrap();
        home.server.as_ref().unwrap().until_requests(2).await;
        send(&child, signal);
        let (code, out, err) = said(&child.wait_with_output().await.unwrap());
        assert_eq!(code, Some(130), "{err}");
        let object: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(object["status"], "interrupted");
        assert_eq!(object["children"][0]["status"], "interrupted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_running_command() {
    // No other process has these words; its number may be one of a namespace of its own.
    let nap = format!("31415.{}", std::process::id());
    let sleep = format!("sleep {nap} & wait");
    let home = TestHome::with([calls([("terminal", json!({"command": sleep}))])]).await;
    let child = home.run(&["--approve", "auto", "go"]).spawn().unwrap();
    let started = async {
        while !runs(&nap) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, started).await.expect("the command starts");
    send(&child, Signal::INT);
    let (code, _, err) = said(&child.wait_with_output().await.unwrap());
    assert_eq!(code, Some(130), "{err}");
    assert!(!runs(&nap), "the command outlived the program");
}

/// Whether a process sleeps for so long.
fn runs(nap: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let wanted = format!("sleep\0{nap}\0");
    entries.filter_map(line).any(|line| line == wanted.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_three_lines_say_how_to_get_one() {
    let home = TestHome::empty();
    let (code, out, err) = ended(home.command(&["run", "go"])).await;
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(err.lines().count(), 3, "{err}");
    assert!(err.contains("-m offline"), "{err}");
    let (code, out, err) = ended(home.command(&["run", "-m", "offline", "Tell me a joke"])).await;
    assert_eq!(code, Some(1), "{err}");
    assert!(!out.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_why_there_is_no_answer() {
    let home = TestHome::with([MockAnswer::error(401, "bad key")]).await;
    let (code, out, err) = ended(home.run(&["go"])).await;
    assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("error: ") && err.contains("deputize run --resume"), "{err}");

    let read = || calls([("list_dir", json!({"path": "."}))]);
    let home = TestHome::with([read(), text("So far.")]).await;
    let (code, out, err) = ended(home.run(&["--max-iterations", "1", "go"])).await;
    assert_eq!((code, out.as_str()), (Some(4), "So far.\n"), "{err}");
    let expected = "warning: the limit of 1 model request (max_iterations) was reached";
    assert!(err.contains(expected), "{err}");
    // An answer by the last request of the limit is whole.
    let home = TestHome::with([text("All of it.")]).await;
    let (code, out, err) = ended(home.run(&["--max-iterations", "1", "go"])).await;
    assert_eq!((code, out.as_str()), (Some(0), "All of it.\n"), "{err}");
    assert!(!err.contains("max_iterations"), "{err}");

    let (code, _, err) = ended(home.run(&["-t", "flie", "go"])).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("there is no toolset `flie`"), "{err}");
    let (code, _, err) = ended(home.command(&["run", "-m", "openai/m", "go"])).await;
    assert_eq!(code, Some(3));
    assert!(err.contains("OPENAI_API_KEY"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_person_commands_are_denied_and_said_so() {
    let command = calls([("terminal", json!({"command": "touch made"}))]);
    let home = TestHome::with([command, text("I could not.")]).await;
    let (code, out, err) = ended(home.run(&["--output", "events", "go"])).await;
    assert_eq!(code, Some(0));
    assert!(
        err.contains("terminal refused: touch made (") && err.contains("--approve auto"),
        "{err}"
    );
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().find(|line| line["type"] == kind).unwrap();
    assert_eq!(of("approval.request")["command"], "touch made");
    assert_eq!(of("approval.decision")["decision"], "deny");
    assert_eq!(of("tool.end")["status"], "denied");
    assert_eq!(of("agent.end")["denied_tool_calls"], 1);
    assert!(!home.work().join("made").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_comes_from_a_pipe_too() {
    for arguments in [&["-"][..], &[]] {
        let home = TestHome::with([text("ok")]).await;
        let mut child = home.run(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all("count\nthe tests".as_bytes()).await.unwrap();
        let (code, _, err) = said(&child.wait_with_output().await.unwrap());
        assert_eq!(code, Some(0), "{err}");
        let request = home.server.as_ref().unwrap().requests()[0].json();
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["content"], "count\nthe tests");
    }
    let (code, _, err) = ended(TestHome::empty().command(&["run", "-m", "offline"])).await;
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: the task is empty: give it as an argument"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_listed_shown_resumed_exported_and_removed() {
    let home = TestHome::with([text("First."), text("Second.")]).await;
    assert_eq!(ended(home.run(&["one"])).await.0, Some(0));
    let id = home.sessions().remove(0);
    let (_, list, _) = ended(home.command(&["sessions", "list", "--json"])).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((&list[0]["session"], &list[0]["status"]), (&json!(id), &json!("completed")));

    let (code, out, err) = ended(home.run(&["--resume", &id, "two"])).await;
    assert_eq!((code, out.as_str()), (Some(0), "Second.\n"), "{err}");
    let requests = home.server.as_ref().unwrap().requests();
    let contents: Vec<Value> = requests[1].json()["messages"].as_array().unwrap()[1..]
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(contents, [json!("one"), json!("First."), json!("two")]);

    let (_, shown, _) = ended(home.command(&["sessions", "show", &id])).await;
    assert!(shown.contains("> two\n") && shown.contains("Second."), "{shown}");
    let (_, lines, _) = ended(home.command(&["sessions", "export", &id])).await;
    let seqs: Vec<u64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());

    assert_eq!(ended(home.command(&["sessions", "rm", &id])).await.0, Some(0));
    assert!(home.sessions().is_empty());
    let (code, _, err) = ended(home.command(&["sessions", "rm", &id])).await;
    assert_eq!(code, Some(2));
    assert!(err.starts_with(&format!("error: there is no session `{id}`")), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_session_gives_its_answer_again_and_asks_nobody() {
    let home = TestHome::with([text("First.")]).await;
    assert_eq!(ended(home.run(&["one"])).await.0, Some(0));
    let id = home.sessions().remove(0);
    for _ in 0..2 {
        let (code, out, err) = ended(home.run(&["--resume", &id])).await;
        assert_eq!((code, out.as_str()), (Some(0), "First.\n"), "{err}");
    }
    let (code, out, _) = ended(home.run(&["--resume", &id, "--output", "json"])).await;
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &shown["answer"]), (Some(0), &json!("First.")));
    assert_eq!(home.server.as_ref().unwrap().requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_a_resumed_session_work_where_it_began() {
    let hand_on = calls([("delegate_task", json!({"goal": "Sort"}))]);
    let home = TestHome::with([text("First."), hand_on, text("Sorted."), text("Second.")]).await;
    assert_eq!(ended(home.run(&["one"])).await.0, Some(0));
    let id = home.sessions().remove(0);
    let elsewhere = home.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut command = home.run(&["--resume", &id, "two"]);
    command.current_dir(&elsewhere);
    let (code, out, err) = ended(command).await;
    assert_eq!((code, out.as_str()), (Some(0), "Second.\n"), "{err}");
    let requests = home.server.as_ref().unwrap().requests();
    let child = requests[2].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(child.contains("YOUR TASK:\nSort"), "{child}");
    assert!(child.contains(home.work().to_str().unwrap()), "{child}");
    assert!(!child.contains(elsewhere.to_str().unwrap()), "{child}");

    std::fs::remove_dir(home.work()).unwrap();
    let mut command = home.run(&["--resume", &id, "three"]);
    command.current_dir(&elsewhere);
    let (code, _, err) = ended(command).await;
    assert_eq!(code, Some(2), "{err}");
    let expected = format!("error: cannot work in `{}`: ", home.work().display());
    assert!(err.starts_with(&expected) && err.contains("hint: the session"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_in_use_is_neither_removed_nor_resumed() {
    let gate = Barrier::closed();
    let home = TestHome::with([text("late").stall_at(0, &gate)]).await;
    let mut child = home.run(&["--output", "events", "go"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    let id = home.sessions().remove(0);
    let (code, _, err) = ended(home.command(&["sessions", "rm", &id])).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("is in use by"), "{err}");
    let (code, _, err) = ended(home.run(&["--resume", &id, "more"])).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("is in use by"), "{err}");
    gate.open();
    while lines.next_line().await.unwrap().is_some() {}
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!(home.sessions(), [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_prompt_shows_is_what_is_sent() {
    let home = TestHome::with([text("ok")]).await;
    std::fs::write(home.work().join("AGENTS.md"), "Use tabs.\n").unwrap();
    assert_eq!(ended(home.run(&["--project-files", "go"])).await.0, Some(0));
    let sent = home.server.as_ref().unwrap().requests()[0].json();
    let url = home.server.as_ref().unwrap().base_url();
    let arguments =
        ["prompt", "-m", "openai/m", "--base-url", &url, "--json", "--project-files", "go"];
    let (code, shown, err) = ended(home.command(&arguments)).await;
    assert_eq!(code, Some(0), "{err}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown, sent);
    assert!(sent["messages"][0]["content"].as_str().unwrap().contains("Use tabs."));
}
