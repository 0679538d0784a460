//! The tools for other agents over MCP: a whole run, and children for their tasks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_agent::new_session_id;
use deputize_core::authority::ApproverMode;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{
    Availability, BoxFuture, Cancel, Clock as _, Observer, Outcome, Resource as _, SessionId,
    Status, ToolsetName,
};
use deputize_mcp::serve::{AgentService, InvalidCall, ProgressSink, ServedAnswer, ServedTool};
use deputize_runtime::{Session, SessionSnapshot, SnapshotObserver, SystemClock, describe_tasks};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::progress::ProgressNotes;
use super::relay_model::{RelayCall, RelayModel, any_completed, delegation_json};
use crate::args::McpServe;
use crate::command::run::overrides;
use crate::command::serve::{SessionStartup, SharedAssembly, StartupNotes, unasked, while_active};
use crate::compose::{AssembledProgram, LinkedTools, mcp, missing_feature, toolsets_within};
use crate::config::{Config, load};
use crate::exit::CliError;
use crate::inactivity::Inactivity;
use crate::output::json::run_object;
use crate::output::to_json_line;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// State that all calls of other agents share.
pub(crate) struct ServiceState {
    pub(crate) shared: SharedAssembly,
    /// The directory that calls work in or below.
    pub(crate) root: PathBuf,
    /// The services of the last readable configuration.
    last: Mutex<Services>,
}

/// Services that a configuration allows.
#[derive(Clone)]
struct Services {
    /// The toolsets that a call may name, those of servers among them.
    toolsets: Vec<String>,
    /// The arguments of `delegate`, which are those of the tool that delegates; `None` where there
    /// is no such tool.
    delegate: Option<Map<String, Value>>,
}

impl Services {
    fn of(config: &Config, composition: &AssembledProgram) -> Self {
        let tool = composition.assembly.delegation.tool();
        let entry = composition.assembly.tools.catalog.get(tool.as_str());
        let entry = entry.filter(|_| composition.assembly.tools.names.contains(&tool));
        let delegate = entry.and_then(|entry| {
            let declared = composition.assembly.declare(entry, composition.tool_settings());
            declared.parameters.to_value().as_object().cloned()
        });
        // Of a server that has not answered yet more may be known at a later call.
        let tools = &composition.assembly.tools;
        let settings = composition.tool_settings();
        let is_usable = |set: &&ToolsetName| {
            let mut entries =
                tools.catalog.iter().filter(|entry| tools.catalog.includes(set, entry));
            entries.any(|entry| entry.tool.availability(&settings) == Availability::Yes)
        };
        let sets = tools.toolsets.iter().filter(is_usable).map(ToString::to_string);
        let toolsets: BTreeSet<String> = match config.toolsets.as_slice() {
            [] => sets.chain(mcp::toolsets(config)).collect(),
            named => named.iter().cloned().collect(),
        };
        Self { toolsets: toolsets.into_iter().collect(), delegate }
    }
}

/// The work that other agents ask this program for.
pub(crate) struct ProgramService(pub(crate) Arc<ServiceState>);

const RUN: &str = "run";
const DELEGATE: &str = "delegate";
/// Limit on a tool's name in an error, in characters.
const NAME_CHARS: usize = 80;
/// Title of a session whose call names no task.
const NO_TASK: &str = "(no task was named)";

const RUN_ABOUT: &str = "Give a task to an agent of this program and wait for its answer. The agent \
    has tools of its own (files, search, and commands where they are allowed) and may delegate \
    parts of the work to other agents. It knows only what the prompt says. The result has the \
    answer, and as data the session, status, tokens and actions.";
const DELEGATE_ABOUT: &str = "Delegate one task, or several at once, to agents of this program and \
    wait for their reports: one entry per task, with its status, answer and actions. Unlike `run`, \
    no agent stands between you and them.";

impl AgentService for ProgramService {
    /// Returns the tools that the next call would find, with the configuration read again. An
    /// unreadable one changes nothing here; the next call reports the error.
    fn offers(&self) -> BoxFuture<'_, Vec<ServedTool>> {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let read = spawn_blocking(move || state.services()).await;
            read.map(|services| self.0.offered_tools(services)).unwrap_or_default()
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        mut arguments: Map<String, Value>,
        notes: ProgressSink,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<ServedAnswer, InvalidCall>> {
        Box::pin(async move {
            let (cwd, job) = match tool {
                RUN => ServeJob::run(arguments)?,
                DELEGATE => (arguments.remove("cwd"), ServeJob::Delegate(Value::Object(arguments))),
                _ => return Err(self.not_offered(tool).await),
            };
            let cwd = self.0.place(cwd)?;
            let state = Arc::clone(&self.0);
            let prepared = spawn_blocking(move || PreparedSession::new(state, cwd, job)).await;
            let prepared = match prepared {
                Ok(Ok(prepared)) if prepared.is_offered() => prepared,
                Ok(Ok(_)) => return Err(self.not_offered(tool).await),
                Ok(Err(error)) => return Ok(refusal_answer(&error)),
                Err(_) => {
                    return Ok(failure_answer("it ended by a fault of the program".to_owned()));
                }
            };
            Ok(match Box::pin(prepared.work(notes, &cancel)).await {
                Ok(answer) => answer,
                Err(error) => refusal_answer(&error),
            })
        })
    }
}

