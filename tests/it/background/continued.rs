//! Children that have ended and get a further task.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Weak};

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::model::{Delta, ModelError, Reply, Request, Usage};
use deputize_core::sanitize::FrameSecret;
use deputize_core::{
    AgentId, Authority, BoxFuture, Cancel, Catalog, Event, Message, Model, SessionId, Status,
};
use deputize_delegate::{
    BackgroundPolicy, ControlTool, DelegateTool, DelegationConfig, DelegationOptions, OverLimit,
};
use deputize_runtime::{Continue, Session, SessionConfig, SessionDir, StoredSession};
use deputize_testkit::{Barrier, MockAnswer, ScriptedModel, ScriptedTurn, SeenRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{QUEUE, call, child, delivered, end_count, run, tasks, text};
use crate::control::reachable;
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// The handle of the child of the first call.
fn handle(asked: &ChatRequest) -> String {
    let results = asked.results();
    let named = results.first().and_then(|text| text.split("\"agent\":\"").nth(1));
    named.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

fn further(asked: &ChatRequest, task: &str) -> Value {
    json!({"action": "continue", "agents": [handle(asked)], "message": task})
}

/// A reply for which the provider counts tokens.
fn counted(reply: Reply) -> MockAnswer {
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    MockAnswer::reply(&Reply { usage, ..reply })
}

/// A parent that waits for a child, and gives it two further tasks. The child writes a file with
/// each.
fn three_tasks(asked: &ChatRequest) -> MockAnswer {
    let write = |path: &str| ("write_file", json!({"path": path, "content": path}));
    let delegate = json!({"goal": "child 0: write a.txt"});
    let further = |task| ("delegate_control", further(asked, task));
    counted(match (child(&asked.system()), asked.results().len()) {
        (Some(_), 0) => Reply::calls("mock", [write("a.txt")]),
        (Some(_), 1) if asked.last_user().ends_with("\nNow b.txt.") => {
            Reply::calls("mock", [write("b.txt")])
        }
        (Some(_), 2) if asked.last_user().ends_with("\nLast, c.txt.") => {
            Reply::calls("mock", [write("c.txt")])
        }
        (Some(_), written) => Reply::text("mock", format!("I wrote {written}.")),
        (None, 0) => Reply::calls("mock", [("delegate_task", delegate)]),
        (None, 1) => Reply::calls("mock", [further("Now b.txt.")]),
        (None, 2) if end_count(asked) == 1 => Reply::calls("mock", [further("Last, c.txt.")]),
        (None, _) => Reply::text("mock", format!("I know of {}.", end_count(asked))),
    })
}

/// The entries of a child in what its parent is told, in order.
fn entries(asked: &ChatRequest) -> Vec<Value> {
    let texts = asked.results().into_iter().chain(asked.users());
    let objects = texts.flat_map(|text| text.lines().filter(|line| line.contains("\"results\"")));
    objects.map(|line| serde_json::from_str::<Value>(line).unwrap()["results"][0].clone()).collect()
}

#[tokio::test]
async fn its_conversation_goes_on_and_what_it_did_adds_up() {
    let server = model(three_tasks).await;
    let lab = Lab::new();
    let record = ["--record", "../t.jsonl", "go"];
    let ended = run(&lab, &server, &record).end().await.with_code(0);
    let last = ended.events("model.response").pop().unwrap();
    assert_eq!(last["text"], "I know of 2.", "{}", ended.out);
    let agent = format!("{}/1.0.0", lab.session());
    let resumes = ended.events("agent.resume");
    let goals: Vec<_> = resumes.iter().map(|it| (&it["agent"], &it["goal"])).collect();
    let goal = |goal: &str| json!(goal);
    let (b, c) = (goal("Now b.txt."), goal("Last, c.txt."));
    assert_eq!(goals, [(&json!(agent), &b), (&json!(agent), &c)]);
    assert_eq!(delivered(&lab).await, ["0", "0"]);

    // Each request of the child has the bytes of the one before in front.
    let requests = server.requests();
    let bodies = |is_child: bool| {
        let asked = requests
            .iter()
            .filter(move |it| child(&ChatRequest::of(it).system()).is_some() == is_child);
        asked.map(|it| it.json()["messages"].as_array().unwrap().clone()).collect::<Vec<_>>()
    };
    let own = bodies(true);
    assert_eq!(own.len(), 6);
    for pair in own.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0][..]);
    }

    // The entries are those of one child that did more and more.
    let top = requests.iter().map(ChatRequest::of).rfind(|it| child(&it.system()).is_none());
    let entries = entries(&top.unwrap());
    let sums = |entry: &Value| {
        let files = entry["receipts"]["files_written"].as_array().unwrap().len();
        (entry["api_calls"].clone(), entry["tokens"]["input"].clone(), files)
    };
    let expected = [(2, 200, 1), (4, 400, 2), (6, 600, 3)];
    let expected = expected.map(|(calls, input, files)| (json!(calls), json!(input), files));
    assert_eq!(entries.iter().map(sums).collect::<Vec<_>>(), expected, "{entries:#?}");
    for (entry, written) in entries.iter().zip(1..) {
        assert_eq!((&entry["agent"], &entry["status"]), (&json!(agent), &json!("completed")));
        let summary = entry["summary"].as_str().unwrap();
        assert!(summary.contains(&format!("I wrote {written}.")), "{summary}");
        assert_eq!(entry["stale_paths"], Value::Null);
    }
    // Nothing is counted twice.
    let session = &ended.events("session.end")[0];
    assert_eq!(session["input_tokens"], 100 * requests.len(), "{session}");

    let show = async |args: &[&str]| {
        RunningProgram::start(lab.deputize(args)).end().await.with_code(0).out
    };
    let shown = show(&["sessions", "show", &lab.session()]).await;
    for part in ["Now b.txt.", "Last, c.txt.", "I wrote 3."] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let listed: Value =
        serde_json::from_str(&show(&["agents", &lab.session(), "--json"]).await).unwrap();
    assert!(listed.to_string().contains("Last, c.txt."), "{listed}");

    drop(server);
    let file = lab.path("t.jsonl");
    let again = ["run", "--replay", file.to_str().unwrap(), "--output", "events"];
    let played = RunningProgram::start(lab.deputize(&again)).end().await.with_code(0);
    assert_eq!(played.out, ended.out);
}

