//! Runs a session between preparation and exit code, with its observers and its cancel signal.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::ApproverMode;
use deputize_core::image::Image;
use deputize_core::model::ModelOptions;
use deputize_core::outcome::ExitReason;
use deputize_core::person::Person;
use deputize_core::run::TASK_NOT_DONE;
use deputize_core::sanitize::for_terminal;
use deputize_core::{Cancel, Clock, Observer, Outcome, Record, SessionId};
use deputize_runtime::{
    Continue, MESSAGE_BLOCKED, Recovery, ResumeError, SLOW_SYNC, Session, SessionConfig,
    SessionDir, SessionRecorder, SessionSnapshot, SnapshotObserver, SystemClock, describe_call,
};

use tokio::runtime::Runtime;

use crate::approve::{TerminalApprover, can_ask};
use crate::args::{OutputFormat, RunOptions};
use crate::compose::AssembledProgram;
use crate::control::server::ControlServer;
use crate::exit::{CliError, Exit};
use crate::invocation::format_command;
use crate::output::events::Projection;
use crate::output::stdout_queue::{StdoutQueue, WAITING_BYTES};
use crate::output::stream::EventStream;
use crate::process_env::ProcessEnv;
use crate::reply_wait::{ReplyWaits, SHOWN_AFTER};
use crate::runtime::{STUCK, own};
use crate::screen::Detail;
use crate::screen::line::{ScreenLine, Style};
use crate::screen::live::Screen;
use crate::screen::surface::{SizeFn, Surface};
use crate::stdio::{PrintError, terminal_size};
use crate::stop::{SignalNotice, Signals};
use crate::task::attachment::{Attachment, message, sources_of};

/// Time limit for the last drawing of an abandoned run.
const GLANCE: Duration = Duration::from_millis(50);

/// The work of a run.
pub(super) struct RunPlan {
    pub(super) model: String,
    pub(super) options: ModelOptions,
    pub(super) mode: ApproverMode,
    pub(super) cwd: PathBuf,
    /// The task, with piped input.
    pub(super) task: Option<String>,
    pub(super) material: Option<Attachment>,
    /// Images that the model is shown with the message.
    pub(super) images: Vec<Image>,
}

/// Where the session is stored, and whether it exists.
pub(super) struct SessionPlace<'a> {
    pub(super) dir: &'a SessionDir,
    pub(super) id: SessionId,
    pub(super) stored: bool,
}

/// A run's observers and its cancel signal.
pub(super) struct RunHarness {
    pub(super) screen: Arc<Screen>,
    /// Snapshot for `--output json`; `None` for other formats.
    pub(super) results: Option<SnapshotObserver>,
    /// Standard output.
    pub(super) out: Arc<StdoutQueue>,
    pub(super) output: OutputFormat,
    pub(super) out_is_terminal: bool,
    pub(super) cancel: Cancel,
    /// The session to resume later; `None` if it is not stored.
    pub(super) goes_on: Option<SessionId>,
    events: Option<Arc<EventStream>>,
    /// Requests without a reply; `None` if long waits are not shown.
    reply_waits: Option<Arc<ReplyWaits>>,
}

impl RunHarness {
    pub(super) fn set(
        env: &ProcessEnv,
        options: &RunOptions,
        cwd: &Path,
        composition: &AssembledProgram,
        before: &[Record],
    ) -> Result<Self, CliError> {
        let unusable = |error| CliError::failed(PrintError(error));
        let cancel = Cancel::new();
        let surface = surface(env, options, cwd, composition).map_err(unusable)?;
        let screen = Arc::new(Screen::new(surface));
        let out = Box::new(own(io::stdout()).map_err(unusable)?);
        let out = Arc::new(StdoutQueue::new(out, WAITING_BYTES, cancel.clone()));
        let mut results = SessionSnapshot::default().keep_outcomes();
        let mut projection = Projection::new(Some(layout_name(composition)));
        for record in before {
            screen.prime(record);
            results.apply(record);
            projection.know(record);
        }
        let events = (options.output == OutputFormat::Events).then(|| {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            Arc::new(EventStream::new(Arc::clone(&out), projection, clock, options.verbose))
        });
        let output = options.output;
        let out_is_terminal = env.terminals.stdout;
        Ok(Self {
            screen,
            results: (options.output == OutputFormat::Json).then(|| SnapshotObserver::new(results)),
            out,
            output,
            out_is_terminal,
            cancel,
            goes_on: None,
            events,
            reply_waits: options.quiet.then(Arc::default),
        })
    }

