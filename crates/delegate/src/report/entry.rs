//! What is told of one child.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use deputize_core::door::{Source, clean, quote, to_line};
use deputize_core::{AgentId, Outcome, Status, ToolTrace};
use serde::Serialize;
use serde_json::Value;

use super::{Audience, ERROR_CHARS, Kept, NAME_CHARS, PATH_CHARS, Seen, ends, seconds, stale_of};

/// What is said of an external agent's account of itself.
const CLAIMS: &str = "summary and tool_trace are what an external agent tells of itself: the host \
                      saw none of it; check what matters";

#[derive(Serialize)]
pub(super) struct Entry<'a> {
    task_index: u32,
    status: &'static str,
    summary: Option<Cow<'a, str>>,
    /// The value of an answer with a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, Value>>,
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
    /// Files that the answer names as written and of which no write was seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen_writes: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostic_path: Option<Cow<'a, str>>,
    agent: &'a str,
    /// What to think of an account that nobody here has seen anything of.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<&'static str>,
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
pub(super) struct LeftOut {
    tool_trace: usize,
    files_written: usize,
    commands: usize,
    unfinished: usize,
    whole: String,
}

/// The entry of the child at this place of what was seen.
pub(super) fn entry<'a>(
    index: u32,
    outcome: &'a Outcome,
    seen: Seen<'a>,
    audience: Audience,
) -> Entry<'a> {
    let usage = outcome.tree_usage();
    let task_index = seen.first.saturating_add(index);
    let index = index as usize;
    let kept = seen.kept.get(index);
    let path = |path: &'a Option<PathBuf>| path.as_deref().map(|path| audience.path(path));
    let left_out = LeftOut::of(outcome, audience, kept.and_then(|kept| kept.whole.as_deref()));
    Entry {
        task_index,
        status: outcome.status.as_str(),
        summary: summary(outcome, kept, audience),
        output: output(outcome, audience),
        exit_reason: outcome.exit_reason.as_str(),
        api_calls: outcome.iterations,
        duration_seconds: seconds(outcome.duration_ms),
        model: audience.word(&outcome.model, NAME_CHARS),
        tokens: Tokens { input: usage.input, cached: usage.cached, output: usage.output },
        cost_usd: outcome.cost_usd,
        tool_trace: last(&outcome.trace, audience.most())
            .map(|line| trace_line(line, audience))
            .collect(),
        receipts: receipt_lines(outcome, audience),
        left_out: left_out.any().then_some(left_out),
        stale_paths: stale_of(outcome, seen.stale).map(|file| audience.path(&file.path)).collect(),
        unseen_writes: seen
            .unseen_of(index)
            .iter()
            .map(|path| audience.word(path, PATH_CHARS))
            .collect(),
        summary_path: kept.and_then(|kept| path(&kept.summary)),
        diagnostic_path: kept.and_then(|kept| path(&kept.diagnostic)),
        agent: outcome.agent.as_str(),
        claims: outcome.external.then_some(CLAIMS),
        error: error(outcome, audience),
    }
}

impl LeftOut {
    pub(super) fn of(outcome: &Outcome, audience: Audience, kept: Option<&Path>) -> Self {
        let receipts = &outcome.receipts;
        let count = |n: usize| n.saturating_sub(audience.most());
        Self {
            tool_trace: count(outcome.trace.len()),
            files_written: count(receipts.files_written.len()),
            commands: count(receipts.commands.len()),
            unfinished: count(receipts.unfinished.len()),
            whole: match kept {
                Some(path) => audience.path(path).into_owned(),
                None => whole(&outcome.agent),
            },
        }
    }

    pub(super) fn any(&self) -> bool {
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
fn summary<'a>(
    outcome: &'a Outcome,
    kept: Option<&Kept>,
    audience: Audience,
) -> Option<Cow<'a, str>> {
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
        where_whole(outcome, kept),
        quote(&source, tail)
    )))
}

/// Where the whole answer of a child is.
pub(super) fn where_whole(outcome: &Outcome, kept: Option<&Kept>) -> String {
    match kept.and_then(|kept| kept.summary.as_deref()) {
        Some(path) => format!("`{}`", to_line(&path.to_string_lossy(), PATH_CHARS)),
        None => whole(&outcome.agent),
    }
}

/// The answer as a value. The model gets it without what a reader cannot see, and not where
/// its text would be cut.
fn output(outcome: &Outcome, audience: Audience) -> Option<Cow<'_, Value>> {
    let value = outcome.output.as_ref()?;
    match audience {
        Audience::Host => Some(Cow::Borrowed(value)),
        Audience::Model(share) => {
            let fits = value.to_string().len() <= share.summary_bytes;
            fits.then(|| Cow::Owned(visible(value)))
        }
    }
}

fn visible(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text).text.into_owned()),
        Value::Array(items) => items.iter().map(visible).collect(),
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| (clean(key).text.into_owned(), visible(value));
            Value::Object(map.iter().map(entry).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// How a person, or an agent with a terminal, gets all of what a child did and said.
fn whole(agent: &AgentId) -> String {
    let session = agent.as_str().split('/').next().unwrap_or_default();
    format!("`deputize sessions show {session} --agent {agent}`")
}

pub(super) fn error<'a>(outcome: &'a Outcome, audience: Audience) -> Option<Cow<'a, str>> {
    if outcome.status == Status::Completed {
        return None;
    }
    let error = outcome.error.as_deref().filter(|error| !error.trim().is_empty());
    let unknown = format!("ended as {} for a reason that is not known", outcome.status.as_str());
    Some(error.map_or(Cow::Owned(unknown), |error| audience.word(error, ERROR_CHARS)))
}
