//! `run --record FILE` and `run --replay FILE`.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_runtime::{Recording, Replay, SessionRecorder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run_report::RunReport;
use super::{RunHarness, RunJob, RunPlan, flags};
use crate::args::RunOptions;
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, PromptEnvironment, environment_secrets,
};
use crate::config::{Config, FlagValue, ModelOverrides, Sources, load, remove_former_keys};
use crate::exit::{CliError, Exit};
use crate::process_env::ProcessEnv;
use crate::runtime::{own, start_threads};
use crate::stdio::tell;
use crate::task::attachment::words_of;
use crate::task::{INPUT_TIMEOUT, TaskInput, words};

/// Data for setting up a session again: the sources of its prompts and tools.
#[derive(Debug, Serialize, Deserialize)]
struct RecordingSetup {
    config: Value,
    found: PromptEnvironment,
    mode: ApproverMode,
    /// The material before the person's first words.
    #[serde(default)]
    material: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("this recording is of another program (`{0}`): replay it with that one")]
    Foreign(String),
    #[error("this recording holds no agent: the recorded run failed before it began")]
    NoAgent,
    #[error("a recording needs a file: `--record -` names none")]
    NoFile,
    #[error("the task differs from the recorded one, which is `{recorded}`")]
    Task { recorded: String },
}

/// Creates the file of a recording.
pub(super) fn recorder(
    file: &Path,
    composition: &AssembledProgram,
    plan: &RunPlan,
) -> Result<Arc<SessionRecorder>, CliError> {
    if file == Path::new("-") {
        return Err(CliError::usage(SetupError::NoFile));
    }
    let config = serde_json::to_value(&composition.config).map_err(CliError::failed)?;
    let material = plan.material.as_ref().map(|material| material.text.clone());
    let setup =
        RecordingSetup { config, found: composition.found.clone(), mode: plan.mode, material };
    let setup = serde_json::to_value(setup).map_err(CliError::failed)?;
    Ok(Arc::new(SessionRecorder::create(file).map_err(CliError::usage)?.with_setup(setup)))
}

/// Reports what became of a recording. Returns the run's exit code, which is a failure if the
/// recording failed.
pub(super) fn report(recorder: &SessionRecorder, code: u8, quiet: bool) -> u8 {
    let path = recorder.path().display();
    match recorder.fault() {
        // That was told, and is why nothing began.
        Some(_) if !recorder.has_begun() => code,
        Some(fault) => {
            tell(&format!(
                "error: the recording `{path}` is incomplete and cannot be replayed: {fault}"
            ));
            if code == 0 { Exit::Failed.code() } else { code }
        }
        None => {
            if !quiet {
                tell(&format!(
                    "recorded: {path}. It holds everything that models and tools said, but for \
                     known secrets"
                ));
            }
            code
        }
    }
}

/// Replays a recording, and returns the recorded run's exit code, or another one if the replay
/// differs.
pub(crate) fn replay(
    links: &LinkedTools,
    env: &ProcessEnv,
    file: &Path,
    job: &RunJob<'_>,
) -> Result<u8, CliError> {
    let options = job.options;
    let runtime = start_threads(env)?;
    let recording = Recording::read(file).map_err(CliError::usage)?;
    let foreign = |_| SetupError::Foreign(recording.program().to_owned());
    let RecordingSetup { config, found, mode, material } =
        serde_json::from_value(recording.setup().clone())
            .map_err(foreign)
            .map_err(CliError::usage)?;
    let config = config_of(config, options)?;
    let mut warnings = Vec::new();
    let found = match &options.settings.cwd {
        Some(chosen) => {
            let cwd = env.cwd(Some(chosen))?;
            found.in_directory(&cwd, options.settings.project_files, &mut warnings)
        }
        None => found,
    };
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    let cwd = found.prompt.cwd.clone();
    let ingredients = AssemblyInput {
        links,
        config: &config,
        environment: env,
        overrides: ModelOverrides::default(),
        cwd: cwd.clone(),
        home: None,
        // No tool runs.
        protected: BTreeSet::new(),
        project_files: false,
        // It is in what was found.
        profile: None,
        clock: Arc::new(recording.clock()),
        reported: BTreeSet::new(),
    };
    let composition = AssembledProgram::again(&ingredients, found)?;
    let recorded = recording.top_agent().ok_or(SetupError::NoAgent).map_err(CliError::usage)?;
    same_task(job.prompt, &recording, &recorded, env)?;
    let stage = RunHarness::set(env, options, &cwd, &composition, recording.before())?;
    let session_config = stage.session_config(composition.played());
    let model = recorded.model;
    let options = recorded.options;
    let images = recorded.images;
    let plan = RunPlan { model, options, mode, cwd, task: None, material: None, images };
    let work = async {
        let replay = Replay::new(recording, session_config);
        let id = replay.session().id().clone();
        let spec = composition.assembly.top_agent(&id, &plan.model, &recorded.goal, plan.mode);
        let mut spec = composition.with_attachment(spec, material.as_deref());
        spec.options = plan.options;
        spec.images = plan.images;
        let authority = composition.assembly.authority(plan.mode, plan.cwd);
        let outcome = replay.run(spec, authority, &stage.cancel).await;
        let ended = outcome.map_err(CliError::failed);
        RunReport::new(&stage, composition.config.max_iterations, None).print(ended).await
    };
    stage.play(runtime, work)
}

/// The recorded configuration, with what the command line says of tools and limits.
fn config_of(mut recorded: Value, options: &RunOptions) -> Result<Config, CliError> {
    remove_former_keys(&mut recorded);
    let keys = match recorded {
        Value::Object(keys) => keys,
        _ => serde_json::Map::new(),
    };
    let recorded =
        keys.into_iter().map(|(key, value)| FlagValue { flag: "--replay".to_owned(), key, value });
    let flags = recorded.chain(flags(options)).collect();
    // Nothing of this machine: no file, no variable.
    let sources = Sources { cwd: "/dev/null".into(), flags, ..Sources::default() };
    let loaded = load(&sources).map_err(CliError::usage)?;
    Ok(loaded.config)
}

/// A task that is given must be the recorded one. Standard input is read when that is said.
fn same_task(
    prompt: Option<&str>,
    recording: &Recording,
    top: &AgentSpec,
    env: &ProcessEnv,
) -> Result<(), CliError> {
    let Some(prompt) = prompt else { return Ok(()) };
    let file = own(io::stdin()).map_err(CliError::failed)?;
    let is_terminal = env.terminals.stdin;
    let input = TaskInput { file: &file, is_terminal, timeout: INPUT_TIMEOUT, tell: &tell };
    let given = words(Some(prompt), true, &input).map_err(CliError::usage)?.unwrap_or_default();
    let recorded = recording.message().unwrap_or_default();
    // More may stand before the person's words in a message.
    let recorded = if recorded == top.task { &top.goal } else { words_of(recorded) };
    // Secrets were replaced in what was recorded.
    if given == recorded || environment_secrets(env).scrub(&given) == recorded {
        return Ok(());
    }
    let recorded = recorded.to_owned();
    Err(CliError::usage(SetupError::Task { recorded }).hint("a replay needs no task"))
}
