//! Real servers as a person configures them: the program, a model that calls their tools.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command as Blocking;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::installed::{everything, node, python_server};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// A server of the configuration: a name, and a program with arguments.
fn entry(name: &str, command: &str, args: &[String]) -> String {
    format!("mcp_servers.{name}={}", json!({"command": command, "args": args}))
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// A model that makes these calls, one a step, and then repeats the results.
async fn calls(calls: Vec<(&'static str, Value)>) -> MockServer {
    model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match calls.get(asked.replies()) {
            Some(call) => Reply::calls("mock", [call.clone()]),
            None => Reply::text("mock", asked.results().join("\n=====\n")),
        })
    })
    .await
}

async fn run(lab: &Lab, server: &MockServer, sets: &[String]) -> ProgramEnd {
    let mut args = vec!["--approve", "auto", "--output", "events"];
    for set in sets {
        args.extend(["--set", set]);
    }
    args.push("go");
    lab.run(server, &args).end().await
}

/// The results that the model got, in order.
fn results(ended: &ProgramEnd) -> Vec<String> {
    let text = ended.events("model.response").pop().unwrap()["text"].as_str().unwrap().to_owned();
    text.split("\n=====\n").map(str::to_owned).collect()
}

fn tools(ended: &ProgramEnd) -> Vec<String> {
    let start = &ended.events("agent.start")[0]["tools"];
    let names = start.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("mcp__")).collect()
}

#[tokio::test]
async fn the_servers_for_files_and_memory_do_their_work_and_know_where_they_are() {
    let lab = Lab::new();
    let files = require!(node("@modelcontextprotocol/server-filesystem", "dist/index.js").await);
    let memory = require!(node("@modelcontextprotocol/server-memory", "dist/index.js").await);
    let work = lab.work("").canonicalize().unwrap().to_str().unwrap().to_owned();
    fs::write(lab.work("a.txt"), "the words\n").unwrap();
    let outside = lab.path("secret.txt");
    fs::write(&outside, "not for you").unwrap();
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["writes notes"]});
    let server = calls(vec![
        ("mcp__files__read_text_file", json!({"path": format!("{work}/a.txt")})),
        ("mcp__files__read_text_file", json!({"path": outside})),
        ("mcp__files__write_file", json!({"path": format!("{work}/b.txt"), "content": "new"})),
        ("mcp__memory__create_entities", json!({"entities": [entity]})),
        ("mcp__memory__search_nodes", json!({"query": "notes"})),
    ])
    .await;
    let memory_file = lab.work("memory.jsonl").to_str().unwrap().to_owned();
    let memory =
        json!({"command": "node", "args": [memory], "env": {"MEMORY_FILE_PATH": memory_file}});
    let sets =
        [entry("files", "node", &[files, work.clone()]), format!("mcp_servers.memory={memory}")];
    let ended = run(&lab, &server, &sets).await.with_code(0);
    let found = results(&ended);
    assert!(found[0].contains("the words"), "{found:?}");
    assert!(found[1].starts_with("error: the tool reports an error:"), "{found:?}");
    assert!(!found[1].contains("not for you"), "{found:?}");
    assert_eq!(fs::read_to_string(lab.work("b.txt")).unwrap(), "new", "{found:?}");
    assert!(found[4].contains("writes notes"), "{found:?}");
    assert!(fs::read_to_string(memory_file).unwrap().contains("Ada"));
    assert!(ended.err.contains("note: mcp files: seen for the first time"), "{}", ended.err);
    assert_eq!(lab.processes(), []);

    // The second time nothing is asked before the first request, and the same tools go out.
    let again = run(&lab, &server, &sets).await.with_code(0);
    assert!(!again.err.contains("seen for the first time"), "{}", again.err);
    assert_eq!(tools(&again), tools(&ended));
    assert!(tools(&again).len() > 15, "{:?}", tools(&again));
}

