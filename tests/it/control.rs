//! A run that is reached from another terminal: what it does, no new children, and an end for one
//! of them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model, soon};

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

/// A parent with two children, each of which waits at its gate, and then says so.
async fn family(gates: [Barrier; 2]) -> MockServer {
    let server = model(move |asked| {
        let system = asked.system();
        for (number, gate) in gates.iter().enumerate() {
            if system.contains(&format!("YOUR TASK:\nchild {number}")) {
                return text(&format!("{number} is done.")).held_by(gate);
            }
        }
        match asked.results().as_slice() {
            [] => {
                let task = |n: u32| json!({"goal": format!("child {n}")});
                call("delegate_task", json!({"tasks": [task(0), task(1)]}))
            }
            [result] => text(&format!("They said: {result}")),
            [..] => text("Too much."),
        }
    });
    server.await
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// Returns the only session, as `agents --once --json` prints it.
async fn seen(lab: &Lab) -> Value {
    let ended = deputize(lab, &["agents", "--once", "--json"]).await.with_code(0);
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    let sessions = actual["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{actual:#}");
    sessions[0].clone()
}

/// Waits until a run answers at its socket.
pub(crate) async fn reachable(lab: &Lab) -> String {
    let listens = async {
        loop {
            let sockets = fs::read_dir(lab.path("home/control")).into_iter().flatten().flatten();
            let names = sockets.map(|entry| entry.file_name().into_string().unwrap());
            if names.into_iter().any(|name| name.ends_with(".sock") && !name.starts_with('.')) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("its socket", listens).await;
    lab.session()
}

#[tokio::test]
async fn a_session_is_listed_as_running_while_it_runs_and_as_unfinished_when_it_was_killed() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["-q", "Share it"]);
    server.until_requests(3).await;
    let session = lab.session();
    let pid = running.pid().as_raw_nonzero().get();

    let status = async || {
        let listed = deputize(&lab, &["sessions", "list", "--json"]).await.with_code(0);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        listed[0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status().await, "running");
    let table = deputize(&lab, &["sessions", "list"]).await.with_code(0);
    assert!(table.out.contains("  running  "), "{}", table.out);
    let shown = deputize(&lab, &["sessions", "show", &session]).await.with_code(0);
    let advice = format!("running in process {pid}: `deputize agents {session}` shows");
    assert!(shown.out.contains(&advice), "{}", shown.out);
    assert!(!shown.out.contains("unfinished") && !shown.out.contains("--resume"), "{}", shown.out);
    let child = deputize(&lab, &["sessions", "show", &session, "--agent", "1.0.0"]).await;
    assert!(child.out.contains("1.0.0 (running)"), "{}", child.out);

    running.signal(Signal::KILL);
    let _killed = running.end().await;
    assert_eq!(status().await, "unfinished");
    let shown = deputize(&lab, &["sessions", "show", &session]).await.with_code(0);
    let advice = format!("unfinished: continue with `deputize run --resume {session}`\n");
    assert!(shown.out.ends_with(&advice), "{}", shown.out);
    gates.iter().for_each(Barrier::open);
    let resumed = lab.run(&server, &["-q", "--resume", &session]).end().await.with_code(0);
    assert!(resumed.out.contains("0 is done."), "{}", resumed.out);
    assert_eq!(status().await, "completed");
}

#[tokio::test]
async fn the_agents_of_a_run_are_seen_and_one_is_asked_to_end() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    server.until_requests(3).await;
    let session = reachable(&lab).await;

    let actual = seen(&lab).await;
    assert_eq!(actual["running"], true, "{actual:#}");
    assert_eq!(actual["pid"], running.pid().as_raw_nonzero().get());
    let agents = actual["agents"].as_array().unwrap();
    let brief: Vec<_> = agents
        .iter()
        .map(|it| (it["depth"].clone(), it["status"].clone(), it["current_tool"].clone()))
        .collect();
    let child = (json!(1), json!("running"), Value::Null);
    let top = (json!(0), json!("running"), json!("delegate_task"));
    assert_eq!(brief, [top, child.clone(), child]);
    assert_eq!(agents[1]["goal"], "child 0");
    assert_eq!(agents[1]["parent"], session);
    let table = deputize(&lab, &["agents", "--once"]).await.with_code(0);
    assert!(table.out.contains(&format!("{session}: running in process")), "{}", table.out);
    assert!(table.out.contains("child 1"), "{}", table.out);

    let first = agents[1]["agent"].as_str().unwrap();
    let ended = deputize(&lab, &["agents", "stop", &session]).await.with_code(1);
    assert!(ended.err.contains("2 agents run below"), "{}", ended.err);
    assert!(ended.err.contains("--tree"), "{}", ended.err);
    let nobody = format!("{session}/9.9.9");
    let ended = deputize(&lab, &["agents", "stop", &nobody]).await.with_code(1);
    assert!(ended.err.contains("no agent"), "{}", ended.err);
    // Only one session runs, so its name can be left out.
    let short = first.split_once('/').unwrap().1;
    deputize(&lab, &["agents", "stop", short]).await.with_code(0);
    let end = running.event("agent.end", |end| end["agent"] == first).await;
    assert_eq!(end["status"], "interrupted");
    let ended = deputize(&lab, &["agents", "stop", first]).await.with_code(1);
    let had = format!("error: agent `{first}` has already ended (interrupted)\n");
    let those = format!("hint: those that run: {session}, {session}/1.0.1\n");
    assert_eq!(ended.err, had + &those);
    gates[1].open();
    let ended = running.end().await.with_code(0);
    let answer = ended.events("model.response").pop().unwrap()["text"].to_string();
    assert!(answer.contains("interrupted") && answer.contains("1 is done."), "{answer}");

    let left: Vec<_> = fs::read_dir(lab.path("home/control")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let actual = seen(&lab).await;
    assert_eq!((&actual["running"], &actual["status"]), (&json!(false), &json!("completed")));
    assert_eq!(actual["agents"][1]["status"], "interrupted");
    assert_eq!(actual["agents"][2]["status"], "completed");
    let ended = deputize(&lab, &["agents", "stop", first]).await.with_code(1);
    assert!(ended.err.contains("does not run"), "{}", ended.err);
    let ended = deputize(&lab, &["agents", "stop", short]).await.with_code(1);
    assert!(ended.err.contains("no session is running"), "{}", ended.err);
    // The same names hold elsewhere, and of the session its beginning will do.
    let full = deputize(&lab, &["sessions", "show", first]).await.with_code(0);
    assert!(full.out.starts_with(&format!("=== {first} (interrupted)")), "{}", full.out);
    let begun = &session[..12];
    for args in [&[&session, "--agent", first][..], &[begun, "--agent", short]] {
        let shown = deputize(&lab, &[&["sessions", "show"], args].concat()).await.with_code(0);
        assert_eq!(shown.out, full.out);
    }
    let ended = deputize(&lab, &["pause"]).await.with_code(1);
    assert!(ended.err.contains("no session is running"), "{}", ended.err);
}

#[tokio::test]
async fn a_child_that_is_stopped_in_its_answer_is_counted_and_says_who_stopped_it() {
    let gate = Barrier::closed();
    let server = model(move |asked| match asked.results().len() {
        _ if asked.system().contains("YOUR TASK:\nchild 0") => {
            text(&"Word after word. ".repeat(60)).stall_at(900, &gate)
        }
        0 => call("delegate_task", json!({"goal": "child 0"})),
        _ => text("Seen."),
    })
    .await;
    let lab = Lab::new();
    let running = lab.run(&server, &["-v", "--output", "events", "Share it"]);
    let session = reachable(&lab).await;
    let child = format!("{session}/1.0.0");
    running.event("model.delta", |delta| delta["agent"] == child.as_str()).await;
    deputize(&lab, &["agents", "stop", &child]).await.with_code(0);
    let ended = running.end().await.with_code(0);
    let requests = server.requests();
    let asked = ChatRequest::of(requests.last().unwrap());
    let actual = asked.results()[0];
    let actual = &actual[actual.find("{\"results\"").unwrap()..];
    let actual = serde_json::Deserializer::from_str(actual).into_iter::<Value>().next();
    let entry = &actual.unwrap().unwrap()["results"][0];
    let why = "a person stopped it";
    let how = ["status", "exit_reason", "error"].map(|field| entry[field].clone());
    assert_eq!(how, ["interrupted", "interrupted", why].map(Value::from));
    assert!(entry["summary"].as_str().unwrap().contains("Word after word."), "{entry}");
    // It was asked once, and what it read and said is paid for.
    assert_eq!(entry["api_calls"], 1, "{entry}");
    let tokens = ["input", "output"].map(|name| entry["tokens"][name].as_u64().unwrap());
    assert!(tokens[0] > 500 && tokens[1] > 0, "{entry}");
    let error = ended.events("model.error").pop().unwrap();
    assert_eq!(
        [&error["input_tokens"], &error["output_tokens"]],
        tokens.map(Value::from).each_ref()
    );
    assert_eq!(error["estimated"], true, "{error:#}");
}

#[tokio::test]
async fn two_who_stop_at_once_are_both_answered_and_it_ends_once() {
    let gates = [Barrier::closed(), Barrier::closed()];
    let server = family(gates.clone()).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    server.until_requests(3).await;
    let session = reachable(&lab).await;
    let child = format!("{session}/1.0.0");
    let none = deputize(&lab, &["agents", "stop", "nope"]).await.with_code(2);
    let said = "error: `nope` names no agent and no session\nhint: `deputize agents` lists ";
    assert!(none.err.starts_with(said), "{}", none.err);
    let nobody = deputize(&lab, &["agents", "stop", "9.9.9"]).await.with_code(1);
    let those = format!("hint: those that run: {session}, {session}/1.0.0, {session}/1.0.1\n");
    assert!(nobody.err.ends_with(&those), "{}", nobody.err);
    let one = ["agents", "stop", &child];
    let tree = ["agents", "stop", &child, "--tree"];
    let (first, second) = tokio::join!(deputize(&lab, &one), deputize(&lab, &tree));
    for stop in [&first, &second] {
        // Whoever comes too late is told that.
        let words = ["no agent", "has already ended"];
        let late = stop.code == Some(1) && words.iter().any(|words| stop.err.contains(words));
        assert!(stop.code == Some(0) || late, "{stop:#?}");
    }
    assert!(first.code == Some(0) || second.code == Some(0), "{first:#?}{second:#?}");
    gates[1].open();
    let ended = running.end().await.with_code(0);
    let ends = ended.events("agent.end");
    let of_child: Vec<_> = ends.iter().filter(|end| end["agent"] == child.as_str()).collect();
    assert_eq!(of_child.len(), 1, "{of_child:#?}");
    assert_eq!(of_child[0]["status"], "interrupted");
    let stops = ended.events("agent.stop");
    let of_child = stops.iter().filter(|stop| stop["agent"] == child.as_str());
    let pending: Vec<_> = of_child.map(|stop| stop["pending"] == true).collect();
    assert_eq!(pending, [true, false], "told once, and stopped once");
}

#[tokio::test]
async fn a_tree_is_asked_to_end_as_a_whole() {
    let server = family([Barrier::closed(), Barrier::closed()]).await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "json", "Share it"]);
    server.until_requests(3).await;
    let session = reachable(&lab).await;
    deputize(&lab, &["agents", "stop", &session, "--tree"]).await.with_code(0);
    let ended = running.end().await.with_code(130);
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(actual["children"].as_array().unwrap().len(), 2);
    let above = "a person stopped an agent above it";
    for child in actual["children"].as_array().unwrap() {
        assert_eq!([&child["status"], &child["error"]], ["interrupted", above], "{actual:#}");
    }
    assert_eq!(actual["error"], "a person stopped it", "{actual:#}");
}

