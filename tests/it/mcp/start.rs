//! How servers are started: what that may hold up, where it is done, and with which variables.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::MockAnswer;
use serde_json::json;

use super::fixture::{SERVER, approval_files, caller, chain_was_complete, deputize, silent_chain};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

/// A server in Python that writes a mark to a given path.
const PLANTED: &str = r#"
import json, sys
open(sys.argv[1], "w").close()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        info = {"name": "planted", "version": "1"}
        said["result"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
    else:
        said["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(said), flush=True)
"#;

#[tokio::test]
async fn a_server_that_needs_longer_to_start_is_asked_on_beside_the_session() {
    let lab = Lab::new();
    let go = lab.path("go");
    let home = lab.path("home");
    let entry = json!({"command": SERVER, "args": ["waits for its file", go.to_str().unwrap()]});
    let own = format!("mcp_servers.w={entry}");
    // It starts once the model was asked, and the session ends once it was heard.
    let server = model(move |_: &ChatRequest| {
        fs::write(&go, "").unwrap();
        let heard = |file: &PathBuf| fs::read_to_string(file).unwrap().contains("Say it again.");
        let limit = Instant::now() + Duration::from_secs(120);
        while !approval_files(&home).iter().any(heard) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        MockAnswer::reply(&Reply::text("mock", "Done."))
    })
    .await;
    let args = ["--approve", "auto", "--set", &own, "go"];
    let first = lab.run(&server, &args).end().await.with_code(0);
    let words = "mcp w: it did not list its tools within 5 s. This session does without its tools, \
                 and gets the list for the next session. To wait for it: deputize mcp test w";
    assert!(first.err.contains(words), "{}", first.err);
    let second = lab.run(&caller().await, &args).end().await.with_code(0);
    assert!(second.out.contains("echo: hello"), "{}", second.out);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn servers_that_nothing_is_known_of_hold_up_the_first_request_five_seconds_together() {
    let lab = Lab::new();
    let server = model(|_: &ChatRequest| MockAnswer::reply(&Reply::text("mock", "Done."))).await;
    let names = ["a", "b", "c"];
    let servers = silent_chain(&lab, names.len());
    let sets: Vec<String> = names
        .iter()
        .zip(servers)
        .map(|(name, entry)| format!("mcp_servers.{name}={entry}"))
        .collect();
    let mut args = vec!["--output", "events"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    args.push("go");
    let ended = lab.run(&server, &args).end().await.with_code(0);
    for name in ["a", "b", "c"] {
        let words =
            format!("mcp {name}: it did not list its tools within 5 s. This session does without");
        assert!(ended.err.contains(&words), "{}", ended.err);
    }
    assert!(chain_was_complete(&lab), "they were started one after the other");
    // None of them is waited for again, until it says what it has.
    let again = lab.run(&server, &args).end().await.with_code(0);
    for name in ["a", "b", "c"] {
        let words =
            format!("mcp {name}: the session does not wait for it, because it was too slow");
        assert!(again.err.contains(&words), "{}", again.err);
    }
    // Whose tools nobody has asked for is not started.
    args.extend(["-t", "file"]);
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert!(!ended.err.contains("mcp a"), "{}", ended.err);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn no_project_supplies_the_code_of_a_server_unless_the_person_says_so() {
    require!(program("python3"));
    require!(program("npx"));
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let bin = lab.work("node_modules/.bin");
    let mark = lab.path("mark");
    fs::create_dir_all(&bin).unwrap();
    fs::write(lab.work("server.py"), PLANTED).unwrap();
    let planted = bin.join("planted-server");
    fs::write(&planted, format!("#!/usr/bin/env python3\n{PLANTED}")).unwrap();
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).unwrap();
    let mark_path = mark.to_str().unwrap();
    let commands: [&[&str]; 2] = [
        &["python3", "server.py", mark_path],
        &["npx", "--offline", "--no", "planted-server", mark_path],
    ];
    for command in commands {
        let add = |options: &[&str]| {
            let add = [&["mcp", "add", "w", "--yes"], options, &["--"], command].concat();
            RunningProgram::start(lab.deputize(&add)).end()
        };
        let ended = add(&[]).await.with_code(1);
        assert!(!mark.exists(), "{command:?}: {} {}", ended.out, ended.err);
        assert!(!lab.path("home/mcp/started-in/w").exists(), "nothing of it stays");

        // Where the person says so it does, and is told.
        for (place, actual) in [
            ("workspace", "the directory that agents work in"),
            (".", lab.work("").canonicalize().unwrap().to_str().unwrap()),
        ] {
            let ended = add(&["--start-in", place]).await.with_code(0);
            let words = format!("started in: {actual}; its code may come from there");
            assert!(mark.exists() && ended.out.contains(&words), "{words}: {}", ended.out);
            fs::remove_file(&mark).unwrap();
            deputize(&lab, &["config", "check"]).await.with_code(0);
            deputize(&lab, &["mcp", "test", "w"]).await.with_code(0);
            assert!(mark.exists(), "it is started there also by its entry");
            fs::remove_file(&mark).unwrap();

            // It was approved to be started there.
            let entry = json!({"command": command[0], "args": command[1..]});
            fs::write(
                lab.path("home/config.yaml"),
                json!({"mcp_servers": {"w": entry}}).to_string(),
            )
            .unwrap();
            let test = deputize(&lab, &["mcp", "test", "w"]).await.with_code(1);
            let words = "it is not started: the directory that it is started in changed";
            assert!(test.err.contains(words), "{}", test.err);
            fs::write(lab.path("home/config.yaml"), "").unwrap();
        }
    }
}

#[tokio::test]
async fn a_variable_that_the_person_names_for_a_server_is_passed() {
    require!(program("python3"));
    let lab = Lab::new();
    let modules = lab.path("modules");
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("planted.py"), PLANTED).unwrap();
    let path = format!("PYTHONPATH={}", modules.display());
    let mark = lab.path("mark");
    let command = ["python3", "-m", "planted", mark.to_str().unwrap()];
    let add = [&["mcp", "add", "w", "--yes", "--env", &path, "--"], &command[..]].concat();
    let ended = deputize(&lab, &add).await.with_code(0);
    assert!(ended.out.contains("given by name: PYTHONPATH"), "{}", ended.out);
    // That of the surroundings is not.
    let mut run = lab.deputize(&[&["mcp", "add", "v", "--yes", "--"], &command[..]].concat());
    run.env("PYTHONPATH", &modules);
    let ended = RunningProgram::start(run).end().await.with_code(1);
    assert!(ended.err.contains("No module named planted"), "{}", ended.err);
}

/// A server in Python that keeps a list of the methods it is asked, and does as the first word of a file
/// says: `initialize` alone is answered, `server/discover` alone, or the first request ends it.
const GREETED: &str = r#"
import json, sys
log, mode = sys.argv[1], open(sys.argv[2]).read()
for line in sys.stdin:
    asked = json.loads(line)
    with open(log, "a") as methods: methods.write(asked["method"] + "\n")
    if "id" not in asked: continue
    said, info = {"jsonrpc": "2.0", "id": asked["id"]}, {"name": "greeted", "version": "1"}
    method = asked["method"]
    if mode == "discover" and method == "server/discover":
        said["result"] = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "serverInfo": info,
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif mode == "ends": sys.exit(3)
    elif mode == "initialize" and method == "server/discover": continue
    elif mode == "initialize" and method == "initialize":
        said["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        tool = {"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}
        said["result"] = {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/call":
        content = [{"type": "text", "text": "echo: hello"}]
        said["result"] = {"resultType": "complete", "content": content}
    else:
        said["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(said), flush=True)
"#;

#[tokio::test]
async fn a_server_is_greeted_as_it_was_before_and_otherwise_once_it_changed() {
    require!(program("python3"));
    let lab = Lab::new();
    let script = lab.path("server.py");
    let log = lab.path("methods");
    let mode = lab.path("mode");
    fs::write(&script, GREETED).unwrap();
    let command = [&script, &log, &mode].map(|path| path.to_str().unwrap());
    let add = [&["mcp", "add", "w", "--yes", "--", "python3"], command.as_slice()].concat();
    // Returns which methods the server is asked in a run that calls its tool, and the run's words.
    let greet = async |way: &str| {
        fs::write(&mode, way).unwrap();
        let _absent = fs::remove_file(&log);
        let ended = lab.run(&caller().await, &["--approve", "auto", "go"]).end().await;
        let asked = fs::read_to_string(&log).unwrap_or_default();
        let asked: Vec<_> = asked.lines().map(str::to_owned).collect();
        (asked, ended.with_code(0).out)
    };
    fs::write(&mode, "initialize").unwrap();
    RunningProgram::start(lab.deputize(&add)).end().await.with_code(0);
    assert!(fs::read_to_string(&log).unwrap().starts_with("server/discover\ninitialize\n"));

    // What it took before is all it gets.
    let (asked, out) = greet("initialize").await;
    assert!(asked[0] == "initialize" && out.contains("echo: hello"), "{asked:?}: {out}");

    // A new version refuses that: it is asked the other way in the same start.
    let (asked, out) = greet("discover").await;
    assert_eq!(asked[..2], ["initialize", "server/discover"], "{out}");
    assert!(out.contains("echo: hello"), "{out}");
    let (asked, out) = greet("discover").await;
    assert!(asked[0] == "server/discover" && out.contains("echo: hello"), "{asked:?}: {out}");

    // One that ends instead is asked both ways at its next start.
    let (asked, _) = greet("initialize").await;
    assert_eq!(asked[0], "server/discover");
    let (asked, out) = greet("ends").await;
    assert!(asked[0] == "initialize" && !out.contains("echo: hello"), "{asked:?}: {out}");
    let (asked, out) = greet("discover").await;
    assert!(asked[0] == "server/discover" && out.contains("echo: hello"), "{asked:?}: {out}");
    assert_eq!(lab.processes(), []);
}
