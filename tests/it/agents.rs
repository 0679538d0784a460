//! Agents that run: signs of life, time limits of all of them together, questions from below, and
//! the end of very many at once.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::model::Reply;
use deputize_core::outcome::ExitReason;
use deputize_core::schema::Schema;
use deputize_core::{
    AgentId, Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Event, Observer, Origin, Outcome,
    Record, SessionId, Status, Tool, ToolCallResult, ToolCx, ToolDecl, ToolError, ToolName,
    ToolOutput, ToolSpec, ToolsetName,
};
use deputize_delegate::{DelegateTool, DelegationConfig, DelegationLimits};
use deputize_runtime::{Heartbeat, Session, SessionConfig, SessionControl, SessionDir, SyncMode};
use deputize_testkit::{Barrier, MockAnswer};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::program::{Lab, RunningProgram, model, sees, soon};
use crate::signals::{ended_by, in_time};
use crate::simulated::TimedModel;

/// A call that takes so many seconds.
struct Hold(ToolSpec);

impl Tool for Hold {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let seconds = arguments["seconds"].as_u64().unwrap();
            tokio::select! {
                biased;
                () = sleep(Duration::from_secs(seconds)) => Ok(ToolOutput::text("held")),
                () = cx.cancel.cancelled() => Err(ToolError::Cancelled(Box::default())),
            }
        })
    }
}

#[derive(Default)]
struct RecordList {
    records: Mutex<Vec<Record>>,
    control: OnceLock<SessionControl>,
    /// Agents that nobody could find while their end was recorded.
    lost: Mutex<Vec<AgentId>>,
}

impl Observer for RecordList {
    fn on_record(&self, record: &Record) {
        self.records.lock().push(record.clone());
        if let Event::AgentEnd(_) = record.event
            && let Some(control) = self.control.get()
            && !control.agents().iter().any(|agent| agent.id == record.agent)
        {
            self.lost.lock().push(record.agent.clone());
        }
    }
}

fn hold(seconds: u64) -> Reply {
    Reply::calls("m", [("hold", json!({ "seconds": seconds }))])
}

fn hand_on(arguments: Value) -> Reply {
    Reply::calls("m", [("delegate_task", arguments)])
}

