//! Tables and other lists, at the width of a terminal and piped.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{Streams, call, on_terminal, say, with_failure};
use crate::program::{Lab, RunningProgram, model};

/// The rows from the head of a list on.
fn rows_of_list<'r>(rows: impl Iterator<Item = &'r str>) -> impl Iterator<Item = &'r str> {
    let is_head = |row: &str| row.starts_with(|c: char| c.is_ascii_uppercase());
    rows.skip_while(move |row| !is_head(row)).filter(|row| !row.is_empty())
}

const GOAL: &str = "Go over each of the modules and write down what they have in common";

#[tokio::test]
async fn each_row_of_a_list_is_one_line_of_a_terminal_and_whole_when_piped() {
    let server = with_failure().await;
    let lab = Lab::new();
    lab.run(&server, &["--set", "delegation.max_spawn_depth=2", GOAL]).end().await.with_code(0);
    let server = json!({"command": "env", "args": ["a-server-with-a-long-name", "--all"]});
    let server = format!("mcp_servers.weather={server}");
    for (list, shown) in [
        (&["sessions", "list"][..], "Go o"),
        (&["agents", "--once"], "Read the deep end"),
        (&["tools", "list"], "yes"),
        (&["toolsets", "list"], "delegate_task"),
        (&["mcp", "list", "--set", &server], "it has not listed"),
    ] {
        let piped = RunningProgram::start(lab.deputize(list)).end().await.with_code(0);
        let widest = piped.out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest > 60, "{list:?}: piped rows stay whole: {}", piped.out);
        assert!(!piped.out.contains('…'), "{list:?}: {}", piped.out);
        for columns in [80, 60] {
            let rows = on_terminal(columns, Streams::Output, lab.deputize(list)).await;
            let listed = rows_of_list(rows.iter().map(String::as_str)).count();
            let whole = rows_of_list(piped.out.lines()).count();
            assert_eq!(listed, whole, "{list:?} at {columns}: {rows:#?}");
            let wide = rows.iter().find(|row| row.chars().count() >= columns.into());
            assert_eq!(wide, None, "{list:?} at {columns}");
            assert!(rows.iter().any(|row| row.contains(shown)), "{list:?} at {columns}: {rows:#?}");
        }
    }
}

#[tokio::test]
async fn a_session_and_the_doctor_are_wrapped_at_words() {
    let lab = Lab::new();
    let text = "one two three four ".repeat(20);
    fs::write(lab.work("notes.txt"), &text).unwrap();
    let server = model(|asked| match asked.results().len() {
        0 => call("read_file", json!({"path": "notes.txt"})),
        _ => say("Five six seven. ".repeat(20).trim_end()),
    })
    .await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let session = lab.session();
    let show = ["sessions", "show", &session];
    let rows = on_terminal(60, Streams::Output, lab.deputize(&show)).await;
    let result: Vec<&str> = rows.iter().filter_map(|row| row.strip_prefix("  | ")).collect();
    let read: Vec<&str> = result.iter().flat_map(|row| row.split_whitespace()).collect();
    assert!(result.len() > 5 && read.join(" ").contains(text.trim_end()), "{rows:#?}");
    let doctor = ["doctor", "-m", "offline"];
    // Wide enough for the path of any temporary directory beside the names.
    let doctor = on_terminal(110, Streams::Output, lab.deputize(&doctor)).await;
    let widths = [(60, &rows), (110, &doctor)];
    for (columns, row) in widths.iter().flat_map(|(most, rows)| rows.iter().map(|row| (*most, row)))
    {
        assert!(row.chars().count() <= columns, "{row}");
        let broken = ["on", "thr", "thre", "fou", "Fiv", "si", "seve", "appr", "approva"];
        assert!(!broken.iter().any(|part| row.ends_with(&format!(" {part}"))), "{row}");
    }
    let children = doctor.iter().position(|row| row.starts_with("ok    children")).unwrap();
    assert!(doctor[children + 1].starts_with(&" ".repeat(23)), "{doctor:#?}");
}

#[tokio::test]
async fn the_doctor_tells_the_model_of_children_from_that_of_the_run() {
    let lab = Lab::new();
    let args = ["doctor", "-m", "offline", "--set", "delegation.model=openai/gpt-5"];
    let doctor = RunningProgram::start(lab.deputize(&args)).end().await.with_code(1);
    let of_models = doctor.out.lines().filter(|line| line.contains("model"));
    let names: Vec<&str> = of_models.filter_map(|line| line.get(6..)?.split("  ").next()).collect();
    assert_eq!(names, ["model", "model of children"], "{}", doctor.out);
}