#[tokio::test]
async fn a_task_that_waited_when_all_was_stopped_is_among_the_children_of_the_json() {
    let server = family([Barrier::closed(), Barrier::closed()]).await;
    let lab = Lab::new();
    let set = ["delegation.max_concurrent_children=1", "delegation.over_limit=queue"];
    let set = ["--set", set[0], "--set", set[1]];
    let running = lab.run(&server, &[&["--output", "json"], &set[..], &["Share it"]].concat());
    server.until_requests(2).await;
    let session = reachable(&lab).await;
    deputize(&lab, &["agents", "stop", &session, "--tree"]).await.with_code(0);
    let ended = running.end().await.with_code(130);
    let actual: Value = serde_json::from_str(&ended.out).unwrap();
    let children = actual["children"].as_array().unwrap();
    let brief = |child: &Value| {
        [child["task_index"].clone(), child["status"].clone(), child["api_calls"].clone()]
    };
    assert_eq!(children.len(), 2, "{actual:#}");
    assert_eq!(brief(&children[0]), [json!(0), json!("interrupted"), json!(1)]);
    assert_eq!(brief(&children[1]), [json!(1), json!("interrupted"), json!(0)]);
    let error = children[1]["error"].as_str().unwrap();
    assert!(error.contains("a person stopped") && error.ends_with("it was not started"), "{error}");
}

