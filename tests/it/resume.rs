//! A session goes on as it was: with the model it asked, where it asked it.

use deputize_core::Reply;
use deputize_testkit::Answer;
use serde_json::json;

use crate::program::{Lab, Running, model};

#[tokio::test]
async fn the_hint_of_a_run_goes_on_with_it_at_the_same_address() {
    let lab = Lab::new();
    let server = model(|asked| {
        Answer::reply(&if asked.may_call() && asked.replies() == 0 {
            Reply::calls("mock", [("list_dir", json!({}))])
        } else {
            Reply::text("mock", format!("answer {}", asked.replies()))
        })
    })
    .await;
    let ended = lab.run(&server, &["--max-iterations", "1", "go"]).end().await.with_code(4);
    let hint = ended.err.split("go on with `deputize ").nth(1).expect("a hint");
    let hint: Vec<&str> = hint.split('`').next().unwrap().split(' ').collect();

    // The key is for the provider's own address, where this conversation never was.
    let mut again = lab.deputize(&hint);
    again.env("OPENAI_API_KEY", "key-of-another-place");
    let ended = Running::start(again).end().await.with_code(0);
    assert_eq!(ended.out, "answer 2\n", "{}", ended.err);
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[tokio::test]
async fn a_pipe_gives_a_stored_session_a_new_message() {
    let lab = Lab::new();
    let server = model(|asked| Answer::reply(&Reply::text("mock", asked.last_user()))).await;
    lab.run(&server, &["first"]).end().await.with_code(0);
    let mut shell = lab.command("bash");
    shell.arg("-c").arg(format!(
        "echo second | {} run --resume {} -t file",
        crate::program::PROGRAM,
        lab.session()
    ));
    let ended = Running::start(shell).end().await.with_code(0);
    assert_eq!(ended.out.trim(), "second");
    assert!(ended.err.contains("with -t some of them are refused"), "{}", ended.err);
    assert!(ended.err.contains("✓ second"), "{}", ended.err);
}

#[tokio::test]
async fn a_session_goes_on_at_another_address_when_that_is_said() {
    let lab = Lab::new();
    let first = model(|_| Answer::reply(&Reply::text("mock", "first answer"))).await;
    lab.run(&first, &["first"]).end().await.with_code(0);
    let session = lab.session();

    let other = model(|asked| Answer::reply(&Reply::text("mock", asked.users().join(", ")))).await;
    let address = other.base_url();
    let again = |more: &[&str]| {
        let args = ["run", "--resume", &session, "--base-url", &address];
        let mut again = lab.deputize(&[&args, more].concat());
        // The key is for the provider's own address.
        again.env("OPENAI_API_KEY", "key-of-another-place").env("OWN_KEY", "key-of-this-place");
        Running::start(again)
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
    let server = model(move |_| Answer::sse(whole.clone()).cut_at(whole.len() / 2)).await;
    let mut command = lab.run_command(&server, &["go"]);
    // One attempt is enough to see it.
    command.env("DEPUTIZE__MAX_ITERATIONS", "1");
    let ended = Running::start(command).end().await.with_code(3);
    assert_eq!(ended.out, "");
    assert!(ended.err.contains("broke off"), "{}", ended.err);
}
