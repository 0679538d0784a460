//! An agent and its children as a tree, while they work: what a screen or a status page shows.
//! Arguments: URL MODEL TASK.
#![expect(clippy::print_stdout, reason = "it shows what the agents do")]

use std::error::Error;
use std::time::Duration;

use deputize_agent::{Agent, AgentModel, DelegationConfig, SessionSnapshot};

/// Prints each agent: what it does, what it has used, what it is about.
fn show(session: &SessionSnapshot) {
    for agent in session.agents() {
        let indent = "  ".repeat(agent.depth as usize);
        let call = agent.calls.running.first().map_or("", |call| &call.text);
        let activity = agent.activity().as_str();
        let steps = agent.usage.replies;
        println!("{indent}{activity}: {} ({steps} steps) {call}", agent.goal);
    }
    let total = session.totals();
    println!("{} agents, {} tokens", total.agents(), total.tokens.input + total.tokens.output);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let [_, url, model, task] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: agent_tree URL MODEL TASK".into());
    };
    let agent = Agent::builder()
        .model(AgentModel::at(url, model))
        .workspace(".")
        .delegation(DelegationConfig::default())
        .build()?;
    let mut run = std::pin::pin!(agent.run(task));
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            biased;
            outcome = &mut run => {
                println!("answer: {}", outcome.text.unwrap_or_default());
                return Ok(());
            }
            _ = ticks.tick() => agent.snapshots().iter().for_each(show),
        }
    }
}
