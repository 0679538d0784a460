//! `send_message`: a message to one of the person's targets.

use deputize_core::schema::Schema;
use deputize_core::tool::{CallCheck, CallRisk, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, Availability, Effects, Example, ParentOnly, ResourceMap, Subject,
    ToolCallResult, ToolCx, ToolDecl, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

mod message_error;
mod message_file;
mod messenger;
mod notification;
mod settings;
mod target;

pub use message_error::MessageError;
pub use messenger::Messenger;
pub use notification::NotificationTerminal;
pub use settings::{MESSAGE_BYTES, MESSAGE_SECONDS, MessageSettings};
pub use target::{MessageTarget, WebhookTarget};

use crate::processes::Processes;

const DESCRIPTION: &str = "Send a message to one of the person's targets. It cannot be taken back.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    target: String,
    text: String,
}

#[derive(Debug)]
pub(crate) struct SendMessage;

impl TypedTool for SendMessage {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"target": "team", "text": "The build is green."});
        let decl = spec_of::<Args>("send_message", DESCRIPTION);
        ToolSpec {
            examples: vec![Example { title: "A message", arguments }],
            parent_only: Some(ParentOnly::Other("only the top agent speaks to others")),
            kind: ToolKind::Other,
            subject: Subject::new(Some("send".into()), "target", ArgumentRole::Text)
                .with("text", ArgumentRole::Text),
            // A delivery has a limit of its own.
            time_limit: None,
            risk: Some(CallRisk::new(
                CallRisk::OUTGOING,
                "others may read the message, and it cannot be taken back",
            )),
            ..ToolSpec::effectful(decl, Effects::Unknown)
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        let settings = settings.get_or_insert_with(MessageSettings::default);
        if !settings.targets.is_empty() {
            return Availability::Yes;
        }
        let remedy = match settings.setting_names.name("targets") {
            "" => String::new(),
            name => format!(": set `{name}`"),
        };
        Availability::No(format!("no target for messages is configured{remedy}"))
    }

    /// Names the targets, and nothing behind them.
    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        let settings = agent.session.settings.get_or_insert_with(MessageSettings::default);
        let decl = Self::spec().decl;
        let mut schema = decl.parameters.to_value();
        let target = schema.pointer_mut("/properties/target")?.as_object_mut()?;
        target.insert("enum".to_owned(), settings.targets.keys().cloned().collect());
        Some(ToolDecl { parameters: Schema::new(&schema).ok()?, ..decl })
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        let settings = cx.agent.session.settings.get_or_insert_with(MessageSettings::default);
        check_network(&settings, &args, cx)?;
        settings.check(&args.target, &args.text)?;
        Ok(CallCheck::Accepted)
    }

    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let settings = agent.session.settings.get_or_insert_with(MessageSettings::default);
        let way = settings.targets.get(&args.target).map(MessageTarget::describe);
        way.map(|way| ("it goes".to_owned(), Value::String(way))).into_iter().collect()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        let settings = cx.agent.session.settings.get_or_insert_with(MessageSettings::default);
        check_network(&settings, &args, cx)?;
        let processes = cx.agent.session.settings.get_or_insert_with(Processes::default);
        let messenger =
            Messenger { settings: &settings, processes: &processes, cancel: &cx.cancel };
        let sent = messenger.send(&args.target, &args.text).await;
        if sent.is_err() && cx.cancel.is_cancelled() {
            let unsure = "whether the message was sent is not known";
            return Err(ToolError::Cancelled(Box::new(ToolOutput::default().note(unsure))));
        }
        Ok(ToolOutput::text(sent?))
    }
}

deputize_core::register_tool!("messaging", SendMessage);

/// Returns an error if the agent may not reach the target.
fn check_network(settings: &MessageSettings, args: &Args, cx: &ToolCx) -> Result<(), ToolError> {
    let target = settings.targets.get(&args.target);
    if matches!(target, Some(MessageTarget::Webhook(_))) && !cx.agent.authority.network() {
        return Err(ToolError::refused("this agent may not use the network"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
