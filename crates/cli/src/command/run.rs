//! `deputize run`: one task to its end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::door::to_screen;
use deputize_core::{ApproverMode, Cancel, Clock, Observer, Outcome, SessionId, Status, ToolCrate};
use deputize_runtime::{
    Continue, Parts, Recovery, ResumeError, Session, SessionDir, StoredSession, SystemClock,
};
use deputize_tools::Processes;
use jiff::Timestamp;
use rustix::termios::tcgetwinsize;
use serde_json::json;

use crate::approve::Person;
use crate::args::{Approve, ModelChoice, OutputFormat, RunOptions};
use crate::compose::{Composition, Ingredients, approver_mode};
use crate::config::{FlagValue, Loaded, ModelOverrides};
use crate::exit::{CliError, Exit};
use crate::output::events::Projection;
use crate::output::json::Children;
use crate::output::stream::EventStream;
use crate::output::to_json_line;
use crate::screen::Detail;
use crate::screen::line::{Line, Style};
use crate::screen::live::{Screen, Size, Surface};
use crate::stop::Signals;
use crate::surroundings::{PrintError, Surroundings, print, session_named, tell};
use crate::task::task;

/// After the run, how long threads that are stuck in foreign code are waited for.
const STUCK: Duration = Duration::from_millis(100);

/// What is to be run.
pub(crate) struct Job<'a> {
    pub(crate) prompt: Option<&'a str>,
    pub(crate) resume: Option<&'a str>,
    pub(crate) options: &'a RunOptions,
}

/// Runs a task; the exit code tells how it ended.
pub(crate) fn run(
    links: &[ToolCrate],
    around: &Surroundings,
    job: &Job<'_>,
) -> Result<u8, CliError> {
    let options = job.options;
    let sources = around.sources(&options.settings, flags(options))?;
    let loaded = around.load(&sources)?;
    let dir = around.sessions()?;
    let stored = job.resume.map(|name| stored(&dir, name)).transpose()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let composition = Composition::new(&Ingredients {
        links,
        config: &loaded.config,
        surroundings: around,
        cwd: sources.cwd.clone(),
        home: sources.home(),
        clock: Arc::clone(&clock),
    })?;
    let mut overrides = overrides(&options.model);
    let before = stored.as_ref().and_then(StoredSession::root_spec);
    if let (None, Some(spec)) = (&overrides.model, &before) {
        overrides.model = Some(spec.model.clone());
    }
    let chosen = composition.models(&overrides, around)?;
    let mode = mode(&loaded, around);
    let task = match (job.prompt, &stored) {
        (None, Some(_)) => None,
        (prompt, _) => {
            let task = task(prompt, io::stdin().lock(), around.stdin_is_terminal);
            Some(task.map_err(CliError::usage)?)
        }
    };
    notices(&composition, mode, options.quiet);
    let cwd = before.as_ref().map_or_else(|| sources.cwd.clone(), |spec| spec.cwd.clone());
    let stage = Stage::set(around, options, &cwd, &composition, stored.as_ref())?;
    let plan = Plan {
        model: chosen.name.clone(),
        explicit_model: options.model.model.is_some(),
        options: chosen.options.clone(),
        mode,
        cwd,
        task,
    };
    let parts = stage.parts(composition.parts(chosen));
    let id = stored.as_ref().map(|stored| stored.header.session.clone());
    // Whoever lets go of them last waits for their end. That is here, also when the run is left
    // before its end: a thread of the runtime would be left in the middle of it.
    let processes = parts.settings.get_or_insert_with(Processes::default);
    let outcome = stage.play(&composition, (&dir, id), parts, plan);
    drop(processes);
    let outcome = outcome?;
    let Some(outcome) = outcome else { return Ok(Exit::Interrupted.code()) };
    stage.report(&outcome, options)?;
    Ok(outcome.exit_code())
}

fn flags(options: &RunOptions) -> Vec<FlagValue> {
    let flag = |flag: &str, key: &str, value| FlagValue {
        flag: flag.to_owned(),
        key: key.to_owned(),
        value,
    };
    let mode = options.approve.map(|mode| match mode {
        Approve::Ask => "ask",
        Approve::Deny => "deny",
        Approve::Auto => "auto",
    });
    let toolsets = Some(&options.toolsets).filter(|names| !names.is_empty());
    let flags = [
        toolsets.map(|names| flag("--toolsets", "toolsets", json!(names))),
        options.max_iterations.map(|n| flag("--max-iterations", "max_iterations", json!(n))),
        mode.map(|mode| flag("--approve", "approvals.mode", json!(mode))),
    ];
    flags.into_iter().flatten().collect()
}

