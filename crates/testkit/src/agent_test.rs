//! Tests of a whole agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::clock::FixedClock;
use deputize_core::sanitize::FrameSecret;
use deputize_core::{
    Authority, Cancel, Catalog, CatalogEntry, Origin, Outcome, Record, SessionId, Tool, ToolCrate,
    ToolsetName,
};
use deputize_delegate::{DelegateTool, DelegationConfig};
use deputize_runtime::{Session, SessionConfig, SessionDir, SessionRecorder};
use tempfile::TempDir;

use crate::recorder::Recorder;
use crate::replay::{ReplayFailure, ReplayResult, replay};
use crate::scripted::ScriptedModel;
use crate::seen_request::SeenRequest;

/// The name of the model in an agent test.
const MODEL: &str = "trial/m";

/// A test of a whole agent, with tools, a scripted model and a session in a temporary directory.
/// Deterministic: no clock, no randomness, no network, no person. Equal requests have equal bytes,
/// so they can be snapshots.
///
/// ```standalone_crate
/// use deputize_core::tool;
/// use deputize_core::model::Reply;
/// use deputize_testkit::{ScriptedModel, AgentTest};
///
/// deputize_core::tool_crate!();
///
/// /// Count the words of a text.
/// #[tool(toolset = "words", effects = read_only)]
/// async fn count_words(
///     /// The text.
///     text: String,
/// ) -> String {
///     text.split_whitespace().count().to_string()
/// }
///
/// let model = ScriptedModel::turns([
///     Reply::calls("m", [("count_words", serde_json::json!({"text": "one two three"}))]),
///     Reply::text("m", "There are three."),
/// ]);
/// let run = AgentTest::linked(&[LINK]).run(model, "How many words?");
/// assert_eq!(run.answer(), "There are three.");
/// run.request(2).assert_result("\n3\n").assert_continues(run.request(1));
/// ```
///
/// A parent and its children share the model, which distinguishes them by their task:
///
/// ```
/// # use deputize_core::model::Reply;
/// # use deputize_testkit::{ScriptedModel, AgentTest};
/// # use serde_json::json;
/// let model = ScriptedModel::rule(|seen| match (seen.task(), seen.replies()) {
///     ("Which is longer?", 0) => {
///         let tasks = json!({"tasks": [{"goal": "How long is a mile?"}]});
///         Some(Reply::calls("m", [("delegate_task", tasks)]).into())
///     }
///     ("Which is longer?", _) => Some(Reply::text("m", "The mile.").into()),
///     ("How long is a mile?", _) => Some(Reply::text("m", "1609 m.").into()),
///     _ => None,
/// });
/// let run = AgentTest::with([]).delegating().run(model, "Which is longer?");
/// assert_eq!(run.answer(), "The mile.");
/// let child = run.request_of("How long is a mile?");
/// child.assert_tools(&[]).assert_silent_about("Which is longer?");
/// ```
#[derive(Debug)]
pub struct AgentTest {
    catalog: Catalog,
    system: Vec<Arc<str>>,
    delegates: bool,
    dir: TestDirectory,
    recording: Option<PathBuf>,
}

/// The working directory of the agents.
#[derive(Debug)]
enum TestDirectory {
    Own(TempDir),
    Given(PathBuf),
}

impl TestDirectory {
    fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Given(dir) => dir,
        }
    }
}

impl AgentTest {
    /// Creates a test with the tools of these crates, and of all others linked into this test
    /// program.
    ///
    /// # Panics
    /// If a crate registers no tool, or two tools have the same name.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn linked(crates: &[ToolCrate]) -> Self {
        Self::of(Catalog::linked(crates).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Creates a test with these tools, registered or not.
    ///
    /// # Panics
    /// If two tools have the same name.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn with(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut catalog = Catalog::default();
        for tool in tools {
            let origin = Origin::Linked { krate: "trial".to_owned() };
            let entry = CatalogEntry { toolset: ToolsetName::literal("trial"), origin, tool };
            catalog.insert(entry).unwrap_or_else(|error| panic!("{error}"));
        }
        Self::of(catalog)
    }

