//! From the ends of children to what their parent is told: pure.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use deputize_core::door::{Source, quote, to_line};
use deputize_core::{AgentId, FillError, Outcome, Status, ToolOutput, ToolTrace, fill};
use serde::Serialize;
use serde_json::Value;

const STALE: &str = include_str!("../prompts/stale.md");

/// How many entries of a trace or a receipt the model is shown.
const SHOWN_ENTRIES: usize = 20;
/// How many of them for all children of a call together, so that a large batch stays readable.
const SHOWN_ENTRIES_IN_ALL: usize = 200;
/// How many it is shown of every child all the same.
const SHOWN_ENTRIES_LEAST: usize = 2;
/// How many bytes the answers of all children of a call may have together.
const SUMMARIES_BYTES: usize = 256 * 1024;
/// How many bytes of names a note about stale files may have; more files are counted.
const NOTE_BYTES: usize = 1500;
/// How many characters of a name (tool, model), a path or a command, and an error.
const NAME_CHARS: usize = 80;
const PATH_CHARS: usize = 400;
const NOTE_PATH_CHARS: usize = 200;
const ERROR_CHARS: usize = 500;

/// A file that the parent had read and that an agent below it has written since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Who wrote it.
    pub by: AgentId,
}

/// How the ends of children are told to their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps<'a> {
    /// Bytes of one child's answer; 0: as many as there is room for.
    pub summary_bytes: u32,
    /// The directory that paths in notes are told from.
    pub cwd: &'a Path,
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<Entry<'a>>,
    total_duration_seconds: f64,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Entry<'a> {
    task_index: u32,
    status: &'static str,
    summary: Option<Cow<'a, str>>,
    exit_reason: &'static str,
    api_calls: u32,
    duration_seconds: f64,
    model: Cow<'a, str>,
    tokens: Tokens,
    cost_usd: Option<f64>,
    tool_trace: Vec<TraceLine<'a>>,
    receipts: ReceiptLines<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stale_paths: Vec<Cow<'a, str>>,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, str>>,
}

/// Of the child and its descendants.
#[derive(Serialize)]
struct Tokens {
    input: u64,
    cached: u64,
    output: u64,
}

#[derive(Serialize)]
struct TraceLine<'a> {
    tool: Cow<'a, str>,
    args_bytes: u64,
    result_bytes: u64,
    status: &'static str,
}

#[derive(Serialize)]
struct ReceiptLines<'a> {
    files_written: Vec<FileLine<'a>>,
    commands: Vec<CommandLine<'a>>,
    unfinished: Vec<&'a str>,
}

#[derive(Serialize)]
struct FileLine<'a> {
    path: Cow<'a, str>,
    sha256: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct CommandLine<'a> {
    command: Cow<'a, str>,
    exit_code: Option<i32>,
}

/// How many earlier entries are not shown, and where they are.
#[derive(Serialize)]
struct LeftOut {
    tool_trace: usize,
    files_written: usize,
    commands: usize,
    unfinished: usize,
    whole: String,
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
        let all = SUMMARIES_BYTES / children.max(1);
        Self {
            summary_bytes: match caps.summary_bytes {
                0 => all,
                most => all.min(most as usize),
            },
            entries: (SHOWN_ENTRIES_IN_ALL / children.max(1))
                .clamp(SHOWN_ENTRIES_LEAST, SHOWN_ENTRIES),
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

/// The entry of one child as hooks and `--output json` get it: whole and unframed.
#[must_use]
pub fn result_entry(outcome: &Outcome, index: u32) -> Value {
    let entry = entry(index, outcome, &[], Audience::Host);
    serde_json::to_value(entry).unwrap_or_default()
}

/// The result of a call: an entry per child in the order of the tasks, and the notes of the
/// host, which content cannot imitate because they stand outside every frame.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub fn report(
    outcomes: &[Outcome],
    (stale, warnings): (&[StaleFile], &[String]),
    total_ms: u64,
    caps: Caps<'_>,
) -> Result<ToolOutput, FillError> {
    let share = Share::of(outcomes.len(), caps);
    let results = Results {
        results: (0..)
            .zip(outcomes)
            .map(|(index, outcome)| entry(index, outcome, stale, Audience::Model(share)))
            .collect(),
        total_duration_seconds: seconds(total_ms),
        warnings,
    };
    let content = serde_json::to_string(&results).unwrap_or_else(|error| error.to_string());
    let mut output = ToolOutput::text(content);
    output.notes.extend(stale_note(stale, caps.cwd)?);
    Ok(output)
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
        files = format!("{files}{comma}`{path}` (by {})", file.by);
    }
    fill(STALE.trim_end(), &[("files", &files)]).map(Some)
}

