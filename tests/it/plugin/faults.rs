//! Plugins that fail in the middle of a call: one call fails, and the rest goes on.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use rustix::process::Signal;
use serde_json::json;

use super::{caller, configure, library, results};
use crate::program::{ChatRequest, Lab, arguments_of, model, processes_below, soon};

fn nothing() -> serde_json::Value {
    json!({})
}

#[tokio::test]
async fn a_panic_is_one_failed_call_wherever_it_runs() {
    for isolated in [true, false] {
        let lab = Lab::new();
        configure(&lab, &[(&library("trouble"), isolated)]);
        let calls = ["trouble_fine", "trouble_panic", "trouble_fine"].map(|it| (it, nothing()));
        let (results, ended) = results(&lab, &calls, &[]).await;
        assert!(results[0].contains("asked 1 times") && results[0].contains("[a remark]"));
        assert!(results[1].contains("the tool failed"), "{results:?}");
        // It is the same process: what it keeps for the session is still there.
        assert!(results[2].contains("asked 2 times"), "{results:?}");
        let ends = ended.events("tool.end");
        assert_eq!(ends[1]["status"], "error");
        assert!(ended.err.contains("trouble_panic"), "{}", ended.err);
    }
}

#[tokio::test]
async fn an_isolated_plugin_that_dies_is_started_anew() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    let rows = [
        ("trouble_abort", "died of an abort (SIGABRT)"),
        (
            "trouble_exit",
            "ended by itself with exit code 7 (its last words: the plugin says goodbye)",
        ),
        ("trouble_overflow", "died of"),
    ];
    let mut calls = vec![("trouble_fine", nothing())];
    for (tool, _) in rows {
        calls.push((tool, nothing()));
        calls.push(("trouble_fine", nothing()));
    }
    let (results, ended) = results(&lab, &calls, &[]).await;
    let ends = ended.events("tool.end");
    for (index, (tool, how)) in rows.iter().enumerate() {
        let at = 1 + 2 * index;
        assert_eq!(ends[at]["status"], "error", "{tool}");
        assert!(results[at].contains("the tool failed"), "{tool}: {}", results[at]);
        assert!(ended.err.contains(how), "{tool}: {}", ended.err);
        assert!(results[at + 1].contains("asked 1 times"), "{tool}: {}", results[at + 1]);
    }
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn a_call_that_ends_the_process_harms_no_other_that_may_be_repeated() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    // All three are under way together; which ended the process, nobody can tell.
    let step = ["trouble_meet", "trouble_meet", "trouble_meet_abort"];
    let server = model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", step.map(|tool| (tool, nothing()))),
            _ => Reply::text("mock", asked.results().join("\n====\n")),
        })
    })
    .await;
    let ended = lab.run(&server, &["--output", "events", "go"]).end().await.with_code(0);
    let statuses: Vec<_> = ended
        .events("tool.end")
        .iter()
        .map(|end| end["status"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(statuses.iter().filter(|status| *status == "ok").count(), 2, "{ended:#?}");
    let actual = ended.events("model.response").pop().unwrap()["text"].as_str().unwrap().to_owned();
    assert_eq!(actual.matches("met").count(), 2, "{actual}");
    assert!(ended.err.contains("died of an abort (SIGABRT)"), "{}", ended.err);
    assert_eq!(lab.processes(), []);
}

/// Gives the only plugin of the configuration more keys.
fn with_keys(lab: &Lab, keys: &str) {
    let file = lab.path("home/config.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + keys).unwrap();
}

#[tokio::test]
async fn a_plugin_that_eats_memory_is_one_failed_call_that_says_so() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    let calls = ["trouble_fine", "trouble_eat", "trouble_fine"].map(|it| (it, nothing()));
    with_keys(&lab, "    memory_mb: 64\n");
    let (actual, ended) = results(&lab, &calls, &[]).await;
    assert_eq!(ended.events("tool.end")[1]["status"], "error");
    assert!(actual[1].contains("the tool failed"), "{actual:?}");
    let words = "got no more memory (`memory_mb` of the plugin is 64)";
    assert!(ended.err.contains(words), "{}", ended.err);
    assert!(actual[2].contains("asked 1 times"), "another process: {actual:?}");
    assert_eq!(lab.processes(), []);

    // Another limit, and it is enough.
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    with_keys(&lab, "    memory_mb: 512\n");
    let (actual, _) = results(&lab, &calls, &[]).await;
    assert!(actual[1].contains("ate 256 MB"), "{actual:?}");
    assert!(actual[2].contains("asked 2 times"), "the same process: {actual:?}");
}

#[tokio::test]
async fn an_isolated_plugin_sees_the_variables_that_the_person_named_and_no_others() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    with_keys(&lab, "    env: [WORDS_API_KEY, LD_PRELOAD, NOT_SET]\n");
    let server = caller(&[("trouble_env", nothing())]).await;
    let mut command = lab.run_command(&server, &["--output", "events", "go"]);
    command.env("WORDS_API_KEY", "words-key-0123456789").env("OTHER_API_KEY", "0123456789");
    let ended = crate::program::RunningProgram::start(command).end().await.with_code(0);
    let responses = ended.events("model.response");
    let actual = responses.last().unwrap()["text"].as_str().unwrap();
    assert!(actual.contains(r#""WORDS_API_KEY""#) && actual.contains(r#""PATH""#), "{actual}");
    let names: Vec<&str> = actual.split('"').skip(1).step_by(2).collect();
    let known = ["HOME", "LANG", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
    let others = names.iter().filter(|name| !known.contains(name) && !name.starts_with("LC_"));
    // The mark by which the process is found again, and what was named.
    let others: Vec<&&str> = others.collect();
    assert_eq!(others, [&"DEPUTIZE_OWNER", &"WORDS_API_KEY"], "{actual}");
    // Its value is a secret from now on.
    lab.holds_no("words-key-0123456789", &ended);
}

#[tokio::test]
async fn a_slow_call_ends_at_its_limit_and_gives_what_it_has() {
    for isolated in [true, false] {
        let lab = Lab::new();
        configure(&lab, &[(&library("trouble"), isolated)]);
        // The first call starts the process, which is not what takes the time here.
        let calls = ["trouble_fine", "trouble_wait", "trouble_fine"].map(|it| (it, nothing()));
        let (results, ended) = results(&lab, &calls, &["-v"]).await;
        assert!(results[1].contains("cancelled at its time limit of 2 s"), "{results:?}");
        assert!(results[1].contains("half of it"), "{results:?}");
        assert!(results[2].contains("asked 2 times"), "the same process: {results:?}");
        let actual = ended.events("tool.progress");
        assert_eq!(actual[0]["text"], "waiting in the plugin");
        assert_eq!(actual[0]["call"], "call_2_0");
        assert!(ended.err.contains("… waiting in the plugin"), "{}", ended.err);
        let stored = fs::read_to_string(lab.session_file()).unwrap();
        assert!(!stored.contains("waiting in the plugin"), "notes are not stored");
    }
}

#[tokio::test]
async fn a_call_that_does_not_end_is_ended_or_left_behind() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    let calls = ["trouble_fine", "trouble_spin", "trouble_fine"].map(|it| (it, nothing()));
    let (actual, ended) = results(&lab, &calls, &[]).await;
    assert!(actual[1].contains("so its process was ended"), "{actual:?}");
    assert_eq!(ended.events("tool.end")[1]["status"], "cancelled");
    assert!(actual[2].contains("asked 1 times"), "another process: {actual:?}");
    assert_eq!(lab.processes(), []);

    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), false)]);
    let mut calls = vec![("trouble_spin", nothing()); 5];
    calls.push(("trouble_fine", nothing()));
    // Five times the same call would end the turn; the model asks for something else in between.
    calls.insert(2, ("trouble_fine", nothing()));
    calls.insert(5, ("trouble_fine", nothing()));
    let (actual, ended) = results(&lab, &calls, &[]).await;
    assert!(actual[0].contains("goes on in this program"), "{actual:?}");
    assert!(actual[2].contains("asked 1 times"), "{actual:?}");
    assert!(ended.err.contains("4 cancelled calls of this plugin did not end"), "{}", ended.err);
    assert_eq!(ended.events("session.end")[0]["status"], "completed");
}

