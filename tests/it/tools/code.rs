//! Scripts that call tools, with real Python.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::web::{allowing, engine, port, site};
use super::{blocks, calls_in_order};
use crate::kill::{kill, resume};
use crate::program::{ChatRequest, Lab, RunningProgram, model, sees};

const AUTO: [&str; 4] = ["--approve", "auto", "--output", "events"];

fn script(code: &str) -> Vec<(&'static str, Value)> {
    vec![("execute_code", json!({ "code": code }))]
}

/// The calls of some events: the ID, and the tool.
fn calls(events: &[Value]) -> Vec<String> {
    let field = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    events.iter().map(|it| format!("{} {}", field(it, "call"), field(it, "tool"))).collect()
}

#[tokio::test]
async fn the_script_of_the_page_prints_what_it_says() {
    require!(program("python3"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/code.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, wanted) = blocks(&page, "text result")[0];
    let lab = Lab::new();
    fs::write(lab.work("a.md"), "one two three\n").unwrap();
    fs::write(lab.work("b.md"), "four five\n").unwrap();
    let server = model(calls_in_order(vec![("execute_code", call)])).await;
    let file = ["--record", "../t.jsonl"];
    let ended = lab.run(&server, &[&AUTO[..], &file, &["Go"]].concat()).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert_eq!(last.results().len(), 1, "only the output returns");
    assert!(last.results()[0].contains(wanted), "{}\n{wanted}", last.results()[0]);
    assert!(!last.results()[0].contains("one two three"));
    let started = calls(&ended.events("tool.start"));
    let nested = ["search_files", "read_file", "read_file", "terminal"];
    let nested = (1..).zip(nested).map(|(number, tool)| format!("call_1_0_{number} {tool}"));
    let wanted: Vec<_> = ["call_1_0 execute_code".to_owned()].into_iter().chain(nested).collect();
    assert_eq!(started, wanted);
    assert_eq!(ended.events("tool.end").len(), 5);
    assert_eq!(ended.events("file.read").len(), 2);
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());

    // Neither Python nor files are needed to play it again.
    drop(server);
    fs::remove_file(lab.work("a.md")).unwrap();
    let mut replay = lab.deputize(&["run", "--replay", "../t.jsonl", "--output", "events"]);
    replay.env("PATH", "/nowhere");
    let replayed = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(calls(&replayed.events("tool.start")), started);
}

#[tokio::test]
async fn a_script_searches_and_reads_the_web_as_its_agent_does() {
    require!(program("python3"));
    let lab = Lab::new();
    let open = MockServer::start_with(site).await.unwrap();
    let closed = MockServer::start_with(site).await.unwrap();
    let engine = MockServer::start_with(engine).await.unwrap();
    let code = format!(
        "site = 'http://127.0.0.1:{}'\n\
         for hit in web_search('kites & strings', limit=2):\n    \
             print(hit['title'], hit['url'], hit['snippet'], sep='|')\n\
         page = web_fetch(site + '/moved')\n\
         print('**fly**' in page, page.notes == [f'final address: {{site}}/page'])\n\
         print('Kites in print' in web_fetch(site + '/file'))\n\
         end = web_fetch(site + '/plain', offset=219995)\n\
         print(repr(end), end.notes)\n\
         for url in [site + '/gone', 'http://127.0.0.1:{}/page', site + '/page?tok-of-' + \
         'this-site']:\n    \
             try:\n        web_fetch(url)\n    \
             except ToolError as error:\n        print(error.status, error)\n",
        port(&open),
        port(&closed)
    );
    let server = model(calls_in_order(script(&code))).await;
    let base = format!("search.base_url=http://127.0.0.1:{}", port(&engine));
    let allowed = allowing(&open);
    let set = ["--set", &base, "--set", "search.backend=searxng", "--set", &allowed, "Go"];
    let mut command = lab.run_command(&server, &[&AUTO[..], &set].concat());
    command.env("SITE_TOKEN", "tok-of-this-site");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let actual = last.results()[0];
    for part in [
        "Page 1|https://example.org/1|Some words.\nPage 2|https://example.org/2|Some words.\n",
        "True True\nTrue\n'6789\\n' ['final address: ",
        "/plain', 'bytes 219995 to 220000 of 220000']\n",
        "/gone answered 404",
        "fetch denied: 127.0.0.1 resolves to a private address",
        "SITE_TOKEN in it, a secret",
    ] {
        assert!(actual.contains(part), "{part}: {actual}");
    }
    assert!(!actual.contains("**fly**"), "the page stays in the script: {actual}");
    assert_eq!(closed.requests().len(), 0);
    assert!(open.requests().iter().all(|it| !it.path.contains("tok-of")));
    let started = calls(&ended.events("tool.start"));
    assert_eq!(started.len(), 8, "{started:?}");
    assert_eq!(started[1], "call_1_0_1 web_search");
    // What the web says is marked where it enters the record.
    let stored = fs::read_to_string(lab.session_file()).unwrap();
    let is_marked = |line: &&str| {
        line.contains("\"tool.end\"") && line.contains("\"sources\":[\"web:127.0.0.1\"]")
    };
    assert_eq!(stored.lines().filter(is_marked).count(), 4, "{stored}");
    let outer = ["tool:execute_code", "tool:web_fetch", "web:127.0.0.1"];
    let last = ended.events("tool.end").pop().unwrap();
    assert_eq!(last["sources"], json!(outer), "{last}");
}

