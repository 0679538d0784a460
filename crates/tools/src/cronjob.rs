//! `cronjob`: jobs that run later, in sessions of their own.

use std::collections::BTreeSet;

use deputize_core::outside_sources::OutsideSources;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::tool::{CallCheck, CallRisk, HarmlessCalls, spec_of};
use deputize_core::truncate::truncate_bytes;
use deputize_core::{
    AgentView, ArgumentRole, Availability, CatalogEntry, Effects, Example, ParentOnly, ResourceMap,
    Subject, ToolCallResult, ToolCx, ToolError, ToolKind, ToolName, ToolOutput, ToolSpec,
    ToolsetName, TypedTool, describe_error,
};
use deputize_cron::{
    Job, JobName, JobSettings, JobStore, JobStoreError, RunRecord, RunStatus, Schedule, next_time,
    timestamp,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::blocking::{blocking, still_wanted};
use crate::secret_text::secret_in;
use crate::send_message::MessageSettings;

const CRONJOB: &str = "cronjob";
const NO_STORE: &str = "this program keeps no jobs";
const NOBODY: &str = "nobody can be asked, and each job needs a person's yes";
/// Characters of a prompt in a list.
const PROMPT_CHARS: usize = 100;
/// Bytes of a prompt in a question about its job.
const QUESTION_BYTES: usize = 2048;

const DESCRIPTION: &str = "Jobs that run later or repeatedly, in sessions of their own.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CronAction {
    List,
    Create,
    Update,
    Pause,
    Resume,
    Remove,
    Run,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: CronAction,
    #[serde(default)]
    name: Option<String>,
    /// Cron fields, `every 2h`, `in 20m` or `at 2026-12-01T09:00`; a time zone may follow.
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    toolsets: Option<Vec<String>>,
    /// Message target.
    #[serde(default)]
    output: Option<String>,
}

#[derive(Debug)]
pub(crate) struct CronJob;

impl TypedTool for CronJob {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        let nightly = serde_json::json!({
            "action": "create",
            "name": "nightly-tests",
            "schedule": "30 2 * * MON-FRI",
            "prompt": "Run the tests and say which failed.",
            "toolsets": ["file"],
        });
        let list = serde_json::json!({"action": "list"});
        ToolSpec {
            examples: vec![example("A job at night", nightly), example("All jobs", list)],
            kind: ToolKind::Other,
            harmless: Some(HarmlessCalls { argument: "action", values: &["list"] }),
            // Its agent works when nobody watches.
            needs_person: true,
            parent_only: Some(ParentOnly::OutlivesTurn),
            risk: Some(CallRisk::new(
                CallRisk::LASTING,
                "jobs run by themselves when nobody watches, with the toolsets that they name",
            )),
            subject: Subject::new(Some("job".into()), "action", ArgumentRole::Action)
                .with("name", ArgumentRole::Text),
            ..ToolSpec::effectful(spec_of::<Args>(CRONJOB, DESCRIPTION), Effects::Unknown)
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        let settings = settings.get_or_insert_with(JobSettings::default);
        match (&settings.store, settings.person_available) {
            (None, _) => Availability::No(NO_STORE.to_owned()),
            (Some(_), false) => Availability::No(NOBODY.to_owned()),
            (Some(_), true) => Availability::Yes,
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        blocking(cx, move |cx| {
            let settings = cx.agent.session.settings.get_or_insert_with(JobSettings::default);
            let store = settings.store.as_ref().ok_or_else(|| ToolError::refused(NO_STORE))?;
            let call = JobCall { args: &args, settings: &settings, store, cx };
            call.check().map(|()| ToolOutput::default())
        })
        .await?;
        Ok(CallCheck::Accepted)
    }

    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let settings = agent.session.settings.get_or_insert_with(JobSettings::default);
        let name = args.name.and_then(|name| name.parse::<JobName>().ok());
        let (Some(store), Some(name)) = (settings.store.clone(), name) else { return Map::new() };
        let detail = |name: &str, text: String| (name.to_owned(), Value::String(text));
        match spawn_blocking(move || store.get(&name)).await {
            Ok(Ok(job)) => present_job(&job).map(|(name, text)| detail(name, text)).collect(),
            // The call will say so.
            Ok(Err(JobStoreError::Unknown { .. })) | Err(_) => Map::new(),
            Ok(Err(error)) => [detail("present job", describe_error(&error))].into_iter().collect(),
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| {
            still_wanted(cx)?;
            let settings = cx.agent.session.settings.get_or_insert_with(JobSettings::default);
            let store = settings.store.as_ref().ok_or_else(|| ToolError::refused(NO_STORE))?;
            let call = JobCall { args: &args, settings: &settings, store, cx };
            call.make().map(ToolOutput::text)
        })
        .await
    }
}

