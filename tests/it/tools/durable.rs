//! Commands that the person lets outlive the session, with real processes.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{calls_in_order, results_read};
use crate::kill::resume;
use crate::program::{ChatRequest, Lab, RunningProgram, model, sees, soon};

const AUTO: [&str; 4] = ["--approve", "auto", "--output", "events"];

/// Ends whatever a failed test leaves.
struct Leftovers<'l>(&'l Lab);

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        for (pid, _) in self.0.processes() {
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

fn background(command: &str) -> (&'static str, Value) {
    ("terminal", json!({"command": command, "background": true}))
}

fn durable(commands: &[&str]) -> String {
    format!("terminal.durable={}", json!(commands))
}

/// Ends the group of a durable command as the page says.
async fn end_group(lab: &Lab, pid: &Value) {
    let pid = Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    kill_process_group(pid, Signal::TERM).unwrap();
    let gone = async {
        while !lab.processes().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of the durable command", gone).await;
}

#[tokio::test]
async fn a_durable_command_goes_on_after_the_run_and_any_other_ends() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let (stays, ends) =
        (format!("echo up; sleep {} 7; true", lab.mark()), format!("sleep {} 8", lab.mark()));
    let set = durable(&[&stays]);
    let args = [&AUTO[..], &["--set", &set]].concat();
    let list = ("process", json!({"action": "list"}));
    let server = model(calls_in_order(vec![background(&stays), background(&ends), list])).await;
    let ended = lab.run(&server, &[&args[..], &["Go"]].concat()).end().await.with_code(0);
    let results = results_read(&server, 3);
    assert!(results[0].contains("durable: it goes on after this session, as PID "), "{results:#?}");
    assert!(!results[1].contains("durable"), "{results:#?}");
    assert!(results[2].contains(", durable, PID "), "{results:#?}");

    let left = lab.processes();
    assert!(left.iter().all(|(_, line)| line.contains(&format!("{} 7", lab.mark()))), "{left:?}");
    let start = &ended.events("process.start")[0];
    let pid = &start["durable_pid"];
    assert!(left.iter().any(|(it, _)| json!(it.as_raw_nonzero().get()) == *pid), "{left:?}");
    let exits: Vec<_> = ended.events("process.end").iter().map(|end| end["exit"].clone()).collect();
    assert!(exits.contains(&json!({"how": "left_running", "pid": pid})), "{exits:?}");
    assert!(exits.contains(&json!({"how": "agent_ended"})), "{exits:?}");
    assert_eq!(fs::read_to_string(start["output"].as_str().unwrap()).unwrap(), "up\n");
    let approved = ended.err.clone() + &ended.out;
    assert!(approved.contains("it goes on after this session, until you end it"), "{approved}");

    // The next turn knows of it, and that it is not its own any more.
    let kill = ("process", json!({"action": "kill", "id": "p1"}));
    let list = ("process", json!({"action": "list"}));
    let server = model(move |asked| match asked.results().len() {
        3 => MockAnswer::reply(&Reply::calls("served-1", [kill.clone()])),
        4 => MockAnswer::reply(&Reply::calls("served-1", [list.clone()])),
        _ => MockAnswer::reply(&Reply::text("served-1", "Done.")),
    })
    .await;
    resume(&lab, &server, &[&args[..], &["And now?"]].concat()).await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let expected = format!("Your background command p1 was left running as PID {pid}.");
    assert!(last.users().iter().any(|text| text.contains(&expected)), "{:?}", last.users());
    let refused = format!("p1 is durable and was left running as PID {pid}; the user can end it");
    assert!(last.results()[3].contains(&refused), "{:?}", last.results());
    assert!(last.results()[4].contains(refused.split(';').next().unwrap()), "{:?}", last.results());
    end_group(&lab, pid).await;
}

#[tokio::test]
async fn the_agent_that_started_it_ends_it_in_its_turn() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let stays = format!("echo up; sleep {}", lab.mark());
    let set = durable(&[&stays]);
    let wait = ("process", json!({"action": "wait", "id": "p1", "until": "up"}));
    let kill = ("process", json!({"action": "kill", "id": "p1"}));
    let list = ("process", json!({"action": "list"}));
    let pty = ("terminal", json!({"command": stays, "background": true, "pty": true}));
    let server = model(calls_in_order(vec![background(&stays), wait, kill, list, pty])).await;
    lab.run(&server, &[&AUTO[..], &["--set", &set, "Go"]].concat()).end().await.with_code(0);
    let mut results = results_read(&server, 5);
    let listed = results.remove(3);
    assert!(listed.contains("p1 killed after ") && !listed.contains("PID"), "{listed}");
    assert!(results[1].contains("the text has come"), "{results:#?}");
    assert!(results[2].contains(": killed"), "{results:#?}");
    assert!(results[3].contains("leave out pty"), "{results:#?}");
    assert!(lab.processes().is_empty(), "{:?}", lab.processes());
}

