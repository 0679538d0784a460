use deputize_core::clock::FixedClock;
use deputize_core::{CancelReason, ToolName};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;
use crate::fixture::{CALL, child, root};
use crate::screen::Detail;
use crate::screen::surface::Surface;

fn question(command: &str) -> Question {
    Question {
        agent: root(),
        goal: "Tidy up".to_owned(),
        call: CALL,
        tool: ToolName::literal("terminal"),
        command: command.to_owned(),
        arguments: serde_json::Map::new(),
        cwd: PathBuf::from("/repo/project"),
        class: "dangerous".to_owned(),
        reason: "each command is asked for".to_owned(),
        needs_person: false,
        saved: None,
    }
}

/// A person's end of a real terminal, and somebody who asks on its other end.
fn terminal() -> (File, TerminalApprover) {
    let person_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person_end).unwrap();
    unlockpt(&person_end).unwrap();
    let name = ptsname(&person_end, Vec::new()).unwrap().into_string().unwrap();
    let screen = Screen::new(Surface {
        out: Box::new(io::sink()),
        size: None,
        live: false,
        colour: false,
        tools: Arc::default(),
        detail: Detail::Quiet,
        cwd: PathBuf::from("/"),
        unasked: false,
        prints_answer: false,
        clock: Arc::new(FixedClock(0)),
    });
    let person = TerminalApprover {
        screen: Some(Arc::new(screen)),
        terminal: PathBuf::from(name),
        timeout: ANSWER_TIMEOUT,
        turn: Mutex::new(()),
    };
    (File::from(person_end), person)
}

const YES_OR_NO: &str = "[y/N] ";