deputize_core::register_tool!("cronjob", CronJob);

/// A call with what it works on.
struct JobCall<'a> {
    args: &'a Args,
    settings: &'a JobSettings,
    store: &'a JobStore,
    cx: &'a ToolCx,
}

impl JobCall<'_> {
    /// Returns an error if the call would be refused.
    fn check(&self) -> Result<(), ToolError> {
        match self.args.action {
            CronAction::List => {}
            CronAction::Create => {
                let job = self.job(self.name()?)?;
                self.store.check_new(&job.name).map_err(store_error)?;
            }
            CronAction::Update => {
                let old = self.store.get(&self.name()?).map_err(store_error)?;
                self.changed(&old)?;
            }
            CronAction::Pause | CronAction::Resume | CronAction::Run => {
                self.store.get(&self.name()?).map_err(store_error)?;
            }
            CronAction::Remove => self.store.check_there(&self.name()?).map_err(store_error)?,
        }
        Ok(())
    }

    fn make(&self) -> Result<String, ToolError> {
        if self.args.action == CronAction::List {
            return self.list();
        }
        let name = self.name()?;
        match self.args.action {
            CronAction::List => self.list(),
            CronAction::Create => {
                let job = self.job(name)?;
                self.store.create(&job).map_err(store_error)?;
                Ok(self.with_next("created", &job))
            }
            CronAction::Update => {
                let old = self.store.get(&name).map_err(store_error)?;
                let new = self.changed(&old)?;
                let update = |now: Job| {
                    if now == old { Ok(new) } else { Err(JobStoreError::Changed(now.name)) }
                };
                let job = self.store.update(&name, update).map_err(store_error)?;
                Ok(self.with_next("updated", &job))
            }
            CronAction::Pause | CronAction::Resume => {
                let paused = self.args.action == CronAction::Pause;
                let now = self.settings.clock.now_ms();
                let change = |job: Job| {
                    let changed_ms = if paused { job.changed_ms } else { now };
                    Ok(Job { paused, changed_ms, ..job })
                };
                let job = self.store.update(&name, change).map_err(store_error)?;
                let done = if paused { "paused" } else { "resumed" };
                Ok(self.with_next(done, &job))
            }
            CronAction::Remove => {
                let runs = self.store.remove(&name).map_err(store_error)?;
                let still = if runs { "; its present run goes on to its end" } else { "" };
                Ok(format!("removed: {name}{still}"))
            }
            CronAction::Run => Ok(match self.store.request_run(&name).map_err(store_error)? {
                true => format!("{name} runs now, and runs once more after that"),
                false => self.run_words(&name),
            }),
        }
    }

    fn name(&self) -> Result<JobName, ToolError> {
        let name = given(self.args.name.as_deref(), "name")?;
        name.parse::<JobName>().map_err(|error| ToolError::refused(error.to_string()))
    }

    /// Returns a job with what the call gives in place of what it had. The person sees both.
    fn changed(&self, old: &Job) -> Result<Job, ToolError> {
        let Args { schedule, prompt, toolsets, output, .. } = self.args;
        let has_new_work = prompt.is_some() || toolsets.is_some();
        if !has_new_work && schedule.is_none() && output.is_none() {
            let fields = "`schedule`, `prompt`, `toolsets` or `output`";
            return Err(ToolError::refused(format!("give what is to change: {fields}")));
        }
        let mut job = old.clone();
        if schedule.is_some() {
            job.schedule = self.schedule()?;
        }
        if prompt.is_some() {
            job.prompt = self.prompt()?.to_owned();
        }
        if output.is_some() {
            job.output = self.output()?;
        }
        if has_new_work {
            let cwd = &self.cx.agent.spec.cwd;
            if *cwd != job.cwd {
                let (there, here) = (job.cwd.display(), cwd.display());
                return Err(ToolError::refused(format!(
                    "the job works in {there}, and you in {here}: only its times and its output can \
                     change"
                )));
            }
            if let Some(toolsets) = toolsets {
                job.toolsets.clone_from(toolsets);
            }
            // Its work is this agent's from now on, which gives it no tool that it lacks itself.
            let mut own = self.tools(&job.toolsets)?;
            if let Some(before) = old.tools.as_ref().filter(|_| toolsets.is_none()) {
                own.retain(|tool| before.contains(tool));
            }
            job.tools = Some(own);
        }
        let mut sources: BTreeSet<String> = job.sources.into_iter().collect();
        sources.extend(self.sources());
        job.sources = sources.into_iter().collect();
        job.changed_ms = self.settings.clock.now_ms();
        job.check().map_err(ToolError::refused)?;
        Ok(job)
    }

    fn schedule(&self) -> Result<Schedule, ToolError> {
        let schedule = given(self.args.schedule.as_deref(), "schedule")?;
        let now = timestamp(self.settings.clock.now_ms());
        let schedule = Schedule::read(schedule, now, &self.settings.zone());
        schedule.map_err(|error| ToolError::refused(error.to_string()))
    }

    fn prompt(&self) -> Result<&str, ToolError> {
        let prompt = given(self.args.prompt.as_deref(), "prompt")?;
        match secret_in(prompt, &self.settings.secrets) {
            None => Ok(prompt),
            Some(secret) => Err(ToolError::refused(format!(
                "the prompt contains a secret ({secret}); none is saved"
            ))),
        }
    }

    /// Returns what this agent has read from outside.
    fn sources(&self) -> Vec<String> {
        let outside = self.cx.agent.store.get_or_insert_with(OutsideSources::default);
        outside.sources().lasting_labels()
    }

    /// Returns the job that the call describes. All of it is in the call, so that the person sees all
    /// of it.
    fn job(&self, name: JobName) -> Result<Job, ToolError> {
        let schedule = self.schedule()?;
        let prompt = self.prompt()?;
        let toolsets = self.args.toolsets.clone().unwrap_or_default();
        let job = Job {
            name,
            schedule,
            prompt: prompt.to_owned(),
            tools: Some(self.tools(&toolsets)?),
            toolsets,
            cwd: self.cx.agent.spec.cwd.clone(),
            output: self.output()?,
            missed: None,
            timeout_seconds: None,
            max_tokens: None,
            paused: false,
            changed_ms: self.settings.clock.now_ms(),
            sources: self.sources(),
        };
        job.check().map_err(ToolError::refused)?;
        Ok(job)
    }

    /// Returns the tools of some toolsets that this agent has itself.
    fn tools(&self, toolsets: &[String]) -> Result<BTreeSet<ToolName>, ToolError> {
        let agent = &self.cx.agent;
        let catalog = &agent.catalog;
        let is_own = |entry: &&CatalogEntry| agent.authority.permits(*entry).is_ok();
        let mut tools = BTreeSet::new();
        for name in toolsets {
            let set = ToolsetName::new(name.as_str()).ok();
            let of_set = |entry: &&CatalogEntry| {
                set.as_ref().is_some_and(|set| catalog.includes(set, entry))
            };
            let own = catalog.iter().filter(of_set).filter(is_own);
            let before = tools.len();
            tools.extend(own.map(|entry| entry.name().clone()));
            if tools.len() == before && !catalog.iter().filter(of_set).any(|it| is_own(&it)) {
                let known = self.own_toolsets();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let name = for_terminal_line(name, 40);
                return Err(ToolError::refused(format!(
                    "you have no tool of a toolset `{name}`, so no job of yours gets it; \
                     yours: {known}"
                )));
            }
        }
        Ok(tools)
    }

    /// Returns the toolsets from which this agent has a tool.
    fn own_toolsets(&self) -> Vec<String> {
        let agent = &self.cx.agent;
        let catalog = &agent.catalog;
        let mut sets = catalog.toolsets();
        sets.extend(catalog.composites().cloned());
        sets.retain(|set| {
            let mut of_set = catalog.iter().filter(|entry| catalog.includes(set, entry));
            of_set.any(|entry| agent.authority.permits(entry).is_ok())
        });
        sets.iter().map(ToString::to_string).collect()
    }

    fn output(&self) -> Result<Option<String>, ToolError> {
        let Some(target) = &self.args.output else { return Ok(None) };
        let settings = &self.cx.agent.session.settings;
        let messages = settings.get_or_insert_with(MessageSettings::default);
        if messages.targets.contains_key(target) {
            return Ok(Some(target.clone()));
        }
        let known: Vec<&str> = messages.targets.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let target = for_terminal_line(target, 40);
        Err(ToolError::refused(format!("there is no message target `{target}`; known: {known}")))
    }

    fn list(&self) -> Result<String, ToolError> {
        let listing = self.store.list().map_err(store_error)?;
        let mut lines = Vec::new();
        for job in &listing.jobs {
            let history = self.store.present_history(&job.name);
            let next = match self.next(job) {
                _ if history.is_err() => "held".to_owned(),
                _ if job.paused => "paused".to_owned(),
                None => "no time to come".to_owned(),
                Some(next) => format!("next {next}"),
            };
            let last = match history.map(|history| history.last) {
                Err(error) => describe_error(&error),
                Ok(last) => describe_run(last.as_ref()),
            };
            let prompt = for_terminal_line(&job.prompt, PROMPT_CHARS);
            let sets = job.toolsets.join(",");
            lines.push(format!(
                "{}: {}; {next}; {last}; toolsets {sets}; {prompt}",
                job.name, job.schedule
            ));
        }
        let faults = listing.faults.len();
        if faults > 0 {
            lines.push(format!("[{faults} files are not valid jobs]"));
        }
        Ok(if lines.is_empty() { "there are no jobs".to_owned() } else { lines.join("\n") })
    }

    fn next(&self, job: &Job) -> Option<String> {
        let now = timestamp(self.settings.clock.now_ms());
        let history = self.store.history(&job.name).ok()?;
        let next = next_time(job, &history, now, &self.settings.zone())?;
        let next = next.to_zoned(self.settings.zone());
        Some(next.strftime("%Y-%m-%d %H:%M %:z").to_string())
    }

    fn with_next(&self, done: &str, job: &Job) -> String {
        let next = self.next(job).map(|next| format!(", next at {next}")).unwrap_or_default();
        let hint = if job.paused { String::new() } else { self.hint() };
        format!("{done}: {}{next}{hint}", job.name)
    }

    /// Returns what is missing for jobs to run.
    fn hint(&self) -> String {
        match self.settings.run_command.as_str() {
            _ if self.store.has_daemon() => String::new(),
            "" => ". Nothing runs jobs now".to_owned(),
            command => format!(". Nothing runs jobs now: the person starts `{command}`"),
        }
    }

    /// Returns when a job runs that is to run now.
    fn run_words(&self, name: &JobName) -> String {
        match self.settings.run_command.as_str() {
            _ if self.store.has_daemon() => format!("{name} runs within seconds"),
            "" => format!("{name} runs as soon as something runs jobs: nothing does now"),
            command => format!(
                "{name} runs as soon as the person starts `{command}`: nothing runs jobs now"
            ),
        }
    }
}

