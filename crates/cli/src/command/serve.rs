//! Common parts of sessions for editors and for other agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_acp::AcpProgram;
use deputize_core::authority::ApproverMode;
use deputize_core::event::SessionStart;
use deputize_core::retry::RetryPolicy;
use deputize_core::{Cancel, CancelReason, Observer};
use deputize_runtime::{RateLimiters, SessionConfig, SessionDir};
use deputize_tools::Processes;

use super::first_listing::{FirstListing, first_look};
use super::run::{attach_programs, flags, go_on_with, overrides};
use crate::args::{RunOptions, Settings};
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, ModelSelection, ResolvedModels, TopProfile,
    external, given_secrets, load_config, redact_in_log,
};
use crate::config::{Config, LoadedConfig, ModelOverrides, Sources, load};
use crate::exit::CliError;
use crate::inactivity::Inactivity;
use crate::process_env::ProcessEnv;
use crate::processes::setup;

/// State that all of them share.
pub(crate) struct SharedAssembly {
    links: LinkedTools,
    pub(super) env: ProcessEnv,
    /// The command line's options for every session.
    pub(super) options: RunOptions,
    pub(super) dir: SessionDir,
    pub(super) processes: Arc<Processes>,
    gate: Arc<RateLimiters>,
}

/// Startup of a session.
pub(super) struct SessionStartup {
    pub(super) composition: AssembledProgram,
    pub(super) chosen: ResolvedModels,
    pub(super) overrides: ModelOverrides,
    /// The configuration file that the person named, if one.
    config_file: Option<PathBuf>,
    /// Notes for the requester.
    pub(super) notes: StartupNotes,
    program: Option<AcpProgram>,
    _looked: FirstListing,
}

/// Notes at the start of a session.
pub(super) struct StartupNotes {
    /// Notes about MCP servers.
    pub(super) of_servers: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl SharedAssembly {
    pub(crate) fn new(
        links: &LinkedTools,
        env: ProcessEnv,
        options: RunOptions,
    ) -> Result<Self, CliError> {
        Ok(Self {
            links: links.clone(),
            dir: env.sessions()?,
            options,
            processes: Arc::new(Processes::with(setup(env.open_files))),
            gate: Arc::new(RateLimiters::new(RetryPolicy::default(), fastrand::u64(..))),
            env,
        })
    }

    /// Where the configuration of a session that works there comes from.
    pub(super) fn sources(&self, cwd: &Path) -> Result<Sources, CliError> {
        let settings = Settings { cwd: Some(cwd.to_owned()), ..self.options.settings.clone() };
        self.env.sources(&settings, flags(&self.options))
    }

    /// The configuration of a session that works there.
    pub(super) fn load(&self, cwd: &Path) -> Result<(Sources, LoadedConfig), CliError> {
        let sources = self.sources(cwd)?;
        let loaded = load_config(&self.env, &sources)?;
        Ok((sources, loaded))
    }

    /// Finds what is wrong with the configuration and the profile of a session in the program's
    /// directory.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let sources = self.sources(&self.env.cwd(None)?)?;
        let loaded = load(&sources).map_err(CliError::usage)?;
        self.profile(&sources, &loaded.config).map(|_| ())
    }

    /// Returns whether the model of a new session in the program's directory sees images.
    pub(super) fn sees_images(&self) -> Result<bool, CliError> {
        let (sources, mut loaded) = self.load(&self.env.cwd(None)?)?;
        if let Some(profile) = self.profile(&sources, &loaded.config)? {
            loaded.config = profile.config;
        }
        let overrides = overrides(&self.options.model);
        let asked = ModelSelection::of(&loaded.config, &overrides).map_err(CliError::usage)?;
        Ok(asked.sees_images())
    }

    /// Assembles a session from what is known of its servers, without asking them.
    pub(super) fn compose(
        &self,
        sources: &Sources,
        config: &Config,
    ) -> Result<AssembledProgram, CliError> {
        let profile = self.profile(sources, config)?;
        let config = profile.as_ref().map_or(config, |profile| &profile.config);
        AssembledProgram::new(&AssemblyInput {
            overrides: overrides(&self.options.model),
            profile: profile.as_ref().map(|profile| &profile.profile),
            ..AssemblyInput::here(&self.links, config, &self.env, sources)
        })
    }

