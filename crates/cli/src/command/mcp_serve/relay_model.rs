//! The model of a session whose top agent only delegates what another program asks for.

use std::sync::Arc;

use deputize_core::message::CallStatus;
use deputize_core::model::{Delta, Finish, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Message, Model, Status};
use serde_json::Value;

/// The one call of an agent that only delegates.
#[derive(Clone)]
pub(super) struct RelayCall {
    /// Its task, which no other agent of the session has.
    pub(super) task: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A model that answers one conversation itself: the one whose only purpose is to delegate.
pub(super) struct RelayModel {
    pub(super) hands_on: RelayCall,
    pub(super) model: Arc<dyn Model>,
}

impl RelayModel {
    /// The reply where this is that conversation.
    fn reply(&self, request: &Request<'_>) -> Option<Reply> {
        let RelayCall { task, tool, arguments } = &self.hands_on;
        let own = |message: &Arc<Message>| match &**message {
            Message::User(user) => user.text.ends_with(task.as_str()),
            _ => false,
        };
        if !request.messages.iter().any(own) {
            return None;
        }
        let result = request.messages.iter().rev().find_map(|message| match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        });
        Some(match result {
            None => Reply::calls(request.model, [(tool.as_str(), arguments.clone())]),
            Some(result) => {
                let done = result.status == CallStatus::Ok && is_done(result.text.as_str());
                let finish = if done { Finish::Stop } else { Finish::Undone };
                Reply { finish, ..Reply::text(request.model, result.text.as_str()) }
            }
        })
    }
}

/// Returns whether the result of a delegation tool has work that was done or still goes on: at
/// least one child completed or runs.
fn is_done(result: &str) -> bool {
    let Some(value) = delegation_json(result) else { return true };
    let Some(results) = value.get("results").and_then(Value::as_array) else { return true };
    let ended = |result: &Value| result["status"].as_str().is_some_and(is_end);
    any_completed(results) || !results.iter().all(ended)
}

/// The object in the result of a delegation tool, which text may stand before and after.
pub(super) fn delegation_json(result: &str) -> Option<Value> {
    let json = result.find('{').and_then(|begin| result.get(begin..))?;
    serde_json::Deserializer::from_str(json).into_iter::<Value>().next()?.ok()
}

/// Whether a status is that of a child that has ended.
fn is_end(status: &str) -> bool {
    [Status::Failed, Status::Error, Status::Timeout, Status::Interrupted, Status::Completed]
        .iter()
        .any(|end| end.as_str() == status)
}

impl Model for RelayModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        match RelayModel::reply(self, request) {
            Some(reply) => Box::pin(std::future::ready(Ok(reply))),
            None => self.model.reply(request, live, cancel),
        }
    }

    fn most_output(&self, options: &deputize_core::model::ModelOptions) -> Option<u32> {
        self.model.most_output(options)
    }

    fn sees_images(&self, model: &str) -> bool {
        self.model.sees_images(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> Option<u64> {
        self.model.count_tokens(model, text)
    }

    fn for_one_agent(&self) -> Option<Arc<dyn Model>> {
        let model = self.model.for_one_agent()?;
        Some(Arc::new(Self { hands_on: self.hands_on.clone(), model }))
    }
}

/// Returns whether a child did its work.
pub(super) fn any_completed(results: &[Value]) -> bool {
    results.iter().any(|result| result["status"] == "completed")
}
