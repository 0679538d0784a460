//! A model by rule, tools that misbehave on purpose, and a session around them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deputize_core::agent::{AgentLimits, AgentSpec, SpawnedBy};
use deputize_core::authority::Grant;
use deputize_core::file_state::FileVersion;
use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::schema::Schema;
use deputize_core::{
    Agent, Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Effects, Event, Message, Model,
    Observer, Origin, Outcome, Record, SessionId, Tool, ToolCallResult, ToolCx, ToolDecl,
    ToolEffect, ToolError, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_runtime::{
    Continue, Models, RecordConfig, Session, SessionConfig, SessionDir, top_agent,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A model that answers by a rule: the number of results it has seen, and the request.
pub(crate) struct RuleModel<F>(pub(crate) F);

impl<F> Model for RuleModel<F>
where
    F: Fn(usize, &Request<'_>) -> Result<Reply, ModelError> + Send + Sync,
{
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(ModelError::new(
                    deputize_core::model::FailureKind::Cancelled,
                    "told to end",
                ));
            }
            let results = request.messages.iter().filter(|m| matches!(***m, Message::Tool(_)));
            (self.0)(results.count(), request)
        })
    }
}

/// What the tools did, and what they wait for.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) done: Mutex<Vec<String>>,
    pub(crate) release: Notify,
    pub(crate) running: AtomicU32,
    pub(crate) most_running: AtomicU32,
    pub(crate) records: Mutex<Vec<Record>>,
}

impl World {
    pub(crate) fn done(&self) -> Vec<String> {
        self.done.lock().clone()
    }
}

pub(crate) struct Watch(pub(crate) Arc<World>);

impl Observer for Watch {
    fn on_record(&self, record: &Record) {
        self.0.records.lock().push(record.clone());
    }
}

pub(crate) type Act = for<'a> fn(&'a World, Value, &'a ToolCx) -> BoxFuture<'a, ToolCallResult>;

struct ActTool {
    spec: ToolSpec,
    world: Arc<World>,
    act: Act,
}

impl Tool for ActTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let running = self.world.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.world.most_running.fetch_max(running, Ordering::SeqCst);
            let result = (self.act)(&self.world, arguments, cx).await;
            self.world.running.fetch_sub(1, Ordering::SeqCst);
            result
        })
    }
}

pub(crate) fn decl(name: &str) -> ToolDecl {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}}, "command": {"type": "string"}},
        "additionalProperties": false,
    });
    ToolDecl {
        name: ToolName::new(name).unwrap(),
        description: format!("The tool {name}."),
        parameters: Schema::new(&schema).unwrap(),
    }
}

/// Looks; looking at 77 releases a call that waits, and a command that is a number shows so many
/// bytes.
pub(crate) fn look<'a>(
    world: &'a World,
    arguments: Value,
    cx: &'a ToolCx,
) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        world.done.lock().push(format!("look {} {arguments}", cx.call));
        if arguments["n"] == 77 {
            world.release.notify_one();
        }
        let size = arguments["command"].as_str().and_then(|size| size.parse().ok());
        let text = size.map_or_else(|| format!("saw {arguments}"), |size| "z".repeat(size));
        Ok(ToolOutput::text(text))
    })
}

fn act<'a>(world: &'a World, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        world.done.lock().push(format!("act {} {arguments}", cx.call));
        Ok(ToolOutput::text("acted"))
    })
}

/// Says that it ran a command that wrote a file, of the number `n` if there is one.
fn make<'a>(_: &'a World, arguments: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        let command = arguments["command"].as_str().unwrap_or_default().to_owned();
        let version = FileVersion::of(command.as_bytes());
        let number = arguments["n"].as_u64();
        let path = number.map_or_else(|| "/w/made".to_owned(), |n| format!("/w/made/{n}"));
        let output = ToolOutput::text("made")
            .fact(ToolEffect::Command { command, exit_code: Some(0), unknown: false })
            .fact(ToolEffect::FileWritten { path: path.into(), version, created: true });
        Ok(output)
    })
}

fn crash<'a>(_: &'a World, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async { panic!("on purpose") })
}

fn broken<'a>(_: &'a World, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async { Err(ToolError::failed("the secret cable is cut")) })
}

