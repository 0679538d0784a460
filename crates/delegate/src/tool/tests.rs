use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use deputize_core::door::Source;
use deputize_core::{
    Agent, AgentId, AgentSpec, AttachError, Cancel, CancelReason, Doing, ExitReason, Fact,
    FixedClock, Glance, Receipts, Role, SessionView, Spawn, Status, Store, ToolOutput, Usage,
    Version,
};
use tokio::sync::Notify;

use super::*;
use crate::fixture::Family;

const TOOLS: &str = "file/read_file file/write_file delegation/delegate_task";
const TASK_TOOLS: &str = "file/read_file file/write_file delegation/task";

/// What a scripted child does, by the goal it is given.
///
/// - `wait`: until it is released or interrupted;
/// - `panic`, `refuse`: that;
/// - `write FILE`: writes it;
/// - `wrote FILE`: has written it before this process was;
/// - `late N`: times out after so many requests; `limit`, `cut`, `empty`, `fail`: it ends so;
/// - anything else: it answers with its goal.
#[derive(Default)]
struct Children {
    attached: Mutex<Vec<AgentSpec>>,
    running: AtomicUsize,
    most: AtomicUsize,
    arrived: Notify,
    release: Cancel,
    /// Agents that there are besides.
    known: Mutex<Vec<AgentId>>,
    stopped: AtomicUsize,
    session: Mutex<Option<Arc<SessionView>>>,
}

struct Child {
    spec: AgentSpec,
    cancel: Cancel,
    home: Arc<Children>,
}

impl Agent for Child {
    fn id(&self) -> &AgentId {
        &self.spec.id
    }

    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let running = self.home.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.home.most.fetch_max(running, Ordering::SeqCst);
            self.home.arrived.notify_waiters();
            // Lets the others in before it ends.
            tokio::task::yield_now().await;
            let status = self.work().await;
            self.home.running.fetch_sub(1, Ordering::SeqCst);
            let mut outcome = outcome(&self.spec, status);
            ended(&mut outcome, &self.spec.goal);
            if let Some(path) = self.spec.goal.strip_prefix("wrote ") {
                let version = Version::of(b"new");
                outcome.receipts.files_written.insert(PathBuf::from(path), version);
            }
            outcome
        })
    }
}

impl Child {
    async fn work(&self) -> Status {
        match self.spec.goal.split_once(' ').unwrap_or((&self.spec.goal, "")) {
            ("wait", _) => tokio::select! {
                () = self.home.release.cancelled() => Status::Completed,
                () = self.cancel.cancelled() => Status::Interrupted,
            },
            ("panic", _) => panic!("a child panics"),
            ("write", path) => {
                let session = self.home.session.lock().unwrap().clone().unwrap();
                session.files.wrote(&self.spec.id, Path::new(path), Version::of(b"new"));
                Status::Completed
            }
            _ => Status::Completed,
        }
    }
}

fn ended(outcome: &mut Outcome, goal: &str) {
    let (status, exit_reason, text, error) = match goal.split_once(' ').unwrap_or((goal, "")) {
        ("late", count) => {
            outcome.iterations = count.parse().unwrap();
            // Something of a first reply had come.
            outcome.usage.input = u64::from(count == "00");
            (Status::Timeout, ExitReason::Timeout, None, Some("the time limit was reached"))
        }
        ("limit", _) => (Status::Completed, ExitReason::MaxIterations, Some("So far."), None),
        ("cut", _) => (Status::Completed, ExitReason::MaxOutputTokens, Some("So f"), None),
        ("empty", _) => (Status::Failed, ExitReason::Error, None, Some("the model said nothing")),
        ("fail", _) => (Status::Failed, ExitReason::Error, Some("Half."), Some("no model")),
        _ => return,
    };
    outcome.text = text.map(str::to_owned);
    outcome.error = error.map(str::to_owned);
    (outcome.status, outcome.exit_reason) = (status, exit_reason);
}

