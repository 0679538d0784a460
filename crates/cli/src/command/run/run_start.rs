//! What a run starts from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_acp::AcpProgram;
use deputize_agent::new_session_id;
use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::event::{ModelEndpoint, SessionStart};
use deputize_core::{Clock, SessionId};
use deputize_runtime::{SessionDir, StoredSession, SystemClock};

use super::{RunJob, overrides};
use crate::args::RunOptions;
use crate::command::first_listing::{FirstListing, first_look};
use crate::command::sessions::session_named;
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, ResolvedModels, TopProfile, external,
    given_secrets, load_config,
};
use crate::config::{Config, LoadedConfig, ModelOverrides, Sources};
use crate::exit::CliError;
use crate::invocation::quote_path;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// What a run starts from: the program as it is configured, its model, and the session, which may
/// be stored already.
pub(super) struct RunStart {
    pub(super) composition: AssembledProgram,
    /// The program that children are runs of, if they are.
    pub(super) external: Option<AcpProgram>,
    pub(super) models: ResolvedModels,
    /// The endpoint named on the command line, or that of the stored session.
    pub(super) endpoint: Option<ModelEndpoint>,
    pub(super) dir: SessionDir,
    pub(super) stored: Option<StoredSession>,
    pub(super) id: SessionId,
    /// The bound on model requests that the profile of the session sets, if it sets one.
    pub(super) most: Option<u32>,
    pub(super) mode: ApproverMode,
    pub(super) cwd: PathBuf,
    /// Ends its servers when it is dropped.
    pub(super) listing: FirstListing,
}

