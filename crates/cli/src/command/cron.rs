//! `deputize cron`: scheduled jobs, and the program that runs them.

use std::borrow::Cow;

use deputize_core::Clock as _;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_cron::{
    Job, JobError, JobHistory, JobName, JobStore, JobStoreError, MissedPolicy, Schedule, next_time,
    timestamp,
};
use deputize_runtime::SystemClock;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::args::{CronAdd, CronCommand, Settings};
use crate::command::editor::edit_text;
use crate::command::print_list;
use crate::compose::{LinkedTools, job_store};
use crate::config::{LoadedConfig, load, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};
use crate::zone::zone;

mod daemon;
mod job_check;
mod job_output;
mod job_session;
mod job_toolsets;

pub(crate) use daemon::run;
use job_check::{InvalidJob, check_job};
pub(crate) use job_toolsets::toolset_fault;

/// Characters of a prompt in a list.
const PROMPT_CHARS: usize = 120;

/// Why calls of a job are denied, and what to do.
const DENIED: &str = "nobody approves calls of a job, unless `cron.approvals` is `auto`";

/// What is said of a deleted job that runs.
const STILL_RUNS: &str = "; its present run goes on to its end";

/// A job has this name already.
#[derive(Debug, thiserror::Error)]
#[error("job `{0}` already exists")]
struct TakenName(JobName);

/// Runs a command about jobs. `cron run` is another one.
pub(crate) fn cron(
    links: &LinkedTools,
    mut env: ProcessEnv,
    command: &CronCommand,
) -> Result<(), CliError> {
    // Jobs are checked as they run: nobody can be asked.
    env.person_available = false;
    let env = &env;
    let store = job_store(env)?;
    let name = |name: &String| name.parse::<JobName>().map_err(CliError::usage);
    match command {
        CronCommand::Run(_) => Ok(()),
        CronCommand::List { view } => JobTable::new(&store, env).of(&view.settings).list(view.json),
        CronCommand::Show { name: job, view } => {
            JobTable::new(&store, env).of(&view.settings).show(&name(job)?, view.json)
        }
        CronCommand::Add(args) => add(links, env, &store, args),
        CronCommand::Edit { name: job, settings } => {
            edit(links, env, &store, &name(job)?, settings)
        }
        CronCommand::Rm { name: job } => {
            let job = name(job)?;
            let runs = store.remove(&job).map_err(store_error)?;
            print(&format!("deleted: {job}{}\n", if runs { STILL_RUNS } else { "" }))
        }
        CronCommand::Pause { name: job } => pause(&store, &name(job)?, true),
        CronCommand::Resume { name: job } => pause(&store, &name(job)?, false),
        CronCommand::Trigger { name: job } => trigger(&store, &name(job)?),
    }
}

pub(crate) fn store_error(error: JobStoreError) -> CliError {
    match error {
        JobStoreError::Io { .. } | JobStoreError::History(_) => CliError::failed(error),
        JobStoreError::Taken(name) => {
            let edit = format_command("cron edit");
            let hint = format!("change it with `{edit} {name}`, or choose another name");
            CliError::usage(TakenName(name)).hint(hint)
        }
        JobStoreError::Malformed { ref path, .. } => {
            let edit = format_command("cron edit");
            let name = path.file_stem().unwrap_or_default().display().to_string();
            let hint =
                format!("`{edit} {name}` corrects it, and `deputize cron rm {name}` deletes it");
            CliError::usage(error).hint(hint)
        }
        error => CliError::usage(error),
    }
}

/// Says what runs jobs, if nothing does.
fn hint_of_daemon(store: &JobStore) {
    if !store.has_daemon() {
        tell(&format!("note: nothing runs jobs now; start: {}", format_command("cron run")));
    }
}

/// Asks for a run now. A paused job runs this once and stays paused: the person said so.
fn trigger(store: &JobStore, name: &JobName) -> Result<(), CliError> {
    let is_paused = store.get(name).map_err(store_error)?.paused;
    if store.request_run(name).map_err(store_error)? {
        print(&format!("{name} runs now, and runs once more after that\n"))?;
    } else if store.has_daemon() {
        print(&format!("{name} runs within seconds\n"))?;
    } else {
        let run = format_command("cron run");
        print(&format!("{name} runs as soon as `{run}` does: nothing runs jobs now\n"))?;
    }
    if is_paused {
        tell(&format!(
            "note: {name} is paused: it runs this once and stays paused; `deputize cron resume \
             {name}` ends that"
        ));
    }
    Ok(())
}