fn wait<'a>(world: &'a World, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        tokio::select! {
            () = world.release.notified() => Ok(ToolOutput::text("released")),
            () = cx.cancel.cancelled() => {
                Err(ToolError::Cancelled(Box::new(ToolOutput::text("this far"))))
            }
        }
    })
}

fn deaf<'a>(_: &'a World, _: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(std::future::pending())
}

/// Attaches to one child of the agent that calls.
pub(crate) async fn attach(cx: &ToolCx, spec: &AgentSpec) -> Result<Box<dyn Agent>, String> {
    let spec = Arc::new(spec.clone());
    let starts = cx.agent.session.spawn.attach(&cx.agent, vec![&spec], None, &cx.cancel);
    let start = starts.map_err(|over| over.to_string())?.pop().unwrap();
    start.start().await.map_err(|error| error.to_string())
}

/// Spawns one child per item of `list`, at most `n` at a time, and gives their answers. Nobody waits for those whose
/// item begins with "background"; one that begins or ends with "timed" has a
/// time limit, and one that begins or ends with "untimed" none.
fn spawn<'a>(_: &'a World, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
    Box::pin(async move {
        let goals: Vec<String> = serde_json::from_value(arguments["list"].clone()).unwrap();
        let most = arguments["n"].as_u64().map_or(usize::MAX, |most| most as usize);
        let parent = &cx.agent.spec;
        let mut running = FuturesUnordered::new();
        let mut ended = Vec::new();
        let task_count = goals.len() as u32;
        for (index, goal) in (0..).zip(goals) {
            let spec = AgentSpec {
                id: parent.id.child(cx.call, index),
                parent: Some(parent.id.clone()),
                depth: parent.depth + 1,
                spawned_by: Some(SpawnedBy { call: cx.call, task_index: index, task_count }),
                model: model_of(&goal, &parent.model).to_owned(),
                grant: Grant::default(),
                limits: limits_of(&goal, parent.limits),
                background: goal.starts_with("background"),
                output_schema: None,
                task: goal,
                ..AgentSpec::clone(parent)
            };
            let background = spec.background;
            if running.len() >= most {
                ended.extend(running.next().await);
            }
            let agent = attach(cx, &spec).await.map_err(ToolError::refused)?;
            if !background {
                running.push(agent.outcome().map(move |outcome| (index, outcome)));
            }
        }
        ended.extend(running.collect::<Vec<_>>().await);
        ended.sort_by_key(|(index, _)| *index);
        let outcomes = ended.into_iter().map(|(_, outcome)| outcome);
        let texts: Vec<_> = outcomes.map(|outcome| outcome.text.unwrap_or_default()).collect();
        Ok(ToolOutput::text(texts.join("; ")))
    })
}

fn limits_of(task: &str, parents: AgentLimits) -> AgentLimits {
    match task.split(' ').next() {
        Some("background" | "untimed") => AgentLimits { time_ms: 0, ..parents },
        Some("timed") => AgentLimits { time_ms: 10_000, wrap_up_ms: 1_000, ..parents },
        _ if task.ends_with(" untimed") => AgentLimits { time_ms: 0, ..parents },
        _ if task.ends_with(" timed") => {
            AgentLimits { time_ms: 10_000, wrap_up_ms: 1_000, ..parents }
        }
        _ => parents,
    }
}

/// What a child with this task has for a model.
pub(crate) fn model_of<'m>(task: &str, parents: &'m str) -> &'m str {
    if task.starts_with("program") { "p/program" } else { parents }
}

pub(crate) fn catalog(world: &Arc<World>) -> Catalog {
    let once = |name| ToolSpec::effectful(decl(name), Effects::Unknown);
    let again = |name| ToolSpec::read_only(decl(name));
    let tools: [(ToolSpec, Act); 8] = [
        (again("look"), look),
        (once("act"), act),
        (once("make"), make),
        (again("crash"), crash),
        (again("broken"), broken),
        (again("wait"), wait),
        (again("deaf"), deaf),
        (ToolSpec { time_limit: None, spawns: true, ..again("spawn") }, spawn),
    ];
    let mut catalog = Catalog::default();
    for (spec, act) in tools {
        insert_tool(&mut catalog, world, spec, act);
    }
    catalog
}

