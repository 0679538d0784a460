//! The loop, case by case; [`laws`] cover any sequence of inputs.

#![cfg(test)]

mod ends;
mod laws;

use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::compaction::CompactionLimits;
use deputize_core::message::{CallStatus, ModelText, OpaqueBlock, UserMessage};
use deputize_core::model::{FailureKind, Finish, ModelError, Reply, ToolChoice, Usage};
use deputize_core::name::ChildEndId;
use deputize_core::outcome::ExitReason;
use deputize_core::run::{Input, Run, Step, WrapUpReason};
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, CallId, CancelReason, Message, SessionId, Status, ToolResult};

fn limits(max_iterations: u32) -> AgentLimits {
    AgentLimits { max_iterations, time_ms: 0, wrap_up_ms: 0 }
}

fn started(max_iterations: u32) -> Run {
    let mut run = Run::new(limits(max_iterations), []);
    run.apply(Input::Message(&message("go")));
    run
}

fn message(text: &str) -> UserMessage {
    UserMessage::new(text)
}

fn calls(names: &[&str]) -> Reply {
    Reply::calls("m", names.iter().map(|name| (*name, serde_json::json!({}))))
}

/// Answers every open call with the same text.
fn answer_calls(run: &mut Run, words: &str) {
    let Step::Call(open) = run.step() else { return };
    let ids: Vec<_> = open.iter().map(|call| call.id).collect();
    for call in ids {
        answer(run, &result(call, words));
    }
}

/// Applies the result of a call.
fn answer(run: &mut Run, result: &ToolResult) {
    run.apply(Input::Result { tool: "t", args_bytes: 2, result });
}

fn result(call: deputize_core::CallId, words: &str) -> ToolResult {
    ToolResult {
        call,
        status: CallStatus::Ok,
        text: ModelText::own(words),
        fingerprint: words.into(),
        images: Vec::new(),
        sources: SourceSet::new(),
    }
}

/// An attempt that is made again.
fn broke(error: &ModelError) -> Input<'_> {
    Input::Failure { error, retried: true }
}

/// A request that failed for good.
fn failed(error: &ModelError) -> Input<'_> {
    Input::Failure { error, retried: false }
}

/// Shows the conversation in short: each role and its text.
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

fn error(run: &Run) -> Option<&str> {
    let Step::Done(end) = run.step() else { panic!("not done: {:?}", run.step()) };
    end.error.as_deref()
}

#[test]
fn results_stand_in_the_order_asked_whatever_the_order_they_came_in() {
    let mut run = started(9);
    run.apply(Input::Reply(&calls(&["a", "b"])));
    let Step::Call(open) = run.step() else { panic!() };
    let a = open[0].id;
    let b = open[1].id;
    answer(&mut run, &result(b, "from b"));
    answer(&mut run, &result(b, "again"));
    answer(&mut run, &result(a, "from a"));
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
fn a_further_task_begins_a_new_turn_with_all_its_steps_however_the_last_one_ended() {
    let closed = Input::WrapUp(WrapUpReason::Time);
    let stopped = Input::Stop(CancelReason::Interrupted);
    for last in [Input::Reply(&Reply::text("m", "one")), stopped, closed] {
        let mut run = started(1);
        run.apply(last);
        run.apply(Input::Reply(&Reply::text("m", "closing")));
        assert!(matches!(run.step(), Step::Done(_)));
        run.apply(Input::FurtherTask);
        assert_eq!((run.step(), run.text(), run.is_last()), (Step::Rest, None, false));
        run.apply(Input::Message(&message("more")));
        assert!(matches!(run.step(), Step::Ask { tools: ToolChoice::Auto, .. }), "{run:?}");
        run.apply(Input::Reply(&Reply::text("m", "two")));
        assert_eq!(run.text().as_deref(), Some("two"));
    }
}

#[test]
fn a_fork_begins_with_what_was_said_before_the_call_and_counts_its_own_steps() {
    let mut parent = started(9);
    parent.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut parent, "x");
    let before = parent.messages().to_vec();
    parent.apply(Input::Reply(&calls(&["a", "b"])));
    let mut run = Run::fork(limits(2), &parent);
    assert_eq!((run.messages(), run.step(), run.iterations()), (&before[..], Step::Rest, 0));
    run.apply(Input::Message(&message("part")));
    assert_eq!(run.step(), Step::Ask { iteration: 3, tools: ToolChoice::Auto });
    run.apply(Input::Reply(&calls(&["a"])));
    let Step::Call(open) = run.step() else { panic!("{run:?}") };
    assert_eq!(open[0].id, CallId::new(3, 0));
    answer_calls(&mut run, "y");
    run.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut run, "z");
    assert_eq!(run.iterations(), 2);
    assert_eq!(run.step(), Step::Ask { iteration: 5, tools: ToolChoice::None });
}