impl ProgramService {
    /// Why a tool cannot be called, with those that can.
    async fn not_offered(&self, tool: &str) -> InvalidCall {
        let offers = self.offers().await;
        let names: Vec<&str> = offers.iter().map(|offered| offered.name).collect();
        let tool = for_terminal_line(tool, NAME_CHARS);
        InvalidCall(format!("there is no tool \"{tool}\"; known: {}", names.join(", ")))
    }
}

fn failure_answer(text: String) -> ServedAnswer {
    ServedAnswer { text, data: None, failed: true }
}

fn refusal_answer(error: &CliError) -> ServedAnswer {
    failure_answer(error.to_string())
}

/// Returns the services of a session that works there.
fn services_at(
    shared: &SharedAssembly,
    cwd: &Path,
) -> Result<(AssembledProgram, Services), CliError> {
    let sources = shared.sources(cwd)?;
    let loaded = load(&sources).map_err(CliError::usage)?;
    let composition = shared.compose(&sources, &loaded.config)?;
    let services = Services::of(&loaded.config, &composition);
    Ok((composition, services))
}

impl ServiceState {
    /// Seen here, and not at the first call, is that a run can begin at all.
    pub(crate) fn new(
        links: &LinkedTools,
        env: ProcessEnv,
        args: &McpServe,
    ) -> Result<Self, CliError> {
        let shared = SharedAssembly::new(links, env, args.options())?;
        let root = shared.env.cwd(args.options().settings.cwd.as_deref())?;
        // Its warnings are told once, here.
        shared.load(&root)?;
        let (composition, services) = services_at(&shared, &root)?;
        composition.models(&overrides(&args.options().model), &shared.env)?;
        Ok(Self { shared, root, last: Mutex::new(services) })
    }

    /// Returns the services of the present configuration, or of the last readable one.
    fn services(&self) -> Services {
        let now = services_at(&self.shared, &self.root);
        let mut last = self.last.lock();
        if let Ok((_, services)) = now {
            *last = services;
        }
        last.clone()
    }

    fn offered_tools(&self, Services { toolsets, delegate }: Services) -> Vec<ServedTool> {
        let cwd = json!({
            "type": "string",
            "description": format!(
                "Working directory: absolute, {} or one below it [default: the former].",
                self.root.display()
            ),
        });
        let run = json!({
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The task, with everything the agent must know."},
                "cwd": cwd.clone(),
                "toolsets": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": format!(
                        "Give the agent only these toolsets [default: all of them]: {}.",
                        toolsets.join(", ")
                    ),
                },
                "max_iterations": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Limit on its model requests.",
                },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        });
        let run = ServedTool {
            name: RUN,
            description: RUN_ABOUT.to_owned(),
            parameters: run.as_object().cloned().unwrap_or_default(),
        };
        let delegate = delegate.map(|mut parameters| {
            if let Some(Value::Object(properties)) = parameters.get_mut("properties") {
                properties.insert("cwd".to_owned(), cwd);
            }
            ServedTool { name: DELEGATE, description: DELEGATE_ABOUT.to_owned(), parameters }
        });
        std::iter::once(run).chain(delegate).collect()
    }

    /// Where a call works: in the directory of this program, or below it.
    fn place(&self, given: Option<Value>) -> Result<PathBuf, InvalidCall> {
        let path = match given {
            None | Some(Value::Null) => return Ok(self.root.clone()),
            Some(Value::String(path)) => path,
            Some(_) => return Err(InvalidCall("`cwd` must be a string".to_owned())),
        };
        let found = self.shared.env.cwd(Some(Path::new(&path)));
        let found = found.map_err(|error| InvalidCall(format!("`cwd`: {}", error.chain())))?;
        if !found.starts_with(&self.root) {
            let root = self.root.display();
            return Err(InvalidCall(format!("`cwd` must be {root} or a directory below it")));
        }
        Ok(found)
    }
}

/// The requested job.
enum ServeJob {
    Run {
        prompt: String,
        toolsets: Vec<String>,
        max_iterations: Option<u32>,
    },
    /// With the arguments of the tool that delegates.
    Delegate(Value),
}

