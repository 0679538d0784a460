//! Laws of the loop: each call gets exactly one result, in order, whatever happens.

use std::sync::Arc;

use deputize_core::compaction::{Compaction, CompactionLimits, ReplacedPart, SummaryRequest};
use deputize_core::model::{FailureKind, Finish, ModelError, RawCall, Reply, Usage};
use deputize_core::run::{Input, Run, Step, WrapUpReason};
use deputize_core::{CancelReason, Message};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::{failed, message, result, show, started};

#[derive(Debug, Clone)]
enum Move {
    Reply(u8, Finish),
    Answer(usize),
    Fail(u8),
    WrapUp(bool),
    Rejected,
    Stop(bool),
    Resume,
    Rest,
    Message,
    Compact(CompactionLimits),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let finish = prop::sample::select(vec![Finish::Stop, Finish::Length, Finish::Refused]);
    let one = prop_oneof![
        6 => (0..4u8, finish).prop_map(|(n, finish)| Move::Reply(n, finish)),
        8 => (0..4usize).prop_map(Move::Answer),
        1 => (0..3u8).prop_map(Move::Fail),
        1 => any::<bool>().prop_map(Move::WrapUp),
        1 => Just(Move::Rejected),
        1 => any::<bool>().prop_map(Move::Stop),
        1 => Just(Move::Resume),
        2 => Just(Move::Rest),
        2 => Just(Move::Message),
    ];
    proptest::collection::vec(one, 0..60)
}

/// Conversations that grow, with compactions between. In the middle there is one with whatever is
/// left to be answered before it, so that nearly all have one.
fn long_moves() -> impl Strategy<Value = Vec<Move>> {
    let limits = |tail: u64| {
        (0..tail, 0..60u64, 0..60u64, 0..30u64).prop_map(|(tail, step, requests, least)| {
            CompactionLimits { tail, step, requests, least }
        })
    };
    let one = prop_oneof![
        6 => (0..4u8).prop_map(|calls| Move::Reply(calls, Finish::Stop)),
        10 => (0..4usize).prop_map(Move::Answer),
        2 => limits(200).prop_map(Move::Compact),
        1 => any::<bool>().prop_map(Move::WrapUp),
        1 => Just(Move::Rest),
        1 => Just(Move::Resume),
        3 => Just(Move::Message),
    ];
    let some = |least, most| proptest::collection::vec(one.clone(), least..most);
    (some(12, 30), limits(20), some(5, 15)).prop_map(|(mut moves, limits, more)| {
        moves.extend([Move::Answer(0), Move::Answer(0), Move::Answer(0), Move::Message]);
        moves.push(Move::Compact(limits));
        moves.extend(more);
        moves
    })
}

/// The compaction of a conversation within limits, if there is one.
fn compaction(run: &Run, limits: CompactionLimits) -> Option<Compaction> {
    let request = SummaryRequest {
        model: "m".into(),
        usage: Usage::default(),
        estimated: false,
        cost_usd: None,
        ms: 1,
    };
    Some(Compaction {
        part: run.replaceable_part(limits)?,
        text: "SUMMARY".into(),
        bytes_before: 2,
        bytes_after: 1,
        path: "/s.jsonl".into(),
        request,
    })
}

fn apply(run: &mut Run, step: &Move) {
    match step {
        Move::Reply(count, finish) => {
            let raw = RawCall { name: "t".into(), arguments: "{}".into() };
            let reply = Reply {
                calls: vec![raw; usize::from(*count)],
                finish: *finish,
                ..Reply::text("m", format!("said {}.", run.iterations()))
            };
            run.apply(Input::Reply(&reply));
        }
        Move::Answer(place) => {
            let Step::Call(open) = run.step() else { return };
            let call = open[place % open.len()].id;
            let result = result(call, "done");
            run.apply(Input::Result { tool: "t", args_bytes: 2, result: &result });
        }
        Move::Fail(kind) => {
            let kinds = [FailureKind::Fatal, FailureKind::Incomplete, FailureKind::Cancelled];
            run.apply(failed(&ModelError::new(kinds[usize::from(*kind)], "x")));
        }
        Move::WrapUp(time) => {
            run.apply(Input::WrapUp(if *time { WrapUpReason::Time } else { WrapUpReason::Budget }));
        }
        Move::Rejected => run.apply(Input::Rejected("no number")),
        Move::Stop(time) => run.apply(Input::Stop(if *time {
            CancelReason::TimeLimit
        } else {
            CancelReason::Interrupted
        })),
        Move::Resume => run.apply(Input::Resume { max_iterations: 7 }),
        Move::Rest => run.apply(Input::Rest),
        Move::Message => run.apply(Input::Message(&message("and"))),
        Move::Compact(limits) => {
            if let Some(compaction) = compaction(run, *limits) {
                run.apply(Input::Compaction(&compaction));
            }
        }
    }
}