    /// Creates a test with the tools of a catalog.
    ///
    /// # Panics
    /// If no temporary directory can be created.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn of(catalog: Catalog) -> Self {
        let dir = tempfile::tempdir().unwrap_or_else(|error| panic!("no directory: {error}"));
        Self {
            catalog,
            system: Vec::new(),
            delegates: false,
            dir: TestDirectory::Own(dir),
            recording: None,
        }
    }

    /// Adds a block of system text.
    #[must_use]
    pub fn system(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system.push(text.into());
        self
    }

    /// Adds `delegate_task`, for one level of children.
    ///
    /// # Panics
    /// If there is already a tool of that name.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn delegating(mut self) -> Self {
        let tool = DelegateTool::new(DelegationConfig::default(), Arc::new(FixedClock(0)));
        let tool = tool.unwrap_or_else(|error| panic!("{error}"));
        self.catalog.insert(tool.into_entry()).unwrap_or_else(|error| panic!("{error}"));
        self.delegates = true;
        self
    }

    /// Uses this directory, which agents may read and write.
    #[must_use]
    pub fn inside(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = TestDirectory::Given(dir.into());
        self
    }

    /// Records everything from outside, in order, into a new file, for [`AgentTest::replay`].
    #[must_use]
    pub fn recording(mut self, file: impl Into<PathBuf>) -> Self {
        self.recording = Some(file.into());
        self
    }

    /// Runs an agent to its end on its own runtime, for tests that are not async.
    ///
    /// # Panics
    /// If the session cannot be created, or inside an async runtime.
    #[must_use]
    pub fn run(self, model: impl Into<Arc<ScriptedModel>>, task: &str) -> AgentTestResult {
        block_on(self.run_async(model, task))
    }

    /// Runs an agent to its end.
    ///
    /// # Panics
    /// If the session cannot be created.
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub async fn run_async(
        self,
        model: impl Into<Arc<ScriptedModel>>,
        task: &str,
    ) -> AgentTestResult {
        let model = model.into();
        let recorder = Recorder::default();
        let mut config = self.session_config();
        let asked: Arc<ScriptedModel> = Arc::clone(&model);
        config.models.insert(MODEL, "m", asked);
        config.observers.push(Arc::new(recorder.clone()));
        if let Some(file) = &self.recording {
            let session_recorder = SessionRecorder::create(file)
                .unwrap_or_else(|error| panic!("no recording at {}: {error}", file.display()));
            config.record.recorder = Some(Arc::new(session_recorder));
        }
        let sessions = tempfile::tempdir().unwrap_or_else(|error| panic!("no directory: {error}"));
        let dir = SessionDir::new(sessions.path());
        let session = Session::create(&dir, SessionId::literal("trial"), config)
            .unwrap_or_else(|error| panic!("no session: {error}"));
        let (spec, authority) = self.agent(&session, task);
        let outcome = session.run(spec, authority, &Cancel::new()).await;
        AgentTestResult {
            outcome,
            requests: model.requests(),
            records: recorder.records(),
            dir: self.dir,
        }
    }

    /// Replays a recording with these tools and this system text; no model is asked and no tool
    /// runs.
    ///
    /// # Errors
    /// If the recording cannot be read or ends too early, or a request differs from the recorded
    /// one.
    pub async fn replay(
        self,
        file: impl AsRef<Path>,
        task: &str,
    ) -> Result<ReplayResult, ReplayFailure> {
        replay(file, self.session_config(), |session| self.agent(session, task)).await
    }

    fn session_config(&self) -> SessionConfig {
        let mut config = SessionConfig::new(self.catalog.clone());
        config.record.secret = FrameSecret::new(&[0; 16]);
        config.clock = Arc::new(FixedClock(0));
        config.requests.seed = 0;
        config
    }

    fn agent(&self, session: &Session, task: &str) -> (AgentSpec, Authority) {
        let dir = self.dir.path();
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let mut spec = session.top_agent(MODEL, task, &dir);
        spec.system.extend(self.system.iter().cloned());
        spec.approver = ApproverMode::Auto;
        let roots = || Some([dir.clone()].into());
        let grant = Grant {
            read: roots(),
            write: roots(),
            approver: Some(ApproverMode::Auto),
            spawn_depth: Some(u32::from(self.delegates)),
            spawn_number: Some(if self.delegates { 100 } else { 0 }),
            ..Grant::default()
        };
        let authority = Authority::root(session.catalog(), &grant);
        (spec, authority)
    }
}

/// The result of an [`AgentTest`].
#[derive(Debug)]
pub struct AgentTestResult {
    /// The outcome of the top agent.
    pub outcome: Outcome,
    /// The requests of all agents, in order.
    pub requests: Vec<SeenRequest>,
    /// All records, in order.
    pub records: Vec<Record>,
    /// Kept so that files left by agents can be inspected.
    dir: TestDirectory,
}

impl AgentTestResult {
    /// Returns the answer; empty if there is none.
    #[must_use]
    pub fn answer(&self) -> &str {
        self.outcome.text.as_deref().unwrap_or_default()
    }

