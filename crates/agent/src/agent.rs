//! An agent that is ready for tasks.

#[cfg(feature = "tools")]
use std::collections::BTreeMap;
#[cfg(feature = "tools")]
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::hook::Hook;
use deputize_core::image::Image;
use deputize_core::outcome::ValueError;
use deputize_core::rate_limit::RateLimiter;
use deputize_core::sanitize::Secrets;
use deputize_core::{
    Approver, Cancel, Observer, Outcome, ResourceMap, SessionId, Status, describe_error,
};
use deputize_runtime::{
    Continue, Models, RecorderError, ResumeError, Session, SessionConfig, SessionDir, SessionError,
    SessionRecorder, SessionSnapshot, SnapshotObserver,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::assembly::Assembly;
use crate::extension::{Extension, ExtensionContext};
use crate::running::RunningSessions;
use crate::session_id::new_session_id;

mod assembly_settings;
mod build_error;
mod builder;
mod handler_settings;
mod model_settings;
mod replay;
#[cfg(feature = "cron")]
mod run_job;

use assembly_settings::AgentSetup;
#[cfg(feature = "tools")]
use assembly_settings::BuiltInSettings;
pub use build_error::BuildError;
pub use builder::AgentBuilder;
pub use replay::AgentReplayError;

/// Why a session does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Its file cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is nothing to go on with.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The session works in another directory than the agent.
    #[error("the session works in `{}`, and this agent in `{}`", session.display(), agent.display())]
    Workspace {
        /// The directory of the session.
        session: PathBuf,
        /// The agent's.
        agent: PathBuf,
    },
    /// The recording cannot be made.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// The task ended, and its recording is not whole.
    #[error("the recording `{}` is incomplete and cannot be replayed: {why}", path.display())]
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Cause, as a text.
        why: String,
        /// How the task ended.
        outcome: Box<Outcome>,
    },
}

/// An agent that is ready for tasks. Each task is a session of its own; tasks may run side by
/// side.
pub struct Agent {
    assembly: Assembly,
    models: AgentModels,
    sessions: Sessions,
    handlers: Handlers,
    extensions: Vec<Box<dyn Extension>>,
    rate_limiter: Arc<dyn RateLimiter>,
    #[cfg(feature = "tools")]
    commands: Commands,
    setup: AgentSetup,
    warnings: Vec<String>,
    running: RunningSessions,
}

/// The models of an agent and its children.
struct AgentModels {
    /// The agent's own, as records name it.
    name: String,
    models: Models,
    secrets: Secrets,
}

/// Who answers questions and sees what happens.
struct Handlers {
    mode: ApproverMode,
    approver: Arc<dyn Approver>,
    observers: Vec<Arc<dyn Observer>>,
    hooks: Vec<Arc<dyn Hook>>,
}

/// Where tools work, who owns commands, what they get of the environment, and the settings of tools.
#[cfg(feature = "tools")]
struct Commands {
    roots: Arc<deputize_tools::GrantedRoots>,
    processes: Arc<deputize_tools::Processes>,
    env: BTreeMap<OsString, OsString>,
    tools: BuiltInSettings,
}

#[cfg(feature = "tools")]
impl Commands {
    fn new(cwd: &Path, env: BTreeMap<OsString, OsString>, tools: BuiltInSettings) -> Self {
        Self {
            roots: Arc::new(deputize_tools::GrantedRoots::of(cwd)),
            processes: Arc::new(crate::helper::processes()),
            env,
            tools,
        }
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({}, {:?})", self.models.name, self.assembly)
    }
}

