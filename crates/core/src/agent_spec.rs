//! The specification of an agent.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::with_schema;
use crate::authority::{ApproverMode, Grant};
use crate::image::Image;
use crate::message::Message;
use crate::model::ModelOptions;
use crate::name::{AgentId, CallId, ToolName, ToolsetName};
use crate::schema::plain_schema;
use crate::source::Source;
use crate::source_set::SourceSet;
use crate::tool_spec::ToolDecl;

/// The line before a further task, for the child.
const FURTHER_TASK: &str = "The agent that started you has a further task for you:";

/// Whether an agent may delegate work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Works alone.
    #[default]
    Leaf,
    /// May delegate work to children.
    Orchestrator,
}

impl Role {
    /// Returns the name used in events and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leaf => "leaf",
            Self::Orchestrator => "orchestrator",
        }
    }
}

/// The call that started a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedBy {
    /// The parent's call.
    pub call: CallId,
    /// Index of the task in the call, from 0.
    pub task_index: u32,
    /// Number of tasks in the call.
    pub task_count: u32,
}

/// A task that a child gets after it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherTask {
    /// The parent's call that gives it.
    pub call: CallId,
    /// What the child is to do.
    pub goal: String,
}

/// Limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// Maximum number of model requests, without the closing request.
    pub max_iterations: u32,
    /// Time limit in milliseconds, after which the agent is asked to close; 0 means no limit.
    pub time_ms: u64,
    /// Time for the closing answer after that, in milliseconds.
    pub wrap_up_ms: u64,
}

impl AgentLimits {
    /// Model requests of a top agent, unless set otherwise.
    pub const MAX_ITERATIONS: u32 = 90;
    /// Seconds for a closing answer, unless set otherwise.
    pub const WRAP_UP_SECONDS: u32 = 20;
}

/// The complete specification of an agent, as plain data: the same for a local loop, an external
/// program, another machine and the journal. Whoever spawns the agent resolves the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// ID of the agent.
    pub id: AgentId,
    /// ID of its parent; `None` for the top agent.
    #[serde(default)]
    pub parent: Option<AgentId>,
    /// Levels below the top agent, which has 0.
    pub depth: u32,
    /// Whether it may delegate work.
    pub role: Role,
    /// The call that started it.
    #[serde(default)]
    pub spawned_by: Option<SpawnedBy>,
    /// The task, as shown to people and in lists.
    pub goal: String,
    /// Its first message.
    pub task: String,
    /// Sources of parts of the first message, beside whoever gives the task.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub task_sources: SourceSet,
    /// Images that its model sees with the first message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The model, as `PROVIDER/MODEL`.
    pub model: String,
    /// Whether settings or a call named its model, so that it is not inherited. Its fallbacks are
    /// then only the models configured for such agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub model_pinned: bool,
    /// Options of its model.
    #[serde(default)]
    pub options: ModelOptions,
    /// Blocks of its rendered system text; those shared between agents come first.
    pub system: Vec<Arc<str>>,
    /// Sources of parts of the system text, beside this program.
    #[serde(default, skip_serializing_if = "SourceSet::is_empty")]
    pub system_sources: SourceSet,
    /// Messages before the first one.
    #[serde(default)]
    pub prefill: Vec<Message>,
    /// Whether a child's conversation begins with that of its parent, up to the reply with the call
    /// that starts it. The journal holds those messages once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fork: bool,
    /// Names of its toolsets.
    pub toolsets: Vec<ToolsetName>,
    /// Its tools, in the order in which they are sent.
    pub tools: Vec<ToolName>,
    /// The part of its parent's authority that it requests.
    pub grant: Grant,
    /// How its approval questions are answered.
    pub approver: ApproverMode,
    /// Limits of its run.
    pub limits: AgentLimits,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// The name of its profile; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// For a top agent: its profile's bound on model requests, which holds in each run of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_max_iterations: Option<u32>,
    /// For a child: its context beside the goal.
    #[serde(default)]
    pub context: Option<String>,
    /// For a child: JSON Schema of its answer.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Whether the child runs in the background: its parent goes on and gets its entry as a
    /// message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Tool declarations sent to its model, where they are another agent's list, unchanged: the
    /// agent may call those in `tools`, and calls of the others are refused. `None` means the
    /// declarations of its own tools. The journal stores the list beside the spec.
    #[serde(skip)]
    pub declared: Option<Arc<[Arc<ToolDecl>]>>,
    /// Tools in that list that it lacks only because nobody approves their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapproved: Vec<ToolName>,
}

impl AgentSpec {
    /// Returns what the person wrote: the task without the lines that the host put before it. These
    /// end where the goal begins; if the task does not end with the goal, the goal is only a title
    /// and the whole task is returned.
    #[must_use]
    pub fn request(&self) -> &str {
        match self.task.strip_suffix(&self.goal) {
            Some(before) if before.ends_with('\n') => &self.goal,
            _ => &self.task,
        }
    }

    /// Gives an ended child a further task, which runs in the background. A schema of its answer
    /// still holds.
    #[must_use]
    pub fn with_further_task(self, goal: &str) -> Self {
        let task = format!("{FURTHER_TASK}\n{goal}");
        let goal = goal.to_owned();
        let images = Vec::new();
        let task_sources = [Source::host()].into();
        let spec =
            Self { task, task_sources, goal, images, context: None, background: true, ..self };
        match spec.output_schema.clone() {
            Some(schema) => spec.answering(schema),
            None => spec,
        }
    }

    /// Requires an answer that matches a JSON Schema, and appends the schema with instructions to
    /// the task.
    #[must_use]
    pub fn answering(mut self, schema: Value) -> Self {
        self.task = with_schema(&self.task, &schema);
        self.task_sources.insert(Source::host());
        self.output_schema = Some(schema);
        self
    }

    /// Requires an answer that is a value of a type; [`Outcome::value`](crate::Outcome::value) returns it.
    ///
    /// ```
    /// use deputize_core::Outcome;
    /// use deputize_core::agent::AgentSpec;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Count {
    ///     /// How many tests there are.
    ///     tests: u32,
    /// }
    ///
    /// fn before(spec: AgentSpec) -> AgentSpec {
    ///     spec.answering_as::<Count>()
    /// }
    ///
    /// fn after(outcome: &Outcome) -> Result<u32, deputize_core::outcome::ValueError> {
    ///     Ok(outcome.value::<Count>()?.tests)
    /// }
    /// ```
    #[must_use]
    pub fn answering_as<T: schemars::JsonSchema>(self) -> Self {
        self.answering(plain_schema::<T>())
    }
}
