//! Branches and loops.

use super::{Evaluator, KnownOutput};
use crate::field::HOLE;
use crate::invocation::Input;
use crate::limits::LOOP_ROUNDS_MAX;
use crate::rule::FORK_BOMB;
use crate::syntax::{Command, SimpleCommand, Word};
use crate::word_expansion::{ExpansionHost as _, expand_words};

/// Runs `a || b`: the second part may not run.
pub(super) fn run_either(
    it: &mut Evaluator,
    first: &Command,
    second: &Command,
    input: &Input,
) -> KnownOutput {
    let printed = it.run(first, input);
    it.spend(16 * it.state.size());
    let before = it.state.clone();
    let other = it.if_at_all(|it| it.run(second, input));
    it.state.merge(&before);
    match (printed, other) {
        (Some(text), Some(other)) if text.is_empty() => Some(other),
        (Some(text), Some(_)) => Some(text),
        _ => None,
    }
}

/// Runs `for`: a round for each word, as far as they are known.
pub(super) fn run_for(
    it: &mut Evaluator,
    variable: &str,
    words: Option<&[Word]>,
    body: &[Command],
    input: &Input,
) -> KnownOutput {
    let values = match words {
        Some(words) => expand_words(it, words),
        None => it.state.values("@", None),
    };
    let mut values: Vec<String> = values;
    if values.len() > LOOP_ROUNDS_MAX {
        values.truncate(LOOP_ROUNDS_MAX);
        values.push(HOLE.to_string());
    }
    let mut printed = Some(String::new());
    for value in values {
        it.state.assign(variable, vec![value]);
        let more = it.if_at_all(|it| it.run_all(body, input));
        printed = printed.zip(more).map(|(text, more)| text + &more);
    }
    printed
}

/// Runs `while`: once as it begins, once with all unknown that a round changes.
pub(super) fn run_while(
    it: &mut Evaluator,
    condition: &[Command],
    body: &[Command],
    input: &Input,
) -> KnownOutput {
    it.spend(32 * it.state.size());
    let before = it.state.clone();
    it.run_all(condition, input);
    if is_endless(condition)
        && body.iter().any(|it| matches!(it, Command::Background(_)))
        && !has_pause(body)
    {
        it.findings.dangerous(&FORK_BOMB);
    }
    it.if_at_all(|it| it.run_all(body, input));
    it.state.forget_changes(&before);
    it.if_at_all(|it| {
        it.run_all(condition, input);
        it.run_all(body, input)
    });
    it.state.forget_changes(&before);
    None
}

fn is_endless(condition: &[Command]) -> bool {
    match condition {
        [] => true,
        [Command::Simple(simple)] => {
            first_word(simple).is_some_and(|it| matches!(it, ":" | "true" | "1"))
        }
        _ => false,
    }
}

fn has_pause(body: &[Command]) -> bool {
    let pauses = |it: &Command| match it {
        Command::Simple(simple) => {
            first_word(simple).is_some_and(|it| matches!(it, "sleep" | "wait" | "read" | "break"))
        }
        _ => false,
    };
    body.iter().any(pauses)
}

fn first_word(simple: &SimpleCommand) -> Option<&str> {
    match simple.words.first()?.pieces.as_slice() {
        [crate::syntax::Piece::Bare(text)] => Some(text),
        _ => None,
    }
}

/// Runs each body from the same state; what they leave in different states is unknown.
pub(super) fn run_branches(
    it: &mut Evaluator,
    conditions: &[Vec<Command>],
    bodies: &[Vec<Command>],
    input: &Input,
) -> KnownOutput {
    for condition in conditions {
        it.run_all(condition, input);
    }
    let before = it.state.clone();
    let mut merged = before.clone();
    for body in bodies {
        it.spend(16 * it.state.size());
        it.state = before.clone();
        it.if_at_all(|it| it.run_all(body, input));
        merged.merge(&it.state);
    }
    it.state = merged;
    None
}
