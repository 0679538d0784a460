//! The entry of one child in a report.

use std::borrow::Cow;
use std::path::PathBuf;

use deputize_core::budget::shown_usd;
use deputize_core::file_state::FileVersion;
use deputize_core::outcome::{ExitReason, ToolTrace};
use deputize_core::sanitize::{
    clean_json, for_exact_line, for_terminal, frame_quote, visible_json,
};
use deputize_core::source::Source;
use deputize_core::truncate::truncate_bytes;
use deputize_core::{AgentId, Outcome, Status};
use serde::Serialize;
use serde_json::Value;

use super::{
    Audience, HostObservations, NAME_CHARS, PATH_CHARS, ends, seconds, stale_of, unseen_writes,
};

/// Note on an external agent's account of itself.
const CLAIMS: &str = "summary and tool_trace are what an external agent tells of itself: the host \
                      saw none of it; check what matters";

/// Limits on each list, and on an error in characters.
#[derive(Clone, Copy)]
pub(super) struct ListLimits {
    pub(super) trace: usize,
    pub(super) receipts: usize,
    /// Files to read again, and files of which no write was seen.
    pub(super) claims: usize,
    pub(super) error_chars: usize,
    /// Of a child that did not complete, where its session is.
    pub(super) session: bool,
}

impl ListLimits {
    pub(super) const ALL: Self = Self {
        trace: usize::MAX,
        receipts: usize::MAX,
        claims: usize::MAX,
        error_chars: usize::MAX,
        session: true,
    };
}

/// A child's answer, as shown.
#[derive(Default)]
pub(super) struct ChildText<'a> {
    pub(super) summary: Option<Cow<'a, str>>,
    pub(super) output: Option<Cow<'a, Value>>,
    /// The bytes of the value, where it is left out.
    pub(super) output_bytes: usize,
}

impl<'a> ChildText<'a> {
    /// All of it, without what a reader cannot see.
    pub(super) fn whole(outcome: &'a Outcome) -> Self {
        let summary = outcome.text.as_deref().filter(|text| !text.is_empty());
        let summary = summary.map(|text| Cow::Owned(for_terminal(text)));
        Self { summary, output: host_value(outcome).map(Cow::Owned), output_bytes: 0 }
    }
}

/// The entry of one child. Its parts are flattened, in this order.
#[derive(Serialize)]
pub(super) struct ReportEntry<'a> {
    #[serde(flatten)]
    pub(super) answer: EntryAnswer<'a>,
    #[serde(flatten)]
    cost: EntryCost<'a>,
    #[serde(flatten)]
    pub(super) observed: EntryObservations<'a>,
    #[serde(flatten)]
    pub(super) files: EntryFiles<'a>,
    #[serde(flatten)]
    pub(super) origin: EntryOrigin<'a>,
}

/// How a child ended, and what it said.
#[derive(Serialize)]
pub(super) struct EntryAnswer<'a> {
    task_index: u32,
    status: &'static str,
    pub(super) summary: Option<Cow<'a, str>>,
    /// The value of an answer with a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Cow<'a, Value>>,
    exit_reason: &'static str,
}

/// Cost of a child.
#[derive(Serialize)]
struct EntryCost<'a> {
    api_calls: u32,
    duration_seconds: f64,
    /// The name of the child's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Cow<'a, str>>,
    /// The model that served; `None` means that none answered.
    model: Option<Cow<'a, str>>,
    tokens: EntryTokens,
    cost_usd: Option<f64>,
}

/// The host's observations of a child.
#[derive(Serialize)]
pub(super) struct EntryObservations<'a> {
    tool_trace: Vec<TraceLine<'a>>,
    receipts: ReceiptLines<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<OmittedCounts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stale_paths: Vec<Cow<'a, str>>,
    /// Files that the answer names, that do not exist, and of which no write was seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen_writes: Vec<Cow<'a, str>>,
}

/// Where more of a child is.
#[derive(Serialize)]
pub(super) struct EntryFiles<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostic_path: Option<Cow<'a, str>>,
}

