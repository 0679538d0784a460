//! A model that says what the world's mind says, and looks closely at what it is asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Message, Model};

use crate::mind::{ModelBehaviour, identity};
use crate::world::{SECRET, World};

/// How the request for a summary begins, and the message that stands for older ones.
const SUMMARY_REQUEST: &str = "This conversation nearly fills your context.";
const COMPACTED: &str = "[The model's context was nearly full,";
/// What a result says whose middle gave way.
const CUT: &str = "[The context is nearly full, so ";

pub(crate) struct SimModel(pub(crate) Arc<World>);

impl Model for SimModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let world = &self.0;
            let who = identity(request);
            self.look_at(&who, request);
            let _under_way = world.under_way(format!("request of {who}"));
            let tries = world.tries(&format!("model {} {who}", request.messages.len()));
            let ModelBehaviour { after_ms, answer } = world.mind.says(world.seed, request, tries);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    let partial = format!("half of {SECRET}");
                    let error = ModelError::new(FailureKind::Cancelled, "told to end");
                    return Err(ModelError { partial, ..error });
                }
                () = tokio::time::sleep(Duration::from_millis(after_ms)) => {}
            }
            let text = answer.as_ref().map_or("", |reply| reply.text.as_str());
            for piece in text.as_bytes().chunks(5) {
                live(Delta::Text(std::str::from_utf8(piece).unwrap()));
            }
            answer
        })
    }
}

impl SimModel {
    /// As a strict provider does, and more.
    fn look_at(&self, who: &str, request: &Request<'_>) {
        let world = &self.0;
        if let Err(error) = paired(request.messages) {
            world.wrong(format!("request of {who}: {error}"));
        }
        let messages = request.messages;
        // It leaves older messages out if it is refused as too long, and is no part of the conversation.
        let new = if last_text(messages).is_some_and(|text| text.starts_with(SUMMARY_REQUEST)) {
            messages
        } else {
            let before = world.state().asked.insert(who.to_owned(), messages.to_vec());
            let before = before.unwrap_or_default();
            let is_new_summary = |message: &Arc<Message>| {
                user_text(message).is_some_and(|text| text.starts_with(COMPACTED))
                    && !before.contains(message)
            };
            let summary = messages.iter().position(is_new_summary);
            let same = summary.unwrap_or(before.len());
            let (old, new) = messages.split_at(same.min(messages.len()));
            let mut left = before.iter();
            let begins = match summary {
                // What stays of the older messages stands before the summary, in its order. A power cut
                // may have taken the request before, but not the summary of an earlier life.
                Some(_) => {
                    before.is_empty() || old.iter().all(|now| left.any(|one| goes_on(one, now)))
                }
                None => {
                    old.len() == before.len()
                        && before.iter().zip(old).all(|(one, now)| goes_on(one, now))
                }
            };
            if !begins {
                world.wrong(format!("request of {who} does not begin as the one before it"));
            }
            new
        };
        let texts = request.system.iter().map(|block| block.to_string());
        let said = new.iter().map(|message| serde_json::to_string(message).unwrap());
        if texts.chain(said).any(|text| text.contains(SECRET)) {
            world.wrong(format!("request of {who} has a secret"));
        }
    }
}

/// Whether a message stands for one before it: it is the same, or the same call's result, cut.
fn goes_on(before: &Message, now: &Message) -> bool {
    match (before, now) {
        (Message::Tool(before), Message::Tool(now)) if now.text.as_str().contains(CUT) => {
            before.call == now.call
        }
        _ => before == now,
    }
}

fn user_text(message: &Message) -> Option<&str> {
    match message {
        Message::User(user) => Some(&user.text),
        Message::Assistant(_) | Message::Tool(_) => None,
    }
}

fn last_text(messages: &[Arc<Message>]) -> Option<&str> {
    user_text(messages.last()?)
}

/// Whether every call is followed by its result, in order, before anybody says anything else,
/// and no message is empty.
pub(crate) fn paired(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut owed: Vec<deputize_core::CallId> = Vec::new();
    let mut used = BTreeSet::new();
    for message in messages {
        match &**message {
            Message::Tool(result) => {
                if owed.is_empty() || owed.remove(0) != result.call {
                    return Err(format!("the result of {} is out of place", result.call));
                }
            }
            _ if !owed.is_empty() => return Err(format!("{owed:?} have no result")),
            Message::Assistant(said) => {
                if said.text.trim().is_empty() && said.calls.is_empty() {
                    return Err("a message of the model is empty".to_owned());
                }
                owed = said.calls.iter().map(|call| call.id).collect();
                if let Some(twice) = owed.iter().find(|id| !used.insert(**id)) {
                    return Err(format!("{twice} was used before"));
                }
            }
            Message::User(user) if user.text.trim().is_empty() => {
                return Err("a message of a user is empty".to_owned());
            }
            Message::User(_) => {}
        }
    }
    if owed.is_empty() { Ok(()) } else { Err(format!("{owed:?} have no result")) }
}