/// Runs a parent that makes a call of `delegate_control` with its child, when the gate opens, and
/// returns the answer.
async fn answer(
    arguments: impl Fn(&ChatRequest) -> Value + Send + Sync + 'static,
    gate: &Barrier,
    ended: impl AsyncFnOnce(&Lab, RunningProgram) -> ProgramEnd,
) -> String {
    let begins = gate.clone();
    let never = Barrier::closed();
    let server = model(move |asked| match child(&asked.system()) {
        Some(_) => text("Never.").held_by(&never),
        None => match asked.results().len() {
            0 => call("delegate_task", tasks(1)),
            1 => call("delegate_control", arguments(asked)).held_by(&begins),
            2 => call("delegate_control", json!({"action": "stop", "all": true})),
            _ => text("Done."),
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["go"]);
    server.until_requests(3).await;
    ended(&lab, running).await.with_code(0);
    let requests = server.requests();
    let top = requests.iter().map(ChatRequest::of).find(|it| it.results().len() == 2).unwrap();
    top.results()[1].to_owned()
}

#[tokio::test]
async fn one_that_runs_was_stopped_or_is_unknown_gets_no_further_task() {
    let open = Barrier::closed();
    let runs = answer(
        |asked| further(asked, "More."),
        &open,
        async |_, running| {
            open.open();
            running.end().await
        },
    );
    let runs = runs.await;
    assert!(runs.contains("E_AGENTS") && runs.contains("use `message`"), "{runs}");

    let gate = Barrier::closed();
    let stopped = answer(
        |asked| further(asked, "More."),
        &gate,
        async |lab, running| {
            reachable(lab).await;
            let agent = format!("{}/1.0.0", lab.session());
            let stop = lab.deputize(&["agents", "stop", &agent]);
            RunningProgram::start(stop).end().await.with_code(0);
            running.event("agent.end", |it| it["agent"] == agent.as_str()).await;
            gate.open();
            running.end().await
        },
    );
    let stopped = stopped.await;
    assert!(stopped.contains("it was stopped: a person stopped it"), "{stopped}");

    let gate = Barrier::closed();
    let named = |name: &'static str| move |_: &ChatRequest| json!({"action": "continue", "agents": [name], "message": "More."});
    let unknown = answer(named("s/9.9.9"), &gate, async |_, running| {
        gate.open();
        running.end().await
    });
    let unknown = unknown.await;
    assert!(unknown.contains("no agent `s/9.9.9`"), "{unknown}");
}

#[tokio::test]
async fn it_waits_for_a_slot_as_a_new_child_does() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let held = gates.clone();
    let server = model(move |asked| match child(&asked.system()) {
        Some(0) if asked.replies() == 1 => text("More is done."),
        Some(number) => text("Done.").held_by(&held[number]),
        None => match (asked.results().len(), end_count(asked)) {
            (0, _) => call("delegate_task", tasks(2)),
            (1, 1) => call("delegate_control", further(asked, "More.")),
            (_, ends) => text(&format!("I know of {ends}.")),
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &[&QUEUE[..], &["go"]].concat());
    running.event("agent.rest", |_| true).await;
    gates[0].open();
    let end = running.event("tool.end", |it| it["tool"] == "delegate_control").await;
    assert!(end["preview"].as_str().unwrap().contains("\"status\":\"waiting\""), "{end}");
    gates[1].open();
    let ended = running.end().await.with_code(0);
    assert_eq!(ended.events("model.response").last().unwrap()["text"], "I know of 3.");
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "0", "1"]);
}

/// A parent that starts a child, and gives it a further task when it has ended.
fn config() -> SessionConfig {
    let rule = |seen: &SeenRequest| -> Option<ScriptedTurn> {
        let is_end = |it: &&Arc<Message>| matches!(&***it, Message::User(it) if it.from.is_some());
        let actual = seen.messages.iter().filter(is_end).count();
        let reply = match (seen.task(), seen.results().len(), actual) {
            ("go", 0, _) => {
                let arguments = json!({"goal": "one", "background": true});
                Reply::calls("m", [("delegate_task", arguments)])
            }
            ("go", 1, 1) => {
                let arguments =
                    json!({"action": "continue", "agents": ["s/1.0.0"], "message": "two"});
                Reply::calls("m", [("delegate_control", arguments)])
            }
            ("go", ..) => Reply::text("m", "Noted."),
            _ => Reply::text("m", format!("{} is done", seen.last_user())),
        };
        Some(reply.into())
    };
    parts_of(in_background(), Arc::new(ScriptedModel::rule(rule)))
}

fn in_background() -> DelegationConfig {
    DelegationConfig {
        options: DelegationOptions { background: true, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    }
}

fn parts_of(policy: DelegationConfig, model: Arc<dyn Model>) -> SessionConfig {
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(policy.clone(), Arc::new(FixedClock(5))).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
    let clock = Arc::new(FixedClock(7));
    let lifecycle = BackgroundPolicy::new(policy, Arc::clone(&clock) as _);
    let mut config = SessionConfig { clock, ..SessionConfig::new(catalog) };
    config.children.lifecycle = Some(Arc::new(lifecycle));
    config.record.secret = FrameSecret::new(&[1; 16]);
    config.models.insert("t/m", "m", model);
    config
}

/// A model of a parent that starts children, and gives one of them a further task when all have
/// ended. It remembers which messages of children there were, without keeping them.
#[derive(Default)]
struct MessageCounter {
    seen: Mutex<Vec<Weak<Message>>>,
    /// The conversations of the child that goes on, as texts.
    talks: Mutex<Vec<Vec<String>>>,
    /// Messages of children that were in memory when all had ended, of so many.
    alive: Mutex<Option<(usize, usize)>>,
}

/// Children of that parent.
const COUNTED: usize = 30;

impl MessageCounter {
    fn answer(&self, request: &Request<'_>) -> Reply {
        let texts: Vec<String> = request.messages.iter().map(|it| format!("{it:?}")).collect();
        let is_child = request.system.iter().any(|block| block.contains("YOUR TASK:"));
        if is_child {
            let messages = request.messages.iter().map(Arc::downgrade);
            self.seen.lock().extend(messages);
            if request.system.iter().any(|block| block.contains("count 0.")) {
                self.talks.lock().push(texts);
            }
            return Reply::text("m", "Counted.");
        }
        let is_end = |it: &&Arc<Message>| matches!(&***it, Message::User(it) if it.from.is_some());
        let actual = request.messages.iter().filter(is_end).count();
        let replies = texts.iter().filter(|text| text.starts_with("Assistant")).count();
        match (replies, actual) {
            (0, _) => {
                let tasks: Vec<Value> =
                    (0..COUNTED).map(|n| json!({"goal": format!("count {n}.")})).collect();
                let arguments = json!({"tasks": tasks, "background": true});
                Reply::calls("m", [("delegate_task", arguments)])
            }
            (_, COUNTED) if self.alive.lock().is_none() => {
                let seen = self.seen.lock();
                let alive = seen.iter().filter(|message| message.strong_count() > 0).count();
                *self.alive.lock() = Some((alive, seen.len()));
                let arguments =
                    json!({"action": "continue", "agents": ["s/1.0.0"], "message": "And more."});
                Reply::calls("m", [("delegate_control", arguments)])
            }
            _ => Reply::text("m", "Noted."),
        }
    }
}

impl Model for MessageCounter {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async { Ok(self.answer(request)) })
    }
}