#[tokio::test]
async fn what_a_plugin_prints_is_no_answer_and_what_it_may_do_is_reported() {
    let lab = Lab::new();
    configure(&lab, &[(&library("trouble"), true)]);
    let calls = [("trouble_print", nothing()), ("trouble_where", nothing())];
    let (results, _) = results(&lab, &calls, &[]).await;
    assert!(results[0].contains("printed"), "{results:?}");
    let work = lab.work("").canonicalize().unwrap();
    let session = lab.session();
    let work = work.display().to_string();
    for part in [
        format!("session {session} agent {session} call call_2_0"),
        format!("cwd \"{work}\" read {{\"{work}\"}} write {{\"{work}\"}} network true"),
    ] {
        assert!(results[1].contains(&part), "{part}: {}", results[1]);
    }
}

/// Holds invariant I7 for the processes of plugins.
#[tokio::test]
async fn nothing_is_left_of_an_isolated_plugin_when_the_program_is_killed() {
    for signal in [Signal::KILL, Signal::INT] {
        let lab = Lab::new();
        let library = super::compiled(&lab, "tests/fixtures/plugins/rude.c", "librude", &[]);
        configure(&lab, &[(&library, true)]);
        let server = caller(&[("rude", json!({"how": "spin"}))]).await;
        let running = lab.run(&server, &["--output", "events", "go"]);
        running.event("tool.start", |_| true).await;
        let host = soon("the plugin's process", async {
            loop {
                let below = processes_below(running.pid());
                let host = below.into_iter().find(|(_, what)| what.contains("__plugin-host"));
                match host {
                    Some((pid, _)) => break pid,
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        running.signal(signal);
        running.end().await;
        soon("the end of the plugin's process", async {
            while arguments_of(host).contains("__plugin-host") || !lab.processes().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}