#[tokio::test]
async fn it_goes_on_when_the_program_is_killed_and_a_later_run_says_so() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let stays = format!("sleep {}", lab.mark());
    let set = durable(&[&stays]);
    let args = [&AUTO[..], &["--set", &set]].concat();
    let start = json!({"command": stays, "background": true, "notify_on_complete": true});
    let server = model(calls_in_order(vec![("terminal", start)])).await;
    let running = lab.run(&server, &[&args[..], &["Go"]].concat());
    running.event("agent.rest", |_| true).await;
    running.signal(Signal::KILL);
    let ended = running.end().await;
    let pid = ended.events("process.start")[0]["durable_pid"].clone();
    assert!(!lab.processes().is_empty());
    let again = resume(&lab, &server, &args).await.with_code(0);
    let end = &again.events("process.end")[0];
    assert_eq!(end["exit"], json!({"how": "left_running", "pid": pid}));
    end_group(&lab, &pid).await;
}

#[tokio::test]
async fn a_durable_command_begins_where_the_terminal_began_and_each_question_names_the_place() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let stays = format!("pwd; serve; echo up; sleep {}", lab.mark());
    let set = durable(&[&stays]);
    let evil = "mkdir evil; printf '#!/bin/sh\necho gone' >evil/serve; chmod +x evil/serve; \
                export PATH=$PWD/evil:$PATH; cd evil";
    let command = |command: &str| ("terminal", json!({"command": command}));
    let wait = ("process", json!({"action": "wait", "id": "p1", "until": "up"}));
    let kill = ("process", json!({"action": "kill", "id": "p1"}));
    let calls = vec![command(evil), command("serve"), background(&stays), wait, kill];
    let server = model(calls_in_order(calls)).await;
    let args = ["--output", "events", "--set", &set, "Go"];
    let (mut person, running) = lab.on_terminal(&server, &args);
    let work = lab.work("").canonicalize().unwrap();
    for place in [work.clone(), work.join("evil"), work.clone()] {
        let screen = sees(&person, "Run it? [y/N] ").await;
        assert!(screen.contains(&format!("in {}\r\n", place.display())), "{screen}");
        person.write_all(b"y\n").unwrap();
    }
    let ended = running.end().await.with_code(0);
    let results = results_read(&server, 5);
    assert!(results[1].contains("gone"), "{results:#?}");
    let start = &ended.events("process.start")[0];
    let output = fs::read_to_string(start["output"].as_str().unwrap()).unwrap();
    assert!(output.starts_with(&format!("{}\n", work.display())), "{output}");
    assert!(output.contains("serve: ") && !output.contains("gone"), "{output}");
}

#[tokio::test]
async fn the_environment_makes_no_command_durable() {
    let lab = Lab::new();
    let mut doctor = lab.deputize(&["config", "show"]);
    doctor.env("DEPUTIZE__TERMINAL__DURABLE", "[make]");
    let ended = RunningProgram::start(doctor).end().await;
    assert_ne!(ended.code, Some(0));
    let said = ended.err + &ended.out;
    assert!(said.contains("`terminal.durable` is not read from the environment"), "{said}");
}

#[tokio::test]
async fn a_session_is_not_deleted_while_its_durable_command_runs() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let stays = format!("echo up; sleep {}; true", lab.mark());
    let set = durable(&[&stays]);
    let server = model(calls_in_order(vec![background(&stays)])).await;
    let ended = lab.run(&server, &[&AUTO[..], &["--set", &set, "Go"]].concat()).end().await;
    let ended = ended.with_code(0);
    let pid = &ended.events("process.start")[0]["durable_pid"];
    let session = lab.session();
    let command = async |action: &str| {
        RunningProgram::start(lab.deputize(&["sessions", action, &session])).end().await
    };
    let shown = command("show").await.with_code(0);
    let running =
        format!("\nstill running: `{stays}` in process group {pid}; end with `kill -- -{pid}`\n");
    assert!(shown.out.contains(&running), "{}", shown.out);
    let refused = command("rm").await.with_code(1);
    let expected = format!(
        "error: session `{session}` has a durable command that still runs: `{stays}` in process group {pid}\n\
         hint: `kill -- -{pid}` ends it; then delete the session\n"
    );
    assert_eq!(refused.err, expected);
    assert!(lab.session_file().exists());
    end_group(&lab, pid).await;
    let shown = command("show").await.with_code(0);
    assert!(!shown.out.contains("still running"), "{}", shown.out);
    command("rm").await.with_code(0);
}

#[tokio::test]
async fn a_call_that_would_be_refused_asks_nobody() {
    let lab = Lab::new();
    let _leftovers = Leftovers(&lab);
    let stays = format!("echo up; sleep {}", lab.mark());
    let set = durable(&[&stays]);
    let wait = ("process", json!({"action": "wait", "id": "p1", "until": "up"}));
    let write = ("process", json!({"action": "write", "id": "p1", "text": "x"}));
    let kill = ("process", json!({"action": "kill", "id": "p1"}));
    let calls = vec![background(&stays), wait, write, background("true"), kill];
    let server = model(calls_in_order(calls)).await;
    let limit = "limits.background_commands=1";
    let args = ["--output", "events", "--set", &set, "--set", limit, "Go"];
    let (mut person, running) = lab.on_terminal(&server, &args);
    sees(&person, "Run it? [y/N] ").await;
    person.write_all(b"y\n").unwrap();
    let ended = running.end().await.with_code(0);
    assert_eq!(ended.events("approval.request").len(), 1, "{:?}", ended.events("approval.request"));
    let results = results_read(&server, 5);
    assert!(results[2].contains("p1 is durable: it has no input"), "{results:#?}");
    assert!(results[3].contains("1 is the most"), "{results:#?}");
    assert!(results[4].contains(": killed"), "{results:#?}");
}
