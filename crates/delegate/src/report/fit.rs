//! The entry of a child within its share of a result.
//!
//! Nothing of a result may be cut by its bytes: it would be no JSON, and the last children would
//! be lost. So each entry is made to fit: lists give way before the answer, those that tell least
//! first, and what is left out is counted.

use std::borrow::Cow;
use std::io::{self, Write};

use deputize_core::Outcome;
use serde::Serialize;
use serde_json::Value;

use super::entry::{ChildText, ListLimits, ReportEntry, beside_part, entry, error, said, value};
use super::{Audience, HostObservations, ReportShare, Truncation, unseen_writes};

/// How many characters of an error, and how many where there is hardly room.
const ERROR_CHARS: usize = 500;
const SHORT_ERROR_CHARS: usize = 120;
/// How many bytes of an answer are shown before the last of the lists go, where it has so many.
const ANSWER_LEAST: usize = 1000;
/// Below how many bytes for an answer it is shown without all that stands beside it in an entry.
const ANSWER_FEW: usize = 300;
/// Minimum part of a truncated answer that is shown from both ends, in bytes.
const BOTH_ENDS: usize = 400;
/// How many bytes of an answer may be behind one that is shown: the others cannot be seen.
const UNSEEN: usize = 4;
/// How many bytes every entry has: those of its keys.
pub(super) const LEAST_ENTRY: usize = 280;
/// How near to the most that fits an answer is cut, in bytes.
const NEAR: usize = 32;

/// How much of the lists a text has that names none of them.
pub(super) const PLAIN: ListLimits = ListLimits { error_chars: ERROR_CHARS, ..ListLimits::ALL };

const fn lists(trace: usize, receipts: usize, claims: usize) -> ListLimits {
    ListLimits { trace, receipts, claims, error_chars: ERROR_CHARS, session: true }
}

/// Limits of the lists beside a whole answer; the first that fits is used.
const BESIDE_ALL: [ListLimits; 7] = [
    lists(20, 20, usize::MAX),
    lists(5, 20, usize::MAX),
    lists(2, 20, usize::MAX),
    lists(2, 5, usize::MAX),
    lists(2, 2, usize::MAX),
    lists(2, 2, 20),
    lists(2, 2, 2),
];
/// Limits of the lists beside a part of the answer; the first that leaves enough room is used.
const BESIDE_PART: [ListLimits; 4] = [lists(2, 2, 2), lists(0, 2, 2), lists(0, 0, 2), NONE];
/// Where there is hardly room.
const NONE: ListLimits =
    ListLimits { error_chars: SHORT_ERROR_CHARS, session: false, ..lists(0, 0, 0) };

/// A child's entry, fitted to its share.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum FittedEntry<'a> {
    Entry(Box<ReportEntry<'a>>),
    Bare(MinimalEntry<'a>),
}

/// How it ended, and as much of what it came to as fits: where there is no room for an entry.
#[derive(Serialize)]
pub(super) struct MinimalEntry<'a> {
    task_index: u32,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    exit_reason: &'static str,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<UnseenWrites>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, str>>,
}

/// Number of files that the answer claims to have written and of which no write was seen. It is
/// always reported.
#[derive(Serialize)]
struct UnseenWrites {
    unseen_writes: usize,
}

/// The entry of the child at this place within its share, and what it leaves out.
pub(super) fn fit<'a>(
    index: u32,
    outcome: &'a Outcome,
    seen: HostObservations<'a>,
    share: ReportShare,
) -> (FittedEntry<'a>, Truncation) {
    let fitting = EntryFit::of(index, outcome, seen, share);
    let has_room = || fitting.least_bytes() <= share.bytes;
    // Of thousands of children none has room for an entry, and of a few each has it for all.
    let fitted = if share.bytes < LEAST_ENTRY {
        None
    } else {
        fitting.beside_all().or_else(|| has_room().then(|| fitting.beside_part()).flatten())
    };
    // The whole entry has the answer and its value too.
    let bare =
        || (FittedEntry::Bare(fitting.bare()), Truncation { bare: true, ..Truncation::default() });
    fitted.unwrap_or_else(bare)
}

#[cfg(test)]
pub(super) fn least_bytes(
    outcome: &Outcome,
    seen: HostObservations<'_>,
    share: ReportShare,
) -> usize {
    EntryFit::of(0, outcome, seen, share).least_bytes()
}

struct EntryFit<'a> {
    index: u32,
    outcome: &'a Outcome,
    seen: HostObservations<'a>,
    share: ReportShare,
    /// The answer within what any answer may have.
    said: Option<String>,
    /// The value, if it is within that too.
    value: Option<Value>,
    /// Its size in bytes.
    value_bytes: usize,
}

impl<'a> EntryFit<'a> {
    fn of(
        index: u32,
        outcome: &'a Outcome,
        seen: HostObservations<'a>,
        share: ReportShare,
    ) -> Self {
        let value = value(outcome);
        let value_bytes = value.as_ref().map_or(0, bytes);
        let where_whole = beside_part(index, outcome, seen);
        Self {
            said: said(outcome, &where_whole, share.summary_bytes, 0),
            value: value.filter(|_| value_bytes <= share.summary_bytes),
            value_bytes,
            index,
            outcome,
            seen,
            share,
        }
    }

