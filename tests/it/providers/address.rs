//! An address that is given for a provider holds for all of its models, and keys go nowhere else.

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::json;

use crate::program::{Lab, RunningProgram, model};

/// A server whose model `m1` cannot be used where that is said, and whose others answer.
async fn server(m1_fails: bool) -> MockServer {
    MockServer::start_with(move |request: &HttpRequest| {
        if m1_fails && request.json()["model"] == "m1" {
            return MockAnswer::error(404, "no such model");
        }
        MockAnswer::reply(&Reply::text("served", "Fine."))
    })
    .await
    .unwrap()
}

/// The models that a server was asked for, with the key of each request.
fn asked(server: &MockServer) -> Vec<(String, Option<String>)> {
    let request = |request: &HttpRequest| {
        let model = request.json()["model"].as_str().unwrap().to_owned();
        (model, request.header("authorization").map(str::to_owned))
    };
    server.requests().iter().map(request).collect()
}

/// A run of `openai/m1`, whose provider is configured to be at `vendor`.
fn command(lab: &Lab, vendor: &MockServer, args: &[&str]) -> tokio::process::Command {
    let entry =
        json!({"base_url": vendor.base_url(), "api": "openai-chat", "api_key_env": "VENDOR_KEY"});
    let mut command = lab.deputize(&["run", "--set", &format!("providers.openai={entry}")]);
    command.args(args).arg("Go");
    for key in ["VENDOR_KEY", "GIVEN_KEY", "CHILD_KEY", "FAR_KEY"] {
        command.env(key, format!("{key}-123456"));
    }
    command
}

#[tokio::test]
async fn a_fallback_of_the_same_provider_is_asked_at_the_given_address() {
    for (args, key) in
        [(&[][..], None), (&["--api-key-env", "GIVEN_KEY"], Some("Bearer GIVEN_KEY-123456"))]
    {
        let lab = Lab::new();
        let vendor = server(false).await;
        let local = server(true).await;
        let base_url = local.base_url();
        let given =
            ["-m", "openai/m1", "--base-url", &base_url, "--set", "fallback_models=[openai/m2]"];
        let ended = RunningProgram::start(command(&lab, &vendor, &[&given, args].concat()))
            .end()
            .await
            .with_code(0);
        assert_eq!(ended.out, "Fine.\n");
        let key = key.map(str::to_owned);
        assert_eq!(asked(&local), [("m1".to_owned(), key.clone()), ("m2".to_owned(), key)]);
        assert_eq!(asked(&vendor), [], "{args:?}");
        lab.holds_no("VENDOR_KEY-123456", &ended);
    }
}

#[tokio::test]
async fn a_resumed_session_asks_fallbacks_where_it_asked_them_before() {
    let lab = Lab::new();
    let vendor = server(false).await;
    let local = server(true).await;
    let base_url = local.base_url();
    let fallback = ["--set", "fallback_models=[openai/m2]"];
    let first = [&["-m", "openai/m1", "--base-url", &base_url][..], &fallback].concat();
    RunningProgram::start(command(&lab, &vendor, &first)).end().await.with_code(0);
    let session = lab.session();
    let again = [&["--resume", session.as_str()][..], &fallback].concat();
    RunningProgram::start(command(&lab, &vendor, &again)).end().await.with_code(0);
    let models: Vec<String> = asked(&local).into_iter().map(|(model, _)| model).collect();
    assert_eq!(models, ["m1", "m2", "m1", "m2"]);
    assert_eq!(asked(&vendor), []);
}