#[tokio::test]
async fn many_calls_of_a_script_take_one_line_on_the_screen() {
    require!(program("python3"));
    let lab = Lab::new();
    fs::write(lab.work("a.md"), "one").unwrap();
    let code = "for number in range(50):\n    try:\n        \
                read_file('a.md' if number != 7 else 'missing.md')\n    \
                except ToolError:\n        print('one is missing')\n";
    let server = model(calls_in_order(script(code))).await;
    let ended = lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let shown = "\n  read missing.md\nread_file failed: not found: missing.md\n  calls: 50\n";
    assert!(ended.err.contains(shown), "{}", ended.err);
    assert!(!ended.err.contains("  read a.md"), "{}", ended.err);
}

#[tokio::test]
async fn a_script_that_nobody_approves_does_not_run() {
    require!(program("python3"));
    let lab = Lab::new();
    let server = model(calls_in_order(script("open('made', 'w')"))).await;
    let args = ["--approve", "deny", "--output", "events", "Go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("denied"), "{}", last.results()[0]);
    assert_eq!(ended.events("approval.decision")[0]["decision"], "deny");
    assert!(!lab.work("made").exists());
}

#[tokio::test]
async fn a_person_is_asked_about_the_script_and_about_its_commands() {
    require!(program("python3"));
    let lab = Lab::new();
    let code = "write_file('a', 'x')\ntry:\n    terminal('touch denied')\nexcept ToolError as error:\n    \
                print('no:', error.status)\nprint(terminal('echo allowed')['output'])";
    let server = model(calls_in_order(script(code))).await;
    let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("write_file('a', 'x')"), "{screen}");
    person.write_all(b"y\n").unwrap();
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("touch denied"), "{screen}");
    person.write_all(b"n\n").unwrap();
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("echo allowed"), "{screen}");
    person.write_all(b"y\n").unwrap();
    let ended = running.end().await.with_code(0);
    let asked = ended.events("approval.request");
    let asked: Vec<_> = asked.iter().map(|event| event["call"].as_str().unwrap()).collect();
    assert_eq!(asked, ["call_1_0", "call_1_0_2", "call_1_0_3"]);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("no: denied\nallowed"), "{}", last.results()[0]);
    assert!(!lab.work("denied").exists() && lab.work("a").exists());
}

#[tokio::test]
async fn a_script_that_a_kill_broke_off_is_not_run_again_and_its_calls_are_known() {
    require!(program("python3"));
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let code = format!(
        "write_file('first', 'x')\nterminal('echo begun > begun; sleep {0}')\n",
        lab.mark()
    );
    let server = model(calls_in_order(script(&code))).await;
    let running = lab.run(&server, &[&AUTO[..], &["Go"]].concat());
    begun.lines(1).await;
    kill(&lab, running).await;
    let ended = resume(&lab, &server, &["--output", "events"]).await.with_code(0);
    let ends = ended.events("tool.end");
    assert_eq!(calls(&ends), ["call_1_0_2 terminal", "call_1_0 execute_code"]);
    assert!(ended.events("tool.start").is_empty(), "{}", ended.out);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("its outcome is unknown"), "{}", last.results()[0]);
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