impl ServeJob {
    /// A run, and where it is to work.
    fn run(arguments: Map<String, Value>) -> Result<(Option<Value>, Self), InvalidCall> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct RunArguments {
            prompt: String,
            toolsets: Option<Vec<String>>,
            max_iterations: Option<u32>,
            cwd: Option<Value>,
        }
        let run: RunArguments = serde_json::from_value(Value::Object(arguments))
            .map_err(|error| InvalidCall(format!("the arguments of run: {error}")))?;
        if run.prompt.trim().is_empty() {
            return Err(InvalidCall("`prompt` is empty: say what to do".to_owned()));
        }
        if run.toolsets.as_deref().is_some_and(<[String]>::is_empty) {
            let text = "`toolsets` is empty: name those that the agent needs, or leave it out";
            return Err(InvalidCall(text.to_owned()));
        }
        if run.max_iterations == Some(0) {
            return Err(InvalidCall("`max_iterations` must be at least 1".to_owned()));
        }
        let RunArguments { prompt, toolsets, max_iterations, cwd } = run;
        let toolsets = toolsets.unwrap_or_default();
        Ok((cwd, Self::Run { prompt, toolsets, max_iterations }))
    }
}

/// A session that is about to begin.
struct PreparedSession {
    state: Arc<ServiceState>,
    begun: SessionStartup,
    mode: ApproverMode,
    cwd: PathBuf,
    id: SessionId,
    job: ServeJob,
}

impl PreparedSession {
    fn new(state: Arc<ServiceState>, cwd: PathBuf, job: ServeJob) -> Result<Self, CliError> {
        let (sources, mut loaded) = state.shared.load(&cwd)?;
        let config = &mut loaded.config;
        if let ServeJob::Run { toolsets, max_iterations, .. } = &job {
            narrow(config, toolsets, *max_iterations)?;
        }
        let mode = unasked(config);
        let begun = state.shared.begin(&sources, &loaded, None)?;
        let StartupNotes { of_servers, warnings } = &begun.notes;
        of_servers.iter().for_each(|note| tell(&format!("note: {note}")));
        warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
        let id = new_session_id(SystemClock.now_ms());
        Ok(Self { state, begun, mode, cwd, id, job })
    }

    /// Returns whether this configuration offers the service.
    fn is_offered(&self) -> bool {
        let composition = &self.begun.composition;
        match self.job {
            ServeJob::Run { .. } => true,
            ServeJob::Delegate(_) => {
                composition.assembly.tools.names.contains(&composition.assembly.delegation.tool())
            }
        }
    }

    /// Warnings of toolsets that a call names and its agent is not given.
    fn left_out(&self) -> Vec<String> {
        let ServeJob::Run { toolsets, .. } = &self.job else { return Vec::new() };
        let tools = &self.begun.composition.assembly.tools;
        let is_given = |name: &String| tools.toolsets.iter().any(|set| set.as_str() == name);
        let has_part = |name: &String| {
            let catalog = &tools.catalog;
            let own = tools.names.iter().filter_map(|tool| catalog.get(tool.as_str()));
            ToolsetName::new(name.as_str())
                .is_ok_and(|set| own.into_iter().any(|entry| catalog.includes(&set, entry)))
        };
        let warning = |name: &String| {
            if has_part(name) {
                return format!("warning: the agent has only a part of toolset `{name}`");
            }
            let why = missing_feature(name)
                .unwrap_or_else(|| format!("toolset `{name}` has no tools now"));
            format!("warning: {why}: the agent does without it")
        };
        let mut warnings: Vec<String> =
            toolsets.iter().filter(|name| !is_given(name)).map(warning).collect();
        if tools.names.is_empty() {
            let last = warnings.last_mut();
            last.into_iter().for_each(|warning| warning.push_str(", and has no tools at all"));
        }
        warnings
    }

