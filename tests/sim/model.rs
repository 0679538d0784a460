//! A model that says what the world's mind says, and looks closely at what it is asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Message, Model};

use crate::mind::{ModelBehaviour, identity};
use crate::world::{SECRET, World};

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
        let mut state = world.state();
        let before = state.asked.insert(who.to_owned(), request.messages.to_vec());
        drop(state);
        let before = before.unwrap_or_default();
        let (old, new) = request.messages.split_at(before.len().min(request.messages.len()));
        if *old != *before {
            world.wrong(format!("request of {who} does not begin as the one before it"));
        }
        let texts = request.system.iter().map(|block| block.to_string());
        let said = new.iter().map(|message| serde_json::to_string(message).unwrap());
        if texts.chain(said).any(|text| text.contains(SECRET)) {
            world.wrong(format!("request of {who} has a secret"));
        }
    }
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
