//! What an agent, or a person, does with background children.

use deputize_testkit::Barrier;
use serde_json::{Value, json};

use super::{QUEUE, call, child, delivered, one_at_a_time, run, tasks, text};
use crate::control::reachable;
use crate::program::{ChatRequest, Lab, RunningProgram, model};

/// The session of a conversation, from a handle in it.
fn session_of(asked: &ChatRequest) -> String {
    let results = asked.results();
    let handle = results.first().and_then(|text| text.split("\"agent\":\"").nth(1));
    handle.and_then(|rest| rest.split('/').next()).unwrap_or_default().to_owned()
}

/// What stands in the frame, without times.
fn unframed(text: &str) -> String {
    let inner: Vec<&str> = text.lines().filter(|line| !line.starts_with('<')).collect();
    let mut inner = inner.join("\n");
    while let Some((before, after)) = inner.split_once("\"idle_seconds\":") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        inner = format!("{before}\"idle\":_{rest}");
    }
    inner
}

#[tokio::test]
async fn those_below_are_listed_sent_messages_stopped_and_waited_for() {
    let gates = [Barrier::closed(), Barrier::closed(), Barrier::closed()];
    let held = gates.clone();
    let start = Barrier::closed();
    let begins = start.clone();
    let server = model(move |asked| {
        let own = |n: usize| format!("{}/1.0.{n}", session_of(asked));
        match child(&asked.system()) {
            // It works on, and so takes the message.
            Some(0) if asked.replies() == 0 => call("list_dir", json!({})).held_by(&held[0]),
            Some(0) => text(&format!("I was told: {}", asked.last_user())),
            Some(number) => text(&format!("{number} is done.")).held_by(&held[number]),
            None => match asked.results().len() {
                0 => call("delegate_task", tasks(3)),
                1 => call("delegate_control", json!({"action": "list"})).held_by(&begins),
                2 => call(
                    "delegate_control",
                    json!({"action": "message", "agents": [own(0)], "message": "Be quick."}),
                ),
                3 => call("delegate_control", json!({"action": "stop", "agents": [own(1)]})),
                4 => call(
                    "delegate_control",
                    json!({"action": "join", "agents": [own(1), own(2)], "wait_for": "any"}),
                ),
                5 => call("delegate_control", json!({"action": "stop", "agents": ["s/1.0.0"]})),
                6 => call("delegate_control", json!({"action": "join"})),
                7 => call("delegate_control", json!({"action": "list"})),
                _ => text("Done."),
            },
        }
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    server.until_requests(5).await;
    start.open();
    running.event("tool.end", |it| it["call"] == "call_5_0").await;
    gates[0].open();
    running.event("tool.start", |it| it["call"] == "call_7_0").await;
    gates[2].open();
    let ended = running.end().await.with_code(0);
    let requests = server.requests();
    let last = requests.iter().rev().map(ChatRequest::of).find(|it| child(&it.system()).is_none());
    let last = last.unwrap();
    let session = lab.session();
    let results = last.results();
    let results: Vec<String> =
        results.iter().map(|text| unframed(&text.replace(&session, "SESSION"))).collect();
    // Whom the last `join` finds running is a matter of time.
    insta::assert_snapshot!([&results[1..6], &results[7..]].concat().join("\n"));
    let actual = ended.events("model.response");
    let said = "I was told: A message of the agent that started you:\nBe quick.";
    assert!(actual.iter().any(|it| it["text"] == said), "{actual:#?}");
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "1", "2"]);
    let ends = ended.events("agent.end");
    let stopped = ends.iter().find(|end| end["agent"].as_str().unwrap().ends_with("/1.0.1"));
    assert_eq!(stopped.unwrap()["status"], "interrupted");
}

#[tokio::test]
async fn one_that_waits_for_a_place_is_listed_so() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let start = Barrier::closed();
    let held = gates.clone();
    let begins = start.clone();
    let (tell, actual) = std::sync::mpsc::channel();
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text("Done.").held_by(&held[number]),
        None => match asked.results().as_slice() {
            [] => call("delegate_task", tasks(2)),
            [_] => call("delegate_control", json!({"action": "list"})).held_by(&begins),
            [_, list, ..] => {
                tell.send((*list).to_owned()).unwrap();
                text("I wait.")
            }
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &[&QUEUE[..], &["Share it"]].concat());
    server.until_requests(3).await;
    start.open();
    running.event("agent.rest", |_| true).await;
    // From another terminal it is seen so, too.
    let shown = RunningProgram::start(lab.deputize(&["agents", "--json"])).end().await.with_code(0);
    gates.iter().for_each(Barrier::open);
    running.end().await.with_code(0);
    let listed = actual.recv().unwrap();
    // The first line is that of the frame.
    let listed: Value = serde_json::from_str(listed.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&listed["running"], &listed["waiting"], &listed["ended"]),
        (&json!(1), &json!(1), &json!(0)),
        "{listed}"
    );
    let mut statuses: Vec<&str> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["status"].as_str().unwrap())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["running", "waiting"]);
    assert_eq!(shown.out.matches(r#""status": "waiting""#).count(), 1, "{}", shown.out);
}

#[tokio::test]
async fn a_child_that_ended_before_it_was_waited_for_is_one_of_any() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let start = Barrier::closed();
    let held = gates.clone();
    let begins = start.clone();
    let server = model(move |asked| match child(&asked.system()) {
        Some(number) => text("Done.").held_by(&held[number]),
        None => match asked.results().len() {
            0 => call("delegate_task", tasks(2)),
            1 => call("delegate_control", json!({"action": "join", "wait_for": "any"}))
                .held_by(&begins),
            _ => text("I wait."),
        },
    });
    let server = server.await;
    let lab = Lab::new();
    let running = run(&lab, &server, &["Share it"]);
    server.until_requests(4).await;
    gates[1].open();
    running.event("agent.end", |it| it["agent"].as_str().unwrap().ends_with("/1.0.1")).await;
    start.open();
    let joined = running.event("tool.end", |it| it["call"] == "call_2_0").await;
    assert!(joined["preview"].as_str().unwrap().contains("completed"), "{joined}");
    gates[0].open();
    running.end().await.with_code(0);
    let mut all = delivered(&lab).await;
    all.sort();
    assert_eq!(all, ["0", "1"]);
}

#[tokio::test]
async fn one_that_is_stopped_while_it_waits_has_sent_nothing() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let (lab, _server, running) = one_at_a_time(&gates).await;
    let session = reachable(&lab).await;
    let second = format!("{session}/1.0.1");
    let stop = lab.deputize(&["agents", "stop", &second]);
    RunningProgram::start(stop).end().await.with_code(0);
    let end = running.event("agent.end", |it| it["agent"] == second.as_str()).await;
    assert_eq!(end["status"], "interrupted", "{end}");
    gates[0].open();
    let ended = running.end().await.with_code(0);
    let of_it = |it: &&Value| it["agent"] == second.as_str();
    assert_eq!(ended.events("model.request").iter().filter(of_it).count(), 0);
}