#[tokio::test]
async fn a_paused_run_starts_no_children_until_it_may_again() {
    let first = Barrier::closed();
    let second = Barrier::closed();
    let gates = (first.clone(), second.clone());
    let server = model(move |asked| match asked.results().len() {
        _ if asked.system().contains("YOUR TASK:") => text("I am done."),
        0 => call("list_dir", json!({})).held_by(&gates.0),
        1 => call("delegate_task", json!({"goal": "Too early"})),
        2 => call("list_dir", json!({"path": "."})).held_by(&gates.1),
        3 => call("delegate_task", json!({"goal": "In time"})),
        _ => text("Done."),
    });
    let server = server.await;
    let lab = Lab::new();
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    server.until_requests(1).await;
    let session = reachable(&lab).await;
    let ended = deputize(&lab, &["pause"]).await.with_code(0);
    assert_eq!(ended.err, format!("{session}: new children are paused\n"));
    let ended = deputize(&lab, &["pause", &session]).await.with_code(0);
    assert_eq!(ended.err, format!("{session}: new children are already paused\n"));
    assert_eq!(seen(&lab).await["paused"], "user");
    first.open();
    server.until_requests(3).await;
    deputize(&lab, &["unpause"]).await.with_code(0);
    assert_eq!(seen(&lab).await["paused"], Value::Null);
    second.open();
    let ended = running.end().await.with_code(0);
    let paused = ended.events("spawn.paused");
    let paused: Vec<_> = paused.iter().map(|it| (&it["by"], &it["paused"])).collect();
    assert_eq!(paused, [(&json!("user"), &json!(true)), (&json!("user"), &json!(false))]);
    let goals = ended.events("agent.start");
    let goals: Vec<_> = goals.iter().map(|it| it["goal"].as_str().unwrap()).collect();
    assert_eq!(goals, ["Share it", "In time"]);
    let refused = &ended.events("tool.end")[1];
    let actual = refused["preview"].as_str().unwrap();
    assert!(actual.contains("E_PAUSED"), "{actual}");
}