    /// Returns the profile that the command line names.
    fn profile(&self, sources: &Sources, config: &Config) -> Result<Option<TopProfile>, CliError> {
        let Some(name) = self.options.profile.as_deref() else { return Ok(None) };
        let from = AssemblyInput::here(&self.links, config, &self.env, sources);
        TopProfile::find(&from, name, &overrides(&self.options.model)).map(Some)
    }

    /// Puts a session together, with what an earlier one is gone on with.
    pub(super) fn begin(
        &self,
        sources: &Sources,
        loaded: &LoadedConfig,
        before: Option<&SessionStart>,
    ) -> Result<SessionStartup, CliError> {
        let profile = match before {
            // It keeps the profile that it began with.
            Some(_) => None,
            None => self.profile(sources, &loaded.config)?,
        };
        let config = profile.as_ref().map_or(&loaded.config, |profile| &profile.config);
        let env = &self.env;
        // An editor may have added servers to it.
        redact_in_log(config, env);
        let mut looked = first_look(config, env, &sources.cwd, unasked(config));
        let of_servers = std::mem::take(&mut looked.notes);
        let mut overrides = overrides(&self.options.model);
        if let Some(start) = before {
            go_on_with(&mut overrides, start);
        }
        let composition = AssembledProgram::new(&AssemblyInput {
            reported: looked.without.clone(),
            overrides: overrides.clone(),
            profile: profile.as_ref().map(|profile| &profile.profile),
            ..AssemblyInput::here(&self.links, config, env, sources)
        })?;
        let program = external::program(config, env)?;
        let mut chosen = composition.models(&overrides, env)?;
        given_secrets(config, env, &mut chosen.secrets);
        let of_profile = profile.iter().flat_map(|profile| &profile.warnings);
        let warnings = of_profile.chain(&composition.warnings).chain(&chosen.warnings);
        let warnings = warnings.cloned().collect();
        let notes = StartupNotes { of_servers, warnings };
        let config_file = sources.config_file.clone();
        Ok(SessionStartup {
            composition,
            chosen,
            overrides,
            config_file,
            notes,
            program,
            _looked: looked,
        })
    }

    /// The parts of a session, with what works beside its agents. The caller adds who is asked.
    pub(super) fn session_config(
        &self,
        begun: &SessionStartup,
        observers: Vec<Arc<dyn Observer>>,
    ) -> SessionConfig {
        let mut session_config = begun.composition.session_config(begun.chosen.clone());
        // One process starts and ends the commands of all sessions.
        if let Ok(supervisor) = self.processes.shared() {
            session_config.tools.settings.get_or_insert_with(|| Processes::of(supervisor));
        }
        session_config.observers = observers;
        session_config.record.config_file.clone_from(&begun.config_file);
        session_config.requests.rate_limiter = Some(Arc::clone(&self.gate) as _);
        let config = &begun.composition.config;
        let program = begun.program.clone();
        let _kept_in_the_settings =
            attach_programs(&mut session_config, config, program, &self.env);
        session_config
    }
}

/// How questions are answered where nobody is at a terminal of ours.
pub(super) fn unasked(config: &Config) -> ApproverMode {
    match config.approvals.mode {
        ApproverMode::Auto => ApproverMode::Auto,
        ApproverMode::Ask | ApproverMode::Deny => ApproverMode::Deny,
    }
}

/// Waits for the end of a turn, and ends it where nothing comes of it any more. Why, if so.
pub(super) async fn while_active<T>(
    config: &Config,
    idle: &Inactivity,
    cancel: &Cancel,
    turn: impl Future<Output = T>,
) -> (T, Option<String>) {
    let seconds = config.inactivity_timeout_seconds;
    let limit = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    let mut turn = Box::pin(turn);
    tokio::select! {
        biased;
        ended = &mut turn => return (ended, None),
        () = idle.over(limit) => {}
    }
    cancel.cancel(CancelReason::TimeLimit);
    let why =
        format!("stopped: nothing came of the turn for {seconds} s (inactivity_timeout_seconds)");
    (turn.await, Some(why))
}
