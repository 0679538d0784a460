//! Builds an agent from a few settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::ApproverMode;
use deputize_core::budget::Budget;
use deputize_core::hook::Hook;
use deputize_core::memory::Memory;
use deputize_core::policy::{ApprovalAnswer, NoPerson, Question};
use deputize_core::profile::Profile;
use deputize_core::retry::RetryPolicy;
use deputize_core::sanitize::Secrets;
use deputize_core::{Approver, Clock, Observer, Record, ResourceMap, ToolCrate};
use deputize_delegate::DelegationConfig;
use deputize_documents::ProfileLibrary;
use deputize_runtime::{CompactionConfig, Heartbeat, RateLimiters};
use jiff::tz::TimeZone;

#[cfg(feature = "tools")]
use super::Commands;
use super::assembly_settings::{AgentSetup, AssemblySettings};
use super::build_error::BuildError;
use super::handler_settings::{ApproveFn, HandlerSettings, RecordFn};
use super::model_settings::{ModelContext, ModelSettings};
use super::{Agent, AgentModels, Handlers, Sessions};
use crate::assembly::{Assembly, Workspace};
use crate::extension::ExtensionContext;
use crate::model::AgentModel;
use crate::prompt_sources::local_date;
use crate::protected::protected_paths;
use crate::running::RunningSessions;
use crate::secrets::add_secrets;

/// The settings of an agent; see [`Agent::builder`].
#[must_use]
pub struct AgentBuilder {
    pub(super) models: ModelSettings,
    assembly: AssemblySettings,
    workspace: Option<PathBuf>,
    profiles: Option<ProfileLibrary>,
    sessions: Option<PathBuf>,
    pub(super) handlers: HandlerSettings,
    env: Option<BTreeMap<OsString, OsString>>,
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentBuilder({:?}, {:?})", self.models.own, self.workspace)
    }
}

impl AgentBuilder {
    pub(crate) fn new() -> Self {
        Self {
            models: ModelSettings::default(),
            assembly: AssemblySettings::default(),
            workspace: None,
            profiles: None,
            sessions: None,
            handlers: HandlerSettings::default(),
            env: None,
        }
    }

    /// Sets the model: a name such as `openai/gpt-5`, whose key is read from the environment, or
    /// an [`AgentModel`].
    pub fn model(mut self, model: impl Into<AgentModel>) -> Self {
        self.models.own = Some(model.into());
        self
    }

    /// Adds a model that the settings of delegation name. Models of known providers need no such
    /// call.
    pub fn child_model(mut self, model: impl Into<AgentModel>) -> Self {
        self.models.children.push(model.into());
        self
    }

    /// Adds a model with which agents go on, in this order, when their own cannot be used. It is no
    /// substitute for a model that cannot be connected when the agent is built.
    pub fn fallback_model(mut self, model: impl Into<AgentModel>) -> Self {
        self.models.fallback.push(model.into());
        self
    }

    /// Adds the tools of a crate. Without any the agent has no tools.
    pub fn tools(mut self, link: ToolCrate) -> Self {
        self.assembly.crates.push(link);
        self
    }

    /// Lets the agent search its past sessions, which [`AgentBuilder::sessions`] keeps. Its children
    /// cannot.
    #[cfg(feature = "session-search")]
    pub fn session_search(self) -> Self {
        self.tools(deputize_session_index::LINK)
    }

    /// Lets the agent and its children use pages in a browser, which is a Chromium of this machine. A
    /// click and a typed text need a yes. Addresses are judged as those that `web_fetch` gets.
    #[cfg(feature = "browser")]
    pub fn browser(mut self, settings: deputize_browser::BrowserSettings) -> Self {
        self.assembly.extensions.push(Box::new(crate::browser::AgentBrowsers(settings)));
        self.tools(deputize_browser::LINK)
    }

    /// Adds the tools of a dynamic plugin. One that runs in a process of its own needs
    /// [`run_as_helper`](crate::run_as_helper) in `main`. Plugins that were not described before
    /// are loaded when the agent is built.
    #[cfg(feature = "plugins")]
    pub fn plugin(mut self, plugin: crate::PluginConfig) -> Self {
        self.assembly.extensions.push(Box::new(plugin));
        self
    }

