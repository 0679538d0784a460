//! Children that are external agents over ACP: a real peer of the official Python package, and
//! one that does everything wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::mcp::{blocking, install};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

mod approval;

const SECRET: &str = "acp-0123456789abcdef";
/// The official Python package, which the real agent is made with.
const SDK: &str = "agent-client-protocol==0.12.1";

pub(crate) fn fixture(name: &str) -> String {
    format!("{}/fixtures/acp/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A parent that hands on once and repeats what it got.
async fn parent(arguments: Value) -> MockServer {
    model(move |asked: &ChatRequest| {
        MockAnswer::reply(&if asked.replies() == 0 {
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
async fn run(lab: &Lab, how: &[&str], arguments: Value, more: &[&str]) -> ProgramEnd {
    let server = parent(arguments).await;
    let script = fixture("faulty_agent.py");
    let args: Vec<&str> = [&[script.as_str()], how].concat();
    let more = [&AUTO, more].concat();
    RunningProgram::start(command(lab, &server, ("python3", &args), &more)).end().await
}

fn goal() -> Value {
    json!({"goal": "Tidy up.", "context": "Mind the build."})
}

/// The entry of the child, as the parent's model got it.
fn entry(ended: &ProgramEnd) -> Value {
    let responses = ended.events("model.response");
    let text = responses.last().unwrap()["text"].as_str().unwrap();
    let json = text.lines().find(|line| line.starts_with("{\"results\"")).expect(text);
    serde_json::from_str::<Value>(json).unwrap()["results"][0].clone()
}

const AUTO: [&str; 2] = ["--set", "delegation.approvals=auto"];

#[tokio::test]
async fn an_external_agent_works_as_a_child_and_what_it_tells_is_marked_as_its_claim() {
    require!(program("python3"));
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
    let listed = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"])).end().await;
    let listed: Value = serde_json::from_str(&listed.with_code(0).out).unwrap();
    assert_eq!(listed[0]["cost_usd"], Value::Null, "{listed}");
    let shown = RunningProgram::start(lab.deputize(&["agents", "--once", "--json"])).end().await;
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

#[tokio::test]
async fn every_fault_is_reported_with_its_reason() {
    require!(program("python3"));
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
            "sent 101 lines that are not JSON-RPC messages; the first is: \
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
        let actual = entry["error"].as_str().unwrap_or_default();
        assert!(actual.contains(error), "{how}: {actual}");
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
    require!(program("python3"));
    for how in ["hangs", "deaf"] {
        let lab = Lab::new();
        let server = parent(goal()).await;
        let script = fixture("faulty_agent.py");
        let mark = lab.mark().to_owned();
        let mut begun = lab.pipe("begun");
        let running = RunningProgram::start(command(
            &lab,
            &server,
            ("python3", &[&script, how, &mark]),
            &AUTO,
        ));
        begun.lines(1).await;
        // Neither ends by itself.
        running.signal(Signal::INT);
        let ended = running.end().await.with_code(130);
        let end = ended.events("agent.end").remove(0);
        assert_eq!((&end["status"], &end["depth"]), (&json!("interrupted"), &json!(1)), "{how}");
        assert!(end["summary_bytes"].as_u64().unwrap() >= 10, "{how}: {end}");
        assert_eq!(lab.processes(), [], "{how}");
    }
}

#[tokio::test]
async fn when_its_time_is_up_it_is_asked_for_what_it_has() {
    require!(program("python3"));
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
    require!(program("python3"));
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
    require!(program("python3"));
    let lab = Lab::new();
    let hook = "hooks.PostToolUse=['cat >> seen; echo no >&2; exit 2']";
    let more = ["--set", hook];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    let seen = fs::read_to_string(lab.work("seen")).unwrap();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actual: Vec<_> = seen.iter().map(|it| (&it["tool"], &it["status"], &it["depth"])).collect();
    let read = json!("read");
    let other = json!("other");
    let top = json!("delegate_task");
    let ok = json!("ok");
    let cancelled = json!("cancelled");
    assert_eq!(
        actual,
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
    require!(program("python3"));
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
    require!(program("python3"));
    let lab = Lab::new();
    let schema = json!({"type": "object", "required": ["tests"]});
    let server = parent(json!({"goal": "Count the tests.", "output_schema": schema})).await;
    let script = fixture("faulty_agent.py");
    let program = ("python3", &[script.as_str(), "schema-hangs"][..]);
    let running = RunningProgram::start(command(&lab, &server, program, &AUTO));
    let again = |event: &Value| event["preview"].as_str().is_some_and(|it| it.contains("1, 2"));
    let agent = running.event("external.text", again).await["agent"].clone();
    let agent = agent.as_str().unwrap();
    crate::kill::kill(&lab, running).await;

    let session = lab.session();
    let show = |format: &[&str]| {
        let command = lab.deputize(&[&["sessions", format[0], &session], &format[1..]].concat());
        async move { RunningProgram::start(command).end().await.with_code(0).out }
    };
    let shows = [&["show", "--agent", agent][..], &["export", "--format", "markdown"]];
    for format in shows {
        let shown = show(format).await;
        let first = shown.find("It is seven.").unwrap_or(usize::MAX);
        let second = shown.find("No, I count again: 1, 2").unwrap_or_default();
        assert!(first < second, "before the resume: {shown}");
    }
    let more = [&AUTO[..], &["--resume", &session]].concat();
    let ended =
        RunningProgram::start(command(&lab, &server, program, &more)).end().await.with_code(0);
    assert_eq!(ended.events("external.text").len(), 0, "it is not started again");
    for format in shows {
        let shown = show(format).await;
        assert!(shown.contains("No, I count again: 1, 2"), "after the resume: {shown}");
    }
    let entry = entry(&ended);
    assert_eq!(entry["status"], "interrupted", "{entry}");
    assert!(entry.to_string().contains("No, I count again: 1, 2"), "{entry}");
    assert!(!entry.to_string().contains("It is seven."), "{entry}");
}

#[tokio::test]
async fn where_it_may_not_be_nothing_is_started() {
    require!(program("python3"));
    // The program does not exist: an error before anything begins.
    let lab = Lab::new();
    let server = parent(goal()).await;
    let none = command(&lab, &server, ("no-such-agent", &[]), &[]);
    let ended = RunningProgram::start(none).end().await.with_code(2);
    assert!(ended.err.contains("`delegation.acp_command` cannot be run"), "{}", ended.err);
    assert!(ended.err.contains("program `no-such-agent` not found in PATH"), "{}", ended.err);
    assert_eq!(server.requests().len(), 0);

    // An endpoint makes children direct.
    let both = ["--set", "delegation.base_url=http://127.0.0.1:1/v1"];
    let both = command(&lab, &server, ("python3", &[]), &both);
    let ended = RunningProgram::start(both).end().await.with_code(2);
    assert!(ended.err.contains("keep one"), "{}", ended.err);

    // A parent that may not run commands has no child that may.
    let lab = Lab::new();
    let more = ["-t", "file,delegation"];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    let actual = &ended.out;
    assert!(actual.contains("may not have `terminal` (this agent does not have it)"), "{actual}");
    assert!(!lab.work("cwd").exists());
}

#[tokio::test]
async fn it_has_no_more_than_the_operator_and_the_call_leave_a_child() {
    require!(program("python3"));
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
    require!(program("python3"));
    let lab = Lab::new();
    let tasks = json!({"tasks": [{"goal": "One"}, {"goal": "Two"}], "background": true});
    let server = parent(tasks).await;
    let script = fixture("faulty_agent.py");
    let mark = lab.mark().to_owned();
    let queue = "delegation={background: true, max_concurrent_children: 1, over_limit: queue, approvals: auto}";
    let mut begun = lab.pipe("begun");
    let hangs = ("python3", &[&*script, "hangs", &mark][..]);
    let running = RunningProgram::start(command(&lab, &server, hangs, &["--set", queue]));
    begun.lines(1).await;
    running.event("agent.rest", |_| true).await;
    crate::kill::kill(&lab, running).await;
    fs::remove_file(lab.work("cwd")).unwrap();

    let session = lab.session();
    let ceiling = "delegation.toolset_ceiling=[file]";
    let more = ["--set", queue, "--set", ceiling, "--resume", &session];
    let good = ("python3", &[&*script, "good"][..]);
    let ended = RunningProgram::start(command(&lab, &server, good, &more)).end().await.with_code(0);
    assert!(!lab.work("cwd").exists(), "it was started: {}", ended.out);
    let ends = ended.events("agent.end");
    assert_eq!(ends.iter().filter(|end| end["depth"] == 1).count(), 2, "{ends:?}");
    let actual = fs::read_to_string(lab.session_file()).unwrap();
    assert!(actual.contains("this child may not have `terminal`"), "{actual}");
}

#[tokio::test]
async fn a_recording_of_it_plays_without_it() {
    require!(program("python3"));
    let lab = Lab::new();
    let more = ["--record", "tape"];
    let ended = run(&lab, &["good"], goal(), &more).await.with_code(0);
    fs::remove_file(lab.work("cwd")).unwrap();
    let replay = lab.deputize(&["run", "--replay", "tape", "--output", "events"]);
    let replayed = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(replayed.events("tool.end"), ended.events("tool.end"));
    assert!(!lab.work("cwd").exists(), "the replay started it");
}

/// A directory with the official package, installed once by whoever comes first.
pub(crate) async fn installed() -> Result<PathBuf, String> {
    blocking(|| {
        program("python3")?;
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let place = target.join(SDK.replace("==", "-"));
        // Whoever runs tests after its owner may not write there.
        if place.join("acp").is_dir() {
            return Ok(place);
        }
        let lock = fs::File::create(target.join("acp.lock")).unwrap();
        lock.lock().unwrap();
        if !place.join("acp").is_dir() {
            let fresh = tempfile::tempdir_in(target).unwrap();
            let options = ["-m", "pip", "install", "-q", "--no-input", "--target"];
            let mut pip = Blocking::new("python3");
            install(pip.args(options).arg(fresh.path()).arg(SDK), "pip")?;
            fs::rename(fresh.keep(), &place).unwrap();
        }
        Ok(place)
    })
    .await
}

#[tokio::test]
async fn an_agent_of_the_official_package_works_as_a_child() {
    let lab = Lab::new();
    let place = require!(installed().await);
    let arguments = json!({"tasks": [{"goal": "first"}, {"goal": "second"}]});
    let server = parent(arguments).await;
    let script = fixture("peer_agent.py");
    let place = place.to_str().unwrap().to_owned();
    let real = command(&lab, &server, ("python3", &[&script, &place]), &AUTO);
    let ended = RunningProgram::start(real).end().await.with_code(0);
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
