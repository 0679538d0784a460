//! A model with scripted replies.

use std::collections::VecDeque;
use std::fmt;

use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Model};
use parking_lot::Mutex;

use crate::barrier::Barrier;
use crate::counter::Counter;
use crate::seen_request::SeenRequest;

/// A scripted model's response to a request.
#[derive(Debug, Clone)]
pub enum ScriptedTurn {
    /// Sends a reply.
    Reply(Reply),
    /// Fails with an error.
    Fail(ModelError),
    /// Sends nothing until it is cancelled.
    Hang,
}

impl From<Reply> for ScriptedTurn {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<ModelError> for ScriptedTurn {
    fn from(error: ModelError) -> Self {
        Self::Fail(error)
    }
}

impl<T: Into<ScriptedTurn>> From<Result<T, ModelError>> for ScriptedTurn {
    fn from(result: Result<T, ModelError>) -> Self {
        result.map_or_else(Self::Fail, Into::into)
    }
}

type Rule = dyn FnMut(&SeenRequest) -> Option<ScriptedTurn> + Send;

/// A model that replies by a script and stores every request.
///
/// An unscripted request fails with [`FailureKind::Fatal`], and the error shows the request: it
/// ends the agent that sent it, and thus the test, wherever that agent runs.
pub struct ScriptedModel {
    rule: Mutex<Box<Rule>>,
    gate: Option<Barrier>,
    requests: Mutex<Vec<SeenRequest>>,
    in_flight: Counter,
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptedModel({} requests)", self.requests().len())
    }
}

impl ScriptedModel {
    /// Creates a model that replies in this order, whoever asks.
    ///
    /// ```
    /// use deputize_core::model::{FailureKind, ModelError, Reply};
    /// use deputize_testkit::{ScriptedModel, ScriptedTurn};
    /// let busy = ModelError::new(FailureKind::Transient, "try again");
    /// let model = ScriptedModel::turns([ScriptedTurn::Fail(busy), Reply::text("m", "Done.").into()]);
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn turns<T: Into<ScriptedTurn>>(turns: impl IntoIterator<Item = T>) -> Self {
        let mut turns: VecDeque<ScriptedTurn> = turns.into_iter().map(Into::into).collect();
        Self::rule(move |_| turns.pop_front())
    }

    /// Creates a model that replies by a rule; `None` means that the request was not expected.
    /// Agents are distinguished by their task and system text.
    ///
    /// ```
    /// use deputize_core::model::Reply;
    /// use deputize_testkit::ScriptedModel;
    /// let model = ScriptedModel::rule(|seen| match (seen.task(), seen.replies()) {
    ///     ("Count to two.", 0) => Some(Reply::text("m", "One, two.").into()),
    ///     _ => None,
    /// });
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn rule(rule: impl FnMut(&SeenRequest) -> Option<ScriptedTurn> + Send + 'static) -> Self {
        Self {
            rule: Mutex::new(Box::new(rule)),
            gate: None,
            requests: Mutex::default(),
            in_flight: Counter::default(),
        }
    }

    /// Creates a model that fails every request in the same way.
    #[must_use]
    pub fn failing(error: ModelError) -> Self {
        Self::rule(move |_| Some(ScriptedTurn::Fail(error.clone())))
    }

    /// Holds every request at a barrier before its reply.
    #[must_use]
    pub fn held_by(mut self, gate: &Barrier) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Returns the requests so far, in the order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.requests.lock().clone()
    }

    /// Returns the maximum number of concurrent requests.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.in_flight.count().most
    }

    /// Waits until at least `n` requests are in flight.
    pub async fn until_in_flight(&self, n: usize) {
        self.in_flight.until(|count| count.now >= n).await;
    }

    fn see(&self, request: &Request<'_>) -> SeenRequest {
        let mut requests = self.requests.lock();
        let seen = SeenRequest::new(requests.len() + 1, request);
        requests.push(seen.clone());
        seen
    }

    fn decide(&self, seen: &SeenRequest) -> ScriptedTurn {
        let mut rule = self.rule.lock();
        rule(seen).unwrap_or_else(|| {
            let body: Option<serde_json::Value> = serde_json::from_str(&seen.body).ok();
            let body = body.map_or_else(|| seen.body.clone(), |body| format!("{body:#}"));
            let message = format!("request {} was not scripted:\n{body}", seen.number);
            ScriptedTurn::Fail(ModelError::new(FailureKind::Fatal, message))
        })
    }

    async fn answer(&self, request: &Request<'_>) -> Result<Reply, ModelError> {
        let _in_flight = self.in_flight.enter();
        let turn = self.decide(&self.see(request));
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        match turn {
            ScriptedTurn::Reply(reply) => Ok(reply),
            ScriptedTurn::Fail(error) => Err(error),
            ScriptedTurn::Hang => std::future::pending().await,
        }
    }
}

