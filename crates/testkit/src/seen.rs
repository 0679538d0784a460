//! Requests as a model received them.

mod assert;
mod show;

use std::sync::Arc;

use deputize_core::{Message, ModelOptions, Request, ToolChoice, ToolDecl, ToolResult};
use deputize_providers::openai_chat::{Dialect, request_body};

/// A request as a model received it, owned.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRequest {
    /// Number of the request at this model, from 1.
    pub number: usize,
    /// The model's name.
    pub model: String,
    /// The system text, in blocks.
    pub system: Vec<Arc<str>>,
    /// The tools.
    pub tools: Vec<Arc<ToolDecl>>,
    /// The conversation.
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
}
