//! Laws of the loop: each call gets exactly one result in the order asked, whatever happens.

#![cfg(test)]

use std::sync::Arc;

use deputize_core::{
    CallStatus, CancelReason, ExitReason, FailureKind, Finish, Input, Limits, Message, ModelError,
    ModelText, RawCall, Reply, Run, Status, Step, ToolChoice, ToolResult, UserMessage,
};
use proptest::prelude::*;

fn limits(max_iterations: u32) -> Limits {
    Limits { max_iterations, time_ms: 0, wrap_up_ms: 0 }
}

fn started(max_iterations: u32) -> Run {
    let mut run = Run::new(limits(max_iterations), []);
    run.apply(Input::Message(&message("go")));
    run
}

fn message(text: &str) -> UserMessage {
    UserMessage { text: text.into(), from: None }
}

fn calls(names: &[&str]) -> Reply {
    Reply::calls("m", names.iter().map(|name| (*name, serde_json::json!({}))))
}

/// Answers every open call with the same words.
fn answer_calls(run: &mut Run, words: &str) {
    let Step::Call(open) = run.step() else { return };
    let ids: Vec<_> = open.iter().map(|call| call.id).collect();
    for call in ids {
        run.apply(Input::Result(&result(call, words)));
    }
}

fn result(call: deputize_core::CallId, words: &str) -> ToolResult {
    ToolResult {
        call,
        status: CallStatus::Ok,
        text: ModelText::own(words),
        fingerprint: words.into(),
    }
}

/// The conversation in short: who said what.
fn show(run: &Run) -> String {
    let line = |message: &Arc<Message>| match &**message {
        Message::User(user) => format!("user: {}", user.text),
        Message::Assistant(said) => {
            let calls: Vec<_> = said.calls.iter().map(|call| call.id.to_string()).collect();
            format!("model: {}{}", said.text, calls.join(" "))
        }
        Message::Tool(result) => format!("{}: {}", result.call, result.text),
    };
    run.messages().iter().map(line).collect::<Vec<_>>().join("\n")
}

fn end(run: &Run) -> (Status, ExitReason, Option<String>) {
    let Step::Done(end) = run.step() else { panic!("not done: {:?}", run.step()) };
    (end.status, end.reason, end.text.clone())
}

#[test]
fn results_stand_in_the_order_asked_whatever_the_order_they_came_in() {
    let mut run = started(9);
    run.apply(Input::Reply(&calls(&["a", "b"])));
    let Step::Call(open) = run.step() else { panic!() };
    let (a, b) = (open[0].id, open[1].id);
    run.apply(Input::Result(&result(b, "from b")));
    run.apply(Input::Result(&result(b, "again")));
    run.apply(Input::Result(&result(a, "from a")));
    assert_eq!(
        show(&run),
        "user: go\nmodel: call_1_0 call_1_1\ncall_1_0: from a\ncall_1_1: from b"
    );
    assert_eq!(run.step(), Step::Ask { iteration: 2, tools: ToolChoice::Auto });
}

#[test]
fn the_iteration_limit_gives_one_closing_request_without_calls() {
    let mut run = started(1);
    run.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut run, "x");
    assert_eq!(run.step(), Step::Ask { iteration: 2, tools: ToolChoice::None });
    let mut stubborn = calls(&["a"]);
    stubborn.text = "I have this much.".into();
    run.apply(Input::Reply(&stubborn));
    let text = Some("I have this much.".to_owned());
    assert_eq!(end(&run), (Status::Completed, ExitReason::MaxIterations, text));
    assert!(show(&run).contains("all 1 steps"), "{}", show(&run));
}

#[test]
fn a_new_message_begins_a_new_turn_with_all_its_steps() {
    let mut run = started(1);
    run.apply(Input::Reply(&Reply::text("m", "one")));
    run.apply(Input::Message(&message("more")));
    assert_eq!(run.step(), Step::Ask { iteration: 2, tools: ToolChoice::Auto });
}

