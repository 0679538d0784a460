//! Each call gets one result that the model can act on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deputize_core::model::{Reply, Request};
use deputize_core::policy::{Denial, Verdict};
use deputize_core::{AgentView, Cancel, Message, Policy, Status, ToolSpec};
use deputize_runtime::SessionConfig;
use serde_json::{Value, json};

use crate::fixture::{World, config, results, run, spec};

#[tokio::test]
async fn every_fault_of_a_call_is_a_result_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let mut reply = Reply::calls(
            "rule",
            [
                ("lok", json!({})),
                ("no_such", json!({})),
                ("look", json!({"n": "five", "list": [1], "more": 0})),
                ("crash", json!({})),
                ("crash", json!({})),
                ("broken", json!({})),
                ("look", json!({"n": 5})),
            ],
        );
        reply.calls[4].arguments = "{\"n\": ".into();
        Ok(if results == 0 { reply } else { Reply::text("rule", "done") })
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed);
    insta::assert_snapshot!(results(&world));
}

#[tokio::test]
async fn an_argument_that_does_not_fit_is_not_repeated_at_length() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let long = json!({"list": ["x".repeat(300_000)], "n": "y".repeat(300_000)});
        let calls = Reply::calls("rule", [("look", long)]);
        Ok(if results == 0 { calls } else { Reply::text("rule", "done") })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    let actual = results(&world);
    assert!(actual.len() < 500 && actual.contains("/n: "), "{} bytes", actual.len());
}

#[tokio::test]
async fn a_secret_is_in_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let calls = Reply::calls("rule", [("look", json!({"list": ["the key is key-canary-1"]}))]);
        Ok(if results == 0 { calls } else { Reply::text("rule", "it is key-canary-1") })
    };
    let mut config = config(&world, rule);
    config.secrets.add("KEY", "key-canary-1");
    let task = "use key-canary-1".to_owned();
    let system = vec!["The key is key-canary-1.".into()];
    let spec = deputize_core::agent::AgentSpec { task, system, ..spec(folder.path()) };
    run(folder.path(), spec, config, &Cancel::new()).await;
    let journal = std::fs::read_to_string(folder.path().join("s.jsonl")).unwrap();
    assert!(!journal.contains("key-canary-1"));
    assert!(journal.matches("[redacted:KEY]").count() >= 4, "{journal}");
}

#[tokio::test]
async fn the_mark_of_a_secret_is_searched_for_and_written_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let with = |text: &str| json!({"list": [text]});
        let calls = [
            ("act", with("the key is key-canary-1")),
            ("act", with("API=[redacted:KEY]")),
            ("look", with("[redacted:KEY]")),
            ("act", with("[redacted:OTHER]")),
        ];
        Ok(if results == 0 { Reply::calls("rule", calls) } else { Reply::text("rule", "done") })
    };
    let mut config = config(&world, rule);
    config.secrets.add("KEY", "key-canary-1");
    run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    let done = [
        r#"look call_1_2 {"list":["[redacted:KEY]"]}"#,
        r#"act call_1_3 {"list":["[redacted:OTHER]"]}"#,
    ];
    assert_eq!(world.done(), done);
    let actual = results(&world);
    let actual: Vec<_> = actual.split("\n\n").take(2).collect();
    let refused = "act [error] error: nothing ran: [redacted:KEY] in the arguments stands in place \
                   of a secret, which models are not shown: a file or a command would get this \
                   text itself. In a file, change only the lines around it; or let \
                   the person do it.";
    assert_eq!(actual, [refused, refused]);
}

struct ActDenial;

impl Policy for ActDenial {
    fn judge(&self, tool: &ToolSpec, _: &Value, _: &std::path::Path, _: &AgentView) -> Verdict {
        match tool.decl.name.as_str() {
            "act" => Verdict::Deny(Denial {
                for_model: "acting is off; look instead".into(),
                for_person: "acting is off".into(),
            }),
            "look" => Verdict::Ask { class: "dangerous".into(), reason: "looking asks".into() },
            _ => Verdict::Allow,
        }
    }
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_learns_by_whom() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let calls = Reply::calls("rule", [("act", json!({})), ("look", json!({}))]);
        Ok(if results == 0 { calls } else { Reply::text("rule", "done") })
    };
    let config = SessionConfig { policy: Arc::new(ActDenial), ..config(&world, rule) };
    run(folder.path(), spec(folder.path()), config, &Cancel::new()).await;
    assert_eq!(world.done(), Vec::<String>::new());
    insta::assert_snapshot!(results(&world));
}

#[tokio::test]
async fn a_tool_that_the_spec_does_not_name_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let calls = Reply::calls("rule", [("act", json!({}))]);
        Ok(if results == 0 { calls } else { Reply::text("rule", "done") })
    };
    let mut spec = spec(folder.path());
    spec.tools.retain(|name| name.as_str() != "act");
    run(folder.path(), spec, config(&world, rule), &Cancel::new()).await;
    assert_eq!(world.done(), Vec::<String>::new());
    assert!(results(&world).contains("there is no tool `act` here"), "{}", results(&world));
}

#[tokio::test]
async fn calls_that_may_run_side_by_side_do_and_results_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, request: &Request<'_>| {
        if results == 0 {
            // The first waits for what the second does: side by side, or never.
            return Ok(Reply::calls("rule", [("wait", json!({})), ("look", json!({"n": 77}))]));
        }
        let order = request.messages.iter().filter_map(|message| match &**message {
            Message::Tool(result) => Some(result.call.slot),
            _ => None,
        });
        assert_eq!(order.collect::<Vec<_>>(), [0, 1]);
        Ok(Reply::text("rule", "done"))
    };
    let outcome =
        run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(world.most_running.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_may_not_run_side_by_side_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::default());
    let rule = |results: usize, _: &Request<'_>| {
        let calls = (0..6).map(|n| (if n % 2 == 0 { "act" } else { "look" }, json!({"n": n})));
        Ok(if results == 0 { Reply::calls("rule", calls) } else { Reply::text("rule", "done") })
    };
    run(folder.path(), spec(folder.path()), config(&world, rule), &Cancel::new()).await;
    assert_eq!(world.most_running.load(Ordering::SeqCst), 1);
    let order: Vec<_> =
        world.done().iter().map(|d| d.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(order, (0..6).map(|n| format!("call_1_{n}")).collect::<Vec<_>>());
}
