//! The end of a child: until all of it is done a join waits, and a panic does not keep it from its
//! record.

use std::any::Any;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::{AgentActivity, AgentSpec, FurtherTask};
use deputize_core::memory::{Memory, MemoryError};
use deputize_core::model::{ModelError, Reply, Request};
use deputize_core::outcome::ChildInspection;
use deputize_core::tool::ChildLifecycle;
use deputize_core::{
    AgentId, AgentView, BoxFuture, Cancel, CatalogEntry, Event, Message, Origin, Outcome, Status,
    Tool, ToolCallResult, ToolCx, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_runtime::{SessionConfig, ToolConfig};
use deputize_testkit::Barrier;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fixture::{World, catalog, config, decl, run, spec};

/// Holds the inspection of a child and what the memory takes of its end, or panics while it
/// inspects.
struct Stages {
    inspects: Barrier,
    remembers: Barrier,
    panics: bool,
}

impl ChildLifecycle for Stages {
    fn acquire_slot(&self, _: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>> {
        Box::pin(ready(Box::new(()) as _))
    }

    fn continues_children(&self) -> bool {
        true
    }

    fn inspect<'a>(
        &'a self,
        _: &'a AgentView,
        _: &'a AgentSpec,
        _: &'a Outcome,
    ) -> BoxFuture<'a, Option<ChildInspection>> {
        Box::pin(async {
            assert!(!self.panics, "on purpose");
            self.inspects.pass().await;
            None
        })
    }

    fn report_end<'a>(&'a self, _: &'a AgentView, child: &'a Outcome) -> BoxFuture<'a, ToolOutput> {
        Box::pin(ready(ToolOutput::text(child.status.as_str())))
    }
}

impl Memory for Stages {
    fn on_delegation<'a>(
        &'a self,
        _: &'a str,
        _: &'a Outcome,
        _: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        Box::pin(self.remembers.pass().map(Ok))
    }
}

/// Joins the child of another call at each stage of its end, and then continues it.
struct JoinTool {
    spec: ToolSpec,
    stages: Arc<Stages>,
}

impl Tool for JoinTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let control = &cx.agent.session.control;
            let mut joined = Vec::new();
            for stage in [&self.stages.inspects, &self.stages.remembers] {
                stage.until_waiting(1).await;
                let below = control.descendants(cx.agent.id());
                let open: Vec<_> = below.into_iter().map(|child| child.id).collect();
                joined.push((open.len(), control.join(&open, true).now_or_never()));
                stage.open();
            }
            assert_eq!(joined, [(1, None), (1, None)], "its end is under way");
            let child = [control.descendants(cx.agent.id())[0].id.clone()];
            control.join(&child, true).await;
            let listed = control.descendants(cx.agent.id())[0].activity;
            assert_eq!(listed, AgentActivity::Ended(Status::Completed));
            let task = FurtherTask { call: cx.call, goal: "go on".to_owned() };
            control.continue_child(&cx.agent, &child[0], &task).await.unwrap();
            Ok(ToolOutput::text("continued"))
        })
    }
}

fn is_top(request: &Request<'_>) -> bool {
    matches!(&*request.messages[0], Message::User(first) if first.text == "go")
}

fn family<F>(world: &Arc<World>, stages: &Arc<Stages>, rule: F) -> SessionConfig
where
    F: Fn(usize, &Request<'_>) -> Result<Reply, ModelError> + Send + Sync + 'static,
{
    let mut config = config(world, rule);
    config.children.lifecycle = Some(stages.clone());
    config.memory = Some(stages.clone());
    config
}

#[tokio::test]
async fn a_join_waits_until_all_of_an_end_is_done_and_the_child_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let (inspects, remembers) = (Barrier::closed(), Barrier::closed());
    let stages = Arc::new(Stages { inspects, remembers, panics: false });
    let rule = |results: usize, request: &Request<'_>| {
        Ok(match results {
            0 if is_top(request) => {
                Reply::calls("rule", [("spawn", json!({"list": ["child"]})), ("join", json!({}))])
            }
            _ => Reply::text("rule", "done"),
        })
    };
    let mut catalog = catalog(&world);
    let tool = Arc::new(JoinTool {
        spec: ToolSpec { time_limit: None, ..ToolSpec::read_only(decl("join")) },
        stages: Arc::clone(&stages),
    });
    let origin = Origin::Linked { krate: "test".into() };
    catalog.insert(CatalogEntry { toolset: ToolsetName::literal("test"), origin, tool }).unwrap();
    let config = SessionConfig { tools: ToolConfig::new(catalog), ..family(&world, &stages, rule) };
    let mut top = spec(folder.path());
    top.tools.push(ToolName::literal("join"));
    let outcome = run(folder.path(), top, config, &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let records = world.records.lock();
    let resumed = |event: &Event| matches!(event, Event::AgentResume { task: Some(_), .. });
    assert_eq!(records.iter().filter(|record| resumed(&record.event)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_task_panics_has_an_end_on_record_and_its_parent_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let (inspects, remembers) = (Barrier::closed(), Barrier::closed());
    let stages = Arc::new(Stages { inspects, remembers, panics: true });
    let rule = |results: usize, request: &Request<'_>| {
        Ok(match results {
            0 if is_top(request) => {
                Reply::calls("rule", [("spawn", json!({"list": ["child", "background"]}))])
            }
            _ => Reply::text("rule", "done"),
        })
    };
    let config = family(&world, &stages, rule);
    let cancel = Cancel::new();
    let ran = run(folder.path(), spec(folder.path()), config, &cancel);
    let outcome = timeout(Duration::from_secs(600), ran).await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let records = world.records.lock();
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::AgentEnd(end) if record.depth == 1 => Some((end.status, end.error.clone())),
        _ => None,
    });
    let panicked = "the agent's task panicked: this is a bug in deputize".to_owned();
    let expected = vec![(Status::Error, Some(panicked)); 2];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}
