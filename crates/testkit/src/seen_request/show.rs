//! Displays requests.

use std::fmt;

use deputize_core::Message;
use deputize_core::message::AssistantMessage;
use deputize_core::model::ToolChoice;

use super::SeenRequest;

/// Formats the whole request in the order in which providers cache it: tools, system text,
/// messages.
impl fmt::Display for SeenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tool in &self.tools {
            writeln!(f, "=== tool {}\n{}", tool.name, tool.description)?;
            writeln!(f, "{:#}\n", tool.parameters.to_value())?;
        }
        for block in &self.system {
            writeln!(f, "=== system\n{block}\n")?;
        }
        for message in &self.messages {
            match &**message {
                Message::User(user) => writeln!(f, "=== user\n{}\n", user.text)?,
                Message::Assistant(reply) => assistant(f, reply)?,
                Message::Tool(result) => {
                    writeln!(f, "=== result of {} ({:?})", result.call, result.status)?;
                    writeln!(f, "{}\n", result.text)?;
                }
            }
        }
        if self.tool_choice != ToolChoice::Auto {
            writeln!(f, "=== tool choice {:?}", self.tool_choice)?;
        }
        Ok(())
    }
}

fn assistant(f: &mut fmt::Formatter<'_>, reply: &AssistantMessage) -> fmt::Result {
    writeln!(f, "=== assistant")?;
    if !reply.text.is_empty() {
        writeln!(f, "{}", reply.text)?;
    }
    for call in &reply.calls {
        writeln!(f, "calls {}({}) as {}", call.name, call.arguments, call.id)?;
    }
    writeln!(f)
}
