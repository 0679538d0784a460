//! Messages to targets of the person, through the program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// A server that takes messages at some paths.
fn hooks(request: &HttpRequest) -> MockAnswer {
    let answer = MockAnswer::body("text/plain", "words of the server");
    match request.path.as_str() {
        "/hook" => answer,
        "/refuses" => answer.status(403),
        "/moved" => answer.status(302).header("location", "/hook"),
        "/breaks" => answer.status(502),
        _ => answer.status(404),
    }
}

fn send(target: &str, text: &str) -> (&'static str, Value) {
    ("send_message", json!({"target": target, "text": text}))
}

fn configure(lab: &Lab, targets: &Value) {
    fs::create_dir_all(lab.path("home")).unwrap();
    let config = json!({"messaging": {"targets": targets, "timeout_seconds": 20}});
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
}

/// Runs these calls, and returns the end and the results that the model read.
async fn sent(lab: &Lab, calls: Vec<(&'static str, Value)>) -> (ProgramEnd, Vec<String>) {
    let server = model(calls_in_order(calls)).await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Tell them."]);
    command.env("TEAM_HOOK_TOKEN", "token-of-the-team");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    (ended, last.results().into_iter().map(str::to_owned).collect())
}

fn address(server: &MockServer, path: &str) -> String {
    format!("{}{path}", server.base_url().trim_end_matches("/v1"))
}

#[tokio::test]
async fn a_webhook_gets_the_message_once_and_its_answer_is_told_by_status_alone() {
    let site = MockServer::start_with(hooks).await.unwrap();
    let lab = Lab::new();
    let closed = {
        let gone = MockServer::start_with(hooks).await.unwrap();
        address(&gone, "/hook")
    };
    let token = json!({"Authorization": "Bearer ${TEAM_HOOK_TOKEN}"});
    configure(
        &lab,
        &json!({
            "team": {"url": address(&site, "/hook"), "headers": token, "text_key": "content"},
            "refuses": {"url": address(&site, "/refuses")},
            "moved": {"url": address(&site, "/moved")},
            "breaks": {"url": address(&site, "/breaks")},
            "closed": {"url": closed},
            "metadata": {"url": "http://169.254.169.254/hook"},
            "unset": {"url_env": "NO_SUCH_HOOK"},
        }),
    );
    let names = ["team", "refuses", "moved", "breaks", "closed", "metadata", "unset"];
    let mut calls: Vec<_> = names.iter().map(|name| send(name, "Green: \"all\"\nof it.")).collect();
    calls.push(send("team", "it is token-of-the-team"));
    let (ended, read) = sent(&lab, calls).await;
    lab.holds_no("token-of-the-team", &ended);
    for (result, words) in read.iter().zip([
        "delivered to team: the server answered 200",
        "nothing was sent to `refuses`: the server refused it with status 403",
        "it is not known whether the message reached `moved`: the server answered 302. Do not",
        "it is not known whether the message reached `breaks`: the server answered 502. Do not",
        "nothing was sent to `closed`: its server does not take connections",
        "nothing was sent to `metadata`: its address may not be asked",
        "nothing was sent to `unset`: it is not set up",
        "[redacted:TEAM_HOOK_TOKEN] in the arguments stands in place of a secret",
    ]) {
        assert!(result.contains(words), "{words}: {result}");
        assert!(!result.contains("127.0.0.1") && !result.contains("words of"), "{result}");
    }
    let asked = site.requests();
    let paths: Vec<&str> = asked.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["/hook", "/refuses", "/moved", "/breaks"]);
    assert_eq!(asked[0].json(), json!({"content": "Green: \"all\"\nof it."}));
    assert_eq!(asked[1].json(), json!({"text": "Green: \"all\"\nof it."}));
    assert_eq!(asked[0].header("authorization"), Some("Bearer token-of-the-team"));
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
}

/// The model reads names, and nobody is sent anything without a yes.
#[tokio::test]
async fn the_tool_is_offered_with_the_names_of_targets_alone() {
    let lab = Lab::new();
    let log = lab.path("messages.log");
    configure(&lab, &json!({"log": {"file": log}, "mail": {"command": ["mail", "-s", "Agent"]}}));
    let server = model(calls_in_order(vec![send("log", "x")])).await;
    let ended = lab.run(&server, &["--approve", "deny", "Go"]).end().await.with_code(0);
    assert!(ended.err.contains("send_message"), "{}", ended.err);
    assert!(!log.exists());
    let requests = server.requests();
    let first = requests.first().unwrap();
    let tools = first.json()["tools"].clone();
    let tool = tools.as_array().unwrap().iter().find(|it| it["function"]["name"] == "send_message");
    let target = &tool.unwrap()["function"]["parameters"]["properties"]["target"];
    assert_eq!(target["enum"], json!(["log", "mail"]));
    assert!(!first.text().contains("messages.log"));
    // And `prompt` prints just that.
    let url = server.base_url();
    let print = ["prompt", "-m", "openai/mock", "--base-url", &url, "--json", "Go"];
    let printed = RunningProgram::start(lab.deputize(&print)).end().await.with_code(0);
    assert_eq!(printed.out, format!("{}\n", first.text()));
    let without = Lab::new();
    without.run(&server, &["Go"]).end().await.with_code(0);
    let offered = server.requests().last().unwrap().json()["tools"].to_string();
    assert!(!offered.contains("send_message"), "nor does another tool name it: {offered}");
    let listed = RunningProgram::start(without.deputize(&["tools", "show", "send_message"]));
    let listed = listed.end().await;
    assert!(listed.out.contains("set `messaging.targets`"), "{}", listed.out);
}

