//! A call of a tool as an editor shows it: its kind, where it looks, what it changed.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    Diff, Meta, SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use deputize_core::event::ToolEnd;
use deputize_core::message::CallStatus;
use deputize_core::truncate::{truncate_strings, truncate_with_count};
use deputize_core::{ArgumentRole, Display, Effects, Subject, ToolEffect, ToolSpec};
use deputize_runtime::describe_call;
use serde_json::{Value, json};

use super::hunk::{Hunk, hunks};
use super::session_host::SessionFacts;

/// Limit on a shown result, in bytes.
const SHOWN_BYTES: usize = 32 * 1024;
/// Limit on each shown string of the arguments, in bytes.
const STRING_BYTES: usize = 4 * 1024;

/// A call that the editor knows.
#[derive(Debug, Clone)]
pub(crate) struct CallView {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    /// Whether the call only starts agents, which have entries of their own.
    spawns: bool,
    place: Option<ToolCallLocation>,
    input: Option<Value>,
    /// The editor's id of the call above, if a child made this call.
    pub(crate) below: Option<String>,
    /// Progress text that the editor has not received yet.
    pub(crate) progress: Option<String>,
}

impl CallView {
    pub(crate) fn new(id: String, tool: &str, arguments: &str, facts: &SessionFacts) -> Self {
        let (tool, arguments) = &facts.catalog.read_call(tool, arguments);
        let spec = facts.catalog.spec(tool);
        let usual = Subject::default();
        let subject = spec.map_or(&usual, |spec| &spec.subject);
        let input: Option<Value> = serde_json::from_str(arguments).ok();
        Self {
            id,
            tool: tool.to_string(),
            title: describe_call(&facts.catalog, tool, arguments),
            kind: spec.map_or(ToolKind::Other, kind),
            spawns: spec.is_some_and(|spec| spec.spawns),
            place: input.as_ref().and_then(|input| location(subject, input, &facts.cwd)),
            input: input.map(shorten_strings),
            below: None,
            progress: None,
        }
    }

    pub(crate) fn update(&self, status: ToolCallStatus) -> ToolCall {
        ToolCall::new(self.id.clone(), self.title.clone())
            .name(self.tool.clone())
            .kind(self.kind)
            .status(status)
            .locations(self.place.clone().into_iter().collect())
            .raw_input(self.input.clone())
            .meta(self.below.as_deref().map(below))
    }
}

/// Returns the update of a call.
pub(crate) fn update(id: String, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

/// Returns metadata that places a call below another. The protocol has no field for this, so it is
/// under the program's name.
pub(crate) fn below(call: &str) -> Meta {
    let own = json!({ "parentToolCallId": call });
    Meta::from_iter([("deputize".to_owned(), own)])
}

/// Returns the kind, from which an editor chooses an icon. A tool that states no kind and only
/// writes files counts as an edit.
fn kind(spec: &ToolSpec) -> ToolKind {
    match spec.kind {
        deputize_core::ToolKind::Read => ToolKind::Read,
        deputize_core::ToolKind::Edit => ToolKind::Edit,
        deputize_core::ToolKind::Delete => ToolKind::Delete,
        deputize_core::ToolKind::Move => ToolKind::Move,
        deputize_core::ToolKind::Search => ToolKind::Search,
        deputize_core::ToolKind::Execute => ToolKind::Execute,
        deputize_core::ToolKind::Fetch => ToolKind::Fetch,
        deputize_core::ToolKind::Think => ToolKind::Think,
        // The protocol has no kind for it.
        deputize_core::ToolKind::Delegate if spec.spawns => ToolKind::Think,
        _ if spec.effects == Effects::WritesFiles => ToolKind::Edit,
        _ => ToolKind::Other,
    }
}

/// Returns the file that a call's arguments name.
fn location(subject: &Subject, input: &Value, cwd: &Path) -> Option<ToolCallLocation> {
    let input = input.as_object()?;
    let path = cwd.join(subject.text(ArgumentRole::Path, input)?);
    let line = subject.value(ArgumentRole::Line, input).and_then(Value::as_u64);
    Some(ToolCallLocation::new(path).line(line.and_then(|line| u32::try_from(line).ok())))
}

/// Returns the arguments with long strings truncated, and the omitted length stated.
fn shorten_strings(mut arguments: Value) -> Value {
    truncate_strings(&mut arguments, |text| truncate_with_count(text, STRING_BYTES));
    arguments
}

/// Returns the content that an editor shows for a result.
pub(crate) fn content(end: &ToolEnd, call: &CallView) -> Vec<ToolCallContent> {
    let status = end.result.status;
    if status == CallStatus::Ok {
        if let Some(display) = &end.display {
            let hunks = display.diffs().flat_map(|(path, diff)| {
                hunks(diff).into_iter().map(move |hunk| diff_content(path, hunk, end))
            });
            return hunks.collect();
        }
        // The children of the call are shown, each with its answer.
        if call.spawns {
            return Vec::new();
        }
    }
    // What went wrong on this machine is for the person alone: the model is told that they were.
    let text = end.error.clone().unwrap_or_else(|| end.content().into_owned());
    match text.trim().is_empty() {
        true => Vec::new(),
        false => vec![ToolCallContent::from(fenced(&truncate_with_count(&text, SHOWN_BYTES)))],
    }
}

fn diff_content(path: &Path, hunk: Hunk, end: &ToolEnd) -> ToolCallContent {
    let new = |fact: &ToolEffect| matches!(fact, ToolEffect::FileWritten { created: true, path: of, .. } if of == path);
    let diff = Diff::new(path, hunk.new);
    // A file that was not there has no old text, not even an empty one.
    ToolCallContent::from(match end.facts.iter().any(new) {
        true => diff,
        false => diff.old_text(hunk.old),
    })
}

/// Returns the text in a code fence that is longer than any fence inside it.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

/// Returns the files that the host saw the call touch.
pub(crate) fn places(end: &ToolEnd) -> Vec<ToolCallLocation> {
    let line = |path: &Path| {
        let mut diffs = end.display.iter().flat_map(Display::diffs);
        let diff = diffs.find(|(of, _)| *of == path)?.1;
        hunks(diff).first().map(|hunk| hunk.line)
    };
    let written = |fact: &ToolEffect| match fact {
        ToolEffect::FileWritten { path, .. } => Some(ToolCallLocation::new(path).line(line(path))),
        _ => None,
    };
    end.facts.iter().filter_map(written).collect()
}
