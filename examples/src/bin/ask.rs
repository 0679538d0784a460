//! An agent that works on a directory with any server that speaks Chat Completions:
//! `ask http://127.0.0.1:8080/v1 qwen3 "Explain src/main.rs"`.
#![expect(clippy::print_stdout, reason = "it shows the answer")]

use std::error::Error;

use deputize_agent::{Agent, AgentModel, DelegationConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [_, url, model, task] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: ask URL MODEL TASK".into());
    };
    let agent = Agent::builder()
        .model(AgentModel::at(url, model))
        .tools(deputize_tools::LINK)
        .workspace(".")
        .delegation(DelegationConfig::default())
        .build()?;
    println!("{}", agent.run(task).await.text.unwrap_or_default());
    Ok(())
}
