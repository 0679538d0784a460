//! An agent with your own model, inside your own program. This model is a rule. A real one asks a
//! server, passes what arrives to `live`, and stops when `cancel` says so.
#![expect(clippy::print_stdout, reason = "it shows what came of it")]

use std::error::Error;

use deputize_agent::{Agent, AgentModel};
use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Message, Model, tool};

deputize_core::tool_crate!();

/// Turn a text around.
#[tool(toolset = "words", effects = read_only)]
pub async fn reverse(
    /// The text.
    text: String,
) -> String {
    text.chars().rev().collect()
}

/// Calls the first tool it has with the task, and repeats what that gives.
struct Parrot;

impl Model for Parrot {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            Ok(match (request.messages.last().map(|last| &**last), request.tools.first()) {
                (Some(Message::User(user)), Some(tool)) => {
                    let arguments = serde_json::json!({ "text": user.text });
                    Reply::calls("parrot", [(tool.name.as_str(), arguments)])
                }
                (Some(Message::Tool(result)), _) => {
                    live(Delta::Text(result.text.as_str()));
                    Reply::text("parrot", result.text.as_str())
                }
                _ => Reply::text("parrot", "I have nothing to repeat."),
            })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let agent = Agent::builder()
        .model(AgentModel::value("zoo/parrot", Parrot))
        .tools(LINK)
        .workspace(folder.path())
        .build()?;
    let outcome = agent.run("desserts").await;
    println!("{}", outcome.text.unwrap_or_default());
    Ok(())
}
