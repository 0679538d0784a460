//! The program is killed again and again: nothing runs twice, nothing is left, and a session that
//! ends it each time is only shown.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use deputize_core::SessionId;
use deputize_core::model::Reply;
use deputize_runtime::{OPENINGS_LIMIT, SessionDir};
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::kill::{call, descendants, is_alive, kill, resume, text};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model, soon};

fn id(lab: &Lab) -> SessionId {
    SessionId::new(lab.session()).unwrap()
}

/// Where failed openings of the only session are counted.
fn openings(lab: &Lab) -> PathBuf {
    lab.path(format!("home/sessions/.{}-openings", lab.session()))
}

/// Lets the program go until it has asked its model so many times, and kills it there.
async fn crash(lab: &Lab, server: &MockServer, args: &[&str], requests: usize) {
    let upto = server.requests().len() + requests;
    let running = lab.run(server, args);
    let asks = async {
        while server.requests().len() < upto {
            sleep(Duration::from_millis(2)).await;
        }
    };
    soon("a request", asks).await;
    kill(lab, running).await;
}

/// Openings that are counted as failed.
fn counted(lab: &Lab) -> u64 {
    fs::metadata(openings(lab)).map_or(0, |file| file.len())
}

/// As a program that was gone before it came to a request.
fn dies(lab: &Lab) {
    let dir = SessionDir::new(lab.path("home/sessions"));
    std::mem::forget(dir.opening(&id(lab)).unwrap());
}

#[tokio::test]
async fn a_session_that_ends_the_program_three_times_in_a_row_is_only_shown() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Here I am.").stall_at(0, &held)).await;
    crash(&lab, &server, &["Where are you?"], 1).await;
    assert_eq!(counted(&lab), 0, "a new session is not taken up again");
    let session = lab.session();
    for _ in 0..=OPENINGS_LIMIT {
        crash(&lab, &server, &["--resume", &session], 1).await;
        assert_eq!(counted(&lab), 0, "a server that stalls is not the session's fault");
    }
    for crashes in 1..=OPENINGS_LIMIT {
        dies(&lab);
        assert_eq!(counted(&lab), crashes);
    }

    let asked = server.requests().len();
    let kept = fs::read(lab.session_file()).unwrap();
    let refused = resume(&lab, &server, &[]).await.with_code(1);
    let way_out = format!("remove `{}` to try it again", openings(&lab).display());
    for actual in ["3 times in a row", "it can be shown and exported, not resumed", &way_out] {
        assert!(refused.err.contains(actual), "{actual}: {}", refused.err);
    }
    assert_eq!((refused.out.as_str(), server.requests().len()), ("", asked));
    assert_eq!(fs::read(lab.session_file()).unwrap(), kept);
    for args in [&["sessions", "show", &session][..], &["sessions", "export", &session]] {
        let shown = RunningProgram::start(lab.deputize(args)).end().await.with_code(0);
        assert!(shown.out.contains("Where are you?"), "{shown:#?}");
    }

    fs::remove_file(openings(&lab)).unwrap();
    gate.open();
    assert_eq!(resume(&lab, &server, &[]).await.with_code(0).out, "Here I am.\n");
    assert!(!openings(&lab).exists(), "it went well");
}

#[tokio::test]
async fn a_request_or_an_end_in_order_begins_the_count_anew() {
    let lab = Lab::new();
    let first = Barrier::closed();
    let second = Barrier::closed();
    let held = (first.clone(), second.clone());
    let server = model(move |asked| match asked.replies() {
        0 => call("list_dir", json!({})).stall_at(0, &held.0),
        _ => text("At last.").stall_at(0, &held.1),
    });
    let server = server.await;
    crash(&lab, &server, &["Hello?"], 1).await;
    let session = lab.session();
    let again = ["--resume", session.as_str()];
    (1..OPENINGS_LIMIT).for_each(|_| dies(&lab));
    assert_eq!(counted(&lab), OPENINGS_LIMIT - 1);
    crash(&lab, &server, &again, 1).await;
    assert_eq!(counted(&lab), 0);
    first.open();
    // It is answered once, and asks again.
    crash(&lab, &server, &again, 2).await;
    (1..OPENINGS_LIMIT).for_each(|_| dies(&lab));
    assert_eq!(counted(&lab), OPENINGS_LIMIT - 1);
    let refuses = MockServer::start([MockAnswer::error(401, "not you")]).await.unwrap();
    let ended = resume(&lab, &refuses, &[]).await.with_code(3);
    assert_eq!(counted(&lab), 0, "{ended:#?}");
    second.open();
    assert_eq!(resume(&lab, &server, &[]).await.with_code(0).out, "At last.\n");
}

