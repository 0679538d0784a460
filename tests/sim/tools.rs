//! Tools that do what the world's mind says, and look closely at how they are called.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::file_state::FileVersion;
use deputize_core::schema::Schema;
use deputize_core::{
    BoxFuture, Catalog, CatalogEntry, Clock, Effects, Event, Origin, Tool, ToolCallResult, ToolCx,
    ToolDecl, ToolEffect, ToolError, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_delegate::{ControlTool, DelegateTool};
use deputize_runtime::SyncMode;
use serde_json::{Value, json};

use crate::mind::ToolBehaviour;
use crate::world::{SECRET, World};

/// Time limit of a call.
const LIMIT: Duration = Duration::from_secs(40);

struct SimTool {
    spec: ToolSpec,
    world: Arc<World>,
}

/// All tools of the world: one to look, one to act alone, one to act beside others, one to hand
/// work on, and one to reach the agents below.
pub(crate) fn catalog(
    world: &Arc<World>,
    clock: Arc<dyn Clock>,
    policy: deputize_delegate::DelegationConfig,
) -> Catalog {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "text": {"type": "string"}},
        "additionalProperties": false,
    });
    let decl = |name| ToolDecl {
        name: ToolName::new(name).unwrap(),
        description: format!("Does {name}."),
        parameters: Schema::new(&schema).unwrap(),
    };
    let act = ToolSpec::effectful(decl("act"), Effects::Unknown);
    let send = ToolSpec { parallel: true, ..ToolSpec::effectful(decl("send"), Effects::Unknown) };
    let mut catalog = Catalog::default();
    for (toolset, spec) in
        [("work", act), ("work", send), ("see", ToolSpec::read_only(decl("look")))]
    {
        let spec = ToolSpec { time_limit: Some(LIMIT), ..spec };
        let tool = Arc::new(SimTool { spec, world: Arc::clone(world) });
        let toolset = ToolsetName::literal(toolset);
        let origin = Origin::Linked { krate: "sim".into() };
        catalog.insert(CatalogEntry { toolset, origin, tool }).unwrap();
    }
    catalog.insert(DelegateTool::new(policy, clock).unwrap().into_entry()).unwrap();
    catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
    catalog
}

impl Tool for SimTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            self.look_at(cx);
            let world = &self.world;
            let agent = cx.agent.id();
            let _under_way = world.under_way(format!("{agent} {}", self.spec.decl.name));
            let what = format!("{agent} {} {}", cx.call, self.spec.decl.name);
            let (ms, deed) = world.mind.does(world.seed, &what, world.tries(&what));
            let work = tokio::time::sleep(Duration::from_millis(ms));
            if deed == ToolBehaviour::IsDeaf {
                work.await;
                return std::future::pending().await;
            }
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    let output = ToolOutput::text(format!("this far: {SECRET}"));
                    return Err(ToolError::Cancelled(Box::new(output)));
                }
                () = work => {}
                () = std::future::pending(), if deed == ToolBehaviour::Waits => {}
            }
            if deed == ToolBehaviour::Waits {
                cx.cancel.cancelled().await;
                return Err(ToolError::Cancelled(Box::default()));
            }
            outcome(deed, agent.as_str())
        })
    }
}

fn outcome(deed: ToolBehaviour, agent: &str) -> ToolCallResult {
    match deed {
        ToolBehaviour::Refuses => Err(ToolError::refused(format!("not {SECRET}, another"))),
        ToolBehaviour::CannotSpawn => {
            Err(ToolError::failed(std::io::Error::from(std::io::ErrorKind::WouldBlock)))
        }
        ToolBehaviour::Panics => panic!("on purpose"),
        ToolBehaviour::Floods => Ok(ToolOutput::text("flood\n".repeat(100_000))),
        ToolBehaviour::Works | ToolBehaviour::Waits | ToolBehaviour::IsDeaf => {
            let path = PathBuf::from("/work").join(agent.replace('/', "-"));
            let written =
                ToolEffect::FileWritten { path, version: FileVersion::of(b"x"), created: false };
            let command = ToolEffect::Command {
                command: format!("echo {SECRET}"),
                exit_code: Some(0),
                unknown: false,
            };
            let output = ToolOutput::text(format!("It is {SECRET}.")).note("and that is all");
            Ok(output.fact(written).fact(command))
        }
    }
}

impl SimTool {
    /// That the call is on record, for good where it may not be repeated; that it was not made
    /// before; that nothing runs beside what must be alone.
    fn look_at(&self, cx: &ToolCx) {
        let world = &self.world;
        let agent = cx.agent.id();
        let name = format!("{agent} {} {}", cx.call, self.spec.decl.name);
        let mut state = world.state();
        let start = state.seen.iter().rev().find(|record| {
            record.agent == *agent
                && matches!(&record.event, Event::ToolStart { call, .. } if *call == cx.call)
        });
        let start = start.map(|record| record.seq);
        let prefix = format!("{agent} ");
        let beside: u32 = state
            .running
            .iter()
            .filter(|(what, _)| what.starts_with(&prefix))
            .map(|(_, count)| *count)
            .sum();
        let again = !self.spec.repeatable
            && !world.disk.is_dead()
            && !state.effects.insert((agent.clone(), cx.call))
            && !state.forgetful;
        let blocked = state.blocked.contains(&(agent.clone(), cx.call));
        drop(state);
        if blocked {
            world.wrong(format!("{name} runs, which a hook blocked"));
        }
        let Some(start) = start else {
            return world.wrong(format!("{name} is not on record"));
        };
        if again {
            world.wrong(format!("{name} was run twice"));
        }
        if !self.spec.parallel && beside > 0 {
            world.wrong(format!("{name} is not alone"));
        }
        let durable = world.durable() as u64;
        if !self.spec.repeatable && world.sync != SyncMode::Never && durable <= start {
            world.wrong(format!("{name} runs and is not durable: {durable} records of {start}"));
        }
    }
}
