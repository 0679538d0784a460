use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Weak;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use deputize_core::agent::{
    AgentActivity, AgentSpec, AgentSummary, AttachError, ContinueError, Delivery, FurtherTask, Role,
};
use deputize_core::clock::FixedClock;
use deputize_core::file_state::{FileLedger, FileVersion};
use deputize_core::model::Usage;
use deputize_core::outcome::{ExitReason, Receipts};
use deputize_core::source::Source;
use deputize_core::tool::{
    AgentControl, ChildLifecycle as _, ChildStart, DescendantCounts, DescendantLimit, SessionView,
    Spawn, SpawnConditions,
};
use deputize_core::{
    Agent, AgentId, CallId, Cancel, CancelReason, Outcome, ResourceMap, Status, ToolOutput,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::background::BackgroundPolicy;
use crate::config::{DelegationHost, DelegationLimits, DelegationOptions, OverLimit};
use crate::fixture::ParentFixture;

mod background;
mod cancel;
mod found;
mod limits;

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
    /// Agents that are known to the session.
    known: Mutex<Vec<AgentId>>,
    stopped: AtomicUsize,
    session: Mutex<Option<Arc<SessionView>>>,
    parent: Mutex<Option<(Weak<AgentView>, Arc<BackgroundPolicy>)>>,
}

impl Children {
    fn counts(&self, parent: &AgentView) -> DescendantCounts {
        let count = u32::try_from(self.known.lock().len()).unwrap();
        let most_below = parent.authority.spawn_number();
        DescendantCounts { session: count, below: count, most_below }
    }
}

/// A child, which is inspected at its end as the runtime does it.
struct Child {
    parent: Weak<AgentView>,
    lifecycle: Arc<BackgroundPolicy>,
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
                let version = FileVersion::of(b"new");
                outcome.receipts.files_written.insert(PathBuf::from(path), version);
            }
            let parent = self.parent.upgrade().unwrap();
            let found = self.lifecycle.inspect(&parent, &self.spec, &outcome).await;
            outcome.inspection = found.map(Box::new);
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
                let session = self.home.session.lock().clone().unwrap();
                session.files.record_write(&self.spec.id, Path::new(path), FileVersion::of(b"new"));
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
        profile: None,
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
        cause: None,
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
        inspection: None,
        session_path: None,
    }
}

struct Home(Arc<Children>);

impl Home {
    fn start(&self, spec: AgentSpec, cancel: &Cancel) -> Result<Box<dyn Agent>, AttachError> {
        if spec.goal == "refuse" {
            return Err(AttachError::Model("local/none".to_owned()));
        }
        if spec.goal == "paused" {
            return Err(AttachError::Paused("somebody".to_owned()));
        }
        self.0.attached.lock().push(spec.clone());
        let (parent, lifecycle) = self.0.parent.lock().clone().unwrap();
        let cancel = cancel.clone();
        let home = Arc::clone(&self.0);
        Ok(Box::new(Child { parent, lifecycle, spec, cancel, home }) as Box<dyn Agent>)
    }
}

impl Spawn for Home {
    fn attach<'a>(
        &'a self,
        parent: &'a AgentView,
        children: Vec<&'a Arc<AgentSpec>>,
        per_session: Option<u32>,
        cancel: &'a Cancel,
    ) -> Result<Vec<ChildStart<'a>>, DescendantLimit> {
        let ids: BTreeSet<AgentId> = children.iter().map(|spec| spec.id.clone()).collect();
        let known: BTreeSet<AgentId> = self.0.known.lock().iter().cloned().collect();
        let new: Vec<AgentId> = ids.difference(&known).cloned().collect();
        if !new.is_empty() {
            self.0.counts(parent).check(new.len(), per_session)?;
        }
        self.0.known.lock().extend(new);
        let start = |spec: &'a Arc<AgentSpec>| {
            ChildStart::new(move || Box::pin(async { self.start((**spec).clone(), cancel) }))
        };
        Ok(children.into_iter().map(start).collect())
    }

    fn conditions<'a>(
        &'a self,
        parent: &'a AgentView,
        _: CallId,
    ) -> BoxFuture<'a, SpawnConditions> {
        let children = self.0.known.lock().iter().cloned().collect();
        let catalog = Arc::clone(&parent.catalog);
        let counts = self.0.counts(parent);
        let conditions = SpawnConditions { catalog, paused_by: None, children, counts };
        Box::pin(std::future::ready(conditions))
    }
}

impl AgentControl for Home {
    fn descendants(&self, _: &AgentId) -> Vec<AgentSummary> {
        let glance = |id: AgentId| AgentSummary {
            id,
            goal: String::new(),
            activity: AgentActivity::Running,
            iteration: 1,
            current_tool: None,
            idle_ms: 0,
        };
        self.0.known.lock().iter().cloned().map(glance).collect()
    }

    fn unreported(&self, _: &AgentId) -> Vec<AgentId> {
        Vec::new()
    }