fn entry<'a>(
    task_index: u32,
    outcome: &'a Outcome,
    stale: &'a [StaleFile],
    audience: Audience,
) -> Entry<'a> {
    let usage = outcome.tree_usage();
    let receipts = &outcome.receipts;
    let (most, count) = (audience.most(), |n: usize| n.saturating_sub(audience.most()));
    let left_out = LeftOut {
        tool_trace: count(outcome.trace.len()),
        files_written: count(receipts.files_written.len()),
        commands: count(receipts.commands.len()),
        unfinished: count(receipts.unfinished.len()),
        whole: whole(&outcome.agent),
    };
    Entry {
        task_index,
        status: outcome.status.as_str(),
        summary: summary(outcome, audience),
        exit_reason: outcome.exit_reason.as_str(),
        api_calls: outcome.iterations,
        duration_seconds: seconds(outcome.duration_ms),
        model: audience.word(&outcome.model, NAME_CHARS),
        tokens: Tokens { input: usage.input, cached: usage.cached, output: usage.output },
        cost_usd: outcome.cost_usd,
        tool_trace: last(&outcome.trace, most).map(|line| trace_line(line, audience)).collect(),
        receipts: receipt_lines(outcome, audience),
        left_out: left_out.any().then_some(left_out),
        stale_paths: stale
            .iter()
            .filter(|file| is_of(&file.by, &outcome.agent))
            .map(|file| audience.path(&file.path))
            .collect(),
        agent: outcome.agent.as_str(),
        error: error(outcome, audience),
    }
}

impl LeftOut {
    fn any(&self) -> bool {
        self.tool_trace + self.files_written + self.commands + self.unfinished > 0
    }
}

fn last<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    items.iter().skip(items.len().saturating_sub(most))
}

fn trace_line<'a>(line: &'a ToolTrace, audience: Audience) -> TraceLine<'a> {
    TraceLine {
        tool: audience.word(&line.tool, NAME_CHARS),
        args_bytes: line.args_bytes,
        result_bytes: line.result_bytes,
        status: line.status.as_str(),
    }
}

fn receipt_lines<'a>(outcome: &'a Outcome, audience: Audience) -> ReceiptLines<'a> {
    let receipts = &outcome.receipts;
    let (most, files) = (audience.most(), receipts.files_written.len());
    ReceiptLines {
        files_written: receipts
            .files_written
            .iter()
            .skip(files.saturating_sub(most))
            .map(|(path, version)| FileLine {
                path: audience.path(path),
                sha256: &version.sha256,
                bytes: version.bytes,
            })
            .collect(),
        commands: last(&receipts.commands, most)
            .map(|(command, exit_code)| CommandLine {
                command: audience.word(command, PATH_CHARS),
                exit_code: *exit_code,
            })
            .collect(),
        unfinished: last(&receipts.unfinished, most).map(AgentId::as_str).collect(),
    }
}

/// The child's own words.
fn summary<'a>(outcome: &'a Outcome, audience: Audience) -> Option<Cow<'a, str>> {
    let text = outcome.text.as_deref().filter(|text| !text.is_empty())?;
    let most = match audience {
        Audience::Host => return Some(Cow::Borrowed(text)),
        Audience::Model(share) => share.summary_bytes,
    };
    let source = Source::Child(outcome.agent.to_string());
    if text.len() <= most {
        return Some(Cow::Owned(quote(&source, text).into_string()));
    }
    let (head, tail) = ends(text, most);
    let omitted = text.len() - head.len() - tail.len();
    Some(Cow::Owned(format!(
        "{}\n[{omitted} of {} bytes left out here; the whole answer: {}]\n{}",
        quote(&source, head),
        text.len(),
        whole(&outcome.agent),
        quote(&source, tail)
    )))
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

/// How a person, or an agent with a terminal, gets all of what a child did and said.
fn whole(agent: &AgentId) -> String {
    let session = agent.as_str().split('/').next().unwrap_or_default();
    format!("`deputize sessions show {session} --agent {agent}`")
}

/// Whether an agent is that one or below it.
fn is_of(agent: &AgentId, top: &AgentId) -> bool {
    agent == top || agent.ancestors().any(|above| above == *top)
}

fn error<'a>(outcome: &'a Outcome, audience: Audience) -> Option<Cow<'a, str>> {
    if outcome.status == Status::Completed {
        return None;
    }
    let error = outcome.error.as_deref().filter(|error| !error.trim().is_empty());
    let unknown = format!("ended as {} for a reason that is not known", outcome.status.as_str());
    Some(error.map_or(Cow::Owned(unknown), |error| audience.word(error, ERROR_CHARS)))
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