fn outcome(spec: &AgentSpec, status: Status) -> Outcome {
    Outcome {
        agent: spec.id.clone(),
        external: false,
        status,
        exit_reason: match status {
            Status::Interrupted => ExitReason::Interrupted,
            _ => ExitReason::Completed,
        },
        text: Some(spec.goal.clone()),
        error: (status == Status::Interrupted).then(|| "interrupted".to_owned()),
        output: None,
        partial: false,
        provider_unavailable: false,
        model: spec.model.clone(),
        iterations: 1,
        requests: 1,
        usage: Usage::default(),
        children_usage: Usage::default(),
        cost_usd: None,
        duration_ms: 10,
        trace: Vec::new(),
        receipts: Receipts::default(),
        below: BTreeMap::new(),
        found: None,
        session_path: None,
    }
}

struct Home(Arc<Children>);

impl Spawn for Home {
    fn attach(
        &self,
        _: &AgentView,
        spec: AgentSpec,
        cancel: &Cancel,
    ) -> Result<Box<dyn Agent>, AttachError> {
        if spec.goal == "refuse" {
            return Err(AttachError::Model("local/none".to_owned()));
        }
        if spec.goal == "paused" {
            return Err(AttachError::Paused("somebody".to_owned()));
        }
        self.0.attached.lock().unwrap().push(spec.clone());
        Ok(Box::new(Child { spec, cancel: cancel.clone(), home: Arc::clone(&self.0) }))
    }

    fn known(&self) -> Vec<AgentId> {
        self.0.known.lock().unwrap().clone()
    }

    fn below(&self, _: &AgentId) -> Vec<Glance> {
        let glance = |id: AgentId| Glance {
            id,
            goal: String::new(),
            doing: Doing::Running,
            iteration: 1,
            current_tool: None,
            idle_ms: 0,
        };
        self.known().into_iter().map(glance).collect()
    }

    fn stop(&self, _: &AgentId) -> bool {
        self.0.stopped.fetch_add(1, Ordering::SeqCst);
        true
    }
}

/// A parent that can call the tool.
struct Rig {
    home: Arc<Children>,
    tool: DelegateTool,
    agent: Arc<AgentView>,
    cancel: Cancel,
    slot: AtomicU32,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sessions")).unwrap();
        let policy = Policy { logs: Some(folder.path().join("logs")), ..policy };
        let home = Arc::new(Children::default());
        let session = Arc::new(SessionView {
            id: deputize_core::SessionId::literal("s1"),
            spill: folder.path().join("sessions/s1"),
            files: FileLedger::default(),
            settings: Store::default(),
            spawn: Arc::new(Home(Arc::clone(&home))),
        });
        *home.session.lock().unwrap() = Some(Arc::clone(&session));
        let tools = if policy.form == Form::Task { TASK_TOOLS } else { TOOLS };
        let Family { spec, authority, catalog } = Family::new(tools);
        let agent = Arc::new(AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::new(catalog),
            declared: Vec::new(),
            store: Store::default(),
            session,
        });
        let tool = DelegateTool::new(policy, Arc::new(FixedClock(0))).unwrap();
        Self { home, tool, agent, cancel: Cancel::new(), slot: AtomicU32::new(0), folder }
    }

    async fn call(&self, arguments: Value) -> ToolCallResult {
        let slot = self.slot.fetch_add(1, Ordering::SeqCst);
        let cx = ToolCx {
            call: deputize_core::CallId { step: 1, slot },
            agent: Arc::clone(&self.agent),
            cancel: self.cancel.clone(),
        };
        self.tool.call(arguments, &cx).await
    }

    fn attached(&self) -> Vec<String> {
        self.home.attached.lock().unwrap().iter().map(|spec| spec.goal.clone()).collect()
    }

    /// Waits until so many children were attached.
    async fn until_attached(&self, count: usize) {
        loop {
            let arrived = self.home.arrived.notified();
            if self.attached().len() >= count {
                return;
            }
            arrived.await;
        }
    }
}

fn tasks(goals: &[&str]) -> Value {
    let tasks: Vec<Value> = goals.iter().map(|goal| json!({"goal": goal})).collect();
    json!({"tasks": tasks})
}

