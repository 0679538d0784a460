//! Detects repeated calls whose results do not change.

use sha2::{Digest as _, Sha256};

use crate::message::{ToolCall, ToolResult};

/// The same call with the same result this many times in a row is a repetition.
const SAME_IN_A_ROW: usize = 5;
/// Longest cycle of calls that is detected.
const LONGEST_CYCLE: usize = 3;
/// A cycle repeated this many times is a repetition.
const CYCLE_ROUNDS: usize = 3;
/// Number of calls that are remembered.
const MEMORY: usize = LONGEST_CYCLE * CYCLE_ROUNDS;

/// How the calls of a step relate to the calls before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepNovelty {
    /// Something new, or part of a cycle that is not complete yet.
    Progress,
    /// A repetition, for the first time.
    Repeating,
    /// Another round of it after the note about it.
    Stuck,
}

/// The last calls of a turn, identified by their arguments and results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Repetition {
    last: Vec<[u8; 32]>,
    /// Number of calls since the note, if there was one.
    since_note: Option<usize>,
    /// Number of consecutive last calls that could not be parsed.
    unreadable: usize,
}

impl Repetition {
    /// Records a call and its result.
    pub(super) fn record(&mut self, call: &ToolCall, result: &ToolResult) {
        self.last.push(signature(call, result));
        self.unreadable = if call.is_unreadable() { self.unreadable + 1 } else { 0 };
        if self.last.len() > MEMORY {
            self.last.remove(0);
        }
        if let Some(calls) = &mut self.since_note {
            *calls += 1;
        }
    }

    /// Returns the number of consecutive calls that could not be parsed, once it exceeds the number
    /// at which the model is warned.
    pub(super) fn unreadable_calls(&self) -> Option<usize> {
        Some(self.unreadable).filter(|calls| *calls > SAME_IN_A_ROW)
    }

    /// Judges the calls at the end of a step: the model sees a note only in its next one.
    pub(super) fn judge(&mut self) -> StepNovelty {
        match (self.period(), self.since_note) {
            (None, _) => {
                self.since_note = None;
                StepNovelty::Progress
            }
            (Some(_), None) => {
                self.since_note = Some(0);
                StepNovelty::Repeating
            }
            (Some(period), Some(calls)) if calls >= period => StepNovelty::Stuck,
            (Some(_), Some(_)) => StepNovelty::Progress,
        }
    }

    /// Returns the length of the cycle that the last calls repeat, if any.
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

/// Identifies a call with its result. All calls that could not be parsed are equal: their arguments
/// are the text written instead of a call.
fn signature(call: &ToolCall, result: &ToolResult) -> [u8; 32] {
    let mut hash = Sha256::new();
    let parts = [call.name.as_str(), &call.arguments, &result.fingerprint];
    for part in parts.into_iter().take(if call.is_unreadable() { 0 } else { parts.len() }) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update([result.status as u8]);
    hash.finalize().into()
}
