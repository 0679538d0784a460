//! Children that nobody waits for: their handles, what is told of their ends, and the tool by
//! which an agent sees and reaches those below it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use deputize_core::door::{Source, clean, to_line};
use deputize_core::{
    AgentId, AgentSpec, AgentView, BoxFuture, ChildFound, Clock, Doing, Effects, Entry, Glance,
    Handoff, Origin, Outcome, Schema, SchemaError, Tool, ToolCallResult, ToolCx, ToolDecl,
    ToolError, ToolName, ToolOutput, ToolSpec, Usable,
};
use serde_json::{Value, json};

use crate::files::Before;
use crate::found::{Begun, found};
use crate::keep::keep;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::report::{Caps, Seen, report};
use crate::slots::Slots;
use crate::tool::started;
use crate::toolset::TOOLSET;

/// The tool by which an agent sees and reaches those below it.
pub const CONTROL: ToolName = ToolName::literal("delegate_control");

const ACTIONS: [&str; 4] = ["list", "message", "stop", "join"];
const DESCRIPTION: &str = include_str!("../prompts/control.md");
/// How many agents a list shows; more are counted.
const LISTED: usize = 100;
/// How many characters of a goal a list shows.
const GOAL_CHARS: usize = 120;
/// How many characters of a word that is wrong an error repeats.
const WORD_CHARS: usize = 80;
/// The most bytes of one message to a child.
const MESSAGE_BYTES: usize = 64 * 1024;

/// Starts the children of a call that does not wait for them, and gives their handles.
pub(crate) fn handles(
    plan: Plan,
    (before, at): (Before, u64),
    (cx, slots): (&ToolCx, &Slots),
) -> ToolCallResult {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::default()));
    }
    let before = Arc::new(before);
    let begun = Begun::of(&cx.agent);
    // Those beyond the free places wait for one.
    let mut open = slots.open();
    let mut results = Vec::with_capacity(plan.specs.len());
    for (index, spec) in plan.specs.into_iter().enumerate() {
        let id = spec.id.clone();
        begun.begin(&id, &before, started(cx).is_new(&id).then_some(at));
        results.push(match cx.agent.session.spawn.attach(&cx.agent, spec, &cx.cancel) {
            Ok(_handle) => {
                let status = if open > 0 { "running" } else { "waiting" };
                open = open.saturating_sub(1);
                json!({"task_index": index, "status": status, "agent": id})
            }
            Err(error) => {
                begun.forget(&id);
                json!({"task_index": index, "status": "error", "error": error.to_string()})
            }
        });
    }
    let text = json!({"results": results, "warnings": plan.warnings}).to_string();
    Ok(ToolOutput::text(text))
}

/// How children that nobody waits for are let in and told of, under these settings.
pub struct Background {
    policy: Policy,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Background {
    /// Under these settings; the clock names the files about children that timed out.
    #[must_use]
    pub fn new(policy: Policy, clock: Arc<dyn Clock>) -> Self {
        Self { policy, clock }
    }
}

impl Handoff for Background {
    fn place(&self, parent: &AgentView) -> BoxFuture<'static, Box<dyn Any + Send>> {
        let children = self.policy.concurrency();
        let slots = parent.store.get_or_insert_with(|| Slots::new(children));
        Box::pin(async move { Box::new(slots.free().await) as Box<dyn Any + Send> })
    }

    fn found(&self, parent: &AgentView, child: &AgentSpec, end: &Outcome) -> Option<ChildFound> {
        found(parent, &self.policy, (child, end), self.clock.now_ms())
    }

    fn told(&self, parent: &AgentView, child: &Outcome) -> ToolOutput {
        let (files, outcomes) = (&parent.session.files, std::slice::from_ref(child));
        let begun = Begun::of(parent);
        let before = begun.before(parent, &child.agent);
        begun.forget(&child.agent);
        let stale = before.stale_by(files, parent.id(), child);
        let index = child.agent.as_str().rsplit('.').next().and_then(|last| last.parse().ok());
        let first = index.unwrap_or_default();
        let caps = Caps::of(parent, &self.policy);
        let unseen = [child.found.as_deref().cloned().unwrap_or_default().unseen_writes];
        let seen = Seen { first, stale: &stale, unseen: &unseen, kept: &[], warnings: &[] };
        let (by, now) = ((parent, &self.policy), self.clock.now_ms());
        let kept = keep(by, (&[], outcomes), seen, caps, now);
        let told = report(outcomes, Seen { kept: &kept, ..seen }, child.duration_ms, caps);
        let told = told.unwrap_or_else(|error| ToolOutput::text(error.to_string()));
        // It tells of the child what the host saw; the child's own words have a frame in it.
        ToolOutput { source: Some(Source::Tool(self.policy.tool().to_string())), ..told }
    }
}

