//! The program is killed outright: what it said is kept, and nothing runs twice.

use std::fs;
use std::path::Path;

use deputize_core::Reply;
use deputize_testkit::{Answer, Gate, MockServer};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{Asked, Ended, Lab, Running, model};

fn call(tool: &str, arguments: Value) -> Answer {
    Answer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> Answer {
    Answer::reply(&Reply::text("mock", text))
}

/// Signal 9, and what its commands left, which lie outside of what it can clean up now.
async fn kill(lab: &Lab, running: Running) {
    running.signal(Signal::KILL);
    let ended = running.end().await;
    assert_eq!(ended.code, None, "{ended:#?}");
    for (pid, _) in lab.processes() {
        let _gone = kill_process(pid, Signal::KILL);
    }
}

async fn resume(lab: &Lab, server: &MockServer, args: &[&str]) -> Ended {
    let session = lab.session();
    let mut all = vec!["--resume", session.as_str()];
    all.extend(args);
    lab.run(server, &all).end().await
}

/// Requests that a rule is true of.
fn count(server: &MockServer, is: impl Fn(&Asked) -> bool) -> usize {
    server.requests().iter().filter(|request| is(&Asked::of(request))).count()
}

#[tokio::test]
async fn before_the_first_reply_the_same_request_is_sent_again() {
    let lab = Lab::new();
    let gate = Gate::closed();
    let held = gate.clone();
    let server = model(move |_| text("Here I am.").stall_at(0, &held)).await;
    let running = lab.run(&server, &["Where are you?"]);
    gate.until_waiting(1).await;
    kill(&lab, running).await;
    gate.open();
    let ended = resume(&lab, &server, &[]).await.with_code(0);
    assert_eq!(ended.out, "Here I am.\n");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].text(), requests[1].text());
    assert!(!ended.err.contains("recovered"), "nothing was lost: {}", ended.err);
}

/// A parent with two children, the second of which waits at the gate.
async fn family(gate: &Gate) -> MockServer {
    let held = gate.clone();
    let server = model(move |asked| {
        let system = asked.system();
        if system.contains("YOUR TASK:\nfirst") {
            text("The first is done.")
        } else if system.contains("YOUR TASK:\nsecond") {
            text("The second is done.").stall_at(0, &held)
        } else if asked.replies() == 0 {
            call("delegate_task", json!({"tasks": [{"goal": "first"}, {"goal": "second"}]}))
        } else {
            text("Both are done.")
        }
    });
    server.await
}

#[tokio::test]
async fn a_child_that_had_ended_is_not_asked_again() {
    let lab = Lab::new();
    let gate = Gate::closed();
    let server = family(&gate).await;
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    gate.until_waiting(1).await;
    running.event("agent.end", |end| end["depth"] == 1).await;
    kill(&lab, running).await;
    gate.open();

    let ended = resume(&lab, &server, &["--output", "json"]).await.with_code(0);
    let of = |goal: &'static str| {
        count(&server, move |asked| asked.system().contains(&format!("YOUR TASK:\n{goal}")))
    };
    assert_eq!((of("first"), of("second")), (1, 2), "the first had ended, the second had not");
    let requests = server.requests();
    let last = Asked::of(requests.last().unwrap());
    let results = last.results();
    assert_eq!(results.len(), 1);
    assert!(
        results[0].contains("The first is done.") && results[0].contains("The second is done.")
    );
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(shown["answer"], "Both are done.");
    assert_eq!(shown["children"].as_array().unwrap().len(), 2, "{shown:#}");
}

#[tokio::test]
async fn a_command_that_had_started_is_not_run_again() {
    for sync in ["turn", "always", "never"] {
        let lab = Lab::new();
        let command = format!("echo ran >> ran; echo > begun; exec sleep {}", lab.mark());
        let server = model(move |asked| match asked.replies() {
            0 => call("terminal", json!({ "command": command })),
            _ => text("I looked."),
        });
        let server = server.await;
        let mut begun = lab.pipe("begun");
        let sync = format!("journal.sync={sync}");
        let set = ["--approve", "auto", "--set", &sync];
        let running = lab.run(&server, &[&set[..], &["Work"]].concat());
        begun.lines(1).await;
        kill(&lab, running).await;

        let ended = resume(&lab, &server, &set).await.with_code(0);
        assert_eq!(ended.out, "I looked.\n");
        assert_eq!(fs::read_to_string(lab.work("ran")).unwrap(), "ran\n");
        let told = "session recovered: a call has an unknown outcome: terminal";
        assert!(ended.err.contains(told), "{}", ended.err);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let results = Asked::of(&requests[1]);
        assert!(results.results()[0].contains("outcome is unknown"), "{:?}", results.results());
    }
}

