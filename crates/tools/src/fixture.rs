//! Agents over real directories, for the tests of this crate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use deputize_core::agent::{AgentLimits, AgentSpec, Role};
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::event::JournalError;
use deputize_core::file_state::FileLedger;
use deputize_core::message::CallStatus;
use deputize_core::model::ModelOptions;
use deputize_core::nested_call::{NestedCall, NestedCaller, NestedCalls, NestedResult};
use deputize_core::source_set::SourceSet;
use deputize_core::tool::{CallCheck, NoAgents, SessionView};
use deputize_core::{
    AgentId, AgentView, Authority, BoxFuture, CallId, Cancel, Catalog, Display, ResourceMap,
    SessionId, ToolCallResult, ToolCx, ToolError, ToolOutput, TypedTool, erase,
};
use deputize_requirements::{check, harness_name, root};
use serde_json::Value;
use tempfile::TempDir;

use crate::{CommandSettings, FileLimits, Settings};

/// Returns settings that differ from the usual ones in how much of a file is read.
pub(crate) fn file_limits(files: FileLimits) -> Settings {
    Settings { files, ..Settings::default() }
}

/// Returns settings that differ from the usual ones in what holds for commands.
pub(crate) fn command_settings(commands: CommandSettings) -> Settings {
    Settings { commands, ..Settings::default() }
}

/// A workspace `w` with an `outside` beside it, and an agent that may work in it.
pub(crate) struct ToolFixture {
    temp: TempDir,
    pub(crate) cx: ToolCx,
}

impl ToolFixture {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::over(tempfile::tempdir().unwrap(), settings)
    }

    /// On a certain disk.
    pub(crate) fn on(disk: &Path, settings: Settings) -> Self {
        Self::over(tempfile::tempdir_in(disk).unwrap(), settings)
    }

    fn over(temp: TempDir, settings: Settings) -> Self {
        let base = temp.path().canonicalize().unwrap();
        for name in ["w", "outside", "spill"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        let roots = BTreeSet::from([base.join("w")]);
        let grant = Grant { read: Some(roots.clone()), write: Some(roots), ..Grant::default() };
        let session = session("s", base.join("spill"));
        session.settings.get_or_insert_with(|| settings);
        let agent = AgentId::root(&session.id);
        let cx = context(agent, &base.join("w"), &grant, Arc::new(session));
        Self { temp, cx }
    }

    /// The same agent after the program was started again.
    pub(crate) async fn again(self) -> Self {
        let settings = Settings::of(&self.cx);
        self.cx.agent.store.close().await;
        Self::over(self.temp, Settings::clone(&settings))
    }

    /// An agent of another session in the same directory, as another program has it.
    pub(crate) fn other_session(&self, id: &'static str) -> ToolCx {
        let session = session(id, self.cx.agent.session.spill.clone());
        let grant = self.cx.agent.spec.grant.clone();
        context(AgentId::root(&session.id), &self.root(), &grant, Arc::new(session))
    }

    /// A second agent of the same session with rights of its own.
    pub(crate) fn child(&self, grant: &Grant) -> ToolCx {
        let id = self.cx.agent.id().child(CallId::new(9, 0), 0);
        context(id, &self.root(), grant, Arc::clone(&self.cx.agent.session))
    }

    /// An agent that may not write at a path.
    pub(crate) fn keeping(&self, cx: &ToolCx, path: PathBuf) -> ToolCx {
        let mut kept = self.child(&cx.agent.spec.grant);
        if let Some(agent) = Arc::get_mut(&mut kept.agent) {
            agent.authority =
                Arc::new(Authority::clone(&agent.authority).with_protected_paths([path]));
        }
        kept
    }

    /// The same agent in another directory.
    pub(crate) fn within(&self, cwd: &str) -> ToolCx {
        let roots = self.cx.agent.authority.read_roots().clone();
        let grant = Grant { read: Some(roots.clone()), write: Some(roots), ..Grant::default() };
        let session = Arc::clone(&self.cx.agent.session);
        context(self.cx.agent.id().clone(), &self.root().join(cwd), &grant, session)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("w")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn link(&self, target: &str, name: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
        self
    }

    pub(crate) fn fifo(&self, name: &str) -> &Self {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, self.path(name), kind, mode, 0).unwrap();
        self
    }

    /// Calls a tool and shows the result as text, with this machine's directory left out.
    pub(crate) async fn call<T: TypedTool>(&self, tool: T, arguments: Value) -> String {
        self.call_as(&self.cx, tool, arguments).await
    }

    /// Has a tool look at a call, and returns what it says in the words of [`ToolFixture::call`].
    pub(crate) async fn check<T: TypedTool>(&self, tool: T, arguments: &Value) -> String {
        self.check_as(&self.cx, tool, arguments).await
    }

    pub(crate) async fn check_as<T: TypedTool>(
        &self,
        cx: &ToolCx,
        tool: T,
        arguments: &Value,
    ) -> String {
        let text = match erase(tool).check(arguments, cx).await {
            Ok(CallCheck::Asks(risk)) => format!("asks: {}: {}", risk.class, risk.reason),
            Ok(_) => "accepted".to_owned(),
            Err(error) => show(&Err(error)),
        };
        text.trim_end().replace(&*self.root().to_string_lossy(), "ROOT")
    }

    pub(crate) async fn call_as<T: TypedTool>(
        &self,
        cx: &ToolCx,
        tool: T,
        arguments: Value,
    ) -> String {
        let tool = erase(tool);
        let refusal = tool.check(&arguments, cx).await.err();
        let mut cx = cx.clone();
        cx.call.slot += 1;
        let text = show(&tool.call(arguments, &cx).await);
        if let Some(refusal) = refusal {
            assert_eq!(show(&Err(refusal)), text, "the check refuses what the call does");
        }
        text.replace(&*self.root().to_string_lossy(), "ROOT")
    }
}

