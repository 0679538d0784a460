//! Takes from the records of a session what is searched.

use std::borrow::Cow;
use std::collections::BTreeSet;

use deputize_core::ToolEffect;
use deputize_core::agent::AgentSpec;
use deputize_core::message::CallStatus;
use deputize_core::sanitize::{for_terminal_line, remove_frames};
use deputize_core::source::{Source, SourceKind};
use deputize_core::source_set::SourceSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::entry::{Entry, EntryKind};
use crate::words::{END_BYTES, ENTRY_BYTES, visible_ends};

/// The name of the tool that searches sessions.
pub const TOOL_NAME: &str = "session_search";

/// Bytes of an argument up to which it is searched; longer ones are contents.
const ARGUMENT_BYTES: usize = 500;
/// Bytes of a result that are searched.
const RESULT_BYTES: usize = 2 * 1024;
/// Those of them of its end, where commands say what failed.
const RESULT_END_BYTES: usize = 1024;
/// Characters of a session's goal that are kept.
const GOAL_CHARS: usize = 200;
/// Characters of the name of an agent that are kept.
const NAME_CHARS: usize = 200;

/// What is known of a session behind some of its records: enough to go on with the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionFold {
    /// Unix time of its first record, in milliseconds.
    #[serde(rename = "begun")]
    pub(crate) started_ms: Option<u64>,
    /// The first task of the top agent.
    pub(crate) goal: String,
    /// What its agents read from outside of the machine.
    pub(crate) outside: SourceSet,
    /// The record of the last compaction of its top agent, whose conversation lacks what stands before it.
    pub(crate) compacted: Option<u64>,
    /// Agents whose first message, which repeats their task, is still to come.
    opening: BTreeSet<String>,
}

/// A record, with of its event only what `E` names.
#[derive(Deserialize)]
struct IndexedRecord<'r, E> {
    at: u64,
    #[serde(borrow)]
    agent: Cow<'r, str>,
    depth: u32,
    event: E,
}

#[derive(Deserialize)]
struct EventType<'r> {
    #[serde(rename = "type", borrow)]
    name: Cow<'r, str>,
}

#[derive(Deserialize)]
struct StartFields {
    spec: AgentSpec,
}

#[derive(Deserialize)]
struct MessageFields {
    text: String,
    #[serde(default)]
    from: Option<Value>,
    #[serde(default)]
    sources: Vec<Value>,
}

#[derive(Deserialize)]
struct ReplyFields {
    reply: ReplyWords,
}

#[derive(Deserialize)]
struct ReplyWords {
    text: String,
}

#[derive(Deserialize)]
struct CallFields {
    tool: String,
    arguments: String,
}

#[derive(Deserialize)]
struct ResultFields {
    #[serde(default)]
    tool: String,
    #[serde(default)]
    result: ResultWords,
    /// Older records have the sources here.
    #[serde(default)]
    facts: Vec<Value>,
    /// Boundary of the frame around the words.
    #[serde(default)]
    boundary: Option<String>,
}

#[derive(Default, Deserialize)]
struct ResultWords {
    #[serde(default)]
    text: String,
    #[serde(default)]
    status: Option<CallStatus>,
    #[serde(default)]
    sources: Vec<Value>,
}

#[derive(Deserialize)]
struct EndFields {
    #[serde(default)]
    external: bool,
    #[serde(default)]
    text: Option<String>,
}

/// The part of a record's event that `E` names; `None` if the record is of another shape, as one
/// of a newer program may be.
fn event<'r, E: Deserialize<'r>>(record: &'r RawValue) -> Option<E> {
    serde_json::from_str::<IndexedRecord<'r, E>>(record.get()).ok().map(|record| record.event)
}

