//! The tool: reads, plans, lets in, runs, reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::{
    AgentId, AgentView, BoxFuture, Clock, Effects, Entry, FileLedger, Origin, Outcome, Schema,
    SchemaError, Stale, Tool, ToolCallResult, ToolCx, ToolDecl, ToolError, ToolSpec, Usable,
};
use serde_json::{Value, json};

use crate::args::read;
use crate::describe::describe;
use crate::plan::{Plan, PlanError, plan};
use crate::policy::{OverLimit, Policy};
use crate::refusal::{CallError, Code, Refusal};
use crate::report::{Caps, StaleFile, report};
use crate::run::run;
use crate::slots::{Entered, Slots, Started};
use crate::toolset::{Parent, TOOL, TOOLSET};

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
            decl: ToolDecl { name: TOOL, description: HEADLINE.to_owned(), parameters },
            // By itself it changes nothing: each call of a child is judged where it runs.
            effects: Effects::ReadOnly,
            // Children are attached by ids that follow from the call.
            repeatable: true,
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
                "{most} calls of `{TOOL}` are running, which is the limit: put the work into one \
                 call with `tasks`, make this call when one of them has ended, or have the person \
                 raise delegation.max_concurrent_children"
            );
            refused(Code::TooManyCalls, most, remedy)
        })?;
        let session = match self.policy.max_children_per_session {
            0 => None,
            most => Some(most),
        };
        let below = cx.agent.authority.spawn_number();
        let ids: BTreeSet<AgentId> = plan.specs.iter().map(|spec| spec.id.clone()).collect();
        let started = cx.agent.session.settings.get_or_insert_with(Started::default);
        started.count_in(cx.agent.id(), &ids, (session, below)).map_err(|so_far| {
            let limit = session.map_or(below, |most| most.min(below));
            let remedy = format!(
                "{} more children would be too many: {so_far} were started and the limit is \
                 {limit} (delegation.max_children_per_session); work with the results there are, \
                 or send fewer tasks",
                ids.len()
            );
            refused(Code::TooManyChildren, limit, remedy)
        })?;
        Ok(entered)
    }

    async fn delegate(&self, arguments: &Value, cx: &ToolCx) -> ToolCallResult {
        let begun = self.clock.now_ms();
        let files = &cx.agent.session.files;
        let mark = files.mark();
        let reading = read(arguments, &self.policy);
        let plan = plan(reading, cx.call, Parent::of(&cx.agent), &self.policy).map_err(failed)?;
        let slots = cx.agent.store.get_or_insert_with(|| Slots::new(self.policy.concurrency()));
        let entered = self.enter(&plan, cx, &slots).map_err(|refusal| failed(refusal.into()))?;
        let outcomes = run(plan.specs, cx, &slots).await;
        drop(entered);

        let stale = stale_files(files, mark, cx.agent.id(), &outcomes);
        let total_ms = self.clock.now_ms().saturating_sub(begun);
        let caps = Caps { summary_bytes: self.policy.max_summary_bytes, cwd: &cx.agent.spec.cwd };
        let output = report(&outcomes, (&stale, &plan.warnings), total_ms, caps)
            .map_err(ToolError::failed)?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled(Box::new(output)));
        }
        Ok(output)
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

fn failed(error: PlanError) -> ToolError {
    match error {
        PlanError::Refused(refusal) => ToolError::refused(refusal.to_json()),
        PlanError::Prompt(_) => ToolError::failed(error),
    }
}

/// Files that the parent had read and that an agent below it has written since. The ledger
/// knows what happened while this process ran; of children that had ended before a resume, the
/// receipts tell.
fn stale_files(
    files: &FileLedger,
    mark: u64,
    parent: &AgentId,
    outcomes: &[Outcome],
) -> Vec<StaleFile> {
    let mut stale: BTreeMap<PathBuf, AgentId> = BTreeMap::new();
    for outcome in outcomes {
        for (path, version) in &outcome.receipts.files_written {
            if let Err(Stale::Changed { .. }) = files.check(parent, path, version) {
                stale.insert(path.clone(), outcome.agent.clone());
            }
        }
    }
    stale.extend(files.changed_since(mark, parent));
    stale.into_iter().map(|(path, by)| StaleFile { path, by }).collect()
}

#[cfg(test)]
mod tests;