/// Makes nested calls of all tools of this crate, without asking anybody.
pub(crate) struct CatalogCaller(Catalog);

impl CatalogCaller {
    /// Gives an agent such calls.
    pub(crate) fn give(cx: &ToolCx) {
        let caller = Self(Catalog::linked(&[crate::LINK]).unwrap());
        cx.agent.store.get_or_insert_with(|| NestedCalls::new(caller));
    }
}

impl NestedCaller for CatalogCaller {
    fn call<'a>(
        &'a self,
        call: NestedCall<'a>,
    ) -> BoxFuture<'a, Result<NestedResult, JournalError>> {
        Box::pin(async move {
            let id = call.outer.call.nested_call(call.number);
            let cx = ToolCx { call: id, ..call.outer.clone() };
            let Some(entry) = self.0.get(call.tool) else {
                return Ok(NestedResult::refused("there is no such tool"));
            };
            let arguments = serde_json::from_str(call.arguments).unwrap();
            let (status, output) = match entry.tool.call(arguments, &cx).await {
                Ok(output) => (CallStatus::Ok, output),
                Err(ToolError::Cancelled(output)) => (CallStatus::Cancelled, *output),
                Err(error) => (CallStatus::Error, ToolOutput::text(error.to_string())),
            };
            let ToolOutput { content, notes, facts, .. } = output;
            Ok(NestedResult { status, content, notes, facts })
        })
    }
}

/// Calls a tool.
pub(crate) async fn result<T: TypedTool>(cx: &ToolCx, tool: T, arguments: Value) -> ToolCallResult {
    let mut cx = cx.clone();
    cx.call.slot += 1;
    erase(tool).call(arguments, &cx).await
}

/// A session without any agent.
fn session(id: &'static str, spill: PathBuf) -> SessionView {
    SessionView {
        id: SessionId::literal(id),
        spill,
        files: FileLedger::default(),
        settings: ResourceMap::default(),
        spawn: Arc::new(NoAgents),
        control: Arc::new(NoAgents),
    }
}

fn context(id: AgentId, cwd: &Path, grant: &Grant, session: Arc<SessionView>) -> ToolCx {
    let spec = AgentSpec {
        id,
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
        toolsets: Vec::new(),
        tools: Vec::new(),
        grant: grant.clone(),
        approver: ApproverMode::Deny,
        limits: AgentLimits { max_iterations: 1, time_ms: 0, wrap_up_ms: 0 },
        cwd: cwd.to_owned(),
        context: None,
        output_schema: None,
        background: false,
        declared: None,
        unapproved: Vec::new(),
        profile: None,
        profile_max_iterations: None,
        task_sources: SourceSet::new(),
        system_sources: SourceSet::new(),
    };
    let catalog = Catalog::default();
    let agent = AgentView {
        spec: Arc::new(spec),
        authority: Arc::new(Authority::root(&catalog, grant)),
        catalog: Arc::new(catalog),
        declared: Vec::new(),
        store: ResourceMap::default(),
        session,
    };
    ToolCx { call: CallId::new(1, 0), agent: Arc::new(agent), cancel: Cancel::new() }
}

