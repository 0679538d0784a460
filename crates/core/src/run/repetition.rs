//! Finds calls that repeat themselves with results that do not change.

use sha2::{Digest as _, Sha256};

use crate::message::{ToolCall, ToolResult};

/// The same call with the same result so many times in a row is a repetition.
const SAME_IN_A_ROW: usize = 5;
/// Cycles of up to so many calls are looked for.
const LONGEST_CYCLE: usize = 3;
/// A cycle gone through so many times is a repetition.
const CYCLE_ROUNDS: usize = 3;
/// How far back it remembers.
const MEMORY: usize = LONGEST_CYCLE * CYCLE_ROUNDS;

/// What a call is to the calls before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    /// Something new.
    New,
    /// A repetition, for the first time.
    Repeating,
    /// A repetition after the note about it.
    Stuck,
}

/// The last calls of a turn, by what was asked and what came back.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    last: Vec<[u8; 32]>,
    /// How many more calls the model has after the note: it sees the note only in its next
    /// step, and one more round of the cycle ends the turn.
    grace: Option<usize>,
}

impl Repetition {
    pub(super) fn saw(&mut self, call: &ToolCall, result: &ToolResult) -> Seen {
        self.last.push(signature(call, result));
        if self.last.len() > MEMORY {
            self.last.remove(0);
        }
        let Some(period) = self.period() else {
            self.grace = None;
            return Seen::New;
        };
        match &mut self.grace {
            None => {
                self.grace = Some(period);
                Seen::Repeating
            }
            Some(left) => {
                *left -= 1;
                if *left == 0 { Seen::Stuck } else { Seen::New }
            }
        }
    }

    /// The length of the cycle that the last calls go through, if they do.
    fn period(&self) -> Option<usize> {
        let rounds = |period: usize| if period == 1 { SAME_IN_A_ROW } else { CYCLE_ROUNDS };
        (1..=LONGEST_CYCLE).find(|&period| {
            let Some(start) = self.last.len().checked_sub(period * rounds(period)) else {
                return false;
            };
            let tail = self.last.get(start..).unwrap_or_default();
            tail.iter().zip(tail.iter().skip(period)).all(|(one, next)| one == next)
        })
    }
}

fn signature(call: &ToolCall, result: &ToolResult) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [&call.name, &call.arguments, &result.fingerprint] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update([result.status as u8]);
    hash.finalize().into()
}
