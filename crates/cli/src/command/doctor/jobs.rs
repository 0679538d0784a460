//! Names the jobs that cannot run, or whose answers would not arrive.

use deputize_core::sanitize::for_terminal_line;
use deputize_cron::{Job, JobStore, JobStoreError};

use super::Check;
use crate::compose::job_store;
use crate::config::Config;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;

/// Characters of the name of a target.
const TARGET_CHARS: usize = 40;

/// Checks the files of all jobs, and what the jobs name. Without a configuration, targets are not
/// looked up.
pub(super) fn checks(env: &ProcessEnv, config: Option<&Config>) -> Vec<Check> {
    // The check of the sessions says why there is no place for jobs.
    let Ok(store) = job_store(env) else { return Vec::new() };
    match store.list() {
        Ok(listing) => {
            let broken = listing.faults.into_iter().map(unreadable);
            let faulty = listing.jobs.iter().flat_map(|job| check(&store, job, env, config));
            broken.chain(faulty).collect()
        }
        Err(error) => vec![unreadable(error)],
    }
}

/// Checks the history of a job, its directory and its target.
fn check(store: &JobStore, job: &Job, env: &ProcessEnv, config: Option<&Config>) -> Vec<Check> {
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
    if let (Some(target), Some(config)) = (&job.output, config)
        && !config.messaging.targets.contains_key(target)
    {
        let target = for_terminal_line(target, TARGET_CHARS);
        add(&format!("there is no message target `{target}` in `messaging.targets`"));
    }
    checks
}

fn unreadable(error: JobStoreError) -> Check {
    Check::less("jobs", CliError::failed(error).chain())
}
