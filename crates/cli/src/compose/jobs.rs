//! Where jobs are kept, and what the tool that makes them gets.

use std::sync::Arc;

use deputize_core::sanitize::Secrets;
use deputize_cron::{JobSettings, JobStore};

use super::AssemblyInput;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::zone::local_zone;

/// Returns the jobs, beside the sessions.
pub(crate) fn job_store(env: &ProcessEnv) -> Result<JobStore, CliError> {
    env.state().map(|state| JobStore::new(state.join("cron")))
}

/// Returns what the tool that makes jobs gets. The secrets of a session are added later.
pub(super) fn settings(from: &AssemblyInput<'_>, person_available: bool) -> JobSettings {
    let names_zone = from.environment.var("TZ").is_some();
    JobSettings {
        store: job_store(from.environment).ok(),
        person_available,
        local_zone: Arc::new(move || local_zone(names_zone)),
        clock: Arc::clone(&from.clock),
        secrets: Secrets::default(),
        run_command: format_command("cron run"),
    }
}
