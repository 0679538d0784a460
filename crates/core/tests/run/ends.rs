//! How a turn ends, and what is left of what was said.

use super::*;

#[test]
fn a_task_that_a_rule_could_not_do_is_reported_by_its_answer() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply { finish: Finish::Undone, ..Reply::text("m", "No.") }));
    assert_eq!(error(&run), Some("the task was not done: the answer says why"));
}

#[test]
fn a_refusal_leaves_no_call_without_a_result() {
    let mut run = started(9);
    let refusal = Reply { text: "No.".into(), finish: Finish::Refused, ..calls(&["write"]) };
    run.apply(Input::Reply(&refusal));
    assert_eq!(end(&run).0, Status::Failed);
    assert!(error(&run).unwrap().contains("refused or filtered the reply"), "{:?}", error(&run));
    run.apply(Input::Message(&message("and now?")));
    assert_eq!(show(&run), "user: go\nmodel: No.\nuser: and now?");
    let silent = Reply { text: String::new(), ..refusal };
    run.apply(Input::Reply(&silent));
    assert_eq!(
        error(&run),
        Some(
            "the model's provider refused or filtered the reply: put the task in other words, or \
             ask another model"
        )
    );
}

#[test]
fn an_empty_reply_is_asked_about_once_and_never_enters_the_conversation() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply::text("m", " \n")));
    assert!(matches!(run.step(), Step::Ask { .. }));
    run.apply(Input::Reply(&Reply::text("m", "")));
    assert_eq!(end(&run).0, Status::Failed);
    assert_eq!(error(&run), Some("the model gave an empty answer"));
    assert!(!show(&run).contains("model:"));
}

#[test]
fn a_reply_of_nothing_but_reasoning_is_no_answer_and_is_called_that() {
    let mut run = started(9);
    let thought = Reply { reasoning: "Hm.".to_owned(), ..Reply::text("m", "\n") };
    run.apply(Input::Reply(&thought));
    assert!(matches!(run.step(), Step::Ask { .. }));
    run.apply(Input::Reply(&thought));
    assert_eq!(error(&run), Some("the model gave only thoughts and no answer"));
}

#[test]
fn what_is_said_beside_calls_is_no_closing_answer() {
    let said = |text: &str| Reply { text: text.into(), ..calls(&["f"]) };
    let silent = Reply::text("m", "");
    let text = Some("One step.".to_owned());
    let budget = Input::WrapUp(WrapUpReason::Budget);
    for (last, expected) in [
        (Input::Reply(&silent), Status::Failed),
        (Input::Stop(CancelReason::Budget), Status::Failed),
        (Input::Reply(&said("That is it.")), Status::Completed),
    ] {
        let mut run = started(9);
        run.apply(Input::Reply(&said("One step.")));
        answer_calls(&mut run, "ok");
        run.apply(budget);
        run.apply(last);
        let (status, reason, actual) = end(&run);
        assert_eq!((status, reason), (expected, ExitReason::Budget));
        assert_eq!(
            (actual == text, error(&run).is_some()),
            (status == Status::Failed, actual == text)
        );
    }
    // Even where nothing was expected any more.
    let mut run = started(9);
    run.apply(Input::Reply(&said("One step.")));
    run.apply(Input::Stop(CancelReason::Budget));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Budget, text));
}

#[test]
fn who_ends_with_a_limit_above_it_was_interrupted() {
    let mut run = started(9);
    run.apply(Input::Stop(CancelReason::LimitAbove));
    assert_eq!(end(&run), (Status::Interrupted, ExitReason::Interrupted, None));
    assert_eq!(error(&run), Some("ended with a limit of the agent that started it"));
}

#[test]
fn an_empty_closing_reply_does_not_hide_why_it_was_the_last() {
    let said = |text: &str| Reply { text: text.into(), ..calls(&["f"]) };
    let mut run = started(1);
    run.apply(Input::Reply(&said("One step.")));
    answer_calls(&mut run, "ok");
    run.apply(Input::Reply(&calls(&["f"])));
    let text = Some("One step.".to_owned());
    assert_eq!(end(&run), (Status::Failed, ExitReason::MaxIterations, text.clone()));
    assert!(error(&run).is_some_and(|error| error.contains("limit of 1 model requests")));

    let mut run = started(9);
    run.apply(Input::Reply(&said("One step.")));
    run.apply(Input::WrapUp(WrapUpReason::Time));
    run.apply(Input::Reply(&Reply::text("m", "")));
    assert_eq!(end(&run), (Status::Timeout, ExitReason::Timeout, text));

    let mut run = started(1);
    run.apply(Input::Reply(&calls(&["f"])));
    answer_calls(&mut run, "ok");
    run.apply(Input::Reply(&calls(&["f"])));
    assert_eq!(
        end(&run),
        (Status::Failed, ExitReason::MaxIterations, None),
        "there is nothing to show"
    );
}

