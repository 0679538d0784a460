//! The report of a call: from the ends of children to what their parent reads. Pure.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use deputize_core::context_use::ContextUse;
use deputize_core::prompt::{FillError, fill};
use deputize_core::sanitize::{for_exact_line, for_terminal_line};
use deputize_core::truncate::{tail_lines, truncate_lines};
use deputize_core::{AgentId, AgentView, Outcome, ToolOutput};
use serde::Serialize;
use serde_json::Value;

use crate::config::{DelegationConfig, ToolFlavor};
use crate::file_snapshot::StaleFile;

mod entry;
mod fit;
mod plain;

pub(crate) use entry::host_value;
pub(crate) use plain::lay_out_plain;

use entry::{ChildText, ListLimits, ReportEntry, entry};
use fit::{FittedEntry, fit};

const STALE: &str = include_str!("../prompts/stale.md");
const UNSEEN: &str = include_str!("../prompts/unseen.md");

/// Limit on a whole result with its notes, in bytes. The runtime allows a little more, for its
/// frame.
const RESULT_BYTES: usize = 480 * 1024;
/// Minimum size of a result, and of each entry, in bytes.
const RESULT_LEAST: usize = 4000;
const ENTRY_LEAST: usize = 800;
/// The notes of the host may have one part of a result in so many, and so may its warnings.
const ASIDE: usize = 8;
/// Size of the text around entries and warnings, with one more note, in bytes.
const AROUND: usize = 300;
/// Size of the runtime's marks around a note, in bytes.
const AROUND_NOTE: usize = 3;
/// Limit on a sentence that counts the rest of a list, in bytes.
const COUNTED: usize = 160;
/// Bytes of an answer per token of the parent's context, at least.
const BYTES_PER_TOKEN: u64 = 3;
/// Limit on the names in a note about stale files, in bytes; more files are counted.
const NOTE_BYTES: usize = 1500;
/// How many characters of a name (tool, model), a path or a command, and an error.
const NAME_CHARS: usize = 80;
const PATH_CHARS: usize = 400;
const NOTE_PATH_CHARS: usize = 200;
const WARNING_CHARS: usize = 2000;

/// Where more is of a child than its parent is shown: absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedOutput {
    /// The whole answer, where it is cut.
    pub summary: Option<PathBuf>,
    /// The whole entry, where something of it is left out.
    pub whole: Option<PathBuf>,
    /// The value of the answer, where it is left out.
    pub output: Option<PathBuf>,
    /// Diagnostic file of a child that timed out before it began.
    pub diagnostic: Option<PathBuf>,
}

/// The host's observations beside the outcomes, and the findings at the ends of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostObservations<'a> {
    /// The place of the first child in its call, from 0.
    pub first: u32,
    /// Files that the parent must read again.
    pub stale: &'a [StaleFile],
    /// For each child, where more of it is.
    pub saved_outputs: &'a [SavedOutput],
    /// The file with the whole entries, one a line, of the children for whose entries there is no
    /// room.
    pub results: Option<&'a Path>,
    /// Deviations from the text of the call.
    pub warnings: &'a [String],
    /// Command that shows the conversation of an agent, see
    /// [`DelegationHost::transcript_command`](crate::DelegationHost::transcript_command).
    pub transcript_command: &'a str,
}

impl<'a> HostObservations<'a> {
    fn saved_output(&self, index: u32) -> Option<&'a SavedOutput> {
        self.saved_outputs.get(index as usize)
    }

    /// Returns the command that shows the conversation of an agent, in backticks.
    fn transcript_of(&self, session: &str, agent: &str) -> Option<String> {
        let command = transcript_of(self.transcript_command, session, agent);
        command.map(|command| format!("`{command}`"))
    }
}

/// Returns the command that shows the conversation of an agent, if the host has one.
pub(crate) fn transcript_of(command: &str, session: &str, agent: &str) -> Option<String> {
    let command = command.replace("{session}", session).replace("{agent}", agent);
    (!command.is_empty()).then_some(command)
}

/// Limits of the report to a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportLimits<'a> {
    /// Bytes of one child's answer; 0: as many as there is room for.
    pub summary_bytes: u32,
    /// Bytes that the parent's context has room for, where that is known: the result of a call
    /// gets half of it.
    pub room_bytes: Option<usize>,
    /// The directory that paths in notes are relative to.
    pub cwd: &'a Path,
}

#[derive(Serialize)]
struct ReportBody<'a> {
    results: Vec<FittedEntry<'a>>,
    total_duration_seconds: f64,
    warnings: Vec<String>,
}

