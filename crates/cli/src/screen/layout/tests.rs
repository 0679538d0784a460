use deputize_core::message::CallStatus;
use deputize_core::outcome::ExitReason;
use deputize_core::process::{ProcessEnd, ProcessExit, ProcessStart};
use deputize_core::source_set::SourceSet;
use deputize_core::todo::{TodoItem, TodoState};
use deputize_core::{CallId, Event, ToolEffect};
use proptest::prelude::*;

use super::*;
use crate::fixture::{
    CALL, START, TestWriter, called, child, ended, replied, returned, root, started, tools,
};

fn tree(writer: &TestWriter) -> SessionSnapshot {
    SessionSnapshot::of(tools(), &writer.records)
}

fn draw(writer: &TestWriter, columns: usize, most: usize) -> String {
    let lines = lines(&tree(writer), None, START + 65_000, columns, most);
    assert!(lines.len() <= most, "{} lines in {most}", lines.len());
    for line in &lines {
        assert!(line.width() <= columns, "{line:?}");
    }
    let lines: Vec<String> = lines.iter().map(|line| line.render(false)).collect();
    lines.join("\n")
}

/// Three children: one done with a child of its own, one failed, one reading.
fn family() -> TestWriter {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Make the release notes of this version"));
    writer.add(&root(), replied(1, "", &[("delegate_task", "{}")]));
    writer.add(&root(), called(CALL, "delegate_task", r#"{"tasks":[1,2,3]}"#));
    for (index, goal) in
        ["List the changes", "Check the links", "Read src/main.rs"].iter().enumerate()
    {
        writer.add(&child(index as u32), started(&child(index as u32), goal));
    }
    let grandchild = child(0).child(CALL, 1);
    writer.add(&grandchild, started(&grandchild, "Count the commits"));
    writer.add(
        &grandchild,
        ended(&grandchild, deputize_core::Status::Completed, ExitReason::Completed),
    );
    writer
        .add(&child(0), ended(&child(0), deputize_core::Status::Completed, ExitReason::Completed));
    writer.add(&child(1), ended(&child(1), deputize_core::Status::Timeout, ExitReason::Timeout));
    writer.add(&child(2), replied(1, "", &[("read_file", "{}")]));
    writer.add(&child(2), called(CALL, "read_file", r#"{"path":"src/main.rs"}"#));
    writer
}

#[test]
fn a_family_on_a_usual_terminal() {
    insta::assert_snapshot!(draw(&family(), 100, 20));
}

#[test]
fn a_resumed_session_has_figures_of_this_run_and_of_all() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Look"));
    writer.add(&root(), replied(1, "One.", &[]));
    writer.add(&root(), ended(&root(), deputize_core::Status::Completed, ExitReason::Completed));
    let earlier = RunFigures::of_session(&tree(&writer), START).unwrap();
    let figures = |writer: &TestWriter| {
        let lines = lines(&tree(writer), Some(&earlier), START + 65_000, 80, 9);
        lines.iter().map(|line| line.render(false)).collect::<Vec<_>>()
    };
    writer.add(&root(), Event::AgentResume { max_iterations: 9, task: None });
    writer.add(&root(), replied(2, "Two.", &[]));
    insta::assert_snapshot!(figures(&writer).join("\n"));
    writer.add(&root(), ended(&root(), deputize_core::Status::Completed, ExitReason::Completed));
    insta::assert_snapshot!(figures(&writer).join("\n"));
}

#[test]
fn an_agent_whose_model_uses_no_tokens_has_no_figure_of_them() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Look"));
    assert!(draw(&writer, 60, 3).ends_with("0 steps · 1 m 05 s"), "{}", draw(&writer, 60, 3));
}

#[test]
fn a_family_on_a_narrow_terminal() {
    insta::assert_snapshot!(draw(&family(), 20, 20));
}

#[test]
fn with_few_lines_those_that_ended_are_folded_first() {
    let four = draw(&family(), 80, 4);
    let three = draw(&family(), 80, 3);
    let two = draw(&family(), 80, 2);
    let one = draw(&family(), 80, 1);
    insta::assert_snapshot!(format!("{four}\n\n{three}\n\n{two}\n\n{one}"));
}

#[test]
fn colours_are_spans_and_can_be_left_out() {
    let lines = lines(&tree(&family()), None, START + 65_000, 60, 3);
    let coloured: Vec<String> = lines.iter().map(|line| line.render(true)).collect();
    insta::assert_snapshot!(coloured.join("\n").replace('\u{1b}', "ESC"));
}

#[test]
fn two_thousand_children_of_which_five_run() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Look at every file"));
    for index in 0..2000 {
        writer.add(&child(index), started(&child(index), &format!("Look at file {index}")));
        writer.add(&child(index), replied(1, "", &[]));
        let (status, reason) = match index {
            7 => (deputize_core::Status::Failed, ExitReason::Error),
            _ => (deputize_core::Status::Completed, ExitReason::Completed),
        };
        if index % 400 != 3 {
            writer.add(&child(index), ended(&child(index), status, reason));
        }
    }
    insta::assert_snapshot!(draw(&writer, 72, 12));
}

#[test]
fn two_thousand_running_children() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Look at every file"));
    for index in 0..2000 {
        writer.add(&child(index), started(&child(index), &format!("Look at file {index}")));
    }
    insta::assert_snapshot!(draw(&writer, 72, 5));
}