/// Every call is followed by its result, in order, before any other message; only calls that are
/// open now may have none.
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
            // Calling `step` changes nothing, and equal inputs give equal runs.
            apply(&mut twin, step);
            prop_assert_eq!(run.step(), twin.step());
            let last = run.messages().last();
            let asks_itself = last.is_some_and(|it| matches!(**it, Message::Assistant(_)))
                && matches!(run.step(), Step::Ask { .. });
            prop_assert!(!asks_itself, "some providers refuse words of the model as the last");
        }
        run.apply(Input::Stop(CancelReason::Interrupted));
        prop_assert!(matches!(run.step(), Step::Done(_)));
        prop_assert_eq!(paired(&run), Ok(()));
    }

    #[test]
    fn no_answer_of_a_turn_is_lost(moves in moves()) {
        let mut run = started(7);
        let mut answers: Vec<String> = Vec::new();
        for step in &moves {
            let answered = matches!(run.step(), Step::Done(_)) && run.may_rest();
            match (step, run.step()) {
                (Move::Rest, _) if answered => {
                    answers.extend(run.answers().last().map(ToString::to_string));
                }
                (Move::Resume, Step::Done(_) | Step::Rest) | (Move::Message, Step::Done(_)) => {
                    answers.clear();
                }
                _ => {}
            }
            apply(&mut run, step);
            let text = run.text().unwrap_or_default();
            for answer in &answers {
                prop_assert!(text.contains(answer), "{answer:?} is lost after {step:?}: {text}");
            }
            if let Step::Done(end) = run.step() {
                prop_assert_eq!(end.text.as_deref().unwrap_or_default(), text);
            }
        }
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

fn is_summary(message: &Message) -> bool {
    matches!(message, Message::User(user) if user.text == "SUMMARY")
}

/// Checks a compaction: what stays is the same, in the same order, and stands where positions say.
fn check_compaction(
    before: &[Arc<Message>],
    limits: CompactionLimits,
    part: &ReplacedPart,
    run: &Run,
    last: &str,
) -> Result<(), TestCaseError> {
    let after = run.messages();
    prop_assert_eq!(after.len() + part.count(), before.len() + 1);
    let is_last = |it: &&Arc<Message>| matches!(&***it, Message::User(user) if user.text == last);
    // A request that arrived while calls were open follows their results.
    let count = |messages: &[Arc<Message>]| messages.iter().filter(is_last).count();
    prop_assert_eq!(count(after), count(before), "{}", show(run));
    prop_assert!(is_summary(&after[part.position_after(part.end) - 1]));
    for (at, message) in before.iter().enumerate().filter(|(_, it)| !is_summary(it)) {
        let stays = at < part.first || at >= part.end || part.kept.contains(&at);
        let now = after.get(part.position_after(at));
        prop_assert!(!stays || now.is_some_and(|now| Arc::ptr_eq(now, message)));
    }
    // The step that no model has answered stays, where it is not too large.
    let is_said = |it: &Arc<Message>| matches!(**it, Message::Assistant(_));
    if let Some(step) = before.iter().rposition(is_said) {
        let bytes: u64 = before[step..].iter().map(|it| it.text_bytes()).sum();
        prop_assert!(bytes > limits.step || part.end <= step, "{}", show(run));
    }
    Ok(())
}

/// Makes the moves and checks each compaction. Returns how many there were.
fn check_compactions(moves: &[Move]) -> Result<usize, TestCaseError> {
    let mut run = started(9);
    let (mut asked, mut compactions) = (0, 0);
    let mut last = "go".to_owned();
    for step in moves {
        if let Move::Message = step {
            asked += 1;
            last = format!("request {asked}");
            run.apply(Input::Message(&message(&last)));
            continue;
        }
        let before = run.messages().to_vec();
        let compaction = match step {
            Move::Compact(limits) => run.replaceable_part(*limits).map(|part| (*limits, part)),
            _ => None,
        };
        apply(&mut run, step);
        prop_assert_eq!(paired(&run), Ok(()), "after {:?}\n{}", step, show(&run));
        if let Some((limits, part)) = compaction {
            check_compaction(&before, limits, &part, &run, &last)?;
            compactions += 1;
        }
    }
    Ok(compactions)
}

#[test]
fn a_compaction_keeps_calls_paired_the_order_the_last_request_and_the_last_step() {
    // A conversation without a compaction is none of them.
    let cases = ProptestConfig::with_cases(10_000);
    let mut runner = TestRunner::new(ProptestConfig { max_global_rejects: 1_000, ..cases });
    let law = |moves: Vec<Move>| match check_compactions(&moves)? {
        0 => Err(TestCaseError::reject("no compaction")),
        _ => Ok(()),
    };
    runner.run(&long_moves(), law).unwrap();
}
