//! The tool by which an agent sees and reaches those below it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use deputize_core::agent::{AgentActivity, AgentSummary, ContinueError, FurtherTask};
use deputize_core::sanitize::for_terminal_line;
use deputize_core::schema::{Schema, SchemaError};
use deputize_core::{
    AgentId, ArgumentRole, Availability, BoxFuture, CatalogEntry, Effects, Origin, Subject, Tool,
    ToolCallResult, ToolCx, ToolDecl, ToolError, ToolKind, ToolOutput, ToolSpec,
};
use serde_json::{Value, json};

use crate::call_error::{CallError, CallErrorCode, Refusal, bounded};
use crate::fields::{CallFindings, Fields, WORD_CHARS, object};
use crate::file_snapshot::FileSnapshot;
use crate::inspect::CallSnapshots;
use crate::names::{DELEGATE_CONTROL, DELEGATION_TOOLSET};

const ACTIONS: [&str; 5] = ["list", "message", "continue", "stop", "join"];
/// What `join` waits for.
const WAITS: [&str; 2] = ["any", "all"];
const FIELDS: [&str; 5] = ["action", "agents", "all", "message", "wait_for"];
const DESCRIPTION: &str = include_str!("../prompts/control.md");
/// Limit on listed agents; more are counted.
const LISTED: usize = 100;
/// Limit on a goal in a list, in characters.
const GOAL_CHARS: usize = 120;
/// Limit on one message to a child, in bytes.
const MESSAGE_BYTES: usize = 64 * 1024;

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
    /// Creates the tool.
    ///
    /// # Errors
    /// Never with a released core: the parameters are a constant of this crate.
    pub fn new() -> Result<Self, SchemaError> {
        let agents = "Handles; default: all running below you, except for `stop`";
        let parameters = Schema::new(&json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ACTIONS},
                "agents": {"type": "array", "items": {"type": "string"}, "description": agents},
                "all": {"type": "boolean", "description": "For `stop`: all running below you"},
                "message": {"type": "string", "description": "What to say"},
                "wait_for": {"type": "string", "enum": WAITS, "default": "all",
                             "description": "For `join`"},
            },
            "required": ["action"],
        }))?;
        let decl = ToolDecl {
            name: DELEGATE_CONTROL,
            description: DESCRIPTION.trim_end().to_owned(),
            parameters,
        };
        let spec = ToolSpec {
            decl,
            // What a child does because of it is judged where it does it.
            effects: Effects::ReadOnly,
            risk: None,
            harmless: None,
            needs_person: false,
            parent_only: None,
            kind: ToolKind::Delegate,
            subject: Subject::new(Some("control".into()), "action", ArgumentRole::Action)
                .with("agents", ArgumentRole::Agents),
            // A child would be told twice.
            repeatable: false,
            spawns: false,
            // It sees what the calls before it started.
            parallel: false,
            time_limit: None,
            usable: Availability::Yes,
            examples: Vec::new(),
        };
        Ok(Self { spec })
    }

    /// Returns the tool in its toolset, for a catalog.
    #[must_use]
    pub fn into_entry(self) -> CatalogEntry {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        CatalogEntry { toolset: DELEGATION_TOOLSET, origin, tool: Arc::new(self) }
    }
}

impl Tool for ControlTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move { control(&arguments, cx).await })
    }

    // As a call of `delegate_task` is read.
    fn reads_itself(&self) -> bool {
        true
    }

    // What only looks or waits, and an order to end, do the same again.
    fn may_repeat(&self, arguments: &Value) -> bool {
        let order = order(arguments, &mut CallFindings::default());
        ["list", "join", "stop"].contains(&order.action)
    }
}

/// A call, as far as it could be parsed.
#[derive(Default)]
struct ControlCall {
    action: &'static str,
    agents: Vec<String>,
    all: bool,
    message: Option<String>,
    any: bool,
}

/// Reads a call as one of `delegate_task` is read.
fn order(arguments: &Value, faults: &mut CallFindings) -> ControlCall {
    let map = match object(arguments, "an `action`") {
        Ok(map) => map,
        Err(error) => {
            faults.errors.push(*error);
            return ControlCall::default();
        }
    };
    let fields = Fields { map: &map, task: None };
    fields.warn_unknown(|field| FIELDS.contains(&field), faults);
    let action = fields.choice("action", CallErrorCode::Action, &ACTIONS, faults);
    if fields.present("action").is_none() {
        let remedy = format!("give an `action`: one of {}", ACTIONS.join(", "));
        faults.errors.push(fields.error(CallErrorCode::Action, "action", &Value::Null, &remedy));
    }
    ControlCall {
        action: action.unwrap_or_default(),
        agents: named(&fields, faults),
        all: fields.flag("all", faults).unwrap_or_default(),
        message: fields.text("message", faults),
        any: fields.choice("wait_for", CallErrorCode::Type, &WAITS, faults) == Some("any"),
    }
}