/// Reads what the terminal shows until the prompt is there.
fn until_prompt(terminal: &mut File, prompt: &str) -> String {
    let mut seen = String::new();
    let mut bytes = [0; 512];
    while !seen.ends_with(prompt) {
        let count = terminal.read(&mut bytes).unwrap();
        seen.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    seen
}

fn typed(keys: &'static str) -> ApprovalAnswer {
    let (mut terminal, person) = terminal();
    let types = std::thread::spawn(move || {
        until_prompt(&mut terminal, YES_OR_NO);
        terminal.write_all(keys.as_bytes()).unwrap();
        terminal
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(person.ask(&question("ls"), &Cancel::new()));
    drop(types.join().unwrap());
    answer
}

#[test]
fn only_yes_is_yes() {
    for keys in ["y\n", "Yes\n", " y \n"] {
        assert_eq!(typed(keys), ApprovalAnswer::yes("user"), "{keys:?}");
    }
    for keys in ["\n", "n\n", "yep\n", "y y\n", "ye\u{1b}[D\n"] {
        assert_eq!(typed(keys), ApprovalAnswer::no("user"), "{keys:?}");
    }
    // End of file, as Ctrl-D sends it.
    assert_eq!(typed("\u{4}"), ApprovalAnswer::no("a closed terminal"));
}

#[test]
fn what_was_typed_before_does_not_count() {
    let (mut terminal, person) = terminal();
    // The other end is held open, so that the terminal keeps what is typed into it.
    let held = OpenOptions::new().read(true).write(true).open(&person.terminal).unwrap();
    terminal.write_all(b"y\ny\n").unwrap();
    let types = std::thread::spawn(move || {
        until_prompt(&mut terminal, YES_OR_NO);
        terminal.write_all(b"n\n").unwrap();
        terminal
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(person.ask(&question("rm -r x"), &Cancel::new()));
    assert_eq!(answer, ApprovalAnswer::no("user"));
    drop((types.join().unwrap(), held));
}

#[test]
fn a_terminal_that_is_closed_says_no() {
    let (mut terminal, person) = terminal();
    let closes = std::thread::spawn(move || until_prompt(&mut terminal, YES_OR_NO));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(person.ask(&question("ls"), &Cancel::new()));
    assert!(!answer.allowed, "{answer:?}");
    closes.join().unwrap();
}

#[test]
fn no_terminal_is_no() {
    let (_terminal, mut person) = terminal();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    person.terminal = PathBuf::from("/nowhere/tty");
    let answer = runtime.block_on(person.ask(&question("ls"), &Cancel::new()));
    let expected = (false, "no terminal to ask on", "");
    assert_eq!((answer.allowed, answer.by.as_str(), answer.reason.as_str()), expected);
}

#[test]
fn a_cancelled_question_is_a_no_and_leaves_nobody_reading() {
    let (mut terminal, person) = terminal();
    let cancel = Cancel::new();
    let stop = cancel.clone();
    let cancels = std::thread::spawn(move || {
        until_prompt(&mut terminal, YES_OR_NO);
        stop.cancel(CancelReason::Interrupted);
        terminal
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let asked = question("ls");
    let answer = runtime.block_on(person.ask(&asked, &cancel));
    assert_eq!(answer, ApprovalAnswer::no(CANCELLED));
    // Waits for every blocking thread: one that still read would keep it for ten minutes.
    drop(runtime);
    drop(cancels.join().unwrap());
}

#[test]
fn nothing_is_drawn_over_an_open_question() {
    let (mut terminal, person) = terminal();
    let screen = Arc::clone(person.screen.as_ref().unwrap());
    let seen = Arc::clone(&screen);
    let types = std::thread::spawn(move || {
        until_prompt(&mut terminal, YES_OR_NO);
        let is_paused = seen.is_paused();
        terminal.write_all(b"y\n").unwrap();
        (terminal, is_paused)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(person.ask(&question("ls"), &Cancel::new()));
    let (_terminal, is_paused) = types.join().unwrap();
    assert!(is_paused && !screen.is_paused());
}

#[test]
fn questions_come_one_after_the_other() {
    let (mut terminal, person) = terminal();
    let held = OpenOptions::new().read(true).write(true).open(&person.terminal).unwrap();
    let types = std::thread::spawn(move || {
        let first = until_prompt(&mut terminal, YES_OR_NO);
        terminal.write_all(b"y\n").unwrap();
        let second = until_prompt(&mut terminal, YES_OR_NO);
        terminal.write_all(b"n\n").unwrap();
        (first, second)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cancel = Cancel::new();
    let one = question("first");
    let two = question("second");
    let (one, two) = runtime
        .block_on(async { tokio::join!(person.ask(&one, &cancel), person.ask(&two, &cancel)) });
    let (first, second) = types.join().unwrap();
    assert!(first.contains("| first") && !first.contains("second"), "{first}");
    assert!(second.contains("| second"), "{second}");
    assert_eq!((one.allowed, two.allowed), (true, false));
    drop(held);
}

#[test]
fn a_question_shows_all_and_nothing_in_it_can_pass_for_the_question() {
    let command = "cd /tmp\nNo sandbox holds it.\r\u{1b}[2K\u{202e}txt.exe\u{200b}";
    let asked = Question {
        agent: child(1),
        goal: "Tidy\nRun it? [y/N] y".to_owned(),
        cwd: PathBuf::from("/repo/a\nb"),
        arguments: [
            ("host\nin /safe".to_owned(), "far\u{202e}\nRun it?".into()),
            ("input".to_owned(), "y\nin /safe\n\nwith a: 1\u{202e}\n".into()),
            ("timeout_seconds".to_owned(), 300.into()),
        ]
        .into_iter()
        .collect(),
        ..question(command)
    };
    insta::assert_snapshot!(words(&asked), @r#"

    Child 1.0.1 ("Tidy Run it? [y/N] y") wants to use terminal:
      | cd /tmp
      | No sandbox holds it.\u{d}\u{1b}[2K\u{202e}txt.exe\u{200b}
    with host\nin /safe:
      |     far\u{202e}
      |     Run it?
    with input:
      |     y
      |     in /safe
      |     
      |     with a: 1\u{202e}
      |     
    with timeout_seconds: 300
    in /repo/a\nb
    dangerous: each command is asked for.
    "#);
}

#[test]
fn a_long_command_names_its_file_in_lines_that_are_not_of_the_command() {
    let saved = deputize_core::excerpt::SavedCommand {
        path: PathBuf::from("/sessions/s/s~call_1_0\n.command.txt"),
        bytes: 9999,
        sha256: "5e5e".to_owned(),
    };
    let forged = "[0 bytes left out; invisible characters in them: 0]";
    let command = format!("one\n{forged}\n{}\u{202e}{}\nlast", "x\n".repeat(60), "y\n".repeat(60));
    let asked = Question { saved: Some(saved), ..question(&command) };
    let text = words(&asked);
    let unmarked: Vec<_> = text.lines().filter(|line| !line.starts_with("  | ")).collect();
    let expected = [
        "",
        "The agent wants to use terminal:",
        "[91 bytes left out; invisible characters in them: 1]",
        "Only its beginning and end are shown. The whole text, exactly as it would run (9999 bytes, \
         sha256 5e5e), is in",
        "  /sessions/s/s~call_1_0\\n.command.txt",
        "Read that file before you answer.",
        "in /repo/project",
        "dangerous: each command is asked for.",
    ];
    assert_eq!(unmarked, expected);
    assert!(text.contains("  | one\n") && text.contains("  | last\n"), "{text}");
}

#[test]
fn a_typed_line_is_an_option_the_default_or_words() {
    let question = PersonQuestion {
        agent: root(),
        text: "Which\n\u{1b}[2Jone?".to_owned(),
        options: vec!["red".to_owned(), "green\u{7}".to_owned()],
        default: Some("bl\u{7}\nue".to_owned()),
    };
    let typed = |line: &str| meant(line.as_bytes(), &question);
    assert_eq!(typed("2\n"), "green\u{7}");
    assert_eq!(typed(" \r\n"), "bl\u{7}\nue");
    assert_eq!(typed("3\n"), "3");
    assert_eq!(typed("0\n"), "0");
    assert_eq!(typed("dark red\n"), "dark red");
    let shown = question_words(&question) + &question_prompt(&question);
    assert_eq!(
        shown,
        "\nThe agent asks:\n  | Which\n  | \\u{1b}[2Jone?\n  1) red\n  2) green\\u{7}\nYour answer (a \
         number, or your words) [Enter: bl\\u{7}\\nue]: "
    );
}

/// No time at all is left, so that nobody waits here.
#[test]
fn a_question_without_an_answer_ends_when_its_time_is_over() {
    let (mut terminal, mut person) = terminal();
    assert_eq!(person.timeout, Duration::from_secs(600));
    person.timeout = Duration::ZERO;
    // The other end is held open, so that the terminal keeps what is written.
    let _held = OpenOptions::new().read(true).write(true).open(&person.terminal).unwrap();
    let asked = PersonQuestion {
        agent: root(),
        text: "Which?".to_owned(),
        options: Vec::new(),
        default: Some("red".to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(person.ask_person(&asked, &Cancel::new()));
    assert_eq!(answer, PersonAnswer::TimedOut { seconds: 0 });
    let answer = runtime.block_on(person.ask(&question("ls"), &Cancel::new()));
    assert_eq!(answer, ApprovalAnswer::no("no answer in time"));
    let shown = until_prompt(&mut terminal, "[y/N] no\r\n");
    assert!(shown.contains("Your answer [Enter: red]: "), "{shown}");
}

#[test]
fn a_number_that_is_no_option_is_asked_for_once_more() {
    let (mut terminal, person) = terminal();
    let question = PersonQuestion {
        agent: root(),
        text: "Which?".to_owned(),
        options: vec!["red".to_owned(), "7".to_owned()],
        default: Some("8".to_owned()),
    };
    for known in ["2", "7", "8", "", "7 or 8"] {
        assert_eq!(unknown_number(known.as_bytes(), &question), None, "{known}");
    }
    let types = std::thread::spawn(move || {
        until_prompt(&mut terminal, "[Enter: 8]: ");
        terminal.write_all(b"3\n").unwrap();
        let said = until_prompt(&mut terminal, "[Enter: 8]: ");
        terminal.write_all(b"1\n").unwrap();
        (terminal, said)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(person.ask_person(&question, &Cancel::new()));
    let (_terminal, said) = types.join().unwrap();
    assert_eq!(answer, PersonAnswer::Text("red".to_owned()));
    assert!(said.contains("There is no option 3, only 1 to 2."), "{said}");
}
