//! Children that are external agents over ACP: a real peer of the official Python package, and
//! one that does everything wrong.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;
use std::time::Duration;

use deputize_core::Reply;
use deputize_testkit::{Answer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{Asked, Ended, Lab, Running, model, sees};

const SECRET: &str = "acp-0123456789abcdef";
/// The official Python package, which the real agent is made with.
const SDK: &str = "agent-client-protocol==0.12.1";

pub(crate) fn fixture(name: &str) -> String {
    format!("{}/fixtures/acp/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A parent that hands on once and repeats what it got.
async fn parent(arguments: Value) -> MockServer {
    model(move |asked: &Asked| {
        Answer::reply(&if asked.replies() == 0 {
            Reply::calls("mock", [("delegate_task", arguments.clone())])
        } else {
            Reply::text("mock", asked.results().join("\n"))
        })
    })
    .await
}

/// A run whose children are this program with these arguments.
fn command(
    lab: &Lab,
    server: &MockServer,
    program: (&str, &[&str]),
    more: &[&str],
) -> tokio::process::Command {
    let command = format!("delegation.acp_command={}", program.0);
    let args = format!("delegation.acp_args={}", json!(program.1));
    let env = "delegation.acp_env=[ACP_API_KEY, LD_PRELOAD]";
    let mut all = vec!["--set", &command, "--set", &args, "--set", env, "--output", "events"];
    all.extend(more);
    all.push("go");
    let mut run = lab.run_command(server, &all);
    run.env("ACP_API_KEY", SECRET).env("UNRELATED_API_KEY", "0123456789");
    run
}

/// A run whose children begin unasked, unless `more` says something else.
async fn run(lab: &Lab, how: &[&str], arguments: Value, more: &[&str]) -> Ended {
    let server = parent(arguments).await;
    let script = fixture("faulty_agent.py");
    let args: Vec<&str> = [&[script.as_str()], how].concat();
    let more = [&AUTO, more].concat();
    Running::start(command(lab, &server, ("python3", &args), &more)).end().await
}

fn goal() -> Value {
    json!({"goal": "Tidy up.", "context": "Mind the build."})
}

/// The entry of the child, as the parent's model got it.
fn entry(ended: &Ended) -> Value {
    let responses = ended.events("model.response");
    let text = responses.last().unwrap()["text"].as_str().unwrap();
    let json = text.lines().find(|line| line.starts_with("{\"results\"")).expect(text);
    serde_json::from_str::<Value>(json).unwrap()["results"][0].clone()
}

const AUTO: [&str; 2] = ["--set", "delegation.approvals=auto"];

#[tokio::test]
async fn an_external_agent_works_as_a_child_and_what_it_tells_is_marked_as_its_claim() {
    let lab = Lab::new();
    let ended = run(&lab, &["good"], goal(), &[]).await.with_code(0);
    let entry = entry(&ended);
    assert_eq!((&entry["status"], &entry["model"]), (&json!("completed"), &json!("acp/python3")));
    assert!(entry["summary"].as_str().unwrap().contains("Permission: the-allow_once. "), "{entry}");
    assert!(entry["claims"].as_str().unwrap().contains("the host saw none of it"), "{entry}");
    assert_eq!(entry["receipts"], json!({"files_written": [], "commands": [], "unfinished": []}));
    assert_eq!(entry["unseen_writes"], json!(["src/ghost.rs"]), "{entry}");
    let trace = entry["tool_trace"].as_array().unwrap();
    let trace: Vec<_> = trace.iter().map(|line| (&line["tool"], &line["status"])).collect();
    assert_eq!(
        trace,
        [(&json!("read"), &json!("ok")), (&json!("other"), &json!("cancelled"))],
        "the second was never told to have ended"
    );

    let child = format!("{}/1.0.0", lab.session());
    let of_child = |kind: &str| -> Vec<Value> {
        ended.events(kind).into_iter().filter(|event| event["agent"] == child).collect()
    };
    let asked = &of_child("approval.request")[0];
    assert_eq!(asked["command"], "Tidy up {\"command\":\"rm -r build\"}");
    assert_eq!(of_child("approval.decision")[0]["by"], "auto");
    assert_eq!(of_child("tool.start").len(), 2);
    assert_eq!(of_child("tool.end")[0]["preview"], "a.txt");
    assert_eq!(of_child("agent.start")[0]["tools"], json!([]));
    assert_eq!(of_child("agent.end")[0]["status"], "completed");
    // The model of its parent costs nothing; what the program cost nobody knows.
    for sum in ["agent.end", "session.end"] {
        let costs = ended.events(sum).into_iter().map(|end| end["cost_usd"].clone());
        assert!(costs.clone().all(|usd| usd.is_null()), "{sum}: {:?}", costs.collect::<Vec<_>>());
    }
    let listed = Running::start(lab.deputize(&["sessions", "list", "--json"])).end().await;
    let listed: Value = serde_json::from_str(&listed.with_code(0).out).unwrap();
    assert_eq!(listed[0]["cost_usd"], Value::Null, "{listed}");
    let shown = Running::start(lab.deputize(&["agents", "--once", "--json"])).end().await;
    let shown: Value = serde_json::from_str(&shown.with_code(0).out).unwrap();
    assert_eq!(shown.to_string().matches("\"cost_usd\":null").count(), 3, "{shown}");

    // It is told its task, works where the parent works, and sees what it is meant to see.
    let prompt = fs::read_to_string(lab.work("prompt")).unwrap();
    for part in ["YOUR TASK:", "Tidy up.", "Mind the build."] {
        assert!(prompt.contains(part), "{prompt}");
    }
    let cwd = fs::read_to_string(lab.work("cwd")).unwrap();
    assert_eq!(Path::new(&cwd), lab.work("").canonicalize().unwrap());
    let environment = fs::read_to_string(lab.work("environment")).unwrap();
    let names: Vec<&str> = environment.lines().collect();
    assert!(names.contains(&"ACP_API_KEY") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.contains(&"UNRELATED_API_KEY") && !names.contains(&"LD_PRELOAD"), "{names:?}");
    assert_eq!(lab.processes(), []);
}

/// A person who answers questions with these words, one after the other.
async fn answered(lab: &Lab, words: &[&str]) -> Ended {
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
    let lab = Lab::new();
    let ended = answered(&lab, &["n"]).await;
    let told = entry(&ended);
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("not started (denied by user)"), "{told}");
    assert!(error.contains("delegation.approvals"), "{told}");
    assert_eq!((&told["claims"], &told["model"]), (&Value::Null, &Value::Null), "{told}");
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
    // As configured without more; and where a person would be asked, and none is there.
    let lab = Lab::new();
    let deny = ["--set", "delegation.approvals=deny", "--approve", "auto"];
    let ended = run(&lab, &["good"], goal(), &deny).await.with_code(0);
    for part in ["E_EXTERNAL", "nobody approves what children of this agent want"] {
        assert!(ended.out.contains(part), "no `{part}` in {}", ended.out);
    }
    assert!(!ended.out.contains("delegation.approvals"), "{}", ended.out);
    for part in ["no such child is started while `delegation.approvals` is `deny`", "are denied"] {
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
    let ended = Running::start(alone).end().await.with_code(0);
    let told = entry(&ended);
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("not started (denied by no terminal to ask on"), "{told}");
    assert!(ended.err.contains("are denied: nobody can be asked here"), "{}", ended.err);
    assert!(!lab.work("cwd").exists(), "it was started");
}

#[tokio::test]
async fn a_hook_may_refuse_what_it_asks_for() {
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

/// What a program is answered that tells and asks this, one after the other.
async fn steps(lab: &Lab, steps: &[Value], more: &[&str]) -> (Ended, Vec<String>) {
    let steps = json!(steps).to_string();
    let ended = run(lab, &["steps", &steps], goal(), more).await.with_code(0);
    let summary = entry(&ended)["summary"].as_str().unwrap().to_owned();
    let answers = summary.lines().find(|line| line.starts_with('[')).expect(&summary);
    let answers = serde_json::from_str(answers).unwrap();
    (ended, answers)
}

#[tokio::test]
async fn what_never_runs_is_refused_wherever_the_request_has_it() {
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
    let told = json!({"title": "Run command", "content": texts});
    let never = inputs.len() + titles.len() + 1;
    let asks = inputs.into_iter().chain(titles).chain([told, harmless, edit]);
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
    let why = "recursive removal of /, a system directory or the home directory never runs here (hardline)";
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
async fn what_is_asked_is_what_the_request_says_over_what_was_told_of_the_call() {
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

#[tokio::test]
async fn every_fault_is_told_with_its_reason() {
    let faults = [
        (
            "dies",
            "failed",
            "ended (exit code 3) before it answered; its last words on standard \
         error: no licence | for this machine",
        ),
        (
            "garbage",
            "failed",
            "sent 101 lines that are no JSON-RPC messages; the first is: \
         Segmentation violation at 0x0",
        ),
        ("endless-line", "failed", "sent a line of more than 8388608 bytes"),
        ("future", "failed", "only supports ACP protocol version 1"),
        ("login", "failed", "wants a login"),
        ("silent", "failed", "gave an empty answer"),
        ("declines", "failed", "declined the task"),
        ("dies-midway", "failed", "ended (ended by signal 9) before it answered"),
        ("floods", "failed", "sent more than 67108864 bytes"),
    ];
    let runs = faults.map(|(how, status, error)| async move {
        let lab = Lab::new();
        let ended = run(&lab, &[how], goal(), &[]).await.with_code(0);
        let entry = entry(&ended);
        assert_eq!(entry["status"], status, "{how}: {entry}");
        let told = entry["error"].as_str().unwrap_or_default();
        assert!(told.contains(error), "{how}: {told}");
        if how == "dies-midway" {
            assert!(entry["summary"].as_str().unwrap().contains("Half of it."), "{entry}");
            assert_eq!(entry["tool_trace"][0]["status"], "cancelled");
        }
        assert_eq!(lab.processes(), [], "{how}");
    });
    for run in runs {
        run.await;
    }
}

#[tokio::test]
async fn an_interrupt_and_the_time_limit_end_it_with_all_that_it_started() {
    for how in ["hangs", "deaf"] {
        let lab = Lab::new();
        let server = parent(goal()).await;
        let (script, mark) = (fixture("faulty_agent.py"), lab.mark().to_owned());
        let mut begun = lab.pipe("begun");
        let running =
            Running::start(command(&lab, &server, ("python3", &[&script, how, &mark]), &AUTO));
        begun.lines(1).await;
        let told = std::time::Instant::now();
        running.signal(Signal::INT);
        let ended = running.end().await.with_code(130);
        assert!(ended.at.duration_since(told) < Duration::from_secs(4), "{how}");
        let end = ended.events("agent.end").remove(0);
        assert_eq!((&end["status"], &end["depth"]), (&json!("interrupted"), &json!(1)), "{how}");
        assert!(end["summary_bytes"].as_u64().unwrap() >= 10, "{how}: {end}");
        assert_eq!(lab.processes(), [], "{how}");
    }
}

#[tokio::test]
async fn when_its_time_is_up_it_is_asked_for_what_it_has() {
    let lab = Lab::new();
    // However slow the machine is: it is asked once it is there, and has long to answer.
    let more = ["--set", "delegation.budget.seconds=1", "--set", "delegation.wrap_up_seconds=600"];
    let ended = run(&lab, &["closes"], goal(), &more).await.with_code(0);
    let entry = entry(&ended);
    assert_eq!(
        (&entry["status"], &entry["exit_reason"]),
        (&json!("completed"), &json!("budget")),
        "{entry}"
    );
    let summary = entry["summary"].as_str().unwrap();
    assert!(summary.contains("This far: 3. Permission: cancelled."), "{summary}");
    assert_eq!(ended.events("agent.wrap_up")[0]["limit"], "budget");
    assert_eq!(ended.events("approval.decision").len(), 0);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn one_that_does_not_close_is_cut_off_with_what_it_had_said() {
    let lab = Lab::new();
    let more = ["--set", "delegation.budget.seconds=1", "--set", "delegation.wrap_up_seconds=1"];
    let ended = run(&lab, &["mute"], goal(), &more).await.with_code(0);
    let entry = entry(&ended);
    assert_eq!(entry["exit_reason"], "budget", "{entry}");
    assert_eq!(ended.events("agent.wrap_up").len(), 1);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn hooks_see_the_calls_that_it_tells_of() {
    let lab = Lab::new();
    let hook = "hooks.PostToolUse=['cat >> seen; echo no >&2; exit 2']";
    let more = ["--set", hook];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    let seen = fs::read_to_string(lab.work("seen")).unwrap();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = seen.iter().map(|it| (&it["tool"], &it["status"], &it["depth"])).collect();
    let (read, other, top) = (json!("read"), json!("other"), json!("delegate_task"));
    let (ok, cancelled) = (json!("ok"), json!("cancelled"));
    assert_eq!(
        told,
        [(&read, &ok, &json!(1)), (&other, &cancelled, &json!(1)), (&top, &ok, &json!(0))]
    );
    assert_eq!(
        (&seen[0]["output"], &seen[0]["args"]["input"]),
        (&json!("a.txt"), &json!({"path": "."}))
    );
    // It has run, and nobody can tell the program: that is on record.
    let hooks = ended.events("hook");
    assert!(hooks.iter().all(|hook| hook["decision"] == "block"), "{hooks:?}");
    assert_eq!(entry(&ended)["status"], "completed");
}

#[tokio::test]
async fn an_answer_that_misses_its_schema_is_asked_for_again() {
    let lab = Lab::new();
    let schema = json!({"type": "object", "properties": {"tests": {"type": "integer"}},
                        "required": ["tests"]});
    let arguments = json!({"goal": "Count the tests.", "output_schema": schema});
    let ended = run(&lab, &["schema"], arguments, &[]).await.with_code(0);
    let entry = entry(&ended);
    assert_eq!((&entry["status"], &entry["output"]), (&json!("completed"), &json!({"tests": 7})));
    assert_eq!(ended.events("answer.rejected").len(), 1);
}

#[tokio::test]
async fn what_one_says_after_a_rejected_answer_is_not_lost_by_a_kill() {
    let lab = Lab::new();
    let schema = json!({"type": "object", "required": ["tests"]});
    let server = parent(json!({"goal": "Count the tests.", "output_schema": schema})).await;
    let script = fixture("faulty_agent.py");
    let program = ("python3", &[script.as_str(), "schema-hangs"][..]);
    let running = Running::start(command(&lab, &server, program, &AUTO));
    let again = |event: &Value| event["preview"].as_str().is_some_and(|it| it.contains("1, 2"));
    running.event("external.text", again).await;
    crate::kill::kill(&lab, running).await;

    let session = lab.session();
    let more = [&AUTO[..], &["--resume", &session]].concat();
    let ended = Running::start(command(&lab, &server, program, &more)).end().await.with_code(0);
    assert_eq!(ended.events("external.text").len(), 0, "it is not started again");
    let entry = entry(&ended);
    assert_eq!(entry["status"], "interrupted", "{entry}");
    assert!(entry.to_string().contains("No, I count again: 1, 2"), "{entry}");
    assert!(!entry.to_string().contains("It is seven."), "{entry}");
}

#[tokio::test]
async fn where_it_may_not_be_nothing_is_started() {
    // The program does not exist: an error before anything begins.
    let lab = Lab::new();
    let server = parent(goal()).await;
    let none = command(&lab, &server, ("no-such-agent", &[]), &[]);
    let ended = Running::start(none).end().await.with_code(2);
    assert!(ended.err.contains("`delegation.acp_command` cannot be run"), "{}", ended.err);
    assert!(ended.err.contains("program `no-such-agent` not found in PATH"), "{}", ended.err);
    assert_eq!(server.requests().len(), 0);

    // An endpoint makes children direct.
    let both = ["--set", "delegation.base_url=http://127.0.0.1:1/v1"];
    let both = command(&lab, &server, ("python3", &[]), &both);
    let ended = Running::start(both).end().await.with_code(2);
    assert!(ended.err.contains("keep one"), "{}", ended.err);

    // A parent that may not run commands has no child that may.
    let lab = Lab::new();
    let more = ["-t", "file,delegation"];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    let told = &ended.out;
    assert!(told.contains("may not have `terminal` (this agent does not have it)"), "{told}");
    assert!(!lab.work("cwd").exists());
}

#[tokio::test]
async fn it_has_no_more_than_the_operator_and_the_call_leave_a_child() {
    let ceiling = ["--set", "delegation.toolset_ceiling=[file]"];
    let default = ["--set", "delegation.default_toolsets=[file]"];
    let named = json!({"goal": "Tidy up.", "toolsets": ["file"]});
    let cases = [
        (goal(), &ceiling[..], "(not in delegation.toolset_ceiling)"),
        (goal(), &default, "(not in delegation.default_toolsets)"),
        (named, &[], "(not asked for): name the toolset `terminal` too"),
    ];
    for (arguments, more, why) in cases {
        let lab = Lab::new();
        let ended = run(&lab, &["good"], arguments, more).await.with_code(0);
        for part in ["E_EXTERNAL", "may not have `terminal` ", why] {
            assert!(ended.out.contains(part), "no `{part}` in {}", ended.out);
        }
        assert!(!lab.work("cwd").exists(), "it was started: {why}");
    }
}

#[tokio::test]
async fn one_that_a_resume_leaves_less_than_a_command_needs_is_not_started() {
    let lab = Lab::new();
    let tasks = json!({"tasks": [{"goal": "One"}, {"goal": "Two"}], "background": true});
    let server = parent(tasks).await;
    let (script, mark) = (fixture("faulty_agent.py"), lab.mark().to_owned());
    let queue = "delegation={background: true, max_concurrent_children: 1, over_limit: queue, approvals: auto}";
    let mut begun = lab.pipe("begun");
    let hangs = ("python3", &[&*script, "hangs", &mark][..]);
    let running = Running::start(command(&lab, &server, hangs, &["--set", queue]));
    begun.lines(1).await;
    running.event("agent.rest", |_| true).await;
    crate::kill::kill(&lab, running).await;
    fs::remove_file(lab.work("cwd")).unwrap();

    let session = lab.session();
    let ceiling = "delegation.toolset_ceiling=[file]";
    let more = ["--set", queue, "--set", ceiling, "--resume", &session];
    let good = ("python3", &[&*script, "good"][..]);
    let ended = Running::start(command(&lab, &server, good, &more)).end().await.with_code(0);
    assert!(!lab.work("cwd").exists(), "it was started: {}", ended.out);
    let ends = ended.events("agent.end");
    assert_eq!(ends.iter().filter(|end| end["depth"] == 1).count(), 2, "{ends:?}");
    let told = fs::read_to_string(lab.session_file()).unwrap();
    assert!(told.contains("this child may not have `terminal`"), "{told}");
}

#[tokio::test]
async fn a_recording_of_it_plays_without_it() {
    let lab = Lab::new();
    let more = ["--record", "tape"];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    fs::remove_file(lab.work("cwd")).unwrap();
    let replay = lab.deputize(&["run", "--replay", "tape", "--output", "events"]);
    let replayed = Running::start(replay).end().await.with_code(0);
    assert_eq!(replayed.events("tool.end"), ended.events("tool.end"));
    assert!(!lab.work("cwd").exists(), "the replay started it");
}

/// A directory with the official package, installed once by whoever comes first.
pub(crate) fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = target.join(SDK.replace("==", "-"));
    let lock = fs::File::create(target.join("acp.lock")).unwrap();
    lock.lock().unwrap();
    if !place.join("acp").is_dir() {
        let fresh = tempfile::tempdir_in(target).unwrap();
        let install = ["-m", "pip", "install", "-q", "--no-input", "--target"];
        let pip = Blocking::new("python3").args(install).arg(fresh.path()).arg(SDK).output();
        let pip = pip.unwrap();
        assert!(pip.status.success(), "{}", String::from_utf8_lossy(&pip.stderr));
        fs::rename(fresh.keep(), &place).unwrap();
    }
    place
}

#[tokio::test]
async fn an_agent_of_the_official_package_works_as_a_child() {
    let lab = Lab::new();
    let place = tokio::task::spawn_blocking(installed).await.unwrap();
    let arguments = json!({"tasks": [{"goal": "first"}, {"goal": "second"}]});
    let server = parent(arguments).await;
    let (script, place) = (fixture("peer_agent.py"), place.to_str().unwrap().to_owned());
    let real = command(&lab, &server, ("python3", &[&script, &place]), &AUTO);
    let ended = Running::start(real).end().await.with_code(0);
    let responses = ended.events("model.response");
    let text = responses.last().unwrap()["text"].as_str().unwrap();
    for part in ["wrote first.txt: allowed", "wrote second.txt: allowed"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(fs::read_to_string(lab.work("second.txt")).unwrap(), "done");
    let ends = ended.events("agent.end");
    assert_eq!(ends.iter().filter(|end| end["status"] == "completed").count(), 3);
    let tools: Vec<_> = ended.events("tool.end");
    assert_eq!(tools.iter().filter(|end| end["tool"] == "edit").count(), 2, "{tools:#?}");
    lab.holds_no(SECRET, &ended);
    assert_eq!(lab.processes(), []);
}
