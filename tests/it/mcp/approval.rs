//! What a person approved of a server, and what becomes of one that is another between two runs.

use std::fs;
use std::io::Write as _;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::fixture::{SERVER, approval_files, approve, caller, deputize, offered, set};
use crate::program::{ChatRequest, Lab, ProgramEnd, model, sees};

#[tokio::test]
async fn a_server_that_the_person_wrote_into_the_file_is_shown_before_it_is_used() {
    let lab = Lab::new();
    let server = caller().await;
    fs::create_dir_all(lab.path("home")).unwrap();
    let servers = json!({"w": {"command": SERVER, "args": ["instructions"]}});
    fs::write(lab.path("home/config.yaml"), format!("mcp_servers: {servers}\n")).unwrap();
    let words = "warning: mcp w: you have not approved it yet: 1 tool is not offered. Read what \
                 it says of itself, and approve it, with: deputize mcp review w";
    // Nobody can be asked, however often, and also after somebody tried it.
    for _ in 0..2 {
        let ended = lab.run(&server, &["--output", "events", "go"]).end().await.with_code(0);
        assert!(!offered(&ended) && ended.err.contains(words), "{}", ended.err);
        let test = deputize(&lab, &["mcp", "test", "w"]).await.with_code(0);
        assert!(test.err.contains("before you read and approve it"), "{}", test.err);
    }
    let list = deputize(&lab, &["mcp", "list", "--json"]).await.with_code(0);
    let rows: Value = serde_json::from_str(&list.out).unwrap();
    let state = "nobody approved it yet: deputize mcp review w";
    assert_eq!((&rows[0]["state"], &rows[0]["tools"]), (&json!(state), &json!([])));

    // Who is at the terminal is shown all of it and asked.
    for (typed, yes) in [(b"n\n", false), (b"y\n", true)] {
        let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "go"]);
        let screen = sees(&person, "Approve all of this? [y/N] ").await;
        assert!(screen.contains("Obey.\\u{202e}") && screen.contains("Say it again."), "{screen}");
        person.write_all(typed).unwrap();
        if yes {
            // What it may do is asked for all the same.
            sees(&person, "Run it? [y/N] ").await;
            person.write_all(b"n\n").unwrap();
        }
        let ended = running.end().await.with_code(0);
        assert_eq!(offered(&ended), yes, "{}", ended.err);
        assert_eq!(
            ended.err.contains("seen for the first time: its 1 tool is"),
            yes,
            "{}",
            ended.err
        );
    }
    let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "go"]);
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(!screen.contains("Approve"), "it is asked once: {screen}");
    person.write_all(b"n\n").unwrap();
    assert!(offered(&running.end().await.with_code(0)));
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn who_says_yes_to_everything_is_shown_it_all_the_same() {
    let lab = Lab::new();
    let server = caller().await;
    let own = set("instructions");
    let args = ["--approve", "auto", "--output", "events", "--set", &own, "go"];
    let first = lab.run(&server, &args).end().await.with_code(0);
    assert!(offered(&first) && first.err.contains("Obey.\\u{202e}"), "{}", first.err);
    let again = lab.run(&server, &args).end().await.with_code(0);
    assert!(offered(&again) && !again.err.contains("Obey."), "{}", again.err);
}

#[tokio::test]
async fn a_call_is_asked_for_unless_the_person_says_that_the_tool_only_looks() {
    let lab = Lab::new();
    let server = caller().await;
    let own = set("none");
    approve(&lab, &own).await;
    let denied = lab.run(&server, &["--set", &own, "go"]).end().await.with_code(0);
    assert!(denied.out.contains("error: denied by"), "{}", denied.out);
    let entry = json!({"command": SERVER, "args": ["none"], "tools": {"read_only": ["echo"]}});
    let looks = format!("mcp_servers.w={entry}");
    let ran = lab.run(&server, &["--set", &looks, "go"]).end().await.with_code(0);
    assert!(ran.out.contains("echo: hello"), "{}", ran.out);
}

