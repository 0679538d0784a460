//! What an external agent asks for: who decides, what is refused, what is shown of it.

use std::fs;
use std::io::Write as _;

use deputize_requirements::{program, require};
use serde_json::{Value, json};

use super::{command, entry, fixture, goal, parent, run};
use crate::program::{Lab, ProgramEnd, RunningProgram, sees};

/// A person who answers questions with these words, one after the other.
async fn answered(lab: &Lab, words: &[&str]) -> ProgramEnd {
    let server = parent(goal()).await;
    let script = fixture("faulty_agent.py");
    let command = "delegation.acp_command=python3";
    let args = format!("delegation.acp_args={}", json!([script, "good"]));
    let ask = "delegation.approvals=ask";
    let all = ["--set", command, "--set", &args, "--set", ask, "--output", "events", "go"];
    let (mut person, running) = lab.on_terminal(&server, &all);
    let mut shown = String::new();
    for word in words {
        shown.push_str(&sees(&person, "Run it? [y/N] ").await);
        person.write_all(format!("{word}\n").as_bytes()).unwrap();
    }
    let ended = running.end().await.with_code(0);
    for part in ["wants to use external:", "| acp/python3", "a program that acts on its own"] {
        assert!(shown.contains(part), "no `{part}` in {shown}");
    }
    ended
}

