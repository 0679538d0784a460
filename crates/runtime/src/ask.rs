//! One request of an agent: its attempts, each on record.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{
    Delta, Event, FailureKind, JournalError, Message, ModelError, Reply, Request, Step, ToolDecl,
    retry_wait,
};
use tokio::time::Instant;

use crate::driver::Driver;
use crate::live::Live;

impl Driver {
    /// Sends the request that the fold asks for, as often as the retry rule says.
    pub(crate) async fn ask(&mut self) -> Result<(), JournalError> {
        let Step::Ask { iteration, .. } = self.run.step() else { return Ok(()) };
        let mut attempt = 1;
        loop {
            let asked = Instant::now();
            let event = match self.attempt(iteration).await? {
                Ok(reply) => {
                    let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                    Event::ModelResponse { iteration, reply: self.without_secrets(reply), ms }
                }
                Err(error) => {
                    let error = self.scrubbed(error);
                    match self.retry(attempt, error).await? {
                        None => {
                            attempt += 1;
                            continue;
                        }
                        Some(error) => Event::ModelError { error, retried: false },
                    }
                }
            };
            return self.input(event).await;
        }
    }

    fn scrubbed(&self, mut error: ModelError) -> ModelError {
        self.scrub(&mut error.message);
        self.scrub(&mut error.partial);
        error
    }

    /// A reply in which no secret is repeated. Opaque blocks go back as they came.
    fn without_secrets(&self, mut reply: Reply) -> Reply {
        let arguments = reply.calls.iter_mut().map(|call| &mut call.arguments);
        let texts = [&mut reply.text, &mut reply.reasoning].into_iter().chain(arguments);
        texts.for_each(|text| self.scrub(text));
        reply
    }

    fn scrub(&self, text: &mut String) {
        if let Cow::Owned(scrubbed) = self.shared.parts.secrets.scrub(text) {
            *text = scrubbed;
        }
    }

    async fn attempt(&self, iteration: u32) -> Result<Result<Reply, ModelError>, JournalError> {
        let Step::Ask { tools, .. } = self.run.step() else {
            return Ok(Err(ModelError::new(FailureKind::Cancelled, "nothing to ask")));
        };
        let spec = &self.view.spec;
        let (model, name) = &self.model;
        let request = Request {
            model: name,
            system: &spec.system,
            tools: &self.view.declared,
            messages: self.run.messages(),
            tool_choice: tools,
            options: &spec.options,
        };
        self.shared.bus.record(
            spec,
            Event::ModelRequest {
                iteration,
                messages: request.messages.len() as u64,
                bytes: bytes(&request),
            },
        )?;
        let work = self.cancel.child();
        let mut shown = Live::new(&self.shared.parts.secrets);
        let mut show = |delta: Delta<'_>| self.shared.bus.live(&spec.id, delta);
        let mut live = |delta: Delta<'_>| shown.take(delta, &mut show);
        let reply = model.reply(&request, &mut live, &work);
        let reply = self.until_deadline(&work, reply).await;
        shown.end(&mut |delta| self.shared.bus.live(&spec.id, delta));
        Ok(reply)
    }

    /// Waits for the next attempt, or gives the error back when it is final.
    async fn retry(
        &self,
        attempt: u32,
        error: ModelError,
    ) -> Result<Option<ModelError>, JournalError> {
        let policy = &self.shared.parts.retry;
        let Some(wait) = retry_wait(policy, attempt, &error, fastrand::u32(..=1000)) else {
            let tried =
                if attempt > 1 { format!(" (tried {attempt} times)") } else { String::new() };
            let message = format!("{}{tried}", error.message);
            return Ok(Some(ModelError { message, ..error }));
        };
        let bus = &self.shared.bus;
        bus.record(&self.view.spec, Event::ModelError { error: error.clone(), retried: true })?;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let reason = error.message.clone();
        let retry =
            Event::ModelRetry { attempt: attempt + 1, of: policy.attempts, reason, wait_ms };
        bus.record(&self.view.spec, retry)?;
        Ok(self.rest(wait).await.then_some(ModelError { kind: FailureKind::Cancelled, ..error }))
    }

    /// Waits; tells whether it was told to end meanwhile.
    async fn rest(&self, wait: Duration) -> bool {
        let work = self.cancel.child();
        let rested = async {
            tokio::select! {
                biased;
                () = work.cancelled() => true,
                () = tokio::time::sleep(wait) => false,
            }
        };
        self.until_deadline(&work, rested).await
    }
}

/// Bytes of the text of a request: system, tools and messages, without what a wire adds.
fn bytes(request: &Request<'_>) -> u64 {
    let system: usize = request.system.iter().map(|block| block.len()).sum();
    let tool = |tool: &Arc<ToolDecl>| {
        tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len()
    };
    let tools: usize = request.tools.iter().map(tool).sum();
    let message = |message: &Arc<Message>| match &**message {
        Message::User(user) => user.text.len(),
        Message::Assistant(said) => {
            let calls = said.calls.iter().map(|call| call.name.len() + call.arguments.len());
            let opaque = said.opaque.iter().map(|block| block.raw.len());
            said.text.len() + said.reasoning.len() + calls.chain(opaque).sum::<usize>()
        }
        Message::Tool(result) => result.text.as_str().len(),
    };
    let messages: usize = request.messages.iter().map(message).sum();
    (system + tools + messages) as u64
}
