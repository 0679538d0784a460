//! What holds of a child because of how it is attached: no secret in its words, a model that it
//! may use, a way to it of its own, a warning for what is decided for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, SpawnedBy};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::event::LogLevel;
use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request};
use deputize_core::policy::Verdict;
use deputize_core::schema::Schema;
use deputize_core::{
    AgentView, Authority, BoxFuture, Cancel, CatalogEntry, Event, Message, Model, Origin, Outcome,
    Policy, SessionId, Tool, ToolCallResult, ToolCx, ToolDecl, ToolError, ToolName, ToolOutput,
    ToolSpec, ToolsetName,
};
use deputize_runtime::{Continue, Session, SessionConfig, SessionDir, ToolConfig};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fixture::{
    RuleModel, World, attach, authority, catalog, config, cut, results, resumed, run, spec,
};

const CANARY: &str = "sk-canary-12345678";

/// Has one child, made as the test says, and gives what came of it.
struct ChildTool {
    spec: ToolSpec,
    make: fn(AgentSpec) -> AgentSpec,
}

impl Tool for ChildTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let parent = &cx.agent.spec;
            let child = (self.make)(AgentSpec {
                id: parent.id.child(cx.call, 0),
                parent: Some(parent.id.clone()),
                depth: 1,
                spawned_by: Some(SpawnedBy { call: cx.call, task_index: 0, task_count: 1 }),
                task: "child".to_owned(),
                ..AgentSpec::clone(parent)
            });
            let agent = attach(cx, &child).await.map_err(ToolError::refused)?;
            let Outcome { text, error, .. } = agent.outcome().await;
            Ok(ToolOutput::text(text.or(error).unwrap_or_default()))
        })
    }
}

/// The top agent has one child; that one acts once, and answers.
fn rule(results: usize, request: &Request<'_>) -> Result<Reply, ModelError> {
    let Message::User(first) = &*request.messages[0] else { unreachable!() };
    Ok(match (first.text.as_str(), results) {
        ("go", 0) => Reply::calls("rule", [("hand", json!({}))]),
        (task, 0) if task.starts_with("child") => {
            Reply::calls("rule", [("act", json!({"command": "make all"}))])
        }
        _ => Reply::text("rule", "done"),
    })
}

fn family(world: &Arc<World>, make: fn(AgentSpec) -> AgentSpec) -> SessionConfig {
    let mut catalog = catalog(world);
    let decl = ToolDecl {
        name: ToolName::literal("hand"),
        description: String::new(),
        parameters: Schema::new(&json!({"type": "object"})).unwrap(),
    };
    let tool_spec = ToolSpec { time_limit: None, spawns: true, ..ToolSpec::read_only(decl) };
    let tool = Arc::new(ChildTool { spec: tool_spec, make });
    let origin = Origin::Linked { krate: "test".into() };
    catalog.insert(CatalogEntry { toolset: ToolsetName::literal("test"), origin, tool }).unwrap();
    SessionConfig { tools: ToolConfig::new(catalog), ..config(world, rule) }
}

async fn ran(folder: &Path, config: SessionConfig, grant: &Grant) -> Outcome {
    run_family(&create(folder, config), folder, grant).await
}

fn create(folder: &Path, config: SessionConfig) -> Session {
    Session::create(&SessionDir::new(folder), SessionId::literal("s"), config).unwrap()
}

async fn run_family(session: &Session, folder: &Path, grant: &Grant) -> Outcome {
    let mut top = spec(folder);
    top.tools.push(ToolName::literal("hand"));
    top.approver = ApproverMode::Auto;
    let authority = Authority::root(
        session.catalog(),
        &Grant {
            spawn_depth: Some(1),
            spawn_number: Some(9),
            approver: Some(ApproverMode::Auto),
            ..grant.clone()
        },
    );
    session.run(top, authority, &Cancel::new()).await
}