/// How often the program is killed at a moment of chance; `DEPUTIZE_KILLS` says another number.
const KILLS: usize = 200;
/// Sessions that are killed side by side.
const TOGETHER: usize = 8;
/// Calls of a turn.
const CALLS: usize = 2;

/// Each call leaves a line of its own and a process that would go on for ever.
fn worker(mark: String) -> impl Fn(&ChatRequest) -> MockAnswer {
    move |asked| {
        let replies = asked.replies();
        if replies % (CALLS + 1) == CALLS {
            return MockAnswer::reply(&Reply::text("mock", format!("Answer {replies}.")));
        }
        let command = format!("echo {replies} >> ran; setsid -f sleep {mark}; echo done");
        call("terminal", json!({ "command": command }))
    }
}

/// Kills one session so many times; gives how often an opening was refused.
async fn killed(times: usize, mut dice: fastrand::Rng) -> usize {
    let lab = Lab::new();
    let server = model(worker(lab.mark().to_owned())).await;
    let auto = ["--approve", "auto"];
    let begun = Instant::now();
    lab.run(&server, &[&auto[..], &["Work 0"]].concat()).end().await.with_code(0);
    let whole = begun.elapsed();
    // A turn that has its answer is followed by another one.
    let mut kills = 0;
    let mut turns = 1;
    let mut refused = 0;
    let mut answered = true;
    while kills < times {
        let session = lab.session();
        let work = format!("Work {turns}");
        let resumed = [&auto[..], &["--resume", &session]].concat();
        let args = if answered { [&resumed[..], &[&work]].concat() } else { resumed };
        let ended = life(&lab, &server, &args, whole.mul_f64(dice.f64() * 1.2)).await;
        answered = ended.code == Some(0);
        match ended.code {
            None => kills += 1,
            Some(0) => turns += 1,
            Some(_) if ended.err.contains("times in a row") => {
                fs::remove_file(openings(&lab)).unwrap();
                refused += 1;
            }
            Some(_) => panic!("{ended:#?}"),
        }
        let stored = SessionDir::new(lab.path("home/sessions")).read(&id(&lab)).unwrap();
        assert_eq!(stored.damage, None);
    }
    let session = lab.session();
    let args = [&auto[..], &["--resume", &session, "The last"]].concat();
    lab.run(&server, &args).end().await.with_code(0);
    let ran = fs::read_to_string(lab.work("ran")).unwrap();
    let lines: Vec<&str> = ran.lines().collect();
    let once: BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!(lines.len(), once.len(), "a command ran twice: {ran}");
    refused
}

/// Starts the program, kills it after a while, and holds that nothing is left of it.
async fn life(lab: &Lab, server: &MockServer, args: &[&str], after: Duration) -> ProgramEnd {
    let running = lab.run(server, args);
    sleep(after).await;
    let before = descendants(running.pid());
    running.signal(Signal::KILL);
    let ended = running.end().await;
    let gone = async {
        let is_left = |(pid, born): &(i32, u64)| is_alive(*pid, *born);
        while before.iter().any(is_left) {
            sleep(Duration::from_millis(2)).await;
        }
        // Who was started meanwhile. To look at every process of the machine takes a while.
        while !lab.processes().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the end of all that it started", gone).await;
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_two_hundred_times_by_chance_nothing_runs_twice_and_nothing_is_left() {
    #[expect(clippy::disallowed_methods, reason = "a test reads how it was started")]
    let kills = std::env::var("DEPUTIZE_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = fastrand::u64(..);
    let begun = Instant::now();
    let mut sessions = JoinSet::new();
    println!("the moments are of seed {seed}");
    for session in 0..TOGETHER {
        let dice = fastrand::Rng::with_seed(seed.wrapping_add(session as u64));
        sessions.spawn(killed(kills.div_ceil(TOGETHER), dice));
    }
    let refused: usize = sessions.join_all().await.into_iter().sum();
    println!("{kills} kills in {:?}, {refused} openings refused", begun.elapsed());
}
