//! Checks a job that a person wrote, before it is kept.

use deputize_agent::EffectPolicy;
use deputize_core::Availability;
use deputize_core::sanitize::for_terminal_line;
use deputize_cron::Job;
use deputize_tools::secret_in;

use super::job_toolsets::narrow;
use crate::args::Settings;
use crate::compose::{AssembledProgram, AssemblyInput, LinkedTools, all_secrets, load_config};
use crate::config::{BROWSER_TOOLSET, CronApprovals};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// Why what a person wrote is not kept as a job.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidJob {
    #[error("not a valid job: {0}")]
    Malformed(String),
    #[error("there is no message target `{0}` in `messaging.targets`")]
    Target(String),
    #[error("the prompt contains a secret ({0}): secrets are never saved")]
    Secret(String),
    #[error("no tool of its toolsets can be used in a job: {0}")]
    Unusable(String),
}

/// Checks a job with the configuration of its directory. Nobody can be asked in `env`, as in runs
/// of jobs.
pub(super) fn check_job(
    links: &LinkedTools,
    env: &ProcessEnv,
    settings: &Settings,
    job: &Job,
) -> Result<(), CliError> {
    let invalid = |fault: fn(String) -> InvalidJob, text| Err(CliError::usage(fault(text)));
    if let Err(why) = job.check() {
        return invalid(InvalidJob::Malformed, why);
    }
    let there = env.cwd(Some(&job.cwd))?;
    let cwd = settings.cwd.clone().or(Some(there));
    let sources = env.sources(&Settings { cwd, ..settings.clone() }, Vec::new())?;
    let mut loaded = load_config(env, &sources)?;
    if let Some(target) = &job.output
        && !loaded.config.messaging.targets.contains_key(target)
    {
        return invalid(InvalidJob::Target, for_terminal_line(target, 40));
    }
    if let Some(secret) = secret_in(&job.prompt, &all_secrets(&loaded.config, env)) {
        return invalid(InvalidJob::Secret, secret);
    }
    let narrowed = narrow(&mut loaded, job);
    let config = &mut loaded.config;
    if narrowed.is_err() {
        // A toolset that is not there is an error of the assembly, which says more.
        config.toolsets.clone_from(&job.toolsets);
    }
    let program = AssembledProgram::new(&AssemblyInput::here(links, config, env, &sources))?;
    narrowed?;
    check_tools(&program, job)?;
    if config.toolsets != job.toolsets {
        let toolsets = config.toolsets.join(", ");
        tell(&format!(
            "note: of its toolsets, `toolsets` of the configuration has only {toolsets}"
        ));
    }
    Ok(())
}

/// Checks that a job has a tool that it can use, and tells which ones need somebody who approves.
fn check_tools(program: &AssembledProgram, job: &Job) -> Result<(), CliError> {
    let approves = program.config.cron.approvals == CronApprovals::Auto;
    let effects = EffectPolicy::approval_effects();
    let tools = &program.assembly.tools;
    let settings = program.tool_settings();
    let (mut usable, mut unusable, mut asking) = (0, Vec::new(), Vec::new());
    for entry in tools.names.iter().filter_map(|name| tools.catalog.get(name.as_str())) {
        if job.tools.as_ref().is_some_and(|own| !own.contains(entry.name())) {
            continue;
        }
        match entry.tool.availability(&settings) {
            Availability::No(why) => unusable.push(format!("`{}`: {why}", entry.name())),
            Availability::Yes => usable += 1,
        }
        if !approves && effects.contains(&entry.tool.spec().effects) {
            asking.push(entry.name().as_str());
        }
    }
    // The tools of this one are not in the catalog then.
    let has_browser = job.toolsets.iter().any(|set| set == BROWSER_TOOLSET);
    if has_browser && !program.config.browser.enabled {
        unusable.push(format!("the toolset `{BROWSER_TOOLSET}` is off: set `browser.enabled`"));
    }
    // Without any, a server has not said yet what it has.
    if usable == 0 && !unusable.is_empty() {
        return Err(CliError::usage(InvalidJob::Unusable(unusable.join("; "))));
    }
    if !asking.is_empty() {
        tell(&format!(
            "note: nobody approves calls of a job, so those that ask are denied, of {}; \
             `cron.approvals: auto` approves them",
            asking.join(", ")
        ));
    }
    Ok(())
}