impl RunStart {
    /// Reads the configuration and the stored session, and assembles the program.
    pub(super) fn new(
        links: &LinkedTools,
        env: &ProcessEnv,
        job: &RunJob<'_>,
        sources: &Sources,
    ) -> Result<Self, CliError> {
        let options = job.options;
        let mut loaded = load_config(env, sources)?;
        let dir = env.sessions()?;
        let stored = job.resume.map(|name| read_session(&dir, name)).transpose()?;
        let before = stored.as_ref().and_then(StoredSession::root_spec);
        let profile = profile(links, &mut loaded.config, env, sources, job)?;
        keep_limit(&mut loaded.config, before.as_ref());
        let most = match &before {
            Some(spec) => spec.profile_max_iterations,
            None => profile.as_ref().and_then(|profile| profile.profile.max_iterations),
        };
        let cwd = match &before {
            Some(spec) => still_there(env, options, &spec.cwd)?,
            None => sources.cwd.clone(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mode = mode(&loaded, env);
        let listing = first_look(&loaded.config, env, &cwd, mode);
        let mut overrides = overrides(&options.model);
        resume_start(&mut overrides, stored.as_ref(), sources.user_file().as_deref());
        let composition = AssembledProgram::new(&AssemblyInput {
            cwd: cwd.clone(),
            clock: Arc::clone(&clock),
            reported: listing.without.clone(),
            overrides: overrides.clone(),
            profile: profile.as_ref().map(|profile| &profile.profile),
            ..AssemblyInput::here(links, &loaded.config, env, sources)
        })?;
        let external = external::program(&loaded.config, env)?;
        let mut models = composition.models(&overrides, env)?;
        given_secrets(&loaded.config, env, &mut models.secrets);
        let id = match &stored {
            Some(stored) => stored.header.session.clone(),
            None => new_session_id(clock.now_ms()),
        };
        let endpoint = endpoint(overrides);
        Ok(Self {
            composition,
            external,
            models,
            endpoint,
            dir,
            stored,
            id,
            most,
            mode,
            cwd,
            listing,
        })
    }
}

/// Returns the profile of a new session's top agent, and applies it to the configuration.
fn profile(
    links: &LinkedTools,
    config: &mut Config,
    env: &ProcessEnv,
    sources: &Sources,
    job: &RunJob<'_>,
) -> Result<Option<TopProfile>, CliError> {
    let name = job.options.profile.as_deref().filter(|_| job.resume.is_none());
    let Some(name) = name else { return Ok(None) };
    let from = AssemblyInput::here(links, config, env, sources);
    let found = TopProfile::find(&from, name, &overrides(&job.options.model))?;
    config.clone_from(&found.config);
    found.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    Ok(Some(found))
}

/// Keeps the limit of the profile that a session began with. What its first run had on the command
/// line counted for that run.
pub(crate) fn keep_limit(config: &mut Config, before: Option<&AgentSpec>) {
    let of_profile = before.and_then(|spec| spec.profile_max_iterations);
    config.max_iterations = config.max_iterations.min(of_profile.unwrap_or(u32::MAX));
}

/// Returns the endpoint named on the command line.
fn endpoint(overrides: ModelOverrides) -> Option<ModelEndpoint> {
    let ModelOverrides { base_url, api_key_env, .. } = overrides;
    base_url.map(|base_url| ModelEndpoint { base_url, api_key_env })
}

/// Keeps the model and the endpoint of the stored session unless the command line names others: a
/// conversation goes to no other address unasked. At another address it is still the same model.
pub(crate) fn go_on_with(overrides: &mut ModelOverrides, start: &SessionStart) {
    if overrides.model.is_some() {
        return;
    }
    overrides.model = Some(start.model.clone());
    if overrides.base_url.is_some() {
        return;
    }
    if let Some(endpoint) = &start.endpoint {
        overrides.base_url = Some(endpoint.base_url.clone());
        if overrides.api_key_env.is_none() {
            overrides.api_key_env.clone_from(&endpoint.api_key_env);
        }
    }
}

/// Restores the model state of the last run, and notes differences to it.
fn resume_start(
    overrides: &mut ModelOverrides,
    stored: Option<&StoredSession>,
    config_file: Option<&Path>,
) {
    if let Some(start) = stored.and_then(StoredSession::last_start) {
        go_on_with(overrides, start);
        other_config(start, config_file).iter().for_each(|note| tell(note));
    }
}

/// Returns a note where a session goes on without the configuration file that it ran with.
fn other_config(start: &SessionStart, config_file: Option<&Path>) -> Option<String> {
    let before = start.config_file.as_deref()?;
    if config_file.is_some_and(|now| is_same_file(before, now)) {
        return None;
    }
    let now = match config_file.filter(|now| now.exists()) {
        Some(now) => format!("uses `{}`", quote_path(now)),
        None => "goes on without it".to_owned(),
    };
    let before = quote_path(before);
    Some(format!("note: the session ran with `--config {before}`, and this run {now}"))
}

/// Returns whether two paths lead to one file, through links too.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other
        || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Returns the approval mode: the configured one, or one that depends on whether a person can be
/// asked.
fn mode(loaded: &LoadedConfig, env: &ProcessEnv) -> ApproverMode {
    if loaded.origins.contains_key("approvals.mode") || env.terminals.stdin {
        loaded.config.approvals.mode
    } else {
        ApproverMode::Deny
    }
}

fn read_session(dir: &SessionDir, name: &str) -> Result<StoredSession, CliError> {
    let id = session_named(dir, name)?;
    dir.read(&id).map_err(CliError::failed)
}

/// A session cannot continue in another directory: the files that it read and wrote are in its own.
#[derive(Debug, thiserror::Error)]
#[error("the session works in `{}`, not in `{}`", began.display(), chosen.display())]
struct OtherDirectory {
    began: PathBuf,
    chosen: PathBuf,
}

/// Returns the directory of a stored session.
fn still_there(env: &ProcessEnv, options: &RunOptions, cwd: &Path) -> Result<PathBuf, CliError> {
    let found = env.cwd(Some(cwd));
    let found = found.map_err(|error| error.hint("the session goes on where it began"))?;
    if let Some(chosen) = &options.settings.cwd {
        let chosen = env.cwd(Some(chosen))?;
        if chosen != found {
            let error = OtherDirectory { began: cwd.to_owned(), chosen };
            let hint = "leave out -C to go on there; without --resume a new session begins here";
            return Err(CliError::usage(error).hint(hint));
        }
    }
    Ok(cwd.to_owned())
}
