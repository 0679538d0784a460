//! What stands against a call before its children are planned: a pause, limits, and work that was
//! asked for already.

use std::collections::BTreeSet;
use std::sync::Arc;

use deputize_core::ToolCx;
use deputize_core::agent::AgentSpec;
use deputize_core::step_calls::{StepCall, StepCalls};
use deputize_core::tool::{ChildStart, DescendantLimit, LimitScope, SpawnConditions};
use serde_json::{Value, json};

use crate::accepted_calls::AcceptedCalls;
use crate::call_error::{CallError, CallErrorCode, Refusal};
use crate::concurrency::{CallGuard, Slots};
use crate::config::{DelegationConfig, OverLimit, ToolFlavor};
use crate::names::{DELEGATE_TASK, TASK_TOOL};
use crate::parsed_call::{ParsedCall, RequestedTask};

/// Error of a call that is made twice in one step.
const SAME_CALL: &str = "this call is the same as another one of this step, whose children were \
                         started: the result of that call is the result of both. Do not repeat it; \
                         to have a task done twice, say in each goal what is to differ";

/// What starts the child of each task of a call; `None` for a task that is held back.
pub(crate) type ChildStarts<'a> = Vec<Option<ChildStart<'a>>>;

/// Judges whether a call may start children now, and attaches to them.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub(crate) config: &'a DelegationConfig,
    pub(crate) cx: &'a ToolCx,
    pub(crate) conditions: &'a SpawnConditions,
}

impl<'a> Admission<'a> {
    /// Returns the tasks of a call whose children an earlier process of the session began.
    pub(crate) fn started_tasks(self, count: usize) -> BTreeSet<u32> {
        let agent = self.cx.agent.id();
        let is_begun =
            |index: &u32| self.conditions.children.contains(&agent.child(self.cx.call, *index));
        (0..).take(count).filter(is_begun).collect()
    }

    /// Returns what asks for the same work twice: the call itself, or tasks of it.
    pub(crate) fn repetitions(
        self,
        reading: &ParsedCall,
        read: impl Fn(&Value) -> ParsedCall,
    ) -> Vec<CallError> {
        if self.is_repeated(reading, read) {
            let (field, value) = reading.asks(self.config.options.tool_name);
            return vec![CallError::new(CallErrorCode::SameCall, None, field, &value, SAME_CALL)];
        }
        let error = |(task, earlier): (&RequestedTask, &RequestedTask)| {
            let remedy = format!(
                "this task is the same as task {}, so nothing was started: leave it out; to have a \
                 task done twice, say in each goal what is to differ",
                earlier.index.unwrap_or_default()
            );
            CallError::new(CallErrorCode::SameTask, task.index, "goal", &json!(task.goal), remedy)
        };
        reading.repeated_tasks().into_iter().map(error).collect()
    }

    /// Returns whether a call of the same step that was accepted asks for the same work.
    fn is_repeated(self, reading: &ParsedCall, read: impl Fn(&Value) -> ParsedCall) -> bool {
        let agent = &self.cx.agent;
        let accepted = agent.store.get_or_insert_with(AcceptedCalls::default);
        let calls = agent.store.get_or_insert_with(StepCalls::default).get();
        // Those that an earlier process of the session accepted.
        let began = |call: &&StepCall| {
            let first = agent.id().child(call.id, 0);
            call.id != self.cx.call && self.conditions.children.contains(&first)
        };
        for call in calls.iter().filter(began) {
            accepted.add(call.id, || read(&call.arguments));
        }
        accepted.beside(self.cx.call).iter().any(|other| reading.asks_same(other))
    }

    /// Acquires a place among the calls that run, as far as limits are not reached, and returns
    /// what stands against the call. One that an earlier process accepted is not judged again.
    pub(crate) fn enter(
        self,
        reading: &ParsedCall,
        slots: &Arc<Slots>,
    ) -> (Option<CallGuard>, Vec<CallError>) {
        if !reading.started_tasks.is_empty() {
            return (slots.enter(u32::MAX), self.taken_away(reading).into_iter().collect());
        }
        let mut errors = Vec::new();
        errors.extend(self.paused(reading));
        // Of one that may not have children at all the depth tells.
        if self.cx.agent.authority.spawn_depth() > 0 {
            let room = self.conditions.counts.check(reading.count, self.per_session());
            errors.extend(room.err().map(|over| self.too_many_children(over, reading)));
        }
        let most = match self.config.limits.over_limit {
            OverLimit::Refuse => self.config.concurrency(),
            OverLimit::Queue => u32::MAX,
        };
        let entered = slots.enter(most);
        if entered.is_none() {
            errors.push(self.too_many_calls(most, reading));
        }
        (entered, errors)
    }