impl SessionFold {
    /// Applies the next record, which has this number. Returns what is to be searched of it.
    pub(crate) fn apply(&mut self, seq: u64, record: &RawValue) -> Option<Entry> {
        let IndexedRecord { at, agent, depth, event: EventType { name } } =
            serde_json::from_str(record.get()).ok()?;
        self.started_ms.get_or_insert(at);
        let mut limits = (ENTRY_BYTES, END_BYTES);
        let (kind, text) = match name.as_ref() {
            "agent.start" => self.start(&event::<StartFields>(record)?.spec, &agent, depth),
            "message" => {
                let MessageFields { text, from, sources } = event(record)?;
                let is_asked = sources.is_empty() || sources.iter().any(is_request);
                self.read_sources(sources);
                // What a child says is found where it said it.
                let is_repeated = self.opening.remove(agent.as_ref()) || from.is_some();
                if !is_asked {
                    limits = (RESULT_BYTES, RESULT_END_BYTES);
                }
                let kind = if is_asked { asked(depth) } else { EntryKind::Result };
                (!is_repeated).then_some((kind, text))
            }
            "model.response" => Some((EntryKind::Reply, event::<ReplyFields>(record)?.reply.text)),
            "tool.start" => call_words(&event(record)?).map(|words| (EntryKind::Call, words)),
            "tool.end" => {
                let mut end: ResultFields = event(record)?;
                self.read_sources(std::mem::take(&mut end.result.sources));
                self.read_facts(std::mem::take(&mut end.facts));
                limits = (RESULT_BYTES, RESULT_END_BYTES);
                result_words(end).map(|words| (EntryKind::Result, words))
            }
            "agent.end" => {
                let EndFields { external, text } = event(record)?;
                text.filter(|_| external).map(|text| (EntryKind::Reply, text))
            }
            "compaction" => {
                self.compacted = Some(seq).filter(|_| depth == 0).or(self.compacted);
                None
            }
            _ => None,
        }?;
        let text = visible_ends(&text, limits.0, limits.1);
        let agent = agent.split_once('/').map_or("", |(_, path)| path);
        let agent = for_terminal_line(agent, NAME_CHARS);
        (!text.trim().is_empty()).then_some(Entry { seq, at, agent, kind, text })
    }

    fn start(&mut self, spec: &AgentSpec, agent: &str, depth: u32) -> Option<(EntryKind, String)> {
        self.opening.insert(agent.to_owned());
        self.outside.add_all(&SourceSet::outside(&spec.system_sources));
        // What the host put around the person's words is the same in many sessions.
        let text = if depth == 0 { spec.request() } else { &spec.goal };
        if depth == 0 && self.goal.is_empty() {
            self.goal = for_terminal_line(&spec.goal, GOAL_CHARS);
        }
        Some((asked(depth), text.to_owned()))
    }

    fn read_sources(&mut self, labels: Vec<Value>) {
        let sources = labels.into_iter().filter_map(|label| serde_json::from_value(label).ok());
        self.outside.extend(sources.filter(Source::is_outside));
    }

    fn read_facts(&mut self, facts: Vec<Value>) {
        for fact in facts {
            if let Ok(ToolEffect::OutsideRead { source }) = serde_json::from_value(fact) {
                self.outside.insert(Source::from_lasting_label(&source));
            }
        }
    }
}

/// Returns whether a source is the person or the agent above. What no such source has a part in
/// asks for nothing: it says what a command did.
fn is_request(label: &Value) -> bool {
    let source = serde_json::from_value::<Source>(label.clone());
    source.is_ok_and(|it| matches!(it.kind(), SourceKind::User | SourceKind::Parent))
}

/// What a message for an agent at this depth is.
const fn asked(depth: u32) -> EntryKind {
    if depth == 0 { EntryKind::Prompt } else { EntryKind::Task }
}

/// Returns what a tool returned, without the frame for models; `None` for earlier searches, and for
/// calls that were denied.
fn result_words(end: ResultFields) -> Option<String> {
    let ResultFields { tool, result, boundary, .. } = end;
    if tool == TOOL_NAME || result.status == Some(CallStatus::Denied) {
        return None;
    }
    Some(match boundary {
        Some(boundary) => remove_frames(&result.text, &boundary).into_owned(),
        None => result.text,
    })
}

/// Returns the tool of a call and its short arguments; `None` for earlier searches, which would be
/// found for their own words.
fn call_words(call: &CallFields) -> Option<String> {
    if call.tool == TOOL_NAME {
        return None;
    }
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let texts = arguments.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
    let short = texts.filter(|text| (1..=ARGUMENT_BYTES).contains(&text.len()));
    Some(std::iter::once(call.tool.as_str()).chain(short).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