#[test]
fn a_compaction_of_a_fork_keeps_requests_to_its_parent_word_for_word() {
    let mut parent = started(9);
    parent.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut parent, "x");
    parent.apply(Input::Message(&message("Never touch the database.")));
    parent.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut parent, "y");
    parent.apply(Input::Reply(&calls(&["a", "b"])));
    let mut run = Run::fork(limits(9), &parent);
    run.apply(Input::Message(&message("part")));
    let limits = CompactionLimits { tail: 0, step: 0, requests: 100, least: 0 };
    let part = run.replaceable_part(limits).unwrap();
    let text = |at: &usize| match &*run.messages()[*at] {
        Message::User(user) => user.text.clone(),
        other => panic!("{other:?}"),
    };
    let kept: Vec<_> = part.kept.iter().map(text).collect();
    assert_eq!(kept, ["go", "Never touch the database.", "part"]);
}

#[test]
fn each_end_of_a_child_is_told_once() {
    let mut run = started(9);
    let messages = |run: &Run| run.messages().len();
    let first = ended(0);
    let mut second = ended(0);
    second.from.as_mut().unwrap().number = 2;
    for (message, more) in [(&first, 1), (&first, 0), (&second, 1), (&second, 0), (&first, 0)] {
        let before = messages(&run);
        run.apply(Input::Message(message));
        assert_eq!(messages(&run) - before, more);
    }
}

/// Returns the message that reports a child's end.
fn ended(index: u32) -> UserMessage {
    let root = AgentId::root(&SessionId::literal("s"));
    let child = root.child(CallId::new(1, 0), index);
    UserMessage {
        text: format!("{child} has ended"),
        from: Some(ChildEndId { child, number: 1 }),
        images: Vec::new(),
        sources: SourceSet::new(),
    }
}

#[test]
fn what_wakes_it_begins_no_turn_and_the_limit_holds() {
    let mut run = started(2);
    run.apply(Input::Reply(&Reply::text("m", "I wait.")));
    run.apply(Input::Rest);
    run.apply(Input::Message(&ended(0)));
    assert_eq!(run.step(), Step::Ask { iteration: 2, tools: ToolChoice::Auto });
    run.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut run, "x");
    assert_eq!(run.step(), Step::Ask { iteration: 3, tools: ToolChoice::None });
    run.apply(Input::Reply(&Reply::text("m", "One is back.")));
    assert!(!run.has_steps());
    // The end of a child and another message alike.
    for wakes in [ended(1), message("a letter")] {
        run.apply(Input::Rest);
        run.apply(Input::Message(&wakes));
        assert!(matches!(run.step(), Step::Ask { tools: ToolChoice::None, .. }), "{wakes:?}");
        run.apply(Input::Reply(&Reply::text("m", "More.")));
        assert_eq!(end(&run).1, ExitReason::MaxIterations);
    }
    // The person may send more, even while it rests.
    run.apply(Input::Rest);
    run.apply(Input::Resume { max_iterations: 2 });
    assert_eq!(run.step(), Step::Rest);
    run.apply(Input::Message(&message("go on")));
    assert!(matches!(run.step(), Step::Ask { tools: ToolChoice::Auto, .. }));
}

#[test]
fn a_failure_after_a_wake_leaves_what_was_said_before() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply::text("m", "So far.")));
    run.apply(Input::Rest);
    run.apply(Input::Message(&ended(0)));
    run.apply(failed(&ModelError::new(FailureKind::Unavailable, "refused")));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some("So far.".into())));
    // Another turn begins with no earlier answers.
    run.apply(Input::Message(&message("again")));
    run.apply(failed(&ModelError::new(FailureKind::Unavailable, "refused")));
    assert_eq!(end(&run).2, None);
}

const LATER: &str = "[A message arrived after this answer. In reply to it:]";

#[test]
fn an_answer_stays_in_the_result_whatever_is_said_to_later_messages() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply::text("m", "The report.")));
    for (actual, said) in [("Are you done?", "Yes."), ("Sure?", "The report."), ("So?", "")] {
        run.apply(Input::Rest);
        // Resting twice, as after a restart, changes nothing.
        run.apply(Input::Rest);
        run.apply(Input::Message(&message(actual)));
        run.apply(Input::Reply(&Reply::text("m", said)));
    }
    assert!(matches!(run.step(), Step::Ask { .. }), "an empty reply is asked for again, once");
    run.apply(Input::Reply(&Reply::text("m", "")));
    let text = format!("The report.\n\n{LATER}\n\nYes.");
    assert_eq!(end(&run), (Status::Completed, ExitReason::Completed, Some(text.clone())));
    assert_eq!(run.answers(), ["The report.", "Yes."]);

    run.apply(Input::Rest);
    run.apply(Input::Message(&message("one more")));
    run.apply(failed(&ModelError::new(FailureKind::Unavailable, "refused")));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some(text)));
    // The person's next turn begins with no earlier answers.
    run.apply(Input::Message(&message("again")));
    run.apply(Input::Reply(&Reply::text("m", "Anew.")));
    assert_eq!(end(&run).2.as_deref(), Some("Anew."));
}

