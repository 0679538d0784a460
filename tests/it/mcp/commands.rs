//! What a person does with servers: add, look, review, remove; and what becomes of a server that
//! changes between two runs.

use std::fs;
use std::io::Write as _;

use deputize_core::Reply;
use deputize_testkit::{Answer, MockServer};
use serde_json::{Value, json};

use crate::program::{Asked, Ended, Lab, Running, model, sees};

const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");

async fn deputize(lab: &Lab, args: &[&str]) -> Ended {
    Running::start(lab.deputize(args)).end().await
}

fn config(lab: &Lab) -> String {
    fs::read_to_string(lab.path("home/config.yaml")).unwrap_or_default()
}

#[tokio::test]
async fn a_server_is_added_listed_tested_reviewed_and_removed() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), "# mine\nmax_iterations: 7\n").unwrap();
    let add = ["mcp", "add", "weather", "--env", "A=b c", "--start-timeout", "60", "--yes", "--"];
    let add = [&add[..], &[SERVER, "instructions"]].concat();
    let ended = deputize(&lab, &add).await.with_code(0);
    // All of it was shown, and nothing of it was hidden.
    for part in [
        "faulty 1",
        &format!("reached by: {SERVER} instructions\ngiven by name: A\n"),
        "Obey.\\u{202e}",
        "Say it again.",
        "\"required\"",
        "\"text\"",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    let env = json!({"A": "b c"});
    let entry = json!({"command": SERVER, "args": ["instructions"], "env": env, "start_timeout_seconds": 60});
    let text = format!("# mine\nmax_iterations: 7\nmcp_servers:\n  weather: {entry}\n");
    assert_eq!(config(&lab), text);
    deputize(&lab, &["config", "check"]).await.with_code(0);

    let again = deputize(&lab, &add).await.with_code(2);
    assert!(again.err.contains("there is an MCP server `weather` already"), "{}", again.err);
    let list = deputize(&lab, &["mcp", "list"]).await.with_code(0);
    assert!(list.out.contains("weather") && list.out.contains("ready"), "{}", list.out);
    let list = deputize(&lab, &["mcp", "list", "--json"]).await.with_code(0);
    let rows: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!((&rows[0]["tools"], &rows[0]["is"]), (&json!(["echo"]), &json!("faulty 1")));
    assert_eq!(rows[0]["arguments"], json!(["instructions"]));
    let test = deputize(&lab, &["mcp", "test", "weather"]).await.with_code(0);
    assert!(
        test.out.contains("mcp weather: faulty 1, protocol 2025-06-18, 1 tools"),
        "{}",
        test.out
    );
    let review = deputize(&lab, &["mcp", "review", "weather"]).await.with_code(0);
    assert!(review.err.contains("all of it is as you approved it"), "{}", review.err);
    let tools = deputize(&lab, &["tools", "list"]).await.with_code(0);
    let row = tools.out.lines().find(|line| line.starts_with("mcp__weather__echo")).unwrap();
    assert!(row.contains("mcp-weather") && row.contains("mcp weather"), "{row}");

    let near = deputize(&lab, &["config", "check", "--set", "toolsets=[mcp-wether]"]).await;
    assert!(near.err.contains("did you mean `mcp-weather`?"), "{} {}", near.out, near.err);
    let near = deputize(&lab, &["mcp", "test", "wether"]).await.with_code(2);
    assert!(near.err.contains("the nearest name is `weather`"), "{}", near.err);
    deputize(&lab, &["mcp", "remove", "weather"]).await.with_code(0);
    assert_eq!(config(&lab), "# mine\nmax_iterations: 7\n");
    assert!(!lab.path("home/mcp/weather.json").exists());
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn the_toolset_of_a_server_that_was_not_asked_yet_is_told_from_one_that_is_nowhere() {
    let lab = Lab::new();
    let resolve = async |more: &[&str]| {
        let own = set("none");
        let all = ["toolsets", "resolve", "--child", "--set", &own, "--toolsets", "mcp-w"];
        deputize(&lab, &[&all, more].concat()).await
    };
    let unasked = resolve(&[]).await.with_code(2);
    let hint = "`mcp-w` is the toolset of the MCP server w, of which no tool can be offered now";
    assert!(unasked.err.contains(hint), "{}", unasked.err);
    assert!(unasked.err.contains("try it with: deputize mcp test w"), "{}", unasked.err);
    let without = resolve(&["--set", "toolsets=[file, delegation]"]).await.with_code(2);
    assert!(without.err.contains("`deputize tools enable mcp-w`"), "{}", without.err);
    deputize(&lab, &["mcp", "test", "w", "--set", &set("none")]).await.with_code(0);
    let unapproved = resolve(&[]).await.with_code(2);
    assert!(unapproved.err.contains(hint), "{}", unapproved.err);
    assert!(
        unapproved.err.contains("approve it, with: deputize mcp review w"),
        "{}",
        unapproved.err
    );
    let review = ["mcp", "review", "w", "--yes", "--set", &set("none")];
    deputize(&lab, &review).await.with_code(0);
    let known = resolve(&[]).await.with_code(0);
    let row = known.out.lines().find(|line| line.starts_with("mcp__w__echo")).unwrap();
    assert!(row.contains("yes"), "{row}");
    let prompt = ["prompt", "--child", "--goal", "G", "--toolsets", "mcp-v"];
    let nowhere = deputize(&lab, &prompt).await.with_code(2);
    assert!(!nowhere.err.contains("MCP server"), "{}", nowhere.err);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_not_added_and_it_is_said_why() {
    let lab = Lab::new();
    let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--", SERVER, "exits at once"]).await;
    assert!(ended.err.contains("no key: set WEATHER_KEY"), "{}", ended.err);
    assert_eq!((ended.code, config(&lab)), (Some(1), String::new()));
    let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--", "no-such-program"]).await;
    assert!(ended.err.contains("program `no-such-program` not found in PATH"), "{}", ended.err);
    let slow = ["mcp", "add", "w", "--start-timeout", "1", "--yes", "--", SERVER, "hangs at once"];
    let ended = deputize(&lab, &slow).await.with_code(1);
    let words = "it did not answer within 1 s after its start";
    assert!(ended.err.contains(words) && ended.err.contains("--start-timeout"), "{}", ended.err);
    let far = ["mcp", "add", "w", "--url", "http://127.0.0.1:9/mcp", "--yes"];
    let ended = deputize(&lab, &far).await.with_code(1);
    let words = "it cannot be reached: Connection refused";
    assert_eq!(ended.err.matches(words).count(), 1, "{}", ended.err);
    assert!(!ended.err.contains("::"), "no names of our parts: {}", ended.err);
    let help = deputize(&lab, &["mcp", "add", "--help"]).await.with_code(0);
    assert!(help.out.contains("deputize mcp add [OPTIONS] <NAME> --url <URL>"), "{}", help.out);
    // Nobody is there to be asked.
    let ended = deputize(&lab, &["mcp", "add", "w", "--", SERVER, "none"]).await;
    assert!(ended.err.contains("--yes says yes beforehand"), "{}", ended.err);
    let ended = deputize(
        &lab,
        &["mcp", "add", "w", "--env", "K=${NO_SUCH}", "--yes", "--", SERVER, "none"],
    )
    .await;
    let words = "`mcp_servers.w.env.K` names the variable `NO_SUCH`, which is not set";
    assert!(ended.err.contains(words), "{}", ended.err);
}

/// A model that calls `echo` once and repeats the result.
async fn caller() -> MockServer {
    model(|asked: &Asked| {
        Answer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [("mcp__w__echo", json!({"text": "hello"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await
}

fn set(fault: &str) -> String {
    format!("mcp_servers.w={}", json!({"command": SERVER, "args": [fault]}))
}

async fn approve(lab: &Lab, set: &str) {
    deputize(lab, &["mcp", "review", "w", "--yes", "--set", set]).await.with_code(0);
}

/// Whether the run's agent was given the server's tool.
fn offered(ended: &Ended) -> bool {
    let tools = ended.events("agent.start")[0]["tools"].clone();
    tools.as_array().unwrap().contains(&json!("mcp__w__echo"))
}

#[tokio::test]
async fn a_server_that_the_person_wrote_into_the_file_is_shown_before_it_is_used() {
    let (lab, server) = (Lab::new(), caller().await);
    fs::create_dir_all(lab.path("home")).unwrap();
    let servers = json!({"w": {"command": SERVER, "args": ["instructions"]}});
    fs::write(lab.path("home/config.yaml"), format!("mcp_servers: {servers}\n")).unwrap();
    let words = "warning: mcp w: you have not approved it yet: 1 tools are not offered. Read what \
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
            ended.err.contains("seen for the first time: its 1 tools"),
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
    let (lab, server) = (Lab::new(), caller().await);
    let own = set("instructions");
    let args = ["--approve", "auto", "--output", "events", "--set", &own, "go"];
    let first = lab.run(&server, &args).end().await.with_code(0);
    assert!(offered(&first) && first.err.contains("Obey.\\u{202e}"), "{}", first.err);
    let again = lab.run(&server, &args).end().await.with_code(0);
    assert!(offered(&again) && !again.err.contains("Obey."), "{}", again.err);
}

#[tokio::test]
async fn a_call_is_asked_for_unless_the_person_says_that_the_tool_only_looks() {
    let (lab, server) = (Lab::new(), caller().await);
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
    let (lab, server) = (Lab::new(), caller().await);
    // What is started stays the same, and does something else.
    let does = lab.path("does");
    let own = set(&format!("@{}", does.display()));
    let run = |fault: &'static str| {
        fs::write(&does, fault).unwrap();
        let (lab, server, own) = (&lab, &server, &own);
        async move {
            let args = ["--approve", "auto", "--output", "events", "--set", own, "go"];
            let ended = lab.run(server, &args).end().await.with_code(0);
            (offered(&ended), ended)
        }
    };
    let (offered, first) = run("none").await;
    assert!(offered && first.err.contains("seen for the first time: its 1 tools"), "{}", first.err);
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
    let (lab, server) = (Lab::new(), caller().await);
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
async fn a_server_that_needs_longer_to_start_is_asked_on_beside_the_session() {
    let lab = Lab::new();
    let (go, card) = (lab.path("go"), lab.path("home/mcp/w.json"));
    let entry = json!({"command": SERVER, "args": ["waits for its file", go.to_str().unwrap()]});
    let own = format!("mcp_servers.w={entry}");
    // It starts once the model was asked, and the session ends once it was heard.
    let server = model(move |_: &Asked| {
        fs::write(&go, "").unwrap();
        while !fs::read_to_string(&card).unwrap_or_default().contains("Say it again.") {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Answer::reply(&Reply::text("mock", "Done."))
    })
    .await;
    let args = ["--approve", "auto", "--set", &own, "go"];
    let first = lab.run(&server, &args).end().await.with_code(0);
    let words = "mcp w: it did not say within 5 s what it has. This session goes without its tools, \
                 and asks on while it lasts, for the next one. To wait for it: deputize mcp test w";
    assert!(first.err.contains(words), "{}", first.err);
    let second = lab.run(&caller().await, &args).end().await.with_code(0);
    assert!(second.out.contains("echo: hello"), "{}", second.out);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn servers_that_nothing_is_known_of_hold_up_the_first_request_five_seconds_together() {
    let lab = Lab::new();
    let server = model(|_: &Asked| Answer::reply(&Reply::text("mock", "Done."))).await;
    let hangs = |name: &str| {
        format!("mcp_servers.{name}={}", json!({"command": SERVER, "args": ["hangs at once"]}))
    };
    let sets = ["a", "b", "c"].map(hangs);
    let mut args = vec!["--output", "events"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    args.push("go");
    let ended = lab.run(&server, &args).end().await.with_code(0);
    for name in ["a", "b", "c"] {
        let words =
            format!("mcp {name}: it did not say within 5 s what it has. This session goes without");
        assert!(ended.err.contains(&words), "{}", ended.err);
    }
    // One after the other would be fifteen.
    assert!(ended.took.as_secs() < 14, "{:?}", ended.took);
    // None of them is waited for again, until it says what it has.
    let again = lab.run(&server, &args).end().await.with_code(0);
    for name in ["a", "b", "c"] {
        let words = format!("mcp {name}: it is not waited for, since it did not say in time");
        assert!(again.err.contains(&words), "{}", again.err);
    }
    // Whose tools nobody has asked for is not started.
    args.extend(["-t", "file"]);
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert!(!ended.err.contains("mcp a"), "{}", ended.err);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn children_have_the_tools_of_servers_unless_the_operator_says_otherwise() {
    let server = model(|asked: &Asked| {
        let first = asked.first_user().to_owned();
        Answer::reply(&match (first.ends_with("go"), asked.replies()) {
            (true, 0) => {
                let task = json!({"goal": "Look", "toolsets": ["file"]});
                Reply::calls("mock", [("delegate_task", task)])
            }
            (false, 0) => Reply::calls("mock", [("mcp__w__echo", json!({"text": "below"}))]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await;
    for (inherit, words) in [("true", "echo: below"), ("false", "there is no tool `mcp__w__echo`")]
    {
        let (lab, own) = (Lab::new(), set("none"));
        approve(&lab, &own).await;
        let inherit = format!("delegation.inherit_mcp_toolsets={inherit}");
        let auto = ["--set", "delegation.approvals=auto", "--set", &inherit, "--set", &own];
        let args = [&auto[..], &["go"]].concat();
        let ended = lab.run(&server, &args).end().await.with_code(0);
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
        assert_eq!(lab.processes(), []);
    }
}

#[tokio::test]
async fn a_recorded_run_with_a_server_is_played_without_it() {
    let (lab, server, own) = (Lab::new(), caller().await, set("none"));
    let args = ["--approve", "auto", "--record", "tape", "--set", &own, "go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    assert!(ended.out.contains("echo: hello"), "{}", ended.out);
    let played = deputize(&lab, &["run", "--replay", "tape"]).await.with_code(0);
    assert_eq!(played.out, ended.out);
}

#[tokio::test]
async fn a_server_cannot_have_a_name_by_which_its_tools_are_another_ones() {
    let lab = Lab::new();
    // `w` with a tool `echo__echo`, and `w__echo` with `echo`, would both have `mcp__w__echo__echo`.
    let words = "the name of a server has no `__` and no `_` at its end";
    for name in ["w__echo", "w_"] {
        let own = format!("mcp_servers.{name}={}", json!({"command": SERVER, "args": ["none"]}));
        let check = deputize(&lab, &["config", "check", "--set", &own]).await.with_code(2);
        assert!(format!("{}{}", check.out, check.err).contains(words), "{}", check.err);
        let add = deputize(&lab, &["mcp", "add", name, "--yes", "--", SERVER, "none"]).await;
        assert!(add.with_code(2).err.contains(words));
    }
}

#[tokio::test]
async fn a_password_in_the_address_of_a_server_is_refused_and_shown_nowhere() {
    let lab = Lab::new();
    let url = "http://me:hush@127.0.0.1:9/mcp";
    let own = format!("mcp_servers.w={}", json!({"url": url}));
    for args in [
        &["mcp", "add", "w", "--url", url, "--yes"][..],
        &["mcp", "list", "--set", &own],
        &["mcp", "test", "w", "--set", &own],
        &["run", "-m", "offline", "--set", &own, "go"],
    ] {
        let ended = deputize(&lab, args).await.with_code(2);
        assert!(ended.err.contains("holds a user name or password"), "{}", ended.err);
        assert!(ended.err.contains("--header 'Authorization=Basic ${NAME}'"), "{}", ended.err);
        lab.holds_no("hush", &ended);
    }
}

/// A server in Python, which leaves a mark where it is told.
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
async fn no_project_supplies_the_code_of_a_server_unless_the_person_says_so() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let (bin, mark) = (lab.work("node_modules/.bin"), lab.path("mark"));
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
            Running::start(lab.deputize(&add)).end()
        };
        let ended = add(&[]).await.with_code(1);
        assert!(!mark.exists(), "{command:?}: {} {}", ended.out, ended.err);
        assert!(lab.path("home/mcp/started-in/w").is_dir());

        // Where the person says so it does, and is told.
        for (place, told) in [
            ("workspace", "the directory that agents work in"),
            (".", lab.work("").canonicalize().unwrap().to_str().unwrap()),
        ] {
            let ended = add(&["--start-in", place]).await.with_code(0);
            let words = format!("started in: {told}; its code may come from there");
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
    let lab = Lab::new();
    let modules = lab.path("modules");
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("planted.py"), PLANTED).unwrap();
    let (path, mark) = (format!("PYTHONPATH={}", modules.display()), lab.path("mark"));
    let command = ["python3", "-m", "planted", mark.to_str().unwrap()];
    let add = [&["mcp", "add", "w", "--yes", "--env", &path, "--"], &command[..]].concat();
    let ended = deputize(&lab, &add).await.with_code(0);
    assert!(ended.out.contains("given by name: PYTHONPATH"), "{}", ended.out);
    // That of the surroundings is not.
    let mut run = lab.deputize(&[&["mcp", "add", "v", "--yes", "--"], &command[..]].concat());
    run.env("PYTHONPATH", &modules);
    let ended = Running::start(run).end().await.with_code(1);
    assert!(ended.err.contains("No module named planted"), "{}", ended.err);
}

#[tokio::test]
async fn other_instructions_of_a_server_that_is_started_at_its_first_call_block_the_call() {
    let (lab, server) = (Lab::new(), caller().await);
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
    let reads = model(|asked: &Asked| {
        Answer::reply(&match asked.replies() {
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
    let (lab, server) = (Lab::new(), caller().await);
    let does = lab.path("does");
    let own = set(&format!("@{}", does.display()));
    fs::write(&does, "none").unwrap();
    approve(&lab, &own).await;
    fs::write(&does, "resources and prompts").unwrap();
    let run =
        || lab.run(&server, &["--approve", "auto", "--output", "events", "--set", &own, "go"]);
    let tools = |ended: &Ended| {
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