#[test]
fn a_failure_keeps_the_text_that_had_come() {
    let mut run = started(9);
    let broken = ModelError {
        partial: "Half of".into(),
        ..ModelError::new(FailureKind::Incomplete, "the stream broke off")
    };
    run.apply(failed(&broken));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some("Half of".into())));
    assert!(matches!(run.step(), Step::Done(end) if end.partial));
    run.apply(Input::Resume { max_iterations: 9 });
    assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }));
}

#[test]
fn a_failure_keeps_the_text_of_the_attempts_before_it_until_there_is_a_reply() {
    let broken = ModelError {
        partial: "Half of".into(),
        ..ModelError::new(FailureKind::Incomplete, "the stream broke off")
    };
    let refused = ModelError::new(FailureKind::Unavailable, "connection refused");
    let mut run = started(9);
    run.apply(broke(&broken));
    assert!(matches!(run.step(), Step::Ask { iteration: 1, .. }), "it is asked again");
    run.apply(failed(&refused));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, Some("Half of".into())));
    assert!(matches!(run.step(), Step::Done(end) if end.partial));

    let mut run = started(9);
    run.apply(broke(&broken));
    run.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut run, "x");
    run.apply(failed(&refused));
    assert_eq!(end(&run), (Status::Failed, ExitReason::Error, None));
}

#[test]
fn what_goes_on_after_an_answer_is_reported_to() {
    let mut run = started(1);
    run.apply(Input::Reply(&calls(&["a"])));
    answer_calls(&mut run, "x");
    run.apply(Input::Reply(&Reply::text("m", "Half done.")));
    run.apply(Input::Resume { max_iterations: 9 });
    assert!(show(&run).contains("model: Half done.\nuser: Continue where you stopped."));
    // A person has given instructions.
    run.apply(Input::Reply(&Reply::text("m", "Done.")));
    run.apply(Input::Message(&message("and now?")));
    run.apply(Input::Resume { max_iterations: 9 });
    assert!(show(&run).ends_with("model: Done.\nuser: and now?"), "{}", show(&run));
}

#[test]
fn a_conversation_too_long_is_reported_as_such_with_what_there_is() {
    let mut run = started(9);
    run.apply(Input::Reply(&Reply { text: "I look.".into(), ..calls(&["a"]) }));
    answer_calls(&mut run, "x");
    let usage = Some(Box::new(Usage { input: 7, ..Usage::default() }));
    let error = ModelError { usage, ..ModelError::new(FailureKind::ContextOverflow, "too long") };
    run.apply(failed(&error));
    let end = end(&run);
    assert_eq!(end, (Status::Failed, ExitReason::ContextOverflow, Some("I look.".into())));
    assert_eq!(run.usage().input, 7, "what failed was counted, too");
}

#[test]
fn an_interrupt_in_the_middle_of_a_reply_leaves_what_was_complete_and_what_had_come() {
    let cut = ModelError {
        partial: "Half of".into(),
        ..ModelError::new(FailureKind::Cancelled, "told to end")
    };
    let mut run = started(9);
    run.apply(Input::Reply(&Reply { text: "First I look.".into(), ..calls(&["a"]) }));
    answer_calls(&mut run, "x");
    run.apply(failed(&cut));
    run.apply(Input::Stop(CancelReason::Interrupted));
    let text = Some("First I look.\n\nHalf of".to_owned());
    assert_eq!(end(&run), (Status::Interrupted, ExitReason::Interrupted, text));

    let mut run = started(9);
    run.apply(failed(&cut));
    run.apply(Input::Stop(CancelReason::Interrupted));
    assert_eq!(end(&run).2.as_deref(), Some("Half of"), "partial work is better than none");
}

#[test]
fn a_closing_answer_that_is_cut_as_well_stands_behind_what_was_cut_before() {
    let mut run = started(9);
    let cut = |partial: &str| ModelError {
        partial: partial.into(),
        ..ModelError::new(FailureKind::Cancelled, "told to end")
    };
    run.apply(failed(&cut("First half")));
    run.apply(Input::WrapUp(WrapUpReason::Time));
    run.apply(failed(&cut("second half")));
    run.apply(Input::Stop(CancelReason::TimeLimit));
    assert_eq!(end(&run).2.as_deref(), Some("First half\n\nsecond half"));
}
