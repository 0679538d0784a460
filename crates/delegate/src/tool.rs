//! The tool: reads a call, plans its children, starts them, and reports their ends.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::schema::{Schema, SchemaError};
use deputize_core::shell_directory::ShellPlace;
use deputize_core::step_calls::StepCalls;
use deputize_core::{
    AgentView, Availability, BoxFuture, CatalogEntry, Clock, Effects, Origin, Tool, ToolCallResult,
    ToolCx, ToolDecl, ToolEffect, ToolError, ToolKind, ToolSpec,
};
use serde_json::{Value, json};

use crate::accepted_calls::AcceptedCalls;
use crate::admission::Admission;
use crate::args::read;
use crate::background::start_background;
use crate::blocking::run_blocking;
use crate::call_check::childless_refusal;
use crate::call_error::Refusal;
use crate::concurrency::{CallGuard, Slots};
use crate::config::{DelegationConfig, ToolFlavor};
use crate::describe::describe;
use crate::file_snapshot::FileSnapshot;
use crate::inspect::CallSnapshots;
use crate::names::DELEGATION_TOOLSET;
use crate::output_file::is_saved;
use crate::parent_view::ParentView;
use crate::parsed_call::ParsedCall;
use crate::plan::{DelegationPlan, PlanError, plan};
use crate::report::HostObservations;
use crate::report_call::report_call;
use crate::run::{queue, run};
use crate::stale_files::stale_files;
use crate::task::read_task;

/// Headline in lists of tools; an agent's model gets more, see [`describe`].
const HEADLINE: &str = "Delegate work to child agents and get their reports.";

/// `delegate_task`: one shared object for all agents of a program. What it needs of the agent
/// that calls is in the call's context.
pub struct DelegateTool {
    spec: ToolSpec,
    config: DelegationConfig,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for DelegateTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegateTool").field("config", &self.config).finish_non_exhaustive()
    }
}

impl DelegateTool {
    /// Creates the tool with these settings. The clock only measures how long a call takes.
    ///
    /// # Errors
    /// Never with a released core: the parameters are a constant of this crate.
    pub fn new(config: DelegationConfig, clock: Arc<dyn Clock>) -> Result<Self, SchemaError> {
        // What the model is told is narrower, see `declare`.
        let parameters = Schema::new(&json!({"type": "object"}))?;
        let spec = ToolSpec {
            decl: ToolDecl { name: config.tool(), description: HEADLINE.to_owned(), parameters },
            // By itself it changes nothing: each call of a child is judged where it runs.
            effects: Effects::ReadOnly,
            risk: None,
            harmless: None,
            needs_person: false,
            parent_only: None,
            kind: ToolKind::Delegate,
            subject: config.options.tool_name.subject(),
            // Children are attached by ids that follow from the call.
            repeatable: true,
            spawns: true,
            parallel: true,
            // Children have time limits of their own.
            time_limit: None,
            usable: Availability::Yes,
            examples: Vec::new(),
        };
        Ok(Self { spec, config, clock })
    }

    /// Returns the tool in its toolset, for a catalog.
    #[must_use]
    pub fn into_entry(self) -> CatalogEntry {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        CatalogEntry { toolset: DELEGATION_TOOLSET, origin, tool: Arc::new(self) }
    }

    fn read(&self, arguments: &Value) -> ParsedCall {
        match self.config.options.tool_name {
            ToolFlavor::DelegateTask => read(arguments, &self.config),
            ToolFlavor::Task => read_task(arguments),
        }
    }