/// What the command line says of the model.
pub(crate) fn overrides(choice: &ModelChoice) -> ModelOverrides {
    ModelOverrides {
        model: choice.model.clone(),
        base_url: choice.base_url.clone(),
        api_key_env: choice.api_key_env.clone(),
    }
}

/// How the top agent's questions are answered: as set, or by whether somebody is there.
fn mode(loaded: &Loaded, around: &Surroundings) -> ApproverMode {
    if loaded.origins.contains_key("approvals.mode") || around.stdin_is_terminal {
        approver_mode(loaded.config.approvals.mode)
    } else {
        ApproverMode::Deny
    }
}

fn stored(dir: &SessionDir, name: &str) -> Result<StoredSession, CliError> {
    let id = session_named(dir, name)?;
    dir.read(&id).map_err(CliError::failed)
}

/// What the person should know before it begins.
fn notices(composition: &Composition, mode: ApproverMode, quiet: bool) {
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    if !composition.has_unbounded() {
        return;
    }
    match mode {
        ApproverMode::Auto => {
            tell("warning: there is no sandbox yet: commands run unasked, with all your rights");
        }
        ApproverMode::Ask if !quiet => {
            tell("note: there is no sandbox yet: you are asked before each command");
        }
        ApproverMode::Deny if !quiet => {
            tell("note: there is no sandbox yet: commands are denied (see --approve)");
        }
        ApproverMode::Ask | ApproverMode::Deny => {}
    }
}

/// What is to be done.
struct Plan {
    model: String,
    explicit_model: bool,
    options: deputize_core::ModelOptions,
    mode: ApproverMode,
    cwd: std::path::PathBuf,
    task: Option<String>,
}

/// Who watches a run, and how it is told to end.
struct Stage {
    screen: Arc<Screen>,
    children: Arc<Children>,
    events: Option<Arc<EventStream>>,
    cancel: Cancel,
    stdout_is_terminal: bool,
}

impl Stage {
    fn set(
        around: &Surroundings,
        options: &RunOptions,
        cwd: &Path,
        composition: &Composition,
        stored: Option<&StoredSession>,
    ) -> Result<Self, CliError> {
        let screen = Arc::new(
            Screen::start(surface(around, options, cwd))
                .map_err(|error| CliError::failed(PrintError(error)))?,
        );
        let children = Arc::new(Children::default());
        let cancel = Cancel::new();
        let mut projection = Projection::new(Some(layout_name(composition)));
        for record in stored.iter().flat_map(|stored| &stored.records) {
            screen.prime(record);
            children.see(record);
            projection.know(record);
        }
        let events = (options.output == OutputFormat::Events).then(|| {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let out = Box::new(io::stdout());
            let time = (clock, cancel.clone());
            Arc::new(EventStream::new(out, projection, time, options.verbose))
        });
        let stdout_is_terminal = around.stdout_is_terminal;
        Ok(Self { screen, children, events, cancel, stdout_is_terminal })
    }

    fn parts(&self, parts: Parts) -> Parts {
        let mut observers: Vec<Arc<dyn Observer>> =
            vec![self.screen.clone(), self.children.clone()];
        observers.extend(self.events.clone().map(|events| events as Arc<dyn Observer>));
        let approver = Arc::new(Person::new(Arc::clone(&self.screen)));
        Parts { observers, approver, ..parts }
    }