#[tokio::test]
async fn the_server_with_everything_has_resources_prompts_images_and_progress() {
    let lab = Lab::new();
    let everything = require!(everything().await);
    let server = calls(vec![
        ("mcp__all__echo", json!({"message": "hello"})),
        ("mcp__all__get-sum", json!({"a": 2, "b": 40})),
        ("mcp__all__get-tiny-image", json!({})),
        ("mcp__all__trigger-long-running-operation", json!({"duration": 1, "steps": 3})),
        ("mcp__all__list_resources", json!({})),
        ("mcp__all__read_resource", json!({"uri": "demo://resource/dynamic/text/7"})),
        ("mcp__all__list_prompts", json!({})),
        ("mcp__all__get_prompt", json!({"name": "simple-prompt"})),
        ("mcp__all__get-env", json!({})),
    ])
    .await;
    let args = json!({"command": "node", "args": [everything, "stdio"], "env": {"OWN": "mine", "KEY_FROM": "${OUR_TOKEN}"}});
    let sets = [format!("mcp_servers.all={args}")];
    let mut command = lab.run_command(&server, &["--approve", "auto", "--output", "events", "-v"]);
    command.args(["--set", &sets[0], "go"]);
    command.env("OUR_TOKEN", "token-0123456789").env("UNRELATED_API_KEY", "0123456789abcdef");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let found = results(&ended);
    assert!(found[0].contains("Echo: hello"), "{found:?}");
    assert!(found[1].contains("42"), "{found:?}");
    assert!(found[2].contains("[image/png, "), "{found:?}");
    assert!(found[3].contains("completed"), "{found:?}");
    assert!(found[4].contains("\"uri\":"), "{found:?}");
    assert!(found[5].contains("Resource 7: "), "{found:?}");
    assert!(found[6].contains("simple-prompt"), "{found:?}");
    assert!(found[7].contains("user:"), "{found:?}");
    // It gets what its entry names, and no more; a value is nobody else's.
    assert!(found[8].contains("\"OWN\"") && found[8].contains("KEY_FROM"), "{found:?}");
    assert!(!found[8].contains("UNRELATED_API_KEY"), "{found:?}");
    lab.holds_no("token-0123456789", &ended);
    assert!(ended.out.contains("\"type\":\"tool.progress\""), "progress is shown");
    // It is told that there are roots, no model to ask and no form to fill, and offers no tool that
    // would wait for one.
    let offered = tools(&ended);
    let about = |what: &str| offered.iter().filter(|name| name.contains(what)).count();
    assert_eq!((about("roots"), about("sampling"), about("elicitation")), (1, 0, 0), "{offered:?}");
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn the_servers_for_git_and_pages_work_over_the_newer_protocol_too() {
    require!(program("git"));
    let lab = Lab::new();
    let work = lab.work("").canonicalize().unwrap();
    let repo = work.to_str().unwrap().to_owned();
    let log = require!(python_server("mcp_server_git", &["--repository", &repo]).await);
    let fetch = ["--ignore-robots-txt", "--allow-private-ips"];
    let fetch = require!(python_server("mcp_server_fetch", &fetch).await);
    git(&work, &["init", "-q"]);
    fs::write(lab.work("a.txt"), "one\n").unwrap();
    git(&work, &["add", "a.txt"]);
    git(
        &work,
        &["-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-qm", "first words"],
    );
    let page = page("<html><body><h1>A page</h1><p>with words</p></body></html>");
    let server = calls(vec![
        ("mcp__git__git_log", json!({"repo_path": repo})),
        ("mcp__git__git_status", json!({"repo_path": repo})),
        ("mcp__fetch__fetch", json!({"url": page})),
    ])
    .await;
    let mut sets = vec![entry("git", "python3", &log), entry("fetch", "python3", &fetch)];
    // Python starts slowly on a machine that does much else: it is asked beforehand.
    for name in ["git", "fetch"] {
        let mut args = vec!["mcp", "test", name];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(0);
        assert!(ended.out.contains(&format!("mcp {name}: ")), "{}", ended.out);
    }
    sets.push("toolsets=[mcp-git, mcp-fetch]".to_owned());
    let ended = run(&lab, &server, &sets).await.with_code(0);
    let found = results(&ended);
    assert!(found[0].contains("first words"), "{found:?}");
    assert!(found[1].contains("nothing to commit"), "{found:?}");
    assert!(found[2].contains("with words"), "{found:?}");
    assert_eq!(lab.processes(), []);
}

fn git(work: &Path, args: &[&str]) {
    let done = Blocking::new("git").args(args).current_dir(work).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The address of a page of this machine.
fn page(html: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // A few requests at most: the thread ends with the test.
        for stream in listener.incoming().take(8) {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let length = html.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
            let _gone = write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{html}");
        }
    });
    format!("http://{address}/page")
}

