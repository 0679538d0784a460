//! The log of the program: what goes into it, and that a secret never does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::json;

use crate::program::{Lab, ProgramEnd, RunningProgram};

const KEY: &str = "sk-mock-0123456789abcdef";

/// A retry, a child that runs a command, and a command with the key in it.
fn answers() -> Vec<MockAnswer> {
    let call =
        |tool: &str, arguments| MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]));
    let text = |text: &str| MockAnswer::reply(&Reply::text("mock", text));
    vec![
        MockAnswer::error(503, &format!("the key {KEY} is fine, the server is not"))
            .header("retry-after", "0"),
        call("delegate_task", json!({"goal": "Read it."})),
        call("read_file", json!({"path": "a.txt"})),
        text("Read."),
        call("terminal", json!({"command": "exit 3"})),
        text("Done."),
    ]
}

async fn run(lab: &Lab, args: &[&str], filter: Option<&str>) -> ProgramEnd {
    fs::write(lab.work("a.txt"), "one\n").unwrap();
    let server = MockServer::start(answers()).await.unwrap();
    let args = [&["--api-key-env", "MOCK_KEY", "--approve", "auto"], args, &["Do it."]].concat();
    let mut command = lab.run_command(&server, &args);
    command.env("MOCK_KEY", KEY);
    if let Some(filter) = filter {
        command.env("DEPUTIZE_LOG", filter);
    }
    let ended = RunningProgram::start(command).end().await;
    lab.holds_no(KEY, &ended);
    ended
}

fn line<'l>(log: &'l str, what: &str) -> &'l str {
    log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no `{what}`:\n{log}"))
}

#[tokio::test]
async fn a_log_has_the_spans_of_what_happens_and_no_key() {
    let lab = Lab::new();
    run(&lab, &["--log", "log.txt"], Some("debug")).await.with_code(0);
    let path = lab.work("log.txt");
    let log = fs::read_to_string(&path).unwrap();
    assert!(!log.contains(KEY), "{log}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let retry = line(&log, "request failed");
    assert!(retry.contains(" WARN session{"), "{retry}");
    // The failed attempt is recorded behind its request, in the step of the agent.
    assert!(retry.contains("}:agent{") && retry.contains("}:step{number=1}: "), "{retry}");
    let sent = line(&log, "request sent");
    assert!(sent.contains("}:step{number=1}:request{model=\"openai/mock\" attempt=1}"), "{sent}");
    assert!(log.lines().any(|line| line.contains("request{") && line.contains("attempt=2}")));
    let read = line(&log, "tool=\"read_file\"");
    let inside =
        ["session{id=", "}:agent{id=", "}:call{id=call_1_0 tool=\"delegate_task\"}:agent{id="];
    let places: Vec<_> = inside.iter().map(|span| read.find(span)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {read}");
    assert!(line(&log, "command ended").contains("deputize_process"), "{log}");
    assert!(!log.contains("hyper"), "other libraries are not asked for:\n{log}");
}

#[tokio::test]
async fn what_a_server_says_is_not_in_the_log() {
    let lab = Lab::new();
    let command = "printf 'no %s%s here\\n' hush- 0123456789 >&2; exit 1";
    let config = json!({"mcp_servers": {"shy": {
        "command": "sh", "args": ["-c", command], "env": {"SHY_TOKEN": "hush-0123456789"},
    }}});
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
    let command = lab.deputize(&["mcp", "test", "shy", "--log", "log.txt"]);
    RunningProgram::start(command).end().await.with_code(1);
    let log = fs::read_to_string(lab.work("log.txt")).unwrap();
    let fault = line(&log, "server not started");
    assert!(fault.contains(" WARN ") && fault.contains("server=\"shy\""), "{log}");
    assert!(fault.contains("error=\"its start failed\""), "{log}");
    assert!(!log.contains(" here") && !log.contains("hush-"), "{log}");
}

#[tokio::test]
async fn a_filter_is_a_level_for_each_target_and_faults_have_their_spans_at_any_level() {
    let lab = Lab::new();
    let args = ["--log", "log.txt"];
    run(&lab, &args, Some("warn,deputize_process=debug")).await.with_code(0);
    let log = fs::read_to_string(lab.work("log.txt")).unwrap();
    assert!(!log.contains(" INFO "), "{log}");
    let debug: Vec<_> = log.lines().filter(|line| line.contains(" DEBUG ")).collect();
    assert!(!debug.is_empty() && debug.iter().all(|line| line.contains("deputize_process")));
    assert!(line(&log, "request failed").contains("session{id="), "{log}");
    // A second run is appended; without a filter it is information, and no debugging.
    let before = log.len();
    run(&lab, &args, None).await.with_code(0);
    let log = fs::read_to_string(lab.work("log.txt")).unwrap();
    let second = &log[before..];
    assert!(second.contains("agent started") && !second.contains(" DEBUG "), "{second}");
}

#[tokio::test]
async fn without_a_word_there_is_no_log_and_a_filter_alone_writes_to_standard_error() {
    let lab = Lab::new();
    let silent = run(&lab, &["-q"], None).await.with_code(0);
    assert!(!silent.err.contains("deputize_runtime"), "{}", silent.err);
    let loud = run(&lab, &["-q"], Some("info")).await.with_code(0);
    assert_eq!(loud.out, silent.out);
    assert!(loud.err.contains("deputize_runtime::record_log: session started"), "{}", loud.err);
}

#[tokio::test]
async fn a_log_that_others_could_read_becomes_private() {
    let lab = Lab::new();
    let path = lab.work("log.txt");
    fs::write(&path, "before\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    run(&lab, &["--log", "log.txt"], None).await.with_code(0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&path).unwrap().starts_with("before\n"));
}

#[tokio::test]
async fn a_wrong_filter_and_a_file_that_cannot_be_written_end_the_program_before_anything_runs() {
    let lab = Lab::new();
    let place = lab.work("");
    let place = place.to_str().unwrap();
    let cases: [(&[&str], Option<&str>, &[&str]); 3] = [
        (&["--log", "log.txt"], Some("info,inof"), &["`inof` in DEPUTIZE_LOG", "hint: levels are"]),
        (&["--log", "no/log.txt"], None, &["cannot write the log to `", "/no/log.txt`: "]),
        (&["--log", place], None, &["cannot write the log to `", "directory"]),
    ];
    for (args, filter, words) in cases {
        let ended = run(&lab, args, filter).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{}", ended.err);
        words.iter().for_each(|words| assert!(ended.err.contains(words), "{}", ended.err));
        assert!(!lab.path("home/sessions").exists());
    }
}