/// Hostile scripts end, and so does the run.
#[tokio::test]
async fn a_script_that_attacks_what_started_it_harms_itself() {
    require!(program("python3"));
    let attacks = [
        (
            "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nprint('alive')",
            "[ended by signal 9]",
        ),
        ("import os, signal\nos.killpg(os.getpgid(0), signal.SIGKILL)", "[ended by signal 9]"),
        (
            "import os\nfor fd in range(100):\n    try:\n        os.close(fd)\n    except OSError:\n        pass",
            "(no output)",
        ),
        ("import os\nfor fd in (0, 1, 2):\n    os.closerange(0, 50)\nos._exit(0)", "(no output)"),
    ];
    for (attack, wanted) in attacks {
        let lab = Lab::new();
        let server = model(calls_in_order(script(attack))).await;
        let ended = lab.run(&server, &[&AUTO[..], &["Go"]].concat()).end().await.with_code(0);
        assert_eq!(ended.events("tool.end").len(), 1, "{attack}: {}", ended.out);
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        let result = last.results()[0];
        // Without namespaces the parent is its owner, whose end it may be quick enough to outlive.
        let is_orphan =
            attack.contains("getppid") && result.contains("outcome unknown: the process");
        assert!(result.contains(wanted) || is_orphan, "{attack}: {result}");
        assert!(lab.processes().is_empty(), "{attack}: {:?}", lab.processes());
    }
}

#[tokio::test]
async fn children_have_no_scripts() {
    require!(program("python3"));
    let lab = Lab::new();
    let task = json!({"goal": "Look around.", "toolsets": ["file", "code_execution"]});
    let server = model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match asked.system().contains("YOUR TASK:") {
            false if asked.results().is_empty() => {
                Reply::calls("served-1", [("delegate_task", task.clone())])
            }
            _ => Reply::text("served-1", "Done."),
        })
    })
    .await;
    let args = ["--set", "delegation.approvals=auto", "Hand on"];
    lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    assert!(ChatRequest::of(&requests[0]).tools().contains(&"execute_code"));
    let child = requests.iter().map(ChatRequest::of).find(|it| it.system().contains("YOUR TASK:"));
    assert!(!child.unwrap().tools().contains(&"execute_code"));
}

#[tokio::test]
async fn doctor_runs_python_and_shows_its_version() {
    require!(program("python3"));
    let lab = Lab::new();
    let doctor = lab.deputize(&["doctor", "--json"]);
    let ended = RunningProgram::start(doctor).end().await;
    let rows: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let python = rows.iter().find(|row| row["what"] == "python3").unwrap();
    let found = python["found"].as_str().unwrap();
    assert!(python["health"] == "ok" && found.starts_with("3."), "{python}");

    // A program that stands in for Python and says something first.
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let bin = lab.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let stands_in = format!("#!/bin/sh\necho Loading\nPATH='{path}' exec python3 \"$@\"\n");
    fs::write(bin.join("python3"), stands_in).unwrap();
    fs::set_permissions(bin.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut doctor = lab.deputize(&["doctor", "--json"]);
    doctor.env("PATH", format!("{}:{path}", bin.display()));
    let ended = RunningProgram::start(doctor).end().await;
    let rows: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let python = rows.iter().find(|row| row["what"] == "python3").unwrap();
    let found = python["found"].as_str().unwrap();
    assert!(python["health"] == "ok" && found.starts_with("3."), "{python}");

    let mut doctor = lab.deputize(&["doctor", "--json"]);
    doctor.env("PATH", "/nowhere");
    let ended = RunningProgram::start(doctor).end().await;
    let rows: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let python = rows.iter().find(|row| row["what"] == "python3").unwrap();
    assert_eq!(python["health"], "warn", "{python}");
}