#[tokio::test]
async fn conversations_of_ended_children_are_in_the_session_file_alone_and_go_on() {
    let home = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(home.path());
    let model = Arc::new(MessageCounter::default());
    let mut policy = in_background();
    policy.limits.over_limit = OverLimit::Queue;
    let config = parts_of(policy, Arc::clone(&model) as _);
    let session = Session::create(&dir, SessionId::literal("s"), config).unwrap();
    let spec = session.top_agent("t/m", "go", home.path());
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(99), ..Grant::default() };
    let authority = Authority::root(session.catalog(), &grant);
    let outcome = session.run(spec, authority, &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let (alive, seen) = model.alive.lock().unwrap();
    assert_eq!(alive, 0, "of {seen} messages");
    assert!(seen >= COUNTED);
    // What goes on is what there was.
    let talks = model.talks.lock();
    let [first, second] = &talks[..] else { panic!("{talks:#?}") };
    assert_eq!(second[..first.len()], first[..]);
    assert!(second[first.len()].contains("Counted."), "{second:#?}");
    assert!(second.last().unwrap().contains("And more."), "{second:#?}");
}

fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(9), ..Grant::default() };
    Authority::root(catalog, &grant)
}

/// Counts how often the top agent received each end.
fn ends_told(stored: &StoredSession) -> BTreeMap<String, usize> {
    let root = AgentId::root(&SessionId::literal("s"));
    let mut actual = BTreeMap::new();
    for message in stored.messages(&root).unwrap() {
        if let Message::User(user) = &*message
            && let Some(from) = &user.from
        {
            *actual.entry(from.to_string()).or_default() += 1;
        }
    }
    actual
}