/// The handles that a call names: a list, or one alone.
fn named(fields: &Fields<'_>, faults: &mut CallFindings) -> Vec<String> {
    match fields.list("agents") {
        Some(Err(Value::String(one))) => vec![one.trim().to_owned()],
        _ => fields.names("agents", "SESSION/1.0.0", faults).into_iter().flatten().collect(),
    }
}

async fn control(arguments: &Value, cx: &ToolCx) -> ToolCallResult {
    let below = cx.agent.session.control.descendants(cx.agent.id());
    let mut faults = CallFindings::default();
    let order = order(arguments, &mut faults);
    let chosen = chosen(&order.agents, &below, &mut faults);
    faults.errors.extend(wanting(&order));
    let CallFindings { errors, warnings } = faults;
    if !errors.is_empty() {
        return Err(refused(errors, warnings));
    }
    let mut answer = match (order.action, order.message) {
        ("message", Some(text)) => message(&text, &chosen, cx),
        ("continue", Some(goal)) => match continue_child(goal, &chosen, cx).await {
            Ok(answer) => answer,
            Err(error) => return Err(refused(vec![*error], warnings)),
        },
        ("stop", _) => stop(&chosen, cx),
        ("join", _) => {
            let mut ids: BTreeSet<AgentId> = chosen.iter().map(|agent| agent.id.clone()).collect();
            if order.agents.is_empty() {
                // An end that it was not told of is one that it would wait for.
                ids.extend(cx.agent.session.control.unreported(cx.agent.id()));
            }
            let ids: Vec<AgentId> = ids.into_iter().collect();
            return join(&ids, !order.any, warnings, cx).await;
        }
        _ => list(&below, &order.agents, &chosen),
    };
    warn(&mut answer, warnings);
    Ok(ToolOutput::text(answer.to_string()))
}

fn refused(errors: Vec<CallError>, warnings: Vec<String>) -> ToolError {
    ToolError::refused(Refusal::of("nothing was done", errors, warnings).to_json())
}

/// Returns an error about a missing argument of an action; `None` if nothing is missing.
fn wanting(order: &ControlCall) -> Option<CallError> {
    let wrong =
        |code, field, value, remedy| Some(CallError::new(code, None, field, &value, remedy));
    match (order.action, &order.message) {
        ("stop", _) if order.agents.is_empty() && !order.all => wrong(
            CallErrorCode::Agents,
            "agents",
            Value::Null,
            "`stop` needs `agents`, the handles of those to stop, or `all`: true for all that run \
             below you"
                .to_owned(),
        ),
        ("continue", _) if order.agents.len() != 1 => wrong(
            CallErrorCode::Agents,
            "agents",
            json!(order.agents),
            "`continue` needs `agents` with one handle: that of a child that has ended".to_owned(),
        ),
        ("message" | "continue", None) => wrong(
            CallErrorCode::Message,
            "message",
            Value::Null,
            format!("`{}` needs `message`: what to say", order.action),
        ),
        ("message" | "continue", Some(text)) if text.len() > MESSAGE_BYTES => wrong(
            CallErrorCode::Message,
            "message",
            json!(text.len()),
            format!(
                "the message has {} bytes, and a child takes at most {MESSAGE_BYTES}: write it to \
                 a file that the child may read, and name that",
                text.len()
            ),
        ),
        _ => None,
    }
}

/// Adds warnings to a result, if there are any.
fn warn(answer: &mut Value, warnings: Vec<String>) {
    if let Some(answer) = answer.as_object_mut().filter(|_| !warnings.is_empty()) {
        answer.insert("warnings".to_owned(), json!(bounded(warnings)));
    }
}

/// The agents that a call means: those it names, or all that run.
fn chosen<'g>(
    named: &[String],
    below: &'g [AgentSummary],
    faults: &mut CallFindings,
) -> Vec<&'g AgentSummary> {
    if named.is_empty() {
        return below.iter().filter(|agent| !agent.activity.has_ended()).collect();
    }
    let mut chosen = Vec::new();
    for name in named {
        if let Some(agent) = below.iter().find(|agent| agent.id.as_str() == name) {
            chosen.push(agent);
            continue;
        }
        let remedy = format!(
            "no agent `{}` is below you; you reach only those: `list` without `agents` shows them",
            for_terminal_line(name, WORD_CHARS)
        );
        faults.errors.push(CallError::new(
            CallErrorCode::Agents,
            None,
            "agents",
            &json!(name),
            remedy,
        ));
    }
    chosen
}

fn list(below: &[AgentSummary], named: &[String], chosen: &[&AgentSummary]) -> Value {
    let all: Vec<&AgentSummary> =
        if named.is_empty() { below.iter().collect() } else { chosen.to_vec() };
    // Those that have not ended first.
    let (open, ended): (Vec<&AgentSummary>, Vec<&AgentSummary>) =
        all.into_iter().partition(|agent| !agent.activity.has_ended());
    let waiting = open.iter().filter(|agent| agent.activity == AgentActivity::Waiting).count();
    let more = (open.len() + ended.len()).saturating_sub(LISTED);
    let shown: Vec<Value> = open.iter().chain(&ended).take(LISTED).map(|it| row(it)).collect();
    let running = open.len() - waiting;
    let mut answer =
        json!({"agents": shown, "running": running, "waiting": waiting, "ended": ended.len()});
    if more > 0
        && let Some(answer) = answer.as_object_mut()
    {
        answer.insert("left_out".to_owned(), json!(more));
    }
    answer
}