    /// Adds the tools of MCP servers. When the agent is built, each is started once and asked what
    /// it has, which counts as approved; what it changes later is not offered. Each call of its
    /// tools needs a yes.
    #[cfg(feature = "mcp")]
    pub fn mcp_servers(
        mut self,
        servers: impl IntoIterator<Item = deputize_mcp::ServerConfig>,
    ) -> Self {
        self.assembly.extensions.push(Box::new(crate::mcp::AgentServers::new(servers)));
        self
    }

    /// Makes children runs of another program that speaks ACP. Delegation has to be on, and the
    /// agent needs the tools of `deputize-tools` and someone who approves.
    #[cfg(feature = "acp")]
    pub fn external_agent(mut self, program: deputize_acp::AcpProgram) -> Self {
        self.assembly.extensions.push(Box::new(program));
        self
    }

    /// Adds a shell command that runs at a point of what agents do, and may stop it.
    #[cfg(feature = "tools")]
    pub fn shell_hook(mut self, point: deputize_core::hook::HookPoint, command: &str) -> Self {
        let command = command.to_owned();
        self.assembly.extensions.push(Box::new(crate::HookCommand { point, command }));
        self
    }

    /// Lets the agent send messages to these targets, by the names that its model reads. Each message
    /// needs a yes. Webhooks need the feature `web`.
    #[cfg(feature = "tools")]
    pub fn message_targets<N: Into<String>>(
        mut self,
        targets: impl IntoIterator<Item = (N, deputize_tools::MessageTarget)>,
    ) -> Self {
        let targets = targets.into_iter().map(|(name, target)| (name.into(), target)).collect();
        self.assembly.extensions.push(Box::new(crate::messages::MessageTargets(targets)));
        self
    }

    /// Adds the tools that read and search the web, with their settings: the search engine, the hosts
    /// that may have private addresses, the limits. The keys of the agent are secrets of theirs too.
    ///
    /// ```
    /// use deputize_agent::Agent;
    /// use deputize_tools::web::{FetchSettings, Settings, http::AddressPolicy};
    ///
    /// let policy = AddressPolicy::new(vec!["wiki.internal".parse()?]);
    /// let fetch = FetchSettings { policy, ..FetchSettings::default() };
    /// let builder = Agent::builder().web(Settings { fetch, ..Settings::default() });
    /// # Ok::<(), deputize_tools::web::http::AllowedHostError>(())
    /// ```
    #[cfg(feature = "web")]
    pub fn web(mut self, settings: deputize_tools::web::Settings) -> Self {
        self.assembly.tools.web = settings;
        self.tools(deputize_tools::web::LINK)
    }

    /// Keeps facts across sessions in a folder: the agent's prompt has those that are there when it
    /// is built, and the tool `memory` of the built-in tools changes them. Children have neither.
    ///
    /// ```
    /// let builder = deputize_agent::Agent::builder().memory_files("memory");
    /// ```
    #[cfg(feature = "tools")]
    pub fn memory_files(mut self, folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref().to_owned();
        self.assembly.extensions.push(Box::new(crate::memory_files::AgentMemory(folder)));
        self
    }

