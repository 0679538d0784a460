//! Makes a plugin of the tools that crates register.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deputize_core::agent::{AgentLimits, AgentSpec, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::file_state::FileLedger;
use deputize_core::model::ModelOptions;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::{NoAgents, Progress, SessionView};
use deputize_core::{
    AgentId, AgentView, Authority, Availability, CallId, Cancel, CancelReason, Catalog,
    CatalogEntry, Origin, ResourceMap, SessionId, ToolCallResult, ToolCrate, ToolCx, ToolError,
    ToolOutput, describe_error,
};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::answer::CallAnswer;
use crate::call_host::CallHost;

/// Time between two checks whether a running call is cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(20);
/// Maximum number of sessions whose settings are stored; the first ones are dropped.
const SESSIONS: usize = 64;

/// The tools that crates register, for [`export_plugin!`](crate::export_plugin).
#[derive(Debug)]
pub struct LinkedTools {
    name: &'static str,
    version: &'static str,
    links: &'static [ToolCrate],
    program: OnceLock<Result<LibraryState, String>>,
}

/// State that the calls of a loaded library share. The library has its own statics and therefore its
/// own runtime.
#[derive(Debug)]
struct LibraryState {
    catalog: Arc<Catalog>,
    runtime: Runtime,
    sessions: Mutex<BTreeMap<String, Arc<SessionView>>>,
    running: Arc<Mutex<RunningCalls>>,
}

/// Channels for the notes of running calls.
type RunningCalls = BTreeMap<(AgentId, CallId), mpsc::UnboundedSender<String>>;

/// The context of a call, from the host. What is missing is not permitted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallInfo {
    session: String,
    agent: String,
    call: String,
    cwd: PathBuf,
    spill: PathBuf,
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
    kept: BTreeSet<PathBuf>,
    network: bool,
}

impl LinkedTools {
    /// Creates a plugin with this name and version and the tools of these crates.
    #[must_use]
    pub const fn new(
        name: &'static str,
        version: &'static str,
        links: &'static [ToolCrate],
    ) -> Self {
        Self { name, version, links, program: OnceLock::new() }
    }

    /// Returns the text of [`Tools::describe`](crate::Tools::describe).
    ///
    /// # Panics
    /// If the crates do not fit together: a mistake of the author.
    #[must_use]
    #[expect(clippy::panic, reason = "a mistake in the plugin; its host reports the panic")]
    pub fn describe(&self) -> String {
        let program = self.program().unwrap_or_else(|error| panic!("{error}"));
        let tools: Vec<Value> = program.catalog.iter().map(tool_json).collect();
        json!({"name": self.name, "version": self.version, "tools": tools}).to_string()
    }

    /// Makes a call, as [`Tools::call`](crate::Tools::call) does.
    #[must_use]
    pub fn call(&self, tool: &str, arguments: &str, host: &CallHost<'_>) -> CallAnswer {
        let program = match self.program() {
            Ok(program) => program,
            Err(error) => return CallAnswer::Failed(error.to_owned()),
        };
        let Some(entry) = program.catalog.get(tool) else {
            return CallAnswer::Refused(format!("there is no tool `{tool}`"));
        };
        let arguments = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return CallAnswer::Refused(format!("arguments of {tool}: {error}")),
        };
        let about = match parse_about(host.about()) {
            Ok(about) => about,
            Err(error) => return CallAnswer::Failed(format!("what the call is about: {error}")),
        };
        let result = program.run(entry, arguments, &about, host);
        call_answer(result)
    }

    fn program(&self) -> Result<&LibraryState, &str> {
        let made = self.program.get_or_init(|| LibraryState::new(self.links));
        made.as_ref().map_err(String::as_str)
    }
}

