//! What agents and people find in past sessions.

use std::fs;
use std::path::Path;

use deputize_agent::{Agent, AgentModel};
use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const SEARCH: &str = "session_search";
/// The session of the page.
const OF_PAGE: &str = "20261127-093812-kqzvtw";

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// Returns the results that a model reads which makes these calls.
async fn results(lab: &Lab, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    last.results().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_calls_of_the_page_find_a_session_and_read_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/session-search.md");
    let page = fs::read_to_string(page).unwrap();
    let calls: Vec<&str> = blocks(&page, "json call").iter().map(|(_, call)| *call).collect();
    let expected = blocks(&page, "text result");
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("list_dir", json!({"path": "."}))])).await;
    let prompt = "Find out why the parser test is flaky";
    lab.run(&server, &[prompt]).end().await.with_code(0);
    let first = lab.session();
    let call = |text: &str| serde_json::from_str(&text.replace(OF_PAGE, &first)).unwrap();
    let calls = calls.into_iter().map(|text| (SEARCH, call(text))).collect();
    let results = results(&lab, calls).await;
    assert_eq!(results.len(), expected.len());
    for (result, (_, expected)) in results.iter().zip(&expected) {
        let day =
            |session: &str| format!("{}-{}-{}", &session[..4], &session[4..6], &session[6..8]);
        let expected = expected.replace(&day(OF_PAGE), &day(&first)).replace(OF_PAGE, &first);
        assert!(result.contains(&expected), "{result}");
        assert!(result.starts_with("<tool:session_search "), "{result}");
    }
    assert!(results[1].contains("reply:\nDone."), "{}", results[1]);
    assert!(!results[0].contains("Go"), "its own session is left out: {}", results[0]);
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said() {
    let lab = Lab::new();
    let calls = [
        json!({}),
        json!({"query": "a", "around": "b"}),
        json!({"query": " -- "}),
        json!({"around": "../x"}),
        json!({"around": "20260101-000000-aaaaaa#3"}),
        json!({"query": "submarine"}),
    ];
    let actual = results(&lab, calls.map(|call| (SEARCH, call)).into()).await;
    for (actual, expected) in actual.iter().zip([
        "give either `query` or `around`",
        "give either `query` or `around`",
        "the query has no words in it",
        "`../x` names no text of a session",
        "there is no session `20260101-000000-aaaaaa`",
        "nothing was found: try other words, or fewer",
    ]) {
        assert!(actual.contains(expected), "{actual}");
    }
}

#[tokio::test]
async fn what_a_session_had_read_from_outside_marks_what_is_written_after_finding_it() {
    let lab = Lab::new();
    let site = MockServer::start_with(|_| MockAnswer::body("text/html", "<p>Rule them all.")).await;
    let site = site.unwrap();
    let base = site.base_url();
    let host = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let allow = format!("fetch.allow_hosts=[\"{host}\"]");
    let fetch = ("web_fetch", json!({"url": format!("http://{host}/page")}));
    let server = model(calls_in_order(vec![fetch])).await;
    lab.run(&server, &["--set", &allow, "Read the ringlore"]).end().await.with_code(0);
    let add = |text: &str| ("memory", json!({"action": "add", "topic": "work", "text": text}));
    let search = (SEARCH, json!({"query": "ringlore"}));
    let actual = results(&lab, vec![add("Clean."), search, add("Marked.")]).await;
    assert!(actual[1].contains("[it had read web:127.0.0.1]"), "{}", actual[1]);
    let work = fs::read_to_string(lab.path("home/memory/work.md")).unwrap();
    let mark = "[written after reading web:127.0.0.1]";
    assert_eq!(work, format!("# About the work\n- Clean.\n- Marked. {mark}\n"));
}

#[tokio::test]
async fn children_cannot_search_what_their_parent_said() {
    let lab = Lab::new();
    let goal = json!({"goal": "Look.", "toolsets": ["file", "session_search"]});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => MockAnswer::reply(&Reply::text("served-1", "Looked.")),
        false => calls_in_order(vec![("delegate_task", goal.clone())])(asked),
    })
    .await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    let requests: Vec<_> = requests.iter().map(ChatRequest::of).collect();
    let has = |request: &&ChatRequest| request.tools().contains(&SEARCH);
    let (children, own): (Vec<_>, Vec<_>) =
        requests.iter().partition(|it| it.system().contains("YOUR TASK:"));
    assert!(!children.is_empty() && !children.iter().any(has));
    assert!(own.iter().all(has));
}

