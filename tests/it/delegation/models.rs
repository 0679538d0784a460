//! Which model children have, with which key and which limits.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say};
use crate::kill::kill;
use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

/// A parent that hands one thing on, and a child that answers at once.
pub(super) fn one_child(asked: &ChatRequest) -> MockAnswer {
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
        let near = model(one_child).await;
        let far = model(one_child).await;
        let elsewhere = model(one_child).await;
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
        let ended = RunningProgram::start(command).end().await.with_code(0);
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
        let (actual, _) = result(&messages(&near.requests()[1], "tool")[0]);
        assert_eq!(actual["results"][0]["model"], served, "the one that really served");
        lab.holds_no("own-123456", &ended);
    }
}

#[tokio::test]
async fn a_key_in_the_persons_own_file_is_used_warned_of_and_never_shown() {
    let lab = Lab::new();
    let near = model(one_child).await;
    let far = model(one_child).await;
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

/// The parameters of `delegate_task` as they were sent.
fn parameters(request: &HttpRequest) -> Value {
    let request = request.json();
    let mut tools = request["tools"].as_array().unwrap().iter();
    let tool = tools.find(|tool| tool["function"]["name"] == "delegate_task").unwrap();
    tool["function"]["parameters"]["properties"].clone()
}

#[tokio::test]
async fn a_model_without_its_key_is_not_offered_and_naming_it_starts_nobody() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => {
            let tasks = json!([
                {"goal": "Look at one", "model": "near/small"},
                {"goal": "Look at two", "model": "openai/gpt-5"},
                {"goal": "Look at three", "model": "far/x"},
                {"goal": "Look at four", "model": "near/none"},
            ]);
            call("delegate_task", json!({ "tasks": tasks }))
        }
        (false, 1) => call("delegate_task", json!({"goal": "Look at one"})),
        _ => say("Looked."),
    })
    .await;
    let config = format!(
        "model: near/mock\nproviders:\n  near: {{ base_url: {} }}\n  far: {{ base_url: \
         'http://127.0.0.1:9/v1', api_key_envs: [FAR_KEY, FAR_KEY_2] }}\ndelegation:\n  \
         max_concurrent_children: 4\n  models: [near/small, openai/gpt-5, far/x]\n",
        server.base_url()
    );
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let args = ["run", "--output", "events", "Go"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert_eq!(ended.events("agent.start").len(), 2, "the call that names them starts nobody");
    let requests = server.requests();
    let own = of(&requests, "Go");
    let fields = parameters(own[0]);
    assert_eq!(fields["model"]["enum"], json!(["near/small"]));
    assert_eq!(fields["tasks"]["items"]["properties"]["model"]["enum"], json!(["near/small"]));
    let actual = messages(own[1], "tool").remove(0);
    let mut values =
        serde_json::Deserializer::from_str(&actual[actual.find('{').unwrap()..]).into_iter();
    let actual: Value = values.next().unwrap().unwrap();
    let errors = actual["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 3, "{actual:#}");
    for (error, (index, parts)) in errors.iter().zip([
        (1, ["`openai/gpt-5`", "provider openai", "OPENAI_API_KEY"]),
        (2, ["`far/x`", "provider far", "FAR_KEY or FAR_KEY_2"]),
        (3, ["must be one of near/small", "or left out", "`model`"]),
    ]) {
        assert_eq!((&error["code"], &error["field"]), (&json!("E_MODEL"), &json!("model")));
        assert_eq!(error["task_index"], index, "{error}");
        let remedy = error["remedy"].as_str().unwrap();
        assert!(parts.iter().all(|part| remedy.contains(part)), "{error}");
    }
    // The person is told at the start, and by the commands that look.
    let said = "offered model openai/gpt-5 is passed over: provider openai needs a key: set \
                OPENAI_API_KEY";
    assert!(ended.err.contains(said), "{}", ended.err);
    let check = RunningProgram::start(lab.deputize(&["config", "check"])).end().await.with_code(0);
    let said = "`delegation.models`: openai/gpt-5 is passed over: provider openai needs a key: \
                set OPENAI_API_KEY";
    assert!(check.err.contains(said), "{}", check.err);
    assert!(check.err.contains("config.yaml:7:3: "), "{}", check.err);
    let doctor = RunningProgram::start(lab.deputize(&["doctor"])).end().await;
    assert!(doctor.out.contains("offered model"), "{}", doctor.out);
    assert!(doctor.out.contains("set OPENAI_API_KEY"), "{}", doctor.out);
}

#[tokio::test]
async fn where_no_offered_model_has_its_key_none_is_offered() {
    let lab = Lab::new();
    let server = model(one_child).await;
    let ended = run(&lab, &server, &["delegation.models=[openrouter/a]"], "Go").await;
    assert!(parameters(&server.requests()[0])["model"].is_null());
    assert!(ended.err.contains("OPENROUTER_API_KEY"), "{}", ended.err);
}

/// A server that cannot be used: a wait of more than a minute is not waited for.
async fn down() -> MockServer {
    let answer = |_: &HttpRequest| MockAnswer::error(503, "loading").header("retry-after", "7200");
    MockServer::start_with(answer).await.unwrap()
}

/// The entry of the one child of a family whose top agent is served by `near`, and how many
/// requests for children came there. `far` cannot be used.
async fn fallback(set: &[&str], call_model: Option<&str>) -> (Value, usize) {
    let named = call_model.map(str::to_owned);
    let lab = Lab::new();
    let far = down().await;
    let near = model(move |asked| match (is_child(asked), asked.results().len(), &named) {
        (false, 0, Some(name)) => {
            call("delegate_task", json!({"goal": "Look at one", "model": name}))
        }
        _ => one_child(asked),
    })
    .await;
    let mut command = lab.deputize(&["run", "-m", "near/mock"]);
    for (provider, server) in [("near", &near), ("far", &far)] {
        let entry = json!({"base_url": server.base_url()});
        command.args(["--set", &format!("providers.{provider}={entry}")]);
    }
    for set in set {
        command.args(["--set", set]);
    }
    command.args(["--output", "json", "Go"]);
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let (actual, _) = result(&messages(of(&near.requests(), "Go")[1], "tool")[0]);
    let actual = actual["results"][0].clone();
    let whole: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(whole["children"][0]["model"], actual["model"], "{whole:#}");
    (actual, near.requests().iter().filter(|request| is_child(&ChatRequest::of(request))).count())
}

#[tokio::test]
async fn a_child_with_a_model_of_its_own_falls_back_on_its_own_list_alone() {
    let parents = "fallback_models=[near/other]";
    for (set, call_model) in [
        ("delegation.model=far/m", None),
        ("delegation.provider=far", None),
        ("delegation.models=[far/m]", Some("far/m")),
    ] {
        let (entry, requests) = fallback(&[parents, set], call_model).await;
        assert_eq!((&entry["status"], requests), (&json!("failed"), 0), "{set}: {entry}");
        assert_eq!(entry["model"], Value::Null, "{set}: nothing served");
        let own = "delegation.fallback_models=[near/spare]";
        let (entry, requests) = fallback(&[parents, set, own], call_model).await;
        assert_eq!((&entry["status"], requests), (&json!("completed"), 1), "{set}: {entry}");
        assert_eq!(entry["model"], "near/spare", "{set}");
    }
}

#[tokio::test]
async fn a_result_names_the_model_that_served_the_answer_also_of_a_background_child() {
    for background in [false, true] {
        let lab = Lab::new();
        // It serves the first step of the child and is gone at the second one.
        let far = model(|asked| match asked.results().len() {
            0 => call("list_dir", json!({})),
            _ => MockAnswer::error(503, "loading").header("retry-after", "7200"),
        })
        .await;
        let near = model(move |asked| match (is_child(asked), asked.results().len()) {
            (false, 0) => {
                call("delegate_task", json!({"goal": "Look at one", "background": background}))
            }
            _ => say("I looked."),
        })
        .await;
        let mut command = lab.deputize(&["run", "-m", "near/mock"]);
        for (provider, server) in [("near", &near), ("far", &far)] {
            let entry = json!({"base_url": server.base_url()});
            command.args(["--set", &format!("providers.{provider}={entry}")]);
        }
        for set in ["model=far/m", "fallback_models=[near/spare]", "background=true"] {
            command.args(["--set", &format!("delegation.{set}")]);
        }
        command.args(["--output", "json", "Go"]);
        let ended = RunningProgram::start(command).end().await.with_code(0);
        assert_eq!(far.requests().len(), 2);
        let whole: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(whole["children"][0]["model"], "near/spare", "{whole:#}");
        let requests = near.requests();
        let last = *of(&requests, "Go").last().unwrap();
        let actual = if background { "user" } else { "tool" };
        let actual = messages(last, actual).pop().unwrap();
        assert!(actual.contains(r#""model":"near/spare""#), "{actual}");
        assert!(!actual.contains("far/m"), "{actual}");
    }
}

#[tokio::test]
async fn a_child_with_its_parents_model_has_its_parents_fallbacks() {
    let lab = Lab::new();
    let far = down().await;
    let near = model(one_child).await;
    let mut command = lab.deputize(&["run", "-m", "far/m"]);
    for (provider, server) in [("near", &near), ("far", &far)] {
        let entry = json!({"base_url": server.base_url()});
        command.args(["--set", &format!("providers.{provider}={entry}")]);
    }
    command.args(["--set", "fallback_models=[near/other]"]);
    command.args(["--set", "delegation.fallback_models=[offline]"]);
    command.args(["--output", "events", "Go"]);
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let (actual, _) = result(&messages(of(&near.requests(), "Go")[1], "tool")[0]);
    assert_eq!(actual["results"][0]["model"], "near/other", "{actual:#}");
    let said = "`delegation.fallback_models` has no effect";
    assert!(ended.err.contains(said), "{}", ended.err);
}

#[tokio::test]
async fn a_taken_up_child_keeps_to_its_own_fallbacks() {
    let lab = Lab::new();
    let gone = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&gone);
    let server = model(move |asked| match (is_child(asked), asked.results().len()) {
        (true, _) if fails.load(Ordering::SeqCst) => {
            MockAnswer::error(503, "loading").header("retry-after", "7200")
        }
        (true, _) => hang(),
        _ => one_child(asked),
    })
    .await;
    let config = format!(
        "model: near/mock\nfallback_models: [near/other]\ndelegation: {{ model: near/m }}\n\
         providers: {{ near: {{ base_url: '{}' }} }}\n",
        server.base_url()
    );
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let running = RunningProgram::start(lab.deputize(&["run", "--output", "events", "Go"]));
    running.event("model.request", |request| request["depth"] == 1).await;
    // The event stands before the request is sent.
    server.until_requests(2).await;
    kill(&lab, running).await;
    gone.store(true, Ordering::SeqCst);
    let session = lab.session();
    let resume = ["run", "--resume", &session];
    RunningProgram::start(lab.deputize(&resume)).end().await.with_code(0);
    let asked = server.requests();
    let asked = asked.iter().filter(|request| is_child(&ChatRequest::of(request)));
    let models: Vec<Value> = asked.map(|request| request.json()["model"].clone()).collect();
    assert_eq!(models, ["m", "m"]);
}

#[tokio::test]
async fn fallbacks_of_children_are_checked_like_the_others() {
    let lab = Lab::new();
    let config = "model: offline\ndelegation:\n  model: offline\n  fallback_models:\n    - \
                  nowhere/x\n    - plain\n";
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let check = RunningProgram::start(lab.deputize(&["config", "check"])).end().await.with_code(2);
    for part in [
        "config.yaml:5:7: `delegation.fallback_models`: ",
        "config.yaml:6:7: `delegation.fallback_models` must be PROVIDER/MODEL or `offline`",
    ] {
        assert!(check.err.contains(part), "{}", check.err);
    }
    fs::remove_file(lab.path("home/config.yaml")).unwrap();
    let set = ["--set", "delegation.model=offline"];
    let args = [&["run", "-m", "offline"], &set[..], &["list ."]].concat();
    let mut command = lab.deputize(&args);
    command.env("DEPUTIZE__DELEGATION__FALLBACK_MODELS", "[openai/gpt-5]");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let said = "fallback model of children openai/gpt-5 is passed over: provider openai needs a \
                key: set OPENAI_API_KEY";
    assert!(ended.err.contains(said), "{}", ended.err);
}
