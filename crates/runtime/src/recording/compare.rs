//! Whether a request is the recorded one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use deputize_core::model::Request;
use deputize_core::{Message, ToolDecl};

use super::excerpt::excerpt;
use super::{SentRequest, hash};

/// The first part of a request that differs.
pub(crate) struct Difference {
    pub(crate) part: String,
    pub(crate) excerpt: String,
}

impl Difference {
    fn of(part: impl Into<String>, recorded: &str, now: &str) -> Self {
        Self { part: part.into(), excerpt: excerpt(recorded, now) }
    }

    fn describe(part: impl Into<String>, what: String) -> Self {
        Self { part: part.into(), excerpt: what + "\n" }
    }
}

/// Compares what would be sent now with what was sent: all the messages of the recorded request
/// and the rest of it. What no provider is sent (such as fingerprints of results) may differ.
pub(crate) fn compare(
    sent: &SentRequest,
    messages: &[Arc<Message>],
    texts: &BTreeMap<String, Arc<str>>,
    now: &Request<'_>,
) -> Result<(), Difference> {
    let text = |hash: &String| texts.get(hash).map_or("", |text| &**text);
    let recorded = sent.system.iter().map(text);
    let system = now.system.iter().map(|text| &**text);
    let differs = !system.clone().map(hash).eq(sent.system.iter().cloned());
    if differs {
        let join = |blocks: Vec<&str>| blocks.join("\n\n");
        let recorded = join(recorded.collect());
        let system = join(system.collect());
        return Err(Difference::of("the system text", &recorded, &system));
    }
    let tools = serde_json::to_string(now.tools).unwrap_or_default();
    if hash(&tools) != sent.tools {
        return Err(differing_tools(text(&sent.tools), now.tools));
    }
    differing_messages(messages, now.messages)?;
    if sent.tool_choice != now.tool_choice {
        let recorded = sent.tool_choice;
        let now = now.tool_choice;
        let what = format!("recorded: {recorded:?}; now: {now:?}");
        return Err(Difference::describe("whether tools may be called", what));
    }
    if sent.options != *now.options {
        let what = format!("recorded: {:?}; now: {:?}", sent.options, now.options);
        return Err(Difference::describe("the options", what));
    }
    Ok(())
}

fn differing_tools(recorded: &str, now: &[Arc<ToolDecl>]) -> Difference {
    let recorded: Vec<ToolDecl> = serde_json::from_str(recorded).unwrap_or_default();
    let names = |tools: &mut dyn Iterator<Item = &ToolDecl>| {
        tools.map(|tool| format!("{}\n", tool.name)).collect::<String>()
    };
    let old_names = names(&mut recorded.iter());
    let new_names = names(&mut now.iter().map(|tool| &**tool));
    if old_names != new_names {
        return Difference::of("the list of tools", &old_names, &new_names);
    }
    for (old, new) in recorded.iter().zip(now) {
        if old.description != new.description {
            let part = format!("the description of tool {}", old.name);
            return Difference::of(part, &old.description, &new.description);
        }
        let pretty = |tool: &ToolDecl| {
            let schema = tool.parameters.as_str();
            let value: Option<serde_json::Value> = serde_json::from_str(schema).ok();
            value.map_or_else(|| schema.to_owned(), |value| format!("{value:#}"))
        };
        if old.parameters != new.parameters {
            let part = format!("the parameters of tool {}", old.name);
            return Difference::of(part, &pretty(old), &pretty(new));
        }
    }
    Difference::describe("the tools", "their JSON differs".to_owned())
}

fn differing_messages(recorded: &[Arc<Message>], now: &[Arc<Message>]) -> Result<(), Difference> {
    for (at, (old, new)) in recorded.iter().zip(now).enumerate() {
        let old_text = show_message(old);
        let new_text = show_message(new);
        if old_text != new_text {
            let part = format!("message {} ({})", at + 1, kind(old));
            return Err(Difference::of(part, &old_text, &new_text));
        }
    }
    let common = recorded.len().min(now.len());
    if let Some(more) = recorded.get(common) {
        let part = format!("message {} ({}), which there is not now", common + 1, kind(more));
        return Err(Difference::of(part, &show_message(more), ""));
    }
    if let Some(more) = now.get(common) {
        let part = format!("message {} ({}), which was not recorded", common + 1, kind(more));
        return Err(Difference::of(part, "", &show_message(more)));
    }
    Ok(())
}

fn kind(message: &Message) -> String {
    match message {
        Message::User(_) => "user".to_owned(),
        Message::Assistant(_) => "assistant".to_owned(),
        Message::Tool(result) => format!("result of {}", result.call),
    }
}

/// Returns the content of a message as text.
fn show_message(message: &Message) -> String {
    match message {
        Message::User(user) => user.text.clone(),
        Message::Tool(result) => {
            format!("[{} {}]\n{}", result.call, result.status.as_str(), result.text)
        }
        Message::Assistant(said) => {
            let mut text = said.text.clone();
            if !said.reasoning.is_empty() {
                let _infallible = write!(text, "\n[reasoning]\n{}", said.reasoning);
            }
            for call in &said.calls {
                let _infallible = write!(text, "\n[{} {}]\n{}", call.id, call.name, call.arguments);
            }
            for block in &said.opaque {
                let _infallible = write!(text, "\n[{} block]\n{}", block.wire, block.raw);
            }
            text
        }
    }
}