/// Adds a tool that acts by a function.
pub(crate) fn insert_tool(catalog: &mut Catalog, world: &Arc<World>, spec: ToolSpec, act: Act) {
    let origin = Origin::Linked { krate: "test".into() };
    insert_tool_of(catalog, world, origin, spec, act);
}

/// Adds a tool of this origin that acts by a function.
pub(crate) fn insert_tool_of(
    catalog: &mut Catalog,
    world: &Arc<World>,
    origin: Origin,
    spec: ToolSpec,
    act: Act,
) {
    let tool = Arc::new(ActTool { spec, world: Arc::clone(world), act });
    let toolset = ToolsetName::literal("test");
    catalog.insert(CatalogEntry { toolset, origin, tool }).unwrap();
}

pub(crate) fn config<F>(world: &Arc<World>, rule: F) -> SessionConfig
where
    F: Fn(usize, &Request<'_>) -> Result<Reply, ModelError> + Send + Sync + 'static,
{
    let mut models = Models::default();
    models.insert("t/rule", "rule", Arc::new(RuleModel(rule)));
    let secret = deputize_core::sanitize::FrameSecret::new(&[3; 16]);
    let record = RecordConfig { secret, ..RecordConfig::new() };
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::new(Watch(Arc::clone(world)))];
    SessionConfig { models, record, observers, ..SessionConfig::new(catalog(world)) }
}

pub(crate) fn spec(folder: &Path) -> AgentSpec {
    let tools = ["look", "act", "make", "crash", "broken", "wait", "deaf", "spawn"];
    AgentSpec {
        system: vec!["You are under test.".into()],
        tools: tools.map(ToolName::literal).into(),
        ..top_agent(&SessionId::literal("s"), "t/rule", "go", folder)
    }
}

pub(crate) fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant { spawn_depth: Some(2), spawn_number: Some(9), ..Grant::default() };
    Authority::root(catalog, &grant)
}

/// Runs a top agent in a folder to its end.
pub(crate) async fn run(
    folder: &Path,
    spec: AgentSpec,
    config: SessionConfig,
    cancel: &Cancel,
) -> Outcome {
    let session = Session::create(&SessionDir::new(folder), SessionId::literal("s"), config);
    let session = session.unwrap();
    let authority = authority(session.catalog());
    session.run(spec, authority, cancel).await
}

/// What the model got, result by result, without what differs between calls.
pub(crate) fn results(world: &World) -> String {
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::ToolEnd(end) => Some(format!("{} {}", end.tool, show(end))),
        _ => None,
    });
    ends.collect::<Vec<_>>().join("\n\n")
}

fn show(end: &deputize_core::event::ToolEnd) -> String {
    let text = end.result.text.as_str();
    let boundary = text.split_once("\n</").and_then(|(_, tail)| tail.split_once('>'));
    let text = match boundary {
        Some((boundary, _)) => text.replace(boundary, "BOUNDARY"),
        None => text.to_owned(),
    };
    let error = end.error.as_deref().map(|e| format!("\n(operator: {e})")).unwrap_or_default();
    format!("[{}] {text}{error}", end.result.status.as_str())
}

/// A new session whose file is the first lines of another's, up to one with this in it.
pub(crate) fn cut(from: &Path, to: &Path, last: &str) -> SessionDir {
    let from = SessionDir::new(from);
    let to = SessionDir::new(to);
    let id = SessionId::literal("s");
    let whole = std::fs::read_to_string(from.file(&id)).unwrap();
    let end = whole.find(last).unwrap();
    let end = end + whole[end..].find('\n').unwrap() + 1;
    std::fs::write(to.file(&id), &whole[..end]).unwrap();
    to
}

/// Goes on with a session to its end.
pub(crate) async fn resumed(dir: &SessionDir, config: SessionConfig) -> Outcome {
    Box::pin(resumed_with(dir, config, &Grant::default())).await
}

/// The same with less than the session had.
pub(crate) async fn resumed_with(
    dir: &SessionDir,
    config: SessionConfig,
    grant: &Grant,
) -> Outcome {
    let (session, _) = Session::open(dir, SessionId::literal("s"), config).unwrap();
    let authority = authority(session.catalog()).intersect(grant);
    session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap()
}
