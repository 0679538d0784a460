//! Calls for children that were under way when the program was killed: they are taken up again,
//! whatever the settings are now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::kill::kill;
use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

/// A parent with a call of three tasks, killed when the first child has ended and the others wait
/// for an answer, as far as they were begun. Settings of now hold for what follows; the server
/// answers then. Gives the end of the resume and the result of the call, as the parent read it.
async fn resumed(lab: &Lab, tasks: Value, before: &str, now: &str) -> (Value, Value) {
    let of = |delegation: &str| format!("delegation: {{{delegation}}}");
    let calls = vec![("delegate_task", json!({"tasks": tasks}))];
    let (actual, results) = taken_up(lab, calls, &of(before), &of(now)).await;
    (actual, whole(&results[0]))
}

/// The object that a result holds.
fn whole(result: &str) -> Value {
    let inner = &result[result.find('{').expect("a result")..=result.rfind('}').unwrap()];
    serde_json::from_str(inner).unwrap_or_else(|_| panic!("{result}"))
}

pub(super) fn settings(lab: &Lab, text: &str) {
    std::fs::create_dir_all(lab.path("home")).unwrap();
    std::fs::write(lab.path("home/config.yaml"), format!("{text}\n")).unwrap();
}

/// The same with calls of one reply, and the results of all of them as they were read.
async fn taken_up(
    lab: &Lab,
    calls: Vec<(&'static str, Value)>,
    before: &str,
    now: &str,
) -> (Value, Vec<String>) {
    let answers = Arc::new(AtomicBool::new(false));
    let answering = Arc::clone(&answers);
    let server = model(move |asked: &ChatRequest| {
        let reply = match (asked.first_user(), asked.results().len()) {
            ("go", 0) => Reply::calls("mock", calls.clone()),
            ("go", _) => Reply::text("mock", "done"),
            ("One", _) => Reply::text("mock", "one said"),
            (_, 0) => Reply::calls("mock", [("list_dir", json!({}))]),
            (_, _) if !answering.load(Ordering::Relaxed) => return hang(),
            (goal, _) => Reply::text("mock", format!("{goal} said")),
        };
        MockAnswer::reply(&reply)
    })
    .await;
    settings(lab, before);
    let running = lab.run(&server, &["--output", "events", "go"]);
    running.event("agent.end", |end| end["status"] == "completed").await;
    running.event("model.request", |it| it["depth"] == 1 && it["iteration"] == 2).await;
    kill(lab, running).await;
    settings(lab, now);
    answers.store(true, Ordering::Relaxed);
    let session = lab.session();
    let args = ["run", "--resume", &session, "--output", "json", "--record", "resumed.jsonl"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert!(!ended.err.contains("unknown outcome"), "{}", ended.err);
    let replay = lab.deputize(&["run", "--replay", "resumed.jsonl"]);
    assert_eq!(RunningProgram::start(replay).end().await.with_code(0).out, "done\n");
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let results = last.results().into_iter().map(str::to_owned).collect();
    (serde_json::from_str(&ended.out).unwrap(), results)
}

#[tokio::test]
async fn a_call_that_was_accepted_is_not_judged_again_by_the_limits_of_a_resume() {
    let goals = json!([{"goal": "One"}, {"goal": "Two"}, {"goal": "Three"}]);
    let chosen =
        json!([{"goal": "One", "model": "openai/mock"}, {"goal": "Two"}, {"goal": "Three"}]);
    let cases = [
        (&goals, "", "max_concurrent_children: 2"),
        (&goals, "over_limit: queue, max_concurrent_children: 2", "max_concurrent_children: 2"),
        (&chosen, "models: [openai/mock]", ""),
    ];
    for (tasks, before, now) in cases {
        let lab = Lab::new();
        let (actual, result) = resumed(&lab, tasks.clone(), before, now).await;
        for (index, said) in ["one said", "Two said", "Three said"].into_iter().enumerate() {
            let summary = result["results"][index]["summary"].as_str().unwrap_or_default();
            assert!(summary.contains(said), "{before} -> {now}: {result}");
            assert_eq!(
                actual["children"][index]["status"], "completed",
                "{before} -> {now}: {actual}"
            );
        }
    }
}

#[tokio::test]
async fn a_task_that_no_limit_of_a_resume_lets_begin_is_reported_beside_the_others() {
    let lab = Lab::new();
    let tasks = json!([{"goal": "One"}, {"goal": "Two"}, {"goal": "Three"}, {"goal": "Four"}]);
    let before = "over_limit: queue, max_concurrent_children: 1";
    // The first has ended and the second runs; two more would be too many.
    let (actual, result) = resumed(&lab, tasks, before, "max_children_per_session: 2").await;
    let results = result["results"].as_array().unwrap();
    for (task, said) in results.iter().zip(["one said", "Two said"]) {
        assert!(task["summary"].as_str().unwrap_or_default().contains(said), "{result}");
    }
    for task in &results[2..] {
        let why = task["error"].as_str().unwrap_or_default();
        assert!(why.contains("this call would start 2 children"), "{result}");
        assert!(why.contains("delegation.max_children_per_session"), "{result}");
    }
    assert_eq!(actual["children"][1]["status"], "completed", "{actual}");
}

#[tokio::test]
async fn a_call_that_was_accepted_is_taken_up_whatever_tools_there_are_now() {
    let goals = json!([{"goal": "One"}, {"goal": "Two"}]);
    for now in [
        "toolsets: [file]",
        "delegation: {tool_name: task}",
        "toolsets: [file]\ndelegation: {tool_name: task}",
    ] {
        let lab = Lab::new();
        let calls = vec![("delegate_task", json!({"tasks": goals}))];
        let (actual, results) = taken_up(&lab, calls, "", now).await;
        let result = whole(&results[0]);
        for (index, said) in ["one said", "Two said"].into_iter().enumerate() {
            let summary = result["results"][index]["summary"].as_str().unwrap_or_default();
            assert!(summary.contains(said), "{now}: {result}");
            assert_eq!(actual["children"][index]["status"], "completed", "{now}: {actual}");
        }
    }
    for now in ["", "toolsets: [file]"] {
        let lab = Lab::new();
        let task = |goal: &str| ("task", json!({"description": goal}));
        let before = "delegation: {tool_name: task}";
        let (actual, results) = taken_up(&lab, vec![task("One"), task("Two")], before, now).await;
        for (index, said) in ["one said", "Two said"].into_iter().enumerate() {
            // One text, as it was asked for.
            let result = &results[index];
            assert!(result.contains(said) && !result.contains("summary"), "{now}: {result}");
            assert_eq!(actual["children"][index]["status"], "completed", "{now}: {actual}");
        }
    }
}

#[tokio::test]
async fn no_task_begins_where_nothing_may_be_handed_on_any_more() {
    let goals = json!([{"goal": "One"}, {"goal": "Two"}, {"goal": "Three"}]);
    let queue = "delegation: {over_limit: queue, max_concurrent_children: 1}";
    let task = "delegation: {tool_name: task}";
    for (now, begins) in [("toolsets: [file]", false), (task, true)] {
        let lab = Lab::new();
        let calls = vec![("delegate_task", json!({"tasks": goals}))];
        let (_, results) = taken_up(&lab, calls, queue, now).await;
        let result = whole(&results[0]);
        assert!(result["results"][1]["summary"].as_str().unwrap().contains("Two said"), "{result}");
        let last = &result["results"][2];
        assert_eq!(last["status"] == "completed", begins, "{now}: {result}");
        let why = last["error"].as_str().unwrap_or_default();
        assert_eq!(why.contains("may no longer delegate"), !begins, "{now}: {result}");
    }
}

/// The setting of a provider that is this server.
pub(super) fn near(server: &MockServer) -> String {
    format!("providers: {{near: {{api: openai-chat, base_url: \"{}\"}}}}", server.base_url())
}

/// A run with a child that hands on to one of its own, killed when that one has written a file and
/// waits for an answer.
pub(super) struct KilledRun<'l> {
    lab: &'l Lab,
    server: MockServer,
    answers: Arc<AtomicBool>,
}

impl<'l> KilledRun<'l> {
    pub(super) async fn start(lab: &'l Lab, before: &str) -> Self {
        let answers = Arc::new(AtomicBool::new(false));
        let answering = Arc::clone(&answers);
        let server = model(move |asked: &ChatRequest| {
            let goal = asked.first_user().lines().last().unwrap_or_default();
            let file = json!({"path": "a.txt", "content": "a"});
            MockAnswer::reply(&match (goal, asked.results().len()) {
                ("go", 0) => {
                    let task = json!({"goal": "Lead", "role": "orchestrator"});
                    Reply::calls("mock", [("delegate_task", task)])
                }
                ("Lead", 0) => Reply::calls("mock", [("delegate_task", json!({"goal": "Leaf"}))]),
                ("Leaf", 0) => Reply::calls("mock", [("write_file", file)]),
                ("Leaf", _) if !answering.load(Ordering::Relaxed) => return hang(),
                ("go", _) => Reply::text("mock", "done"),
                (goal, _) => Reply::text("mock", format!("{goal} said")),
            })
        })
        .await;
        settings(lab, &format!("{}\n{before}", near(&server)));
        let args = ["run", "-m", "near/mock", "--output", "events", "go"];
        let running = RunningProgram::start(lab.deputize(&args));
        running.event("model.request", |it| it["depth"] == 2 && it["iteration"] == 2).await;
        kill(lab, running).await;
        Self { lab, server, answers }
    }

    /// Resumes with these settings, replays that, and returns the report of the run.
    pub(super) async fn resumed(self, now: &str) -> Value {
        let Self { lab, server, answers } = self;
        settings(lab, &format!("{}\n{now}", near(&server)));
        answers.store(true, Ordering::Relaxed);
        let session = lab.session();
        let args = ["run", "--resume", &session, "--output", "json", "--record", "resumed.jsonl"];
        let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        drop(server);
        let replay = lab.deputize(&["run", "--replay", "resumed.jsonl"]);
        assert_eq!(RunningProgram::start(replay).end().await.with_code(0).out, "done\n");
        serde_json::from_str(&ended.out).unwrap()
    }
}

#[tokio::test]
async fn below_the_depth_limit_of_a_resume_nobody_goes_on_and_what_was_done_is_reported() {
    let lab = Lab::new();
    let stopped = KilledRun::start(&lab, "delegation: {max_spawn_depth: 2}").await;
    let actual = stopped.resumed("delegation: {max_spawn_depth: 1}").await;
    let lead = &actual["children"][0];
    assert_eq!((&lead["status"], &lead["summary"]), (&json!("completed"), &json!("Lead said")));
    let leaf = &lead["children"][0];
    assert_eq!(leaf["status"], "interrupted", "{actual}");
    let why = leaf["error"].as_str().unwrap_or_default();
    assert!(why.contains("it could not go on") && why.contains("depth"), "{actual}");
    let written = leaf["receipts"]["files_written"][0]["path"].as_str().unwrap_or_default();
    assert!(written.ends_with("a.txt"), "{actual}");
}

#[tokio::test]
async fn with_no_tool_to_hand_on_a_call_below_is_taken_up_too() {
    let lab = Lab::new();
    let stopped = KilledRun::start(&lab, "delegation: {max_spawn_depth: 2}").await;
    let actual = stopped.resumed("delegation: {max_spawn_depth: 2}\ntoolsets: [file]").await;
    let lead = &actual["children"][0];
    assert_eq!(lead["summary"], "Lead said", "{actual}");
    assert_eq!(lead["children"][0]["summary"], "Leaf said", "{actual}");
}