impl Model for ScriptedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let reply = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(ModelError::new(FailureKind::Cancelled, "cancelled"));
                }
                reply = self.answer(request) => reply?,
            };
            if !reply.reasoning.is_empty() {
                live(Delta::Reasoning(&reply.reasoning));
            }
            if !reply.text.is_empty() {
                live(Delta::Text(&reply.text));
            }
            if !reply.calls.is_empty() {
                let bytes =
                    |call: &deputize_core::model::RawCall| call.name.len() + call.arguments.len();
                live(Delta::Call(reply.calls.iter().map(bytes).sum()));
            }
            Ok(reply)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deputize_core::message::UserMessage;
    use deputize_core::model::{ModelOptions, ToolChoice};
    use deputize_core::{CancelReason, Message};

    use super::*;

    async fn ask(model: &ScriptedModel, text: &str, cancel: &Cancel) -> Result<Reply, ModelError> {
        let message = Message::User(UserMessage::new(text));
        let request = Request {
            model: "m",
            system: &["You help.".into()],
            tools: &[],
            messages: &[Arc::new(message)],
            tool_choice: ToolChoice::Auto,
            options: &ModelOptions::default(),
        };
        model.reply(&request, &mut |_| {}, cancel).await
    }

    #[tokio::test]
    async fn a_request_too_many_fails_and_is_shown() {
        let model = ScriptedModel::turns([Reply::text("m", "one")]);
        assert_eq!(ask(&model, "a", &Cancel::new()).await.unwrap().text, "one");
        let error = ask(&model, "the second", &Cancel::new()).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Fatal);
        assert!(error.message.starts_with("request 2 was not scripted:\n{"), "{error}");
        assert!(error.message.contains("the second"), "{error}");
        assert_eq!(model.requests().len(), 2);
    }

    #[tokio::test]
    async fn agents_are_distinguished_by_their_task() {
        let model = ScriptedModel::rule(|seen| {
            seen.says("You help.").then(|| Reply::text("m", seen.task().to_uppercase()).into())
        });
        let cancel = Cancel::new();
        let (a, b) = tokio::join!(ask(&model, "a", &cancel), ask(&model, "b", &cancel));
        assert_eq!((a.unwrap().text, b.unwrap().text), ("A".into(), "B".into()));
    }

    #[tokio::test]
    async fn a_gate_holds_requests_and_the_most_at_once_are_counted() {
        let gate = Barrier::closed();
        let model = ScriptedModel::turns(["1", "2", "3"].map(|text| Reply::text("m", text)));
        let model = model.held_by(&gate);
        let cancel = Cancel::new();
        let test = async {
            gate.until_waiting(2).await;
            gate.let_through(1);
            gate.open();
        };
        let (a, b, ()) = tokio::join!(ask(&model, "a", &cancel), ask(&model, "b", &cancel), test);
        assert!(a.is_ok() && b.is_ok());
        assert!(ask(&model, "c", &cancel).await.is_ok(), "the gate stays open");
        assert_eq!(model.most_in_flight(), 2);
    }

    #[tokio::test]
    async fn a_hanging_request_ends_when_it_is_cancelled() {
        let model = ScriptedModel::turns([ScriptedTurn::Hang]);
        let cancel = Cancel::new();
        let test = async {
            model.until_in_flight(1).await;
            cancel.cancel(CancelReason::Interrupted);
        };
        let (reply, ()) = tokio::join!(ask(&model, "a", &cancel), test);
        assert_eq!(reply.unwrap_err().kind, FailureKind::Cancelled);
    }
}