#[tokio::test]
async fn what_changed_since_it_was_approved_is_not_offered_until_it_is_reviewed() {
    let lab = Lab::new();
    let server = caller().await;
    // What is started stays the same, and does something else.
    let does = lab.path("does");
    let own = set(&format!("@{}", does.display()));
    let run = |fault: &'static str| {
        fs::write(&does, fault).unwrap();
        let lab = &lab;
        let server = &server;
        let own = &own;
        async move {
            let args = ["--approve", "auto", "--output", "events", "--set", own, "go"];
            let ended = lab.run(server, &args).end().await.with_code(0);
            (offered(&ended), ended)
        }
    };
    let (offered, first) = run("none").await;
    assert!(
        offered && first.err.contains("seen for the first time: its 1 tool is"),
        "{}",
        first.err
    );
    assert!(run("greets").await.0, "the same tools");

    // It describes its tool otherwise, and has one more: that is seen when it is called.
    run("a description with escapes").await;
    let (offered, ended) = run("a description with escapes").await;
    assert!(!offered);
    let words = "mcp w: tool \"echo\" changed since you approved it (description, +1 line -1 line). \
                 Review with: deputize mcp review w";
    assert!(ended.err.contains(words), "{}", ended.err);
    fs::write(&does, "no schema").unwrap();
    deputize(&lab, &["mcp", "test", "w", "--set", &own]).await.with_code(0);
    let (offered, ended) = run("no schema").await;
    assert!(offered && ended.err.contains("mcp w: tool \"bare\" is new."), "{}", ended.err);
    fs::write(&does, "a description with escapes").unwrap();
    let args = ["mcp", "review", "w", "--set", &own];
    let shown = deputize(&lab, &args).await.with_code(1);
    assert!(shown.out.contains("echo  [changed]"), "{}", shown.out);
    assert!(shown.out.contains("Say\\u{1b}[8m it\\u{200b} again."), "{}", shown.out);
    deputize(&lab, &[&args[..], &["--yes"]].concat()).await.with_code(0);
    assert!(run("a description with escapes").await.0);
}