fn show_output(output: &ToolOutput) -> String {
    let mut text = output.content.clone();
    for note in &output.notes {
        text.push_str(&format!("\n[{note}]"));
    }
    for (path, _) in output.display.iter().flat_map(Display::diffs) {
        text.push_str(&format!("\n(diff of {})", path.display()));
    }
    text
}

/// A result as text: content, `[notes]`, `(display)`, or `status: words`.
pub(crate) fn show(result: &ToolCallResult) -> String {
    match result {
        Ok(output) => show_output(output),
        Err(ToolError::Refused(text)) => format!("refused: {text}"),
        Err(ToolError::Partly { text, output }) => {
            format!("refused: {text}\n{}", show_output(output))
        }
        Err(ToolError::Denied(denial)) => format!("denied: {}", denial.for_model),
        Err(ToolError::Failed(source)) => format!("failed: {source}"),
        Err(ToolError::Cancelled(output)) => format!("cancelled\n{}", show_output(output)),
        Err(other) => format!("{other:?}"),
    }
}

/// The user without rights.
const NOBODY: u32 = 65_534;

/// Runs a test of this program once more as a user without rights, if this one has all; there,
/// `work` is done. Where that user cannot run it, the test is entered as not run.
pub(crate) fn again_without_rights(test_path: &str, work: impl FnOnce()) {
    use std::os::unix::process::CommandExt as _;
    if root().is_err() {
        return work();
    }
    let mut command = this_test(test_path);
    command.current_dir("/").uid(NOBODY).gid(NOBODY);
    let started = command.output().map_err(|error| format!("for another user: {error}"));
    if let Some(done) = check(test_path, started) {
        passed(&done);
    }
}

/// Variable with the path of a test's small disk.
const SMALL_DISK: &str = "DEPUTIZE_TEST_SMALL_DISK";

/// Runs a test of this program once more, in a mount namespace of its own with a disk of 256
/// KiB; there, `work` gets the disk. Where the system allows no such namespace, the test is
/// entered as not run.
pub(crate) fn again_on_small_disk(test_path: &str, work: impl FnOnce(&Path)) {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return work(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=256k none \"$1\"";
    let run = |script: &str, test: &Command| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script, "sh"]).arg(disk.path());
        command.arg(test.get_program()).args(test.get_args()).env(SMALL_DISK, disk.path());
        command.output()
    };
    let test = this_test(test_path);
    let mounts = run(mount, &test).is_ok_and(|done| done.status.success());
    let mounts = if mounts { Ok(()) } else { Err("this system gives no mount namespace".into()) };
    if check(test_path, mounts).is_some() {
        passed(&run(&format!("{mount} && shift && exec \"$@\""), &test).unwrap());
    }
}

/// Variable that marks a test as running alone.
const ALONE: &str = "DEPUTIZE_TEST_ALONE";

/// Runs a test of this program once more, in a process of its own; there, `work` is done.
pub(crate) fn again_alone(test_path: &str, work: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return work();
    }
    passed(&this_test(test_path).env(ALONE, "1").output().unwrap());
}

/// This program with one test to run.
fn this_test(test_path: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", harness_name(test_path), "--nocapture"]);
    command
}

/// Checks that the harness ran one test, and that it passed.
#[track_caller]
fn passed(done: &Output) {
    let text = [&*done.stdout, &*done.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(done.status.success() && text.contains("test result: ok. 1 passed"), "{text}");
}

/// A result, and how much memory it took at most to have it.
pub(crate) struct PeakMemory<T> {
    value: T,
    bytes: u64,
}

impl<T> PeakMemory<T> {
    /// Only meaningful in a process that does nothing else.
    pub(crate) async fn of(work: impl Future<Output = T>) -> Self {
        // The highest use so far is forgotten.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = memory("VmRSS:");
        let value = work.await;
        // The system counts pages in batches, so that it may have seen a little less than before.
        Self { value, bytes: memory("VmHWM:").saturating_sub(before) }
    }

    pub(crate) fn below(self, most: u64) -> T {
        println!("{} bytes of at most {most}", self.bytes);
        assert!(self.bytes < most, "{} bytes, {most} are the most", self.bytes);
        self.value
    }
}

/// Bytes of memory of this process by the system's account.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
