//! Authority along every path that a real session takes: children made, made again, taken up
//! after a kill, under another parent, other tools and other limits than before.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, SpawnedBy};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::model::{FailureKind, ModelError, Reply, Request};
use deputize_core::schema::Schema;
use deputize_core::{
    AgentId, AgentView, Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Event, Message,
    Origin, Outcome, SessionId, Tool, ToolCallResult, ToolCx, ToolDecl, ToolName, ToolOutput,
    ToolSpec, ToolsetName,
};
use deputize_runtime::{ChildConfig, Continue, Models, Session, SessionConfig, SessionDir};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::{RuleModel, attach, spec};

/// Every agent has `raise`, by which it has children and is seen.
const TOOLS: [&str; 5] = ["raise", "t0", "t1", "t2", "t3"];
/// The first is that of the top agent. Each falls back on the others.
const MODELS: [&str; 3] = ["t/rule", "t/m1", "t/m2"];

/// A child, as its parent asks for it: what it is to do stands in its task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PlannedChild {
    /// The id of the agent that it becomes.
    me: String,
    model: usize,
    grant: Grant,
    background: bool,
    children: Vec<PlannedChild>,
}

/// What is known of an agent that lived.
#[derive(Debug, Clone)]
struct LivedAgent {
    parent: Option<AgentId>,
    grant: Grant,
    authority: Authority,
}

/// What was seen in one process.
#[derive(Default)]
struct AuthorityLog {
    lived: Mutex<BTreeMap<AgentId, LivedAgent>>,
    used: Mutex<BTreeSet<(AgentId, String)>>,
    /// The models that each agent asked.
    asked: Mutex<BTreeSet<(String, &'static str)>>,
}

struct Probe {
    spec: ToolSpec,
    seen: Arc<AuthorityLog>,
}

impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Asked of every agent that has the tool, when it is made and when it is taken up.
    fn declare(&self, view: &AgentView) -> Option<ToolDecl> {
        let AgentSpec { parent, grant, .. } = &*view.spec;
        let authority = Authority::clone(&view.authority);
        let lived = LivedAgent { parent: parent.clone(), grant: grant.clone(), authority };
        self.seen.lived.lock().insert(view.id().clone(), lived);
        None
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        let used = (cx.agent.id().clone(), self.spec.decl.name.to_string());
        self.seen.used.lock().insert(used);
        Box::pin(async move {
            if self.spec.decl.name.as_str() == "raise" {
                raise(&arguments, cx).await;
            }
            Ok(ToolOutput::text("done"))
        })
    }
}

/// Attaches to each child, and to those that somebody waits for once more: a retry.
async fn raise(arguments: &Value, cx: &ToolCx) {
    let nodes: Vec<PlannedChild> = serde_json::from_value(arguments["nodes"].clone()).unwrap();
    let parent = &cx.agent.spec;
    let task_count = u32::try_from(nodes.len()).unwrap();
    for (task_index, mut node) in (0..).zip(nodes) {
        let id = parent.id.child(cx.call, task_index);
        node.me = id.to_string();
        let spec = AgentSpec {
            id,
            model: MODELS[node.model].to_owned(),
            parent: Some(parent.id.clone()),
            depth: parent.depth + 1,
            spawned_by: Some(SpawnedBy { call: cx.call, task_index, task_count }),
            grant: node.grant.clone(),
            background: node.background,
            task: serde_json::to_string(&node).unwrap(),
            tools: TOOLS.map(ToolName::literal).into(),
            ..AgentSpec::clone(parent)
        };
        if let Ok(agent) = attach(cx, &spec).await
            && !node.background
        {
            let _ended = agent.outcome().await;
        }
    }
}

/// The tools of a program; those at `changed` come from elsewhere than before.
fn catalog(
    seen: &Arc<AuthorityLog>,
    left_out: &BTreeSet<usize>,
    changed: &BTreeSet<usize>,
) -> Catalog {
    let mut catalog = Catalog::default();
    let schema = json!({"type": "object", "properties": {"nodes": {"type": "array"}}});
    for (number, name) in TOOLS.iter().enumerate().filter(|(at, _)| !left_out.contains(at)) {
        let decl = ToolDecl {
            name: ToolName::literal(name),
            description: String::new(),
            parameters: Schema::new(&schema).unwrap(),
        };
        let mut spec = ToolSpec::read_only(decl);
        spec.spawns = number == 0;
        let krate = if changed.contains(&number) { "other" } else { "test" };
        let tool = Arc::new(Probe { spec, seen: Arc::clone(seen) });
        let origin = Origin::Linked { krate: krate.into() };
        catalog
            .insert(CatalogEntry { toolset: ToolsetName::literal("test"), origin, tool })
            .unwrap();
    }
    catalog
}

