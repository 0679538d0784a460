//! Loops that start processes.

use crate::findings::Findings;
use crate::rule::FORK_BOMB;
use crate::syntax::{Command, Piece, SimpleCommand};

/// Judges a loop that runs while its condition holds.
pub(crate) fn judge_loop(condition: &[Command], body: &[Command], findings: &mut Findings) {
    let starts = body.iter().any(|it| matches!(it, Command::Background(_)));
    if is_endless(condition) && starts && !has_pause(body) {
        findings.dangerous(&FORK_BOMB);
    }
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
        [Piece::Bare(text)] => Some(text),
        _ => None,
    }
}