    /// Runs the session to its end; nothing: it was left before.
    fn play(
        &self,
        composition: &Composition,
        (dir, id): (&SessionDir, Option<SessionId>),
        parts: Parts,
        plan: Plan,
    ) -> Result<Option<Outcome>, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(CliError::failed)?;
        let outcome = runtime.block_on(async {
            let mut signals = Signals::listen().map_err(CliError::failed)?;
            let work = Box::pin(self.work(composition, (dir, id), parts, plan));
            let told = || {
                let text = "interrupted: ending; once more leaves at once";
                self.screen.say(Line::default().with(Style::Asking, text));
            };
            signals.guard(work, &self.cancel, told).await.transpose()
        });
        runtime.shutdown_timeout(STUCK);
        self.screen.finish();
        outcome
    }

    async fn work(
        &self,
        composition: &Composition,
        (dir, id): (&SessionDir, Option<SessionId>),
        parts: Parts,
        plan: Plan,
    ) -> Result<Outcome, CliError> {
        let authority = composition.authority(plan.mode, plan.cwd);
        let Some(id) = id else {
            let id = new_session(parts.clock.now_ms());
            let session = Session::create(dir, id.clone(), parts).map_err(CliError::failed)?;
            let task = plan.task.unwrap_or_default();
            let mut spec = composition.top_agent(&id, &plan.model, &task, plan.mode);
            spec.options = plan.options;
            return Ok(session.run(spec, authority, &self.cancel).await);
        };
        let (session, recovery) = Session::open(dir, id, parts).map_err(CliError::failed)?;
        recovered(&recovery);
        let model = plan.explicit_model.then_some(plan.model);
        let max_iterations = Some(composition.config.max_iterations);
        let approver = Some(plan.mode);
        let how = Continue { message: plan.task, model, approver, max_iterations };
        session.resume(how, authority, &self.cancel).await.map_err(|error| match error {
            ResumeError::Journal(_) => CliError::failed(error),
            error => CliError::usage(error),
        })
    }

    /// Prints the answer, and on standard error why there is none or not all of it.
    fn report(&self, outcome: &Outcome, options: &RunOptions) -> Result<(), CliError> {
        match options.output {
            OutputFormat::Events => {
                if let Some(error) = self.events.as_ref().and_then(|events| events.failure()) {
                    return Err(CliError::failed(PrintError(error)));
                }
            }
            OutputFormat::Json => {
                let line =
                    to_json_line(&self.children.object(outcome)).map_err(CliError::failed)?;
                print(&format!("{line}\n"))?;
            }
            OutputFormat::Text => {
                if let Some(text) = &outcome.text {
                    let text = if self.stdout_is_terminal { to_screen(text) } else { text.clone() };
                    let end = if text.ends_with('\n') { "" } else { "\n" };
                    print(&format!("{text}{end}"))?;
                }
            }
        }
        // Who closed our output knows why there is no more of it.
        if self.events.as_ref().is_some_and(|events| events.is_closed()) {
            return Ok(());
        }
        if let Some(remark) = remark(outcome) {
            tell(&remark);
            let session = outcome.agent.as_str();
            tell(&format!("hint: go on with `deputize run --resume {session}`"));
        }
        Ok(())
    }
}

/// Why an answer is missing or partial.
fn remark(outcome: &Outcome) -> Option<String> {
    use deputize_core::ExitReason::{MaxIterations, MaxOutputTokens};
    match (outcome.status, outcome.exit_reason) {
        (Status::Completed, MaxIterations) => Some(format!(
            "warning: the limit of model requests was reached after {} (max_iterations): the \
             answer is partial",
            outcome.iterations
        )),
        (Status::Completed, MaxOutputTokens) => {
            Some("warning: the model's output limit cut the answer".to_owned())
        }
        (Status::Completed, _) => None,
        (Status::Interrupted, _) => Some("interrupted".to_owned()),
        (Status::Failed | Status::Error | Status::Timeout, _) => {
            let error = outcome.error.as_deref().unwrap_or("it failed without a word");
            Some(format!("error: {error}"))
        }
    }
}

fn recovered(recovery: &Recovery) {
    if recovery.dropped_bytes > 0 {
        let bytes = recovery.dropped_bytes;
        tell(&format!("session recovered: its last record was incomplete ({bytes} bytes dropped)"));
    }
    for call in &recovery.unknown {
        let what = crate::screen::summary::of_call(&call.tool, &call.arguments);
        tell(&format!("session recovered: a call has an unknown outcome: {what}"));
    }
}

fn layout_name(composition: &Composition) -> &'static str {
    match composition.delegation.prompt_layout {
        deputize_delegate::PromptLayout::Classic => "classic",
        deputize_delegate::PromptLayout::CacheFirst => "cache_first",
    }
}

/// A session's id: when it began, in UTC, and what makes it unique. Ids sort by time.
fn new_session(now_ms: u64) -> SessionId {
    let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let time = now.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y%m%d-%H%M%S").to_string();
    let unique: String = (0..6).map(|_| fastrand::lowercase()).collect();
    SessionId::new(format!("{time}-{unique}")).unwrap_or(SessionId::literal("session"))
}

fn surface(around: &Surroundings, options: &RunOptions, cwd: &Path) -> Surface {
    let detail = match (options.quiet, options.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Verbose,
        (false, false) => Detail::Normal,
    };
    // Event lines and a tree on the same terminal would write over each other.
    let mixed = options.output == OutputFormat::Events && around.stdout_is_terminal;
    let live = around.stderr_is_terminal && around.moves_cursor() && !mixed;
    let size: Size = Box::new(|| match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    });
    Surface {
        out: Box::new(io::stderr()),
        size: live.then_some(size),
        colour: around.stderr_is_terminal && around.colour(),
        detail,
        cwd: cwd.to_owned(),
        clock: Arc::new(SystemClock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_sessions_sort_by_time_and_differ() {
        let first = new_session(1_767_323_045_006);
        assert!(first.as_str().starts_with("20260102-030405-"), "{first}");
        assert_ne!(first, new_session(1_767_323_045_006));
        assert!(first < new_session(1_767_323_046_006));
        assert!(new_session(u64::MAX).as_str().starts_with("19700101-"));
    }
}