/// Who the child is, and why it did not complete.
#[derive(Serialize)]
pub(super) struct EntryOrigin<'a> {
    agent: &'a str,
    /// The file of the session that the child is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_path: Option<Cow<'a, str>>,
    /// Note on an account that the host could not observe; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Cow<'a, str>>,
}

/// Of the child and its descendants.
#[derive(Serialize)]
struct EntryTokens {
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

/// Lines on the child's actions, after those of agents below it; `by` completes their names.
#[derive(Serialize)]
struct ReceiptLines<'a> {
    files_written: Vec<FileLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files_removed: Vec<Cow<'a, str>>,
    commands: Vec<CommandLine<'a>>,
    unfinished: Vec<&'a str>,
}

#[derive(Serialize)]
struct FileLine<'a> {
    path: Cow<'a, str>,
    sha256: &'a str,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
}

#[derive(Serialize)]
struct CommandLine<'a> {
    command: Cow<'a, str>,
    exit_code: Option<i32>,
    /// How it ended without an exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
}

/// Numbers of omitted earlier entries and of bytes of the value, with the file that has all of it.
#[derive(Serialize)]
pub(super) struct OmittedCounts {
    tool_trace: usize,
    files_written: usize,
    #[serde(skip_serializing_if = "is_none")]
    files_removed: usize,
    commands: usize,
    unfinished: usize,
    #[serde(skip_serializing_if = "is_none")]
    stale_paths: usize,
    #[serde(skip_serializing_if = "is_none")]
    unseen_writes: usize,
    #[serde(skip_serializing_if = "is_none")]
    output_bytes: usize,
    whole: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// The entry of the child at this place of what was seen.
pub(super) fn entry<'a>(
    index: u32,
    outcome: &'a Outcome,
    seen: HostObservations<'a>,
    audience: Audience,
    words: ChildText<'a>,
) -> ReportEntry<'a> {
    let kept = seen.saved_output(index);
    let path = |path: &'a Option<PathBuf>| path.as_deref().map(|path| audience.path(path));
    ReportEntry {
        files: EntryFiles {
            summary_path: kept.and_then(|kept| path(&kept.summary)),
            output_path: kept
                .filter(|_| words.output_bytes > 0)
                .and_then(|kept| path(&kept.output)),
            diagnostic_path: kept.and_then(|kept| path(&kept.diagnostic)),
        },
        observed: observations(index, outcome, seen, audience, words.output_bytes),
        answer: EntryAnswer {
            task_index: seen.first.saturating_add(index),
            status: outcome.status.as_str(),
            summary: words.summary,
            output: words.output,
            exit_reason: outcome.exit_reason.as_str(),
        },
        cost: cost(outcome, audience),
        origin: EntryOrigin {
            agent: outcome.agent.as_str(),
            session_path: session_path(outcome, audience),
            claims: outcome.external.then_some(CLAIMS),
            error: error(outcome, audience),
        },
    }
}

fn cost(outcome: &Outcome, audience: Audience) -> EntryCost<'_> {
    let usage = outcome.tree_usage();
    EntryCost {
        api_calls: outcome.requests,
        duration_seconds: seconds(outcome.duration_ms),
        profile: outcome.profile.as_deref().map(|name| audience.word(name, NAME_CHARS)),
        model: has_served(outcome).then(|| audience.word(&outcome.model, NAME_CHARS)),
        tokens: EntryTokens { input: usage.input, cached: usage.cached, output: usage.output },
        cost_usd: outcome.cost_usd.map(shown_usd),
    }
}

fn observations<'a>(
    index: u32,
    outcome: &'a Outcome,
    seen: HostObservations<'a>,
    audience: Audience,
    output_bytes: usize,
) -> EntryObservations<'a> {
    let lists = audience.lists();
    EntryObservations {
        tool_trace: last(&outcome.trace, lists.trace)
            .map(|line| trace_line(line, audience))
            .collect(),
        receipts: receipt_lines(outcome, audience),
        left_out: OmittedCounts::of(index, outcome, seen, audience, output_bytes),
        stale_paths: stale_of(outcome, seen.stale)
            .take(lists.claims)
            .map(|file| audience.path(&file.path))
            .collect(),
        unseen_writes: unseen_writes(outcome)
            .iter()
            .take(lists.claims)
            .map(|path| audience.exact(path, PATH_CHARS))
            .collect(),
    }
}