#[tokio::test]
async fn files_commands_and_notifications_get_their_messages() {
    let lab = Lab::new();
    let shown = lab.path("shown");
    fs::create_dir_all(lab.path("bin")).unwrap();
    let program = lab.path("bin/notify-send");
    fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", shown.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mail = lab.path("mail");
    configure(
        &lab,
        &json!({
            "log": {"file": "~/messages.log"},
            "mail": {"command": ["sh", "-c", format!("cat > {}", mail.display())]},
            "desk": {"notification": true},
        }),
    );
    let calls =
        vec![send("log", "One."), send("log", "Two."), send("mail", "Three."), send("desk", "-4")];
    let server = model(calls_in_order(calls)).await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Tell them."]);
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    command.env("PATH", format!("{}:{path}", lab.path("bin").display()));
    RunningProgram::start(command).end().await.with_code(0);
    let log = fs::read_to_string(lab.path("messages.log")).unwrap();
    let lines: Vec<&str> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(lines, ["One.", "Two."]);
    assert!(log.starts_with("20"), "{log}");
    assert_eq!(fs::read_to_string(mail).unwrap(), "Three.\n");
    assert_eq!(fs::read_to_string(shown).unwrap(), "--\nAgent\n-4\n");
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[3].contains("shown to desk"), "{}", last.results()[3]);
    assert_eq!(lab.processes(), Vec::new());
}

#[tokio::test]
async fn doctor_says_what_is_reachable_and_sends_nothing() {
    let site = MockServer::start_with(hooks).await.unwrap();
    let lab = Lab::new();
    configure(
        &lab,
        &json!({
            "team": {"url": address(&site, "/hook")},
            "metadata": {"url": "http://169.254.169.254/hook"},
            "log": {"file": "~/messages.log"},
            "deep": {"file": "~/missing/messages.log"},
            "mail": {"command": ["no-such-mailer"]},
            "unset": {"url_env": "NO_SUCH_HOOK"},
        }),
    );
    let ended = RunningProgram::start(lab.deputize(&["doctor", "--json"])).end().await;
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = found.as_array().unwrap().iter().filter(|row| row["what"] == "message target");
    let rows: Vec<String> = rows
        .map(|row| {
            format!("{} {}", row["health"].as_str().unwrap(), row["found"].as_str().unwrap())
        })
        .collect();
    for (row, words) in rows.iter().zip([
        "fail deep: ",
        "ok log: ",
        "fail mail: program `no-such-mailer` not found",
        "fail metadata: 169.254.169.254 is the metadata service",
        "ok team: its server takes connections",
        "fail unset: the variable `NO_SUCH_HOOK` is not set",
    ]) {
        assert!(row.starts_with(words), "{words}: {rows:#?}");
    }
    assert_eq!(rows.len(), 6);
    assert_eq!(site.requests().len(), 0);
    assert!(!lab.path("messages.log").exists());
}

#[tokio::test]
async fn the_settings_of_the_page_are_right_and_mistakes_in_them_are_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/messages.md");
    let page = fs::read_to_string(page).unwrap();
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    let check = async |text: &str| {
        fs::write(lab.path("home/config.yaml"), text).unwrap();
        let ended = RunningProgram::start(lab.deputize(&["config", "check"])).end().await;
        (ended.code, ended.err + &ended.out)
    };
    let settings = blocks(&page, "yaml config");
    assert_eq!(settings.len(), 1);
    for (_, text) in settings {
        let (code, said) = check(text).await;
        assert_eq!(code, Some(0), "{said}");
    }
    for (target, fault) in [
        ("a: {}", "needs one of `url`, `url_env`, `file`, `command`, `notification`"),
        ("a: {url: 'http://a/', file: /b}", "has url, file; keep one of"),
        ("a: {url: 'ftp://a/'}", "`messaging.targets.a.url` must begin with http"),
        ("a: {url: 'http://me:x@a/'}", "`messaging.targets.a.url` holds a user name"),
        ("a: {url_env: 'http://a/'}", "cannot be a variable"),
        ("a: {file: b}", "must be an absolute path or begin with `~/`"),
        ("a: {file: /b, text_key: c}", "does nothing without an address"),
        ("'a b': {file: /b}", "the name of a target is made of letters"),
        ("a: {files: /b}", "did you mean `file`?"),
    ] {
        let (code, said) = check(&format!("messaging: {{targets: {{{target}}}}}")).await;
        assert!(code != Some(0) && said.contains(fault), "{target}: {said}");
    }
    let mut command = lab.deputize(&["config", "check"]);
    fs::write(lab.path("home/config.yaml"), "").unwrap();
    command.env("DEPUTIZE__MESSAGING__TARGETS", "{a: {command: [touch, /x]}}");
    let ended = RunningProgram::start(command).end().await;
    let said = ended.err + &ended.out;
    assert!(said.contains("`messaging.targets` is not read from the environment"), "{said}");
}