#[tokio::test]
async fn models_of_children_are_asked_at_the_address_that_is_given_for_their_provider() {
    for set in [
        &["model=openai/m3"][..],
        &["models=[openai/m4]"],
        &["provider=openai", "model=m3"],
        &["provider=openai", "model=m3", "api_key_env=CHILD_KEY"],
        &["model=openai/m3", "api_key_env=CHILD_KEY"],
    ] {
        let lab = Lab::new();
        let vendor = server(false).await;
        let local = delegating(set.contains(&"models=[openai/m4]")).await;
        let base_url = local.base_url();
        let mut args = vec!["-m", "openai/m1", "--base-url", &base_url];
        let set: Vec<String> = set.iter().map(|set| format!("delegation.{set}")).collect();
        args.extend(set.iter().flat_map(|set| ["--set", set.as_str()]));
        let ended = RunningProgram::start(command(&lab, &vendor, &args)).end().await.with_code(0);
        let models: Vec<_> = asked(&local);
        assert_eq!(models.len(), 3, "{set:?}: {models:?}");
        assert_ne!(models[1].0, "m1", "{set:?}");
        assert!(models.iter().all(|(_, key)| key.is_none()), "{set:?}: {models:?}");
        assert_eq!(asked(&vendor), [], "{set:?}");
        lab.holds_no("CHILD_KEY-123456", &ended);
    }
}

#[tokio::test]
async fn models_of_other_providers_are_asked_where_they_are_with_their_own_keys() {
    let lab = Lab::new();
    let vendor = server(false).await;
    let local = server(true).await;
    let far = server(false).await;
    let entry = json!({"base_url": far.base_url(), "api_key_env": "FAR_KEY"});
    let base_url = local.base_url();
    let entry = format!("providers.far={entry}");
    let args = ["-m", "openai/m1", "--base-url", &base_url, "--api-key-env", "GIVEN_KEY"];
    let args = [&args[..], &["--set", &entry, "--set", "fallback_models=[far/m2]"]].concat();
    RunningProgram::start(command(&lab, &vendor, &args)).end().await.with_code(0);
    assert_eq!(asked(&local), [("m1".to_owned(), Some("Bearer GIVEN_KEY-123456".to_owned()))]);
    assert_eq!(asked(&far), [("m2".to_owned(), Some("Bearer FAR_KEY-123456".to_owned()))]);
    assert_eq!(asked(&vendor), []);
}

/// A model that hands one task to a child, by name of a model where that is to be chosen.
async fn delegating(names_model: bool) -> MockServer {
    model(move |asked| {
        let is_child =
            asked.first_user().contains("YOUR TASK:") || asked.system().contains("YOUR TASK:");
        if is_child || !asked.results().is_empty() {
            return MockAnswer::reply(&Reply::text("served", "Fine."));
        }
        let mut task = json!({"goal": "Look at one"});
        if names_model {
            task["model"] = json!("openai/m4");
        }
        MockAnswer::reply(&Reply::calls("served", [("delegate_task", task)]))
    })
    .await
}

#[tokio::test]
async fn where_no_model_can_be_used_each_is_named_with_its_reason() {
    let lab = Lab::new();
    let server = MockServer::start_with(|_: &HttpRequest| MockAnswer::error(401, "who are you"))
        .await
        .unwrap();
    let entry = |base_url: &str| json!({"base_url": base_url, "api": "openai-chat"}).to_string();
    let dead = entry("http://127.0.0.1:1/v1");
    let live = entry(&server.base_url());
    let config = format!(
        "model: one/large\nfallback_models: [two/small, three/tiny]\n\
         providers: {{ one: {dead}, two: {live}, three: {dead} }}\n"
    );
    std::fs::create_dir_all(lab.path("home")).unwrap();
    std::fs::write(lab.path("home/config.yaml"), config).unwrap();
    let ended = RunningProgram::start(lab.deputize(&["run", "Go"])).end().await.with_code(3);
    let lines: Vec<&str> = ended.err.lines().collect();
    let at = lines.iter().position(|line| *line == "error: no model could answer:");
    let Some([one, two, three, ..]) = at.and_then(|at| lines.get(at + 1..)) else {
        panic!("{}", ended.err)
    };
    assert!(one.starts_with("  one/large: provider one: ") && one.ends_with("(tried 2 times)"));
    assert!(two.starts_with("  two/small: provider two: ") && two.contains("who are you"), "{two}");
    assert!(three.starts_with("  three/tiny: provider three: "), "{three}");
}