fn row(agent: &AgentSummary) -> Value {
    let goal = for_terminal_line(&agent.goal, GOAL_CHARS);
    let status = agent.activity.as_str();
    if matches!(agent.activity, AgentActivity::Waiting | AgentActivity::Ended(_)) {
        return json!({"agent": agent.id, "status": status, "goal": goal});
    }
    json!({
        "agent": agent.id,
        "status": status,
        "goal": goal,
        "iteration": agent.iteration,
        "current_tool": agent.current_tool.as_deref().map(|tool| for_terminal_line(tool, WORD_CHARS)),
        "idle_seconds": agent.idle_ms / 1000,
    })
}

fn message(text: &str, chosen: &[&AgentSummary], cx: &ToolCx) -> Value {
    let framed = format!("A message of the agent that started you:\n{text}");
    let mut rows = Vec::new();
    for agent in chosen {
        let delivery = cx.agent.session.control.message(cx.agent.id(), &agent.id, framed.clone());
        rows.push(json!({"agent": agent.id, "message": delivery.as_text()}));
    }
    json!({"agents": rows})
}

/// Gives an ended child a further task, whose entry comes as that of a background child.
async fn continue_child(
    goal: String,
    chosen: &[&AgentSummary],
    cx: &ToolCx,
) -> Result<Value, Box<CallError>> {
    let agent = &cx.agent;
    let control = &agent.session.control;
    let before = Arc::new(FileSnapshot::take(&agent.session, agent.id()).await);
    let snapshots = CallSnapshots::of(agent);
    let mut rows = Vec::new();
    for child in chosen {
        let id = &child.id;
        snapshots.add(id, &before);
        let task = FurtherTask { call: cx.call, goal: goal.clone() };
        if let Err(error) = control.continue_child(agent, id, &task).await {
            snapshots.remove(id);
            let remedy = format!("{error}; {}", remedy(&error));
            let code = CallErrorCode::Agents;
            return Err(Box::new(CallError::new(code, None, "agents", &json!(id), remedy)));
        }
        let now = control.descendants(agent.id()).into_iter().find(|it| it.id == *id);
        let status = now.map_or(AgentActivity::Running, |now| now.activity).as_str();
        rows.push(json!({"agent": id, "status": status}));
    }
    Ok(json!({"agents": rows}))
}

/// Returns what to do where a child gets no further task.
const fn remedy(error: &ContinueError) -> &'static str {
    match error {
        ContinueError::Unknown(_) => "you continue only children of your own that have ended",
        ContinueError::Running => "use `message` to tell it something, or `join` to wait for it",
        ContinueError::Unreported => "it arrives before your next step",
        _ => "delegate the task to a new child, or do it yourself",
    }
}

fn stop(chosen: &[&AgentSummary], cx: &ToolCx) -> Value {
    let stopped = |agent: &&AgentSummary| {
        let stops = cx.agent.session.control.stop(&agent.id);
        let status = if stops { "stopping" } else { "had ended" };
        json!({"agent": agent.id, "status": status})
    };
    let rows: Vec<Value> = chosen.iter().map(stopped).collect();
    json!({"agents": rows})
}

async fn join(ids: &[AgentId], all: bool, warnings: Vec<String>, cx: &ToolCx) -> ToolCallResult {
    let control = &cx.agent.session.control;
    let cancelled = already_stopping(control.join(ids, all), cx).await;
    let now = control.descendants(cx.agent.id());
    let rows: Vec<Value> = now.iter().filter(|it| ids.contains(&it.id)).map(row).collect();
    let mut answer = json!({
        "agents": rows,
        "note": "the entry of each background child that has ended comes as a message of its own",
    });
    warn(&mut answer, warnings);
    let output = ToolOutput::text(answer.to_string());
    if cancelled { Err(ToolError::Cancelled(Box::new(output))) } else { Ok(output) }
}

/// Waits, and returns whether the call was cancelled first.
async fn already_stopping(wait: BoxFuture<'_, ()>, cx: &ToolCx) -> bool {
    tokio::select! {
        biased;
        () = wait => false,
        () = cx.cancel.cancelled() => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_repeated_by_the_action_that_it_is_read_as() {
        let tool = ControlTool::new().unwrap();
        for arguments in [json!({"action": "Join"}), json!(r#"{"action": "list"}"#)] {
            assert!(tool.may_repeat(&arguments), "{arguments}");
        }
        for arguments in
            [json!({"action": "Message"}), json!({"action": "continue"}), json!({}), json!(null)]
        {
            assert!(!tool.may_repeat(&arguments), "{arguments}");
        }
    }
}