#[tokio::test]
async fn no_secret_is_in_what_a_child_reads() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let make = |spec| AgentSpec {
        goal: format!("goal {CANARY}"),
        task: format!("child {CANARY}"),
        context: Some(format!("context {CANARY}")),
        system: vec![format!("system {CANARY}").into()],
        ..spec
    };
    let sent = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&sent);
    let mut config = family(&world, make);
    let watched = move |results: usize, request: &Request<'_>| {
        let expected = format!("{:?} {:?}\n", request.system, request.messages);
        log.lock().push_str(&expected);
        rule(results, request)
    };
    config.models.insert("t/rule", "rule", Arc::new(RuleModel(watched)));
    config.secrets.add("KEY", CANARY);
    ran(folder.path(), config, &Grant::default()).await;
    let sent = sent.lock();
    assert!(sent.contains("system [redacted:KEY]") && sent.contains("child [redacted:KEY]"));
    assert!(!sent.contains(CANARY), "{sent}");
    let file = SessionDir::new(folder.path()).file(&SessionId::literal("s"));
    let kept = std::fs::read_to_string(file).unwrap();
    for expected in ["goal", "child", "context", "system"] {
        assert!(kept.contains(&format!("{expected} [redacted:KEY]")), "{expected}");
    }
    assert!(!kept.contains(CANARY));
}

#[tokio::test]
async fn a_child_has_only_a_model_that_it_may_use_and_goes_on_with_no_other() {
    let only = Grant { models: Some(BTreeSet::from(["t/rule".to_owned()])), ..Grant::default() };
    let other = |spec| AgentSpec { model: "t/other".to_owned(), ..spec };
    let down = |_: usize, _: &Request<'_>| Err(ModelError::new(FailureKind::Unavailable, "down"));
    for (make, allowed, expected) in [
        (other as fn(AgentSpec) -> AgentSpec, &only, "may not use the model `t/other`"),
        (other, &Grant::default(), "answered by the other"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let mut config = family(&world, make);
        let answer = |_: usize, _: &Request<'_>| Ok(Reply::text("o", "answered by the other"));
        config.models.insert("t/other", "other", Arc::new(RuleModel(answer)));
        ran(folder.path(), config, allowed).await;
        let results = results(&world);
        assert!(results.contains(expected), "{results}");
    }
    // To fall back on, too.
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config = family(&world, |spec| spec);
    config.models.insert("t/rule", "rule", Arc::new(RuleModel(down)));
    let answer = |_: usize, _: &Request<'_>| Ok(Reply::text("o", "answered by the other"));
    config.models.insert("t/other", "other", Arc::new(RuleModel(answer)));
    config.models.fallback(vec!["t/other".to_owned()]);
    let outcome = ran(folder.path(), config, &only).await;
    assert_eq!(outcome.text, None, "{outcome:?}");
}

#[tokio::test]
async fn one_that_is_taken_up_has_only_a_model_that_it_may_use_now() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    ran(folder.path(), family(&world, |spec| spec), &Grant::default()).await;
    let dir = SessionDir::new(folder.path());
    let file = dir.file(&SessionId::literal("s"));
    let records = dir.read(&SessionId::literal("s")).unwrap().records;
    // Up to the beginning of the child's call.
    let at =
        records.iter().position(|it| it.depth == 1 && matches!(it.event, Event::ToolStart { .. }));
    let whole = std::fs::read_to_string(&file).unwrap();
    let kept = whole.lines().take(at.unwrap() + 2).map(|line| format!("{line}\n"));
    std::fs::write(&file, kept.collect::<String>()).unwrap();
    let world = Arc::new(World::default());
    let mut now = family(&world, |spec| spec);
    now.children.grant.models = Some(BTreeSet::from(["t/other".to_owned()]));
    let (session, _) = Session::open(&dir, SessionId::literal("s"), now).unwrap();
    let authority = authority(session.catalog());
    session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap();
    let results = results(&world);
    assert!(results.contains("may not use the model `t/rule`"), "{results}");
}

/// Asks about acting.
struct AskingTool;

impl Policy for AskingTool {
    fn judge(&self, tool: &ToolSpec, _: &Value, _: &std::path::Path, _: &AgentView) -> Verdict {
        match tool.decl.name.as_str() {
            "act" => Verdict::Ask { class: "dangerous".into(), reason: "acting asks".into() },
            _ => Verdict::Allow,
        }
    }
}

