//! What a hook reads on its standard input: one JSON object.

use deputize_core::agent::AgentSpec;
use deputize_core::hook::{HookEvent, HookInput};
use deputize_delegate::result_entry;
use serde::Serialize;
use serde_json::{Value, json};

/// The object. Every field is always there; what an event does not have is null.
#[derive(Serialize)]
struct Document<'a> {
    event: &'static str,
    session: &'a str,
    agent: &'a str,
    parent: Option<&'a str>,
    depth: u32,
    cwd: &'a str,
    call: Option<String>,
    tool: Option<&'a str>,
    args: Value,
    status: Option<&'static str>,
    output: Value,
    /// Bytes of `output`: of a text, or of the object as JSON.
    output_bytes: usize,
}

/// The object of an event, as one line.
pub(super) fn document(input: &HookInput<'_>) -> Vec<u8> {
    let agent = input.agent;
    let cwd = agent.cwd.to_string_lossy();
    let about = input.event.call();
    let spawned_by = agent.spawned_by.as_ref().map(|by| by.call);
    let (args, status, output) = call_fields(agent, &input.event);
    let output_bytes = match &output {
        Value::Null => 0,
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    let call = match input.event {
        HookEvent::SubagentStart | HookEvent::SubagentStop { .. } => spawned_by,
        _ => about.map(|(call, _)| call),
    };
    let document = Document {
        event: input.event.point().as_str(),
        session: input.session.as_str(),
        agent: agent.id.as_str(),
        parent: agent.parent.as_ref().map(|id| id.as_str()),
        depth: agent.depth,
        cwd: &cwd,
        call: call.map(|call| call.to_string()),
        tool: about.map(|(_, tool)| tool),
        args,
        status,
        output,
        output_bytes,
    };
    let mut line = serde_json::to_vec(&document).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Arguments, status and output of an event.
fn call_fields(agent: &AgentSpec, event: &HookEvent<'_>) -> (Value, Option<&'static str>, Value) {
    match event {
        HookEvent::PreToolUse { arguments, .. } => ((*arguments).clone(), None, Value::Null),
        HookEvent::PostToolUse { arguments, status, output, .. } => {
            ((*arguments).clone(), Some(status.as_str()), json!(output))
        }
        HookEvent::UserPromptSubmit { prompt } => (json!({ "prompt": prompt }), None, Value::Null),
        HookEvent::SubagentStart => (child(agent), None, Value::Null),
        HookEvent::SubagentStop { outcome } => {
            let index = agent.spawned_by.as_ref().map_or(0, |by| by.task_index);
            (child(agent), Some(outcome.status.as_str()), result_entry(outcome, index))
        }
    }
}

fn child(agent: &AgentSpec) -> Value {
    json!({
        "goal": agent.goal,
        "context": agent.context,
        "role": agent.role.as_str(),
        "profile": agent.profile,
        "model": agent.model,
        "toolsets": agent.toolsets,
        "tools": agent.tools,
    })
}