#[test]
fn wide_and_hostile_goals_stay_in_their_line() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "调查代码库并编写报告，然后检查所有链接"));
    writer.add(&child(0), started(&child(0), "\u{1b}[2J\u{1b}[1;1Hgone\r\n\u{202e}txet\tx"));
    writer
        .add(&child(1), started(&child(1), "👩\u{200d}💻 👨\u{200d}👩\u{200d}👧 e\u{301}\u{301}"));
    writer.add(&child(2), started(&child(2), &"x".repeat(100_000)));
    writer.add(&child(2), called(CALL, "\u{9b}2K", "{\"path\":\"\u{1b}]0;t\u{7}\"}"));
    insta::assert_snapshot!(draw(&writer, 48, 20));
}

#[test]
fn a_question_and_its_answer() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Ship it"));
    writer.add(&root(), called(CALL, "terminal", r#"{"command":"git push"}"#));
    writer.add(
        &root(),
        Event::ApprovalRequest {
            call: CALL,
            command: "git push".to_owned(),
            class: "dangerous".to_owned(),
            reason: "r".to_owned(),
        },
    );
    assert!(draw(&writer, 60, 5).starts_with("? Ship it  asks: git push"));
    let decision = "deny".to_owned();
    let by = "user".to_owned();
    writer.add(&root(), Event::ApprovalDecision { call: CALL, decision, by });
    assert!(draw(&writer, 60, 5).starts_with("● Ship it  run git push"));
    writer.add(&root(), returned(CALL, "terminal", CallStatus::Denied, "no", Vec::new()));
    assert!(draw(&writer, 60, 5).starts_with("● Ship it  thinking"));
}

#[test]
fn calls_side_by_side_are_counted() {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Read"));
    for slot in 0..3 {
        writer.add(&root(), called(CallId::new(1, slot), "read_file", r#"{"path":"a"}"#));
    }
    assert!(draw(&writer, 60, 5).contains("read a (+2)"));
}

/// A tree of three levels: for each child whether it ended, and how many children it has.
fn any_tree() -> impl Strategy<Value = Vec<(bool, u32)>> {
    prop::collection::vec((any::<bool>(), 0..6_u32), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the tree and the screen: no line too many, none too wide, and every agent is
    /// either shown or counted.
    #[test]
    fn the_page_always_fits_and_counts_everyone(
        shape in any_tree(), columns in 1_usize..120, most in 1_usize..20
    ) {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "top"));
        let mut agents = 1;
        for ((done, below), index) in shape.iter().zip(0..) {
            let kid = child(index);
            writer.add(&kid, started(&kid, "kid"));
            for index in 0..*below {
                let grandchild = kid.child(CALL, index);
                writer.add(&grandchild, started(&grandchild, "grandchild"));
                if *done || index % 2 == 0 {
                    let end = ended(&grandchild, deputize_core::Status::Completed, ExitReason::Completed);
                    writer.add(&grandchild, end);
                }
            }
            if *done {
                writer.add(&kid, ended(&kid, deputize_core::Status::Failed, ExitReason::Error));
            }
            agents += 1 + *below as usize;
        }
        draw(&writer, columns, most);
        prop_assert_eq!(tree(&writer).totals().agents(), agents);
        let page = draw(&writer, 200, most);
        let actual: usize = page
            .lines()
            .map(|line| {
                let mut words = line.split_whitespace().map(|word| word.trim_start_matches('('));
                let words: Vec<&str> = words.by_ref().collect();
                let at = words.iter().position(|word| ["below:", "more:"].contains(word));
                let folded = at.and_then(|at| words[at - 1].parse().ok()).unwrap_or(0);
                folded + usize::from(!line.contains(" more: "))
            })
            .sum();
        prop_assert_eq!(actual, agents, "{}", page);
    }
}

#[test]
fn background_commands_stand_below_the_top_agent_until_they_end() {
    let mut writer = family();
    let start = |process: &str, command: &str| {
        Event::ProcessStart(ProcessStart {
            process: process.to_owned(),
            call: CALL,
            command: command.to_owned(),
            notify: false,
            terminal: false,
            output: None,
            durable_pid: None,
        })
    };
    writer.add(&root(), start("p1", "npm run\u{1b}[31m dev"));
    writer.add(&root(), start("p2", "make"));
    let page = draw(&writer, 60, 4);
    let line = "  in the background:  p1 npm run\\u{1b}[31m dev; p2 make\n";
    assert!(page.contains(line), "{page}");
    let end = ProcessEnd {
        process: "p1".to_owned(),
        command: "npm run dev".to_owned(),
        exit: ProcessExit::Killed,
        ms: Some(5),
        output_bytes: Some(0),
        message: None,
        sources: SourceSet::new(),
    };
    writer.add(&root(), Event::ProcessEnd(Box::new(end)));
    assert!(draw(&writer, 60, 4).contains("in the background:  p2 make\n"));
    assert_eq!(draw(&writer, 60, 1).lines().count(), 1);
}

#[test]
fn the_todo_list_stands_below_the_top_agent_while_it_works() {
    let mut writer = family();
    let item = |text: &str, state| TodoItem { text: text.to_owned(), state };
    let items = vec![
        item("Read the log", TodoState::Done),
        item("Write\u{1b}[31m it", TodoState::InProgress),
        item("Test it", TodoState::Pending),
    ];
    let fact = ToolEffect::TodoChanged { items };
    writer.add(&root(), returned(CALL, "todo", CallStatus::Ok, "ok", vec![fact]));
    insta::assert_snapshot!(draw(&writer, 60, 4), @"
    ● Make the release not…  thinking  2.2k · $0.0250 · 1 m 05 s
      1 of 3 done  Write it
    ├─ ● [3/3] Read src/main.rs  read src/main…  1.1k · 1 m 04 s
    └─ 3 more: 2 done, 1 failed
    ");
    assert_eq!(draw(&writer, 60, 1).lines().count(), 1);
    writer.add(&root(), ended(&root(), deputize_core::Status::Completed, ExitReason::Completed));
    assert!(!draw(&writer, 60, 4).contains("of 3 done"));
}