#[test]
fn a_limit_while_it_rests_asks_for_a_closing_answer() {
    let mut run = Run::new(limits(9), []);
    run.apply(Input::WrapUp(WrapUpReason::Time));
    assert_eq!(run.step(), Step::Rest, "it has not begun");
    run.apply(Input::Message(&message("go")));
    run.apply(Input::Reply(&Reply::text("m", "I wait.")));
    run.apply(Input::Rest);
    run.apply(Input::WrapUp(WrapUpReason::Time));
    assert_eq!(run.step(), Step::Ask { iteration: 2, tools: ToolChoice::None });
    run.apply(Input::Reply(&Reply::text("m", "This much.")));
    let text = format!("I wait.\n\n{LATER}\n\nThis much.");
    assert_eq!(end(&run), (Status::Timeout, ExitReason::Timeout, Some(text)));
}

#[test]
fn an_answer_at_a_limit_that_misses_its_schema_is_no_success() {
    let mut at_iterations = started(1);
    at_iterations.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut at_iterations, "x");
    at_iterations.apply(Input::Reply(&Reply::text("m", "prose")));
    let mut at_output = started(9);
    at_output.apply(Input::Reply(&Reply { finish: Finish::Length, ..Reply::text("m", "prose") }));
    let mut at_budget = started(9);
    at_budget.apply(Input::WrapUp(WrapUpReason::Budget));
    at_budget.apply(Input::Reply(&Reply::text("m", "prose")));
    for (mut run, limit) in [
        (at_iterations, ExitReason::MaxIterations),
        (at_output, ExitReason::MaxOutputTokens),
        (at_budget, ExitReason::Budget),
    ] {
        assert_eq!(end(&run), (Status::Completed, limit, Some("prose".into())));
        run.apply(Input::Rejected("no number"));
        assert_eq!(end(&run), (Status::Failed, ExitReason::SchemaInvalid, Some("prose".into())));
        let Step::Done(end) = run.step() else { panic!() };
        let error = end.error.as_deref().unwrap();
        assert!(error.contains("no number") && error.contains(limit.as_str()), "{error}");
    }
}

#[test]
fn the_same_call_five_times_gets_a_note_and_then_ends_the_turn() {
    let mut run = started(99);
    let mut rounds = 0;
    while let Step::Ask { tools: ToolChoice::Auto, .. } = run.step() {
        run.apply(Input::Reply(&calls(&["a"])));
        answer_calls(&mut run, "same");
        rounds += 1;
        assert_eq!(show(&run).contains("Your last calls repeat"), rounds >= 5, "round {rounds}");
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
fn a_paused_reply_goes_back_as_it_is_and_the_model_goes_on() {
    let mut run = started(9);
    let opaque = OpaqueBlock { wire: "w".into(), raw: "{}".into(), model: "m".into() };
    let paused = Reply { finish: Finish::Paused, opaque: vec![opaque], ..Reply::text("m", "") };
    run.apply(Input::Reply(&paused));
    assert!(matches!(run.step(), Step::Ask { iteration: 2, .. }), "{:?}", run.step());
    assert!(
        matches!(&**run.messages().last().unwrap(), Message::Assistant(said) if said.opaque.len() == 1)
    );
    run.apply(Input::Reply(&Reply::text("m", "Found.")));
    assert_eq!(end(&run).0, Status::Completed);
    let mut run = started(1);
    run.apply(Input::Reply(&Reply { text: "I search.".into(), ..paused }));
    let Step::Ask { tools, .. } = run.step() else { panic!("{:?}", run.step()) };
    assert_eq!(tools, ToolChoice::None, "pauses count as requests");
}

#[test]
fn a_message_that_comes_while_calls_are_open_waits_for_them() {
    let mut run = started(9);
    run.apply(Input::Reply(&calls(&["a"])));
    run.apply(Input::Message(&message("hurry")));
    answer_calls(&mut run, "x");
    assert!(show(&run).ends_with("call_1_0: x\nuser: hurry"), "{}", show(&run));
}

#[test]
fn what_is_stopped_before_its_first_message_was_interrupted() {
    let mut run = Run::new(limits(9), []);
    run.apply(Input::Stop(CancelReason::Interrupted));
    let Step::Done(end) = run.step() else { panic!("it rests") };
    assert_eq!((end.status, end.reason), (Status::Interrupted, ExitReason::Interrupted));
}