/// `delegate_control`: one shared object for all agents of a program. An agent reaches those
/// below it, and nobody else.
pub struct ControlTool {
    spec: ToolSpec,
}

impl fmt::Debug for ControlTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlTool")
    }
}

impl ControlTool {
    /// The tool.
    ///
    /// # Errors
    /// Never with a released core: the parameters are a constant of this crate.
    pub fn new() -> Result<Self, SchemaError> {
        let agents = "Handles; absent: all that run below you, but not for `stop`";
        // Lists are read leniently, so more is taken than is told.
        let parameters = Schema::new(&json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ACTIONS},
                "agents": {"type": ["array", "string", "null"], "items": {"type": "string"},
                           "description": agents},
                "all": {"type": "boolean", "description": "For `stop`: all that run below you"},
                "message": {"type": "string", "description": "For `message`: what to say"},
                "wait_for": {"type": "string", "enum": ["any", "all"], "default": "all",
                             "description": "For `join`"},
            },
            "required": ["action"],
            "additionalProperties": false,
        }))?;
        let decl =
            ToolDecl { name: CONTROL, description: DESCRIPTION.trim_end().to_owned(), parameters };
        let spec = ToolSpec {
            decl,
            // What a child does because of it is judged where it does it.
            effects: Effects::ReadOnly,
            // A child would be told twice.
            repeatable: false,
            spawns: false,
            // It sees what the calls before it started.
            parallel: false,
            time_limit: None,
            usable: Usable::Yes,
            examples: Vec::new(),
        };
        Ok(Self { spec })
    }

    /// The tool in its toolset, for a catalog.
    #[must_use]
    pub fn into_entry(self) -> Entry {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        Entry { toolset: TOOLSET, origin, tool: Arc::new(self) }
    }
}

impl Tool for ControlTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move { control(&arguments, cx).await })
    }
}

async fn control(arguments: &Value, cx: &ToolCx) -> ToolCallResult {
    let below = cx.agent.session.spawn.below(cx.agent.id());
    let named = named(arguments)?;
    let chosen = chosen(&named, &below)?;
    let all = arguments.get("all").and_then(Value::as_bool) == Some(true);
    match arguments.get("action").and_then(Value::as_str).unwrap_or_default() {
        "message" => message(arguments, &chosen, cx),
        "stop" if named.is_empty() && !all => Err(ToolError::refused(
            "`stop` needs `agents`, the handles of those to stop, or `all`: true for all that run \
             below you",
        )),
        "stop" => Ok(stop(&chosen, cx)),
        "join" => join(arguments, &chosen, cx).await,
        _ => Ok(list(&below, &named, &chosen)),
    }
}

/// The handles that a call names: a list, its JSON as a text, or one handle.
fn named(arguments: &Value) -> Result<Vec<String>, ToolError> {
    let list = match arguments.get("agents") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Array(list)) => list,
            Ok(Value::Null) => return Ok(Vec::new()),
            _ if text.trim().is_empty() => return Ok(Vec::new()),
            _ => vec![Value::String(text.clone())],
        },
        Some(Value::Array(list)) => list.clone(),
        Some(other) => vec![other.clone()],
    };
    let handle = |value: Value| match value {
        Value::String(name) => Ok(name),
        other => Err(ToolError::refused(format!(
            "`agents` must be a list of handles, and {} is none",
            to_line(&other.to_string(), WORD_CHARS)
        ))),
    };
    list.into_iter().map(handle).collect()
}

/// The agents that a call means: those it names, or all that run.
fn chosen<'g>(named: &[String], below: &'g [Glance]) -> Result<Vec<&'g Glance>, ToolError> {
    if named.is_empty() {
        return Ok(below.iter().filter(|agent| !agent.doing.has_ended()).collect());
    }
    let mut chosen = Vec::new();
    let mut unknown = Vec::new();
    for name in named {
        match below.iter().find(|agent| agent.id.as_str() == name.trim()) {
            Some(agent) => chosen.push(agent),
            None => unknown.push(format!("`{}`", to_line(name, WORD_CHARS))),
        }
    }
    if unknown.is_empty() {
        return Ok(chosen);
    }
    let remedy = "you reach only agents below you: `list` without `agents` shows those that run";
    Err(ToolError::refused(format!("no agent {} is below you; {remedy}", unknown.join(", "))))
}