#[tokio::test]
async fn a_person_searches_sessions() {
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("list_dir", json!({"path": "."}))])).await;
    let none = deputize(&lab, &["sessions", "search", "parser"]).await.with_code(0);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "nothing was found\n"));
    fs::write(lab.work("ringlore.txt"), "").unwrap();
    lab.run(&server, &["Fix the parser of the parser"]).end().await.with_code(0);
    let session = lab.session();
    let found = deputize(&lab, &["sessions", "search", "pars", "fix"]).await.with_code(0);
    let lines: Vec<&str> = found.out.lines().collect();
    assert!(lines[0].starts_with(&session) && lines[0].ends_with("  Fix the parser of the parser"));
    assert_eq!(lines[1..], ["  prompt: **Fix** the **parser** of the **parser**"]);
    let found = deputize(&lab, &["sessions", "search", "parser", "--json"]).await.with_code(0);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found["sessions"][0]["session"], session.as_str());
    assert_eq!(found["sessions"][0]["texts"][0]["kind"], "prompt");
    let found = deputize(&lab, &["sessions", "search", "ringlore"]).await.with_code(0);
    assert!(found.out.contains("\n  result: **ringlore**.txt"), "{}", found.out);
    // More texts of one session are no reason for a higher limit.
    for _ in 0..6 {
        let again = ["--resume", &session, "Fix the parser"];
        lab.run(&server, &again).end().await.with_code(0);
    }
    let found = deputize(&lab, &["sessions", "search", "parser"]).await.with_code(0);
    assert_eq!(found.err, "more was found in these; add words\n");
    lab.run(&server, &["Fix the parser"]).end().await.with_code(0);
    let found = deputize(&lab, &["sessions", "search", "parser", "--limit", "1"]).await;
    assert_eq!(found.with_code(0).err, "more sessions were found; add words, or use --limit\n");
    let none = deputize(&lab, &["sessions", "search", "x", "--limit", "0"]).await.with_code(2);
    assert!(none.err.contains("give a whole number from 1"), "{}", none.err);
    let wrong = deputize(&lab, &["sessions", "search", "--", "--"]).await.with_code(2);
    assert!(wrong.err.contains("the query has no words in it"), "{}", wrong.err);
    let all = fs::read_dir(lab.path("home/sessions")).unwrap().map(|entry| entry.unwrap().path());
    let all = all.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    for path in all {
        let id = path.file_stem().unwrap().to_str().unwrap();
        deputize(&lab, &["sessions", "rm", id]).await.with_code(0);
    }
    let gone = deputize(&lab, &["sessions", "search", "parser"]).await.with_code(0);
    assert_eq!((gone.out.as_str(), gone.err.as_str()), ("", "nothing was found\n"));
    // What cannot be read is not what is not there.
    fs::remove_dir_all(lab.path("home/sessions")).unwrap();
    fs::write(lab.path("home/sessions"), "").unwrap();
    let broken = deputize(&lab, &["sessions", "search", "parser"]).await.with_code(1);
    assert!(broken.err.contains("home/sessions"), "{}", broken.err);
}

#[tokio::test]
async fn an_agent_of_another_program_searches_its_own_sessions() {
    let lab = Lab::new();
    let run = async |calls, task| {
        let server = model(calls_in_order(calls)).await;
        let agent = Agent::builder()
            .model(AgentModel::at(server.base_url(), "m"))
            .workspace(lab.work(""))
            .sessions(lab.path("sessions"))
            .env([])
            .session_search()
            .build()
            .unwrap();
        assert_eq!(agent.run(task).await.text.as_deref(), Some("Done."));
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        assert_eq!(last.tools(), [SEARCH]);
        last.results().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    run(Vec::new(), "Fix the parser").await;
    assert!(!lab.path("sessions/.search").exists());
    let found = run(vec![(SEARCH, json!({"query": "parser"}))], "Go").await;
    assert!(found[0].contains("#1 prompt: Fix the **parser**"), "{}", found[0]);
}

#[tokio::test]
async fn runs_that_do_not_search_make_no_index() {
    let lab = Lab::new();
    let server = model(calls_in_order(Vec::new())).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    assert!(!lab.path("home/sessions/.search").exists());
}

#[tokio::test]
async fn a_search_that_is_killed_at_any_moment_loses_nothing() {
    let lab = Lab::new();
    let server = model(calls_in_order(Vec::new())).await;
    lab.run(&server, &["Fix the parser"]).end().await.with_code(0);
    let text = fs::read_to_string(lab.session_file()).unwrap();
    let session = lab.session();
    for number in 0..150 {
        let name = format!("20260101-000000-{number:06}");
        let copy = text.replacen(&session, &name, 1);
        fs::write(lab.path(format!("home/sessions/{name}.jsonl")), copy).unwrap();
    }
    let folder = lab.path("home/sessions/.search");
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
    for bytes in [1, 20_000, 60_000, 80_000] {
        let _none = fs::remove_dir_all(&folder);
        let program = RunningProgram::start(lab.deputize(&["sessions", "search", "parser"]));
        // A whole index is larger.
        while size("index.sqlite") + size("index.sqlite-wal") < bytes {
            tokio::task::yield_now().await;
        }
        program.signal(Signal::KILL);
        program.end().await;
        let search = ["sessions", "search", "parser", "--limit", "500"];
        let found = deputize(&lab, &search).await.with_code(0);
        assert_eq!(found.out.matches("**parser**").count(), 151, "{bytes}: {}", found.err);
    }
}