    /// Sets the session that can be resumed later.
    pub(super) fn of(self, session: &SessionId) -> Self {
        Self { goes_on: Some(session.clone()), ..self }
    }

    pub(super) fn session_config(&self, session_config: SessionConfig) -> SessionConfig {
        let mut observers: Vec<Arc<dyn Observer>> = vec![self.screen.clone()];
        observers.extend(self.results.clone().map(|it| Arc::new(it) as Arc<dyn Observer>));
        observers.extend(self.events.clone().map(|events| events as Arc<dyn Observer>));
        observers.extend(self.reply_waits.clone().map(|waits| waits as Arc<dyn Observer>));
        let approver = Arc::new(TerminalApprover::new(Arc::clone(&self.screen)));
        if can_ask() {
            session_config
                .tools
                .settings
                .get_or_insert_with(|| Person::new(Arc::clone(&approver) as _));
        }
        SessionConfig { observers, approver, ..session_config }
    }

    /// Runs the work, reports the outcome, and returns the exit code.
    ///
    /// Signals are handled until the report is written, so a reader who stalls can be interrupted.
    pub(super) fn play(
        &self,
        runtime: Runtime,
        work: impl Future<Output = u8>,
    ) -> Result<u8, CliError> {
        let code = runtime.block_on(async {
            let mut signals = Signals::listen().map_err(CliError::failed)?;
            let work = Box::pin(work);
            let notify = |heard| {
                let text = match heard {
                    SignalNotice::First => "interrupted: ending",
                    SignalNotice::Waiting => "still ending; once more leaves at once",
                };
                self.screen.say(ScreenLine::default().with(Style::Asking, text));
            };
            let code = signals.guard(work, &self.cancel, notify).await;
            if code.is_none() {
                self.screen.finish();
                self.print_line("left before everything had ended");
                self.hint_of_answers();
                self.hint_of(|resume| format!("hint: continue with `{resume}`"));
                let _shown = tokio::time::timeout(GLANCE, self.screen.settled()).await;
            }
            Ok(code.unwrap_or(Exit::Interrupted.code()))
        });
        runtime.shutdown_timeout(STUCK);
        code
    }

    /// Runs the session.
    pub(super) async fn work(
        &self,
        composition: &AssembledProgram,
        place: &SessionPlace<'_>,
        session_config: SessionConfig,
        plan: RunPlan,
    ) -> Result<Outcome, CliError> {
        if place.stored {
            return self.go_on(composition, place, session_config, plan).await;
        }
        let dir = place.dir;
        let recorder = session_config.record.recorder.clone();
        let authority = composition.assembly.authority(plan.mode, plan.cwd);
        let created = Session::create(dir, place.id.clone(), session_config);
        let session = created.map_err(CliError::failed)?;
        write_run_files(recorder.as_deref(), plan.material.as_ref())?;
        let task = plan.task.unwrap_or_default();
        let spec = composition.assembly.top_agent(&place.id, &plan.model, &task, plan.mode);
        let mut spec =
            composition.with_attachment(spec, plan.material.as_ref().map(|it| it.text.as_str()));
        spec.options = plan.options;
        spec.images = plan.images;
        let run = session.run(spec, authority, &self.cancel);
        Ok(Box::pin(self.watch(composition, dir, &session, run)).await)
    }