impl<'a> ReportLimits<'a> {
    /// Those of a call of this agent.
    pub(crate) fn of(agent: &'a AgentView, config: &DelegationConfig) -> Self {
        let room = || {
            let (provider, _) = agent.spec.model.split_once('/')?;
            let window = u64::from(*config.models.context_windows.get(provider)?);
            let used = agent.store.get_or_insert_with(ContextUse::default).tokens()?;
            let free = window.saturating_sub(used).saturating_mul(BYTES_PER_TOKEN);
            Some(usize::try_from(free).unwrap_or(usize::MAX))
        };
        let room_bytes = room();
        Self { summary_bytes: config.limits.max_summary_bytes, room_bytes, cwd: &agent.spec.cwd }
    }

    /// The bytes of a whole result for so many children.
    fn whole(self, children: usize) -> usize {
        let room = self.room_bytes.map_or(RESULT_BYTES, |room| room / 2);
        let least = children.saturating_mul(ENTRY_LEAST).max(RESULT_LEAST);
        room.max(least).min(RESULT_BYTES)
    }

    /// The bytes of an answer that stands alone, beside its notes.
    pub(crate) fn plain(self) -> usize {
        let whole = self.whole(1);
        self.answer().min(whole - whole / ASIDE * 2)
    }

    /// The bytes of one answer in the report of a call with so many children.
    pub(crate) fn answer_of(self, children: usize, form: ToolFlavor) -> usize {
        match form {
            ToolFlavor::Task => self.plain(),
            ToolFlavor::DelegateTask => {
                let share = ReportShare::of(children, 0, self);
                share.summary_bytes.min(share.bytes)
            }
        }
    }

    /// The bytes of one answer.
    fn answer(self) -> usize {
        match self.summary_bytes {
            0 => usize::MAX,
            most => most as usize,
        }
    }
}

/// Reader of the report.
#[derive(Clone, Copy)]
enum Audience {
    /// Everything: the child's words as a person may see them, what the host saw as it is.
    Host,
    /// So much of the lists, and so that content cannot pass for anything else.
    Model(ListLimits),
}

/// One child's share of the result.
#[derive(Clone, Copy)]
struct ReportShare {
    /// All of its entry.
    bytes: usize,
    summary_bytes: usize,
}

impl ReportShare {
    /// Divides the room that the text around the entries leaves.
    fn of(children: usize, aside: usize, caps: ReportLimits<'_>) -> Self {
        let children = children.max(1);
        let entries = caps.whole(children).saturating_sub(aside + AROUND);
        Self { bytes: (entries / children).saturating_sub(1), summary_bytes: caps.answer() }
    }
}

impl Audience {
    /// A word from elsewhere.
    fn word<'t>(self, text: &'t str, most: usize) -> Cow<'t, str> {
        match self {
            Self::Host => Cow::Borrowed(text),
            Self::Model(_) => Cow::Owned(for_terminal_line(text, most)),
        }
    }

    fn path<'t>(self, path: &'t Path) -> Cow<'t, str> {
        match self {
            Self::Host => path.to_string_lossy(),
            Self::Model(_) => Cow::Owned(for_exact_line(&path.to_string_lossy(), PATH_CHARS)),
        }
    }

    /// A command or a name, in which each character counts.
    fn exact<'t>(self, text: &'t str, most: usize) -> Cow<'t, str> {
        match self {
            Self::Host => Cow::Borrowed(text),
            Self::Model(_) => Cow::Owned(for_exact_line(text, most)),
        }
    }

    fn lists(self) -> ListLimits {
        match self {
            Self::Host => ListLimits::ALL,
            Self::Model(lists) => lists,
        }
    }
}

/// Returns the entry of one child as hooks and `--output json` get it: whole and unframed, with what the
/// host found out at its end. The child's words are without what a terminal would obey or not show:
/// who reads them out of the entry prints them.
#[must_use]
pub fn result_entry(outcome: &Outcome, index: u32) -> Value {
    read_entry(outcome, index, |entry| serde_json::to_value(entry).unwrap_or_default())
}

/// Returns the same as a line of JSON, without a tree of values between.
pub(crate) fn result_line(outcome: &Outcome, index: u32) -> String {
    read_entry(outcome, index, |entry| serde_json::to_string(entry).unwrap_or_default())
}