impl LibraryState {
    fn new(links: &[ToolCrate]) -> Result<Self, String> {
        let all = Catalog::linked(links).map_err(|error| error.to_string())?;
        let ours = |entry: &CatalogEntry| match &entry.origin {
            Origin::Linked { krate } => links.iter().any(|link| link.name == krate),
            _ => false,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("plugin")
            .enable_all()
            .build()
            .map_err(|error| format!("the plugin's runtime cannot be started: {error}"))?;
        let catalog = Arc::new(all.filtered(ours));
        Ok(Self { catalog, runtime, sessions: Mutex::default(), running: Arc::default() })
    }

    fn run(
        &self,
        entry: &CatalogEntry,
        arguments: Value,
        about: &CallInfo,
        host: &CallHost<'_>,
    ) -> ToolCallResult {
        let (send, mut notes) = mpsc::unbounded_channel();
        let cx = self.cx(about);
        let key = (cx.agent.id().clone(), cx.call);
        self.running().insert(key.clone(), send);
        let call = async {
            let mut call = std::pin::pin!(entry.tool.call(arguments, &cx));
            let mut poll = tokio::time::interval(CANCEL_POLL);
            loop {
                tokio::select! {
                    biased;
                    Some(text) = notes.recv() => host.note(&text),
                    result = &mut call => return result,
                    _ = poll.tick() => {
                        if host.cancelled() {
                            cx.cancel.cancel(CancelReason::Interrupted);
                        }
                    }
                }
            }
        };
        let caught = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(call)));
        self.running().remove(&key);
        self.runtime.block_on(cx.agent.store.close());
        while let Ok(text) = notes.try_recv() {
            host.note(&text);
        }
        caught.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns the context of a call: as much of the host's agent as crosses the boundary.
    fn cx(&self, about: &CallInfo) -> ToolCx {
        let session = self.session(about);
        let call = about.call.parse().unwrap_or(CallId::new(1, 0));
        let spec = self.spec(about, &session.id);
        let authority = Authority::root(&*self.catalog, &spec.grant);
        let agent = AgentView {
            authority: Arc::new(authority.with_protected_paths(about.kept.iter().cloned())),
            spec: Arc::new(spec),
            catalog: Arc::clone(&self.catalog),
            declared: Vec::new(),
            store: ResourceMap::default(),
            session,
        };
        ToolCx { call, agent: Arc::new(agent), cancel: Cancel::new() }
    }

    /// Returns the session of a call. Its settings live as long as the library, so that a tool can
    /// store a connection there.
    fn session(&self, about: &CallInfo) -> Arc<SessionView> {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(&about.session) {
            return Arc::clone(session);
        }
        while sessions.len() >= SESSIONS {
            sessions.pop_first();
        }
        let settings = ResourceMap::default();
        let running = Arc::clone(&self.running);
        settings.get_or_insert_with(|| {
            Progress::new(move |agent, call, text| {
                let running = running.lock();
                if let Some(send) = running.get(&(agent.clone(), call)) {
                    // The call may have ended.
                    let _unheard = send.send(text.to_owned());
                }
            })
        });
        let id = SessionId::new(about.session.as_str());
        let session = Arc::new(SessionView {
            id: id.unwrap_or(SessionId::literal("plugin")),
            spill: about.spill.clone(),
            files: FileLedger::default(),
            settings,
            spawn: Arc::new(NoAgents),
            control: Arc::new(NoAgents),
        });
        sessions.insert(about.session.clone(), Arc::clone(&session));
        session
    }

    fn spec(&self, about: &CallInfo, session: &SessionId) -> AgentSpec {
        let agent = serde_json::from_value(Value::String(about.agent.clone()));
        AgentSpec {
            id: agent.unwrap_or_else(|_| AgentId::root(session)),
            parent: None,
            depth: 0,
            role: Role::Leaf,
            spawned_by: None,
            goal: String::new(),
            task: String::new(),
            model: String::new(),
            images: Vec::new(),
            model_pinned: false,
            options: ModelOptions::default(),
            system: Vec::new(),
            prefill: Vec::new(),
            is_fork: false,
            toolsets: self.catalog.toolsets().into_iter().collect(),
            tools: self.catalog.iter().map(|entry| entry.name().clone()).collect(),
            grant: Grant {
                read: Some(about.read.clone()),
                write: Some(about.write.clone()),
                network: Some(about.network),
                ..Grant::default()
            },
            approver: ApproverMode::Deny,
            limits: AgentLimits { max_iterations: 1, time_ms: 0, wrap_up_ms: 0 },
            cwd: about.cwd.clone(),
            context: None,
            output_schema: None,
            background: false,
            declared: None,
            unapproved: Vec::new(),
            profile: None,
            profile_max_iterations: None,
            task_sources: SourceSet::new(),
            system_sources: SourceSet::new(),
        }
    }