/// Returns the path of the child's session. A model gets it if the session may hold more than the
/// outcome.
fn session_path(outcome: &Outcome, audience: Audience) -> Option<Cow<'_, str>> {
    let shown = match audience {
        Audience::Host => true,
        Audience::Model(lists) => lists.session && outcome.exit_reason != ExitReason::Completed,
    };
    outcome.session_path.as_deref().filter(|_| shown).map(|path| audience.path(path))
}

/// Whether a model answered. Until then an outcome has the name by which agents know its model,
/// which is another one than that by which the model names itself.
fn has_served(outcome: &Outcome) -> bool {
    outcome.iterations > 0 || outcome.external || outcome.partial
}

impl OmittedCounts {
    /// Counts what is left out of an entry; `None` if nothing is.
    fn of(
        index: u32,
        outcome: &Outcome,
        seen: HostObservations<'_>,
        audience: Audience,
        output_bytes: usize,
    ) -> Option<Self> {
        let receipts = &outcome.receipts;
        let lists = audience.lists();
        let counts = Self {
            tool_trace: outcome.trace.len().saturating_sub(lists.trace),
            files_written: files_written(outcome).count().saturating_sub(lists.receipts),
            files_removed: files_removed(outcome).count().saturating_sub(lists.receipts),
            commands: commands(outcome).count().saturating_sub(lists.receipts),
            unfinished: receipts.unfinished.len().saturating_sub(lists.receipts),
            stale_paths: stale_of(outcome, seen.stale).skip(lists.claims).count(),
            unseen_writes: unseen_writes(outcome).len().saturating_sub(lists.claims),
            output_bytes,
            whole: String::new(),
        };
        counts.any().then(|| {
            let kept = seen.saved_output(index).and_then(|kept| kept.whole.as_deref());
            let kept = kept.map(|path| audience.path(path).into_owned());
            Self { whole: kept.unwrap_or_else(|| whole(&outcome.agent, seen)), ..counts }
        })
    }

    fn any(&self) -> bool {
        let receipts = self.files_written + self.files_removed + self.commands + self.unfinished;
        self.tool_trace + receipts + self.stale_paths + self.unseen_writes + self.output_bytes > 0
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
    let most = audience.lists().receipts;
    let files = files_written(outcome).count().saturating_sub(most);
    let earlier = commands(outcome).count().saturating_sub(most);
    ReceiptLines {
        files_written: files_written(outcome)
            .skip(files)
            .map(|(by, (path, version))| FileLine {
                path: audience.path(path),
                sha256: &version.sha256,
                bytes: version.bytes,
                by,
            })
            .collect(),
        files_removed: files_removed(outcome).take(most).map(|path| audience.path(path)).collect(),
        commands: commands(outcome)
            .skip(earlier)
            .map(|CommandRun { by, command, exit_code, end }| CommandLine {
                command: audience.exact(command, PATH_CHARS),
                exit_code,
                end,
                by,
            })
            .collect(),
        unfinished: last(&outcome.receipts.unfinished, most).map(AgentId::as_str).collect(),
    }
}

/// The files that were written below the child, each with who did it, and then its own.
fn files_written(
    outcome: &Outcome,
) -> impl Iterator<Item = (Option<&str>, (&PathBuf, &FileVersion))> {
    let all = outcome.all_receipts();
    all.flat_map(move |(by, seen)| {
        seen.files_written.iter().map(move |it| (below(outcome, by), it))
    })
}

/// The files that were removed by the child or below it.
fn files_removed(outcome: &Outcome) -> impl Iterator<Item = &PathBuf> {
    outcome.all_receipts().flat_map(|(_, seen)| &seen.files_removed)
}

/// A command that a child or one below it ran.
struct CommandRun<'a> {
    /// Who ran it; `None` if it is the child.
    by: Option<&'a str>,
    command: &'a str,
    exit_code: Option<i32>,
    /// How it ended without an exit code.
    end: Option<&'static str>,
}