    /// Resumes a stored session.
    async fn go_on(
        &self,
        composition: &AssembledProgram,
        place: &SessionPlace<'_>,
        mut session_config: SessionConfig,
        plan: RunPlan,
    ) -> Result<Outcome, CliError> {
        let dir = place.dir;
        let recorder = session_config.record.recorder.clone();
        let authority = composition.assembly.authority(plan.mode, plan.cwd);
        let opening = dir.opening(&place.id).map_err(CliError::failed)?;
        session_config.observers.push(Arc::clone(&opening) as Arc<dyn Observer>);
        let opened = Session::open(dir, place.id.clone(), session_config);
        let (session, recovery) = opened.map_err(CliError::failed)?;
        self.report_recovery(composition, &recovery);
        write_run_files(recorder.as_deref(), plan.material.as_ref())?;
        let material = plan.material.as_ref().map(|it| it.text.as_str());
        let how = Continue {
            message: plan.task.map(|words| message(material, &words)),
            sources: sources_of(material),
            images: plan.images,
            model: Some(plan.model),
            approver: Some(plan.mode),
            max_iterations: Some(composition.config.max_iterations),
        };
        let run = session.resume(how, authority, &self.cancel);
        let ended = Box::pin(self.watch(composition, dir, &session, run)).await;
        opening.mark_success();
        ended.map_err(|error| match error {
            ResumeError::Journal(_) => CliError::failed(error),
            error => CliError::usage(error),
        })
    }

    /// Warns of a slow disk, on which every call that may not be repeated has to wait.
    fn warn_if_slow(&self, dir: &SessionDir) {
        if let Some(took) = dir.is_slow() {
            self.print_line(&slow_disk(dir.path(), took));
        }
    }

    /// Runs the work while other terminals can reach it.
    async fn watch<T>(
        &self,
        composition: &AssembledProgram,
        dir: &SessionDir,
        session: &Session,
        run: impl Future<Output = T>,
    ) -> T {
        let answers = async {
            if composition.config.control {
                match ControlServer::bind(dir, session.id(), session.control()) {
                    Ok(server) => server.serve().await,
                    Err(error) => {
                        let why = CliError::failed(error).chain();
                        self.print_line(&format!(
                            "warning: `deputize agents` cannot reach this run: {why}"
                        ));
                    }
                }
            }
            std::future::pending().await
        };
        // The run first: it has begun when the socket is made.
        let ended = tokio::select! {
            biased;
            ended = run => ended,
            never = answers => never,
            never = self.show_reply_waits() => match never {},
        };
        self.warn_if_slow(dir);
        ended
    }

    async fn show_reply_waits(&self) -> Infallible {
        let Some(waits) = &self.reply_waits else { return std::future::pending().await };
        waits.watch(|agent| self.screen.show_reply_wait(agent, SHOWN_AFTER)).await
    }

    fn report_recovery(&self, composition: &AssembledProgram, recovery: &Recovery) {
        if recovery.dropped_bytes > 0 {
            let bytes = recovery.dropped_bytes;
            let what = "its last record was incomplete";
            self.print_line(&format!("session recovered: {what} ({bytes} bytes dropped)"));
        }
        for call in &recovery.unknown {
            let tools = &composition.assembly.tools.catalog;
            let what = describe_call(tools, &call.tool, &call.arguments);
            self.print_line(&format!("session recovered: a call has an unknown outcome: {what}"));
        }
    }

    /// Prints how to resume the session, if it is stored.
    pub(super) fn hint_to_go_on(&self, outcome: &Outcome) {
        // The same model would refuse the same task again.
        if outcome.error.as_deref() == Some(TASK_NOT_DONE) {
            return;
        }
        let blocked =
            outcome.error.as_deref().is_some_and(|error| error.starts_with(MESSAGE_BLOCKED));
        self.hint_of(|resume| match outcome.exit_reason {
            // The same model would say the same of the same conversation.
            ExitReason::ContextOverflow => format!(
                "hint: continue with a model of a larger context, `{resume} -m PROVIDER/MODEL`, or \
                 begin a new session"
            ),
            ExitReason::Budget => format!(
                "hint: continue with a higher limit, such as `{resume} --max-cost USD` or \
                 `--max-tokens-total N`; both count what the session has spent"
            ),
            // The hook would say the same of the same message.
            _ if blocked => format!("hint: continue with another message: `{resume} MESSAGE`"),
            _ => format!("hint: continue with `{resume}`"),
        });
    }

