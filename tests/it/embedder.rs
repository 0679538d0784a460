//! The command line and an embedder put agents together each for itself: what a model is sent first
//! is the same.

use std::collections::BTreeSet;
use std::ffi::OsString;

use deputize_agent::{Agent, AgentModel, DelegationConfig};
use deputize_core::Catalog;
use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::Value;

use crate::program::{Lab, model};

async fn server() -> MockServer {
    model(|_| MockAnswer::reply(&Reply::text("mock", "Done."))).await
}

/// The tools of a request, and its system text without the line on who reads the answer, which only
/// the command line knows.
fn shared_parts(request: &HttpRequest) -> (Value, String) {
    let body = request.json();
    let system = body["messages"][0]["content"].as_str().unwrap();
    let lines = system.lines().filter(|line| !line.starts_with("Your answer is written to a pipe"));
    (body["tools"].clone(), lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// The toolsets of the tools of a request, as the command line names them.
fn toolsets(tools: &Value) -> String {
    let links = [deputize_tools::LINK, deputize_agent::session_index::LINK];
    let catalog = Catalog::linked(&links).unwrap();
    let toolset = |tool: &Value| {
        let name = tool["function"]["name"].as_str().unwrap();
        let set = catalog.get(name).map(|entry| entry.toolset.to_string());
        set.unwrap_or_else(|| deputize_delegate::DELEGATION_TOOLSET.to_string())
    };
    let names: BTreeSet<String> = tools.as_array().unwrap().iter().map(toolset).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn the_program_and_an_embedder_send_the_same_tools_in_one_order_and_the_same_prompt() {
    let lab = Lab::new();
    let variables = [("HOME", lab.path("")), ("DEPUTIZE_HOME", lab.path("home"))];
    let variables = variables.map(|(name, path)| (OsString::from(name), path.into_os_string()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    for delegation in [None, Some(DelegationConfig::default())] {
        let embedded = server().await;
        let agent = Agent::builder()
            .model(AgentModel::at(embedded.base_url(), "mock"))
            .tools(deputize_tools::LINK)
            .workspace(lab.work(""))
            .profiles(deputize_tools::bundled_profiles())
            .memory_files(lab.path("facts"))
            .session_search()
            .env(variables.clone().into_iter().chain([("PATH".into(), path.clone())]));
        let agent = match delegation.clone() {
            Some(config) => agent.delegation(config),
            None => agent,
        };
        agent.build().unwrap().run("Look around").await;
        let (tools, system) = shared_parts(&embedded.requests()[0]);
        let names = toolsets(&tools);
        assert!(names.contains("file") && names.contains("terminal"), "{names}");

        let program = server().await;
        lab.run(&program, &["-t", &names, "Look around"]).end().await.with_code(0);
        let (own_tools, own_system) = shared_parts(&program.requests()[0]);
        let of = |tools: &Value| serde_json::to_string_pretty(tools).unwrap();
        assert_eq!(of(&own_tools), of(&tools), "{names}");
        assert_eq!(own_system, system, "{names}");
    }
}