/// A session of one question and one answer.
async fn a_session(lab: &Lab) -> MockServer {
    let server = model(|asked| text(&format!("Answer {}.", asked.replies() + 1))).await;
    let ended = lab.run(&server, &["First question"]).end().await.with_code(0);
    assert_eq!(ended.out, "Answer 1.\n");
    server
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_told() {
    type Tear = fn(&mut Vec<u8>);
    let tear: [(&str, Tear); 4] = [
        ("its end is missing", |bytes| bytes.truncate(bytes.len() - 10)),
        ("its beginning is there", |bytes| bytes.extend(b"{\"seq\":99,\"le")),
        ("zeros", |bytes| bytes.extend([0; 4096])),
        ("noise", |bytes| bytes.extend(b"\xff\n\x1b[2J\n")),
    ];
    for (name, tear) in tear {
        let lab = Lab::new();
        let server = a_session(&lab).await;
        let mut bytes = fs::read(lab.session_file()).unwrap();
        tear(&mut bytes);
        fs::write(lab.session_file(), bytes).unwrap();
        let ended = resume(&lab, &server, &["Second question"]).await.with_code(0);
        assert_eq!(ended.out, "Answer 2.\n", "{name}");
        assert!(ended.err.contains("its last record was incomplete ("), "{name}: {}", ended.err);
        let again = resume(&lab, &server, &["Third question"]).await.with_code(0);
        assert_eq!(again.out, "Answer 3.\n", "{name}");
        assert!(!again.err.contains("recovered"), "{name}: {}", again.err);
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_middle_leaves_a_session_to_read() {
    let lab = Lab::new();
    let server = a_session(&lab).await;
    let file = lab.session_file();
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.windows(8).position(|window| window == b"Answer 1").unwrap();
    bytes[place] ^= 1;
    let line = bytes[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
    fs::write(&file, &bytes).unwrap();

    let ended = resume(&lab, &server, &["Second question"]).await.with_code(1);
    let told = format!("line {line} of session file `{}` is damaged", file.display());
    assert!(ended.err.contains(&told), "{told}\n{}", ended.err);
    assert_eq!((ended.out.as_str(), server.requests().len()), ("", 1));
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is thrown away");

    let session = lab.session();
    for args in [&["sessions", "show", &session][..], &["sessions", "export", &session]] {
        let ended = Running::start(lab.deputize(args)).end().await.with_code(0);
        assert!(ended.out.contains("First question"), "{ended:#?}");
        assert!(ended.err.contains("damaged"), "{ended:#?}");
    }
}

#[tokio::test]
async fn what_is_no_session_is_told_by_its_name() {
    let lab = Lab::new();
    let server = a_session(&lab).await;
    let file = lab.session_file();
    let cases: [(&str, &[u8], i32, &str); 4] = [
        ("empty", b"", 1, "is not a session file"),
        ("a header alone cut short", b"{\"format\":1,\"sess", 1, "is not a session file"),
        ("binary", b"\x7fELF\x02\x01\n", 1, "is not a session file"),
        ("of later", b"{\"format\":99}\n", 1, "has format 99, this program reads up to 1"),
    ];
    for (name, bytes, code, told) in cases {
        fs::write(&file, bytes).unwrap();
        let ended = resume(&lab, &server, &["Go on"]).await.with_code(code);
        assert!(ended.err.contains(told), "{name}: {}", ended.err);
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name}");
    }
    let missing = lab.run(&server, &["--resume", "../../etc/passwd", "x"]).end().await;
    assert!(missing.with_code(2).err.contains("there is no session"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_session_in_use_is_refused_and_its_owner_named() {
    let lab = Lab::new();
    let gate = Gate::closed();
    let held = gate.clone();
    let server = model(move |_| text("Done.").stall_at(0, &held)).await;
    let first = lab.run(&server, &["Take your time"]);
    gate.until_waiting(1).await;
    let before = fs::read(lab.session_file()).unwrap();
    for prompt in [&[][..], &["Something else"]] {
        let ended = resume(&lab, &server, prompt).await.with_code(1);
        let owner = format!("is in use by process {}", first.pid().as_raw_nonzero());
        assert!(ended.err.contains(&owner), "{owner}: {}", ended.err);
    }
    assert_eq!(fs::read(lab.session_file()).unwrap(), before);
    gate.open();
    assert_eq!(first.end().await.with_code(0).out, "Done.\n");
    assert_eq!(server.requests().len(), 1);
    assert!(Path::new(&lab.session_file()).is_file());
}