    fn stop(&self, _: &AgentId) -> bool {
        self.0.stopped.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn message(&self, _: &AgentId, _: &AgentId, _: String) -> Delivery {
        Delivery::Ended
    }

    fn join<'a>(&'a self, _: &'a [AgentId], _: bool) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn continue_child<'a>(
        &'a self,
        _: &'a AgentView,
        _: &'a AgentId,
        _: &'a FurtherTask,
    ) -> BoxFuture<'a, Result<(), ContinueError>> {
        Box::pin(std::future::ready(Err(ContinueError::Running)))
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
    fn new(config: DelegationConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sessions")).unwrap();
        let config = DelegationConfig {
            host: DelegationHost { logs: Some(folder.path().join("logs")), ..config.host },
            ..config
        };
        let home = Arc::new(Children::default());
        let session = Arc::new(SessionView {
            id: deputize_core::SessionId::literal("s1"),
            spill: folder.path().join("sessions/s1"),
            files: FileLedger::default(),
            settings: ResourceMap::default(),
            spawn: Arc::new(Home(Arc::clone(&home))),
            control: Arc::new(Home(Arc::clone(&home))),
        });
        *home.session.lock() = Some(Arc::clone(&session));
        let tools = if config.options.tool_name == ToolFlavor::Task { TASK_TOOLS } else { TOOLS };
        let ParentFixture { spec, authority, catalog } = ParentFixture::new(tools);
        let agent = Arc::new(AgentView {
            spec: Arc::new(spec),
            authority: Arc::new(authority),
            catalog: Arc::new(catalog),
            declared: Vec::new(),
            store: ResourceMap::default(),
            session,
        });
        let lifecycle = BackgroundPolicy::new(config.clone(), Arc::new(FixedClock(0)));
        *home.parent.lock() = Some((Arc::downgrade(&agent), Arc::new(lifecycle)));
        let tool = DelegateTool::new(config, Arc::new(FixedClock(0))).unwrap();
        Self { home, tool, agent, cancel: Cancel::new(), slot: AtomicU32::new(0), folder }
    }

    async fn call(&self, arguments: Value) -> ToolCallResult {
        let slot = self.slot.fetch_add(1, Ordering::SeqCst);
        let cx = ToolCx {
            call: deputize_core::CallId::new(1, slot),
            agent: Arc::clone(&self.agent),
            cancel: self.cancel.clone(),
        };
        self.tool.call(arguments, &cx).await
    }

    fn attached(&self) -> Vec<String> {
        self.home.attached.lock().iter().map(|spec| spec.goal.clone()).collect()
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

/// Returns status and goal of each entry, in the order of the report.
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
    let rig = Rig::new(DelegationConfig::default());
    let call = rig.call(tasks(&["wait a", "b", "c"]));
    let release = async {
        rig.until_attached(3).await;
        rig.home.release.cancel(CancelReason::Interrupted);
    };
    let (output, ()) = tokio::join!(call, release);
    let output = output.unwrap();
    assert_eq!(entries(&output), ["completed | wait a", "completed | b", "completed | c"]);
    let attached = rig.home.attached.lock();
    assert_eq!(attached[2].id.as_str(), "s1/1.0.2");
    assert!(attached.iter().all(|spec| spec.role == Role::Leaf && spec.depth == 1));
}

#[tokio::test]
async fn a_child_that_fails_costs_the_others_nothing() {
    let rig = Rig::new(DelegationConfig::default());
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
async fn a_wrong_call_is_answered_with_an_object_of_errors() {
    let rig = Rig::new(DelegationConfig::default());
    let refused = refusal(rig.call(json!({"goal": "A", "quarantine": true})).await);
    insta::assert_snapshot!(refused, @r#"{"error":"no child was started: 1 thing in this call is wrong, see `errors`","errors":[{"code":"E_NOT_IN_THIS_VERSION","task_index":null,"task":null,"field":"quarantine","value":true,"remedy":"`quarantine` is not in this version; leave it out"}],"warnings":[]}"#);
    assert_eq!(rig.attached(), [] as [&str; 0]);
}

#[test]
fn what_its_spec_accepts_includes_whatever_is_declared_to_the_model() {
    let rig = Rig::new(DelegationConfig::default());
    assert_eq!(rig.tool.spec().decl.parameters.as_str(), r#"{"type":"object"}"#);
    let declared = rig.tool.declare(&rig.agent).unwrap();
    assert_eq!(declared.name, rig.tool.spec().decl.name);
}

#[tokio::test]
async fn the_form_with_one_text_says_how_its_child_ended() {
    let rig = Rig::new(DelegationConfig {
        limits: DelegationLimits { max_summary_bytes: 40, ..DelegationLimits::default() },
        options: DelegationOptions { tool_name: ToolFlavor::Task, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    });
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
async fn a_child_works_where_its_parents_shell_is() {
    let rig = Rig::new(DelegationConfig::default());
    let cwd = |rig: &Rig| rig.home.attached.lock().last().unwrap().cwd.clone();
    let place =
        rig.agent.store.get_or_insert_with(deputize_core::shell_directory::ShellPlace::default);
    rig.call(json!({"goal": "a"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/repo/app"));
    let folder = rig.folder.path();
    place.set(folder);
    rig.call(json!({"goal": "b"})).await.unwrap();
    assert_eq!(cwd(&rig), folder);
    let system = rig.home.attached.lock().last().unwrap().system.join("\n");
    assert!(system.contains(folder.to_str().unwrap()), "{system}");
    // One that is gone is no place to work.
    place.set(&folder.join("gone"));
    rig.call(json!({"goal": "c"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/repo/app"));
    // What is configured comes first.
    let rig = Rig::new(DelegationConfig {
        host: DelegationHost { workspace: Some("/configured".into()), ..DelegationHost::default() },
        ..DelegationConfig::default()
    });
    rig.agent
        .store
        .get_or_insert_with(deputize_core::shell_directory::ShellPlace::default)
        .set(rig.folder.path());
    rig.call(json!({"goal": "d"})).await.unwrap();
    assert_eq!(cwd(&rig), Path::new("/configured"));
}