#[tokio::test]
async fn tasks_that_were_accepted_wait_while_new_children_are_paused() {
    for background in [false, true] {
        let gates = [Barrier::closed(), Barrier::closed()];
        let held = gates.clone();
        let server = model(move |asked| {
            let number = |n: &usize| asked.system().contains(&format!("YOUR TASK:\nchild {n}"));
            match ((0..2).find(number), asked.results().len()) {
                (Some(number), _) => text("Done.").held_by(&held[number]),
                (None, 0) => {
                    let tasks = [json!({"goal": "child 0"}), json!({"goal": "child 1"})];
                    call("delegate_task", json!({"tasks": tasks, "background": background}))
                }
                (None, _) => text("They did it."),
            }
        });
        let server = server.await;
        let lab = Lab::new();
        let set = [
            "--set=delegation.max_concurrent_children=1",
            "--set=delegation.over_limit=queue",
            "--set=delegation.background=true",
        ];
        let args = [&set[..], &["--output", "events", "Share it"]].concat();
        let running = lab.run(&server, &args);
        reachable(&lab).await;
        let started = |it: &Value| it["agent"].as_str().unwrap().ends_with("/1.0.0");
        running.event("model.request", started).await;
        deputize(&lab, &["pause"]).await.with_code(0);
        gates.iter().for_each(Barrier::open);
        running.event("agent.end", started).await;
        deputize(&lab, &["unpause"]).await.with_code(0);
        let ended = running.end().await.with_code(0);
        let of_child = |kind: &str, number: usize| {
            let name = format!("/1.0.{number}");
            let of = |it: &Value| it["agent"].as_str().unwrap().ends_with(&name);
            ended.events(kind).into_iter().find(of).unwrap()
        };
        let unpaused = ended.events("spawn.paused")[1]["seq"].as_u64().unwrap();
        assert!(of_child("model.request", 1)["seq"].as_u64().unwrap() > unpaused);
        let statuses = [0, 1].map(|number| of_child("agent.end", number)["status"].clone());
        assert_eq!(statuses, ["completed", "completed"]);
    }
}

