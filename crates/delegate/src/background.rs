//! Background children: they are started here, and their ends reported.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::slice;
use std::sync::Arc;

use deputize_core::agent::{AgentActivity, AgentSpec};
use deputize_core::outcome::ChildInspection;
use deputize_core::source::Source;
use deputize_core::tool::{ChildLifecycle, ChildStart};
use deputize_core::{
    AgentId, AgentView, BoxFuture, Clock, Outcome, Status, ToolCallResult, ToolCx, ToolError,
    ToolOutput,
};
use serde_json::{Value, json};

use crate::admission::ChildStarts;
use crate::concurrency::Slots;
use crate::config::DelegationConfig;
use crate::file_snapshot::FileSnapshot;
use crate::inspect::{CallSnapshots, inspect_child};
use crate::plan::DelegationPlan;
use crate::report::HostObservations;
use crate::report_call::report_call;
use crate::run::not_begun;
use crate::stale_files::stale_at_end;

/// Starts the children of a call that does not wait for them, and returns their handles.
pub(crate) async fn start_background(
    plan: &DelegationPlan,
    starts: ChildStarts<'_>,
    before: FileSnapshot,
    cx: &ToolCx,
) -> ToolCallResult {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::default()));
    }
    let before = Arc::new(before);
    let snapshots = CallSnapshots::of(&cx.agent);
    let mut handles: Vec<Result<AgentId, String>> = Vec::with_capacity(plan.specs.len());
    let mut facts = Vec::new();
    for ((spec, held), start) in plan.specs.iter().zip(&plan.held).zip(starts) {
        let handle = match start {
            Some(start) => {
                snapshots.add(&spec.id, &before);
                begin(spec, start).await.inspect_err(|_| _ = snapshots.remove(&spec.id))
            }
            None => Err(held.clone().unwrap_or_default()),
        };
        let error = handle.as_ref().err();
        facts.extend(error.and_then(|error| not_begun(spec, Status::Error, error.clone())));
        handles.push(handle);
    }
    let text = json!({"results": rows(handles, cx), "warnings": plan.warnings}).to_string();
    Ok(ToolOutput { facts, ..ToolOutput::text(text) })
}

async fn begin(spec: &AgentSpec, start: ChildStart<'_>) -> Result<AgentId, String> {
    let started = start.start().await;
    started.map(|_handle| spec.id.clone()).map_err(|error| error.to_string())
}

/// Returns what the model is shown of each child. Those beyond the free slots wait for one.
fn rows(handles: Vec<Result<AgentId, String>>, cx: &ToolCx) -> Vec<Value> {
    let below = cx.agent.session.control.descendants(cx.agent.id());
    let activities: BTreeMap<&AgentId, AgentActivity> =
        below.iter().map(|it| (&it.id, it.activity)).collect();
    let row = |(index, handle): (usize, Result<AgentId, String>)| match handle {
        Ok(id) => {
            let status = activities.get(&id).copied().unwrap_or(AgentActivity::Running).as_str();
            json!({"task_index": index, "status": status, "agent": id})
        }
        Err(error) => json!({"task_index": index, "status": "error", "error": error}),
    };
    handles.into_iter().enumerate().map(row).collect()
}

/// How children are inspected at their ends, and how background children are let in and reported,
/// under these settings.
pub struct BackgroundPolicy {
    config: DelegationConfig,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for BackgroundPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundPolicy").field("config", &self.config).finish_non_exhaustive()
    }
}

impl BackgroundPolicy {
    /// Creates it; the clock names the files about children that timed out.
    #[must_use]
    pub fn new(config: DelegationConfig, clock: Arc<dyn Clock>) -> Self {
        Self { config, clock }
    }
}

impl ChildLifecycle for BackgroundPolicy {
    fn acquire_slot(&self, parent: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>> {
        let slot = Slots::of(parent, &self.config).acquire();
        Box::pin(async move { Box::new(slot.await) as Box<dyn Any + Send> })
    }

    fn continues_children(&self) -> bool {
        self.config.options.background
    }

    fn inspect<'a>(
        &'a self,
        parent: &'a AgentView,
        child: &'a AgentSpec,
        end: &'a Outcome,
    ) -> BoxFuture<'a, Option<ChildInspection>> {
        Box::pin(inspect_child(parent, &self.config, child, end, self.clock.now_ms()))
    }

    fn report_end<'a>(
        &'a self,
        parent: &'a AgentView,
        child: &'a Outcome,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let index = child.agent.as_str().rsplit('.').next().and_then(|last| last.parse().ok());
            let stale = stale_at_end(child);
            let seen = HostObservations {
                first: index.unwrap_or_default(),
                stale: &stale,
                ..HostObservations::default()
            };
            let outcomes = slice::from_ref(child);
            let report = report_call(parent, &self.config, outcomes, seen, child.duration_ms).await;
            let output = match report {
                Ok(Ok(output)) => output,
                Ok(Err(error)) => ToolOutput::text(error.to_string()),
                Err(error) => ToolOutput::text(error.to_string()),
            };
            // It says what the host saw of the child; the child's own words have a frame in it.
            let source = Some(Source::tool(self.config.tool().as_str()));
            ToolOutput { source, ..output }
        })
    }
}