/// Status and goal of each entry, in the order told.
fn entries(output: &ToolOutput) -> Vec<String> {
    let value: Value = serde_json::from_str(&output.content).unwrap();
    let entry = |entry: &Value| {
        let summary = entry["summary"].as_str().and_then(|text| text.lines().nth(1));
        let error = entry["error"].as_str();
        let words = [entry["status"].as_str(), summary, error];
        words.into_iter().flatten().collect::<Vec<_>>().join(" | ")
    };
    value["results"].as_array().unwrap().iter().map(entry).collect()
}

fn refusal(result: ToolCallResult) -> String {
    match result.unwrap_err() {
        ToolError::Refused(text) => text.into_string(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn results_are_in_the_order_of_the_tasks() {
    let rig = Rig::new(Policy::default());
    let call = rig.call(tasks(&["wait a", "b", "c"]));
    let release = async {
        rig.until_attached(3).await;
        rig.home.release.cancel(CancelReason::Interrupted);
    };
    let (output, ()) = tokio::join!(call, release);
    let output = output.unwrap();
    assert_eq!(entries(&output), ["completed | wait a", "completed | b", "completed | c"]);
    let attached = rig.home.attached.lock().unwrap();
    assert_eq!(attached[2].id.as_str(), "s1/1.0.2");
    assert!(attached.iter().all(|spec| spec.role == Role::Leaf && spec.depth == 1));
}

#[tokio::test]
async fn a_child_that_fails_costs_the_others_nothing() {
    let rig = Rig::new(Policy::default());
    let output = rig.call(tasks(&["panic", "refuse", "c"])).await.unwrap();
    assert_eq!(
        entries(&output),
        [
            "error | the host failed while this child ran; what it did until then is not known",
            "error | model `local/none` is not known here",
            "completed | c"
        ]
    );
}

#[tokio::test]
async fn a_queue_runs_all_and_never_more_than_may_at_once() {
    let policy = Policy { over_limit: OverLimit::Queue, ..Policy::default() };
    let rig = Rig::new(policy);
    let goals: Vec<String> = (0..20).map(|n| format!("part {n}")).collect();
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let (one, two) = tokio::join!(rig.call(tasks(&goals)), rig.call(tasks(&goals)));
    assert_eq!(entries(&one.unwrap()).len() + entries(&two.unwrap()).len(), 40);
    assert_eq!(rig.home.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn tasks_of_several_calls_share_the_slots_and_wait_for_them() {
    let rig = Rig::new(Policy::default());
    let (one, two) = tokio::join!(rig.call(tasks(&["a", "b"])), rig.call(tasks(&["c", "d"])));
    assert_eq!(entries(&one.unwrap()).len() + entries(&two.unwrap()).len(), 4);
    assert_eq!(rig.home.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn of_more_calls_than_may_run_the_first_ones_do() {
    let rig = Rig::new(Policy { max_concurrent_children: 2, ..Policy::default() });
    let third = async {
        rig.until_attached(2).await;
        let refused = refusal(rig.call(json!({"goal": "c"})).await);
        rig.home.release.cancel(CancelReason::Interrupted);
        refused
    };
    let (one, two, refused) = tokio::join!(
        rig.call(json!({"goal": "wait a"})),
        rig.call(json!({"goal": "wait b"})),
        third
    );
    assert!(one.is_ok() && two.is_ok());
    insta::assert_snapshot!(refused, @r#"{"error":"no child was started: 2 calls of `delegate_task` are running, which is the limit: put the work into one call with `tasks`, make this call when one of them has ended, or have the person raise delegation.max_concurrent_children","errors":[{"code":"E_TOO_MANY_CALLS","task_index":null,"task":null,"field":"goal","value":"c","remedy":"2 calls of `delegate_task` are running, which is the limit: put the work into one call with `tasks`, make this call when one of them has ended, or have the person raise delegation.max_concurrent_children"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), ["wait a", "wait b"]);
    // Those that ended make room.
    assert!(rig.call(json!({"goal": "d"})).await.is_ok());
}

#[tokio::test]
async fn an_interrupt_reaches_the_children_and_their_work_is_told() {
    let rig = Rig::new(Policy {
        over_limit: OverLimit::Queue,
        max_concurrent_children: 2,
        ..Policy::default()
    });
    let interrupt = async {
        rig.until_attached(3).await;
        rig.cancel.cancel(CancelReason::Interrupted);
    };
    let (result, ()) = tokio::join!(rig.call(tasks(&["a", "wait b", "wait c", "d"])), interrupt);
    let Err(ToolError::Cancelled(output)) = result else { panic!("{result:?}") };
    assert_eq!(
        entries(&output),
        [
            "completed | a",
            "interrupted | wait b | interrupted",
            "interrupted | wait c | interrupted",
            "interrupted | interrupted: it was not started"
        ]
    );
    let [Fact::NotBegun { agent, task_index: 3, status, error, .. }] = &output.facts[..] else {
        panic!("{:?}", output.facts)
    };
    assert_eq!((agent.as_str(), *status), ("s1/1.0.3", Status::Interrupted));
    assert_eq!(error, "interrupted: it was not started");
    assert_eq!(rig.attached(), ["a", "wait b", "wait c"]);
    assert_eq!(rig.home.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_already_starts_nobody() {
    let rig = Rig::new(Policy::default());
    rig.cancel.cancel(CancelReason::Interrupted);
    let result = rig.call(tasks(&["a", "b"])).await;
    let Err(ToolError::Cancelled(output)) = result else { panic!("{result:?}") };
    assert_eq!(entries(&output).len(), 2);
    assert_eq!(rig.attached(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let rig = Rig::new(Policy { max_concurrent_children: 1, ..Policy::default() });
    tokio::select! {
        biased;
        _ = rig.call(json!({"goal": "wait a"})) => panic!("it waits"),
        () = rig.until_attached(1) => {}
        () = pending() => {}
    }
    assert!(rig.call(json!({"goal": "b"})).await.is_ok());
}

#[tokio::test]
async fn a_session_has_so_many_children_and_a_call_over_that_starts_none() {
    let rig = Rig::new(Policy { max_children_per_session: 4, ..Policy::default() });
    assert!(rig.call(tasks(&["a", "b"])).await.is_ok());
    insta::assert_snapshot!(refusal(rig.call(tasks(&["c", "d", "e"])).await), @r#"{"error":"no child was started: this call would start 3 children, which is too many: 2 were started and the limit is 4 (delegation.max_children_per_session); work with the results there are, or send fewer tasks","errors":[{"code":"E_TOO_MANY_CHILDREN","task_index":null,"task":null,"field":"tasks","value":3,"remedy":"this call would start 3 children, which is too many: 2 were started and the limit is 4 (delegation.max_children_per_session); work with the results there are, or send fewer tasks"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), ["a", "b"]);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
    // Repeating a call costs nothing, since it attaches the same children.
    rig.slot.store(2, Ordering::SeqCst);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
}

#[tokio::test]
async fn limits_that_are_reached_are_told_with_all_else_that_is_wrong() {
    let policy = Policy { max_concurrent_children: 1, ..Policy::default() };
    let rig = Rig::new(Policy { max_children_per_session: 2, ..policy });
    let wrong = async {
        rig.until_attached(1).await;
        let tasks = json!([{"goal": " "}, {"goal": "b", "toolsets": ["none"]}]);
        let refused = refusal(rig.call(json!({ "tasks": tasks })).await);
        rig.home.release.cancel(CancelReason::Interrupted);
        refused
    };
    let (one, refused) = tokio::join!(rig.call(json!({"goal": "wait a"})), wrong);
    assert!(one.is_ok());
    let refused: Value = serde_json::from_str(&refused).unwrap();
    let codes: Vec<&str> = refused["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        ["E_TOO_MANY_CHILDREN", "E_TOO_MANY_CALLS", "E_TOO_MANY_TASKS", "E_GOAL", "E_TOOLSET"]
    );
    // A call that was wrong has taken no place and counts no child.
    assert!(rig.call(json!({"goal": "b"})).await.is_ok());
    assert_eq!(rig.attached(), ["wait a", "b"]);
}

#[tokio::test]
async fn files_that_the_parent_had_read_and_a_child_wrote_are_noted() {
    let rig = Rig::new(Policy::default());
    let root = rig.agent.id().clone();
    let files = &rig.agent.session.files;
    files.saw(&root, Path::new("/repo/app/a.rs"), Version::of(b"old"));
    files.saw(&root, Path::new("/repo/app/b.rs"), Version::of(b"old"));
    let output =
        rig.call(tasks(&["write /repo/app/a.rs", "write /repo/app/new.rs"])).await.unwrap();
    insta::assert_snapshot!(output.notes.join("\n"), @"Changed since you read them, so read them again before you edit or rely on them: `a.rs` (by s1/1.0.0).");
}

#[tokio::test]
async fn what_a_child_wrote_before_a_resume_is_noted_too() {
    let rig = Rig::new(Policy::default());
    let root = rig.agent.id().clone();
    rig.agent.session.files.saw(&root, Path::new("/repo/app/a.rs"), Version::of(b"old"));
    rig.agent.session.files.saw(&root, Path::new("/repo/app/b.rs"), Version::of(b"new"));
    let output = rig.call(tasks(&["wrote /repo/app/a.rs", "wrote /repo/app/b.rs"])).await.unwrap();
    assert_eq!(output.notes.len(), 1);
    assert!(output.notes[0].ends_with(": `a.rs` (by s1/1.0.0)."), "{}", output.notes[0]);
}

#[tokio::test]
async fn a_wrong_call_is_answered_with_an_object_of_errors() {
    let rig = Rig::new(Policy::default());
    let refused = refusal(rig.call(json!({"goal": "A", "quarantine": true})).await);
    insta::assert_snapshot!(refused, @r#"{"error":"no child was started: `quarantine` is not in this version; leave it out","errors":[{"code":"E_NOT_IN_THIS_VERSION","task_index":null,"task":null,"field":"quarantine","value":true,"remedy":"`quarantine` is not in this version; leave it out"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), [] as [&str; 0]);
}

#[test]
fn what_its_spec_accepts_includes_whatever_the_model_is_told_of() {
    let rig = Rig::new(Policy::default());
    assert_eq!(rig.tool.spec().decl.parameters.as_str(), r#"{"type":"object"}"#);
    let declared = rig.tool.declare(&rig.agent).unwrap();
    assert_eq!(declared.name, rig.tool.spec().decl.name);
}

#[tokio::test]
async fn a_child_that_timed_out_before_it_began_leaves_a_file_that_says_so() {
    let rig = Rig::new(Policy::default());
    let output = rig.call(tasks(&["late 0", "late 3", "late 0"])).await.unwrap();
    let value: Value = serde_json::from_str(&output.content).unwrap();
    let path =
        |index: usize| value["results"][index]["diagnostic_path"].as_str().map(PathBuf::from);
    let logs = rig.folder.path().join("logs");
    assert_eq!(path(0), Some(logs.join("subagent-timeout-s1-19700101T000000Z.log")));
    assert_eq!(path(1), None);
    assert_eq!(path(2), Some(logs.join("subagent-timeout-s1-19700101T000000Z-1.log")));
    insta::assert_snapshot!(std::fs::read_to_string(path(0).unwrap()).unwrap());
    let output = rig.call(tasks(&["late 00"])).await.unwrap();
    assert!(!output.content.contains("diagnostic_path"), "a reply had begun: {}", output.content);
    // A folder that cannot be written costs the result nothing.
    std::fs::remove_dir_all(&logs).unwrap();
    std::fs::write(&logs, "").unwrap();
    let output = rig.call(tasks(&["late 0"])).await.unwrap();
    assert!(!output.content.contains("diagnostic_path"), "{}", output.content);
}

#[tokio::test]
async fn the_form_with_one_text_says_how_its_child_ended() {
    let rig = Rig::new(Policy { form: Form::Task, max_summary_bytes: 40, ..Policy::default() });
    let mut lines = Vec::new();
    let long = format!("{} {}", "a".repeat(50), "b".repeat(50));
    for text in ["Fine.", "limit", "cut", "empty", "fail", "late 0", "", &long] {
        let line = match rig.call(json!({ "description": text })).await {
            Ok(output) => format!("{}\n{}", output.content, output.notes.join("\n")),
            Err(ToolError::Partly { text, output }) => {
                format!("{}\n{}\n{}", text.as_str(), output.content, output.notes.join("\n"))
            }
            Err(ToolError::Refused(text)) => format!("refused: {}", text.as_str()),
            Err(other) => panic!("{other}"),
        };
        let folder = rig.folder.path().display().to_string();
        lines.push(format!("{text:.9}: {}", line.replace(&folder, "STATE")));
    }
    insta::assert_snapshot!(lines.join("\n---\n"));
    assert_eq!(rig.tool.spec().decl.name.as_str(), "task");
    assert_eq!(rig.tool.declare(&rig.agent).unwrap().name.as_str(), "task");
}

#[tokio::test]
async fn children_of_an_earlier_process_count_and_the_limit_is_named() {
    let rig = Rig::new(Policy { max_children_per_session: 3, ..Policy::default() });
    let root = rig.agent.id().clone();
    let earlier = root.child(deputize_core::CallId { step: 9, slot: 0 }, 0);
    *rig.home.known.lock().unwrap() = vec![
        root.clone(),
        earlier.clone(),
        earlier.child(deputize_core::CallId { step: 1, slot: 0 }, 0),
    ];
    let told = refusal(rig.call(tasks(&["a", "b"])).await);
    assert!(told.contains("2 were started and the limit is 3 (delegation.max_ch"), "{told}");
    assert!(told.contains("would start 2 children, which is too many"), "{told}");
    assert!(rig.call(tasks(&["a"])).await.is_ok());

    // The agent's own limit is another one.
    let rig = Rig::new(Policy { max_children_per_session: 300, ..Policy::default() });
    *rig.home.known.lock().unwrap() =
        (0..199).map(|n| root.child(deputize_core::CallId { step: 9, slot: 0 }, n)).collect();
    let told = refusal(rig.call(tasks(&["a", "b"])).await);
    let part = "199 were started and the limit is 200 (for all below this agent, of";
    assert!(told.contains(part), "{told}");
}

#[tokio::test]
async fn a_background_child_is_told_of_as_one_that_was_waited_for() {
    let policy = Policy { background: true, max_summary_bytes: 40, ..Policy::default() };
    let rig = Rig::new(policy);
    let root = rig.agent.id().clone();
    let read = rig.folder.path().join("read.txt");
    std::fs::write(&read, "old").unwrap();
    rig.agent.session.files.saw(&root, &read, Version::of(b"old"));
    let goal = format!("I wrote ghost.rs. {}", "x".repeat(60));
    let arguments = json!({"tasks": [{"goal": goal}, {"goal": "late 0"}], "background": true});
    rig.call(arguments).await.unwrap();
    // A command of the first one writes behind the ledger's back.
    std::fs::write(&read, "newer").unwrap();
    let specs = rig.home.attached.lock().unwrap().clone();
    let mut first = outcome(&specs[0], Status::Completed);
    first.receipts.commands.push(("make".to_owned(), Some(0)));
    let mut second = outcome(&specs[1], Status::Completed);
    ended(&mut second, "late 0");
    let background = crate::Background::new(rig.tool.policy.clone(), Arc::new(FixedClock(0)));
    let told = |index: usize, child: &mut Outcome| {
        let found = deputize_core::Handoff::found(&background, &rig.agent, &specs[index], child);
        child.found = found.map(Box::new);
        let output = deputize_core::Handoff::told(&background, &rig.agent, child);
        // The facts of the host stand in no frame of the child's.
        assert_eq!(output.source, Some(Source::Tool("delegate_task".to_owned())));
        let value: Value = serde_json::from_str(&output.content).unwrap();
        (value["results"][0].clone(), output.notes.join("\n"))
    };
    let (entry, notes) = told(0, &mut first);
    assert_eq!(entry["stale_paths"], json!([read]));
    assert_eq!(entry["unseen_writes"], json!(["ghost.rs"]));
    let path = entry["summary_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), goal);
    assert!(notes.contains("Changed since you read them") && notes.contains("ghost.rs"), "{notes}");
    let (entry, notes) = told(1, &mut second);
    assert!(Path::new(entry["diagnostic_path"].as_str().unwrap()).exists(), "{entry}");
    assert_eq!((&entry["stale_paths"], notes.as_str()), (&Value::Null, ""));
}

#[tokio::test]
async fn handles_say_which_children_wait_for_a_place() {
    let policy = Policy { background: true, over_limit: OverLimit::Queue, ..Policy::default() };
    let rig = Rig::new(Policy { max_concurrent_children: 2, ..policy });
    let goals: Vec<Value> = ["a", "b", "c"].iter().map(|goal| json!({"goal": goal})).collect();
    let output = rig.call(json!({"tasks": goals, "background": true})).await.unwrap();
    assert_eq!(entries(&output), ["running", "running", "waiting"]);
}

#[tokio::test]
async fn a_task_that_a_pause_kept_waiting_did_not_fail() {
    let rig = Rig::new(Policy::default());
    let output = rig.call(tasks(&["paused"])).await.unwrap();
    assert!(entries(&output)[0].starts_with("interrupted | "), "{:?}", entries(&output));
    assert!(matches!(&output.facts[..], [Fact::NotBegun { task_index: 0, .. }]));
}

#[tokio::test]
async fn what_is_found_out_of_a_child_stands_in_its_entry_for_everybody() {
    let rig = Rig::new(Policy { max_summary_bytes: 40, ..Policy::default() });
    let root = rig.agent.id().clone();
    rig.agent.session.files.saw(&root, Path::new("/repo/app/a.rs"), Version::of(b"old"));
    let background = crate::Background::new(rig.tool.policy.clone(), Arc::new(FixedClock(0)));
    let goal = format!("I wrote ghost.rs. {}", "x".repeat(60));
    rig.call(tasks(&["fine", &goal, "late 0"])).await.unwrap();
    let specs = rig.home.attached.lock().unwrap().clone();
    let entry = |index: usize, end: &dyn Fn(&mut Outcome)| {
        let mut outcome = outcome(&specs[index], Status::Completed);
        end(&mut outcome);
        let found = deputize_core::Handoff::found(&background, &rig.agent, &specs[index], &outcome);
        outcome.found = found.map(Box::new);
        crate::result_entry(&outcome, index as u32)
    };
    let fine = entry(0, &|_| {});
    for field in ["stale_paths", "unseen_writes", "summary_path", "diagnostic_path"] {
        assert_eq!(fine[field], Value::Null, "{field}");
    }
    let named = entry(1, &|end| {
        end.receipts.files_written.insert(PathBuf::from("/repo/app/a.rs"), Version::of(b"new"));
    });
    assert_eq!(named["unseen_writes"], json!(["ghost.rs"]));
    assert_eq!(named["stale_paths"], json!(["/repo/app/a.rs"]));
    assert_eq!(std::fs::read_to_string(named["summary_path"].as_str().unwrap()).unwrap(), goal);
    let late = entry(2, &|end| ended(end, "late 0"));
    assert!(Path::new(late["diagnostic_path"].as_str().unwrap()).exists(), "{late}");
}

#[tokio::test]
async fn a_child_works_where_its_parents_shell_is() {
    let rig = Rig::new(Policy::default());
    let cwd = |rig: &Rig| rig.home.attached.lock().unwrap().last().unwrap().cwd.clone();
    let place = rig.agent.store.get_or_insert_with(deputize_core::ShellPlace::default);
    rig.call(json!({"goal": "a"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/repo/app"));
    let folder = rig.folder.path();
    place.set(folder);
    rig.call(json!({"goal": "b"})).await.unwrap();
    assert_eq!(cwd(&rig), folder);
    let system = rig.home.attached.lock().unwrap().last().unwrap().system.join("\n");
    assert!(system.contains(folder.to_str().unwrap()), "{system}");
    // One that is gone is no place to work.
    place.set(&folder.join("gone"));
    rig.call(json!({"goal": "c"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/repo/app"));
    // What is configured comes first.
    let rig = Rig::new(Policy { workspace: Some("/configured".into()), ..Policy::default() });
    rig.agent.store.get_or_insert_with(deputize_core::ShellPlace::default).set(rig.folder.path());
    rig.call(json!({"goal": "d"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/configured"));
}

#[tokio::test]
async fn stopping_all_must_be_said_and_lists_are_read_leniently() {
    let rig = Rig::new(Policy::default());
    let control = crate::ControlTool::new().unwrap();
    let child = rig.agent.id().child(deputize_core::CallId { step: 1, slot: 0 }, 0);
    *rig.home.known.lock().unwrap() = vec![child.clone()];
    let cx = ToolCx {
        call: deputize_core::CallId { step: 2, slot: 0 },
        agent: Arc::clone(&rig.agent),
        cancel: rig.cancel.clone(),
    };
    for agents in
        [json!({}), json!({"agents": null}), json!({"agents": "[]"}), json!({"agents": []})]
    {
        let mut arguments = agents.clone();
        arguments["action"] = json!("stop");
        let told = refusal(control.call(arguments.clone(), &cx).await);
        assert!(told.contains("`all`: true"), "{told}");
        arguments["action"] = json!("list");
        assert!(control.call(arguments, &cx).await.unwrap().content.contains(child.as_str()));
    }
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 0);
    let listed = json!([child]).to_string();
    for chosen in [json!({"all": true}), json!({"agents": [child]}), json!({"agents": listed})] {
        let mut arguments = chosen;
        arguments["action"] = json!("stop");
        control.call(arguments, &cx).await.unwrap();
    }
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_call_of_delegate_control_is_read_as_one_of_delegate_task() {
    let rig = Rig::new(Policy::default());
    let control = crate::ControlTool::new().unwrap();
    assert!(control.reads_itself());
    let child = rig.agent.id().child(deputize_core::CallId { step: 1, slot: 0 }, 0);
    *rig.home.known.lock().unwrap() = vec![child.clone()];
    let cx = ToolCx {
        call: deputize_core::CallId { step: 2, slot: 0 },
        agent: Arc::clone(&rig.agent),
        cancel: rig.cancel.clone(),
    };
    // What says nothing is absent, words are taken in any case, and what nobody reads is told.
    let odd = json!({
        "action": " List ", "agents": "[]", "all": null, "message": "", "wait_for": [], "id": 1,
    });
    for arguments in [odd.clone(), json!(odd.to_string())] {
        let told = control.call(arguments, &cx).await.unwrap().content;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["agents"][0]["agent"], json!(child));
        assert_eq!(told["warnings"], json!(["unknown field `id` ignored"]));
    }
    let stopped = json!({"action": "stop", "all": "true", "agents": null});
    assert!(!control.call(stopped, &cx).await.unwrap().content.contains("warnings"));
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 1);
    // All that is wrong is told at once, and nothing is done.
    let mut wrong = String::new();
    for arguments in [
        json!({"action": "halt", "agents": [child, "s/9", 7], "all": "perhaps", "wait_for": "one"}),
        json!({"action": "stop", "agents": ["s/9", child]}),
        json!({"action": "message", "agents": [child], "message": "\u{200b}", "colour": 1}),
        json!({"action": "message", "message": "x".repeat(70_000)}),
        json!({}),
        json!([1]),
        json!("{\"action\": "),
    ] {
        wrong += &format!("{}\n", refusal(control.call(arguments, &cx).await));
    }
    insta::assert_snapshot!(wrong);
    assert_eq!(rig.home.stopped.load(Ordering::SeqCst), 1);
}
