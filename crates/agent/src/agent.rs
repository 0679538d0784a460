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
use deputize_core::outcome::ValueError;
use deputize_core::rate_limit::RateLimiter;
use deputize_core::sanitize::Secrets;
use deputize_core::{
    Approver, Cancel, Observer, Outcome, ResourceMap, SessionId, Status, describe_error,
};
use deputize_runtime::{
    Continue, Models, ResumeError, Session, SessionConfig, SessionDir, SessionError,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::assembly::Assembly;
use crate::builder::AgentBuilder;
use crate::session_id::new_session_id;

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
}

/// An agent that is ready for tasks. Each task is a session of its own; tasks may run side by
/// side.
pub struct Agent {
    pub(crate) assembly: Assembly,
    pub(crate) models: Models,
    /// Its model, as records name it.
    pub(crate) model: String,
    pub(crate) secrets: Secrets,
    pub(crate) dir: SessionDir,
    pub(crate) sessions: Sessions,
    pub(crate) mode: ApproverMode,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) gate: Arc<dyn RateLimiter>,
    #[cfg(feature = "tools")]
    pub(crate) processes: Arc<deputize_tools::Processes>,
    #[cfg(feature = "tools")]
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) warnings: Vec<String>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({}, {:?})", self.model, self.assembly)
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
        self.run_spec(|spec| spec, task, cancel).await
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
        let outcome = self.run_spec(AgentSpec::answering_as::<T>, task, &Cancel::new()).await;
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
        let (session, _) = Session::open(&self.dir, session.clone(), self.parts())?;
        let cwd = session.stored_spec()?.cwd;
        let own = &self.assembly.workspace.cwd;
        if cwd != *own {
            return Err(AgentError::Workspace { session: cwd, agent: own.clone() });
        }
        let next = Continue {
            message: message.map(str::to_owned),
            model: Some(self.model.clone()),
            approver: Some(self.mode),
            max_iterations: None,
        };
        let authority = self.assembly.authority(self.mode, cwd);
        Ok(session.resume(next, authority, &Cancel::new()).await?)
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
        cancel: &Cancel,
    ) -> Outcome {
        let id = new_session_id(self.assembly.clock.now_ms());
        let spec = change(self.assembly.top_agent(&id, &self.model, task, self.mode));
        let authority = self.assembly.authority(self.mode, spec.cwd.clone());
        match Session::create(&self.dir, id, self.parts()) {
            Ok(session) => session.run(spec, authority, cancel).await,
            Err(error) => Outcome::without_run(&spec, Status::Error, describe_error(&error)),
        }
    }

    fn parts(&self) -> SessionConfig {
        let settings = ResourceMap::default();
        #[cfg(feature = "tools")]
        {
            let commands = deputize_tools::CommandSettings {
                env: self.env.clone(),
                ..deputize_tools::CommandSettings::default()
            };
            settings.get_or_insert_with(|| deputize_tools::Settings {
                commands,
                ..deputize_tools::Settings::default()
            });
            // All sessions share one owner of commands, which starts at the first command.
            settings.share(Arc::clone(&self.processes));
        }
        let mut config = SessionConfig {
            approver: Arc::clone(&self.approver),
            observers: self.observers.clone(),
            ..self.assembly.parts(self.models.clone(), self.secrets.clone())
        };
        config.hooks.hooks.clone_from(&self.hooks);
        config.requests.rate_limiter = Some(Arc::clone(&self.gate));
        config.tools.settings = settings;
        config
    }
}

/// Where session files are.
pub(crate) struct Sessions {
    pub(crate) path: PathBuf,
    /// Removes the directory when the agent is gone.
    _temporary: Option<tempfile::TempDir>,
}

impl Sessions {
    pub(crate) fn open(given: Option<&Path>) -> std::io::Result<Self> {
        match given {
            Some(path) => Ok(Self { path: std::path::absolute(path)?, _temporary: None }),
            None => {
                let folder = tempfile::Builder::new().prefix("deputize-").tempdir()?;
                Ok(Self { path: folder.path().canonicalize()?, _temporary: Some(folder) })
            }
        }
    }
}
