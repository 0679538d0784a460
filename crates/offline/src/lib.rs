//! `offline`: a model without network or key that works by rule.
//!
//! It implements the same trait as any model: it sees a request (system text, tools,
//! messages) and answers with text or tool calls. It knows a handful of tasks by their wording,
//! first of all the survey of a directory, and says so plainly of every other. What it says of
//! sources comes from their syntax trees, and of packages from their manifests.
//!
//! It keeps no state. Each reply is a function of the conversation: the rules ask for the
//! calls they need as if the results were there, and those that are not become the next step.
//! So equal requests give equal replies, and a resumed session goes on where it was.
//!
//! ```
//! use deputize_core::{Cancel, Message, Model};
//! use deputize_core::message::UserMessage;
//! use deputize_core::model::{ModelOptions, Request, ToolChoice};
//! use deputize_offline::Offline;
//! use std::sync::Arc;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let asked = Message::User(UserMessage::new("Tell me a joke"));
//! let request = Request {
//!     model: "offline",
//!     system: &[],
//!     tools: &[],
//!     messages: &[Arc::new(asked)],
//!     tool_choice: ToolChoice::Auto,
//!     options: &ModelOptions::default(),
//! };
//! let reply = Offline::new().reply(&request, &mut |_| {}, &Cancel::new()).await?;
//! assert!(reply.text.starts_with("I am `offline`: a set of rules, not a language model."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `c` | yes | reads C by its syntax; without it, such files count by line |
//! | `java` | yes | the same for Java |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

use deputize_core::model::{
    Delta, FailureKind, Finish, ModelError, RawCall, Reply, Request, ToolChoice,
};
use deputize_core::{BoxFuture, Cancel, Model};

mod commands;
mod conversation;
mod entries;
mod figures;
#[cfg(test)]
mod fixture;
mod frame;
mod imports;
mod inventory;
mod language;
mod licence;
mod lookup;
mod manifest;
mod markup;
mod measure;
mod modules;
mod part;
mod paths;
mod pattern;
mod plan;
mod query;
mod read;
mod readme;
mod report;
mod requirements;
mod scope;
mod search;
mod single;
mod survey;
mod syntax;
mod task;
mod wording;

use conversation::{Call, Turn};
use task::Task;

/// The name of the model, as it is chosen and as it reports itself.
pub const NAME: &str = "offline";

/// The model that works by rule.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline {
    other_models: &'static str,
}

impl Offline {
    /// Returns the model.
    #[must_use]
    pub const fn new() -> Self {
        Self { other_models: "" }
    }

    /// Ends each refusal with a paragraph that says how to choose a language model here.
    #[must_use]
    pub const fn with_other_models(self, other_models: &'static str) -> Self {
        Self { other_models }
    }
}

impl Model for Offline {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            if cancel.reason().is_some() {
                return Err(ModelError::new(FailureKind::Cancelled, "offline: cancelled"));
            }
            let reply = answer(request, self.other_models);
            if !reply.text.is_empty() {
                live(Delta::Text(&reply.text));
            }
            Ok(reply)
        })
    }
}

/// Next step of a turn.
enum Next {
    /// Calls to make.
    Calls(Vec<Call>),
    Say(String),
    /// The reason for a refusal. The turn fails with it, so that a script can tell.
    Refuse(String),
}

/// Returns the next step of tasks that are done one after the other. Their answers are one text;
/// the turn fails if one of them does.
fn all_steps(turn: &Turn<'_>, tasks: &[Task], closing: bool) -> Next {
    let mut texts = Vec::new();
    let mut failed = false;
    for task in tasks {
        match step(turn, task, closing) {
            Next::Calls(calls) => return Next::Calls(calls),
            Next::Say(text) => texts.push(text),
            Next::Refuse(text) => {
                failed = true;
                texts.push(text);
            }
        }
    }
    let text = texts.join("\n");
    if failed { Next::Refuse(text) } else { Next::Say(text) }
}

/// Returns the next step of one task.
fn step(turn: &Turn<'_>, task: &Task, closing: bool) -> Next {
    match task {
        Task::Survey { root, sharing } => survey::step(turn, root, *sharing, closing),
        Task::Tests { root } => survey::tests_step(turn, root, closing),
        Task::Part(scope) => survey::part_step(turn, scope, closing),
        Task::Search(search) => lookup::step(turn, search, closing),
        Task::Read { path, line } => read::step(turn, path, *line, closing),
        task => single::step(turn, task, closing),
    }
}

/// Returns the reply to a request. It depends on nothing else.
fn answer(request: &Request<'_>, other_models: &str) -> Reply {
    let turn = Turn::new(request, other_models);
    let closing = request.tool_choice == ToolChoice::None;
    let next = match &turn.tasks {
        Ok(tasks) => all_steps(&turn, tasks, closing),
        Err(refusal) => Next::Refuse(single::help(refusal, other_models)),
    };
    match next {
        Next::Say(text) => Reply::text(NAME, text),
        Next::Refuse(text) => Reply { finish: Finish::Undone, ..Reply::text(NAME, text) },
        Next::Calls(calls) => {
            let raw = |call: Call| RawCall {
                name: call.tool.to_owned(),
                arguments: call.arguments.to_string(),
            };
            let calls = calls.into_iter().map(raw).collect();
            Reply { calls, ..Reply::text(NAME, "") }
        }
    }
}