#[test]
fn the_same_call_five_times_gets_a_note_and_then_ends_the_turn() {
    let mut run = started(99);
    let mut rounds = 0;
    while let Step::Ask { tools: ToolChoice::Auto, .. } = run.step() {
        run.apply(Input::Reply(&calls(&["a"])));
        answer_calls(&mut run, "same");
        rounds += 1;
        assert_eq!(show(&run).contains("repeat themselves"), rounds >= 5, "round {rounds}");
    }
    assert_eq!(rounds, 6);
    run.apply(Input::Reply(&Reply::text("m", "stuck")));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some("stuck".into())));
}

#[test]
fn a_cycle_of_three_is_a_repetition_and_progress_is_not() {
    let mut run = started(99);
    let mut rounds = 0;
    while let Step::Ask { tools: ToolChoice::Auto, .. } = run.step() {
        run.apply(Input::Reply(&calls(&["a", "b", "c"])));
        answer_calls(&mut run, "same");
        rounds += 1;
    }
    assert_eq!(rounds, 4);

    let mut run = started(99);
    for round in 0..40 {
        run.apply(Input::Reply(&calls(&["poll"])));
        answer_calls(&mut run, &round.to_string());
    }
    assert!(matches!(run.step(), Step::Ask { tools: ToolChoice::Auto, .. }));
}

#[test]
fn a_call_that_the_output_limit_cut_is_not_run() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply { finish: Finish::Length, ..calls(&["write"]) }));
    assert!(matches!(run.step(), Step::Ask { iteration: 2, .. }), "{:?}", run.step());
    assert!(show(&run).contains("call_1_0: not run"), "{}", show(&run));
}

#[test]
fn an_empty_reply_is_asked_about_once_and_never_enters_the_conversation() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply::text("m", " \n")));
    assert!(matches!(run.step(), Step::Ask { .. }));
    run.apply(Input::Reply(&Reply::text("m", "")));
    assert_eq!(end(&run).0, Status::Failed);
    assert!(!show(&run).contains("model:"));
}

#[test]
fn an_empty_closing_reply_does_not_hide_why_it_was_the_last() {
    let said = |text: &str| Reply { text: text.into(), ..calls(&["f"]) };
    let mut run = started(1);
    run.apply(Input::Reply(&said("One step.")));
    answer_calls(&mut run, "ok");
    run.apply(Input::Reply(&calls(&["f"])));
    let text = Some("One step.".to_owned());
    assert_eq!(end(&run), (Status::Completed, ExitReason::MaxIterations, text.clone()));

    let mut run = started(9);
    run.apply(Input::Reply(&said("One step.")));
    run.apply(Input::WrapUp);
    run.apply(Input::Reply(&Reply::text("m", "")));
    assert_eq!(end(&run), (Status::Timeout, ExitReason::Timeout, text));

    let mut run = started(1);
    run.apply(Input::Reply(&calls(&["f"])));
    answer_calls(&mut run, "ok");
    run.apply(Input::Reply(&calls(&["f"])));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, None), "there is nothing to show");
}

#[test]
fn a_failure_keeps_the_text_that_had_come() {
    let mut run = started(9);
    let broken = ModelError {
        partial: "Half of".into(),
        ..ModelError::new(FailureKind::Incomplete, "the stream broke off")
    };
    run.apply(Input::Failed(&broken));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some("Half of".into())));
    assert!(matches!(run.step(), Step::Done(end) if end.partial));
    run.apply(Input::Resume { max_iterations: 9 });
    assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }));
}

#[test]
fn an_interrupt_in_the_middle_of_a_reply_leaves_what_was_complete() {
    let cut = ModelError {
        partial: "Half of".into(),
        ..ModelError::new(FailureKind::Cancelled, "told to end")
    };
    let mut run = started(9);
    run.apply(Input::Reply(&Reply { text: "First I look.".into(), ..calls(&["a"]) }));
    answer_calls(&mut run, "x");
    run.apply(Input::Failed(&cut));
    run.apply(Input::Stop(CancelReason::Interrupted));
    let text = Some("First I look.".to_owned());
    assert_eq!(end(&run), (Status::Interrupted, ExitReason::Interrupted, text));

    let mut run = started(9);
    run.apply(Input::Failed(&cut));
    run.apply(Input::Stop(CancelReason::Interrupted));
    assert_eq!(end(&run).2.as_deref(), Some("Half of"), "partial work is better than none");
}