/// Each agent tries every tool, permitted or not, and raises its children.
fn rule(
    (seen, model, down): (&AuthorityLog, &'static str, bool),
    (results, request): (usize, &Request<'_>),
) -> Result<Reply, ModelError> {
    let Message::User(task) = &*request.messages[0] else { unreachable!() };
    let node: PlannedChild = serde_json::from_str(&task.text).unwrap();
    seen.asked.lock().insert((node.me, model));
    if down {
        return Err(ModelError::new(FailureKind::Unavailable, "down"));
    }
    if results > 0 {
        return Ok(Reply::text("rule", "done"));
    }
    let calls = TOOLS.map(|tool| match tool {
        "raise" => (tool, json!({"nodes": node.children})),
        _ => (tool, json!({})),
    });
    Ok(Reply::calls("rule", calls))
}

/// A program that runs a session: its tools, what the top agent may, what children may.
#[derive(Debug, Clone)]
struct SessionProgram {
    left_out: BTreeSet<usize>,
    changed: BTreeSet<usize>,
    /// Models that cannot be reached.
    down: BTreeSet<usize>,
    root: Grant,
    children: Grant,
}

impl SessionProgram {
    fn config(&self, seen: &Arc<AuthorityLog>) -> SessionConfig {
        let mut models = Models::default();
        for (number, name) in MODELS.into_iter().enumerate() {
            let seen = Arc::clone(seen);
            let down = self.down.contains(&number);
            let rule = move |results: usize, request: &Request<'_>| {
                rule((&seen, name, down), (results, request))
            };
            models.insert(name, name, Arc::new(RuleModel(rule)));
        }
        models.fallback(MODELS.map(str::to_owned).to_vec());
        let catalog = catalog(seen, &self.left_out, &self.changed);
        let children = ChildConfig { grant: self.children.clone(), ..ChildConfig::default() };
        SessionConfig { models, children, ..SessionConfig::new(catalog) }
    }

    fn authority(&self, catalog: &Catalog) -> Authority {
        Authority::root(catalog, &self.root)
    }
}

fn id() -> SessionId {
    SessionId::literal("s")
}

async fn begun(folder: &Path, program: &SessionProgram, tree: &PlannedChild) -> Arc<AuthorityLog> {
    let seen = Arc::new(AuthorityLog::default());
    let session = Session::create(&SessionDir::new(folder), id(), program.config(&seen)).unwrap();
    let tree = PlannedChild { me: AgentId::root(&id()).to_string(), ..tree.clone() };
    let top = AgentSpec {
        task: serde_json::to_string(&tree).unwrap(),
        tools: TOOLS.map(ToolName::literal).into(),
        ..spec(folder)
    };
    let authority = program.authority(session.catalog());
    session.run(top, authority, &Cancel::new()).await;
    seen
}

/// Goes on with the first records of a session, as after a kill.
async fn resumed(
    folder: &Path,
    records: usize,
    program: &SessionProgram,
) -> (Arc<AuthorityLog>, Option<Outcome>) {
    let seen = Arc::new(AuthorityLog::default());
    let file = SessionDir::new(folder).file(&id());
    let whole = std::fs::read_to_string(&file).unwrap();
    let lines = whole.lines().take(records + 1).map(|line| format!("{line}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let opened = Session::open(&SessionDir::new(folder), id(), program.config(&seen));
    let (session, _) = opened.unwrap();
    let authority = program.authority(session.catalog());
    let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await;
    (seen, outcome.ok())
}

/// What must hold of every agent that lived in a process, and of every tool that it used.
fn holds(seen: &AuthorityLog, program: &SessionProgram) -> Result<(), TestCaseError> {
    let lived = seen.lived.lock();
    for (id, agent) in lived.iter() {
        let Some(parent) = &agent.parent else { continue };
        // Without `raise` nobody has children.
        let parent = &lived[parent].authority;
        let levels = Some(parent.spawn_depth() - 1);
        let level = Grant { spawn_depth: levels, ..Grant::default() };
        let due = parent.intersect(&agent.grant).intersect(&program.children).intersect(&level);
        prop_assert_eq!(&agent.authority, &due, "{}", id);
        prop_assert!(agent.authority.is_within(parent), "{}", id);
        prop_assert!(agent.authority.spawn_depth() < parent.spawn_depth(), "{}", id);
        prop_assert!(agent.authority.approver() <= parent.approver(), "{}", id);
    }
    for (id, tool) in seen.used.lock().iter() {
        let agent = &lived[id];
        let may = |grant: &Grant| {
            let tools = grant.tools.as_ref();
            tools.is_none_or(|tools| tools.iter().any(|it| it.as_str() == tool))
        };
        // Up to the top, everyone has it.
        let mut above = Some(agent);
        while let Some(agent) = above {
            prop_assert!(agent.authority.has(tool), "{} used {}", id, tool);
            prop_assert!(may(&agent.grant), "{} used {}", id, tool);
            let child = agent.parent.is_some();
            prop_assert!(!child || may(&program.children), "{} used {}", id, tool);
            above = agent.parent.as_ref().map(|parent| &lived[parent]);
        }
        prop_assert!(may(&program.root));
    }
    for (id, model) in seen.asked.lock().iter() {
        let may = |grant: &Grant| grant.models.as_ref().is_none_or(|some| some.contains(*model));
        let mut above = lived.iter().find(|(of, _)| of.as_str() == id).map(|(_, agent)| agent);
        prop_assert!(above.is_some() && may(&program.root), "{} asked {}", id, model);
        while let Some(agent) = above {
            prop_assert!(agent.authority.may_use_model(model), "{} asked {}", id, model);
            let child = agent.parent.is_some();
            prop_assert!(may(&agent.grant) && (!child || may(&program.children)), "{}", id);
            above = agent.parent.as_ref().map(|parent| &lived[parent]);
        }
    }
    Ok(())
}

fn grants() -> impl Strategy<Value = Grant> {
    let tools = proptest::collection::btree_set(1..TOOLS.len(), 0..4).prop_map(|numbers| {
        let all = std::iter::once(0).chain(numbers);
        all.map(|number| ToolName::literal(TOOLS[number])).collect::<BTreeSet<_>>()
    });
    let modes = [ApproverMode::Deny, ApproverMode::Ask, ApproverMode::Auto];
    let models = proptest::collection::btree_set(0..MODELS.len(), 1..MODELS.len());
    // Most have the model that most children ask: who may ask none has no children to look at.
    let models = (models, proptest::bool::weighted(0.8)).prop_map(|(some, with_first)| {
        let all = with_first.then_some(0).into_iter().chain(some);
        all.map(|number| MODELS[number].to_owned()).collect()
    });
    (
        proptest::option::weighted(0.7, tools),
        proptest::option::weighted(0.5, models),
        proptest::option::of(proptest::sample::select(modes.to_vec())),
        proptest::option::weighted(0.15, 0..3_u32),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(tools, models, approver, spawn_depth, network)| Grant {
            tools,
            models,
            approver,
            spawn_depth,
            network,
            ..Grant::default()
        })
}

fn trees() -> impl Strategy<Value = PlannedChild> {
    let model = || prop_oneof![4 => Just(0), 1 => 1..MODELS.len()];
    let node = move |background| (grants(), model(), proptest::bool::weighted(background));
    let leaf = node(0.5).prop_map(|(grant, model, background)| PlannedChild {
        grant,
        model,
        background,
        ..PlannedChild::default()
    });
    let tree = leaf.prop_recursive(3, 12, 3, move |inner| {
        let children = proptest::collection::vec(inner, 1..3);
        (node(0.3), children).prop_map(|((grant, model, background), children)| PlannedChild {
            grant,
            model,
            background,
            children,
            ..PlannedChild::default()
        })
    });
    proptest::collection::vec(tree, 1..3)
        .prop_map(|children| PlannedChild { children, ..PlannedChild::default() })
}

fn programs() -> impl Strategy<Value = SessionProgram> {
    let some = || proptest::collection::btree_set(1..TOOLS.len(), 0..2);
    let down = proptest::collection::btree_set(0..MODELS.len(), 0..2);
    (some(), some(), down, grants(), grants(), prop_oneof![1 => Just(1), 5 => 2..4_u32]).prop_map(
        |(left_out, changed, down, mut root, children, levels)| {
            // Else there is no tree.
            root.models.iter_mut().for_each(|some| _ = some.insert(MODELS[0].to_owned()));
            let root = Grant { spawn_depth: Some(levels), spawn_number: Some(50), ..root };
            SessionProgram { left_out, changed, down, root, children }
        },
    )
}

/// Whether a child of a child lived.
fn has_grandchild(seen: &AuthorityLog) -> bool {
    seen.lived.lock().keys().any(|id| id.ancestors().count() > 1)
}

/// Generated cases of [`every_agent_that_ever_lives_has_what_its_parent_has_and_was_granted`].
const CASES: u32 = 48;
/// How many of them must have a living grandchild at the start; about half have one.
const GRANDCHILD_CASES: usize = 12;
/// The same after the resume, which cuts the session anywhere.
const RESUMED_GRANDCHILD_CASES: usize = 6;

#[test]
fn every_agent_that_ever_lives_has_what_its_parent_has_and_was_granted() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: CASES,
        source_file: Some(file!()),
        test_name: Some(concat!(module_path!(), "::every_agent_that_ever_lives")),
        ..ProptestConfig::default()
    };
    let cases = (trees(), programs(), programs(), any::<prop::sample::Index>());
    let (begun_with, resumed_with) = (Cell::new(0), Cell::new(0));
    let checked = TestRunner::new(config).run(&cases, |(tree, first, later, cut)| {
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let seen = begun(folder.path(), &first, &tree).await;
            begun_with.set(begun_with.get() + usize::from(has_grandchild(&seen)));
            holds(&seen, &first)?;
            let records = SessionDir::new(folder.path()).read(&id()).unwrap().records.len();
            let (seen, _) = resumed(folder.path(), 1 + cut.index(records), &later).await;
            resumed_with.set(resumed_with.get() + usize::from(has_grandchild(&seen)));
            holds(&seen, &later)
        })
    });
    checked.unwrap_or_else(|failure| panic!("{failure}"));
    let found = (begun_with.get(), resumed_with.get());
    assert!(found.0 >= GRANDCHILD_CASES, "grandchildren in {found:?} of {CASES} cases");
    assert!(found.1 >= RESUMED_GRANDCHILD_CASES, "grandchildren in {found:?} of {CASES} cases");
}