#[tokio::test]
async fn the_socket_is_for_its_owner_bounded_and_replaced_when_it_is_dead() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Done.").held_by(&held)).await;
    let running = lab.run(&server, &["--output", "events", "Wait"]);
    server.until_requests(1).await;
    let session = reachable(&lab).await;
    let folder = lab.path("home/control");
    let socket = folder.join(format!("{session}.sock"));
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);

    let ask = async |line: &[u8]| {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let _refused_midway = stream.write_all(line).await;
        let _gone = stream.shutdown().await;
        let mut answer = String::new();
        let _reset = soon("an answer", stream.read_to_string(&mut answer)).await;
        answer
    };
    let status = ask(b"{\"do\":\"status\"}\n{\"do\":\"status\"}\n").await;
    assert_eq!(status.lines().count(), 2);
    assert!(status.contains(&format!("\"pid\":{}", running.pid().as_raw_nonzero())), "{status}");
    assert!(ask(b"{\"do\":\"fly\"}\n").await.contains("that is no request"));
    assert!(ask(&b"\xff\0\n".repeat(3)).await.lines().count() == 3);
    assert!(ask(&vec![b'x'; 1 << 19]).await.contains("at most 4096 bytes"));
    // Those who say nothing take nobody's place for long, and hold up no end.
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.push(UnixStream::connect(&socket).await.unwrap());
    }
    assert!(!ask(b"{\"do\":\"status\"}\n").await.is_empty());

    running.signal(Signal::KILL);
    running.end().await;
    assert!(socket.exists());
    let inode = fs::metadata(&socket).unwrap().ino();
    gate.open();
    let resumed = lab.run(&server, &["--resume", &session, "--output", "events"]);
    resumed.end().await.with_code(0);
    assert!(!socket.exists());
    // One that nobody replaces is taken away by who meets it.
    drop(UnixListener::bind(&socket).unwrap());
    assert_ne!(inode, 0);
    let agent = session.clone();
    let ended = deputize(&lab, &["agents", "stop", &agent]).await.with_code(1);
    assert!(ended.err.contains("does not run"), "{}", ended.err);
    assert!(!socket.exists());
}

#[tokio::test]
async fn without_it_and_where_it_cannot_be_a_run_goes_on() {
    let server = model(|_| text("Done.")).await;
    let lab = Lab::new();
    let ended = lab.run(&server, &["--set", "control=false", "Go"]).end().await.with_code(0);
    assert_eq!(ended.out, "Done.\n");
    assert!(!lab.path("home/control").exists());

    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Done.").held_by(&held)).await;
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/control")).unwrap();
    fs::set_permissions(lab.path("home/control"), fs::Permissions::from_mode(0o755)).unwrap();
    let running = lab.run(&server, &["Go"]);
    running.says("its mode is 755").await;
    gate.open();
    let ended = running.end().await.with_code(0);
    assert_eq!(ended.out, "Done.\n");
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_socket_is_none_here() {
    let lab = Lab::new();
    let long = lab.path("x".repeat(200)).join("y".repeat(200));
    fs::create_dir_all(&long).unwrap();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Done.").held_by(&held)).await;
    let mut command = lab.run_command(&server, &["--output", "events", "Wait"]);
    command.env("DEPUTIZE_HOME", &long);
    let running = RunningProgram::start(command);
    server.until_requests(1).await;
    let pause = async {
        loop {
            let mut command = lab.deputize(&["pause"]);
            command.env("DEPUTIZE_HOME", &long);
            if RunningProgram::start(command).end().await.code == Some(0) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("a way to the run", pause).await;
    running.event("spawn.paused", |_| true).await;
    gate.open();
    running.end().await.with_code(0);
}

#[tokio::test]
async fn without_once_they_are_shown_once_and_that_is_said() {
    let lab = Lab::new();
    let ended = deputize(&lab, &["agents"]).await.with_code(0);
    assert!(ended.err.contains("no sessions yet"), "{}", ended.err);
    assert!(ended.err.contains("this is a snapshot"), "{}", ended.err);
    deputize(&lab, &["run", "-q", "-m", "offline", "List the files"]).await.with_code(0);
    let shown = deputize(&lab, &["agents"]).await.with_code(0);
    let once = deputize(&lab, &["agents", "--once"]).await.with_code(0);
    assert!(shown.out.contains("completed"), "{}", shown.out);
    assert_eq!((shown.out, once.err.as_str()), (once.out, ""));
    let json = deputize(&lab, &["agents", "--json"]).await.with_code(0);
    assert_eq!(json.err, "");
    let actual: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(actual["sessions"][0]["status"], "completed");
}