    /// Prints where the answers of completed children are when a run was interrupted: no parent
    /// reads them.
    pub(super) fn hint_of_answers(&self) {
        let answered = self.screen.answered_children();
        if let (OutputFormat::Text, 1.., Some(session)) = (self.output, answered, &self.goes_on) {
            let had =
                if answered == 1 { "1 child had" } else { &format!("{answered} children had") };
            self.print_line(&format!(
                "hint: {had} finished; `deputize sessions show {session}` shows their answers, in \
                 full with `--agent 1.0.0`"
            ));
        }
    }

    fn hint_of(&self, hint: impl Fn(&str) -> String) {
        if let Some(session) = &self.goes_on {
            self.print_line(&hint(&format!("{} --resume {session}", format_command("run"))));
        }
    }

    /// Prints a line after everything that is queued for the screen.
    pub(super) fn print_line(&self, text: &str) {
        for line in for_terminal(text).lines() {
            self.screen.say(ScreenLine::default().with(Style::Plain, line));
        }
    }
}

/// Writes what a run needs on disk before the first request: the beginning of its recording, and
/// long piped input.
fn write_run_files(
    recorder: Option<&SessionRecorder>,
    material: Option<&Attachment>,
) -> Result<(), CliError> {
    material.map_or(Ok(()), Attachment::save).map_err(CliError::failed)?;
    recorder.map_or(Ok(()), check_recorder)
}

/// The recording cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the recording `{}` cannot be written: {fault}", path.display())]
struct UnwritableRecording {
    path: PathBuf,
    fault: String,
}

/// Fails if the recording cannot be written, and removes the incomplete file.
fn check_recorder(recorder: &SessionRecorder) -> Result<(), CliError> {
    let Some(fault) = recorder.fault() else { return Ok(()) };
    let _best_effort = std::fs::remove_file(recorder.path());
    let error = UnwritableRecording { path: recorder.path().to_owned(), fault };
    Err(CliError::failed(error).hint("give --record a file on a disk that has room"))
}

/// Returns the warning about a slow disk.
fn slow_disk(place: &Path, took: Duration) -> String {
    let took = took.as_millis();
    let limit = SLOW_SYNC.as_millis();
    format!(
        "warning: `{}` is on a slow disk: the first sync of the session took {took} ms, \
         more than {limit} ms; DEPUTIZE_HOME chooses another place, and journal.sync says how \
         often it is waited for",
        place.display()
    )
}

fn layout_name(composition: &AssembledProgram) -> &'static str {
    match composition.assembly.delegation.options.prompt_layout {
        deputize_delegate::PromptLayout::Classic => "classic",
        deputize_delegate::PromptLayout::CacheFirst => "cache_first",
    }
}

fn surface(
    env: &ProcessEnv,
    options: &RunOptions,
    cwd: &Path,
    composition: &AssembledProgram,
) -> io::Result<Surface> {
    let detail = match (options.quiet, options.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Verbose,
        (false, false) => Detail::Normal,
    };
    // Event lines, or a log, and a tree on the same terminal would write over each other.
    let mixed = options.output == OutputFormat::Events && env.terminals.stdout;
    let is_free = !mixed && !env.log.is_on_screen();
    let live = env.terminals.stderr && env.moves_cursor() && is_free;
    let size: SizeFn = Box::new(|| terminal_size().unwrap_or((80, 24)));
    let asks = composition.config.approvals.mode != ApproverMode::Deny;
    Ok(Surface {
        out: Box::new(own(io::stderr())?),
        size: env.terminals.stderr.then_some(size),
        live,
        colour: env.terminals.stderr && env.colour(),
        tools: Arc::clone(&composition.assembly.tools.catalog),
        detail,
        cwd: cwd.to_owned(),
        unasked: !env.terminals.stdin && asks,
        prints_answer: options.output == OutputFormat::Text
            && env.terminals.stdout
            && env.terminals.stderr,
        clock: Arc::new(SystemClock),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_is_reported_with_what_it_took_and_what_to_do() {
        assert_eq!(
            slow_disk(Path::new("/far/sessions"), Duration::from_millis(1234)),
            "warning: `/far/sessions` is on a slow disk: the first sync of the session took 1234 \
             ms, more than 500 ms; DEPUTIZE_HOME chooses another place, and journal.sync says how \
             often it is waited for"
        );
    }
}