    fn running(&self) -> MutexGuard<'_, RunningCalls> {
        self.running.lock()
    }
}

fn parse_about(text: &str) -> Result<CallInfo, serde_json::Error> {
    if text.is_empty() { Ok(CallInfo::default()) } else { serde_json::from_str(text) }
}

/// Returns a tool as the description contains it.
fn tool_json(entry: &CatalogEntry) -> Value {
    let spec = entry.tool.spec();
    let examples: Vec<Value> = spec
        .examples
        .iter()
        .map(|example| json!({"title": example.title, "arguments": example.arguments}))
        .collect();
    let limit = spec.time_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let unusable = match &spec.usable {
        Availability::Yes => None,
        Availability::No(why) => Some(why),
    };
    let subject = spec.subject.main().map(|(argument, _)| argument);
    json!({
        "name": spec.decl.name,
        "description": spec.decl.description,
        "parameters": spec.decl.parameters,
        "toolset": entry.toolset,
        "effects": spec.effects,
        "kind": spec.kind,
        "subject": subject,
        "verb": spec.subject.verb(),
        "repeatable": spec.repeatable,
        "parallel": spec.parallel,
        "examples": examples,
        // A tool without a limit watches its time itself; the host still has a limit.
        "time_limit_ms": limit.unwrap_or(u64::MAX),
        "unusable": unusable,
    })
}

fn call_answer(result: ToolCallResult) -> CallAnswer {
    match result {
        Ok(output) if output.notes.is_empty() => CallAnswer::text(&output.content),
        Ok(ToolOutput { content, notes, .. }) => {
            CallAnswer::Noted(Value::String(content).to_string(), notes)
        }
        Err(ToolError::Refused(text)) => CallAnswer::Refused(text.into_string()),
        Err(ToolError::Partly { text, output }) => {
            CallAnswer::Refused(format!("{}\n{}", text.into_string(), output.content))
        }
        Err(ToolError::Cancelled(output)) => {
            CallAnswer::Cancelled(Value::String(output.content).to_string())
        }
        Err(error) => CallAnswer::Failed(describe_error(&error)),
    }
}

/// Returns the file or directory at a path of a call, if the agent may read it. Links are followed,
/// and relative paths start at the agent's directory.
///
/// # Errors
/// A refusal if there is no such file, the agent may not read it, or it is a pipe, a socket or a
/// device.
pub fn readable(cx: &ToolCx, path: &Path) -> Result<PathBuf, ToolError> {
    let asked = cx.agent.spec.cwd.join(path);
    let found = asked.canonicalize().map_err(|error| {
        ToolError::refused(format!("cannot open `{}`: {error}", path.display()))
    })?;
    let roots = cx.agent.authority.read_roots();
    let within = |root: &PathBuf| root.canonicalize().is_ok_and(|root| found.starts_with(root));
    if roots.iter().any(within) {
        let is_plain = found.metadata().is_ok_and(|meta| meta.is_file() || meta.is_dir());
        return is_plain.then_some(found).ok_or_else(|| {
            let path = path.display();
            ToolError::refused(format!(
                "`{path}` is a pipe, a socket or a device; give a regular file"
            ))
        });
    }
    let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    Err(ToolError::refused(match roots.as_slice() {
        [] => "this agent may read no files".to_owned(),
        roots => format!(
            "`{}` is outside of what this agent may read; give a path under {}",
            path.display(),
            roots.join(" or ")
        ),
    }))
}
