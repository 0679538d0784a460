//! Runs scheduled jobs.

use std::collections::BTreeSet;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::{BoxFuture, Cancel, CatalogEntry, ToolName, ToolsetName};
use deputize_cron::{Job, JobOutcome, RunJob};

use super::Agent;

/// Runs a job in a session of its own, with those tools of this agent that the job has. Nobody is
/// asked: what needs an approval is denied. A job of another directory fails.
///
/// ```no_run
/// # async fn run(agent: deputize_agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// use deputize_core::Cancel;
/// use deputize_cron::{JobStore, Scheduler};
/// use deputize_runtime::SystemClock;
///
/// let store = JobStore::new("state/cron".into());
/// Scheduler::new(&store, &SystemClock, &agent).serve(&Cancel::new()).await?;
/// # Ok(())
/// # }
/// ```
impl RunJob for Agent {
    fn run_job<'a>(&'a self, job: &'a Job, cancel: &'a Cancel) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            let assembly = &self.assembly;
            let own = &assembly.workspace.cwd;
            if job.cwd != *own {
                return JobOutcome::failed(format!(
                    "the job works in `{}`, and this agent in `{}`",
                    job.cwd.display(),
                    own.display()
                ));
            }
            let sets: Vec<ToolsetName> =
                job.toolsets.iter().filter_map(|set| ToolsetName::new(set.as_str()).ok()).collect();
            let catalog = &assembly.tools.catalog;
            let is_given = |entry: &CatalogEntry| {
                let allowed = job.tools.as_ref();
                sets.iter().any(|set| catalog.includes(set, entry))
                    && allowed.is_none_or(|tools| tools.contains(entry.name()))
            };
            let tools = assembly
                .tools
                .names
                .iter()
                .filter(|name| catalog.get(name.as_str()).is_some_and(&is_given));
            let tools: BTreeSet<ToolName> = tools.cloned().collect();
            let narrow = |spec: AgentSpec| AgentSpec {
                tools: spec.tools.into_iter().filter(|name| tools.contains(name)).collect(),
                grant: Grant { tools: Some(tools.clone()), ..spec.grant },
                approver: ApproverMode::Deny,
                ..spec
            };
            let outcome = self.run_spec(narrow, &job.prompt, None, cancel).await;
            JobOutcome::of(&outcome)
        })
    }
}
