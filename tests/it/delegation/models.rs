//! Which model children have, with which key and which limits.

use std::fs;

use deputize_testkit::Answer;
use serde_json::json;

use super::{call, is_child, messages, of, result, run, say};
use crate::program::{Asked, Lab, Running, model};

/// A parent that hands one thing on, and a child that answers at once.
pub(super) fn one_child(asked: &Asked) -> Answer {
    match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Look at one"})),
        (false, _) => say("Looked."),
        (true, _) => say("I looked."),
    }
}

#[tokio::test]
async fn a_key_goes_to_no_endpoint_that_it_is_not_meant_for() {
    for (set, key, named, served) in [
        // An address without a key gets none.
        (vec!["base_url=@FAR", "model=big/one"], None, "big/one", "delegation:openai-chat/big/one"),
        (
            vec!["base_url=@FAR", "model=m", "api_key_env=FAR_KEY"],
            Some("Bearer far-123456"),
            "m",
            "delegation:openai-chat/m",
        ),
        (vec!["provider=far", "model=a/b"], Some("Bearer own-123456"), "a/b", "delegation:far/a/b"),
        (vec!["provider=far", "model=m", "base_url=@ELSE"], None, "m", "delegation:far/m"),
        (vec!["provider=far"], Some("Bearer own-123456"), "mock", "delegation:far"),
        (vec!["model=far/m"], Some("Bearer own-123456"), "m", "far/m"),
    ] {
        let lab = Lab::new();
        let (near, far, elsewhere) =
            (model(one_child).await, model(one_child).await, model(one_child).await);
        let mut command = lab.deputize(&["run", "-m", "near/mock"]);
        for (provider, server, key) in [("near", &near, "NEAR_KEY"), ("far", &far, "OWN_KEY")] {
            let entry = json!({"base_url": server.base_url(), "api_key_env": key});
            command.args(["--set", &format!("providers.{provider}={entry}")]);
        }
        for set in &set {
            let set = set.replace("@FAR", &far.base_url()).replace("@ELSE", &elsewhere.base_url());
            command.args(["--set", &format!("delegation.{set}")]);
        }
        command.args(["--output", "events", "Go"]);
        command.env("NEAR_KEY", "near-123456").env("FAR_KEY", "far-123456");
        command.env("OWN_KEY", "own-123456");
        let ended = Running::start(command).end().await.with_code(0);
        let at = if set.iter().any(|set| set.contains("@ELSE")) { &elsewhere } else { &far };
        let asked = at.requests();
        assert_eq!(asked.len(), 1, "{set:?}");
        assert_eq!(asked[0].header("authorization"), key, "{set:?}");
        assert_eq!(asked[0].json()["model"], named, "{set:?}");
        assert_eq!(near.requests().len(), 2, "{set:?}");
        assert!(
            near.requests().iter().all(|r| r.header("authorization") == Some("Bearer near-123456"))
        );
        let started = ended.events("agent.start");
        assert_eq!(started[1]["model"], served, "{set:?}");
        let (told, _) = result(&messages(&near.requests()[1], "tool")[0]);
        assert_eq!(told["results"][0]["model"], "served-1", "the one that really served");
        lab.holds_no("own-123456", &ended);
    }
}

#[tokio::test]
async fn a_key_in_the_persons_own_file_is_used_warned_of_and_never_shown() {
    let lab = Lab::new();
    let (near, far) = (model(one_child).await, model(one_child).await);
    fs::create_dir_all(lab.path("home")).unwrap();
    let delegation = json!({"base_url": far.base_url(), "model": "m", "api_key": "plain-123456"});
    let config = json!({ "delegation": delegation });
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
    let ended = lab.run(&near, &["Go"]).end().await.with_code(0);
    assert!(
        ended.err.contains("`delegation.api_key_env` names a variable instead"),
        "{}",
        ended.err
    );
    assert_eq!(far.requests()[0].header("authorization"), Some("Bearer plain-123456"));
    fs::remove_file(lab.path("home/config.yaml")).unwrap();
    lab.holds_no("plain-123456", &ended);

    let args = ["--set", "delegation.model=openai/m", "--set", "delegation.api_key=x", "Go"];
    let ended = lab.run(&near, &args).end().await.with_code(2);
    assert!(ended.err.contains("configuration file only"), "{}", ended.err);
}

#[tokio::test]
async fn limits_and_effort_of_children_are_theirs() {
    let lab = Lab::new();
    let server = model(one_child).await;
    let set = [
        "max_output_tokens=900",
        "delegation.max_output_tokens=77",
        "reasoning_effort=low",
        "delegation.reasoning_effort=high",
    ];
    run(&lab, &server, &set, "Go").await;
    let requests = server.requests();
    let asked = |word| {
        let request = of(&requests, word)[0].json();
        (request["max_tokens"].clone(), request["reasoning_effort"].clone())
    };
    assert_eq!(asked("Go"), (json!(900), json!("low")));
    assert_eq!(asked("Look at one"), (json!(77), json!("high")));
}
