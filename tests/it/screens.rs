//! What a person reads while agents work and afterwards, at the width of their terminal.

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::{Lab, RunningProgram, model, soon};

mod lists;
mod progress;
mod results;

/// What the provider says of the model of a child.
const REASON: &str = "the model served-9 was taken out of service last week, and the project of \
                      this key has no permission to use any of the models that came after it";

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("served-1", [(tool, arguments)]))
}

fn say(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("served-1", text))
}

/// A parent with two children, of which the second has one of its own that fails.
async fn with_failure() -> MockServer {
    let server = model(|asked| {
        let actual = asked.system() + asked.first_user();
        let task = |goal: &str| actual.contains(goal);
        if task("Read the deep end") {
            return MockAnswer::error(400, REASON);
        }
        if task("Count the files") {
            return say("Three.");
        }
        match (task("Lead the others"), asked.results().len()) {
            (true, 0) => call("delegate_task", json!({"goal": "Read the deep end"})),
            (false, 0) => {
                let leads = json!({"goal": "Lead the others", "role": "orchestrator"});
                call("delegate_task", json!({"tasks": [{"goal": "Count the files"}, leads]}))
            }
            _ => say("That is all."),
        }
    });
    server.await
}

/// Which streams of a command are the terminal.
#[derive(Clone, Copy)]
enum Streams {
    Errors,
    Output,
    Both,
}

/// What is on a terminal of so many columns when a command has ended, without what moves the
/// cursor: all that was ever written, row by row.
async fn on_terminal(columns: u16, streams: Streams, command: Command) -> Vec<String> {
    on_terminal_with_code(columns, streams, command, 0).await
}

/// The same of a command that ends with this code.
async fn on_terminal_with_code(
    columns: u16,
    streams: Streams,
    mut command: Command,
    code: i32,
) -> Vec<String> {
    let mut screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map(File::from).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
    let no_tty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
    let end = OpenOptions::new().read(true).write(true).custom_flags(no_tty).open(name).unwrap();
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    match streams {
        Streams::Errors => command.stderr(end),
        Streams::Output => command.stdout(end),
        Streams::Both => command.stdout(end.try_clone().unwrap()).stderr(end),
    };
    let running = RunningProgram::with_streams(command);
    let read = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            text.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(text).unwrap()
    });
    running.end().await.with_code(code);
    let text = soon("the end of what is on the screen", read).await.unwrap();
    let mut rows = vec![String::new()];
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                rest.by_ref().find(char::is_ascii_alphabetic);
            }
            '\n' => rows.push(String::new()),
            '\r' => {}
            c => rows.last_mut().unwrap().push(c),
        }
    }
    rows
}