#[tokio::test]
async fn what_is_decided_for_a_child_without_asking_is_a_warning_with_the_command() {
    let auto = |spec| AgentSpec { approver: ApproverMode::Auto, ..spec };
    let deny = |spec| AgentSpec { approver: ApproverMode::Deny, ..spec };
    for (make, expected, done) in [
        (auto as fn(AgentSpec) -> AgentSpec, "approved without asking: make all", 1),
        (deny, "denied without asking: make all", 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = Arc::new(World::default());
        let config = SessionConfig { policy: Arc::new(AskingTool), ..family(&world, make) };
        ran(folder.path(), config, &Grant::default()).await;
        let records = world.records.lock();
        let warnings = records.iter().filter(|it| it.depth == 1).filter_map(|it| match &it.event {
            Event::Log { level: LogLevel::Warn, message, .. } => Some(message.clone()),
            _ => None,
        });
        assert_eq!(warnings.collect::<Vec<_>>(), [expected]);
        assert_eq!(world.done().len(), done);
    }
}

/// A model that records which agent's route was used.
struct RouteModel {
    number: usize,
    made: Arc<Mutex<usize>>,
    used: Arc<Mutex<Vec<usize>>>,
}

impl Model for RouteModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.used.lock().push(self.number);
        let results = request.messages.iter().filter(|it| matches!(***it, Message::Tool(_)));
        let reply = rule(results.count(), request);
        Box::pin(std::future::ready(reply))
    }

    fn for_one_agent(&self) -> Option<Arc<dyn Model>> {
        let mut made = self.made.lock();
        *made += 1;
        let made_by = Arc::clone(&self.made);
        let used = Arc::clone(&self.used);
        Some(Arc::new(Self { number: *made, made: made_by, used }))
    }
}

#[tokio::test]
async fn each_agent_has_one_way_to_its_model_for_all_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let mut config = family(&world, |spec| spec);
    let used = Arc::new(Mutex::new(Vec::new()));
    let ways = RouteModel { number: 0, made: Arc::default(), used: Arc::clone(&used) };
    config.models.insert("t/rule", "rule", Arc::new(ways));
    ran(folder.path(), config, &Grant::default()).await;
    // The parent, its child twice, the parent again.
    assert_eq!(*used.lock(), [1, 2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_a_child_said_reaches_its_parent_also_where_nothing_takes_its_call_up() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        let Message::User(first) = &*request.messages[0] else { unreachable!() };
        Ok(match (first.text.as_str(), results) {
            ("go", 0) => Reply::calls("rule", [("spawn", json!({"list": ["one", "two"]}))]),
            ("two", 0 | 1) => Reply::calls("rule", [("look", json!({"n": results}))]),
            (task, _) => Reply::text("rule", format!("{task} said")),
        })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    // Killed when the first child had ended, and the second looked for the second time.
    let again = tempfile::tempdir().unwrap();
    let dir = cut(folder.path(), again.path(), r#"{\"n\":1}"#);
    let world = Arc::new(World::default());
    let catalog = catalog(&world).filtered(|entry| entry.name().as_str() != "spawn");
    let config = SessionConfig { tools: ToolConfig::new(catalog), ..config(&world, rule) };
    let outcome = resumed(&dir, config).await;
    assert_eq!(outcome.text.as_deref(), Some("go said"));
    let actual = results(&world);
    assert!(actual.contains("its outcome is unknown") && actual.contains("one said"), "{actual}");
    assert!(actual.contains("had ended (completed):") && !actual.contains("two said"), "{actual}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_its_parent_waits_for_starts_when_spawning_is_not_paused() {
    static CALLED: Notify = Notify::const_new();
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let config = family(&world, |child| {
        CALLED.notify_one();
        child
    });
    let session = create(folder.path(), config);
    let children = || {
        let records = world.records.lock();
        records.iter().filter(|record| record.depth == 1).count()
    };
    let control = session.control();
    assert!(control.pause(true, "a person").unwrap());
    let waits = async {
        CALLED.notified().await;
        assert_eq!(children(), 0);
        control.pause(false, "a person").unwrap();
    };
    let grant = Grant::default();
    let (outcome, ()) = tokio::join!(run_family(&session, folder.path(), &grant), waits);
    assert_eq!(outcome.text.as_deref(), Some("done"));
    assert!(children() > 0);
}
