//! The tool: reads, plans, lets in, runs, reports.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::file_state::FileLedger;
use deputize_core::schema::{Schema, SchemaError};
use deputize_core::shell_directory::ShellPlace;
use deputize_core::step_calls::{StepCall, StepCalls};
use deputize_core::{
    AgentView, Availability, BoxFuture, Catalog, CatalogEntry, Clock, Effects, Origin, Outcome,
    Tool, ToolCallResult, ToolCx, ToolDecl, ToolEffect, ToolError, ToolKind, ToolSpec,
};
use serde_json::{Value, json};

use crate::accepted_calls::AcceptedCalls;
use crate::args::{ParsedCall, RequestedTask, read};
use crate::call_error::{CallError, CallErrorCode, Refusal};
use crate::concurrency::{CallGuard, LimitExceeded, LimitScope, Slots, SpawnRegistry};
use crate::config::{DelegationConfig, OverLimit, ToolFlavor};
use crate::control::handles;
use crate::describe::describe;
use crate::file_snapshot::FileSnapshot;
use crate::inspect_child::{CallSnapshots, unseen_writes};
use crate::names::{TASK, TOOL, TOOLSET};
use crate::plan::{DelegationPlan, PlanError, childless_refusal, plan};
use crate::report::{HostObservations, ReportLimits, render_plain, report};
use crate::run::{queue, run};
use crate::save_output::{is_saved, save_output};
use crate::task::read_task;
use crate::toolset::ParentView;

/// What lists of tools say of it; an agent's model is told more, see [`describe`].
const HEADLINE: &str = "Hand work to child agents and get their reports.";