/// Returns how the last run stands.
fn describe_run(last: Option<&RunRecord>) -> String {
    let status = describe_status(last.map(|last| last.status));
    match last.map_or(0, |last| last.denied) {
        0 => status.to_owned(),
        denied => format!("{status}, calls denied: {denied}"),
    }
}

const fn describe_status(last: Option<RunStatus>) -> &'static str {
    match last {
        None => "never ran",
        Some(RunStatus::Completed) => "last run completed",
        Some(RunStatus::Undelivered) => "last run completed, its answer was not delivered",
        Some(RunStatus::Running) => "runs now",
        Some(RunStatus::Failed) => "last run failed",
        Some(RunStatus::Timeout) => "last run took too long",
        Some(RunStatus::Interrupted) => "last run was interrupted",
        Some(RunStatus::CutOff) => "last run was cut off",
    }
}

/// Returns what a person must know of the job that a call names.
fn present_job(job: &Job) -> impl Iterator<Item = (&'static str, String)> {
    let shown = truncate_bytes(&job.prompt, QUESTION_BYTES);
    let rest = job.prompt.len() - shown.len();
    let rest = if rest == 0 { String::new() } else { format!("… ({rest} bytes more)") };
    let paused = if job.paused { " (paused)" } else { "" };
    let output = job.output.clone().map(|target| ("present output", target));
    let lines = [
        ("present schedule", format!("{}{paused}", job.schedule)),
        ("present prompt", format!("{shown}{rest}")),
        ("present toolsets", job.toolsets.join(", ")),
        ("present folder", job.cwd.display().to_string()),
    ];
    lines.into_iter().chain(output)
}

fn given<'t>(text: Option<&'t str>, name: &str) -> Result<&'t str, ToolError> {
    text.filter(|text| !text.trim().is_empty())
        .ok_or_else(|| ToolError::refused(format!("give `{name}`")))
}

fn store_error(error: JobStoreError) -> ToolError {
    match error {
        JobStoreError::Io { .. } | JobStoreError::Malformed { .. } | JobStoreError::History(_) => {
            ToolError::failed(error)
        }
        error => ToolError::refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
