//! The tool: reads, plans, lets in, runs, reports.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use deputize_core::{
    AgentId, AgentView, BoxFuture, Clock, Effects, Entry, FileLedger, Origin, Outcome, Schema,
    SchemaError, Tool, ToolCallResult, ToolCx, ToolDecl, ToolError, ToolSpec, Usable,
};
use serde_json::{Value, json};

use crate::args::read;
use crate::claims::named_as_written;
use crate::control::handles;
use crate::describe::describe;
use crate::files::Before;
use crate::keep::keep;
use crate::plan::{Plan, PlanError, plan};
use crate::policy::{Form, OverLimit, Policy};
use crate::refusal::{CallError, Code, Refusal};
use crate::report::{Caps, Seen, plain, report};
use crate::run::run;
use crate::slots::{Entered, Slots, Started, TooMany};
use crate::task::read_task;
use crate::toolset::{Parent, TOOLSET};

/// What lists of tools say of it; an agent's model is told more, see [`describe`].
const HEADLINE: &str = "Hand work to child agents and get their reports.";

/// `delegate_task`: one shared object for all agents of a program. What it needs of the agent
/// that calls is in the call's context.
pub struct DelegateTool {
    spec: ToolSpec,
    policy: Policy,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for DelegateTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegateTool").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl DelegateTool {
    /// The tool under these settings; the clock only measures how long a call takes.
    ///
    /// # Errors
    /// Never with a released core: the parameters are a constant of this crate.
    pub fn new(policy: Policy, clock: Arc<dyn Clock>) -> Result<Self, SchemaError> {
        // Wide open, because arguments are read leniently and each mistake gets an answer of
        // ours. What the model is told is narrower, see `declare`.
        let parameters = Schema::new(&json!({"type": "object"}))?;
        let spec = ToolSpec {
            decl: ToolDecl { name: policy.tool(), description: HEADLINE.to_owned(), parameters },
            // By itself it changes nothing: each call of a child is judged where it runs.
            effects: Effects::ReadOnly,
            // Children are attached by ids that follow from the call.
            repeatable: true,
            spawns: true,
            parallel: true,
            // Children have time limits of their own.
            time_limit: None,
            usable: Usable::Yes,
            examples: Vec::new(),
        };
        Ok(Self { spec, policy, clock })
    }