    /// The entry with so much of the lists, with the value or without it, and without the answer.
    /// It names the file of the answer, which is dropped if that is shown whole.
    fn silent(&self, lists: ListLimits, with_value: bool) -> ReportEntry<'a> {
        let output = self.value.as_ref().filter(|_| with_value).cloned().map(Cow::Owned);
        let output_bytes = if output.is_some() { 0 } else { self.value_bytes };
        let words = ChildText { summary: None, output, output_bytes };
        entry(self.index, self.outcome, self.seen, Audience::Model(lists), words)
    }

    /// The bytes that every entry of this child has, however little is shown.
    fn least_bytes(&self) -> usize {
        let mut entry = self.naming_file(self.silent(NONE, false), false);
        entry.observed.left_out = None;
        entry.origin.error = None;
        bytes(&entry)
    }

    /// As much of the lists as there is room for beside the whole answer and its value.
    fn beside_all(&self) -> Option<(FittedEntry<'a>, Truncation)> {
        let said = self.said.as_ref().map_or(0, bytes);
        let fits = |entry: &ReportEntry<'a>| bytes(entry) + said <= self.share.bytes;
        let with = |lists| self.naming_file(self.silent(lists, true), self.is_long());
        let entry = BESIDE_ALL.into_iter().map(with).find(fits)?;
        Some(self.shown(entry, self.said.clone(), false))
    }

    /// As much of the answer as there is room for.
    fn beside_part(&self) -> Option<(FittedEntry<'a>, Truncation)> {
        let all = self.said.as_ref().map_or(0, bytes);
        let least = all.min(ANSWER_LEAST);
        let beside = |lists: ListLimits, with_value: bool| {
            let entry = self.silent(lists, with_value);
            let room = self.share.bytes.checked_sub(bytes(&entry));
            room.map(|room| (entry, room))
        };
        let enough = |found: &(ReportEntry<'a>, usize)| found.1 >= least;
        // The value before the lists: it is what was asked for.
        let choices = [true, false].into_iter().flat_map(|with| BESIDE_PART.map(|it| (it, with)));
        let (entry, room) = choices
            .filter_map(|(lists, with_value)| beside(lists, with_value))
            .find(enough)
            .or_else(|| beside(NONE, false))?;
        if all <= room {
            return Some(self.shown(entry, self.said.clone(), false));
        }
        if room < ANSWER_FEW {
            return None;
        }
        let where_whole = beside_part(self.index, self.outcome, self.seen);
        let part = self.part(room, &where_whole)?;
        Some(self.shown(entry, Some(part), true))
    }

    /// How it ended, why, and the value or as much of the answer as fits.
    fn bare(&self) -> MinimalEntry<'a> {
        let outcome = self.outcome;
        let unseen_writes = unseen_writes(outcome).len();
        let mut bare = MinimalEntry {
            task_index: self.seen.first.saturating_add(self.index),
            status: outcome.status.as_str(),
            summary: None,
            output: None,
            exit_reason: outcome.exit_reason.as_str(),
            agent: outcome.agent.as_str(),
            left_out: (unseen_writes > 0).then_some(UnseenWrites { unseen_writes }),
            error: error(outcome, Audience::Model(NONE)),
        };
        let most = self.share.bytes;
        if bytes(&bare) > most {
            bare.error = None;
        }
        let named = |name: &str, bare: &MinimalEntry<'_>| {
            // A comma, the name in quotes, and a colon.
            most.checked_sub(bytes(bare) + name.len() + 4)
        };
        match (&self.value, named("output", &bare)) {
            (Some(value), Some(room)) if self.value_bytes <= room => {
                bare.output = Some(value.clone());
            }
            _ => {
                let room = named("summary", &bare);
                let whole = self.said.clone().filter(|said| Some(bytes(said)) <= room);
                bare.summary = whole.or_else(|| self.part(room?, ""));
            }
        }
        bare
    }

    /// Returns as much of the answer as fits, with a remark that says so; `None` if not even that fits.
    fn part(&self, room: usize, where_whole: &str) -> Option<String> {
        let text = self.outcome.text.as_deref().unwrap_or_default();
        let most = self.share.summary_bytes;
        let at = |bytes_of_it: usize| {
            let said = said(self.outcome, where_whole, bytes_of_it, BOTH_ENDS.min(most))?;
            (bytes(&said) <= room).then_some(said)
        };
        let mut best = at(0)?;
        let mut low = 0;
        let mut high = text.len().min(most).min(room.saturating_mul(UNSEEN));
        while high - low > NEAR {
            let middle = low.midpoint(high);
            match at(middle) {
                Some(said) => (best, low) = (said, middle),
                None => high = middle,
            }
        }
        Some(best)
    }

    /// Returns whether the answer is longer than any may be.
    fn is_long(&self) -> bool {
        self.outcome.text.as_ref().is_some_and(|text| text.len() > self.share.summary_bytes)
    }

    /// Returns the entry with the file of the answer only where that is cut.
    fn naming_file(&self, mut entry: ReportEntry<'a>, cut: bool) -> ReportEntry<'a> {
        entry.files.summary_path = entry.files.summary_path.filter(|_| cut);
        entry
    }

    fn shown(
        &self,
        entry: ReportEntry<'a>,
        said: Option<String>,
        cut: bool,
    ) -> (FittedEntry<'a>, Truncation) {
        let left_out = Truncation {
            summary: cut || self.is_long(),
            output: self.value_bytes > 0 && entry.answer.output.is_none(),
            entry: entry.observed.left_out.is_some(),
            bare: false,
        };
        let mut entry = self.naming_file(entry, left_out.summary);
        entry.answer.summary = said.map(Cow::Owned);
        (FittedEntry::Entry(Box::new(entry)), left_out)
    }
}

/// A sink that only counts.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the size of a value as JSON, in bytes.
pub(super) fn bytes(value: &(impl Serialize + ?Sized)) -> usize {
    let mut count = ByteCounter(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // Then it is nothing that fits.
        Err(_) => usize::MAX,
    }
}
