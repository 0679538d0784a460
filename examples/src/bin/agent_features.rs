//! Features of an agent, each in one line: children, their profiles and heartbeats, memory, events as they happen, text as it
//! arrives, approvals, typed answers, resuming a session, cancelling a task. Arguments: URL MODEL.
#![expect(clippy::print_stdout, reason = "it shows what comes of it")]

use std::error::Error;
use std::process::ExitCode;

use deputize_agent::{Agent, AgentModel, DelegationConfig, Heartbeat, run_as_helper};
use deputize_core::model::Delta;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::{AgentId, Cancel, CancelReason, Observer, Record};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Count {
    /// How many tests there are.
    tests: u32,
}

/// Prints text while it arrives.
struct Print;

impl Observer for Print {
    fn on_record(&self, _: &Record) {}

    fn on_delta(&self, _: &AgentId, delta: Delta<'_>) {
        if let Delta::Text(text) = delta {
            println!("text: {text}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(url: &str, model: &str) -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder()
        .model(AgentModel::at(url, model))
        .tools(deputize_tools::LINK)
        .workspace(".")
        .delegation(DelegationConfig::default())
        .profiles(deputize_tools::bundled_profiles())
        .memory_files("memory")
        .heartbeat(Heartbeat::default())
        .on_record(|record| println!("record {} of {}", record.seq, record.agent))
        .observer(Print)
        .approve(|question| match question.command.as_str() {
            "cargo test" => ApprovalAnswer::yes("the list of safe commands"),
            _ => ApprovalAnswer::no("the list of safe commands"),
        })
        .build()?;

    let outcome = agent.run("Run the tests.").await;
    println!("answer: {}", outcome.text.unwrap_or_default());

    let next = agent.resume(&outcome.agent.session(), Some("And once more.")).await?;
    println!("answer: {}", next.text.unwrap_or_default());

    let outcome = agent.run("Have a child name the license.").await;
    println!("answer: {}", outcome.text.unwrap_or_default());

    let count: Count = agent.answer("How many tests are there?").await?;
    println!("tests: {}", count.tests);

    let cancel = Cancel::new();
    cancel.cancel(CancelReason::Interrupted);
    let outcome = agent.run_until("Wait.", &cancel).await;
    println!("status: {}", outcome.status.as_str());
    Ok(())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // Commands end with this program, also when it is killed.
    if let Some(code) = run_as_helper() {
        return Ok(code);
    }
    let [_, url, model] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: agent_features URL MODEL".into());
    };
    run(url, model)?;
    Ok(ExitCode::SUCCESS)
}
