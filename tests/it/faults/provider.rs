//! Model servers that refuse, break off, stall and talk nonsense.

use std::fs;
use std::time::Duration;

use deputize_core::model::{Finish, Reply};
use deputize_testkit::{Barrier, MockAnswer, MockServer, chat_sse};
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const KEY: &str = "sk-mock-0123456789abcdef";
/// What leads to no retry ends within this time, also on a loaded machine.
/// The shortest wait that an answer asks for. None is waited for.
const SHORTEST_WAIT: Duration = Duration::from_secs(61);

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

/// A run with a key against these answers, and how many requests it made.
async fn run(
    lab: &Lab,
    answers: impl IntoIterator<Item = MockAnswer>,
    args: &[&str],
) -> (ProgramEnd, usize) {
    let server = MockServer::start(answers).await.unwrap();
    let args = [&["--api-key-env", "MOCK_KEY"], args, &["Answer me"]].concat();
    let mut command = lab.run_command(&server, &args);
    command.env("MOCK_KEY", KEY);
    let ended = RunningProgram::start(command).end().await;
    assert!(!ended.err.contains("was not scripted"), "{}", ended.err);
    lab.holds_no(KEY, &ended);
    (ended, server.requests().len())
}

#[tokio::test]
async fn what_no_retry_heals_ends_at_once_and_says_what_to_do() {
    let error = MockAnswer::error;
    let redirect = || {
        let to = "http://127.0.0.1:9/v1/chat/completions";
        MockAnswer::body("text/plain", "").status(307).header("location", to)
    };
    let overflow = "This model's maximum context length is 8192 tokens";
    let vllm = "The decoder prompt (length 9000) is longer than the maximum model length of 4096";
    let larger = "with a model of a larger context, `deputize run --resume ";
    let filtered = Reply { finish: Finish::Refused, ..Reply::text("mock", "") };
    let filtered = MockAnswer::reply(&filtered);
    let quota = r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#;
    let page = "<html><title>Please sign in</title></html>";
    let line = [b"data: ".as_slice(), &vec![b'x'; 10 << 20], b"\n\n"].concat();
    let cases: [(&str, MockAnswer, i32, &[&str]); 15] = [
        (
            "401",
            error(401, &format!("wrong key {KEY}")),
            3,
            &["openai", "`mock`", "key in MOCK_KEY"],
        ),
        ("403", error(403, "not you"), 3, &["openai", "`mock`", "key in MOCK_KEY"]),
        ("404", error(404, "no such model"), 3, &["no model `mock`", "base_url"]),
        (
            "quota",
            MockAnswer::body("application/json", quota).status(429),
            3,
            &["quota", "MOCK_KEY"],
        ),
        (
            "waits long",
            error(429, "no").header("retry-after", "7200"),
            3,
            &["to wait 2 h", "more than 60 s are not waited for"],
        ),
        (
            "61 s",
            error(429, "no").header("retry-after", "61"),
            3,
            &["to wait 1 min 1 s", "more than 60 s"],
        ),
        ("redirect", redirect(), 3, &["127.0.0.1:9", "not followed", "base_url"]),
        ("sign-in page", MockAnswer::body("text/html", page), 3, &["`Please sign in`", "base_url"]),
        ("no reply", MockAnswer::json(&json!({"status": "ok"})), 3, &["not a model's reply"]),
        ("400", error(400, "tools[0] is wrong"), 1, &["was refused", "tools[0] is wrong"]),
        ("overflow", error(400, overflow), 4, &["too long for model `mock`", "8192", larger]),
        ("overflow of vLLM", error(400, vllm), 4, &["too long for model `mock`", "9000", larger]),
        ("filtered", filtered, 1, &["provider refused or filtered", "ask another model"]),
        ("a line of 10 MB", MockAnswer::sse(line), 1, &["8388608", "twice limits.reply_bytes"]),
        ("overflow, large", error(413, "too large"), 4, &["too long for model `mock`"]),
    ];
    for (name, answer, code, describe) in cases {
        let (ended, requests) = run(&Lab::new(), [answer], &[]).await;
        println!("{name}: {}", ended.err);
        let ended = ended.with_code(code);
        assert_eq!((ended.out.as_str(), requests), ("", 1), "{name}");
        assert!(describe.iter().all(|word| ended.err.contains(word)), "{name}: {}", ended.err);
        assert!(ended.took < SHORTEST_WAIT, "{name}: {ended:#?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_twice_and_reported_with_what_to_check() {
    let lab = Lab::new();
    let server = MockServer::start([]).await.unwrap();
    let command = lab.run_command(&server, &["--output", "events", "Answer me"]);
    let address = server.address();
    drop(server);
    // The listener is closed when its task has ended.
    while std::net::TcpStream::connect(address).is_ok() {
        tokio::task::yield_now().await;
    }
    let ended = RunningProgram::start(command).end().await.with_code(3);
    let expected = format!("connection refused; is the server running at http://{address}/v1");
    let errors = ended.events("model.error");
    assert_eq!(errors.len(), 2, "on this machine nothing comes of waiting: {ended:#?}");
    let waits = ended.events("model.retry");
    assert_eq!(waits.len(), 1);
    assert!(waits[0]["wait_ms"].as_u64().unwrap() <= 750, "{waits:?}");
    assert_eq!((&waits[0]["attempt"], &waits[0]["of"]), (&json!(2), &json!(2)));
    assert!(
        errors.iter().all(|it| it["message"].as_str().unwrap().contains(&expected)),
        "{errors:?}"
    );
}

#[tokio::test]
async fn what_may_heal_is_tried_again_and_nothing_of_the_broken_reply_counts() {
    let broken = || {
        let mut reply =
            Reply::calls("mock", [("write_file", json!({"path": "a", "content": "x"}))]);
        reply.text = "I begin to say something.".to_owned();
        chat_sse(&reply)
    };
    let finish = broken().find("\"finish_reason\":\"tool_calls\"").unwrap();
    let event = broken()[..finish].rfind("\n\n").unwrap() + 2;
    let mark = broken().find("data: [DONE]").unwrap();
    let never = Barrier::closed();
    let page = "<html><title>502 Bad Gateway</title></html>";
    let inside = "data: {\"error\":{\"message\":\"worker died\",\"code\":500}}\n\n";
    let cases = [
        ("429", vec![MockAnswer::error(429, "slow down").header("retry-after", "1")]),
        ("500 and 503", vec![MockAnswer::error(500, "boom"), MockAnswer::error(503, "loading")]),
        ("a page", vec![MockAnswer::body("text/html", page).status(502)]),
        ("empty", vec![MockAnswer::sse("")]),
        ("cut", vec![MockAnswer::sse(broken()).cut_at(finish)]),
        ("cut behind the finish reason", vec![MockAnswer::sse(broken()).cut_at(mark)]),
        ("reset", vec![MockAnswer::sse(broken()).pieces(64).reset_at(finish)]),
        ("no end mark", vec![MockAnswer::sse(broken()).ending_at(finish)]),
        ("stalls", vec![MockAnswer::sse(broken()).stall_at(finish, &never)]),
        ("comments", vec![MockAnswer::sse(&broken()[..event]).then_forever(": .\n\n", TICK)]),
        ("fails inside", vec![MockAnswer::sse(inside)]),
        ("garbage", vec![MockAnswer::sse((0..=255).cycle().take(50_000).collect::<Vec<u8>>())]),
    ];
    let mut all = tokio::task::JoinSet::new();
    for (name, broken) in cases {
        all.spawn(async move {
            let lab = Lab::new();
            let failures = broken.len();
            let idle = "providers.openai.stream_idle_timeout_seconds=1";
            let args = ["--output", "events", "--set", idle];
            let (ended, requests) =
                run(&lab, broken.into_iter().chain([text("At last.")]), &args).await;
            (name, lab, failures, ended, requests)
        });
    }
    while let Some(case) = all.join_next().await {
        let (name, lab, failures, ended, requests) = case.unwrap();
        let errors = ended.events("model.error");
        println!("{name}: {} after {:?}", errors[0]["message"], ended.took);
        let ended = ended.with_code(0);
        assert_eq!((requests, errors.len()), (failures + 1, failures), "{name}");
        assert_eq!(ended.events("model.retry").len(), failures, "{name}");
        let replies = ended.events("model.response");
        assert_eq!((replies.len(), &replies[0]["text"]), (1, &json!("At last.")), "{name}");
        assert!(ended.events("tool.start").is_empty() && !lab.work("a").exists(), "{name}");
    }
}

const TICK: Duration = Duration::from_millis(2);

#[tokio::test]
async fn a_server_that_stays_broken_is_given_up_and_the_session_goes_on_later() {
    let lab = Lab::new();
    let answers = || (0..5).map(|_| MockAnswer::error(500, "boom"));
    let (ended, requests) = run(&lab, answers(), &[]).await;
    let ended = ended.with_code(3);
    assert_eq!((ended.out.as_str(), requests), ("", 5));
    assert!(ended.err.contains("boom") && ended.err.contains("tried 5 times"), "{}", ended.err);
    let server = MockServer::start([text("Back again.")]).await.unwrap();
    let ended = lab.run(&server, &["--resume", &lab.session()]).end().await.with_code(0);
    assert_eq!(ended.out, "Back again.\n");
}

#[tokio::test]
async fn much_of_what_is_allowed_is_taken() {
    let delta = |text: &str| {
        let choice = json!({"index": 0, "delta": {"reasoning_content": text}});
        format!("data: {}\n\n", json!({"model": "mock", "choices": [choice]}))
    };
    let thought: String = (0..48).map(|_| delta(&"hm. ".repeat(1 << 14))).collect();
    let body = thought + &chat_sse(&Reply::text("mock", "Done."));
    let (ended, requests) = run(&Lab::new(), [MockAnswer::sse(body)], &[]).await;
    println!("3 MB of reasoning: {:?}", ended.took);
    let ended = ended.with_code(0);
    assert_eq!((ended.out.as_str(), requests), ("Done.\n", 1));

    let many = |count: usize| {
        let calls = (0..count).map(|n| ("list_dir", json!({"path": format!("d{n}")})));
        MockAnswer::reply(&Reply::calls("mock", calls))
    };
    let args = ["--output", "events"];
    let (ended, requests) = run(&Lab::new(), [many(128), text("Done.")], &args).await;
    println!("128 calls: {:?}", ended.took);
    let ended = ended.with_code(0);
    assert_eq!((ended.events("tool.end").len(), requests), (128, 2));
    for count in [129, 5000] {
        let (ended, _) = run(&Lab::new(), (0..5).map(|_| many(count)), &args).await;
        let error = ended.events("model.error");
        let said = error[0]["message"].as_str().unwrap();
        println!("{count} calls: {said} after {:?}", ended.took);
        assert!(said.contains("128"), "the limit is named: {said}");
        assert!(ended.events("tool.start").is_empty());
        assert_ne!(ended.code, Some(0));
    }
}

/// Requests whose results are given to the model, as text.
async fn describe(answers: Vec<MockAnswer>, args: &[&str]) -> (ProgramEnd, Vec<String>) {
    let lab = Lab::new();
    let server = MockServer::start(answers).await.unwrap();
    let args = [args, &["Answer me"]].concat();
    let ended = lab.run(&server, &args).end().await;
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    (ended, last.results().into_iter().map(str::to_owned).collect())
}

#[tokio::test]
async fn nonsense_is_answered_with_what_is_wrong_with_it() {
    let raw = |name: &str, arguments: &str| {
        let mut reply = Reply::calls("mock", [(name, json!({}))]);
        arguments.clone_into(&mut reply.calls[0].arguments);
        MockAnswer::reply(&reply)
    };
    let deep = "[".repeat(100_000);
    let cases: [(&str, MockAnswer, &str); 8] = [
        ("unknown", raw("make_coffee", "{}"), "there is no tool `make_coffee`"),
        ("near", raw("read_fil", "{}"), "Did you mean read_file?"),
        ("no name", raw("", "{}"), "it names no tool"),
        ("controls", raw("\u{1b}[2Jrm\u{7}", "{}"), "there is no tool"),
        ("no JSON", raw("read_file", "{\"path\": \"a"), "JSON"),
        ("a list", raw("read_file", "[1, 2]"), "object"),
        ("deep", raw("read_file", &deep), "not JSON: recursion limit exceeded"),
        ("wrong type", raw("read_file", "{\"path\": {}}"), "path"),
    ];
    for (name, answer, expected) in cases {
        let (ended, results) = describe(vec![answer, text("I see.")], &[]).await;
        println!("{name}: {results:?}");
        let ended = ended.with_code(0);
        assert_eq!((ended.out.as_str(), results.len()), ("I see.\n", 1), "{name}");
        assert!(results[0].starts_with("error:") && results[0].contains(expected), "{results:?}");
        assert!(!ended.err.contains('\u{1b}') && !results[0].contains('\u{1b}'), "{name}");
    }
}

#[tokio::test]
async fn a_reply_of_nothing_but_thoughts_is_asked_about_once_and_called_that() {
    let lab = Lab::new();
    let server = model(|_| text("<think>They want an answer.</think>\n")).await;
    let ended = lab.run(&server, &["Answer me"]).end().await.with_code(1);
    assert_eq!(server.requests().len(), 2);
    let expected = "error: the model gave only thoughts and no answer";
    assert!(ended.err.contains(expected), "{}", ended.err);
}

#[tokio::test]
async fn models_that_never_stop_are_stopped() {
    let forever = |name: &'static str,
                   rule: fn(&ChatRequest) -> MockAnswer,
                   args: &'static [&'static str]| {
        async move {
            let lab = Lab::new();
            let server = model(rule).await;
            let ended = lab.run(&server, &[args, &["Answer me"]].concat()).end().await;
            println!(
                "{name}: {} requests, {:?}: {}",
                server.requests().len(),
                ended.code,
                ended.err
            );
            (ended, server.requests().len())
        }
    };
    let (ended, requests) = forever("the same call", |_| call("list_dir", json!({})), &[]).await;
    assert!((5..=9).contains(&requests), "{requests}");
    assert!(ended.with_code(1).err.contains("repeated"));

    let (ended, requests) = forever("nothing", |_| text(""), &[]).await;
    assert_eq!(requests, 2);
    assert!(ended.with_code(1).err.contains("empty answer"));

    let limit: &[&str] = &["--max-iterations", "3"];
    let (ended, requests) = forever(
        "a call after the limit",
        |asked| {
            let mut reply = Reply::calls(
                "mock",
                [("list_dir", json!({"path": format!("d{}", asked.replies())}))],
            );
            reply.text = format!("Step {}.", asked.replies());
            MockAnswer::reply(&reply)
        },
        limit,
    )
    .await;
    let ended = ended.with_code(4);
    assert_eq!((requests, ended.out.as_str()), (4, "Step 3.\n"));
    let expected = "the limit of 3 model requests (max_iterations) was reached";
    assert!(ended.err.contains(expected), "{}", ended.err);

    let (ended, requests) = forever(
        "nothing but calls after the limit",
        |asked| call("list_dir", json!({"path": format!("d{}", asked.replies())})),
        limit,
    )
    .await;
    assert_eq!(requests, 4);
    let ended = ended.with_code(4);
    assert!(ended.err.contains("limit of 3 model requests"), "there is no partial answer");

    let (ended, requests) = forever(
        "an answer at the limit",
        |asked| if asked.may_call() { call("list_dir", json!({})) } else { text("So far.") },
        limit,
    )
    .await;
    let ended = ended.with_code(4);
    assert_eq!((requests, ended.out.as_str()), (4, "So far.\n"));
}

#[tokio::test]
async fn a_key_in_the_environment_is_in_nothing_that_comes_out() {
    let other = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    for output in ["text", "json", "events"] {
        let lab = Lab::new();
        fs::write(lab.work(".env"), format!("TOKEN={KEY}\n")).unwrap();
        // A server that says the key wherever it can.
        let echo = MockAnswer::error(500, &format!("{KEY} is busy"));
        let show =
            call("terminal", json!({"command": "env; echo [$MOCK_KEY$OTHER_TOKEN]; cat .env"}));
        let answers = [
            echo,
            call("read_file", json!({"path": ".env"})),
            show,
            call("terminal", json!({"command": format!("echo {KEY}")})),
            text(&format!("The key is {KEY}.")),
        ];
        let server = MockServer::start(answers).await.unwrap();
        let prompt = format!("Is {KEY} a key?");
        let args = ["--api-key-env", "MOCK_KEY", "--approve", "auto", "--output", output, "-v"];
        let mut command = lab.run_command(&server, &[&args[..], &[&prompt]].concat());
        command.env("MOCK_KEY", KEY).env("OTHER_TOKEN", other);
        let ended = RunningProgram::start(command).end().await.with_code(0);
        lab.holds_no(KEY, &ended);
        lab.holds_no(other, &ended);
        let requests = server.requests();
        assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
        for request in &requests {
            let results = ChatRequest::of(request).results().join("\n");
            assert!(!results.contains(KEY) && !results.contains(other), "{results}");
        }
    }
}

#[tokio::test]
async fn a_key_goes_to_no_address_that_it_was_not_meant_for() {
    let lab = Lab::new();
    let server = MockServer::start([text("Hello.")]).await.unwrap();
    let mut command = lab.run_command(&server, &["Hello"]);
    command.env("OPENAI_API_KEY", KEY);
    RunningProgram::start(command).end().await.with_code(0);
    assert_eq!(server.requests()[0].header("authorization"), None);
}
