//! From the ends of children to what their parent is told: pure.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use deputize_core::door::to_line;
use deputize_core::{AgentId, AgentView, ContextUse, FillError, Outcome, ToolOutput, fill};
use serde::Serialize;
use serde_json::Value;

use crate::policy::Policy;

mod entry;
mod plain;

pub(crate) use plain::plain;

use entry::{Entry, LeftOut, entry};

const STALE: &str = include_str!("../prompts/stale.md");
const UNSEEN: &str = include_str!("../prompts/unseen.md");

/// How many entries of a trace or a receipt the model is shown.
const SHOWN_ENTRIES: usize = 20;
/// How many of them for all children of a call together, so that a large batch stays readable.
const SHOWN_ENTRIES_IN_ALL: usize = 200;
/// How many it is shown of every child all the same.
const SHOWN_ENTRIES_LEAST: usize = 2;
/// How many bytes the answers of all children of a call may have together.
const SUMMARIES_BYTES: usize = 256 * 1024;
/// How many bytes of one answer are shown however little room there is.
const SUMMARY_LEAST: usize = 2000;
/// How many bytes of an answer take one token of the parent's context, at least.
const BYTES_PER_TOKEN: u64 = 3;
/// How many bytes of names a note about stale files may have; more files are counted.
const NOTE_BYTES: usize = 1500;
/// How many characters of a name (tool, model), a path or a command, and an error.
const NAME_CHARS: usize = 80;
const PATH_CHARS: usize = 400;
const NOTE_PATH_CHARS: usize = 200;
const ERROR_CHARS: usize = 500;

/// A file that the parent had read and that is something else since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Which agent wrote it; nothing: a command did, or another program.
    pub by: Option<AgentId>,
    /// Whether it is no longer there.
    pub gone: bool,
}

/// Where more is of a child than its parent is shown: absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// The whole answer, where it is cut.
    pub summary: Option<PathBuf>,
    /// The whole entry, where its lists are cut.
    pub whole: Option<PathBuf>,
    /// What is to be known of a child that timed out before it began.
    pub diagnostic: Option<PathBuf>,
}

/// What the host saw beside the outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen<'a> {
    /// The place of the first child in its call, from 0.
    pub first: u32,
    /// Files that the parent must read again.
    pub stale: &'a [StaleFile],
    /// For each child, the files that its answer names as written and of which no write was
    /// seen.
    pub unseen: &'a [Vec<String>],
    /// For each child, where more of it is.
    pub kept: &'a [Kept],
    /// What was read otherwise than written.
    pub warnings: &'a [String],
}

impl<'a> Seen<'a> {
    fn unseen_of(&self, index: usize) -> &'a [String] {
        self.unseen.get(index).map_or(&[], Vec::as_slice)
    }
}

/// How the ends of children are told to their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps<'a> {
    /// Bytes of one child's answer; 0: as many as there is room for.
    pub summary_bytes: u32,
    /// Bytes that the parent's context has room for, where that is known: the answers of all
    /// children of a call get half of it.
    pub room_bytes: Option<usize>,
    /// The directory that paths in notes are told from.
    pub cwd: &'a Path,
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<Entry<'a>>,
    total_duration_seconds: f64,
    warnings: &'a [String],
}

impl<'a> Caps<'a> {
    /// Those of a call of this agent.
    pub(crate) fn of(agent: &'a AgentView, policy: &Policy) -> Self {
        let room = || {
            let (provider, _) = agent.spec.model.split_once('/')?;
            let window = u64::from(*policy.context_windows.get(provider)?);
            let used = agent.store.get_or_insert_with(ContextUse::default).tokens()?;
            let free = window.saturating_sub(used).saturating_mul(BYTES_PER_TOKEN);
            Some(usize::try_from(free).unwrap_or(usize::MAX))
        };
        let room_bytes = room();
        Self { summary_bytes: policy.max_summary_bytes, room_bytes, cwd: &agent.spec.cwd }
    }
}

/// How much is told.
#[derive(Clone, Copy)]
enum Audience {
    /// Everything, as it is.
    Host,
    /// Within bounds, and so that content cannot pass for anything else.
    Model(Share),
}

/// What one child of a call may take of the result.
#[derive(Clone, Copy)]
struct Share {
    summary_bytes: usize,
    entries: usize,
}

impl Share {
    fn of(children: usize, caps: Caps<'_>) -> Self {
        let children = children.max(1);
        let room = caps.room_bytes.map(|room| (room / 2 / children).max(SUMMARY_LEAST));
        let all = room.unwrap_or(usize::MAX).min(SUMMARIES_BYTES / children);
        Self {
            summary_bytes: match caps.summary_bytes {
                0 => all,
                most => all.min(most as usize),
            },
            entries: (SHOWN_ENTRIES_IN_ALL / children).clamp(SHOWN_ENTRIES_LEAST, SHOWN_ENTRIES),
        }
    }
}

impl Audience {
    /// A word from elsewhere.
    fn word<'t>(self, text: &'t str, most: usize) -> Cow<'t, str> {
        match self {
            Self::Host => Cow::Borrowed(text),
            Self::Model(_) => Cow::Owned(to_line(text, most)),
        }
    }

    fn path<'t>(self, path: &'t Path) -> Cow<'t, str> {
        match self {
            Self::Host => path.to_string_lossy(),
            Self::Model(_) => Cow::Owned(to_line(&path.to_string_lossy(), PATH_CHARS)),
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Host => usize::MAX,
            Self::Model(share) => share.entries,
        }
    }
}