    /// Runs the session to its end.
    async fn work(
        mut self,
        notes: ProgressSink,
        cancel: &Cancel,
    ) -> Result<ServedAnswer, CliError> {
        let SessionStartup { composition, chosen, .. } = &mut self.begun;
        let task = match &self.job {
            ServeJob::Run { prompt, .. } => prompt.clone(),
            ServeJob::Delegate(arguments) => {
                // What begins the conversation of the top agent and of no other.
                let task = format!("Hand on, for another program ({}).", self.id);
                let hands_on = RelayCall {
                    task: task.clone(),
                    tool: composition.assembly.delegation.tool().to_string(),
                    arguments: arguments.clone(),
                };
                let name = chosen.name.clone();
                chosen.models.wrap(&name, |model| Arc::new(RelayModel { hands_on, model }));
                task
            }
        };
        self.left_out().into_iter().for_each(|warning| notes(warning));
        let idle = Arc::new(Inactivity::new());
        let tools = &self.begun.composition.assembly.tools.catalog;
        let results = SessionSnapshot::new(Arc::clone(tools)).keep_outcomes();
        let results = SnapshotObserver::new(results);
        let progress = Arc::new(ProgressNotes::new(results.clone(), notes));
        let observers: Vec<Arc<dyn Observer>> =
            vec![Arc::new(results.clone()), idle.clone(), progress];
        let shared = &self.state.shared;
        let session_config = shared.session_config(&self.begun, observers);
        let session = Session::create(&shared.dir, self.id.clone(), session_config);
        let session = session.map_err(CliError::failed)?;
        let SessionStartup { composition, chosen, .. } = &self.begun;
        let mut spec = composition.assembly.top_agent(&self.id, &chosen.name, &task, self.mode);
        if let ServeJob::Delegate(Value::Object(arguments)) = &self.job {
            // What the session is listed by.
            let tool = tools.spec(composition.assembly.delegation.tool().as_str());
            let named = tool.and_then(|tool| describe_tasks(&tool.subject, arguments));
            let named = named.filter(|tasks| !tasks.trim().is_empty());
            spec.goal = named.unwrap_or_else(|| NO_TASK.to_owned());
        }
        spec.options = chosen.options.clone();
        let authority = composition.assembly.authority(self.mode, self.cwd.clone());
        let run = session.run(spec, authority, cancel);
        let (mut outcome, error) = while_active(&composition.config, &idle, cancel, run).await;
        outcome.error = error.or(outcome.error);
        composition.servers.catch_up().await;
        composition.servers.close().await;
        self.answer(&outcome, &results.read())
    }

    fn answer(
        &self,
        outcome: &Outcome,
        results: &SessionSnapshot,
    ) -> Result<ServedAnswer, CliError> {
        let line = to_json_line(&run_object(results, outcome)).map_err(CliError::failed)?;
        let mut data: Value = serde_json::from_str(&line).map_err(CliError::failed)?;
        let failed = outcome.status != Status::Completed;
        if let ServeJob::Delegate(_) = self.job {
            // The top agent said nothing of its own.
            let results = data.get_mut("children").map(Value::take).unwrap_or_default();
            if results.as_array().is_some_and(|results| !results.is_empty()) {
                let session = data.get("session").cloned().unwrap_or_default();
                // Where one child did its work, who asked has something to go on with.
                let failed = failed || !results.as_array().is_some_and(|all| any_completed(all));
                let mut data = json!({"session": session, "results": results});
                let result = outcome.text.as_deref().and_then(delegation_json);
                if let Some(warnings) =
                    result.and_then(|mut it| it.as_object_mut()?.remove("warnings"))
                    && let Some(data) = data.as_object_mut()
                {
                    data.insert("warnings".to_owned(), warnings);
                }
                return Ok(ServedAnswer { text: data.to_string(), data: Some(data), failed });
            }
            // No child began: what the tool said of that is the answer.
            let text = outcome.text.clone().or_else(|| outcome.error.clone());
            return Ok(ServedAnswer { text: text.unwrap_or_default(), data: None, failed: true });
        }
        let mut text = match (&outcome.text, &outcome.error) {
            (Some(text), None) => text.clone(),
            (Some(text), Some(error)) => format!("{text}\n\n[{error}]"),
            (None, error) => error.clone().unwrap_or_else(|| "it gave no answer".to_owned()),
        };
        for warning in self.left_out() {
            text.push_str(&format!("\n\n[{warning}]"));
        }
        Ok(ServedAnswer { text, data: Some(data), failed })
    }
}

/// Narrows a call's request to what the configuration and the command line allow.
fn narrow(
    config: &mut Config,
    toolsets: &[String],
    max_iterations: Option<u32>,
) -> Result<(), CliError> {
    if !toolsets.is_empty() {
        let mut narrowed = Vec::new();
        for named in toolsets {
            let within = toolsets_within(config, named);
            if within.is_empty() {
                let served = config.toolsets.join(", ");
                return Err(CliError::usage(ExcessiveRequest(named.clone(), served)));
            }
            narrowed.extend(within);
        }
        config.toolsets = narrowed;
    }
    config.max_iterations = max_iterations.unwrap_or(u32::MAX).min(config.max_iterations);
    Ok(())
}

/// The request exceeds what is offered.
#[derive(Debug, thiserror::Error)]
#[error("toolset `{0}` is not served; known: {1}")]
struct ExcessiveRequest(String, String);
