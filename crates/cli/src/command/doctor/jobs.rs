//! Names the jobs that cannot run, or whose answers would not arrive.

use deputize_core::sanitize::for_terminal_line;
use deputize_cron::{Job, JobStore, JobStoreError};

use super::Check;
use crate::command::cron::{store_error, toolset_fault};
use crate::compose::job_store;
use crate::config::LoadedConfig;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;

/// Characters of the name of a target.
const TARGET_CHARS: usize = 40;

/// Checks the files of all jobs, and what the jobs name. Without a configuration, toolsets and
/// targets are not looked up.
pub(super) fn checks(env: &ProcessEnv, loaded: Option<&LoadedConfig>) -> Vec<Check> {
    // The check of the sessions says why there is no place for jobs.
    let Ok(store) = job_store(env) else { return Vec::new() };
    match store.list() {
        Ok(listing) => {
            let broken = listing.faults.into_iter().map(unreadable);
            let faulty = listing.jobs.iter().flat_map(|job| check(&store, job, env, loaded));
            broken.chain(faulty).collect()
        }
        Err(error) => vec![unreadable(error)],
    }
}

/// Checks the history of a job, its directory, its target and its toolsets.
fn check(
    store: &JobStore,
    job: &Job,
    env: &ProcessEnv,
    loaded: Option<&LoadedConfig>,
) -> Vec<Check> {
    let name = &job.name;
    let mut checks: Vec<Check> = store.history(name).err().map(unreadable).into_iter().collect();
    let edit = format_command("cron edit");
    let mut add = |fault: &str| {
        let found = format!("{name}: {fault}; `{edit} {name}` changes the job");
        checks.push(Check::less("jobs", found));
    };
    if let Err(error) = env.cwd(Some(&job.cwd)) {
        add(&error.chain());
    }
    if let (Some(target), Some(loaded)) = (&job.output, loaded)
        && !loaded.config.messaging.targets.contains_key(target)
    {
        let target = for_terminal_line(target, TARGET_CHARS);
        add(&format!("there is no message target `{target}` in `messaging.targets`"));
    }
    let toolsets = loaded.and_then(|loaded| toolset_fault(loaded, env, job));
    checks.extend(toolsets.map(|fault| Check::less("jobs", format!("{name}: {fault}"))));
    checks
}

fn unreadable(error: JobStoreError) -> Check {
    Check::less("jobs", store_error(error).in_one_line())
}