async fn first_run(folder: &Path) {
    let dir = SessionDir::new(folder);
    let session = Session::create(&dir, SessionId::literal("s"), config()).unwrap();
    let spec = session.top_agent("t/m", "go", folder);
    let outcome = session.run(spec, authority(session.catalog()), &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
}

#[tokio::test]
async fn killed_after_any_record_a_further_task_is_done_and_its_end_told_once() {
    let home = tempfile::tempdir().unwrap();
    let whole = home.path().join("whole");
    first_run(&whole).await;
    let text = fs::read_to_string(whole.join("s.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let resumed = lines.iter().position(|line| line.contains("agent.resume")).unwrap();
    let asked = lines
        .iter()
        .position(|line| line.contains("tool.start") && line.contains("delegate_control"))
        .unwrap();
    for kept in 3..=lines.len() {
        let folder = home.path().join(kept.to_string());
        fs::create_dir(&folder).unwrap();
        let text: String = lines[..kept].iter().map(|line| format!("{line}\n")).collect();
        fs::write(folder.join("s.jsonl"), text).unwrap();
        let dir = SessionDir::new(&folder);
        let (session, _) = Session::open(&dir, SessionId::literal("s"), config()).unwrap();
        let authority = authority(session.catalog());
        let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await;
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status, Status::Completed, "{kept}: {outcome:?}");
        drop(session);
        let stored = dir.read(&SessionId::literal("s")).unwrap();
        // A call of which nothing but its start is known is not made again.
        let lost = kept > asked && kept <= resumed;
        let ends: &[&str] = if lost { &["s/1.0.0"] } else { &["s/1.0.0", "s/1.0.0#2"] };
        let once: BTreeMap<String, usize> = ends.iter().map(|id| ((*id).to_owned(), 1)).collect();
        assert_eq!(ends_told(&stored), once, "after {kept} lines");
        let is_end = |event: &Event| matches!(event, Event::AgentEnd(_));
        let records = stored.records.iter().filter(|it| it.depth == 1 && is_end(&it.event));
        assert_eq!(records.count(), ends.len(), "after {kept} lines");
    }
}