fn read_entry<T>(outcome: &Outcome, index: u32, read: fn(&ReportEntry<'_>) -> T) -> T {
    let found = outcome.inspection.as_deref();
    let stale = found.map(|found| found.stale_paths.clone()).unwrap_or_default();
    let changed = |path| StaleFile { path, by: Some(outcome.agent.clone()), gone: false };
    let stale: Vec<StaleFile> = stale.into_iter().map(changed).collect();
    let kept = [SavedOutput {
        summary: found.and_then(|found| found.summary_path.clone()),
        diagnostic: found.and_then(|found| found.diagnostic_path.clone()),
        ..SavedOutput::default()
    }];
    let seen = HostObservations {
        first: index,
        stale: &stale,
        saved_outputs: &kept,
        ..Default::default()
    };
    let words = ChildText::whole(outcome);
    read(&entry(0, outcome, seen, Audience::Host, words))
}

/// Truncated parts of a child's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Truncation {
    /// A part of the answer.
    pub(crate) summary: bool,
    /// The value of the answer.
    pub(crate) output: bool,
    /// Anything at all beside the answer.
    pub(crate) entry: bool,
    /// All but how the child ended and a part of its answer.
    pub(crate) bare: bool,
}

/// A report as it is laid out: within its bound whatever the children did. What is left out of an
/// entry is counted in it, with its place.
pub(crate) struct ReportLayout<'a> {
    results: Vec<FittedEntry<'a>>,
    truncations: Vec<Truncation>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> ReportLayout<'a> {
    /// Lays out a report. Of the files that are kept it names those of what it leaves out.
    ///
    /// # Errors
    /// When a template of this crate and its values do not fit.
    pub(crate) fn new(
        outcomes: &'a [Outcome],
        seen: HostObservations<'a>,
        limits: ReportLimits<'_>,
    ) -> Result<Self, FillError> {
        let most = limits.whole(outcomes.len()) / ASIDE;
        let mut notes = notes(outcomes, seen, limits.cwd, most)?;
        let warnings = short(seen.warnings, most);
        let of_notes: usize = notes.iter().map(|note| note.len() + AROUND_NOTE).sum();
        let of_warnings: usize = warnings.iter().map(|warning| fit::bytes(warning) + 1).sum();
        let share = ReportShare::of(outcomes.len(), of_notes + of_warnings, limits);
        let fitted = (0..).zip(outcomes).map(|(index, outcome)| fit(index, outcome, seen, share));
        let (results, truncations): (Vec<FittedEntry<'a>>, Vec<Truncation>) = fitted.unzip();
        let bare = results.iter().filter(|shown| matches!(shown, FittedEntry::Bare(_))).count();
        notes.extend((bare > 0).then(|| bare_entries_note(bare, outcomes, seen)));
        Ok(Self { results, truncations, notes, warnings })
    }

    /// Returns what it leaves out of each child.
    pub(crate) fn truncations(&self) -> &[Truncation] {
        &self.truncations
    }

    /// Returns the result of the call: an entry for each child in the order of the tasks, and the
    /// notes of the host, which content cannot imitate because they stand outside every frame.
    pub(crate) fn into_output(self, total_ms: u64) -> ToolOutput {
        let Self { results, notes, warnings, .. } = self;
        let body = ReportBody { results, total_duration_seconds: seconds(total_ms), warnings };
        let content = serde_json::to_string(&body).unwrap_or_else(|error| error.to_string());
        ToolOutput { notes, ..ToolOutput::text(content) }
    }
}

/// Reports the ends of the children of a call, as their parent reads it.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub fn report(
    outcomes: &[Outcome],
    seen: HostObservations<'_>,
    total_ms: u64,
    limits: ReportLimits<'_>,
) -> Result<ToolOutput, FillError> {
    Ok(ReportLayout::new(outcomes, seen, limits)?.into_output(total_ms))
}

/// Returns the note on entries that only have room for how a child ended and a part of its answer.
fn bare_entries_note(bare: usize, outcomes: &[Outcome], seen: HostObservations<'_>) -> String {
    let session = outcomes.first().and_then(|outcome| outcome.agent.as_str().split('/').next());
    let results = seen.results.map(|path| for_exact_line(&path.to_string_lossy(), PATH_CHARS));
    let whole = match results {
        Some(path) => format!("all of it is in `{path}`, one child a line"),
        None => match seen.transcript_of(session.unwrap_or_default(), "AGENT") {
            Some(command) => format!("{command} shows all of it"),
            None => "the session's record has all of it".to_owned(),
        },
    };
    format!(
        "{bare} of {} entries have room only for the status and part of the answer: {whole}",
        outcomes.len()
    )
}