    /// Attaches to the children of a plan, and returns what starts each; `None` for one that is
    /// held back. Those that were not begun are counted, all or none. Where there is no room for
    /// them any more, those of an accepted call are held back.
    ///
    /// # Errors
    /// When there is no room for the children of a new call.
    pub(crate) fn attach(
        self,
        specs: &'a [Arc<AgentSpec>],
        held: &mut [Option<String>],
        reading: &ParsedCall,
        warnings: &[String],
    ) -> Result<ChildStarts<'a>, Refusal> {
        // Another agent may have taken the room meanwhile.
        let over = match self.attach_unheld(specs, held) {
            Ok(starts) => return Ok(starts),
            Err(over) => self.too_many_children(over, reading),
        };
        if reading.started_tasks.is_empty() {
            return Err(Refusal::new(vec![over], warnings.to_vec()));
        }
        for (index, held) in (0..).zip(&mut *held) {
            if !reading.started_tasks.contains(&index) {
                held.get_or_insert_with(|| over.remedy.clone());
            }
        }
        self.attach_unheld(specs, held).map_err(|over| {
            let over = self.too_many_children(over, reading);
            Refusal::new(vec![over], warnings.to_vec())
        })
    }

    fn attach_unheld(
        self,
        specs: &'a [Arc<AgentSpec>],
        held: &[Option<String>],
    ) -> Result<ChildStarts<'a>, DescendantLimit> {
        let agent = &self.cx.agent;
        let begins = specs.iter().zip(held).filter(|(_, held)| held.is_none());
        let children = begins.map(|(spec, _)| spec).collect();
        let spawn = &agent.session.spawn;
        let starts = spawn.attach(agent, children, self.per_session(), &self.cx.cancel)?;
        let mut starts = starts.into_iter();
        Ok(held.iter().map(|held| if held.is_none() { starts.next() } else { None }).collect())
    }

    /// Returns how many children the session may have; `None` means no limit.
    fn per_session(self) -> Option<u32> {
        Some(self.config.limits.max_children_per_session).filter(|most| *most > 0)
    }

    /// Returns an error if an agent whose call was accepted may no longer delegate.
    fn taken_away(self, reading: &ParsedCall) -> Option<CallError> {
        let authority = &self.cx.agent.authority;
        if [DELEGATE_TASK, TASK_TOOL].iter().any(|tool| authority.has(tool.as_str())) {
            return None;
        }
        let settings = ["toolsets", "tool_name"].map(|field| self.config.setting_name(field));
        let settings: Vec<&str> = settings.into_iter().filter(|name| !name.is_empty()).collect();
        let note = match settings.join(", ") {
            none if none.is_empty() => none,
            names => format!(" ({names})"),
        };
        let remedy = format!(
            "this agent may no longer delegate{note}; continue with the results so far, or do \
             the work yourself"
        );
        Some(self.error(CallErrorCode::Toolset, reading, remedy))
    }

    fn paused(self, reading: &ParsedCall) -> Option<CallError> {
        let by = self.conditions.paused_by.as_ref()?;
        let remedy = format!(
            "spawning paused by {by}: no new child may start until it is allowed again; continue \
             with the results so far, or do the work yourself"
        );
        Some(self.error(CallErrorCode::Paused, reading, remedy))
    }

    fn too_many_calls(self, most: u32, reading: &ParsedCall) -> CallError {
        let remedy = format!(
            "{most} calls of `{}` are running, which is the limit: {}make this call when one of \
             them has ended, or have the person raise {}",
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
        self.error(CallErrorCode::TooManyCalls, reading, remedy)
    }

    fn too_many_children(self, over: DescendantLimit, reading: &ParsedCall) -> CallError {
        let DescendantLimit { so_far, more, most, scope } = over;
        let key = self.config.setting_name("max_children_per_session");
        let whose = match (scope, key) {
            (LimitScope::Session, "") => String::new(),
            (LimitScope::Session, key) => format!(" ({key})"),
            (LimitScope::Agent, "") => " (for all below this agent)".to_owned(),
            (LimitScope::Agent, key) => format!(" (for all below this agent, of {key})"),
        };
        let s = if more == 1 { "child" } else { "children" };
        let remedy = format!(
            "this call would start {more} {s}, which is too many: {so_far} were started and the \
             limit is {most}{whose}; continue with the results so far, or send fewer tasks"
        );
        self.error(CallErrorCode::TooManyChildren, reading, remedy)
    }

    fn error(self, code: CallErrorCode, reading: &ParsedCall, remedy: String) -> CallError {
        let (field, value) = reading.asks(self.config.options.tool_name);
        CallError::new(code, None, field, &value, remedy)
    }
}
