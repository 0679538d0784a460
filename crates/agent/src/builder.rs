//! Builds an agent from a few settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::budget::Budget;
use deputize_core::hook::Hook;
use deputize_core::policy::{ApprovalAnswer, NoPerson, Question};
use deputize_core::prompt::FillError;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::Secrets;
use deputize_core::{
    Approver, BoxFuture, Cancel, Catalog, Clock, Observer, Origin, Record, ToolCrate,
};
use deputize_delegate::{Policy as DelegationConfig, send_order};
use deputize_runtime::prompt::{BaseParts, Directory, Environment, ProjectFile};
use deputize_runtime::{
    Budgets, Heartbeat, Models, RateLimiters, SessionDir, SyncMode, SystemClock,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::agent::{Agent, Sessions};
use crate::assembly::{Assembly, AssemblyLimits, PromptConfig, ToolSelection, Workspace};
use crate::base_prompt::BasePrompt;
use crate::delegation::{DelegationError, add_delegation_tools};
use crate::model::{AgentModel, ModelSourceError};
use crate::policy::EffectPolicy;
use crate::project::{self, Project};
use crate::protected::protected_paths;
use crate::secrets::add_secrets;

/// Model requests of one task, unless set otherwise.
const MAX_ITERATIONS: u32 = 90;
/// Milliseconds that an agent has for a closing answer.
const WRAP_UP_MS: u64 = 20_000;

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was given.
    #[error("the agent has no model; call `model` with a name such as `openai/gpt-5`")]
    NoModel,
    /// Its model cannot be asked.
    #[error(transparent)]
    Model(#[from] ModelSourceError),
    /// No directory was given.
    #[error("the agent has no workspace; call `workspace` with the directory that it may change")]
    NoWorkspace,
    /// The directory is not there.
    #[error("the workspace `{path}` is no directory that can be opened")]
    Workspace {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no place for sessions.
    #[error("there is no directory for sessions")]
    Sessions(#[source] std::io::Error),
    /// Its tools do not fit together.
    #[error(transparent)]
    Tools(#[from] deputize_core::CatalogError),
    /// It cannot hand work on.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// A template of its prompt is broken.
    #[error("the prompt cannot be built")]
    Prompt(#[from] FillError),
}

/// The settings of an agent; see [`Agent::builder`].
#[must_use]
pub struct AgentBuilder {
    model: Option<AgentModel>,
    child_models: Vec<AgentModel>,
    crates: Vec<ToolCrate>,
    workspace: Option<PathBuf>,
    delegation: Option<DelegationConfig>,
    sessions: Option<PathBuf>,
    system_prompt: String,
    budget: Budget,
    max_iterations: u32,
    approver: Option<Arc<dyn Approver>>,
    observers: Vec<Arc<dyn Observer>>,
    hooks: Vec<Arc<dyn Hook>>,
    env: Option<BTreeMap<OsString, OsString>>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentBuilder({:?}, {:?})", self.model, self.workspace)
    }
}

impl AgentBuilder {
    pub(crate) fn new() -> Self {
        Self {
            model: None,
            child_models: Vec::new(),
            crates: Vec::new(),
            workspace: None,
            delegation: None,
            sessions: None,
            system_prompt: String::new(),
            budget: Budget::default(),
            max_iterations: MAX_ITERATIONS,
            approver: None,
            observers: Vec::new(),
            hooks: Vec::new(),
            env: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets the model: a name such as `openai/gpt-5`, whose key is read from the environment, or
    /// an [`AgentModel`].
    pub fn model(mut self, model: impl Into<AgentModel>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Adds a model that the settings of delegation name. Models of known providers need no such
    /// call.
    pub fn child_model(mut self, model: impl Into<AgentModel>) -> Self {
        self.child_models.push(model.into());
        self
    }

    /// Adds the tools of a crate. Without any the agent has no tools.
    pub fn tools(mut self, link: ToolCrate) -> Self {
        self.crates.push(link);
        self
    }

    /// Sets the directory that the agent works in. It reads and writes below it and nowhere else.
    pub fn workspace(mut self, cwd: impl AsRef<Path>) -> Self {
        self.workspace = Some(cwd.as_ref().to_owned());
        self
    }

    /// Lets the agent hand work on. Without this call it has no children. The base
    /// prompt of children, and what needs an approval, follow from the other settings.
    pub fn delegation(mut self, config: DelegationConfig) -> Self {
        self.delegation = Some(config);
        self
    }

    /// Keeps sessions in a directory, so that they can go on. Without this call they are in a
    /// temporary directory that is removed with the agent.
    pub fn sessions(mut self, dir: impl AsRef<Path>) -> Self {
        self.sessions = Some(dir.as_ref().to_owned());
        self
    }

    /// Adds a text to the system prompt of the agent and its children.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Limits the tokens and dollars of each session, children included.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Limits the model requests of each task; 90 unless set.
    pub fn max_iterations(mut self, count: u32) -> Self {
        self.max_iterations = count;
        self
    }

    /// Answers the agent's questions, such as whether a command may run, by a function. Without
    /// this call every answer is no.
    pub fn approve(
        self,
        answer: impl Fn(&Question) -> ApprovalAnswer + Send + Sync + 'static,
    ) -> Self {
        self.approver(ApproveFn(answer))
    }

    /// Answers the agent's questions by a value that may ask a person.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Calls a function with each record of each session, children's included.
    pub fn on_record(self, see: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.observer(RecordFn(see))
    }

    /// Adds an observer, which also sees text while it arrives.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Adds a hook, which may stop calls.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Sets the environment in place of this process's: keys come from it, commands get the
    /// harmless part of it, and secrets in it are taken out of all that leaves the program.
    pub fn env(mut self, env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.env = Some(env.into_iter().collect());
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the agent. Nothing is sent yet.
    ///
    /// # Errors
    /// When the model or the workspace is missing or cannot be used, or tools do not fit together.
    pub fn build(self) -> Result<Agent, BuildError> {
        let cwd = workspace(self.workspace.as_deref())?;
        let env = self.env.clone().unwrap_or_else(|| std::env::vars_os().collect());
        let texts: BTreeMap<String, String> = env
            .iter()
            .filter_map(|(name, value)| {
                Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
            })
            .collect();
        let mut secrets = Secrets::default();
        add_secrets(
            &mut secrets,
            texts.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let (model, models) = self.connect_models(&texts, &mut secrets)?;
        let sessions = Sessions::open(self.sessions.as_deref()).map_err(BuildError::Sessions)?;
        let workspace = Workspace {
            protected: protected_paths(&texts, &cwd, [sessions.path.clone()], []),
            home: texts.get("HOME").map(PathBuf::from),
            cwd,
        };
        let project = project::read(&workspace.cwd);
        let assembly = self.assemble(workspace, &project)?;
        Ok(Agent {
            assembly,
            models,
            model,
            secrets,
            dir: SessionDir::new(&sessions.path),
            sessions,
            mode: if self.approver.is_some() { ApproverMode::Ask } else { ApproverMode::Deny },
            approver: self.approver.unwrap_or_else(|| Arc::new(NoPerson)),
            observers: self.observers,
            hooks: self.hooks,
            gate: Arc::new(RateLimiters::new(RetryPolicy::default(), fastrand::u64(..))),
            #[cfg(feature = "tools")]
            processes: Arc::new(crate::helper::processes()),
            #[cfg(feature = "tools")]
            env,
            warnings: project.warnings,
        })
    }

    /// Makes the agent's model and those that its settings of delegation name; the first with its
    /// name.
    fn connect_models(
        &self,
        env: &BTreeMap<String, String>,
        secrets: &mut Secrets,
    ) -> Result<(String, Models), BuildError> {
        let mut models = Models::default();
        let mut connect = |source: &AgentModel| -> Result<String, BuildError> {
            let model = source.connect(env, &self.clock, secrets)?;
            models.insert(&model.name, &model.at_provider, model.model);
            if let Some(price) = source.price().or(model.price) {
                models.price(&model.name, price);
            }
            Ok(model.name)
        };
        let own = connect(self.model.as_ref().ok_or(BuildError::NoModel)?)?;
        let mut names = vec![own.clone()];
        for model in &self.child_models {
            names.push(connect(model)?);
        }
        let settings = self.delegation.iter();
        for name in settings.flat_map(|config| config.model.iter().chain(&config.models)) {
            if !names.contains(name) {
                names.push(connect(&AgentModel::named(name)?)?);
            }
        }
        Ok((own, models))
    }

    fn assemble(&self, workspace: Workspace, project: &Project) -> Result<Assembly, BuildError> {
        let date = date(&*self.clock);
        let own_crate = |origin: &Origin| {
            let named = |krate: &str| self.crates.iter().any(|link| link.name == krate);
            matches!(origin, Origin::Linked { krate } if named(krate))
        };
        let linked = if self.crates.is_empty() {
            Catalog::default()
        } else {
            Catalog::linked(&self.crates)?
        };
        let mut catalog = linked.filtered(|entry| own_crate(&entry.origin));
        let delegation = self.delegation_config(&date)?;
        if self.delegation.is_some() {
            add_delegation_tools(&mut catalog, &delegation, &self.clock)?;
        }
        let names = send_order(catalog.iter(), &delegation);
        let tool = delegation.tool();
        let directory = Directory { path: &workspace.cwd, git: project.root.is_some() };
        let environment = Environment { os: std::env::consts::OS, directory: Some(directory) };
        let files = project.files.iter();
        let parts = BaseParts {
            system_text: Some(&self.system_prompt),
            delegation_tool: names.contains(&tool).then_some(tool),
            project: files.map(|(path, text)| ProjectFile { path, text }).collect(),
            ..BaseParts::new(&date, environment)
        };
        let base = BasePrompt::build(&parts, delegation.tool_schemas)?;
        let toolsets = catalog.toolsets().into_iter().collect();
        let agent =
            AgentLimits { max_iterations: self.max_iterations, time_ms: 0, wrap_up_ms: WRAP_UP_MS };
        Ok(Assembly {
            tools: ToolSelection { catalog: Arc::new(catalog), toolsets, names, source: None },
            delegation,
            prompt: PromptConfig { base, ..PromptConfig::default() },
            workspace,
            limits: AssemblyLimits {
                agent,
                budgets: Budgets { session: self.budget, children: Budget::default() },
                children_time: None,
                pulse: Heartbeat::default(),
            },
            sync: SyncMode::default(),
            clock: Arc::clone(&self.clock),
            memory: None,
            program: concat!("deputize-agent ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// The settings of delegation, with what follows from the other settings.
    fn delegation_config(&self, date: &str) -> Result<DelegationConfig, BuildError> {
        let config = self.delegation.clone().unwrap_or_default();
        let environment = Environment { os: std::env::consts::OS, directory: None };
        let parts = BaseParts {
            system_text: Some(&self.system_prompt),
            ..BaseParts::new(date, environment)
        };
        let base = BasePrompt::build(&parts, config.tool_schemas)?;
        Ok(DelegationConfig {
            approval_effects: EffectPolicy::approval_effects(),
            person_available: self.approver.is_some(),
            child_base: base.for_children(config.tool_schemas),
            ..config
        })
    }
}

fn workspace(given: Option<&Path>) -> Result<PathBuf, BuildError> {
    let given = given.ok_or(BuildError::NoWorkspace)?;
    let failed = |source| BuildError::Workspace { path: given.to_owned(), source };
    let path = given.canonicalize().map_err(failed)?;
    if !path.is_dir() {
        return Err(failed(std::io::ErrorKind::NotADirectory.into()));
    }
    Ok(path)
}

/// The date where the program runs.
fn date(clock: &dyn Clock) -> String {
    let now = i64::try_from(clock.now_ms()).ok();
    let now = now.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system());
    now.strftime("%Y-%m-%d").to_string()
}

/// Answers questions by a function.
struct ApproveFn<F>(F);

impl<F: Fn(&Question) -> ApprovalAnswer + Send + Sync> Approver for ApproveFn<F> {
    fn ask<'a>(&'a self, question: &'a Question, _: &'a Cancel) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move { (self.0)(question) })
    }
}

/// Calls a function with each record.
struct RecordFn<F>(F);

impl<F: Fn(&Record) + Send + Sync> Observer for RecordFn<F> {
    fn on_record(&self, record: &Record) {
        (self.0)(record);
    }
}
