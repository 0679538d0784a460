//! Requests as a model received them, with assertions whose failures show the request.

mod show;

use std::sync::Arc;

use deputize_core::model::{ModelOptions, Request, ToolChoice};
use deputize_core::{Message, ToolDecl, ToolResult};
use deputize_providers::openai_chat::{Dialect, request_body};

use crate::prefix::PrefixDiff;

/// A request as a model received it, owned.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRequest {
    /// Number of the request at this model, from 1.
    pub number: usize,
    /// The model's name.
    pub model: String,
    /// The system text, in blocks.
    pub system: Vec<Arc<str>>,
    /// Declarations of the tools that were sent.
    pub tools: Vec<Arc<ToolDecl>>,
    /// Messages of the conversation, in order.
    pub messages: Vec<Arc<Message>>,
    /// Whether tools may be called.
    pub tool_choice: ToolChoice,
    /// Options of the model.
    pub options: ModelOptions,
    /// The exact body that a Chat Completions server would get: of two requests in a conversation,
    /// the messages of the later body begin with those of the earlier one.
    pub body: String,
}

impl SeenRequest {
    pub(crate) fn new(number: usize, request: &Request<'_>) -> Self {
        let body = request_body(request, &Dialect::default());
        Self {
            number,
            model: request.model.to_owned(),
            system: request.system.to_vec(),
            tools: request.tools.to_vec(),
            messages: request.messages.to_vec(),
            tool_choice: request.tool_choice,
            options: request.options.clone(),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// Returns the system text in one piece.
    #[must_use]
    pub fn system_text(&self) -> String {
        self.system.join("\n\n")
    }

    /// Returns the first user message: the agent's task, which distinguishes agents.
    #[must_use]
    pub fn task(&self) -> &str {
        self.user_texts().next().unwrap_or_default()
    }

    /// Returns the last user message.
    #[must_use]
    pub fn last_user(&self) -> &str {
        self.user_texts().last().unwrap_or_default()
    }

    fn user_texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter_map(|message| match &**message {
            Message::User(user) => Some(user.text.as_str()),
            Message::Assistant(_) | Message::Tool(_) => None,
        })
    }

    /// Returns the results of calls in the conversation, in order.
    #[must_use]
    pub fn results(&self) -> Vec<&ToolResult> {
        let result = |message: &'_ Arc<Message>| matches!(**message, Message::Tool(_));
        let results = self.messages.iter().filter(|message| result(message));
        results
            .filter_map(|message| match &**message {
                Message::Tool(result) => Some(result),
                Message::User(_) | Message::Assistant(_) => None,
            })
            .collect()
    }

    /// Returns the number of the model's replies in the conversation.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.messages.iter().filter(|it| matches!(***it, Message::Assistant(_))).count()
    }

    /// Returns whether it offers a tool of this name.
    #[must_use]
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name.as_str() == name)
    }

    /// Returns whether the system text or a message contains this text.
    #[must_use]
    pub fn says(&self, text: &str) -> bool {
        let in_message = |message: &Arc<Message>| match &**message {
            Message::User(user) => user.text.contains(text),
            Message::Assistant(reply) => reply.text.contains(text),
            Message::Tool(result) => result.text.as_str().contains(text),
        };
        self.system_text().contains(text) || self.messages.iter().any(in_message)
    }

    /// Asserts that the system text or a message contains this text.
    ///
    /// # Panics
    /// If none does.
    #[track_caller]
    pub fn assert_says(&self, text: &str) -> &Self {
        self.hold(self.says(text), format_args!("nothing in it says `{text}`"))
    }

    /// Asserts that neither the system text nor a message contains this text.
    ///
    /// # Panics
    /// If one does.
    #[track_caller]
    pub fn assert_silent_about(&self, text: &str) -> &Self {
        self.hold(!self.says(text), format_args!("something in it says `{text}`"))
    }

    /// Asserts that exactly these tools are offered, in this order.
    ///
    /// # Panics
    /// If other tools are offered.
    #[track_caller]
    pub fn assert_tools(&self, names: &[&str]) -> &Self {
        let offered: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        self.hold(offered == names, format_args!("it offers {offered:?} and not {names:?}"))
    }

    /// Asserts that the last result of a call contains this text.
    ///
    /// # Panics
    /// If it does not, or there is none.
    #[track_caller]
    pub fn assert_result(&self, text: &str) -> &Self {
        let results = self.results();
        let last = results.last().map_or("nothing", |result: &&ToolResult| result.text.as_str());
        self.hold(last.contains(text), format_args!("the last result is not `{text}` but {last}"))
    }

    /// Asserts that it continues an earlier request: the same tools and system text, and its
    /// messages followed by more. The provider's cache of the earlier request then serves it
    /// completely.
    ///
    /// # Panics
    /// If a part of the earlier request is missing; the message shows the place.
    #[track_caller]
    pub fn assert_continues(&self, earlier: &Self) -> &Self {
        let same = self.model == earlier.model
            && self.tools == earlier.tools
            && self.system == earlier.system
            && self.messages.starts_with(&earlier.messages);
        let prefix = PrefixDiff::of(&earlier.to_string(), &self.to_string());
        let number = earlier.number;
        self.hold(same, format_args!("it does not continue request {number}: {prefix}"))
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a test that does not hold fails")]
    fn hold(&self, holds: bool, why: std::fmt::Arguments<'_>) -> &Self {
        if !holds {
            panic!("request {}: {why}\n\n{self}", self.number);
        }
        self
    }
}
