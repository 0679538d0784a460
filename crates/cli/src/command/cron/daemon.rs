//! `deputize cron run`: runs jobs when they are due.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::{BoxFuture, Cancel, Clock as _};
use deputize_cron::{Job, JobEvent, JobOutcome, JobStore, RunCause, RunJob, Scheduler, timestamp};
use deputize_runtime::SystemClock;
use jiff::tz::TimeZone;
use tokio::task::spawn_blocking;

use super::job_session::JobSession;
use super::{store_error, toolset_fault};
use crate::args::CronRun;
use crate::command::run::{no_tools_warning, overrides};
use crate::command::serve::SharedAssembly;
use crate::compose::{LinkedTools, job_store};
use crate::config::LoadedConfig;
use crate::exit::{CliError, Exit};
use crate::process_env::ProcessEnv;
use crate::runtime::{STUCK, start_threads};
use crate::stdio::tell;
use crate::stop::{SignalNotice, Signals};
use crate::zone::zone;

/// Characters of a line about a run.
const LINE_CHARS: usize = 400;

/// Runs jobs until a signal.
pub(crate) fn run(
    links: &LinkedTools,
    mut env: ProcessEnv,
    args: &CronRun,
) -> Result<u8, CliError> {
    let runtime = start_threads(&env)?;
    // Whoever started it does not sit before it.
    env.person_available = false;
    let store = job_store(&env)?;
    let zone = zone(&env);
    let shared = SharedAssembly::new(links, env, args.options())?;
    // A model that cannot be used is reported here, and not at night.
    let cwd = shared.env.cwd(None)?;
    let (sources, loaded) = shared.load(&cwd)?;
    let composition = shared.compose(&sources, &loaded.config)?;
    composition.models(&overrides(&args.options().model), &shared.env)?;
    let limits = &loaded.config.cron;
    let no_tools = no_tools_warning(&composition);
    no_tools.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    warn_of_toolsets(&store, &loaded, &shared.env);
    let runner = SessionRunner { shared: Arc::new(shared), zone: zone.clone() };
    let watch = |event: JobEvent<'_>| tell(&line(&event, &zone));
    let scheduler = Scheduler {
        zone: zone.clone(),
        watch: &watch,
        time_limit: Duration::from_secs(limits.timeout_seconds.into()),
        concurrent_runs: limits.max_concurrent_runs as usize,
        ..Scheduler::new(&store, &SystemClock, &runner)
    };
    let code = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed)?;
        let end = Cancel::new();
        let notice = |notice| match notice {
            SignalNotice::First => tell("ending"),
            SignalNotice::Waiting => tell("still ending; once more leaves at once"),
        };
        tell(&format!("jobs of {}", store.folder().display()));
        match signals.guard(Box::pin(scheduler.serve(&end)), &end, notice).await {
            Some(served) => served.map(|()| 0).map_err(store_error),
            None => Ok(Exit::Interrupted.code()),
        }
    });
    runtime.shutdown_timeout(STUCK);
    code
}

/// Tells now which jobs lack a toolset, and not when they run.
fn warn_of_toolsets(store: &JobStore, loaded: &LoadedConfig, env: &ProcessEnv) {
    // What cannot be read is told as jobs are run.
    for job in store.list().map(|listing| listing.jobs).unwrap_or_default() {
        if let Some(fault) = toolset_fault(loaded, env, &job) {
            tell(&format!("warning: {}: {fault}", job.name));
        }
    }
}

/// Runs each job in a session of its own.
struct SessionRunner {
    shared: Arc<SharedAssembly>,
    zone: TimeZone,
}

impl RunJob for SessionRunner {
    fn run_job<'a>(&'a self, job: &'a Job, cancel: &'a Cancel) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            let (shared, own) = (Arc::clone(&self.shared), job.clone());
            let prepared = spawn_blocking(move || JobSession::new(shared, own)).await;
            match prepared {
                Ok(Ok(session)) => Box::pin(session.work(&self.zone, cancel)).await,
                Ok(Err(error)) => {
                    JobOutcome::failed(for_terminal_line(&error.in_one_line(), LINE_CHARS))
                }
                Err(_) => JobOutcome::failed("it ended by a fault of the program"),
            }
        })
    }
}

/// Returns the line that reports an event, with its time.
fn line(event: &JobEvent<'_>, zone: &TimeZone) -> String {
    let now = timestamp(SystemClock.now_ms()).to_zoned(zone.clone());
    let now = now.strftime("%Y-%m-%d %H:%M:%S");
    let text = match event {
        JobEvent::Started(name, cause) => {
            let why = match cause {
                RunCause::OnTime => "",
                RunCause::Requested => ", on request",
                RunCause::Missed => ", because its time was missed",
                RunCause::BrokenOff => ", again, because the run before broke off",
            };
            format!("{name} starts{why}")
        }
        JobEvent::Ended(name, outcome) => {
            let session = outcome.session.as_ref().map(|id| format!(", session {id}"));
            let note = outcome.note.as_ref().map(|note| format!(": {note}"));
            let (session, note) = (session.unwrap_or_default(), note.unwrap_or_default());
            let status = outcome.status.with_denied(outcome.denied);
            format!("{name} {status}{session}{note}")
        }
        JobEvent::Missed(name) => format!("{name} left out: its time was missed"),
        JobEvent::StillRunning(name) => format!("{name} left out: it still runs"),
        JobEvent::CutOff { name, begins_again } => {
            let remedy = match begins_again {
                true => String::new(),
                false => format!("; `deputize cron trigger {name}` runs it again"),
            };
            format!("{name} was cut off: the program had ended in the middle of it{remedy}")
        }
        JobEvent::Fault(error) => format!("warning: {error}"),
        _ => String::new(),
    };
    format!("{now} {}", for_terminal_line(&text, LINE_CHARS))
}
