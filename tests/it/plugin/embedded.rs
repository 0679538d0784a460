//! Plugins of an agent that a program of one's own builds.

use deputize_agent::{Agent, AgentModel, PluginConfig};
use deputize_core::model::Reply;
use deputize_core::policy::ApprovalAnswer;
use deputize_testkit::ScriptedModel;
use serde_json::json;

use super::{library, sha256};
use crate::program::Lab;

#[tokio::test]
async fn an_agent_of_a_program_of_ones_own_calls_a_plugin() {
    let lab = Lab::new();
    let file = library("archive");
    let plugin =
        |isolated| PluginConfig { isolated, ..PluginConfig::new(&file, sha256(&lab, &file)) };
    let model = ScriptedModel::rule(|seen| {
        assert!(seen.has_tool("archive_list"), "{seen:?}");
        Some(match seen.results().last() {
            None => Reply::calls("m", [("archive_list", json!({"path": "none.zip"}))]).into(),
            Some(result) => Reply::text("m", result.text.as_str()).into(),
        })
    });
    let builder = || Agent::builder().workspace(lab.path("")).approve(|_| ApprovalAnswer::yes("t"));
    let agent = builder().model(AgentModel::value("m", model)).plugin(plugin(false));
    let text = agent.build().unwrap().run("Look into it.").await.text.unwrap();
    assert!(text.contains("none.zip"), "{text}");

    // This test is no program that starts itself as the process of a plugin.
    let never = AgentModel::value("m", ScriptedModel::rule(|_| None));
    let error = builder().model(never).plugin(plugin(true)).build().unwrap_err();
    assert!(error.to_string().contains("call `run_as_helper` first in `main`"), "{error}");
}