#[tokio::test]
async fn a_folder_of_sessions_that_cannot_be_read_is_named() {
    let lab = Lab::new();
    let folder = lab.path("home/sessions");
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(&folder, "no folder").unwrap();
    for list in [
        &["sessions", "list"][..],
        &["agents", "--once"],
        &["sessions", "show", "20260101"],
        &["agents", "stop", "1.0.0"],
    ] {
        let ended = RunningProgram::start(lab.deputize(list)).end().await.with_code(1);
        assert!(ended.err.contains(folder.to_str().unwrap()), "{list:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_session_is_listed_with_the_model_that_served_it() {
    let lab = Lab::new();
    let server = model(|_| MockAnswer::error(404, "no such model")).await;
    let standby = model(|_| say("Done.")).await;
    let entry = format!("providers.spare={}", json!({"base_url": standby.base_url()}));
    let args = ["--set", &entry, "--set", "fallback_models=[spare/other]", "Go"];
    lab.run(&server, &args).end().await.with_code(0);
    let listed = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"])).end().await;
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed[0]["model"], "spare/other", "{listed}");
    let session = lab.session();
    let shown = RunningProgram::start(lab.deputize(&["sessions", "show", &session])).end().await;
    assert!(shown.out.starts_with("spare/other (openai/mock was asked for) in "), "{}", shown.out);
}

#[tokio::test]
async fn each_result_stands_under_its_call() {
    let lab = Lab::new();
    let read = json!({"path": "notes.txt"});
    let server = model(move |asked| match asked.results().len() {
        0 => MockAnswer::reply(&Reply::calls(
            "served-1",
            [
                ("read_file", read.clone()),
                ("list_dir", json!({"path": "there"})),
                ("read_file", read.clone()),
            ],
        )),
        _ => say("Done."),
    })
    .await;
    fs::write(lab.work("notes.txt"), "one\n").unwrap();
    fs::create_dir(lab.work("there")).unwrap();
    fs::write(lab.work("there/inside.txt"), "").unwrap();
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let session = lab.session();
    let shown = RunningProgram::start(lab.deputize(&["sessions", "show", &session])).end().await;
    let mut under = Vec::new();
    for line in shown.out.lines() {
        if line.starts_with("* ") {
            under.push((line, Vec::new()));
        } else if let (Some((_, results)), true) = (under.last_mut(), line.starts_with("  | ")) {
            results.push(line);
        }
    }
    let calls: Vec<&str> = under.iter().map(|(call, _)| *call).collect();
    assert_eq!(calls, ["* read notes.txt", "* list there", "* read notes.txt"], "{}", shown.out);
    for (call, results) in under {
        let word = if call == "* list there" { "inside.txt" } else { "one" };
        assert!(results.iter().any(|line| line.contains(word)), "{call}: {}", shown.out);
    }
}

#[tokio::test]
async fn the_tools_of_a_child_are_shown_without_an_argument() {
    let lab = Lab::new();
    let plain =
        RunningProgram::start(lab.deputize(&["toolsets", "resolve"])).end().await.with_code(0);
    let child = lab.deputize(&["toolsets", "resolve", "--child"]);
    let child = RunningProgram::start(child).end().await.with_code(0);
    assert_eq!(plain.out, child.out);
    assert!(
        plain.err.contains("note: for a call that names no toolsets and no role"),
        "{}",
        plain.err
    );
    assert!(!child.err.contains("note: for a call"), "{}", child.err);
}

#[tokio::test]
async fn what_is_piped_in_is_reported_with_its_size_and_the_limit() {
    let lab = Lab::new();
    let server = model(|_| say("Done.")).await;
    let long = lab.path("long.txt");
    fs::write(&long, "0123456789abcde\n".repeat(100_000)).unwrap();
    let mut command = lab.run_command(&server, &["Count"]);
    command.stdin(fs::File::open(&long).unwrap());
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let note = ended.err.lines().find(|line| line.contains("standard input")).unwrap();
    let session = lab.session();
    let kept = lab.path(format!("home/sessions/{session}/stdin.txt"));
    assert_eq!(
        note,
        format!(
            "note: added the first 262144 of 1600000 bytes of standard input to the task \
             (limits.read_bytes is 262144); the agent can read the rest in {}",
            kept.display()
        )
    );
    assert_eq!(fs::read(kept).unwrap().len(), 1_600_000);
}

#[tokio::test]
async fn a_long_goal_is_whole_where_the_list_is_piped() {
    let lab = Lab::new();
    let server = model(|asked| match asked.results().len() {
        0 => call("delegate_task", json!({"goal": "Look."})),
        _ => say("Done."),
    })
    .await;
    let goal = "Write down every single thing that you find in this directory, ".repeat(3);
    lab.run(&server, &[&goal]).end().await.with_code(0);
    let listed = RunningProgram::start(lab.deputize(&["sessions", "list", "--json"])).end().await;
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed[0]["goal"], goal.trim(), "{listed}");
    let listed = RunningProgram::start(lab.deputize(&["sessions", "list"])).end().await;
    assert!(listed.out.lines().nth(1).unwrap().ends_with(goal.trim()), "{}", listed.out);
}