/// Runs a family on a clock that goes on by itself; what happened, and how it ended. The rule gives
/// seconds.
async fn family(
    rule: impl Fn(&str, usize) -> (u64, Reply) + Send + Sync + 'static,
    change: impl FnOnce(&mut SessionConfig, &mut DelegationConfig),
) -> (Vec<Record>, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(RecordList::default());
    let mut policy = DelegationConfig {
        limits: DelegationLimits {
            child_timeout_seconds: 0,
            max_spawn_depth: 2,
            ..DelegationLimits::default()
        },
        ..DelegationConfig::default()
    };
    let mut config =
        SessionConfig { observers: vec![seen.clone()], ..SessionConfig::new(Catalog::default()) };
    config.record.sync = SyncMode::Never;
    config.children.heartbeat = Some(Heartbeat::default());
    change(&mut config, &mut policy);
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(policy, Arc::new(FixedClock(5))).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    let decl = ToolDecl {
        name: ToolName::literal("hold"),
        description: "Holds.".to_owned(),
        parameters: Schema::new(&json!({"type": "object"})).unwrap(),
    };
    let tool = Arc::new(Hold(ToolSpec { time_limit: None, ..ToolSpec::read_only(decl) }));
    let origin = Origin::Linked { krate: "tests".into() };
    catalog.insert(CatalogEntry { toolset: ToolsetName::literal("t"), origin, tool }).unwrap();
    config.tools.catalog = Arc::new(catalog);
    let rule = move |task: &str, results: usize| {
        let (seconds, reply) = rule(task, results);
        (seconds * 1000, reply)
    };
    config.models.insert("t/m", "m", Arc::new(TimedModel(Arc::new(rule))));
    let dir = SessionDir::new(folder.path());
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    assert!(seen.control.set(session.control()).is_ok());
    let grant = Grant { spawn_depth: Some(2), spawn_number: Some(9), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let spec = session.top_agent("t/m", "go", folder.path());
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(*seen.lost.lock(), [], "an agent is found until its end is known");
    let records = seen.records.lock().clone();
    (records, outcome)
}

/// The signs of life of an agent: the tool, seconds without progress, and whether it is stalled.
fn beats(records: &[Record], agent: &str) -> Vec<(Option<String>, u64, bool)> {
    let beat = |record: &Record| match &record.event {
        Event::AgentHeartbeat { current_tool, idle_ms, stalled, .. }
            if record.agent.as_str() == agent =>
        {
            Some((current_tool.clone(), idle_ms / 1000, *stalled))
        }
        _ => None,
    };
    records.iter().filter_map(beat).collect()
}

#[tokio::test(start_paused = true)]
async fn a_child_gives_signs_of_life_until_it_is_stalled_and_again_when_it_goes_on() {
    let rule = |task: &str, results: usize| match (task, results) {
        ("go", 0) => (0, hand_on(json!({"goal": "work"}))),
        ("work", 0) => (500, hold(1310)),
        ("work", 1) => (0, hold(100)),
        _ => (0, Reply::text("m", "Done.")),
    };
    let (records, outcome) = family(rule, |_, _| {}).await;
    assert_eq!(outcome.status, Status::Completed);
    let all = beats(&records, "s/1.0.0");
    let tool = Some("hold".to_owned());
    let mut expected: Vec<_> = (1..15).map(|n| (None, 30 * n, false)).collect();
    expected.push((None, 450, true));
    // The call began at 500 s; a beat is at every 30th second from the start.
    expected.extend((17..57).map(|n| (tool.clone(), 30 * n - 500, false)));
    expected.push((tool.clone(), 57 * 30 - 500, true));
    expected.extend([20, 50, 80].map(|idle| (tool.clone(), idle, false)));
    assert_eq!(all, expected);
    assert!(beats(&records, "s").is_empty());
    let last = records.iter().rposition(|it| matches!(it.event, Event::AgentHeartbeat { .. }));
    let end = records.iter().position(|it| matches!(it.event, Event::AgentEnd(_)));
    assert!(last < end);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_child_that_works_is_not_stalled() {
    let rule = |task: &str, results: usize| match (task, results) {
        ("go", 0) => (0, hand_on(json!({"goal": "middle", "role": "orchestrator"}))),
        ("middle", 0) => (0, hand_on(json!({"goal": "work"}))),
        ("work", n) if n < 20 => (0, hold(200 + n as u64)),
        _ => (0, Reply::text("m", "Done.")),
    };
    let (records, outcome) = family(rule, |_, _| {}).await;
    assert_eq!(outcome.status, Status::Completed);
    let middle = beats(&records, "s/1.0.0");
    assert!(middle.len() > 100, "{}", middle.len());
    assert!(middle.iter().all(|(tool, idle, stalled)| {
        tool.as_deref() == Some("delegate_task") && *idle <= 30 && !stalled
    }));
}

fn ends(records: &[Record]) -> Vec<Outcome> {
    let end = |record: &Record| match &record.event {
        Event::AgentEnd(outcome) if record.depth > 0 => Some((**outcome).clone()),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

#[tokio::test(start_paused = true)]
async fn children_have_so_much_time_together_and_a_closing_answer() {
    let rule = |task: &str, results: usize| match (task, results) {
        ("go", 0) => (0, hand_on(json!({"tasks": [{"goal": "long"}, {"goal": "short"}]}))),
        ("go", 1) => (9000, hand_on(json!({"goal": "quick"}))),
        ("go", 2) => (0, hand_on(json!({"goal": "late"}))),
        ("long", _) => (0, hold(900)),
        ("short", 0) => (0, hold(40)),
        ("quick", 0) => (10, hold(300)),
        _ => (0, Reply::text("m", "Done.")),
    };
    let (records, outcome) = family(rule, |config, _| {
        config.children.time_limit = Some(Duration::from_secs(100));
    })
    .await;
    assert_eq!(outcome.status, Status::Completed);
    let ends = ends(&records);
    let describe = |outcome: &Outcome| {
        let seconds = outcome.duration_ms / 1000;
        (outcome.status, outcome.exit_reason, outcome.text.clone(), seconds, outcome.iterations)
    };
    let text = |text: &str| Some(text.to_owned());
    let describe: Vec<_> = ends.iter().map(describe).collect();
    assert_eq!(
        describe,
        [
            (Status::Completed, ExitReason::Completed, text("Done."), 40, 2),
            (Status::Completed, ExitReason::Budget, text("So far."), 100, 2),
            (Status::Failed, ExitReason::Budget, None, 0, 0),
            (Status::Failed, ExitReason::Budget, None, 0, 0),
        ]
    );
    let late = |record: &&Record| {
        matches!(record.event, Event::ModelRequest { .. }) && record.agent.as_str() != "s"
    };
    assert_eq!(records.iter().filter(late).count(), 4, "a spent budget sends nothing");
}

/// A child whose time is up is asked to close and has its own time for that; one that does not
/// close is cut off.
#[tokio::test(start_paused = true)]
async fn a_child_has_the_time_of_its_configuration_and_then_some_to_close() {
    let rule = |task: &str, results: usize| match (task, results) {
        ("go", 0) => (0, hand_on(json!({"tasks": [{"goal": "long"}, {"goal": "short"}]}))),
        ("long", 0) => (0, hold(900)),
        ("short", 0) => (0, hold(40)),
        _ => (0, Reply::text("m", "Done.")),
    };
    let ended = async |seconds: u32| {
        let (records, outcome) =
            family(rule, |_, policy| policy.limits.child_timeout_seconds = seconds).await;
        assert_eq!(outcome.status, Status::Completed);
        let describe = |end: &Outcome| (end.exit_reason, end.text.clone(), end.duration_ms / 1000);
        ends(&records).iter().map(describe).collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    let short = (ExitReason::Completed, text("Done."), 40);
    assert_eq!(ended(120).await, [short.clone(), (ExitReason::Timeout, text("So far."), 120)]);
    assert_eq!(ended(0).await, [short, (ExitReason::Completed, text("Done."), 900)]);
}

/// The clock of a program cannot be moved, and the least limit is 30 seconds; so this looks at the
/// limit that the child is given, and the test above at what the limit does.
#[tokio::test]
async fn the_time_limit_of_the_configuration_is_that_of_a_child() {
    for (seconds, limit_ms) in [("77", 77_000), ("5", 30_000), ("0", 0)] {
        let lab = Lab::new();
        let server = model(|asked| match asked.results().len() {
            0 if !asked.system().contains("YOUR TASK:") => {
                call("delegate_task", json!({"goal": "be quick"}))
            }
            _ => text("Done."),
        });
        let set = format!("delegation.child_timeout_seconds={seconds}");
        let ended = lab.run(&server.await, &["--set", &set, "Go"]).end().await.with_code(0);
        let stored = std::fs::read_to_string(lab.session_file()).unwrap();
        let given = format!("\"time_ms\":{limit_ms},");
        let starts = |line: &&str| line.contains("\"agent.start\"") && line.contains("be quick");
        let child = stored.lines().find(starts).unwrap();
        assert!(child.contains(&given), "no {given} in {child}");
        let warned =
            ended.err.contains("`delegation.child_timeout_seconds` is 5; the shortest is 30");
        assert_eq!(warned, seconds == "5", "{}", ended.err);
    }
}

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

#[tokio::test]
async fn a_question_of_a_child_goes_up_to_the_person_and_the_others_go_on() {
    let lab = Lab::new();
    let server = model(|asked| {
        let system = asked.system();
        match asked.results().len() {
            0 if system.contains("YOUR TASK:\nask first") => {
                call("terminal", json!({"command": "touch asked"}))
            }
            _ if system.contains("YOUR TASK:") => text("I am done."),
            0 => {
                let tasks = json!([{"goal": "ask first"}, {"goal": "ask nobody"}]);
                call("delegate_task", json!({ "tasks": tasks }))
            }
            _ => text("Done."),
        }
    });
    let server = server.await;
    let ask = ["--set", "delegation.approvals=ask", "--output", "events", "Share it"];
    let (mut person, running) = lab.on_terminal(&server, &ask);
    let seen = sees(&person, "Run it? [y/N] ").await;
    assert!(seen.contains("Child 1.0.0 (\"ask first\") wants to use terminal"), "{seen}");
    assert!(seen.contains("touch asked"), "{seen}");
    // The other one ends while the question stands.
    running.event("agent.end", |end| end["agent"].as_str().unwrap().ends_with(".1")).await;
    person.write_all(b"y\n").unwrap();
    let ended = running.end().await.with_code(0);
    assert!(lab.work("asked").exists());
    let decision = &ended.events("approval.decision")[0];
    assert_eq!((&decision["decision"], &decision["by"]), (&json!("allow"), &json!("user")));
    assert_eq!(decision["depth"], 1);
}

#[tokio::test]
async fn fifty_children_with_commands_end_within_two_seconds_and_what_was_done_is_reported() {
    const ALL: usize = 50;
    const DONE: usize = 5;
    in_time(async || {
        let lab = Lab::new();
        let stay = format!("echo > begun; sleep {}", lab.mark());
        let server = model(move |asked| {
            let system = asked.system();
            if system.contains("YOUR TASK:\nquick") {
                return text("This was quick.");
            }
            if system.contains("YOUR TASK:") {
                return call("terminal", json!({ "command": stay }));
            }
            let goal = |n: usize| format!("{} {n}", if n < DONE { "quick" } else { "long" });
            let tasks: Vec<Value> = (0..ALL).map(|n| json!({"goal": goal(n)})).collect();
            call("delegate_task", json!({ "tasks": tasks }))
        });
        let server = server.await;
        let mut begun = lab.pipe("begun");
        let set = [
            "--set",
            "delegation.subagent_auto_approve=true",
            "--set",
            "delegation.max_concurrent_children=50",
            "--output",
            "json",
            "Share it",
        ];
        let running = lab.run(&server, &set);
        begun.lines(ALL - DONE).await;
        let done = async {
            loop {
                let mut command = lab.deputize(&["agents", "--once", "--json"]);
                let actual = command.output().await.unwrap().stdout;
                let actual: Value = serde_json::from_slice(&actual).unwrap();
                let agents = actual["sessions"][0]["agents"].as_array().unwrap().clone();
                let done = agents.iter().filter(|agent| agent["status"] == "completed");
                if done.count() == DONE {
                    return;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        soon("the quick ones", done).await;
        let (ended, took) = ended_by(Signal::INT, &lab, running).await;
        let actual: Value = serde_json::from_str(&ended.out).unwrap();
        let children = actual["children"].as_array().unwrap();
        assert_eq!(children.len(), ALL);
        for (index, child) in children.iter().enumerate() {
            let status = if index < DONE { "completed" } else { "interrupted" };
            assert_eq!(child["status"], status, "{child:#}");
            let said = if index < DONE { json!("This was quick.") } else { Value::Null };
            assert_eq!(child["summary"], said);
        }
        took
    })
    .await;
}

#[tokio::test]
async fn a_stalled_child_is_shown_so_on_the_screen_and_in_the_list() {
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |asked| match asked.results().len() {
        _ if asked.system().contains("YOUR TASK:") => text("I am done.").held_by(&held),
        0 => call("delegate_task", json!({"goal": "be slow"})),
        _ => text("Done."),
    });
    let server = server.await;
    let lab = Lab::new();
    let set = [
        "--set",
        "delegation.heartbeat_seconds=1",
        "--set",
        "delegation.stale_idle_seconds=1",
        "Share it",
    ];
    let running = lab.run(&server, &set);
    running.says("stalled: no progress for 1.").await;
    let list = RunningProgram::start(lab.deputize(&["agents", "--once"])).end().await.with_code(0);
    assert!(list.out.contains("stalled"), "{}", list.out);
    gate.open();
    running.end().await.with_code(0);
}

/// A call may take longer than a reply before its agent counts as stalled.
#[tokio::test]
async fn a_child_that_is_stalled_in_a_tool_has_a_limit_of_its_own() {
    let lab = Lab::new();
    let _wait = lab.pipe("wait");
    let server = model(|asked| match asked.results().len() {
        0 if asked.system().contains("YOUR TASK:") => {
            call("terminal", json!({"command": "read line < wait"}))
        }
        _ if asked.system().contains("YOUR TASK:") => text("I am done."),
        0 => call("delegate_task", json!({"goal": "be slow"})),
        _ => text("Done."),
    });
    let server = server.await;
    let settings = "delegation={approvals: auto, heartbeat_seconds: 1, stale_idle_seconds: 0, stale_in_tool_seconds: 2}";
    let running = lab.run(&server, &["--output", "events", "--set", settings, "Share it"]);
    let beat = running.event("agent.heartbeat", |beat| beat["stalled"] == true).await;
    assert_eq!(beat["current_tool"], "terminal", "{beat}");
    assert!(beat["idle_ms"].as_u64().unwrap() >= 2_000, "{beat}");
    std::fs::write(lab.work("wait"), "go on\n").unwrap();
    let ended = running.end().await.with_code(0);
    let beats = ended.events("agent.heartbeat");
    let early = beats.iter().filter(|beat| beat["idle_ms"].as_u64().unwrap() < 2_000);
    assert!(early.clone().count() > 0 && early.clone().all(|beat| beat["stalled"] == false));
}