    /// Returns the directory that agents worked in; it exists as long as this value.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a request by its number, from 1.
    ///
    /// # Panics
    /// If there were fewer requests.
    #[must_use]
    #[track_caller]
    #[expect(clippy::panic, reason = "a test that expects another request fails")]
    pub fn request(&self, number: usize) -> &SeenRequest {
        let found = number.checked_sub(1).and_then(|index| self.requests.get(index));
        found.unwrap_or_else(|| {
            let count = self.requests.len();
            let error = self.outcome.error.as_deref();
            let why = error.map_or_else(String::new, |error| format!("; the agent ended: {error}"));
            panic!("there is no request {number}, of {count}{why}")
        })
    }

    /// Returns the first request of the agent with this task; the task of a child is its goal.
    ///
    /// # Panics
    /// If no agent has this task.
    #[must_use]
    #[track_caller]
    #[expect(clippy::panic, reason = "a test that expects another request fails")]
    pub fn request_of(&self, task: &str) -> &SeenRequest {
        let found = self.requests.iter().find(|request| request.task() == task);
        found.unwrap_or_else(|| {
            let mut tasks: Vec<&str> = self.requests.iter().map(SeenRequest::task).collect();
            tasks.dedup();
            panic!("no agent was asked `{task}`; those asked were: {}", tasks.join(", "))
        })
    }
}

/// Runs a future to completion on its own runtime, for tests that are not async.
///
/// ```
/// # use deputize_core::{erase, tool};
/// use deputize_testkit::{block_on, check_tool};
/// # deputize_core::tool_crate!();
/// # /// Say hello.
/// # #[tool(toolset = "words", effects = read_only, example("Hello", {}))]
/// # async fn hello() -> &'static str { "hello" }
/// block_on(check_tool(&erase(Hello))).unwrap();
/// ```
///
/// # Panics
/// If no runtime can be created, or inside one.
#[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime: {error}")).block_on(future)
}

#[cfg(test)]
mod tests {
    use deputize_core::model::Reply;
    use serde_json::json;

    use super::*;
    use crate::assert_prompt;

    const TASK: &str = "Which is longer, a mile or a league?";

    /// A parent with two children.
    fn measures() -> ScriptedModel {
        ScriptedModel::rule(|seen| {
            let reply = match (seen.task(), seen.replies()) {
                (TASK, 0) => {
                    let tasks = json!([{"goal": "How long is a mile?"}, {"goal": "A league?"}]);
                    Reply::calls("m", [("delegate_task", json!({ "tasks": tasks }))])
                }
                (TASK, _) => Reply::text("m", "A league."),
                ("How long is a mile?", _) => Reply::text("m", "1609 m."),
                ("A league?", _) => Reply::text("m", "4828 m."),
                _ => return None,
            };
            Some(reply.into())
        })
    }

    #[test]
    fn a_tree_is_recorded_and_played_again_with_its_interleaving() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("measures.jsonl");
        let trial =
            || AgentTest::linked(&[]).delegating().system("You measure.").inside(folder.path());
        let actual = trial().recording(&file).run(measures(), TASK);
        assert_eq!(actual.answer(), "A league.");
        assert_eq!(actual.requests.len(), 4);
        let replayed = block_on(trial().replay(&file, TASK)).unwrap();
        assert_eq!(replayed.outcome.text.as_deref(), Some("A league."));
        let order = |records: &[Record]| {
            let shown =
                |it: &Record| format!("{} {:?}", it.agent, std::mem::discriminant(&it.event));
            records.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(order(&replayed.records), order(&actual.records));
        let other = block_on(trial().system("And count.").replay(&file, TASK)).unwrap_err();
        assert!(other.to_string().contains("And count."), "{other}");
    }

    #[test]
    fn a_childs_whole_request_can_be_a_snapshot() {
        let actual = AgentTest::linked(&[]).delegating().run(measures(), TASK);
        let child = actual.request_of("How long is a mile?");
        let shown = crate::RedactedText::of(child).path(actual.dir(), "[dir]");
        assert_prompt!(shown);
        child.assert_tools(&[]).assert_says("How long is a mile?").assert_silent_about(TASK);
    }

    #[test]
    #[should_panic(expected = "request 1: it offers [\"delegate_task\"] and not [\"read_file\"]")]
    fn an_assertion_says_what_was_there() {
        let model = ScriptedModel::turns([Reply::text("m", "Hello.")]);
        let actual = AgentTest::linked(&[]).delegating().run(model, "Hello.");
        actual.request(1).assert_tools(&["read_file"]);
    }

    #[test]
    #[should_panic(expected = "there is no request 2, of 1; the agent ended: request 1 was not")]
    fn a_request_that_was_not_made_is_reported_with_the_reason() {
        let actual = AgentTest::linked(&[]).run(ScriptedModel::turns::<Reply>([]), "Hello.");
        let _none = actual.request(2);
    }
}
