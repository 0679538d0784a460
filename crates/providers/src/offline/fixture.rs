//! Conversations with the model, its tools played by a function.

use std::sync::Arc;

use deputize_core::door::{FrameSecret, Source, to_model};
use deputize_core::{
    AgentId, CallStatus, Input, Limits, ModelOptions, ModelText, Request, Run, Schema, SessionId,
    Status, Step, ToolDecl, ToolName, ToolResult, UserMessage,
};
use serde_json::{Value, json};

use super::answer;

/// What a tool gives: how it ended, its content, and a remark of the host.
pub(super) type Given = (CallStatus, String, &'static str);

/// A call that did its work.
pub(super) fn ok(content: &str, note: &'static str) -> Given {
    (CallStatus::Ok, content.to_owned(), note)
}

/// A finished conversation.
pub(super) struct Talk {
    pub(super) answer: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) steps: u32,
    /// Whether the turn ended as failed.
    pub(super) failed: bool,
}

/// Talks until the answer, or until the steps are used up and the closing answer is asked for.
pub(super) fn talk(
    task: &str,
    tools: &[&'static str],
    most_steps: u32,
    play: impl FnMut(&str, &Value) -> Given,
) -> Talk {
    talk_in(&[], task, tools, most_steps, play)
}

/// The same with a system prompt.
pub(super) fn talk_in(
    system: &[Arc<str>],
    task: &str,
    tools: &[&'static str],
    most_steps: u32,
    mut play: impl FnMut(&str, &Value) -> Given,
) -> Talk {
    let tools: Vec<Arc<ToolDecl>> = tools.iter().map(|name| Arc::new(declaration(name))).collect();
    let limits = Limits { max_iterations: most_steps, time_ms: 0, wrap_up_ms: 0 };
    let mut run = Run::new(limits, []);
    run.apply(Input::Message(&UserMessage { text: task.to_owned(), from: None }));
    let mut made = Vec::new();
    let agent = AgentId::root(&SessionId::literal("s"));
    loop {
        match run.step() {
            Step::Ask { tools: tool_choice, .. } => {
                let messages = run.messages().to_vec();
                let options = ModelOptions::default();
                let request = Request {
                    model: "offline",
                    system,
                    tools: &tools,
                    messages: &messages,
                    tool_choice,
                    options: &options,
                };
                let reply = answer(&request);
                assert_eq!(reply, answer(&request), "equal requests give equal replies");
                run.apply(Input::Reply(&reply));
            }
            Step::Call(calls) => {
                let calls: Vec<_> = calls.into_iter().cloned().collect();
                for call in calls {
                    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                    let (status, content, note) = play(&call.name, &arguments);
                    let source = Source::Tool(call.name.clone());
                    let secret = FrameSecret::new(&[7; 16]);
                    let framed = to_model(&secret, &agent, call.id, &source, &content);
                    let text = ModelText::own(format!("{framed}\n[{note}]"));
                    made.push((call.name, arguments));
                    let fingerprint = String::new();
                    run.apply(Input::Result(&ToolResult {
                        call: call.id,
                        status,
                        text,
                        fingerprint,
                    }));
                }
            }
            Step::Done(end) => {
                let answer = end.text.clone().unwrap_or_default();
                let failed = end.status == Status::Failed;
                return Talk { answer, calls: made, steps: run.iterations(), failed };
            }
            Step::Rest => panic!("it rests"),
        }
    }
}

fn declaration(name: &'static str) -> ToolDecl {
    let tasks = json!({"tasks": {"type": "array", "maxItems": 2}});
    let schema = json!({"type": "object", "properties": tasks});
    ToolDecl {
        name: ToolName::literal(name),
        description: String::new(),
        parameters: Schema::new(&schema).unwrap(),
    }
}
