//! What only the server understands of a call, and wants back with it: members beside the usual
//! ones, such as `extra_content` with the signature of a thought, and its own id of the call where
//! a block of reasoning names that.
//!
//! In a conversation it is a line `["call",NUMBER,MEMBERS]` among the blocks of the reply, and for
//! the `extra_content` of the whole message a line `["message",VALUE]`.

use std::collections::BTreeMap;

use deputize_core::message::{AssistantMessage, OpaqueBlock};
use deputize_core::{CallId, Message};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::WIRE;
use super::details::message;
use crate::json::{Json, Members};

/// The members of a call that are read here.
const USUAL: [&str; 6] = ["index", "id", "type", "function", "name", "arguments"];

/// Members of one call, each as its bytes came.
#[derive(Debug, Default)]
pub(super) struct ExtraMembers(BTreeMap<String, String>);

impl ExtraMembers {
    /// Takes what is not usual in a piece of a call. A later piece counts for more.
    pub(super) fn add_member(&mut self, value: &Json<'_>, raw: Option<&str>) {
        let mut odd = odd(value).peekable();
        if odd.peek().is_none() {
            return;
        }
        let raw = raw.and_then(|raw| serde_json::from_str::<BTreeMap<String, &RawValue>>(raw).ok());
        for (key, value) in odd {
            let bytes = raw.as_ref().and_then(|raw| raw.get(key));
            let bytes = bytes.map_or_else(|| value.to_string(), |raw| raw.get().to_owned());
            self.0.insert(key.to_owned(), bytes);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Returns them as a block of the reply, for its call of this number; `None` if there are none.
    pub(super) fn opaque(&self, number: usize, id: Option<&String>) -> Option<OpaqueBlock> {
        let text = |text: &str| Value::from(text).to_string();
        let id = id.map(|id| format!("\"id\":{}", text(id)));
        let members = self.0.iter().map(|(key, value)| format!("{}:{value}", text(key)));
        let members: Vec<String> = id.into_iter().chain(members).collect();
        let raw = || format!("[\"call\",{number},{{{}}}]", members.join(","));
        (!members.is_empty()).then(|| OpaqueBlock::new(WIRE, raw()))
    }
}

/// Takes the `extra_content` of a message, or of a piece of one, as received where the event's shape
/// is the plain one. A later piece counts for more.
pub(super) fn take_of_message(kept: &mut Option<String>, delta: &Json<'_>, text: &str) {
    #[derive(Deserialize)]
    struct ExtraContent<'a> {
        #[serde(borrow)]
        extra_content: &'a RawValue,
    }
    let is_empty = |value: &Json<'_>| value.as_object().is_none_or(Members::is_empty);
    let Some(value) = delta.get("extra_content").filter(|value| !is_empty(value)) else { return };
    let raw =
        message(text).and_then(|raw| serde_json::from_str::<ExtraContent<'_>>(raw.get()).ok());
    *kept = Some(raw.map_or_else(|| value.to_string(), |raw| raw.extra_content.get().to_owned()));
}

/// The `extra_content` of a message, as a block of the reply.
pub(super) fn of_message(raw: &str) -> OpaqueBlock {
    OpaqueBlock::new(WIRE, format!("[\"message\",{raw}]"))
}

/// The `extra_content` that goes back with a message.
pub(super) fn returned_with(said: &AssistantMessage) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Line<'a>(String, #[serde(borrow)] &'a RawValue);
    let lines = said.opaque.iter().filter(|it| it.wire == WIRE && it.raw.starts_with('['));
    let mut lines = lines.filter_map(|it| serde_json::from_str::<Line<'_>>(&it.raw).ok());
    lines.find(|Line(what, _)| what == "message").map(|Line(_, raw)| raw)
}

/// The calls of an event as received, where one of them holds more than the usual, and the
/// event's shape is the plain one.
pub(super) fn received<'e>(calls: &[Json<'_>], text: &'e str) -> Vec<&'e str> {
    #[derive(Deserialize)]
    struct CallList<'a> {
        #[serde(borrow)]
        tool_calls: Vec<&'a RawValue>,
    }
    if !calls.iter().any(|call| odd(call).next().is_some()) {
        return Vec::new();
    }
    let message =
        message(text).and_then(|raw| serde_json::from_str::<CallList<'_>>(raw.get()).ok());
    let raw = message.map(|message| message.tool_calls).filter(|raw| raw.len() == calls.len());
    raw.into_iter().flatten().map(RawValue::get).collect()
}

/// The members of a call that are not usual.
fn odd<'v>(call: &'v Json<'v>) -> impl Iterator<Item = (&'v str, &'v Json<'v>)> {
    let members = call.as_object().into_iter().flat_map(Members::iter);
    members.filter(|(key, value)| !USUAL.contains(key) && !value.is_null())
}

/// What goes back with the calls of a conversation.
#[derive(Debug, Default)]
pub(super) struct ReturnedExtras<'m>(BTreeMap<CallId, BTreeMap<String, &'m RawValue>>);

impl<'m> ReturnedExtras<'m> {
    pub(super) fn of(messages: impl Iterator<Item = &'m Message>) -> Self {
        let mut returned = BTreeMap::new();
        for message in messages {
            if let Message::Assistant(said) = message {
                returned.extend(Self::of_one(said));
            }
        }
        Self(returned)
    }

    fn of_one(
        said: &'m AssistantMessage,
    ) -> impl Iterator<Item = (CallId, BTreeMap<String, &'m RawValue>)> {
        #[derive(Deserialize)]
        struct Line<'a>(String, usize, #[serde(borrow)] BTreeMap<String, &'a RawValue>);
        let lines = said.opaque.iter().filter(|it| it.wire == WIRE && it.raw.starts_with('['));
        lines.filter_map(|it| {
            let Line(what, number, members) = serde_json::from_str(&it.raw).ok()?;
            let call = said.calls.get(number).filter(|_| what == "call")?;
            Some((call.id, members))
        })
    }

    /// The server's id of a call, or ours.
    pub(super) fn id(&self, call: CallId) -> String {
        let id = self.0.get(&call).and_then(|members| members.get("id"));
        let id = id.and_then(|id| serde_json::from_str(id.get()).ok());
        id.unwrap_or_else(|| call.to_string())
    }

    /// Members of a call beside the usual ones.
    pub(super) fn members(&self, call: CallId) -> BTreeMap<&str, &'m RawValue> {
        let members = self.0.get(&call).into_iter().flatten();
        let own = members.filter(|(key, _)| !USUAL.contains(&key.as_str()));
        own.map(|(key, raw)| (key.as_str(), *raw)).collect()
    }
}
