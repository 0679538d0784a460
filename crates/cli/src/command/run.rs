//! `deputize run`: one task to its end.

use std::io;
use std::path::Path;
use std::sync::Arc;

use deputize_acp::AcpProgram;
use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::image::Image;
use deputize_core::source::{Source, SourceKind};
use deputize_core::{Availability, Resource as _, ToolName};
use deputize_runtime::{SessionConfig, StoredSession};
use deputize_tools::Processes;
use serde_json::json;

use self::run_harness::{RunHarness, RunPlan, SessionPlace};
use self::run_report::RunReport;
use self::run_start::RunStart;
use crate::args::{Approve, ModelChoice, RunOptions};
use crate::command::sessions::{nothing_asked, resume_words};
use crate::compose::{AssembledProgram, LinkedTools, ResolvedModels, external};
use crate::config::{Config, FlagValue, ModelOverrides};
use crate::exit::CliError;
use crate::hooks;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::processes;
use crate::runtime::{own, start_threads};
use crate::stdio::tell;
use crate::task::attachment::Attachment;
use crate::task::image_files::{ImageFileError, read_images};
use crate::task::{self, INPUT_TIMEOUT, TaskInput};

mod recording;
mod run_harness;
mod run_report;
mod run_start;

pub(crate) use recording::replay;
pub(crate) use run_start::{go_on_with, keep_limit};

/// A run: its links, environment and options.
pub(crate) struct RunJob<'a> {
    pub(crate) prompt: Option<&'a str>,
    pub(crate) resume: Option<&'a str>,
    pub(crate) options: &'a RunOptions,
}

/// Runs a task, and returns the exit code.
pub(crate) fn run(links: &LinkedTools, env: &ProcessEnv, job: &RunJob<'_>) -> Result<u8, CliError> {
    let options = job.options;
    let runtime = start_threads(env)?;
    links.make_beside(&runtime);
    let sources = env.sources(&options.settings, flags(options))?;
    let start = RunStart::new(links, env, job, &sources)?;
    let RunStart {
        composition, external, models, endpoint, dir, stored, id, mode, cwd, most, ..
    } = start;
    let images = images(options, &models)?;
    // A session goes on also when there is nothing new to say.
    let (task, piped) = read_task(job, stored.is_none(), env)?;
    if task.is_none() && !images.is_empty() {
        return Err(CliError::usage(ImageFileError::NoMessage));
    }
    let spill = dir.spill(&id);
    let material =
        piped.map(|bytes| attached(bytes, &composition.config, &spill, &models, options));
    start.listing.notes.iter().for_each(|note| tell(&format!("note: {note}")));
    announce(job, &composition, mode, &models.warnings, stored.as_ref());
    let answered = stored.as_ref().filter(|_| task.is_none()).and_then(nothing_asked);
    answered.iter().for_each(|note| tell(&format!("note: {note}")));
    let before = stored.as_ref().map_or(&[][..], |stored| &stored.records);
    let stage = RunHarness::set(env, options, &cwd, &composition, before)?.of(&id);
    let model = models.name.clone();
    let plan =
        RunPlan { model, options: models.options.clone(), mode, cwd, task, material, images };
    let mut session_config = stage.session_config(composition.session_config(models));
    session_config.record.endpoint = endpoint;
    session_config.record.config_file.clone_from(&sources.config_file);
    let file = options.record.as_deref();
    let recorder = file.map(|file| recording::recorder(file, &composition, &plan)).transpose()?;
    session_config.record.recorder.clone_from(&recorder);
    // Whoever lets go of them last waits for their end. That is here, also when the run is left
    // before its end: a thread of the runtime would be left in the middle of it.
    let processes = attach_programs(&mut session_config, &composition.config, external, env);
    let place = SessionPlace { dir: &dir, id, stored: stored.is_some() };
    let work = async {
        let ended = Box::pin(stage.work(&composition, &place, session_config, plan)).await;
        composition.servers.catch_up().await;
        composition.servers.close().await;
        RunReport::new(&stage, composition.config.max_iterations, most).print(ended).await
    };
    let code = stage.play(runtime, work);
    drop(processes);
    let report = |code| recorder.map_or(code, |it| recording::report(&it, code, options.quiet));
    code.map(report)
}

