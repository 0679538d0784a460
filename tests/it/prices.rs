//! A run that limits dollars begins only when it is known what its models cost; that is found out
//! before a run too, and what the error says to do is enough.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use crate::program::{Lab, ProgramEnd, RunningProgram, model};

/// The program under a configuration.
async fn with(lab: &Lab, config: &str, args: &[&str]) -> ProgramEnd {
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let mut command = lab.deputize(args);
    command.env("OPENAI_API_KEY", "a-key-of-nobody");
    RunningProgram::start(command).end().await
}

/// Holds that such a run is refused with these words, and that both commands that look at a
/// configuration find it out too.
async fn refused(lab: &Lab, config: &str, words: &[&str]) {
    let run = with(lab, config, &["run", "Go"]).await.with_code(2);
    let check = with(lab, config, &["config", "check"]).await.with_code(2);
    let doctor = with(lab, config, &["doctor"]).await.with_code(1);
    for (what, actual) in [("run", &run.err), ("check", &check.err), ("doctor", &doctor.out)] {
        for word in words {
            assert!(actual.contains(word), "{what} lacks `{word}`: {actual}");
        }
    }
    assert!(check.err.contains("config.yaml:"), "where it stands: {}", check.err);
}

#[tokio::test]
async fn a_price_that_is_not_known_is_found_before_the_run_and_its_remedy_works() {
    let lab = Lab::new();
    let server = model(|asked| {
        let child = asked.first_user().contains("Look");
        MockAnswer::reply(&match asked.results().len() {
            0 if !child => Reply::calls("mock", [("delegate_task", json!({"goal": "Look"}))]),
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let near = server.base_url();
    // Elsewhere than on this machine, where nothing costs; nobody is asked before there is a price.
    let far = "http://models.example/v1";
    let providers = format!("model: near/m\nproviders:\n  near: {{base_url: \"{near}\"}}\n");

    let begin = format!("{providers}budget: {{usd: 1}}\ndelegation:\n  model: qwen/a:b\n");
    let config = format!("{begin}  base_url: {far}\n");
    let price = r#"prices: {"qwen/a:b": {input: 1, output: 2}}"#;
    let entry = format!("{{base_url: {far}, {price}}}");
    let actual = [
        "`budget.usd` is a limit in dollars",
        "the price of `delegation:openai-chat/qwen/a:b` is not known",
        &format!("set `providers.NAME` to `{entry}`"),
        "`delegation.provider` to NAME in place of `delegation.base_url`",
    ];
    refused(&lab, &config, &actual).await;
    // As it says, to the letter; but the server is one that is there.
    let entry = entry.replace(far, &near);
    let done = config.replace(&format!("base_url: {far}"), "provider: there");
    let done = done.replace("providers:\n", &format!("providers:\n  there: {entry}\n"));
    with(&lab, &done, &["config", "check"]).await.with_code(0);
    let ended = with(&lab, &done, &["run", "--output", "json", "Go"]).await.with_code(0);
    let actual: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert!(actual["children"][0]["cost_usd"].as_f64().unwrap() > 0.0, "{actual:#}");

    let config = format!("{providers}  other: {{base_url: \"{far}\"}}\n");
    let config = format!("{config}delegation:\n  budget: {{usd: 1}}\n  models: [other/a.b]\n");
    let entry = r#"prices: {"a.b": {input: 1, output: 2}}"#;
    let actual = [
        "`delegation.budget.usd` is a limit in dollars",
        "the price of `other/a.b` is not known",
        &format!("set `providers.other` to have `{entry}`"),
    ];
    refused(&lab, &config, &actual).await;
    let done = config.replace(&format!("\"{far}\"}}"), &format!("\"{far}\", {entry}}}"));
    with(&lab, &done, &["config", "check"]).await.with_code(0);
    with(&lab, &done, &["run", "Go"]).await.with_code(0);
    // Without children none of their models is asked.
    let alone = config.replace("model: near/m", "model: near/m\ntoolsets: [file]");
    with(&lab, &alone, &["config", "check"]).await.with_code(0);
    with(&lab, &alone, &["run", "Go"]).await.with_code(0);

    let config = format!("{providers}delegation:\n  budget: {{usd: 1}}\n  acp_command: cat\n");
    refused(&lab, &config, &["the cost of children that are another program", "budget.seconds"])
        .await;
    let config = config.replace("usd: 1", "tokens: 1000");
    let actual = ["`delegation.budget.tokens` is a limit in tokens", "budget.seconds"];
    refused(&lab, &config, &actual).await;
}
