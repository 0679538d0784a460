//! An agent with MCP servers, shell hooks and a fallback model. Its task is recorded, and replayed
//! without model and server. Arguments: URL MODEL SERVER FILE, where SERVER is an MCP server such
//! as the example `mcp_server`.
#![expect(clippy::print_stdout, reason = "it shows what comes of it")]

use std::error::Error;

use deputize_agent::mcp::{ServerConfig, ServerDirectory};
use deputize_agent::{Agent, AgentBuilder, AgentModel};
use deputize_core::hook::HookPoint;
use deputize_core::policy::ApprovalAnswer;

fn settings(url: &str, model: &str, server: &str) -> Result<AgentBuilder, Box<dyn Error>> {
    let env = std::env::vars_os().collect();
    let words = ServerConfig::program("words", server, vec![], env, ServerDirectory::Workspace)?;
    Ok(Agent::builder()
        .model(AgentModel::at(url, model))
        .fallback_model(AgentModel::at(url, "another"))
        .mcp_servers([words])
        .shell_hook(HookPoint::PreToolUse, "cat >> hook.log")
        .approve(|_| ApprovalAnswer::yes("this example"))
        .workspace("."))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [_, url, model, server, file] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: agent_extensions URL MODEL SERVER FILE".into());
    };
    let agent = settings(url, model, server)?.build()?;
    let outcome = agent.record("Count the words of `a b c`.", file).await?;
    println!("answer: {}", outcome.text.unwrap_or_default());
    let again = Agent::replay(settings(url, model, server)?, file).await?;
    println!("played again: {}", again.text.unwrap_or_default());
    Ok(())
}