/// What a call is answered that is made twice in one step.
const SAME_CALL: &str = "this call is the same as another one of this step, whose children were \
                         started: the result of that call is the result of both. Do not repeat it; \
                         to have a task done twice, say in each goal what is to differ";

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
    /// The tool under these settings; the clock only measures how long a call takes.
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

    /// The tool in its toolset, for a catalog.
    #[must_use]
    pub fn into_entry(self) -> CatalogEntry {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        CatalogEntry { toolset: TOOLSET, origin, tool: Arc::new(self) }
    }

    /// Lets a call in, as far as limits are not reached, and tells what stands against it: a pause,
    /// and limits. One that an earlier process accepted is not asked again. It is in until the
    /// value is dropped.
    fn enter(
        &self,
        reading: &ParsedCall,
        cx: &ToolCx,
        slots: &Arc<Slots>,
    ) -> (Option<CallGuard>, Vec<CallError>) {
        let asks = reading.asks(self.config.options.tool_name);
        let asks = (asks.0, &asks.1);
        let mut errors = Vec::new();
        if !reading.begun.is_empty() {
            let authority = &cx.agent.authority;
            if ![TOOL, TASK].iter().any(|tool| authority.has(tool.as_str())) {
                let remedy = format!(
                    "this agent may not hand work on any more{}; go on with the results there \
                     are, or do the work yourself",
                    match self.config.setting_name("tool_name") {
                        "" => String::new(),
                        form => format!(" (the configuration's `toolsets`, {form})"),
                    }
                );
                errors.push(CallError::new(CallErrorCode::Toolset, None, asks, remedy));
            }
            return (slots.enter(u32::MAX), errors);
        }
        if let Some(by) = cx.agent.session.spawn.paused() {
            let remedy = format!(
                "spawning paused by {by}: no new child may start until it is allowed again; go on \
                 with the results there are, or do the work yourself"
            );
            errors.push(CallError::new(CallErrorCode::Paused, None, asks, remedy));
        }
        let ids = (0..).take(reading.count).map(|index| cx.agent.id().child(cx.call, index));
        let room = started(cx).room_for(cx.agent.id(), &ids.collect(), self.most_children(cx));
        // Of one that may not have children at all the depth tells.
        let may = cx.agent.authority.spawn_depth() > 0;
        errors.extend(room.err().filter(|_| may).map(|over| {
            let key = self.config.setting_name("max_children_per_session");
            too_many_children(over, key, asks)
        }));
        let most = match self.config.limits.over_limit {
            OverLimit::Refuse => self.config.concurrency(),
            OverLimit::Queue => u32::MAX,
        };
        let entered = slots.enter(most);
        if entered.is_none() {
            errors.push(self.too_many_calls(most, asks));
        }
        (entered, errors)
    }

    fn too_many_calls(&self, most: u32, asks: (&str, &Value)) -> CallError {
        let remedy = format!(
            "{most} calls of `{}` are running, which is the limit: {}make this call when one \
             of them has ended, or have the person raise {}",
            self.config.tool(),
            match self.config.options.tool_name {
                ToolFlavor::DelegateTask => "put the work into one call with `tasks`, ",
                ToolFlavor::Task => "",
            },
            match self.config.setting_name("max_concurrent_children") {
                "" => "the limit",
                name => name,
            }
        );
        CallError::new(CallErrorCode::TooManyCalls, None, asks, remedy)
    }

    /// How many children the session may have, and how many may be below the agent that calls.
    fn most_children(&self, cx: &ToolCx) -> (Option<u32>, u32) {
        let session = Some(self.config.limits.max_children_per_session).filter(|most| *most > 0);
        (session, cx.agent.authority.spawn_number())
    }

    fn read(&self, arguments: &Value) -> ParsedCall {
        match self.config.options.tool_name {
            ToolFlavor::DelegateTask => read(arguments, &self.config),
            ToolFlavor::Task => read_task(arguments),
        }
    }

    /// Returns whether a call of the same step that was accepted asks for the same work.
    fn is_repeated(&self, reading: &ParsedCall, cx: &ToolCx) -> bool {
        let accepted = cx.agent.store.get_or_insert_with(AcceptedCalls::default);
        let calls = cx.agent.store.get_or_insert_with(StepCalls::default).get();
        // Those that an earlier process of the session accepted.
        let began = |call: &&StepCall| {
            let first = cx.agent.id().child(call.id, 0);
            call.id != cx.call && !started(cx).is_new(&first)
        };
        for call in calls.iter().filter(began) {
            accepted.add(call.id, || self.read(&call.arguments));
        }
        accepted.beside(cx.call).iter().any(|other| reading.asks_same(other))
    }

    /// Returns what asks for the same work twice: the call itself, or tasks of it.
    fn repetitions(&self, reading: &ParsedCall, cx: &ToolCx) -> Vec<CallError> {
        if self.is_repeated(reading, cx) {
            let asks = reading.asks(self.config.options.tool_name);
            return vec![CallError::new(
                CallErrorCode::SameCall,
                None,
                (asks.0, &asks.1),
                SAME_CALL,
            )];
        }
        let error = |(task, earlier): (&RequestedTask, &RequestedTask)| {
            let remedy = format!(
                "this task is the same as task {}, so nothing was started: leave it out; to have a \
                 task done twice, say in each goal what is to differ",
                earlier.index.unwrap_or_default()
            );
            CallError::new(CallErrorCode::SameTask, task.index, ("goal", &json!(task.goal)), remedy)
        };
        reading.repeated_tasks().into_iter().map(error).collect()
    }

    /// Milliseconds that a call ran in earlier processes of the session.
    fn ran_before(cx: &ToolCx) -> u64 {
        let calls = cx.agent.store.get_or_insert_with(StepCalls::default).get();
        let own = calls.iter().find(|call| call.id == cx.call);
        own.map_or(0, |call| u64::try_from(call.ran.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads a call and makes its children, or tells all that stands against it. The children are
    /// counted, and the call is in until the value is dropped.
    fn begin(
        &self,
        arguments: &Value,
        cx: &ToolCx,
        (slots, catalog): (&Arc<Slots>, &Catalog),
    ) -> Result<(DelegationPlan, Option<CallGuard>), PlanError> {
        let mut reading = self.read(arguments);
        let ids =
            (0..).take(reading.count).map(|index| (index, cx.agent.id().child(cx.call, index)));
        let begun = ids.filter(|(_, id)| !started(cx).is_new(id));
        reading.begun = begun.map(|(index, _)| index).collect();
        let accepted = !reading.begun.is_empty();
        let repetitions = if accepted { Vec::new() } else { self.repetitions(&reading, cx) };
        if !repetitions.is_empty() {
            return Err(Refusal::new(repetitions, reading.warnings).into());
        }
        let as_read = reading.clone();
        let (entered, errors) = self.enter(&reading, cx, slots);
        reading.errors.extend(errors);
        let asks = reading.asks(self.config.options.tool_name);
        let shell = shell_of(&cx.agent);
        let parent = ParentView { shell: shell.as_deref(), catalog, ..ParentView::of(&cx.agent) };
        let mut plan = plan(reading, cx.call, parent, &self.config)?;
        let begin = plan.specs.iter().zip(&plan.held).filter(|(_, held)| held.is_none());
        let ids = begin.map(|(spec, _)| spec.id.clone()).collect();
        // Another agent may have taken the room meanwhile.
        if let Err(over) = started(cx).count_in(cx.agent.id(), &ids, self.most_children(cx)) {
            let key = self.config.setting_name("max_children_per_session");
            let error = too_many_children(over, key, (asks.0, &asks.1));
            if !accepted {
                return Err(Refusal::new(vec![error], plan.warnings).into());
            }
            for (spec, held) in plan.specs.iter().zip(&mut plan.held) {
                if started(cx).is_new(&spec.id) {
                    held.get_or_insert_with(|| error.remedy.clone());
                }
            }
        }
        let accepted = cx.agent.store.get_or_insert_with(AcceptedCalls::default);
        accepted.add(cx.call, || as_read);
        Ok((plan, entered))
    }

    /// A refusal in the form of the tool's results.
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
        let begun = self.clock.now_ms();
        let (files, agent) = (&cx.agent.session.files, cx.agent.id());
        let open = CallSnapshots::of(&cx.agent);
        let unseen_of = |(outcome, spec): (&Outcome, &AgentSpec)| match &outcome.found {
            Some(found) => found.unseen_writes.clone(),
            None => unseen_writes(&cx.agent, spec, outcome),
        };
        let before = FileSnapshot::take(files, agent);
        let slots = cx.agent.store.get_or_insert_with(|| Slots::new(self.config.concurrency()));
        let turn = slots.plan_turn().await;
        let catalog = cx.agent.session.spawn.tools(&cx.agent, cx.call).await;
        let begun_so = self.begin(arguments, cx, (&slots, &*catalog));
        let (plan, entered) = begun_so.map_err(|error| self.failed(error))?;
        let taken_up = plan.specs.iter().any(|spec| !started(cx).is_new(&spec.id));
        let before = if taken_up { before.late() } else { before };
        if plan.specs.iter().any(|spec| spec.background) {
            return handles(plan, before, cx);
        }
        let tickets = queue(&plan, &slots);
        drop(turn);
        let before = Arc::new(before);
        plan.specs.iter().for_each(|spec| open.begin(&spec.id, &before));
        let (outcomes, not_begun) = run(&plan, cx, tickets).await;
        drop(entered);

        let now = self.clock.now_ms();
        let took = Self::ran_before(cx).saturating_add(now.saturating_sub(begun));
        let caps = ReportLimits::of(&cx.agent, &self.config);
        let stale = before.stale(files, agent, &outcomes);
        let unseen: Vec<Vec<String>> = outcomes.iter().zip(&plan.specs).map(unseen_of).collect();
        plan.specs.iter().for_each(|spec| open.forget(&spec.id));
        let (unseen, warnings) = (&*unseen, &*plan.warnings);
        let seen = HostObservations { first: 0, stale: &stale, unseen, kept: &[], warnings };
        let by = (&*cx.agent, &self.config);
        let kept = save_output(by, (&plan.specs, &outcomes), seen, caps, now);
        let seen = HostObservations { kept: &kept, ..seen };
        let told = match (self.config.options.tool_name, outcomes.as_slice()) {
            (ToolFlavor::Task, [outcome]) => {
                render_plain(outcome, seen, caps).map_err(ToolError::failed)?
            }
            _ => Ok(report(&outcomes, seen, took, caps).map_err(ToolError::failed)?),
        };
        match add_facts(told, not_begun) {
            Ok(output) if cx.cancel.is_cancelled() => Err(ToolError::Cancelled(Box::new(output))),
            Err(ToolError::Partly { output, .. }) if cx.cancel.is_cancelled() => {
                Err(ToolError::Cancelled(output))
            }
            told => told,
        }
    }
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

/// The directory that an agent's shell is in, if it is there.
fn shell_of(agent: &AgentView) -> Option<PathBuf> {
    let place = agent.store.get_or_insert_with(ShellPlace::default).get()?;
    // What a recording tells of need not be on this machine.
    (!is_saved(agent) || place.is_dir()).then_some(place)
}

/// The children that the session has had.
pub(crate) fn started(cx: &ToolCx) -> Arc<SpawnRegistry> {
    let known = || {
        let top = cx.agent.id().ancestors().last().unwrap_or_else(|| cx.agent.id().clone());
        SpawnRegistry::new(cx.agent.session.spawn.known().into_iter().filter(|id| *id != top))
    };
    cx.agent.session.settings.get_or_insert_with(known)
}

fn too_many_children(over: LimitExceeded, key: &str, asks: (&str, &Value)) -> CallError {
    let LimitExceeded { so_far, more, most, whose } = over;
    let whose = match (whose, key) {
        (LimitScope::Session, "") => String::new(),
        (LimitScope::Session, key) => format!(" ({key})"),
        (LimitScope::Agent, "") => " (for all below this agent)".to_owned(),
        (LimitScope::Agent, key) => format!(" (for all below this agent, of {key})"),
    };
    let s = if more == 1 { "child" } else { "children" };
    let remedy = format!(
        "this call would start {more} {s}, which is too many: {so_far} were started and the limit \
         is {most}{whose}; work with the results there are, or send fewer tasks"
    );
    CallError::new(CallErrorCode::TooManyChildren, None, asks, remedy)
}

#[cfg(test)]
mod tests;