#[test]
fn a_message_that_comes_while_calls_are_open_waits_for_them() {
    let mut run = started(9);
    run.apply(Input::Reply(&calls(&["a"])));
    run.apply(Input::Message(&message("hurry")));
    answer_calls(&mut run, "x");
    assert!(show(&run).ends_with("call_1_0: x\nuser: hurry"), "{}", show(&run));
}

#[derive(Debug, Clone)]
enum Move {
    Reply(u8, bool),
    Answer(usize),
    Fail(u8),
    WrapUp,
    Stop(bool),
    Resume,
    Message,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0..4u8, any::<bool>()).prop_map(|(n, cut)| Move::Reply(n, cut)),
        8 => (0..4usize).prop_map(Move::Answer),
        1 => (0..3u8).prop_map(Move::Fail),
        1 => Just(Move::WrapUp),
        1 => any::<bool>().prop_map(Move::Stop),
        1 => Just(Move::Resume),
        2 => Just(Move::Message),
    ];
    proptest::collection::vec(one, 0..60)
}

fn apply(run: &mut Run, step: &Move) {
    match step {
        Move::Reply(count, cut) => {
            let raw = RawCall { name: "t".into(), arguments: "{}".into() };
            let reply = Reply {
                calls: vec![raw; usize::from(*count)],
                finish: if *cut { Finish::Length } else { Finish::Stop },
                ..Reply::text("m", "said")
            };
            run.apply(Input::Reply(&reply));
        }
        Move::Answer(place) => {
            let Step::Call(open) = run.step() else { return };
            let call = open[place % open.len()].id;
            run.apply(Input::Result(&result(call, "done")));
        }
        Move::Fail(kind) => {
            let kinds = [FailureKind::Fatal, FailureKind::Incomplete, FailureKind::Cancelled];
            run.apply(Input::Failed(&ModelError::new(kinds[usize::from(*kind)], "x")));
        }
        Move::WrapUp => run.apply(Input::WrapUp),
        Move::Stop(time) => run.apply(Input::Stop(if *time {
            CancelReason::TimeLimit
        } else {
            CancelReason::Interrupted
        })),
        Move::Resume => run.apply(Input::Resume { max_iterations: 7 }),
        Move::Message => run.apply(Input::Message(&message("and"))),
    }
}

/// Every call is followed by its result, in order, before anybody says anything else; only
/// the calls that are open now may be without.
fn paired(run: &Run) -> Result<(), String> {
    let mut owed: Vec<deputize_core::CallId> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for message in run.messages() {
        match &**message {
            Message::Tool(result) => {
                if owed.is_empty() || owed.remove(0) != result.call {
                    return Err(format!("{} is out of place", result.call));
                }
            }
            _ if !owed.is_empty() => return Err(format!("{owed:?} have no result")),
            Message::Assistant(said) => {
                owed = said.calls.iter().map(|call| call.id).collect();
                if let Some(twice) = owed.iter().find(|id| !seen.insert(**id)) {
                    return Err(format!("{twice} was used before"));
                }
            }
            Message::User(_) => {}
        }
    }
    match run.step() {
        Step::Call(_) => Ok(()),
        _ if owed.is_empty() => Ok(()),
        step => Err(format!("{owed:?} have no result at {step:?}")),
    }
}

proptest! {
    #[test]
    fn each_call_has_exactly_one_result_in_the_order_asked(moves in moves()) {
        let mut run = started(7);
        let mut twin = started(7);
        for step in &moves {
            apply(&mut run, step);
            prop_assert_eq!(paired(&run), Ok(()), "after {:?}\n{}", step, show(&run));
            // Asking changes nothing, and the same inputs give the same run.
            apply(&mut twin, step);
            prop_assert_eq!(run.step(), twin.step());
        }
        run.apply(Input::Stop(CancelReason::Interrupted));
        prop_assert!(matches!(run.step(), Step::Done(_)));
        prop_assert_eq!(paired(&run), Ok(()));
    }

    #[test]
    fn what_was_said_is_never_changed(moves in moves()) {
        let mut run = started(7);
        for step in &moves {
            let before = run.messages().to_vec();
            apply(&mut run, step);
            prop_assert_eq!(&run.messages()[..before.len()], &before[..]);
        }
    }
}