fn pause(store: &JobStore, name: &JobName, paused: bool) -> Result<(), CliError> {
    let now = SystemClock.now_ms();
    let change = |job: Job| {
        let changed_ms = if paused { job.changed_ms } else { now };
        Ok(Job { paused, changed_ms, ..job })
    };
    store.update(name, change).map_err(store_error)?;
    print(&format!("{}: {name}\n", if paused { "paused" } else { "resumed" }))
}

fn add(
    links: &LinkedTools,
    env: &ProcessEnv,
    store: &JobStore,
    args: &CronAdd,
) -> Result<(), CliError> {
    let now = SystemClock.now_ms();
    let schedule = Schedule::read(&args.schedule, timestamp(now), &zone(env));
    let missed = args.missed.as_deref().map(|policy| match policy {
        "once" => MissedPolicy::Once,
        _ => MissedPolicy::Skip,
    });
    let job = Job {
        name: args.name.parse().map_err(CliError::usage)?,
        schedule: schedule.map_err(CliError::usage)?,
        prompt: args.prompt.clone(),
        toolsets: args.toolsets.clone(),
        tools: None,
        cwd: env.cwd(args.settings.cwd.as_deref())?,
        output: args.output.clone(),
        missed,
        timeout_seconds: None,
        max_tokens: None,
        paused: false,
        changed_ms: now,
        sources: Vec::new(),
    };
    // Before the notes on a job that would not be added.
    store.check_new(&job.name).map_err(store_error)?;
    check_job(links, env, &args.settings, &job)?;
    store.create(&job).map_err(store_error)?;
    let table = JobTable::new(store, env);
    print(&format!(
        "added: {}, next at {}\n",
        job.name,
        table.next(&job, Some(&JobHistory::default()))
    ))?;
    hint_of_daemon(store);
    Ok(())
}

/// Edits a copy. The job is replaced only by a job, and only if nothing else changed it meanwhile.
fn edit(
    links: &LinkedTools,
    env: &ProcessEnv,
    store: &JobStore,
    name: &JobName,
    settings: &Settings,
) -> Result<(), CliError> {
    let before = store.text(name).map_err(store_error)?;
    let invalid = |why| CliError::usage(InvalidJob::Malformed(why));
    let written = edit_text(env, &format!("{name}.json"), &before, |text| {
        let now = SystemClock.now_ms();
        let dated = with_time(text, now);
        let job = Job::parse(dated.as_bytes()).map_err(|error| invalid(with_near_field(&error)))?;
        if job.name != *name {
            return Err(invalid(format!("its name is `{}`, and a job keeps its name", job.name)));
        }
        // The time of one that was not changed may have passed.
        if !Job::parse(before.as_bytes()).is_ok_and(|before| before.schedule == job.schedule) {
            Schedule::read(&job.schedule.to_string(), timestamp(now), &zone(env))
                .map_err(CliError::usage)?;
        }
        check_job(links, env, settings, &job)?;
        let job = Job { changed_ms: now, ..job };
        store.replace(&before, &job).map_err(store_error)
    })?;
    match (written, Job::parse(before.as_bytes())) {
        (Some(()), _) => tell(&format!("written: {name}")),
        (None, Err(error)) => return Err(invalid(with_near_field(&error))),
        (None, Ok(_)) => {}
    }
    Ok(())
}