/// Returns the images that the model is shown with the message.
fn images(options: &RunOptions, models: &ResolvedModels) -> Result<Vec<Image>, CliError> {
    if !options.images.is_empty() && !models.models.sees_images(&models.name) {
        return Err(CliError::usage(ImageFileError::NoVision(models.name.clone())));
    }
    read_images(&options.images).map_err(CliError::usage)
}

/// Returns the input from a pipe as it goes with the task, and prints a note on it.
fn attached(
    bytes: Vec<u8>,
    config: &Config,
    spill: &Path,
    models: &ResolvedModels,
    options: &RunOptions,
) -> Attachment {
    let most = config.limits.read_bytes as usize;
    let attachment = Attachment::new(bytes, most, spill, &models.secrets);
    if !options.quiet {
        tell(&attachment.note);
    }
    attachment
}

/// Returns the warning about tools that the session had and this program no longer has.
fn missing_tools_warning(spec: &AgentSpec, composition: &AssembledProgram) -> Option<String> {
    let missing = spec
        .tools
        .iter()
        .filter(|name| composition.assembly.tools.catalog.get(name.as_str()).is_none());
    let missing: Vec<&str> = missing.map(ToolName::as_str).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "warning: this session had tools that are not there now, and their calls will be \
             refused: {}; put back the plugin, MCP server or setting (`delegation.tool_name`, \
             `delegation.background`) that has them",
            missing.join(", ")
        )
    })
}

/// Prints the notices before a run begins.
fn announce(
    job: &RunJob<'_>,
    composition: &AssembledProgram,
    mode: ApproverMode,
    warnings: &[String],
    stored: Option<&StoredSession>,
) {
    notices(composition, mode);
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let Some(stored) = stored else {
        let warning = no_tools_warning(composition);
        warning.iter().for_each(|warning| tell(&format!("warning: {warning}")));
        return;
    };
    let spec = stored.root_spec();
    let missing = spec.as_ref().and_then(|spec| missing_tools_warning(spec, composition));
    missing.iter().for_each(|text| tell(text));
    left_alone(job.options, spec.as_ref()).iter().for_each(|note| tell(note));
    if !job.options.quiet {
        tell(&format!("note: {}", resume_words(stored)));
    }
}

/// Gives a session what runs programs beside its agents: the supervisor of processes, hooks, the
/// external agent.
pub(crate) fn attach_programs(
    session_config: &mut SessionConfig,
    config: &Config,
    program: Option<AcpProgram>,
    env: &ProcessEnv,
) -> Arc<Processes> {
    let setup = processes::setup(env.open_files);
    let processes = session_config.tools.settings.get_or_insert_with(|| Processes::with(setup));
    session_config.hooks.hooks = hooks::all(&config.hooks, Arc::clone(&processes), env);
    session_config.external = external::agents(config, program, &processes);
    processes
}

/// Returns the words of the task, and the input piped in beside them.
fn read_task(
    job: &RunJob<'_>,
    needed: bool,
    env: &ProcessEnv,
) -> Result<(Option<String>, Option<Vec<u8>>), CliError> {
    let file = own(io::stdin()).map_err(CliError::failed)?;
    let is_terminal = env.terminals.stdin;
    let input = TaskInput { file: &file, is_terminal, timeout: INPUT_TIMEOUT, tell: &tell };
    // Where there may be no words, none are those of standard input.
    let prompt = job.prompt.filter(|prompt| needed || !prompt.trim().is_empty());
    let words = task::words(prompt, needed, &input).map_err(CliError::usage)?;
    let piped = task::piped(prompt, &input).map_err(CliError::usage)?;
    Ok((words, piped))
}

pub(crate) fn flags(options: &RunOptions) -> Vec<FlagValue> {
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
        options.max_cost.map(|usd| flag("--max-cost", "budget.usd", json!(usd))),
        options.max_tokens_total.map(|n| flag("--max-tokens-total", "budget.tokens", json!(n))),
        mode.map(|mode| flag("--approve", "approvals.mode", json!(mode))),
    ];
    flags.into_iter().flatten().collect()
}