    /// Keeps facts across sessions in a memory of the program's own. The agent's prompt has what it
    /// says when the agent is built, and it hears of each end of a child. [`Memory`] shows one.
    ///
    /// ```
    /// # fn build(notes: impl deputize_core::memory::Memory + 'static) {
    /// let builder = deputize_agent::Agent::builder().memory(notes);
    /// # }
    /// ```
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.assembly.memory = Some(Arc::new(memory));
        self
    }

    /// Lets the agent make jobs that run later. Each needs a yes of a person, so it makes none without
    /// [`Self::approve`] or [`Self::approver`]. [`Scheduler`](deputize_cron::Scheduler) runs them.
    #[cfg(feature = "cron")]
    pub fn jobs(mut self, store: deputize_cron::JobStore) -> Self {
        self.assembly.extensions.push(Box::new(crate::jobs::AgentJobs(store)));
        self
    }

    /// Sets the directory that the agent works in. It reads and writes below it and nowhere else.
    pub fn workspace(mut self, cwd: impl AsRef<Path>) -> Self {
        self.workspace = Some(cwd.as_ref().to_owned());
        self
    }

    /// Lets the agent delegate. Without this call it has no children. The base
    /// prompt of children, and what needs an approval, follow from the other settings.
    pub fn delegation(mut self, config: DelegationConfig) -> Self {
        self.assembly.delegation = Some(config);
        self
    }

    /// Offers profiles to calls that delegate. They are read when the agent is built. A profile's
    /// model is used only if [`ChildModels::choices`](deputize_delegate::ChildModels) has it.
    ///
    /// ```
    /// use deputize_agent::{Agent, ProfileLibrary};
    /// let builder = Agent::builder().profiles(ProfileLibrary::default().with_user("agents"));
    /// ```
    pub fn profiles(mut self, library: ProfileLibrary) -> Self {
        self.profiles = Some(library);
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
        self.assembly.system_prompt = text.into();
        self
    }

    /// Sets whether the system prompt has the project's instructions: `AGENTS.md`, `CLAUDE.md` and
    /// `.cursorrules`, as they are when the agent is built. Without this call no such file is read:
    /// whoever wrote it would speak to the agent.
    ///
    /// ```
    /// use deputize_agent::Agent;
    /// let builder = Agent::builder().project_files(true);
    /// ```
    pub const fn project_files(mut self, read: bool) -> Self {
        self.assembly.project_files = read;
        self
    }

    /// Limits the tokens and dollars of each session, children included.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.assembly.limits.budget = budget;
        self
    }

    /// Limits the model requests of each task; [`AgentLimits::MAX_ITERATIONS`](deputize_core::agent::AgentLimits::MAX_ITERATIONS) unless
    /// set.
    pub fn max_iterations(mut self, count: u32) -> Self {
        self.assembly.limits.max_iterations = count;
        self
    }

    /// Limits the time of all children of a session together, while at least one runs.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = deputize_agent::Agent::builder().children_time(Duration::from_mins(10));
    /// ```
    pub const fn children_time(mut self, limit: Duration) -> Self {
        self.assembly.limits.children_time = Some(limit);
        self
    }

    /// Sets how often children report that they are alive, and when they count as stalled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use deputize_agent::{Agent, Heartbeat};
    ///
    /// let heartbeat = Heartbeat { every: Duration::from_secs(5), ..Heartbeat::default() };
    /// let builder = Agent::builder().heartbeat(heartbeat);
    /// ```
    pub const fn heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.assembly.limits.heartbeat = heartbeat;
        self
    }

    /// Sets when older messages of a conversation give way to a summary, and which model writes it.
    ///
    /// ```
    /// use deputize_agent::{Agent, CompactionConfig};
    ///
    /// let compaction = CompactionConfig { at: 0.5, ..CompactionConfig::default() };
    /// let builder = Agent::builder().compaction(compaction);
    /// ```
    pub fn compaction(mut self, compaction: CompactionConfig) -> Self {
        self.assembly.limits.compaction = compaction;
        self
    }

    /// Limits the scripts of the tool `execute_code`, which comes with the built-in tools. Each
    /// script needs a yes, as a command does.
    ///
    /// ```
    /// use deputize_agent::{Agent, CodeLimits};
    /// let builder = Agent::builder().code_limits(CodeLimits { seconds: 60, ..CodeLimits::default() });
    /// ```
    #[cfg(feature = "tools")]
    pub fn code_limits(mut self, limits: deputize_tools::CodeLimits) -> Self {
        self.assembly.tools.code = limits;
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
        self.handlers.approver = Some(Arc::new(approver));
        self
    }

    /// Calls a function with each record of each session, children's included.
    pub fn on_record(self, see: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.observer(RecordFn(see))
    }

    /// Adds an observer, which also sees text while it arrives.
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.handlers.observers.push(Arc::new(observer));
        self
    }

    /// Adds a hook, which may stop calls.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.handlers.hooks.push(Arc::new(hook));
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
        self.assembly.clock = Arc::new(clock);
        self
    }

    /// Builds the agent. Nothing is sent to a model yet; MCP servers and plugins are asked what they
    /// have. The call blocks its thread meanwhile, for a server at most as long as its start may
    /// take (30 seconds unless set). In an asynchronous program with servers, call it by
    /// `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// When the model or the workspace is missing or cannot be used, or tools do not fit together.
    pub fn build(mut self) -> Result<Agent, BuildError> {
        let cwd = workspace(self.workspace.as_deref())?;
        let env = self.environment();
        let texts = texts(&env);
        let mut secrets = Secrets::default();
        let variables = texts.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        add_secrets(&mut secrets, variables);
        let in_dollars = self.assembly.limits.budget.usd.is_some();
        let model_cx = ModelContext { env: &texts, clock: &self.assembly.clock, in_dollars };
        let (name, models) =
            self.models.connect(&model_cx, self.assembly.model_names(), &mut secrets)?;
        let sessions = Sessions::open(self.sessions.as_deref()).map_err(BuildError::Sessions)?;
        let workspace = Workspace {
            protected: protected_paths(&texts, &cwd, [sessions.path.clone()], []),
            home: texts.get("HOME").map(PathBuf::from),
            cwd,
        };
        #[cfg(feature = "tools")]
        let commands = Commands::new(&workspace.cwd, env, self.assembly.tools.clone());
        let cx = ExtensionContext {
            cwd: &workspace.cwd.clone(),
            mode: self.handlers.mode(),
            #[cfg(feature = "tools")]
            env: &commands.env,
            #[cfg(feature = "tools")]
            processes: &commands.processes,
        };
        let mut warnings = Vec::new();
        let date = local_date(&*self.assembly.clock, TimeZone::system());
        self.assembly.extensions.sort_by_key(|extension| extension.comes_last());
        let described = self.assembly.extensions.iter().map(|extension| extension.describe(&cx));
        let (profiles, faulty_profiles) = self.read_profiles(&mut warnings);
        let setup = AgentSetup {
            prompt: self.assembly.prompt_sources(&workspace.cwd, date, &mut warnings)?,
            profiles,
            faulty_profiles,
            extensions: described.collect::<Result<_, _>>().map_err(BuildError::Extension)?,
        };
        let assembly = self.assembly.assemble(workspace, &setup, &cx)?;
        Ok(Agent {
            models: AgentModels { name, models, secrets },
            sessions,
            handlers: Handlers {
                mode: self.handlers.mode(),
                approver: self.handlers.approver.unwrap_or_else(|| Arc::new(NoPerson)),
                observers: self.handlers.observers,
                hooks: self.handlers.hooks,
            },
            extensions: self.assembly.extensions,
            rate_limiter: Arc::new(RateLimiters::new(RetryPolicy::default(), fastrand::u64(..))),
            #[cfg(feature = "tools")]
            commands,
            assembly,
            setup,
            warnings,
            running: RunningSessions::default(),
        })
    }

    fn read_profiles(
        &self,
        warnings: &mut Vec<String>,
    ) -> (Vec<Profile>, BTreeMap<String, String>) {
        let listing = self.profiles.iter().map(ProfileLibrary::list).next().unwrap_or_default();
        warnings.extend(listing.faults.iter().map(ToString::to_string));
        listing.into_profiles()
    }

    /// Builds the assembly of a recorded agent, whose setup and clock are given.
    pub(super) fn assemble_again(
        &mut self,
        setup: &AgentSetup,
        clock: Arc<dyn Clock>,
    ) -> Result<Assembly, BuildError> {
        self.assembly.clock = clock;
        self.assembly.extensions.sort_by_key(|extension| extension.comes_last());
        let workspace = Workspace { cwd: setup.prompt.cwd.clone(), ..Workspace::default() };
        let cx = ExtensionContext {
            cwd: &workspace.cwd.clone(),
            mode: self.handlers.mode(),
            #[cfg(feature = "tools")]
            env: &self.environment(),
            #[cfg(feature = "tools")]
            processes: &Arc::default(),
        };
        self.assembly.assemble(workspace, setup, &cx)
    }

    /// Adds what makes the tools of extensions usable in a replay.
    pub(super) fn add_replay_settings(&self, settings: &ResourceMap, mode: ApproverMode) {
        #[cfg(feature = "web")]
        settings.get_or_insert_with(|| self.assembly.tools.web.clone());
        for extension in &self.assembly.extensions {
            extension.add_replay_settings(settings, mode);
        }
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.env.clone().unwrap_or_else(|| std::env::vars_os().collect())
    }
}

/// The variables whose names and values are text.
fn texts(env: &BTreeMap<OsString, OsString>) -> BTreeMap<String, String> {
    let text = |(name, value): (&OsString, &OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    env.iter().filter_map(text).collect()
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