/// Adds the time of the change, which nobody has to write.
fn with_time(text: &str, now: u64) -> Cow<'_, str> {
    match serde_json::from_str(text) {
        // Within the text, so that an error names the line that the person wrote.
        Ok(Value::Object(job)) if !job.is_empty() && !job.contains_key("changed_ms") => {
            Cow::Owned(text.replacen('{', &format!("{{\"changed_ms\":{now},"), 1))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Returns what is wrong with the text of a job, with the nearest field in place of one that a job does
/// not have.
fn with_near_field(error: &JobError) -> String {
    let near = match error {
        JobError::UnknownField { name } => nearest(name, Job::FIELDS),
        _ => None,
    };
    match near {
        Some(near) => format!("{error}; did you mean `{near}`?"),
        None => error.to_string(),
    }
}

/// Jobs as people see them.
struct JobTable<'a> {
    store: &'a JobStore,
    zone: TimeZone,
    now: Timestamp,
    env: &'a ProcessEnv,
    /// Without it, it is not known which toolsets there are.
    loaded: Option<LoadedConfig>,
}

impl<'a> JobTable<'a> {
    fn new(store: &'a JobStore, env: &'a ProcessEnv) -> Self {
        let now = timestamp(SystemClock.now_ms());
        Self { store, zone: zone(env), now, env, loaded: None }
    }

    /// Returns the same with the configuration, unless it has mistakes: other commands tell them.
    fn of(self, settings: &Settings) -> Self {
        let sources = self.env.sources(settings, Vec::new());
        Self { loaded: sources.ok().and_then(|sources| load(&sources).ok()), ..self }
    }

    /// Returns why a job does not get its toolsets.
    fn fault(&self, job: &Job) -> Option<String> {
        self.loaded.as_ref().and_then(|loaded| toolset_fault(loaded, self.env, job))
    }

    fn list(&self, as_json: bool) -> Result<(), CliError> {
        let listing = self.store.list().map_err(store_error)?;
        let warn =
            |fault: JobStoreError| tell(&format!("warning: {}", store_error(fault).in_one_line()));
        listing.faults.into_iter().for_each(warn);
        let rows: Vec<(Job, Option<JobHistory>)> = listing
            .jobs
            .into_iter()
            .map(|job| {
                let history = self.store.present_history(&job.name).map_err(warn).ok();
                (job, history)
            })
            .collect();
        if as_json {
            let rows: Value = rows.iter().map(|(job, it)| self.json(job, it.as_ref())).collect();
            return print(&format!("{rows:#}\n"));
        }
        for (job, _) in &rows {
            let fault = self.fault(job);
            fault.iter().for_each(|fault| tell(&format!("warning: {}: {fault}", job.name)));
        }
        let row = |(job, history): &(Job, Option<JobHistory>)| {
            let last = match history.as_ref().map(|history| history.last.as_ref()) {
                None => "unknown".to_owned(),
                Some(None) => "never".to_owned(),
                Some(Some(last)) => last.status.with_denied(last.denied),
            };
            [
                job.name.to_string(),
                for_terminal_line(&job.schedule.to_string(), PROMPT_CHARS),
                self.next(job, history.as_ref()),
                last,
                for_terminal_line(&job.prompt, PROMPT_CHARS),
            ]
        };
        let head = ["JOB", "SCHEDULE", "NEXT", "LAST RUN", "PROMPT"];
        let has_jobs = !rows.is_empty();
        let rows = rows.iter().map(row).collect();
        print_list(head, rows, &["PROMPT", "SCHEDULE"], "there are no jobs")?;
        if has_jobs {
            hint_of_daemon(self.store);
        }
        Ok(())
    }

    fn show(&self, name: &JobName, as_json: bool) -> Result<(), CliError> {
        let job = self.store.get(name).map_err(store_error)?;
        let history = self.store.present_history(name).map_err(store_error)?;
        if as_json {
            return print(&format!("{:#}\n", self.json(&job, Some(&history))));
        }
        let mut lines = vec![
            format!("job        {name}"),
            format!("schedule   {}", job.schedule),
            format!("next       {}", self.next(&job, Some(&history))),
            format!("toolsets   {}", job.toolsets.join(", ")),
        ];
        if let Some(tools) = &job.tools {
            let tools: Vec<&str> = tools.iter().map(|tool| tool.as_str()).collect();
            lines.push(format!("tools      {}", tools.join(", ")));
        }
        lines.extend(self.fault(&job).map(|fault| format!("           {fault}")));
        lines.push(format!("directory  {}", job.cwd.display()));
        lines.extend(history.requested.then(|| "waiting    a run that was triggered".to_owned()));
        lines.extend(job.output.as_ref().map(|target| format!("output     {target}")));
        if !job.sources.is_empty() {
            lines.push(format!("written    after reading {}", job.sources.join(", ")));
        }
        if let Some(last) = &history.last {
            let at = self.local(timestamp(last.started_ms));
            lines.push(format!("last run   {} at {at}", last.status.with_denied(last.denied)));
            let denied = (last.denied > 0).then(|| format!("           {DENIED}"));
            lines.extend(denied);
            lines.extend(last.note.as_ref().map(|note| format!("           {note}")));
            lines.extend(last.session.as_ref().map(|id| format!("session    {id}")));
            let answer = last.output.as_ref();
            lines.extend(answer.map(|file| format!("answer     {}", file.display())));
        }
        print(&for_terminal(&format!("{}\n\n{}\n", lines.join("\n"), job.prompt.trim_end())))
    }

    /// Returns a job without its history if that cannot be read.
    fn json(&self, job: &Job, history: Option<&JobHistory>) -> Value {
        let next = history.and_then(|it| next_time(job, it, self.now, &self.zone));
        json!({
            "job": job, "next": next.map(|next| next.to_string()),
            "fault": self.fault(job), "runs": history.map(|it| it.runs), "last": history.and_then(|it| it.last.as_ref()),
        })
    }

    fn next(&self, job: &Job, history: Option<&JobHistory>) -> String {
        let Some(history) = history else { return "held".to_owned() };
        match next_time(job, history, self.now, &self.zone) {
            _ if job.paused => "paused".to_owned(),
            None => "none".to_owned(),
            Some(next) => self.local(next),
        }
    }

    fn local(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M %:z").to_string()
    }
}
