//! One run of a job: a fresh session with the job's toolsets.

use std::io;
use std::sync::Arc;

use deputize_agent::new_session_id;
use deputize_core::authority::ApproverMode;
use deputize_core::source::Source;
use deputize_core::{Cancel, Clock as _, Observer, Outcome, Resource as _, SessionId};
use deputize_cron::{Job, JobOutcome, RunStatus};
use deputize_runtime::{Session, SystemClock};
use jiff::tz::TimeZone;
use tokio::task::spawn_blocking;

use super::job_output::JobAnswer;
use super::job_toolsets::narrow;
use crate::command::run::no_tools_warning;
use crate::command::serve::{SessionStartup, SharedAssembly, while_active};
use crate::compose::job_store;
use crate::config::CronApprovals;
use crate::exit::CliError;
use crate::inactivity::Inactivity;
use crate::stdio::tell;

/// A run that is about to begin.
pub(super) struct JobSession {
    shared: Arc<SharedAssembly>,
    begun: SessionStartup,
    mode: ApproverMode,
    id: SessionId,
    job: Job,
}

impl JobSession {
    /// Assembles the session from the present configuration of the job's directory.
    pub(super) fn new(shared: Arc<SharedAssembly>, job: Job) -> Result<Self, CliError> {
        let cwd = shared.env.cwd(Some(&job.cwd))?;
        let (sources, mut loaded) = shared.load(&cwd)?;
        narrow(&mut loaded, &job)?;
        let mode = match loaded.config.cron.approvals {
            CronApprovals::Deny => ApproverMode::Deny,
            CronApprovals::Auto => ApproverMode::Auto,
        };
        loaded.config.approvals.mode = mode;
        let mut begun = shared.begin(&sources, &loaded, None)?;
        if let Some(tools) = &job.tools {
            // Never more than its maker had, whatever the toolsets have by now.
            begun.composition.assembly.tools.names.retain(|name| tools.contains(name));
        }
        let warning = no_tools_warning(&begun.composition);
        warning.iter().for_each(|warning| tell(&format!("warning: {}: {warning}", job.name)));
        let id = new_session_id(SystemClock.now_ms());
        Ok(Self { shared, begun, mode, id, job })
    }

    /// Runs it to its end, keeps the answer and sends it where the job says.
    pub(super) async fn work(self, zone: &TimeZone, cancel: &Cancel) -> JobOutcome {
        let idle = Arc::new(Inactivity::new());
        let observers: Vec<Arc<dyn Observer>> = vec![idle.clone()];
        let session_config = self.shared.session_config(&self.begun, observers);
        let session = match Session::create(&self.shared.dir, self.id.clone(), session_config) {
            Ok(session) => session,
            Err(error) => return JobOutcome::failed(CliError::failed(error).in_one_line()),
        };
        let SessionStartup { composition, chosen, .. } = &self.begun;
        let assembly = &composition.assembly;
        let mut spec = assembly.top_agent(&self.id, &chosen.name, &self.job.prompt, self.mode);
        spec.options = chosen.options.clone();
        // Its prompt may repeat what its maker had read.
        let sources = self.job.sources.iter().map(|label| Source::from_lasting_label(label));
        spec.task_sources.extend(sources);
        let authority = assembly.authority(self.mode, spec.cwd.clone());
        let run = session.run(spec, authority, cancel);
        let (mut outcome, error) = while_active(&composition.config, &idle, cancel, run).await;
        outcome.error = error.or(outcome.error);
        composition.servers.catch_up().await;
        composition.servers.close().await;
        self.store_outcome(&outcome, zone).await
    }

    async fn store_outcome(&self, outcome: &Outcome, zone: &TimeZone) -> JobOutcome {
        let mut done = JobOutcome { answer: None, ..JobOutcome::of(outcome) };
        let status = done.status;
        let text = match (&outcome.text, &outcome.error) {
            (Some(text), None) => text.clone(),
            (Some(text), Some(error)) => format!("{text}\n\n[{error}]"),
            (None, error) => error.clone().unwrap_or_else(|| "it gave no answer".to_owned()),
        };
        let secrets = &self.begun.chosen.secrets;
        let answer = Arc::new(JobAnswer {
            job: self.job.clone(),
            status,
            session: self.id.clone(),
            text: secrets.scrub(&text).into_owned(),
        });
        if let Ok(store) = job_store(&self.shared.env) {
            let folder = store.output_folder(&self.job.name);
            let (kept, zone, place) = (Arc::clone(&answer), zone.clone(), folder.clone());
            let written = spawn_blocking(move || kept.write(&place, &zone)).await;
            match written.map_err(io::Error::other).flatten() {
                Ok(path) => done.output = Some(path),
                Err(error) => {
                    let folder = folder.display();
                    add_fault(
                        &mut done,
                        &format!("its answer cannot be kept in `{folder}`: {error}"),
                    );
                }
            }
        }
        if status != RunStatus::Interrupted
            && let Err(error) = self.send(&answer).await
        {
            add_fault(&mut done, &error);
        }
        done
    }

    async fn send(&self, answer: &JobAnswer) -> Result<(), String> {
        let Some(target) = &self.job.output else { return Ok(()) };
        let messages = &self.begun.composition.tools.messages;
        let sent = answer.send(target, messages, &self.shared.processes).await;
        sent.map_err(|error| CliError::failed(error).in_one_line())
    }
}

/// Adds why an answer did not get where it should, behind what else went wrong.
fn add_fault(done: &mut JobOutcome, fault: &str) {
    if done.status == RunStatus::Completed {
        done.status = RunStatus::Undelivered;
    }
    let before = done.note.take().map(|note| format!("{note}; ")).unwrap_or_default();
    done.note = Some(format!("{before}{fault}"));
}