fn granted(tools: &[&'static str]) -> Grant {
    let tools = Some(tools.iter().copied().map(ToolName::literal).collect());
    Grant { tools, ..Grant::default() }
}

fn open() -> SessionProgram {
    let root = Grant { spawn_depth: Some(2), spawn_number: Some(9), ..Grant::default() };
    let [left_out, changed, down] = [const { BTreeSet::new() }; 3];
    SessionProgram { left_out, changed, down, root, children: Grant::default() }
}

/// The records up to the first use of a tool by a child.
fn until_used(folder: &Path, tool: &str) -> usize {
    let records = SessionDir::new(folder).read(&id()).unwrap().records;
    let at = records.iter().position(|record| {
        let Event::ToolStart { tool: started, .. } = &record.event else { return false };
        record.depth == 1 && started == tool
    });
    at.expect("a child used it")
}

#[tokio::test]
async fn what_the_operator_takes_from_children_is_gone_for_those_that_are_taken_up() {
    for background in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let grant = granted(&["raise", "t0", "t1"]);
        let child = PlannedChild { grant, background, ..PlannedChild::default() };
        let tree = PlannedChild { children: vec![child], ..PlannedChild::default() };
        let seen = begun(folder.path(), &open(), &tree).await;
        let used = |seen: &AuthorityLog| -> BTreeSet<String> {
            let used = seen.used.lock();
            let children = used.iter().filter(|(agent, _)| agent.as_str().contains('/'));
            children.map(|(_, tool)| tool.clone()).collect()
        };
        assert_eq!(used(&seen), BTreeSet::from(["raise", "t0", "t1"].map(str::to_owned)));
        let records = until_used(folder.path(), "t0");
        let later = SessionProgram { children: granted(&["raise", "t1"]), ..open() };
        let (seen, outcome) = resumed(folder.path(), records, &later).await;
        assert!(outcome.is_some());
        let left = used(&seen);
        assert!(left.contains("t1") && !left.contains("t0"), "background {background}: {left:?}");
    }
}