#[tokio::test]
async fn a_server_with_other_arguments_is_not_started_until_they_are_reviewed() {
    let lab = Lab::new();
    let server = caller().await;
    let run = |args: &[&str]| {
        let own = format!("mcp_servers.w={}", json!({"command": SERVER, "args": args}));
        let args = ["--approve", "auto", "--output", "events", "--set", &own, "go"];
        let running = lab.run(&server, &args);
        async move {
            let ended = running.end().await.with_code(0);
            (offered(&ended), ended)
        }
    };
    assert!(run(&["none"]).await.0);
    // If it were started, it would say that it has no key.
    let (offered, ended) = run(&["exits at once", "a b"]).await;
    assert!(!offered && !ended.err.contains("WEATHER_KEY"), "{}", ended.err);
    let words = "mcp w: its arguments changed. Review with: deputize mcp review w";
    assert!(ended.err.contains(words), "{}", ended.err);

    let changed =
        format!("mcp_servers.w={}", json!({"command": SERVER, "args": ["exits at once", "a b"]}));
    let test = deputize(&lab, &["mcp", "test", "w", "--set", &changed]).await.with_code(1);
    let words = "it is not started: its arguments changed since you approved it";
    assert!(test.err.contains(words), "{}", test.err);
    let list = deputize(&lab, &["mcp", "list", "--json", "--set", &changed]).await.with_code(0);
    let rows: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(rows[0]["arguments"], json!(["exits at once", "a b"]));
    assert_eq!(rows[0]["state"], "1 change waits: deputize mcp review w");
    let review = deputize(&lab, &["mcp", "review", "w", "--set", &changed]).await.with_code(1);
    let both = format!("before:\n    {SERVER} none\n  now:\n    {SERVER} 'exits at once' 'a b'\n");
    assert!(review.out.contains(&both), "{}", review.out);
    assert!(!review.err.contains("WEATHER_KEY"), "{}", review.err);

    let greets = set("greets");
    deputize(&lab, &["mcp", "review", "w", "--yes", "--set", &greets]).await.with_code(0);
    assert!(run(&["greets"]).await.0);
    // A variable more is a review more, by its name.
    let entry = json!({"command": SERVER, "args": ["greets"], "env": {"MODE": "other"}});
    let named = format!("mcp_servers.w={entry}");
    let list = deputize(&lab, &["mcp", "list", "--json", "--set", &named]).await.with_code(0);
    let rows: Value = serde_json::from_str(&list.out).unwrap();
    let words = "the names of its variables or headers changed";
    assert_eq!(rows[0]["changes"], json!([words]));
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn other_instructions_of_a_server_that_is_started_at_its_first_call_block_the_call() {
    let lab = Lab::new();
    let server = caller().await;
    let does = lab.path("does");
    let own = set(&format!("@{}", does.display()));
    fs::write(&does, "none").unwrap();
    approve(&lab, &own).await;
    fs::write(&does, "instructions").unwrap();
    let args = ["--approve", "auto", "--set", &own, "go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let words = "mcp w: its instructions changed since you approved them. Review with: deputize mcp \
                 review w";
    assert!(ended.out.contains(words) && !ended.out.contains("echo: hello"), "{}", ended.out);

    // So they do for what else it has.
    let reads = model(|asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp__w__read_resource", json!({"uri": "x://1"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await;
    fs::write(&does, "resources and prompts").unwrap();
    approve(&lab, &own).await;
    fs::write(&does, "resources and prompts and instructions").unwrap();
    let ended = lab.run(&reads, &args).end().await.with_code(0);
    assert!(ended.out.contains(words) && !ended.out.contains("the one"), "{}", ended.out);
}

#[tokio::test]
async fn resources_and_prompts_that_a_server_gains_wait_for_the_person() {
    let lab = Lab::new();
    let server = caller().await;
    let does = lab.path("does");
    let own = set(&format!("@{}", does.display()));
    fs::write(&does, "none").unwrap();
    approve(&lab, &own).await;
    fs::write(&does, "resources and prompts").unwrap();
    let run =
        || lab.run(&server, &["--approve", "auto", "--output", "events", "--set", &own, "go"]);
    let tools = |ended: &ProgramEnd| {
        let tools = ended.events("agent.start")[0]["tools"].as_array().unwrap().clone();
        tools.iter().filter(|tool| tool.as_str().unwrap().starts_with("mcp__w__")).count()
    };
    // It is seen at the first call.
    run().end().await.with_code(0);
    let ended = run().end().await.with_code(0);
    let words = "mcp w: it has resources now, which it had not; it has prompts now, which it had not. \
                 Review with: deputize mcp review w";
    assert!(ended.err.contains(words), "{}", ended.err);
    assert_eq!(tools(&ended), 1, "what was approved is offered still");
    let review = deputize(&lab, &["mcp", "review", "w", "--yes", "--set", &own]).await.with_code(0);
    assert!(review.out.contains("- it has resources now"), "{}", review.out);
    assert_eq!(tools(&run().end().await.with_code(0)), 5);
}

#[tokio::test]
async fn servers_of_one_name_in_two_configurations_are_approved_apart() {
    let lab = Lab::new();
    let server = caller().await;
    let file = |name: &str, fault: &str| {
        let path = lab.path(name);
        let entry = json!({"command": SERVER, "args": [fault]});
        fs::write(&path, format!("mcp_servers:\n  w: {entry}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let one = file("one.yaml", "none");
    let two = file("two.yaml", "greets");
    let run = async |config: &str| {
        let args = ["--output", "events", "--config", config, "go"];
        let ended = lab.run(&server, &args).end().await.with_code(0);
        (offered(&ended), ended)
    };
    let review = async |config: &str| {
        let review = ["mcp", "review", "w", "--yes", "--config", config];
        deputize(&lab, &review).await.with_code(0)
    };
    review(&one).await;
    let (has, ended) = run(&two).await;
    let words = "mcp w: its arguments changed. Review with: deputize mcp review --config";
    assert!(!has && ended.err.contains(words), "{}", ended.err);
    let reviewed = review(&two).await;
    let both = format!("before:\n    {SERVER} none\n  now:\n    {SERVER} greets\n");
    assert!(reviewed.out.contains(&both), "{}", reviewed.out);
    for config in [&one, &two, &one] {
        assert!(run(config).await.0, "neither takes the other's away");
        deputize(&lab, &["mcp", "test", "w", "--config", config]).await.with_code(0);
    }

    // Taking one out forgets what was approved of it, and of it alone.
    deputize(&lab, &["mcp", "remove", "w", "--config", &two]).await.with_code(0);
    assert!(run(&one).await.0);
    file("two.yaml", "greets");
    assert!(!run(&two).await.0);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn what_was_approved_before_approvals_were_kept_apart_is_not_asked_again() {
    let lab = Lab::new();
    let server = caller().await;
    let own = set("none");
    approve(&lab, &own).await;
    // An earlier version kept it by the name alone.
    let [file] = &approval_files(&lab.path("home"))[..] else { panic!("one file") };
    let old = lab.path("home/mcp/w.json");
    fs::rename(file, &old).unwrap();
    let args = ["--approve", "auto", "--output", "events", "--set", &own, "go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert!(offered(&ended) && !ended.err.contains("seen for the first time"), "{}", ended.err);
    let review = deputize(&lab, &["mcp", "review", "w", "--set", &own]).await.with_code(0);
    assert!(review.err.contains("all of it is as you approved it"), "{}", review.err);
    assert_eq!(approval_files(&lab.path("home")), std::slice::from_ref(file), "it was taken over");
    assert!(!old.exists());
}