fn list(below: &[Glance], named: &[String], chosen: &[&Glance]) -> ToolOutput {
    let all: Vec<&Glance> = if named.is_empty() { below.iter().collect() } else { chosen.to_vec() };
    // Those that have not ended first.
    let (open, ended): (Vec<&Glance>, Vec<&Glance>) =
        all.into_iter().partition(|agent| !agent.doing.has_ended());
    let waiting = open.iter().filter(|agent| agent.doing == Doing::Waiting).count();
    let more = (open.len() + ended.len()).saturating_sub(LISTED);
    let shown: Vec<Value> = open.iter().chain(&ended).take(LISTED).map(|it| row(it)).collect();
    let running = open.len() - waiting;
    let mut told =
        json!({"agents": shown, "running": running, "waiting": waiting, "ended": ended.len()});
    if more > 0
        && let Some(told) = told.as_object_mut()
    {
        told.insert("left_out".to_owned(), json!(more));
    }
    ToolOutput::text(told.to_string())
}

fn row(agent: &Glance) -> Value {
    let goal = to_line(&agent.goal, GOAL_CHARS);
    let status = agent.doing.as_str();
    if matches!(agent.doing, Doing::Waiting | Doing::Ended(_)) {
        return json!({"agent": agent.id, "status": status, "goal": goal});
    }
    json!({
        "agent": agent.id,
        "status": status,
        "goal": goal,
        "iteration": agent.iteration,
        "current_tool": agent.current_tool.as_deref().map(|tool| to_line(tool, WORD_CHARS)),
        "idle_seconds": agent.idle_ms / 1000,
    })
}

fn message(arguments: &Value, chosen: &[&Glance], cx: &ToolCx) -> ToolCallResult {
    let text = arguments.get("message").and_then(Value::as_str).unwrap_or_default();
    let text = clean(text).text.into_owned();
    if text.trim().is_empty() {
        return Err(ToolError::refused("`message` needs `message`: what to say"));
    }
    if text.len() > MESSAGE_BYTES {
        return Err(ToolError::refused(format!(
            "the message has {} bytes, and a child takes at most {MESSAGE_BYTES}: write it to a \
             file that the child may read, and name that",
            text.len()
        )));
    }
    let letter = format!("A message of the agent that started you:\n{text}");
    let mut told = Vec::new();
    for agent in chosen {
        let delivery = cx.agent.session.spawn.message(&agent.id, letter.clone());
        told.push(json!({"agent": agent.id, "message": delivery.told()}));
    }
    Ok(ToolOutput::text(json!({"agents": told}).to_string()))
}

fn stop(chosen: &[&Glance], cx: &ToolCx) -> ToolOutput {
    let stopped = |agent: &&Glance| {
        let told = cx.agent.session.spawn.stop(&agent.id);
        let status = if told { "told to end" } else { "had ended" };
        json!({"agent": agent.id, "status": status})
    };
    let told: Vec<Value> = chosen.iter().map(stopped).collect();
    ToolOutput::text(json!({"agents": told}).to_string())
}

async fn join(arguments: &Value, chosen: &[&Glance], cx: &ToolCx) -> ToolCallResult {
    let all = arguments.get("wait_for").and_then(Value::as_str) != Some("any");
    let ids: Vec<AgentId> = chosen.iter().map(|agent| agent.id.clone()).collect();
    let spawn = &cx.agent.session.spawn;
    let cancelled = told_to_end(spawn.join(&ids, all), cx).await;
    let now = spawn.below(cx.agent.id());
    let rows: Vec<Value> = now.iter().filter(|it| ids.contains(&it.id)).map(row).collect();
    let told = json!({
        "agents": rows,
        "note": "the entry of each background child that has ended comes as a message of its own",
    });
    let output = ToolOutput::text(told.to_string());
    if cancelled { Err(ToolError::Cancelled(Box::new(output))) } else { Ok(output) }
}

/// Whether the call was told to end before what it waits for came.
async fn told_to_end(wait: BoxFuture<'_, ()>, cx: &ToolCx) -> bool {
    tokio::select! {
        biased;
        () = wait => false,
        () = cx.cancel.cancelled() => true,
    }
}
