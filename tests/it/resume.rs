//! A session goes on as it was: with the model it asked, where it asked it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::model::{Reply, Usage};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::kill::kill;
use crate::program::{ChatRequest, Lab, RunningProgram, events, hang, model, soon};

mod children;
mod durations;
mod model_gone;
mod stopped;

#[tokio::test]
async fn the_hint_of_a_run_goes_on_with_it_at_the_same_address() {
    let lab = Lab::new();
    let server = model(|asked| {
        MockAnswer::reply(&if asked.may_call() && asked.replies() == 0 {
            Reply::calls("mock", [("list_dir", json!({}))])
        } else {
            Reply::text("mock", format!("answer {}", asked.replies()))
        })
    })
    .await;
    let ended = lab.run(&server, &["--max-iterations", "1", "go"]).end().await.with_code(4);
    let hint = ended.err.split("continue with `deputize ").nth(1).expect("a hint");
    let hint: Vec<&str> = hint.split('`').next().unwrap().split(' ').collect();

    // The key is for the provider's own address, where this conversation never was.
    let mut again = lab.deputize(&hint);
    again.env("OPENAI_API_KEY", "key-of-another-place");
    let ended = RunningProgram::start(again).end().await.with_code(0);
    assert_eq!(ended.out, "answer 2\n", "{}", ended.err);
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[tokio::test]
async fn without_a_message_a_whole_answer_is_printed_again_and_that_is_said() {
    let lab = Lab::new();
    let server = model(|asked| MockAnswer::reply(&Reply::text("mock", asked.last_user()))).await;
    lab.run(&server, &["first"]).end().await.with_code(0);
    let session = lab.session();
    let note = format!(
        "note: nothing is asked: the session has its answer already; `deputize run --resume {session} \
         MESSAGE` goes on\n"
    );
    for more in [&[][..], &["-q"]] {
        let args = [&["run", "--resume", session.as_str()], more].concat();
        let again = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        assert_eq!(again.out, "first\n");
        assert!(again.err.ends_with(&note), "{}", again.err);
    }
    assert_eq!(server.requests().len(), 1);
    let args = ["run", "--resume", &session, "second"];
    let on = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    assert!(!on.err.contains("nothing is asked"), "{}", on.err);
}

#[tokio::test]
async fn a_pipe_gives_a_stored_session_a_new_message() {
    let lab = Lab::new();
    let server = model(|asked| MockAnswer::reply(&Reply::text("mock", asked.last_user()))).await;
    lab.run(&server, &["first"]).end().await.with_code(0);
    let mut shell = lab.command("bash");
    shell.arg("-c").arg(format!(
        "echo second | {} run --resume {} -t file",
        crate::program::PROGRAM,
        lab.session()
    ));
    let ended = RunningProgram::start(shell).end().await.with_code(0);
    assert_eq!(ended.out.trim(), "second");
    assert!(ended.err.contains("with -t some of them are refused"), "{}", ended.err);
    assert!(ended.err.contains("✓ second"), "{}", ended.err);
    // The first run took at least nothing: what is of this run and what is of the session is said.
    let (_, end) = ended.err.split_once("✓ second (").unwrap();
    let (own, session) = end.split_once(" s; session ").expect("figures of the session");
    assert!(own.parse::<f64>().is_ok() && session.contains(" s)"), "{}", ended.err);
    let resumed = format!("note: resuming session {} (completed): first\n", lab.session());
    assert!(ended.err.contains(&resumed), "{}", ended.err);
}

#[tokio::test]
async fn a_session_goes_on_at_another_address_when_that_is_said() {
    let lab = Lab::new();
    let first = model(|_| MockAnswer::reply(&Reply::text("mock", "first answer"))).await;
    lab.run(&first, &["first"]).end().await.with_code(0);
    let session = lab.session();

    let other =
        model(|asked| MockAnswer::reply(&Reply::text("mock", asked.users().join(", ")))).await;
    let address = other.base_url();
    let again = |more: &[&str]| {
        let args = ["run", "--resume", &session, "--base-url", &address];
        let mut again = lab.deputize(&[&args, more].concat());
        // The key is for the provider's own address.
        again.env("OPENAI_API_KEY", "key-of-another-place").env("OWN_KEY", "key-of-this-place");
        RunningProgram::start(again)
    };
    let ended = again(&["second"]).end().await.with_code(0);
    assert!(ended.out.contains("first") && ended.out.contains("second"), "{}", ended.out);
    let requests = other.requests();
    assert_eq!(requests[0].json()["model"], "mock", "the same model");
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
    again(&["--api-key-env", "OWN_KEY", "third"]).end().await.with_code(0);
    let requests = other.requests();
    let key = requests.last().unwrap().header("authorization").map(str::to_owned);
    assert_eq!(key.as_deref(), Some("Bearer key-of-this-place"));
    assert_eq!(first.requests().len(), 1, "nothing more goes to the first address");
}

#[tokio::test]
async fn a_reply_that_broke_off_is_no_answer() {
    let lab = Lab::new();
    let whole = deputize_testkit::chat_sse(&Reply::text("mock", "An answer that is not whole."));
    let server = model(move |_| MockAnswer::sse(whole.clone()).cut_at(whole.len() / 2)).await;
    let mut command = lab.run_command(&server, &["go"]);
    // One attempt is enough to see it.
    command.env("DEPUTIZE__MAX_ITERATIONS", "1");
    let ended = RunningProgram::start(command).end().await.with_code(3);
    assert_eq!(ended.out, "");
    assert!(ended.err.contains("broke off"), "{}", ended.err);
}

/// A parent whose child hangs in its second request until the program is killed, and the server
/// answers from then on. Each reply is counted as 1,700 tokens, but those of a child that counts
/// none.
async fn killed_in_a_reply(lab: &Lab, counts: bool) -> MockServer {
    let usage = Usage { input: 1_500, output: 200, ..Usage::default() };
    let answers = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&answers);
    let server = model(move |asked: &ChatRequest| {
        let child = asked.first_user().contains("Look");
        let reply = match (child, asked.results().len()) {
            (false, 0) => Reply::calls("mock", [("delegate_task", json!({"goal": "Look"}))]),
            (true, 0) => Reply::calls("mock", [("list_dir", json!({}))]),
            (true, _) if !now.load(Ordering::Relaxed) => return hang(),
            _ => Reply::text("mock", "seen"),
        };
        let usage = if counts || !child { usage } else { Usage::default() };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await;
    let running = lab.run(&server, &["--output", "events", "go"]);
    let third = |event: &Value| event["depth"] == 1 && event["iteration"] == 2;
    running.event("model.request", third).await;
    let asked = async {
        while server.requests().len() < 3 {
            tokio::task::yield_now().await
        }
    };
    soon("the third request", asked).await;
    kill(lab, running).await;
    answers.store(true, Ordering::Relaxed);
    server
}

/// Returns the one event of a kind that has an estimate.
async fn estimate(lab: &Lab, kind: &str) -> Value {
    let exported = lab.deputize(&["sessions", "export", &lab.session()]);
    let actual = events(&RunningProgram::start(exported).end().await.with_code(0).out);
    let mut found = actual.into_iter().filter(|it| it["type"] == kind && it["estimated"] == true);
    let one = found.next().expect("an estimate");
    assert_eq!(found.next(), None);
    one
}

#[tokio::test]
async fn a_request_under_way_when_the_program_was_killed_is_counted_after_a_resume() {
    let lab = Lab::new();
    let _server = killed_in_a_reply(&lab, true).await;
    let session = lab.session();
    let args = ["run", "--resume", &session, "--output", "json", "--record", "resumed.jsonl"];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    let lost = estimate(&lab, "model.error").await;
    assert_eq!((&lost["kind"], &lost["depth"]), (&json!("incomplete"), &json!(1)), "{lost}");
    assert!(lost["message"].as_str().unwrap().contains("the program ended"), "{lost}");
    // Its text is longer than that of the request before it, which took 1,500 tokens.
    let input = lost["input_tokens"].as_u64().unwrap();
    assert!((1_501..2_000).contains(&input), "{lost}");
    let tokens = |of: &Value| (of["tokens"]["input"].clone(), of["tokens"]["output"].clone());
    assert_eq!(tokens(&actual["children"][0]), (json!(3_000 + input), json!(400)), "{actual}");
    assert_eq!(tokens(&actual), (json!(6_000 + input), json!(800)), "{actual}");
    assert_eq!(actual["children"][0]["api_calls"], 3, "{actual}");
    let replay = lab.deputize(&["run", "--replay", "resumed.jsonl"]);
    assert_eq!(RunningProgram::start(replay).end().await.with_code(0).out, "seen\n");
}

#[tokio::test]
async fn a_request_under_way_when_the_program_was_killed_is_spent_of_the_budget_of_a_resume() {
    let lab = Lab::new();
    let _server = killed_in_a_reply(&lab, true).await;
    let session = lab.session();
    let resume = lab.deputize(&["run", "--resume", &session, "--max-tokens-total", "5000"]);
    let ended = RunningProgram::start(resume).end().await.with_code(4);
    let input = estimate(&lab, "model.error").await["input_tokens"].as_u64().unwrap();
    let spent = format!("{} of 5000 tokens of the session's budget are spent", 3_400 + input);
    assert!(ended.err.contains(&spent), "{spent}: {}", ended.err);
    let hint = format!(
        "hint: continue with a higher limit, such as `deputize run --resume {session} --max-cost USD` \
         or `--max-tokens-total N`; both count what the session has spent\n"
    );
    assert!(ended.err.ends_with(&hint), "{}", ended.err);
}

#[tokio::test]
async fn a_reply_whose_tokens_the_server_did_not_count_is_marked() {
    let lab = Lab::new();
    let _server = killed_in_a_reply(&lab, false).await;
    let reply = estimate(&lab, "model.response").await;
    assert_eq!(reply["depth"], 1);
    assert!(reply["input_tokens"].as_u64().unwrap() > 500, "{reply}");
}