/// A server that somebody else runs.
pub(crate) struct Remote {
    child: std::process::Child,
    pub(crate) url: String,
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A server at a port that is free.
pub(crate) async fn remote() -> Result<Remote, String> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    remote_at(port).await
}

/// A server at this port.
pub(super) async fn remote_at(port: u16) -> Result<Remote, String> {
    let everything = everything().await?;
    Ok(blocking(move || start(&everything, port)).await)
}

fn start(everything: &str, port: u16) -> Remote {
    let mut child = Blocking::new("node")
        .args([everything, "streamableHttp"])
        .env("PORT", port.to_string())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // It says when it listens; what it says later is read so that it never waits.
    let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while std::io::BufRead::read_line(&mut err, &mut line).unwrap() > 0 {
        if line.contains(&port.to_string()) {
            break;
        }
    }
    std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    Remote { child, url: format!("http://127.0.0.1:{port}/mcp") }
}

#[tokio::test]
async fn a_server_is_reached_by_http() {
    let lab = Lab::new();
    let remote = require!(remote().await);
    let server = calls(vec![
        ("mcp__far__echo", json!({"message": "over there"})),
        ("mcp__far__trigger-long-running-operation", json!({"duration": 1, "steps": 2})),
    ])
    .await;
    let entry = json!({"url": remote.url, "headers": {"Authorization": "Bearer ${FAR_KEY}"}});
    let set = format!("mcp_servers.far={entry}");
    let mut command = lab.run_command(&server, &["--approve", "auto", "--output", "events"]);
    command.args(["--set", &set, "go"]).env("FAR_KEY", "far-0123456789");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let found = results(&ended);
    assert!(found[0].contains("Echo: over there"), "{found:?}");
    assert!(found[1].contains("completed"), "{found:?}");
    lab.holds_no("far-0123456789", &ended);

    // The same server gone: its tools go out as they are known, and calls say what is wrong.
    drop(remote);
    let mut command = lab.run_command(&server, &["--approve", "auto", "--output", "events"]);
    command.args(["--set", &set, "go"]).env("FAR_KEY", "far-0123456789");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    assert!(tools(&ended).contains(&"mcp__far__echo".to_owned()));
    let found = results(&ended);
    assert!(
        found[0].contains("the call was not made: server `far` is not there; it cannot be reached"),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_server_ends_with_the_program_also_by_kill() {
    let lab = Lab::new();
    let everything = require!(everything().await);
    let call = ("mcp__all__trigger-long-running-operation", json!({"duration": 600, "steps": 60}));
    let server = calls(vec![call]).await;
    let set = entry("all", "node", &[everything, "stdio".to_owned(), lab.mark().to_owned()]);
    for signal in [Signal::INT, Signal::KILL] {
        let args = ["--approve", "auto", "--output", "events", "-v", "--set", &set, "go"];
        let running = lab.run(&server, &args);
        running.event("tool.progress", |_| true).await;
        running.signal(signal);
        running.end().await;
        crate::program::soon("the end of the server", async {
            while !lab.processes().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}