/// The text of rows that one line was wrapped into.
fn joined(rows: &[String]) -> String {
    rows.iter().map(|row| row.trim()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn failed_agents_and_their_whole_reasons_stand_at_the_end() {
    let server = with_failure().await;
    let args = ["--set", "delegation.max_spawn_depth=2", "Go"];
    let whole = |actual: &str| {
        assert!(
            actual.contains("1 agent failed: ✗ [2/2.1/1] 1.0.1/1.0.0: Read the de"),
            "{actual}"
        );
        assert!(actual.trim_end().ends_with(&format!("(HTTP 400: {REASON})")), "{actual}");
    };

    let lab = Lab::new();
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let at = ended.err.find("1 agent failed:").unwrap_or_else(|| panic!("{}", ended.err));
    let end: Vec<String> = ended.err[at..].lines().map(str::to_owned).collect();
    assert_eq!(end.len(), 3, "what is no terminal is not wrapped: {}", ended.err);
    whole(&joined(&end));
    // Where the agent ends the reason stands too.
    let line = ended.err.lines().find(|line| line.starts_with("✗ [2/2.1/1]")).unwrap();
    assert!(line.contains(REASON), "{line}");

    let lab = Lab::new();
    let ended = lab.run(&server, &[&["-q"][..], &args].concat()).end().await.with_code(0);
    let quiet: Vec<String> = ended.err.lines().map(str::to_owned).collect();
    assert_eq!(quiet.len(), 3, "{}", ended.err);
    whole(&joined(&quiet));

    for columns in [80, 40] {
        let lab = Lab::new();
        let rows = on_terminal(columns, Streams::Errors, lab.run_command(&server, &args)).await;
        let wide = rows.iter().find(|row| row.chars().count() > columns.into());
        assert_eq!(wide, None);
        let at = rows.iter().rposition(|row| row == "1 agent failed:").unwrap();
        assert!(rows[at..].len() > 3, "{rows:#?}");
        whole(&joined(&rows[at..]));
        // While it runs the reason stands above the tree.
        assert!(joined(&rows[..at]).contains(REASON), "{rows:#?}");
    }
}

#[tokio::test]
async fn long_warnings_wrap_at_words_on_a_terminal_alone() {
    let server = model(|_| say("Done.")).await;
    let lab = Lab::new();
    let go = ["--approve", "auto", "--set", "delegation.approvals=auto", "Go"];
    let ended = lab.run(&server, &go).end().await.with_code(0);
    let whole = ended.err.lines().find(|line| line.starts_with("warning: commands, also those"));
    let whole = whole.unwrap_or_else(|| panic!("{}", ended.err));
    assert!(whole.len() > 80, "{whole}");
    let lab = Lab::new();
    let rows = on_terminal(50, Streams::Errors, lab.run_command(&server, &go)).await;
    let begin =
        rows.iter().position(|row| row.starts_with("warning: commands, also those")).unwrap();
    let goes_on = rows[begin + 1..].iter().take_while(|row| row.starts_with("  ")).count();
    let note = &rows[begin..=begin + goes_on];
    assert!(note.len() > 2 && note.iter().all(|row| row.chars().count() < 50), "{rows:#?}");
    assert_eq!(joined(note), whole);
}

#[tokio::test]
async fn progress_lines_show_calls_in_words() {
    let lab = Lab::new();
    fs::write(lab.work("notes.txt"), "one\n").unwrap();
    let server = model(|asked| match asked.results().len() {
        0 => call("read_file", json!({"path": "notes.txt"})),
        1 => call("search_files", json!({"pattern": "unwrap", "path": "src"})),
        2 => call("list_dir", json!({})),
        3 => call("make_coffee", json!({})),
        _ => say("Done."),
    })
    .await;
    let ended = lab.run(&server, &["Go"]).end().await.with_code(0);
    let shown: Vec<&str> = ended.err.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!(
        shown[..5],
        [
            "read notes.txt",
            "search \"unwrap\" in src",
            "search_files failed: not found: src",
            "list .",
            "make_coffee failed: there is no tool `make_coffee` here",
        ],
        "{}",
        ended.err
    );
}

#[tokio::test]
async fn lists_without_rows_say_so_in_words() {
    let lab = Lab::new();
    for (list, words) in [
        (&["sessions", "list"][..], "there are no sessions yet\n"),
        (&["agents", "--once"], "there are no sessions yet\n"),
        (
            &["mcp", "list"],
            "there are no MCP servers: `deputize mcp add NAME -- COMMAND` adds one\n",
        ),
        (
            &["plugin", "list"],
            "there are no plugins: `deputize plugin check FILE` prints the entry of one\n",
        ),
    ] {
        let ended = RunningProgram::start(lab.deputize(list)).end().await.with_code(0);
        let head = ended.out.lines().find(|line| line.contains("  "));
        assert_eq!((ended.err.as_str(), head), (words, None), "{list:?}");
    }
    for list in [&["sessions", "list"][..], &["mcp", "list"], &["plugin", "list"]] {
        let ended = RunningProgram::start(lab.deputize(&[list, &["--json"]].concat())).end().await;
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("[]\n", ""), "{list:?}");
    }
}