#[tokio::test]
async fn whether_it_begins_and_what_it_asks_for_goes_to_the_childs_approver() {
    require!(program("python3"));
    let lab = Lab::new();
    let ended = answered(&lab, &["n"]).await;
    let actual = entry(&ended);
    let error = actual["error"].as_str().unwrap();
    assert!(error.contains("not started (denied by user)"), "{actual}");
    assert!(error.contains("delegation.approvals"), "{actual}");
    assert_eq!((&actual["claims"], &actual["model"]), (&Value::Null, &Value::Null), "{actual}");
    assert!(!lab.work("cwd").exists(), "it was started");

    let lab = Lab::new();
    let ended = answered(&lab, &["y", "n"]).await;
    assert!(ended.out.contains("Permission: the-reject_once."), "{}", ended.out);
    let decisions = ended.events("approval.decision");
    let decisions: Vec<_> = decisions.iter().map(|it| &it["decision"]).collect();
    assert_eq!(decisions, ["allow", "deny"]);
    assert_eq!(entry(&ended)["tool_trace"][1]["status"], "denied");
    let end = ended.events("agent.end").remove(0);
    assert_eq!((&end["depth"], &end["denied_tool_calls"]), (&json!(1), &json!(1)));

    let lab = Lab::new();
    let ended = run(&lab, &["only-always"], goal(), &[]).await.with_code(0);
    let summary = entry(&ended)["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("the-reject_once"), "what would hold for ever is refused: {summary}");
}

#[tokio::test]
async fn where_nobody_may_approve_anything_it_is_not_started() {
    require!(program("python3"));
    // As configured without more; and where a person would be asked, and none is there.
    let lab = Lab::new();
    let deny = ["--set", "delegation.approvals=deny", "--approve", "auto"];
    let ended = run(&lab, &["good"], goal(), &deny).await.with_code(0);
    for part in ["E_EXTERNAL", "nobody approves what children of this agent want"] {
        assert!(ended.out.contains(part), "no `{part}` in {}", ended.out);
    }
    assert!(!ended.out.contains("delegation.approvals"), "{}", ended.out);
    for part in [
        "no such child is started while `delegation.approvals` is `deny`",
        "delegate_task refused: children are external programs here",
    ] {
        assert!(ended.err.contains(part), "no `{part}` in {}", ended.err);
    }
    assert!(!lab.work("cwd").exists(), "it was started");

    let lab = Lab::new();
    let server = parent(goal()).await;
    let script = fixture("faulty_agent.py");
    let ask = ["--set", "delegation.approvals=ask"];
    let run = command(&lab, &server, ("python3", &[&script, "good"]), &ask);
    // In a session of its own, which has no terminal.
    let mut alone = lab.command("setsid");
    alone.arg(run.as_std().get_program()).args(run.as_std().get_args());
    let ended = RunningProgram::start(alone).end().await.with_code(0);
    let actual = entry(&ended);
    let error = actual["error"].as_str().unwrap();
    assert!(error.contains("not started (denied by no terminal to ask on"), "{actual}");
    assert!(ended.err.contains("denied by no terminal to ask on"), "{}", ended.err);
    assert!(!lab.work("cwd").exists(), "it was started");
}

#[tokio::test]
async fn a_hook_may_refuse_what_it_asks_for() {
    require!(program("python3"));
    let lab = Lab::new();
    let hook = "hooks.PreToolUse=['grep -q \"rm -r\" || exit 0; echo keep it >&2; exit 2']";
    let ended = run(&lab, &["good"], goal(), &["--set", hook]).await;
    let ended = ended.with_code(0);
    assert!(ended.out.contains("Permission: the-reject_once."), "{}", ended.out);
    assert_eq!(ended.events("approval.request").len(), 0);
    assert_eq!(ended.events("agent.end")[0]["denied_tool_calls"], 1);
    let why = "a hook blocked this call: keep it";
    let ends = ended.events("tool.end");
    assert!(ends.iter().any(|end| end["preview"] == format!("denied: {why}")), "{ends:?}");
    let warning = format!("denied without asking ({why}): Tidy up {{\"command\":\"rm -r build\"}}");
    let logged = ended.events("log");
    assert!(logged.iter().any(|log| log["message"] == warning), "{logged:?}");
}

/// Returns the answers to a program that sends these steps, one after the other.
async fn steps(lab: &Lab, steps: &[Value], more: &[&str]) -> (ProgramEnd, Vec<String>) {
    let steps = json!(steps).to_string();
    let ended = run(lab, &["steps", &steps], goal(), more).await.with_code(0);
    let summary = entry(&ended)["summary"].as_str().unwrap().to_owned();
    let answers = summary.lines().find(|line| line.starts_with('[')).expect(&summary);
    let answers = serde_json::from_str(answers).unwrap();
    (ended, answers)
}

#[tokio::test]
async fn what_never_runs_is_refused_wherever_the_request_has_it() {
    require!(program("python3"));
    let inputs = [
        json!({"command": "rm -rf /"}),
        json!({"command": "rm -rf /", "description": "Clean up"}),
        json!({"command": ["bash", "-lc", "rm -rf /"], "cwd": "/"}),
        json!({"cmd": ["rm", "-rf", "/"]}),
        json!({"command": "rm", "args": ["-rf", "/"]}),
        json!({"server": "shell", "arguments": "{\"cmd\": \"rm -rf /\"}"}),
        json!({"steps": [{"run": "cd /tmp && sudo rm -rf /"}]}),
    ];
    let inputs = inputs.map(|input| json!({"title": "Run command", "rawInput": input}));
    let titles = ["rm -rf /", "`rm -rf /`"].map(|title| json!({"title": title}));
    let harmless =
        json!({"title": "Commit", "rawInput": {"command": ["git", "commit", "-m", "rm -rf /"]}});
    let edit = json!({"title": "Edit notes.md", "kind": "edit",
                      "rawInput": {"path": "notes.md", "content": "Never do this:\nrm -rf /\n"}});
    let texts = json!([{"type": "content", "content": {"type": "text", "text": "rm -rf /"}}]);
    let actual = json!({"title": "Run command", "content": texts});
    let never = inputs.len() + titles.len() + 1;
    let asks = inputs.into_iter().chain(titles).chain([actual, harmless, edit]);
    let asks = asks.enumerate().map(|(at, mut call)| {
        call["toolCallId"] = json!(format!("c{at}"));
        json!({ "ask": call })
    });
    let asks: Vec<Value> = asks.collect();
    let lab = Lab::new();
    let (ended, answers) = steps(&lab, &asks, &[]).await;
    for (at, (ask, answer)) in asks.iter().zip(&answers).enumerate() {
        let wanted = if at < never { "the-reject_once" } else { "the-allow_once" };
        assert_eq!(answer, wanted, "{ask}");
    }
    assert_eq!(answers.len(), asks.len());
    // Why is told: where the call ends, to the person, and as a warning with what was asked.
    let why = "blocked (hardline: recursive delete of /): this never runs here";
    let ends = ended.events("tool.end");
    let denied: Vec<&Value> = ends.iter().filter(|end| end["status"] == "denied").collect();
    assert_eq!(denied.len(), never);
    for end in denied {
        assert!(end["preview"].as_str().unwrap().starts_with(&format!("denied: {why}")), "{end}");
    }
    assert!(ended.err.contains(&format!("denied: {why}")), "{}", ended.err);
    let logged = ended.events("log");
    let logged: Vec<&Value> = logged.iter().filter(|log| log["level"] == "warn").collect();
    let logged: Vec<&str> = logged.iter().map(|log| log["message"].as_str().unwrap()).collect();
    let refusals: Vec<&&str> = logged
        .iter()
        .filter(|log| log.starts_with(&format!("denied without asking ({why}")))
        .collect();
    assert_eq!(refusals.len(), never, "{logged:#?}");
    assert!(refusals[0].ends_with("): Run command {\"command\":\"rm -rf /\"}"), "{}", refusals[0]);
}

#[tokio::test]
async fn what_is_asked_is_what_the_request_says_over_earlier_updates_of_the_call() {
    require!(program("python3"));
    let call = |id: &str, mut more: Value| {
        more["toolCallId"] = json!(id);
        more
    };
    let update = |kind: &str, id: &str, mut more: Value| {
        more["sessionUpdate"] = json!(kind);
        json!({ "update": call(id, more) })
    };
    let ask = |id: &str, more: Value| json!({ "ask": call(id, more) });
    let make = |what: &str| json!({"command": format!("make {what}")});
    let diff =
        json!({"type": "diff", "path": "/w/keys", "oldText": "a\n", "newText": "a\nb\u{1b}\n"});
    let work = [
        // Announced as one thing, asked for as another.
        update(
            "tool_call",
            "c1",
            json!({"title": "List", "kind": "execute", "rawInput": make("list")}),
        ),
        ask("c1", json!({"title": "List", "rawInput": make("other")})),
        // Announced without an input, which comes later; the request has only the id.
        update("tool_call", "c2", json!({"title": "Terminal", "kind": "execute", "rawInput": {}})),
        update("tool_call_update", "c2", json!({"title": "Build", "rawInput": make("all")})),
        ask("c2", json!({})),
        // Never announced, and without a title.
        ask("c3", json!({"kind": "execute", "rawInput": make("it")})),
        ask(
            "c4",
            json!({"title": "Edit file", "kind": "edit", "content": [diff],
                         "locations": [{"path": "/w/keys"}, {"path": "/w/more"}]}),
        ),
    ];
    let lab = Lab::new();
    let hook = ["--set", "hooks.PreToolUse=['cat >> seen']"];
    let (ended, answers) = steps(&lab, &work, &hook).await;
    assert_eq!(answers, ["the-allow_once"; 4]);
    let asked = ended.events("approval.request");
    let asked: Vec<&str> = asked.iter().map(|it| it["command"].as_str().unwrap()).collect();
    assert_eq!(
        asked,
        [
            "List {\"command\":\"make other\"}",
            "Build {\"command\":\"make all\"}",
            "execute {\"command\":\"make it\"}",
            "Edit file\nin /w/more\nchange of /w/keys:\n+ b\u{1b}",
        ]
    );
    let seen = fs::read_to_string(lab.work("seen")).unwrap();
    let seen = seen.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let seen: Vec<Value> =
        seen.filter(|it| it["depth"] == 1).map(|it| it["args"].clone()).collect();
    let inputs: Vec<&Value> = seen.iter().map(|args| &args["input"]).collect();
    assert_eq!(inputs, [&make("other"), &make("all"), &make("it"), &Value::Null]);
    assert_eq!((&seen[1]["title"], &seen[2]["title"]), (&json!("Build"), &Value::Null));
    assert_eq!(seen[3]["paths"], json!(["/w/keys", "/w/more"]));
    let change = json!({"path": "/w/keys", "old": "a\n", "new": "a\nb\u{1b}\n"});
    assert_eq!(seen[3]["changes"], json!([change]));
}