/// Warnings within so many bytes; more are counted.
fn short(warnings: &[String], most: usize) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    let mut room = most.saturating_sub(COUNTED);
    for (index, warning) in warnings.iter().enumerate() {
        let warning = for_terminal_line(warning, WARNING_CHARS);
        match room.checked_sub(fit::bytes(&warning) + 1) {
            Some(rest) => room = rest,
            None => {
                shown.push(format!("and {} more, for want of room", warnings.len() - index));
                break;
            }
        }
        shown.push(warning);
    }
    shown
}

/// Returns the host's notes on the children, where content cannot imitate them, within a limit in
/// bytes.
fn notes(
    outcomes: &[Outcome],
    seen: HostObservations<'_>,
    cwd: &Path,
    most: usize,
) -> Result<Vec<String>, FillError> {
    let mut notes: Vec<String> = stale_note(seen.stale, cwd, most)?.into_iter().collect();
    let mut room = most.saturating_sub(notes.iter().map(String::len).sum::<usize>() + COUNTED);
    let all = outcomes.iter().map(|outcome| (outcome, unseen_writes(outcome)));
    let all: Vec<(&Outcome, &[String])> = all.filter(|(_, unseen)| !unseen.is_empty()).collect();
    for (index, (outcome, unseen)) in all.iter().enumerate() {
        let files =
            unseen.iter().map(|path| format!("`{}`", for_exact_line(path, NOTE_PATH_CHARS)));
        let files = listed(files, "unseen_writes", NOTE_BYTES);
        let note =
            fill(UNSEEN.trim_end(), &[("agent", outcome.agent.as_str()), ("files", &files)])?;
        match room.checked_sub(note.len() + AROUND_NOTE) {
            Some(rest) => room = rest,
            None => {
                let more = all.len() - index;
                notes.push(format!(
                    "of {more} children more no write of files that they name was seen (see their \
                     `unseen_writes`)"
                ));
                break;
            }
        }
        notes.push(note);
    }
    Ok(notes)
}

/// Names with commas, within about so many bytes; of more, how many, and which field has them.
fn listed(names: impl ExactSizeIterator<Item = String>, field: &str, most: usize) -> String {
    let all = names.len();
    let mut text = String::new();
    for (index, name) in names.enumerate() {
        if index > 0 && text.len() + name.len() > most {
            return format!("{text} and {} more (see `{field}`)", all - index);
        }
        let comma = if index == 0 { "" } else { ", " };
        text = format!("{text}{comma}{name}");
    }
    text
}

/// Returns the note about stale files; `None` if there are none.
fn stale_note(stale: &[StaleFile], cwd: &Path, most: usize) -> Result<Option<String>, FillError> {
    if stale.is_empty() {
        return Ok(None);
    }
    let files = stale.iter().map(|file| {
        let path = file.path.strip_prefix(cwd).unwrap_or(&file.path).to_string_lossy();
        let by = file.by.as_ref().map_or("a command or another program", AgentId::as_str);
        let how = if file.gone { "deleted or renamed by" } else { "by" };
        format!("`{}` ({how} {by})", for_exact_line(&path, NOTE_PATH_CHARS))
    });
    let files = listed(files, "stale_paths", NOTE_BYTES.min(most));
    fill(STALE.trim_end(), &[("files", &files)]).map(Some)
}

/// Returns the files that an answer names, that do not exist, and of which no write was seen.
fn unseen_writes(outcome: &Outcome) -> &[String] {
    outcome.inspection.as_ref().map_or(&[], |found| &found.unseen_writes)
}

/// The files that a child, or an agent below it, wrote, and those that nobody is known to have
/// written while it ran commands.
fn stale_of<'a>(
    outcome: &'a Outcome,
    stale: &'a [StaleFile],
) -> impl Iterator<Item = &'a StaleFile> {
    stale.iter().filter(move |file| file.is_of(outcome))
}

/// The beginning and the end of a text that is longer than `most` bytes: three quarters and one
/// quarter of that, whole lines where this keeps most of them.
fn ends(text: &str, most: usize) -> (&str, &str) {
    let for_head = most - most / 4;
    let for_tail = most / 4;
    (truncate_lines(text, for_head), tail_lines(text, for_tail))
}

/// Seconds to the hundredth.
fn seconds(ms: u64) -> f64 {
    let hundredths = ms.saturating_add(5) / 10;
    #[expect(clippy::cast_precision_loss, reason = "no run takes ten million years")]
    let hundredths = hundredths as f64;
    hundredths / 100.0
}

#[cfg(test)]
mod tests;