    /// The tool in its toolset, for a catalog.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        Entry { toolset: TOOLSET, origin, tool: Arc::new(self) }
    }

    /// Lets a planned call in, or says which limit is reached.
    fn enter(&self, plan: &Plan, cx: &ToolCx, slots: &Arc<Slots>) -> Result<Entered, Refusal> {
        let refused = |code, limit: u32, remedy| {
            let error = CallError::new(code, None, ("", &json!(limit)), remedy);
            Refusal::new(vec![error], plan.warnings.clone())
        };
        let most = match self.policy.over_limit {
            OverLimit::Refuse => self.policy.concurrency(),
            OverLimit::Queue => u32::MAX,
        };
        let entered = slots.enter(most).ok_or_else(|| {
            let remedy = format!(
                "{most} calls of `{}` are running, which is the limit: {}make this call when one \
                 of them has ended, or have the person raise delegation.max_concurrent_children",
                self.policy.tool(),
                match self.policy.form {
                    Form::DelegateTask => "put the work into one call with `tasks`, ",
                    Form::Task => "",
                }
            );
            refused(Code::TooManyCalls, most, remedy)
        })?;
        let session = match self.policy.max_children_per_session {
            0 => None,
            most => Some(most),
        };
        let below = cx.agent.authority.spawn_number();
        let ids: BTreeSet<AgentId> = plan.specs.iter().map(|spec| spec.id.clone()).collect();
        let known = || {
            let top = cx.agent.id().ancestors().last().unwrap_or_else(|| cx.agent.id().clone());
            Started::new(cx.agent.session.spawn.known().into_iter().filter(|id| *id != top))
        };
        let started = cx.agent.session.settings.get_or_insert_with(known);
        started.count_in(cx.agent.id(), &ids, (session, below)).map_err(|over| {
            let (so_far, limit, whose) = match over {
                TooMany::Session { so_far, most } => {
                    (so_far, most, "delegation.max_children_per_session")
                }
                TooMany::Below { so_far, most } => (so_far, most, "for all below this agent"),
            };
            let remedy = format!(
                "{} more children would be too many: {so_far} were started and the limit is \
                 {limit} ({whose}); work with the results there are, or send fewer tasks",
                ids.len()
            );
            refused(Code::TooManyChildren, limit, remedy)
        })?;
        Ok(entered)
    }

    fn failed(&self, error: PlanError) -> ToolError {
        match error {
            PlanError::Refused(refusal) => ToolError::refused(match self.policy.form {
                Form::DelegateTask => refusal.to_json(),
                Form::Task => refusal.to_string(),
            }),
            PlanError::Prompt(_) => ToolError::failed(error),
        }
    }

    async fn delegate(&self, arguments: &Value, cx: &ToolCx) -> ToolCallResult {
        let begun = self.clock.now_ms();
        let (files, agent) = (&cx.agent.session.files, cx.agent.id());
        let before = Before::look(files, agent);
        let mut reading = match self.policy.form {
            Form::DelegateTask => read(arguments, &self.policy),
            Form::Task => read_task(arguments),
        };
        if let Some(by) = cx.agent.session.spawn.paused() {
            let remedy = format!(
                "spawning paused by {by}: no new child may start until `deputize unpause`; go on \
                 with the results there are, or do the work yourself"
            );
            reading.errors.push(CallError::new(Code::Paused, None, ("", &json!(by)), remedy));
        }
        let plan = plan(reading, cx.call, Parent::of(&cx.agent), &self.policy)
            .map_err(|error| self.failed(error))?;
        let slots = cx.agent.store.get_or_insert_with(|| Slots::new(self.policy.concurrency()));
        let entered =
            self.enter(&plan, cx, &slots).map_err(|refusal| self.failed(refusal.into()))?;
        if plan.specs.iter().any(|spec| spec.background) {
            return handles(plan, before, (cx, &slots));
        }
        let outcomes = run(&plan.specs, cx, &slots).await;
        drop(entered);

        let now = self.clock.now_ms();
        let caps = Caps::of(&cx.agent, &self.policy);
        let kept = keep(&cx.agent, &self.policy, (&plan.specs, &outcomes), caps, now);
        let stale = before.stale(files, agent, &outcomes);
        let unseen: Vec<Vec<String>> =
            outcomes.iter().map(|outcome| unseen_writes(outcome, files, caps.cwd)).collect();
        let (kept, unseen, warnings) = (&*kept, &*unseen, &*plan.warnings);
        let seen = Seen { first: 0, stale: &stale, unseen, kept, warnings };
        let told = match (self.policy.form, outcomes.as_slice()) {
            (Form::Task, [outcome]) => plain(outcome, seen, caps).map_err(ToolError::failed)?,
            _ => Ok(report(&outcomes, seen, now.saturating_sub(begun), caps)
                .map_err(ToolError::failed)?),
        };
        match told {
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
        describe(Parent::of(agent), &self.policy).ok()
    }
}

/// The files that an answer names as written and of which no write was seen: neither by the child
/// nor by an agent below it. What a command or a foreign tool may have written counts as unseen
/// only where it is not there.
pub(crate) fn unseen_writes(outcome: &Outcome, files: &FileLedger, cwd: &Path) -> Vec<String> {
    const OWN: [&str; 5] = ["edit_file", "list_dir", "read_file", "search_files", "write_file"];
    let own = outcome.trace.iter().all(|line| OWN.contains(&line.tool.as_str()));
    let seen = |named: &Path| {
        let written = outcome.receipts.files_written.keys();
        let below = || {
            let (by, _) = files.last_write(&cwd.join(named))?;
            by.ancestors().chain([by.clone()]).find(|agent| *agent == outcome.agent)
        };
        let name = named.strip_prefix(".").unwrap_or(named);
        written.into_iter().any(|path| path.ends_with(name)) || below().is_some()
    };
    let named = named_as_written(outcome.text.as_deref().unwrap_or_default());
    let unseen = named
        .into_iter()
        .filter(|named| !seen(Path::new(named)) && (own || !cwd.join(named).exists()));
    unseen.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