/// The same for commands.
fn commands(outcome: &Outcome) -> impl Iterator<Item = CommandRun<'_>> {
    outcome.all_receipts().flat_map(move |(by, seen)| {
        let all = seen.commands.iter().enumerate();
        all.map(move |(at, (command, exit_code))| CommandRun {
            by: below(outcome, by),
            command,
            exit_code: *exit_code,
            end: match exit_code {
                Some(_) => None,
                None if seen.ended_with_agent.contains(&at) => Some("still ran, was killed"),
                None if seen.left_running.contains(&at) => Some("still runs"),
                None if seen.unknown.contains(&at) => Some("unknown"),
                None => Some("signal"),
            },
        })
    })
}

/// Returns how the name of an agent below a child goes on after the child's; `None` if it is the
/// child.
fn below<'a>(child: &Outcome, agent: &'a AgentId) -> Option<&'a str> {
    agent.as_str().strip_prefix(child.agent.as_str())?.strip_prefix('/')
}

/// The child's own words, if it has any: all of them, or the ends of a text that is longer than
/// `most` bytes, with where the whole is; its beginning alone where these are fewer than `both`
/// bytes.
pub(super) fn said(
    outcome: &Outcome,
    where_whole: &str,
    most: usize,
    both: usize,
) -> Option<String> {
    let text = outcome.text.as_deref().filter(|text| !text.is_empty())?;
    let source = Source::child(outcome.agent.as_str());
    if text.len() <= most {
        return Some(frame_quote(&source, text).into_string());
    }
    let (head, tail) =
        if most < both { (truncate_bytes(text, most), "") } else { ends(text, most) };
    let omitted = format!(
        "[{} of {} bytes left out here{where_whole}]",
        text.len() - head.len() - tail.len(),
        text.len()
    );
    let framed = |part: &str| (!part.is_empty()).then(|| frame_quote(&source, part).into_string());
    let parts = [framed(head), Some(omitted), framed(tail)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

/// Returns the note on where the whole answer is.
pub(super) fn beside_part(index: u32, outcome: &Outcome, seen: HostObservations<'_>) -> String {
    match seen.saved_output(index).and_then(|kept| kept.summary.as_ref()) {
        Some(_) => "; the whole answer: see `summary_path`".to_owned(),
        None => format!("; the whole answer: {}", whole(&outcome.agent, seen)),
    }
}

/// Where the whole answer of a child is, for a text that has no `summary_path`.
pub(super) fn where_whole(outcome: &Outcome, seen: HostObservations<'_>) -> String {
    match seen.saved_outputs.first().and_then(|kept| kept.summary.as_deref()) {
        Some(path) => format!("`{}`", for_exact_line(&path.to_string_lossy(), PATH_CHARS)),
        None => whole(&outcome.agent, seen),
    }
}

/// The answer as a value for programs: without what a reader cannot see, and with marks of chat
/// formats as they are.
pub(crate) fn host_value(outcome: &Outcome) -> Option<Value> {
    outcome.output.as_ref().map(visible_json)
}

/// The answer as a value for a model: nothing in it is a mark of a chat format. One that was checked against its schema
/// has nothing of that; of agents that others run nobody knows.
pub(super) fn value(outcome: &Outcome) -> Option<Value> {
    outcome.output.as_ref().map(clean_json)
}

/// How a person, or an agent with a terminal, gets all of what a child did and said.
fn whole(agent: &AgentId, seen: HostObservations<'_>) -> String {
    let session = agent.as_str().split('/').next().unwrap_or_default();
    let command = seen.transcript_of(session, agent.as_str());
    command.unwrap_or_else(|| format!("the session's record of agent {agent}"))
}

pub(super) fn error<'a>(outcome: &'a Outcome, audience: Audience) -> Option<Cow<'a, str>> {
    if outcome.status == Status::Completed {
        return None;
    }
    let error = outcome.error.as_deref().filter(|error| !error.trim().is_empty());
    let unknown = format!("ended as {} for a reason that is not known", outcome.status.as_str());
    Some(error.map_or(Cow::Owned(unknown), |error| match audience {
        Audience::Host => Cow::Owned(for_terminal(error)),
        Audience::Model(lists) => audience.word(error, lists.error_chars),
    }))
}