/// The entry of one child as hooks and `--output json` get it: whole and unframed, with what the
/// host found out at its end.
#[must_use]
pub fn result_entry(outcome: &Outcome, index: u32) -> Value {
    let found = outcome.found.as_deref().cloned().unwrap_or_default();
    let changed = |path| StaleFile { path, by: Some(outcome.agent.clone()), gone: false };
    let stale: Vec<StaleFile> = found.stale_paths.into_iter().map(changed).collect();
    let (summary, diagnostic) = (found.summary_path, found.diagnostic_path);
    let (kept, unseen) = ([Kept { summary, whole: None, diagnostic }], [found.unseen_writes]);
    let (stale, unseen, kept) = (&stale[..], &unseen[..], &kept[..]);
    let seen = Seen { first: index, stale, unseen, kept, warnings: &[] };
    serde_json::to_value(entry(0, outcome, seen, Audience::Host)).unwrap_or_default()
}

/// What of a child its parent is not shown whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) summary: bool,
    pub(crate) entries: bool,
}

/// What a report for so many children leaves out of one.
pub(crate) fn cut(outcome: &Outcome, children: usize, caps: Caps<'_>) -> Cut {
    let share = Share::of(children, caps);
    Cut {
        summary: outcome.text.as_ref().is_some_and(|text| text.len() > share.summary_bytes),
        entries: LeftOut::of(outcome, Audience::Model(share), None).any(),
    }
}

/// The result of a call: an entry per child in the order of the tasks, and the notes of the
/// host, which content cannot imitate because they stand outside every frame.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub fn report(
    outcomes: &[Outcome],
    seen: Seen<'_>,
    total_ms: u64,
    caps: Caps<'_>,
) -> Result<ToolOutput, FillError> {
    let share = Share::of(outcomes.len(), caps);
    let results = Results {
        results: (0..)
            .zip(outcomes)
            .map(|(index, outcome)| entry(index, outcome, seen, Audience::Model(share)))
            .collect(),
        total_duration_seconds: seconds(total_ms),
        warnings: seen.warnings,
    };
    let content = serde_json::to_string(&results).unwrap_or_else(|error| error.to_string());
    let mut output = ToolOutput::text(content);
    output.notes = notes(outcomes, seen, caps.cwd)?;
    Ok(output)
}

/// What the host has to say of the children, where content cannot imitate it.
fn notes(outcomes: &[Outcome], seen: Seen<'_>, cwd: &Path) -> Result<Vec<String>, FillError> {
    let mut notes: Vec<String> = stale_note(seen.stale, cwd)?.into_iter().collect();
    for (outcome, unseen) in outcomes.iter().zip(seen.unseen) {
        if !unseen.is_empty() {
            let files: Vec<String> =
                unseen.iter().map(|path| format!("`{}`", to_line(path, NOTE_PATH_CHARS))).collect();
            let values = [("agent", outcome.agent.as_str()), ("files", &files.join(", "))];
            notes.push(fill(UNSEEN.trim_end(), &values)?);
        }
    }
    Ok(notes)
}

/// What the parent is told of files that it had read; nothing when there are none.
fn stale_note(stale: &[StaleFile], cwd: &Path) -> Result<Option<String>, FillError> {
    if stale.is_empty() {
        return Ok(None);
    }
    let mut files = String::new();
    for (index, file) in stale.iter().enumerate() {
        if files.len() > NOTE_BYTES {
            let more = stale.len() - index;
            files = format!("{files} and {more} more (see `stale_paths`)");
            break;
        }
        let path = file.path.strip_prefix(cwd).unwrap_or(&file.path).to_string_lossy();
        let path = to_line(&path, NOTE_PATH_CHARS);
        let comma = if index == 0 { "" } else { ", " };
        let by = file.by.as_ref().map_or("a command or another program", AgentId::as_str);
        let how = if file.gone { "deleted by" } else { "by" };
        files = format!("{files}{comma}`{path}` ({how} {by})");
    }
    fill(STALE.trim_end(), &[("files", &files)]).map(Some)
}

/// The files that a child, or an agent below it, wrote, and those that nobody is known to have
/// written while it ran commands.
fn stale_of<'a>(
    outcome: &'a Outcome,
    stale: &'a [StaleFile],
) -> impl Iterator<Item = &'a StaleFile> {
    stale.iter().filter(move |file| file.is_of(outcome))
}

impl StaleFile {
    /// Whether a child, or an agent below it, changed it, as far as that is known. Of an external
    /// program nothing is seen: it may have run anything.
    pub(crate) fn is_of(&self, outcome: &Outcome) -> bool {
        match &self.by {
            Some(by) => is_of(by, &outcome.agent),
            None => outcome.external || !outcome.receipts.commands.is_empty(),
        }
    }
}

/// The beginning and the end of a text that is longer than `most` bytes: three quarters and one
/// quarter of that, whole lines where this keeps most of them.
fn ends(text: &str, most: usize) -> (&str, &str) {
    let (for_head, for_tail) = (most - most / 4, most / 4);
    let head = text.get(..text.floor_char_boundary(for_head)).unwrap_or_default();
    let head = match head.rfind('\n') {
        Some(end) if end > for_head / 2 => head.get(..=end).unwrap_or(head),
        _ => head,
    };
    let tail = text.get(text.ceil_char_boundary(text.len() - for_tail)..).unwrap_or_default();
    let tail = match tail.find('\n') {
        Some(start) if start < for_tail / 2 => tail.get(start + 1..).unwrap_or(tail),
        _ => tail,
    };
    (head, tail)
}

/// Whether an agent is that one or below it.
fn is_of(agent: &AgentId, top: &AgentId) -> bool {
    agent == top || agent.ancestors().any(|above| above == *top)
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
