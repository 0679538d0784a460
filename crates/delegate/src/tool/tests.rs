use std::future::pending;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use deputize_core::{
    Agent, AgentSpec, AttachError, Cancel, CancelReason, ExitReason, FixedClock, Receipts, Role,
    SessionView, Spawn, Status, Store, ToolOutput, Usage, Version,
};
use tokio::sync::Notify;

use super::*;
use crate::fixture::Family;

const TOOLS: &str = "file/read_file file/write_file delegation/delegate_task";

/// What a scripted child does, by the goal it is given.
///
/// - `wait`: until it is released or interrupted;
/// - `panic`, `refuse`: that;
/// - `write FILE`: writes it;
/// - `wrote FILE`: has written it before this process was;
/// - anything else: it answers with its goal.
#[derive(Default)]
struct Children {
    attached: Mutex<Vec<AgentSpec>>,
    running: AtomicUsize,
    most: AtomicUsize,
    arrived: Notify,
    release: Cancel,
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

fn outcome(spec: &AgentSpec, status: Status) -> Outcome {
    Outcome {
        agent: spec.id.clone(),
        status,
        exit_reason: match status {
            Status::Interrupted => ExitReason::Interrupted,
            _ => ExitReason::Completed,
        },
        text: Some(spec.goal.clone()),
        error: (status == Status::Interrupted).then(|| "interrupted".to_owned()),
        partial: false,
        provider_unavailable: false,
        model: spec.model.clone(),
        iterations: 1,
        usage: Usage::default(),
        children_usage: Usage::default(),
        cost_usd: None,
        duration_ms: 10,
        trace: Vec::new(),
        receipts: Receipts::default(),
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
        self.0.attached.lock().unwrap().push(spec.clone());
        Ok(Box::new(Child { spec, cancel: cancel.clone(), home: Arc::clone(&self.0) }))
    }
}

/// A parent that can call the tool.
struct Rig {
    home: Arc<Children>,
    tool: DelegateTool,
    agent: Arc<AgentView>,
    cancel: Cancel,
    slot: AtomicU32,
}

impl Rig {
    fn new(policy: Policy) -> Self {
        let home = Arc::new(Children::default());
        let session = Arc::new(SessionView {
            id: deputize_core::SessionId::literal("s1"),
            spill: PathBuf::from("/spill"),
            files: FileLedger::default(),
            settings: Store::default(),
            spawn: Arc::new(Home(Arc::clone(&home))),
        });
        *home.session.lock().unwrap() = Some(Arc::clone(&session));
        let Family { spec, authority, catalog } = Family::new(TOOLS);
        let agent = Arc::new(AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::new(catalog),
            declared: Vec::new(),
            store: Store::default(),
            session,
        });
        let tool = DelegateTool::new(policy, Arc::new(FixedClock(0))).unwrap();
        Self { home, tool, agent, cancel: Cancel::new(), slot: AtomicU32::new(0) }
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
    insta::assert_snapshot!(refused, @r#"{"error":"no child was started: 2 calls of `delegate_task` are running, which is the limit: put the work into one call with `tasks`, make this call when one of them has ended, or have the person raise delegation.max_concurrent_children","errors":[{"code":"E_TOO_MANY_CALLS","task_index":null,"task":null,"field":"","value":2,"remedy":"2 calls of `delegate_task` are running, which is the limit: put the work into one call with `tasks`, make this call when one of them has ended, or have the person raise delegation.max_concurrent_children"}],"warnings":[]}"#);
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
            "interrupted | interrupted before it was started"
        ]
    );
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
    insta::assert_snapshot!(refusal(rig.call(tasks(&["c", "d", "e"])).await), @r#"{"error":"no child was started: 3 more children would be too many: 2 were started and the limit is 4 (delegation.max_children_per_session); work with the results there are, or send fewer tasks","errors":[{"code":"E_TOO_MANY_CHILDREN","task_index":null,"task":null,"field":"","value":4,"remedy":"3 more children would be too many: 2 were started and the limit is 4 (delegation.max_children_per_session); work with the results there are, or send fewer tasks"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), ["a", "b"]);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
    // Repeating a call costs nothing, since it attaches the same children.
    rig.slot.store(2, Ordering::SeqCst);
    assert!(rig.call(tasks(&["c", "d"])).await.is_ok());
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