impl Agent {
    /// Begins to build an agent.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), deputize_agent::BuildError> {
    /// let agent = deputize_agent::Agent::builder()
    ///     .model("openai/gpt-5")
    ///     .workspace(".")
    ///     .build()?;
    /// println!("{}", agent.run("What is in this directory?").await.text.unwrap_or_default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> AgentBuilder {
        AgentBuilder::new()
    }

    /// Runs a task to its end. What goes wrong is in the outcome.
    pub async fn run(&self, task: &str) -> Outcome {
        self.run_until(task, &Cancel::new()).await
    }

    /// Runs a task to its end or until it is cancelled.
    pub async fn run_until(&self, task: &str, cancel: &Cancel) -> Outcome {
        self.run_spec(|spec| spec, task, None, cancel).await
    }

    /// Runs a task with images, which its model sees with the words. With the feature `images`,
    /// [`ImageReader`](crate::image::ImageReader) makes them of files. A model without vision fails
    /// the task.
    pub async fn run_with_images(
        &self,
        task: &str,
        images: impl IntoIterator<Item = Image>,
    ) -> Outcome {
        let images = images.into_iter().collect();
        let change = |spec| AgentSpec { images, ..spec };
        self.run_spec(change, task, None, &Cancel::new()).await
    }

    /// Runs a task to its end and records everything from outside in a new file, so that
    /// [`Self::replay`] can play it again.
    ///
    /// # Errors
    /// When the recording cannot be made or is not whole.
    pub async fn record(&self, task: &str, file: impl AsRef<Path>) -> Result<Outcome, AgentError> {
        let setup = serde_json::to_value(&self.setup).unwrap_or_default();
        let recorder = Arc::new(SessionRecorder::create(file.as_ref())?.with_setup(setup));
        let recording = Some(Arc::clone(&recorder));
        let outcome = self.run_spec(|spec| spec, task, recording, &Cancel::new()).await;
        match recorder.fault() {
            None => Ok(outcome),
            Some(why) => {
                let path = file.as_ref().to_owned();
                let outcome = Box::new(outcome);
                Err(AgentError::Recording { path, why, outcome })
            }
        }
    }

    /// Replays a recording that [`Self::record`] made of an agent with the same settings. No model
    /// is asked and no tool runs; the observers see what happened.
    ///
    /// # Errors
    /// At the first place where the agent does something else than the recorded one, and when the
    /// recording cannot be read or an agent of these settings cannot be built.
    pub async fn replay(
        settings: AgentBuilder,
        file: impl AsRef<Path>,
    ) -> Result<Outcome, AgentReplayError> {
        Box::pin(replay::replay(settings, file.as_ref())).await
    }

    /// Runs a task whose answer is a value. An answer that misses the schema of the type is asked
    /// for again.
    ///
    /// # Errors
    /// When the agent gave no such value; the error says why.
    pub async fn answer<T: JsonSchema + DeserializeOwned>(
        &self,
        task: &str,
    ) -> Result<T, ValueError> {
        let outcome = self.run_spec(AgentSpec::answering_as::<T>, task, None, &Cancel::new()).await;
        outcome.value()
    }

    /// Goes on with a session: finishes what was begun, or takes a new message.
    ///
    /// # Errors
    /// When the session is not there, is in use, works in another directory, or has nothing to go on
    /// with.
    pub async fn resume(
        &self,
        session: &SessionId,
        message: Option<&str>,
    ) -> Result<Outcome, AgentError> {
        let running = self.running.begin(session, &self.assembly.tools.catalog);
        let config = self.session_config(&running.observer);
        let (session, _) = Session::open(&self.sessions.dir, session.clone(), config)?;
        let cwd = session.stored_spec()?.cwd;
        let own = &self.assembly.workspace.cwd;
        if cwd != *own {
            return Err(AgentError::Workspace { session: cwd, agent: own.clone() });
        }
        let next = Continue {
            message: message.map(str::to_owned),
            model: Some(self.models.name.clone()),
            approver: Some(self.handlers.mode),
            ..Continue::default()
        };
        let authority = self.assembly.authority(self.handlers.mode, cwd);
        Ok(session.resume(next, authority, &Cancel::new()).await?)
    }

    /// Returns the sessions of this agent that run now, as they stand, by ID: their agents as a tree,
    /// what each does, and what it has used. Call it at any time, for example once a second while
    /// [`Agent::run`] is polled.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SessionSnapshot> {
        self.running.snapshots()
    }

    /// Returns what was not read of the project's files, in words.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the directory of the session files.
    #[must_use]
    pub fn sessions(&self) -> &Path {
        &self.sessions.path
    }

    async fn run_spec(
        &self,
        change: impl FnOnce(AgentSpec) -> AgentSpec,
        task: &str,
        recorder: Option<Arc<SessionRecorder>>,
        cancel: &Cancel,
    ) -> Outcome {
        let id = new_session_id(self.assembly.clock.now_ms());
        let mode = self.handlers.mode;
        let spec = change(self.assembly.top_agent(&id, &self.models.name, task, mode));
        let authority = self.assembly.authority(mode, spec.cwd.clone());
        let authority = authority.intersect(&spec.grant);
        let running = self.running.begin(&id, &self.assembly.tools.catalog);
        let mut config = self.session_config(&running.observer);
        config.record.recorder = recorder;
        match Session::create(&self.sessions.dir, id, config) {
            Ok(session) => session.run(spec, authority, cancel).await,
            Err(error) => Outcome::without_run(&spec, Status::Error, describe_error(&error)),
        }
    }

    fn session_config(&self, snapshot: &SnapshotObserver) -> SessionConfig {
        let mut observers: Vec<Arc<dyn Observer>> = vec![Arc::new(snapshot.clone())];
        observers.extend(self.handlers.observers.iter().cloned());
        let settings = ResourceMap::default();
        #[cfg(feature = "tools")]
        {
            let commands = deputize_tools::CommandSettings {
                env: self.commands.env.clone(),
                ..deputize_tools::CommandSettings::default()
            };
            settings.get_or_insert_with(|| deputize_tools::Settings {
                commands,
                code: self.commands.tools.code.clone(),
                ..deputize_tools::Settings::default()
            });
            #[cfg(feature = "web")]
            settings.get_or_insert_with(|| deputize_tools::web::Settings {
                converter: crate::helper::converter(),
                secrets: self.models.secrets.clone(),
                ..self.commands.tools.web.clone()
            });
            self.commands.roots.remove_leftovers();
            settings.share(Arc::clone(&self.commands.roots));
            // All sessions share one owner of commands, which starts at the first command.
            settings.share(Arc::clone(&self.commands.processes));
        }
        #[cfg(feature = "session-search")]
        settings.get_or_insert_with(|| {
            deputize_session_index::SessionSearchSettings::new(self.sessions.dir.clone())
        });
        let models = self.models.models.clone();
        let secrets = self.models.secrets.clone();
        let mut config = SessionConfig {
            approver: Arc::clone(&self.handlers.approver),
            observers,
            ..self.assembly.session_config(models, secrets)
        };
        config.hooks.hooks.clone_from(&self.handlers.hooks);
        config.requests.rate_limiter = Some(Arc::clone(&self.rate_limiter));
        config.tools.settings = settings;
        let cx = ExtensionContext {
            cwd: &self.assembly.workspace.cwd,
            mode: self.handlers.mode,
            #[cfg(feature = "tools")]
            env: &self.commands.env,
            #[cfg(feature = "tools")]
            processes: &self.commands.processes,
        };
        for extension in &self.extensions {
            extension.change_session(&cx, &mut config);
        }
        config
    }
}

/// Where session files are.
struct Sessions {
    path: PathBuf,
    dir: SessionDir,
    /// Removes the directory when the agent is gone.
    _temporary: Option<tempfile::TempDir>,
}

impl Sessions {
    fn open(given: Option<&Path>) -> std::io::Result<Self> {
        match given {
            Some(path) => Ok(Self::at(std::path::absolute(path)?, None)),
            None => {
                let folder = tempfile::Builder::new().prefix("deputize-").tempdir()?;
                Ok(Self::at(folder.path().canonicalize()?, Some(folder)))
            }
        }
    }

    fn at(path: PathBuf, temporary: Option<tempfile::TempDir>) -> Self {
        Self { dir: SessionDir::new(&path), path, _temporary: temporary }
    }
}
