use deputize_core::outcome::ExitReason;
use deputize_core::{CallId, ToolEffect};
use serde_json::json;

use super::super::refused_calls::NO_TERMINAL;
use super::*;
use crate::fixture::{
    CALL, TestWriter, called, child, ended, replied, returned, root, started, tools,
};

fn print(writer: &TestWriter, detail: Detail) -> String {
    let mut snapshot = SessionSnapshot::new(tools());
    let mut plain = Plain::new(tools(), false);
    let mut out = Vec::new();
    for record in &writer.records {
        snapshot.apply(record);
        let lines = plain.lines(&snapshot, record, detail);
        out.extend(lines.iter().map(|line| line.render(false)));
    }
    out.join("\n")
}

fn session() -> TestWriter {
    let kid = child(1);
    let below = child(1).child(CALL, 0);
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Tidy up"));
    writer.add(&root(), called(CALL, "delegate_task", r#"{"tasks":[1,2,3]}"#));
    writer.add(&kid, started(&kid, "Sort the\nimports"));
    writer.add(&kid, replied(1, "I look.", &[]));
    writer.add(&kid, called(CALL, "read_file", r#"{"path":"src/a.rs"}"#));
    writer.add(&kid, returned(CALL, "read_file", CallStatus::Ok, "fn a() {}", Vec::new()));
    writer.add(&below, started(&below, "Check"));
    let second = CallId::new(2, 0);
    writer.add(&below, called(second, "terminal", r#"{"command":"cargo\u001b[2J check"}"#));
    let text = "denied: no user to ask";
    writer.add(&below, returned(second, "terminal", CallStatus::Denied, text, Vec::new()));
    let reason = "provider local: 503".to_owned();
    let wait_ms = 1400;
    writer.add(&below, Event::ModelRetry { attempt: 2, of: 5, reason, wait_ms });
    writer.add(&below, ended(&below, Status::Failed, ExitReason::Error));
    writer.add(&kid, ended(&kid, Status::Completed, ExitReason::Completed));
    for level in [LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
        writer.add(
            &root(),
            Event::Log { level, message: "line one\nline two".to_owned(), cause: None },
        );
    }
    writer.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
    writer
}

#[test]
fn a_session_line_by_line() {
    insta::assert_snapshot!(print(&session(), Detail::Normal));
}

#[test]
fn a_session_in_detail() {
    insta::assert_snapshot!(print(&session(), Detail::Verbose));
}

#[test]
fn many_calls_of_one_step_take_one_line_and_failures_one_each() {
    let arguments: Vec<String> = (0..120).map(|n| format!(r#"{{"path":"src/a{n}.rs"}}"#)).collect();
    let mut calls: Vec<(&str, &str)> =
        arguments.iter().map(|arguments| ("read_file", arguments.as_str())).collect();
    calls.extend([("list_dir", "{}"), ("now", "{}")]);
    calls.extend([("now", "{}"); 9]);
    calls.extend([("terminal", r#"{"command":"make"}"#); 7]);
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    writer.add(&root(), replied(1, "", &calls));
    for (slot, (tool, arguments)) in (0..).zip(&calls) {
        writer.add(&root(), called(CallId::new(1, slot), tool, arguments));
    }
    for (slot, (tool, _)) in (0..).zip(&calls) {
        let status = if slot == 7 { CallStatus::Error } else { CallStatus::Ok };
        let text = "not found: src/a7.rs";
        writer.add(&root(), returned(CallId::new(1, slot), tool, status, text, Vec::new()));
    }
    let failed = "read src/a7.rs\nread_file failed: not found: src/a7.rs";
    let commands = ["run make"; 7].join("\n");
    let shown = format!("read 120 files\nlist .\nnow: 10 calls\n{commands}\n{failed}");
    assert_eq!(print(&writer, Detail::Normal), shown);
    let every = print(&writer, Detail::Verbose);
    assert_eq!(every.matches("\nread src/a").count(), 120, "{every}");
    assert_eq!(print(&writer, Detail::Quiet), "");
}

#[test]
fn the_calls_of_a_script_are_counted_and_failures_and_commands_shown() {
    let code = r#"{"code":"go()"}"#;
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    writer.add(&root(), replied(1, "", &[("execute_code", code)]));
    writer.add(&root(), called(CALL, "execute_code", code));
    for number in 1..=49 {
        let nested = CALL.nested_call(number);
        let path = format!(r#"{{"path":"{number}.md"}}"#);
        writer.add(&root(), called(nested, "read_file", &path));
        let status = if number == 7 { CallStatus::Error } else { CallStatus::Ok };
        let text = "not found: 7.md";
        writer.add(&root(), returned(nested, "read_file", status, text, Vec::new()));
    }
    let command = CALL.nested_call(50);
    writer.add(&root(), called(command, "terminal", r#"{"command":"make"}"#));
    writer.add(&root(), returned(command, "terminal", CallStatus::Ok, "", Vec::new()));
    writer.add(&root(), returned(CALL, "execute_code", CallStatus::Ok, "", Vec::new()));
    let shown = "run Python go()\n  read 7.md\nread_file failed: not found: 7.md\n  run make\n  \
                 calls: 50";
    assert_eq!(print(&writer, Detail::Normal), shown);
    let every = print(&writer, Detail::Verbose);
    assert_eq!((every.matches("  read ").count(), every.matches("calls: ").count()), (49, 0));
    assert_eq!(print(&writer, Detail::Quiet), "");
}

#[test]
fn refused_calls_of_a_script_count_and_a_script_without_calls_has_no_line() {
    let code = r#"{"code":"go()"}"#;
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    let second = CallId::new(1, 1);
    writer.add(&root(), called(CALL, "execute_code", code));
    writer.add(&root(), called(second, "execute_code", code));
    let nested = CALL.nested_call(1);
    let (command, class) = ("make".to_owned(), "command".to_owned());
    let reason = "commands ask".to_owned();
    writer.add(&root(), Event::ApprovalRequest { call: nested, command, class, reason });
    let (decision, by) = ("deny".to_owned(), "user".to_owned());
    writer.add(&root(), Event::ApprovalDecision { call: nested, decision, by });
    writer.add(&root(), returned(nested, "terminal", CallStatus::Denied, "denied", Vec::new()));
    writer.add(&root(), returned(second, "execute_code", CallStatus::Ok, "", Vec::new()));
    writer.add(&root(), returned(CALL, "execute_code", CallStatus::Ok, "", Vec::new()));
    let shown = print(&writer, Detail::Normal);
    assert!(shown.starts_with("run Python go()\nrun Python go()\n"), "{shown}");
    assert!(shown.ends_with("\n  calls: 1") && shown.matches("calls: ").count() == 1, "{shown}");
}

#[test]
fn a_cancelled_call_is_shown_without_the_text_for_the_model() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    let text = "<output>half</output>";
    writer.add(&root(), returned(CALL, "terminal", CallStatus::Cancelled, text, Vec::new()));
    assert_eq!(print(&writer, Detail::Normal), "terminal cancelled");
}

#[test]
fn a_call_that_was_approved_without_asking_is_shown_once() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    let other = CallId::new(1, 1);
    for (call, by) in [(CALL, ApprovalAnswer::AUTO), (other, "user")] {
        let command = "make all".to_owned();
        let class = "command".to_owned();
        let reason = "commands ask".to_owned();
        writer.add(&root(), Event::ApprovalRequest { call, command, class, reason });
        if by == ApprovalAnswer::AUTO {
            let message = "approved without asking: make all".to_owned();
            writer.add(&root(), Event::Log { level: LogLevel::Warn, message, cause: None });
        }
        let decision = "allow".to_owned();
        let by = by.to_owned();
        writer.add(&root(), Event::ApprovalDecision { call, decision, by });
        writer.add(&root(), called(call, "terminal", r#"{"command":"make all"}"#));
    }
    let shown = "warning: approved without asking: make all\nrun make all";
    assert_eq!(print(&writer, Detail::Normal), shown);
}

#[test]
fn a_refused_call_is_reported_with_its_rule_and_how_to_allow_it() {
    let describe = |agent: &AgentId, by: &str, unasked| {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "a"));
        writer.add(&child(0), started(&child(0), "b"));
        let command = "make all".to_owned();
        let class = "dangerous".to_owned();
        let reason = "commands can do anything".to_owned();
        writer.add(agent, Event::ApprovalRequest { call: CALL, command, class, reason });
        let decision = "deny".to_owned();
        let by = by.to_owned();
        writer.add(agent, Event::ApprovalDecision { call: CALL, decision, by });
        let text = "denied by rule, words for the model: use read_file";
        writer.add(agent, returned(CALL, "terminal", CallStatus::Denied, text, Vec::new()));
        let mut snapshot = SessionSnapshot::new(tools());
        let mut plain = Plain::new(tools(), unasked);
        let tell = |record| {
            snapshot.apply(record);
            plain.lines(&snapshot, record, Detail::Normal)
        };
        let lines: Vec<ScreenLine> = writer.records.iter().flat_map(tell).collect();
        lines.iter().map(|line| line.render(false)).collect::<Vec<_>>().join("\n")
    };
    let lead = "terminal refused: make all (dangerous: commands can do anything); ";
    let no_terminal = "no terminal to ask at; `--approve auto` allows it";
    for (agent, by, unasked, why) in [
        (root(), ApprovalAnswer::NOBODY, true, no_terminal),
        (root(), NO_TERMINAL, false, no_terminal),
        (root(), ApprovalAnswer::NOBODY, false, "approvals are off; `--approve ask` asks you"),
        (root(), "user", false, "you said no"),
        (root(), "editor", false, "denied by editor"),
    ] {
        assert_eq!(describe(&agent, by, unasked), format!("{lead}{why}"));
    }
    let child = describe(&child(0), ApprovalAnswer::NOBODY, true);
    let why = "calls of children are not approved; `delegation.approvals: ask` or `auto` \
               allows it";
    assert_eq!(child, format!("[1/3] {lead}{why}"));
}

#[test]
fn tasks_that_never_began_and_those_that_were_refused_are_reported() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    let status = Status::Interrupted;
    let error = "it ended: it was not started".to_owned();
    let fact = |task_index| ToolEffect::NotBegun {
        agent: child(task_index),
        task_index,
        model: "m".to_owned(),
        status,
        error: error.clone(),
    };
    let facts = vec![fact(1), fact(2)];
    writer.add(&root(), returned(CALL, "delegate_task", CallStatus::Cancelled, "{}", facts));
    let error = |remedy| json!({"code": "E_TYPE", "field": "role", "remedy": remedy});
    let text = json!({"error": "no child was started", "errors": [error("a"), error("b")]});
    let text = text.to_string();
    writer.add(&root(), returned(CALL, "delegate_task", CallStatus::Error, &text, Vec::new()));
    let expected = "tasks 2, 3 not begun: it ended: it was not started\n\
                delegate_task cancelled\n\
                delegate_task refused: a; b";
    assert_eq!(print(&writer, Detail::Normal), expected);
    assert_eq!(print(&writer, Detail::Quiet), "");
}

#[test]
fn quiet_shows_each_wait_that_makes_five_more_seconds_of_silence() {
    /// Records a retry of an agent that waits so long.
    fn retry(writer: &mut TestWriter, agent: &AgentId, attempt: u32, wait_ms: u64) {
        let reason = "provider local: HTTP 503: busy".to_owned();
        writer.add(agent, Event::ModelRetry { attempt, of: 5, reason, wait_ms });
    }
    let shown = |waits: &[u64]| {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "Go"));
        let mut begin = 0;
        for (attempt, wait) in (2..).zip(waits) {
            retry(&mut writer, &root(), attempt, *wait);
            writer.records.last_mut().unwrap().at += begin;
            begin += wait;
        }
        print(&writer, Detail::Quiet)
    };
    let busy = "provider local: HTTP 503: busy";
    assert_eq!(shown(&[500, 1500]), "", "that is soon over");
    assert_eq!(
        shown(&[500, 1500, 4500, 20_300]),
        format!(
            "waiting for the model: attempt 4 of 5 in 4.5 s: {busy}\n\
             waiting for the model: attempt 5 of 5 in 20.3 s: {busy}"
        )
    );
    assert_eq!(shown(&[5000]), format!("waiting for the model: attempt 2 of 5 in 5.0 s: {busy}"));
    assert_eq!(shown(&[60_000; 4]).lines().count(), 4);

    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Go"));
    for _ in 0..2 {
        for agent in [root(), child(0), child(1)] {
            retry(&mut writer, &agent, 2, 6000);
        }
        writer.add(&root(), replied(1, "Fine.", &[]));
    }
    assert_eq!(print(&writer, Detail::Quiet).lines().count(), 2, "one line for all agents");
}

#[test]
fn quiet_tells_errors_only() {
    assert_eq!(print(&session(), Detail::Quiet), "error: line one ⏎ line two");
}

#[test]
fn a_reply_arrives_in_whole_lines_and_nothing_of_it_is_lost() {
    let mut snapshot = SessionSnapshot::default();
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "a"));
    writer.add(&child(0), started(&child(0), "b"));
    writer.add(&child(0), replied(1, "", &[]));
    writer.records.iter().for_each(|record| snapshot.apply(record));
    let mut plain = Plain::default();
    let mut out = Vec::new();
    for piece in ["Hel", "lo\nyou", "\u{1b}", "[2J and", " me\n\nlast"] {
        out.extend(plain.delta(&snapshot, &child(0), Delta::Text(piece)));
    }
    out.extend(plain.delta(&snapshot, &root(), Delta::Reasoning("hm\n")));
    out.extend(plain.lines(&snapshot, &writer.records[2], Detail::Verbose));
    let out: Vec<String> = out.iter().map(|line| line.render(false)).collect();
    assert_eq!(out, ["[1/3] | Hello", "[1/3] | you and me", "thinking | hm", "[1/3] | last"]);
    let long = "x".repeat(HELD_BYTES + 1);
    assert_eq!(plain.delta(&snapshot, &root(), Delta::Text(&long)).len(), 1);
}