    /// Returns the milliseconds that a call ran in earlier processes of the session.
    fn ran_before(cx: &ToolCx) -> u64 {
        let calls = cx.agent.store.get_or_insert_with(StepCalls::default).get();
        let own = calls.iter().find(|call| call.id == cx.call);
        own.map_or(0, |call| u64::try_from(call.ran.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads a call and plans its children, or says all that stands against it.
    fn plan(
        &self,
        arguments: &Value,
        admission: Admission<'_>,
        shell: Option<&Path>,
    ) -> Result<AdmittedCall, PlanError> {
        let Admission { cx, conditions, .. } = admission;
        let mut reading = self.read(arguments);
        reading.started_tasks = admission.started_tasks(reading.count);
        if reading.started_tasks.is_empty() {
            let repetitions = admission.repetitions(&reading, |arguments| self.read(arguments));
            if !repetitions.is_empty() {
                return Err(Refusal::new(repetitions, reading.warnings).into());
            }
        }
        let as_read = reading.clone();
        let (entered, errors) = admission.enter(&reading, &Slots::of(&cx.agent, &self.config));
        reading.errors.extend(errors);
        let catalog = &*conditions.catalog;
        let parent = ParentView { shell, catalog, ..ParentView::of(&cx.agent) };
        let plan = plan(reading, cx.call, parent, &self.config)?;
        Ok(AdmittedCall { plan, as_read, entered })
    }

    /// Returns a refusal in the form of the tool's results.
    fn refusal_text(&self, refusal: &Refusal) -> String {
        match self.config.options.tool_name {
            ToolFlavor::DelegateTask => refusal.to_json(),
            ToolFlavor::Task => refusal.to_string(),
        }
    }

    fn failed(&self, error: PlanError) -> ToolError {
        match error {
            PlanError::Refused(refusal) => ToolError::refused(self.refusal_text(&refusal)),
            PlanError::Prompt(_) => ToolError::failed(error),
        }
    }

    async fn delegate(&self, arguments: &Value, cx: &ToolCx) -> ToolCallResult {
        let start_ms = self.clock.now_ms();
        let agent = &cx.agent;
        let before = FileSnapshot::take(&agent.session, agent.id()).await;
        let slots = Slots::of(agent, &self.config);
        let turn = slots.plan_turn().await;
        let conditions = agent.session.spawn.conditions(agent, cx.call).await;
        let shell = shell_of(agent).await;
        let admission = Admission { config: &self.config, cx, conditions: &conditions };
        let admitted = self.plan(arguments, admission, shell.as_deref());
        let AdmittedCall { mut plan, as_read, entered } =
            admitted.map_err(|error| self.failed(error))?;
        let starts = admission.attach(&plan.specs, &mut plan.held, &as_read, &plan.warnings);
        let starts = starts.map_err(|refusal| self.failed(refusal.into()))?;
        agent.store.get_or_insert_with(AcceptedCalls::default).add(cx.call, || as_read);
        let before =
            if plan.started_tasks.is_empty() { before } else { before.of_earlier_process() };
        if plan.specs.iter().any(|spec| spec.background) {
            return start_background(&plan, starts, before, cx).await;
        }
        let queued = queue(starts, &slots);
        drop(turn);
        let before = Arc::new(before);
        let snapshots = CallSnapshots::of(agent);
        plan.specs.iter().for_each(|spec| snapshots.add(&spec.id, &before));
        let (outcomes, facts) = run(&plan, cx, queued).await;
        drop(entered);
        plan.specs.iter().for_each(|spec| _ = snapshots.remove(&spec.id));

        let now = self.clock.now_ms();
        let took = Self::ran_before(cx).saturating_add(now.saturating_sub(start_ms));
        let stale = stale_files(&before, &agent.session.files, agent.id(), &outcomes);
        let seen =
            HostObservations { stale: &stale, warnings: &plan.warnings, ..Default::default() };
        let report = report_call(agent, &self.config, &outcomes, seen, took).await;
        let result = add_facts(report.map_err(ToolError::failed)?, facts);
        if cx.cancel.is_cancelled() { cancelled(result) } else { result }
    }
}

/// A call that may start children, as planned.
struct AdmittedCall {
    plan: DelegationPlan,
    as_read: ParsedCall,
    /// Its place among the calls that run.
    entered: Option<CallGuard>,
}

impl Tool for DelegateTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move { self.delegate(&arguments, cx).await })
    }

    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        describe(ParentView::of(agent), &self.config).ok()
    }

    fn refusal(&self, agent: &AgentView) -> Option<String> {
        let refusal = childless_refusal(ParentView::of(agent), &self.config)?;
        Some(self.refusal_text(&refusal))
    }

    // Leniently, and each mistake gets an answer of ours.
    fn reads_itself(&self) -> bool {
        true
    }
}

/// Adds facts to a result, also to one that is only a part.
fn add_facts(mut result: ToolCallResult, facts: Vec<ToolEffect>) -> ToolCallResult {
    match &mut result {
        Ok(output) => output.facts.extend(facts),
        Err(ToolError::Partly { output, .. }) => output.facts.extend(facts),
        Err(_) => {}
    }
    result
}

/// Returns the partial result of a cancelled call.
fn cancelled(result: ToolCallResult) -> ToolCallResult {
    match result {
        Ok(output) => Err(ToolError::Cancelled(Box::new(output))),
        Err(ToolError::Partly { output, .. }) => Err(ToolError::Cancelled(output)),
        other => other,
    }
}

/// Returns the directory that an agent's shell is in, if it is there.
async fn shell_of(agent: &AgentView) -> Option<PathBuf> {
    let place = agent.store.get_or_insert_with(ShellPlace::default).get()?;
    // The directory in a recording need not be on this machine. A replay stays on its thread, for
    // its order is that of the records.
    if !is_saved(&agent.session) {
        return Some(place);
    }
    run_blocking(move || place.is_dir().then_some(place)).await
}

#[cfg(test)]
mod tests;