/// Returns the model options of the command line.
pub(crate) fn overrides(choice: &ModelChoice) -> ModelOverrides {
    ModelOverrides {
        model: choice.model.clone(),
        base_url: choice.base_url.clone(),
        api_key_env: choice.api_key_env.clone(),
    }
}

/// Returns notes on the given options that a stored session ignores.
fn left_alone(options: &RunOptions, before: Option<&AgentSpec>) -> Vec<&'static str> {
    let is_of_project = |source: &Source| source.kind() == SourceKind::Project;
    let has_project =
        |spec: &AgentSpec| spec.system_sources.iter().chain(&spec.task_sources).any(is_of_project);
    let said = [
        (
            !options.toolsets.is_empty(),
            "note: a session keeps the tools that it sent: with -t some of them are refused",
        ),
        (
            options.profile.is_some(),
            "note: a session keeps the profile that it began with: --profile has no effect",
        ),
        (
            options.settings.project_files && !before.is_some_and(has_project),
            "note: a session keeps the prompt that it began with: --project-files adds no \
             instructions of the project to it",
        ),
    ];
    said.into_iter().filter(|(said, _)| *said).map(|(_, note)| note).collect()
}

/// Prints what the person should know before the run begins. That there is no sandbox each question
/// says; here it is said where nobody is asked.
fn notices(composition: &AssembledProgram, mode: ApproverMode) {
    composition.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    if !composition.assembly.has_unbounded() {
        return;
    }
    let children = composition.assembly.delegation.approvals.mode;
    let are_program = !composition.assembly.delegation.host.external_needs.is_empty();
    let warning = unasked_warning(mode, children, are_program);
    warning.iter().for_each(|warning| tell(&format!("warning: {warning}")));
}

/// Returns the warning that an agent cannot use a single tool, with the reasons.
pub(crate) fn no_tools_warning(composition: &AssembledProgram) -> Option<String> {
    let tools = &composition.assembly.tools;
    let settings = composition.tool_settings();
    let mut reasons = Vec::new();
    for entry in tools.names.iter().filter_map(|name| tools.catalog.get(name.as_str())) {
        let Availability::No(why) = entry.tool.availability(&settings) else { return None };
        reasons.push(format!("`{}`: {why}", entry.name()));
    }
    let profile = &composition.assembly.prompt.profile;
    let why = match (reasons.is_empty(), profile) {
        (false, _) => reasons.join("; "),
        (true, Some(profile)) => format!("its profile `{}` leaves it none", profile.name),
        (true, None) => format!("`toolsets` is {}", composition.config.toolsets.join(", ")),
    };
    let list = format_command("tools list");
    Some(format!("the agent has no tool ({why}); `{list}` shows what there is"))
}

/// Returns the warning that commands run without asking: those of the top agent, of children, or of
/// the program that children are.
fn unasked_warning(own: ApproverMode, children: ApproverMode, are_program: bool) -> Option<String> {
    let is_auto = |mode| mode == ApproverMode::Auto;
    let of_program = "children are another program (delegation.acp_command), which acts without \
                      asking (delegation.approvals)";
    let what = match (is_auto(own), is_auto(children), are_program) {
        (false, false, _) => return None,
        (true, false, _) => "commands run without asking (--approve)".to_owned(),
        (false, true, false) => {
            "commands of children run without asking (delegation.approvals)".to_owned()
        }
        (true, true, false) => "commands, also those of children, run without asking (--approve, \
                                delegation.approvals)"
            .to_owned(),
        (false, true, true) => of_program.to_owned(),
        (true, true, true) => format!("commands run without asking (--approve); {of_program}"),
    };
    Some(format!("{what}, with all your rights: there is no sandbox yet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_whose_commands_run_unasked() {
        use ApproverMode::{Ask, Auto, Deny};
        let all =
            [(Deny, Auto), (Auto, Ask), (Auto, Auto)].into_iter().flat_map(|(own, children)| {
                [false, true].map(|program| unasked_warning(own, children, program).unwrap())
            });
        let mut all: Vec<String> = all.collect();
        all.dedup();
        insta::assert_snapshot!(all.join("\n"));
        assert_eq!(unasked_warning(Ask, Deny, true), None);
        assert_eq!(unasked_warning(Deny, Ask, false), None);
    }
}
