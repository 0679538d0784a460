//! Reads the conversation: the task of this turn, and the calls with their results.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::message::CallStatus;
use deputize_core::model::Request;
use deputize_core::truncate::truncate_chars;
use deputize_core::{Message, ToolDecl};
use serde_json::Value;

use super::frame::unframe;
use super::language::file_name;
use super::scope::Scope;
use super::task::{Refusal, Task};

/// A cancelled call is asked for again, but not more often than this.
const MOST_TRIES: usize = 2;

/// Characters of an error that stand in a sentence.
pub(super) const SHOWN_PROBLEM: usize = 200;

/// A call that this model wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// A call of this turn and what came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnCall {
    /// How it ended.
    pub(super) status: CallStatus,
    /// The content, out of its frame.
    pub(super) content: String,
    /// The host's remarks.
    pub(super) notes: Vec<String>,
}

impl TurnCall {
    /// The content of a call that did its work.
    pub(super) fn ok(&self) -> Option<&str> {
        (self.status == CallStatus::Ok).then_some(self.content.as_str())
    }

    /// Returns why a call about a path did not do its work, without the path and advice.
    pub(super) fn reason(&self, path: &str) -> Option<String> {
        let problem = self.problem()?;
        let problem = problem.strip_prefix("failed: ").unwrap_or(&problem);
        let text = problem.replace(&format!(": {path}"), "").replace(&format!(" {path}"), "");
        if text.starts_with("binary file") {
            return Some("binary file".to_owned());
        }
        let text = text.split(';').next().unwrap_or_default();
        let text = text.split(" (os error").next().unwrap_or_default();
        Some(text.trim().to_owned())
    }

    /// Returns the error, on one line; `None` if it did its work.
    pub(super) fn problem(&self) -> Option<String> {
        let first =
            self.content.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
        let first = first.trim().trim_start_matches("error: ").trim_start_matches("refused: ");
        let reason = truncate_chars(first, SHOWN_PROBLEM);
        let word = self.end_word();
        match self.status {
            CallStatus::Ok => None,
            CallStatus::Denied if reason.starts_with("denied") => Some(format!("was {reason}")),
            CallStatus::Error | CallStatus::Denied => Some(format!("{word}: {reason}")),
            CallStatus::Cancelled => Some(word.to_owned()),
        }
    }

    /// Returns how the call ended, as the end of a sentence about it.
    pub(super) const fn end_word(&self) -> &'static str {
        match self.status {
            CallStatus::Ok => "succeeded",
            CallStatus::Error => "failed",
            CallStatus::Denied => "was denied",
            CallStatus::Cancelled => "was cancelled",
        }
    }
}

/// One turn, as far as it has come.
#[derive(Debug)]
pub(super) struct Turn<'r> {
    /// The tasks, or why they are refused.
    pub(super) tasks: Result<Vec<Task>, Refusal>,
    /// The path of the working directory, if the system text names it.
    directory: Option<&'r str>,
    /// The tools that may be called; empty when none may.
    tools: Vec<&'r ToolDecl>,
    /// What the host says of other models, for refusals.
    pub(super) other_models: &'r str,
    done: BTreeMap<(String, String), Vec<TurnCall>>,
}

impl<'r> Turn<'r> {
    /// Reads a request.
    pub(super) fn new(request: &Request<'r>, other_models: &'r str) -> Self {
        let (start, text) = task_message(request.messages);
        let mut calls = BTreeMap::new();
        let mut done: BTreeMap<_, Vec<TurnCall>> = BTreeMap::new();
        for message in request.messages.iter().skip(start) {
            match &**message {
                Message::User(_) => {}
                Message::Assistant(assistant) => {
                    for call in &assistant.calls {
                        calls.insert(call.id, (call.name.clone(), call.arguments.clone()));
                    }
                }
                Message::Tool(result) => {
                    let Some(call) = calls.remove(&result.call) else { continue };
                    let text = unframe(result.text.as_str());
                    done.entry(call).or_default().push(TurnCall {
                        status: result.status,
                        content: text.content.to_owned(),
                        notes: text.notes().map(str::to_owned).collect(),
                    });
                }
            }
        }
        let tools = request.tools.iter().map(|tool| &**tool).collect();
        let part = Scope::from_brief(text, request.system);
        let tasks = part.map_or_else(|| Task::parse(text), |scope| Ok(vec![Task::Part(scope)]));
        Self { tasks, directory: working_directory(request.system), tools, other_models, done }
    }

    /// Returns the name of a directory: its own, where the path is that of the working directory.
    pub(super) fn directory_name<'n>(&'n self, path: &'n str) -> &'n str {
        let own = self.directory.filter(|_| path == ".").map(file_name);
        own.filter(|name| !name.is_empty()).unwrap_or(path)
    }

    /// The declaration of a tool, if it is among those sent.
    pub(super) fn tool(&self, name: &str) -> Option<&'r ToolDecl> {
        self.tools.iter().find(|tool| tool.name.as_str() == name).copied()
    }

    /// Returns the result of a call; `None` if it is still to be asked for.
    fn result(&self, call: &Call) -> Option<&TurnCall> {
        let key = (call.tool.to_owned(), call.arguments.to_string());
        let results = self.done.get(&key)?;
        let last = results.last()?;
        let again = last.status == CallStatus::Cancelled && results.len() < MOST_TRIES;
        (!again).then_some(last)
    }
}

/// Returns the path of the working directory from the system text.
fn working_directory(system: &[Arc<str>]) -> Option<&str> {
    let mut lines = system.iter().flat_map(|text| text.lines());
    let path = lines.find_map(|line| line.strip_prefix("Working directory: "))?;
    let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
    path.starts_with('/').then_some(path)
}

/// Returns the words of a message, without piped input: that precedes them in a frame, with notes.
fn words(text: &str) -> &str {
    let framed = text.starts_with("<input:").then(|| unframe(text).after.split_once("\n\n"));
    framed.flatten().map_or(text, |(_, words)| words)
}

/// The message that says what this turn is about, and where it stands: the last one from the
/// person or the parent that is neither a remark of the runtime nor an aside that no rule
/// knows, said while calls ran.
fn task_message(messages: &[Arc<Message>]) -> (usize, &str) {
    let said = messages.iter().enumerate().rev().filter_map(|(at, message)| match &**message {
        Message::User(user) if user.from.is_none() && !is_remark(&user.text) => {
            Some((at, words(&user.text)))
        }
        Message::User(_) | Message::Assistant(_) | Message::Tool(_) => None,
    });
    let mut first = None;
    for (at, text) in said {
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        let aside = match before.map(|message| &**message) {
            Some(Message::Tool(result)) => result.status != CallStatus::Cancelled,
            Some(Message::User(_) | Message::Assistant(_)) | None => false,
        };
        if !aside || Task::parse(text).is_ok() {
            return (at, text);
        }
        first.get_or_insert((at, text));
    }
    first.unwrap_or((0, ""))
}

/// Returns whether a message is the runtime's remark to a model between its calls.
fn is_remark(text: &str) -> bool {
    [
        "you cannot call tools any more",
        "Your reply was empty.",
        "Your last calls repeat,",
        "Continue where you stopped.",
    ]
    .iter()
    .any(|mark| text.contains(mark))
}

/// Asks for calls as if their results were there, and collects those that are not. What is
/// computed from it is a function of the conversation, so it can be asked again at each step.
#[derive(Debug)]
pub(super) struct Ask<'t, 'r> {
    turn: &'t Turn<'r>,
    missing: Vec<Call>,
}

impl<'t, 'r> Ask<'t, 'r> {
    /// Nothing asked for yet.
    pub(super) const fn new(turn: &'t Turn<'r>) -> Self {
        Self { turn, missing: Vec::new() }
    }

    /// The turn it asks in.
    pub(super) const fn turn(&self) -> &'t Turn<'r> {
        self.turn
    }

    /// Returns the result of a call; `None` if it is not there yet or no tool can do it.
    pub(super) fn call(&mut self, tool: &'static str, arguments: Value) -> Option<&'t TurnCall> {
        self.turn.tool(tool)?;
        let call = Call { tool, arguments };
        let done = self.turn.result(&call);
        if done.is_none() && !self.missing.contains(&call) {
            self.missing.push(call);
        }
        done
    }

    /// Whether something is still to be asked for, so that what follows from it must wait.
    pub(super) const fn waits(&self) -> bool {
        !self.missing.is_empty()
    }

    /// The calls still to be made.
    pub(super) fn into_missing(self) -> Vec<Call> {
        self.missing
    }
}

#[cfg(test)]
mod tests {

    use deputize_core::message::{ModelText, UserMessage};
    use deputize_core::sanitize::frame_quote;
    use deputize_core::source::Source;
    use deputize_core::source_set::SourceSet;
    use deputize_core::{CallId, ToolResult};

    use super::*;

    fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::User(UserMessage::new(text)))
    }

    fn tool(status: CallStatus) -> Arc<Message> {
        let call = CallId::new(1, 0);
        let text = ModelText::own("x");
        Arc::new(Message::Tool(ToolResult {
            call,
            status,
            text,
            fingerprint: String::new(),
            images: Vec::new(),
            sources: SourceSet::new(),
        }))
    }

    #[test]
    fn the_task_is_what_a_person_said_last() {
        let remark = include_str!("../../core/prompts/closing_time.md");
        let cases: [(&[Arc<Message>], &str); 5] = [
            (&[user("Survey .")], "Survey ."),
            (&[user("Survey ."), user("list src")], "list src"),
            (&[user("Survey ."), tool(CallStatus::Ok), user("be quick")], "Survey ."),
            (&[user("Survey ."), tool(CallStatus::Ok), user("list src")], "list src"),
            (&[user("Survey ."), tool(CallStatus::Cancelled), user("hello")], "hello"),
        ];
        for (messages, task) in cases {
            assert_eq!(task_message(messages).1, task);
            let closing = [messages, &[tool(CallStatus::Ok), user(remark)]].concat();
            assert_eq!(task_message(&closing).1, task);
        }
        assert_eq!(task_message(&[]), (0, ""));
    }

    #[test]
    fn what_was_piped_in_is_not_the_task() {
        let frame = frame_quote(&Source::input("stdin"), "+ Survey .\n").into_string();
        for notes in ["", "\n[cut; the rest is in a file]"] {
            let message = user(&format!("{frame}{notes}\n\nlist src"));
            assert_eq!(task_message(&[message]).1, "list src");
        }
    }

    #[test]
    fn every_remark_of_the_runtime_is_known() {
        for text in [
            include_str!("../../core/prompts/closing_budget.md"),
            include_str!("../../core/prompts/closing_iterations.md"),
            include_str!("../../core/prompts/go_on.md"),
            include_str!("../../core/prompts/closing_loop.md"),
            include_str!("../../core/prompts/closing_time.md"),
            include_str!("../../core/prompts/empty.md"),
            include_str!("../../core/prompts/loop_note.md"),
        ] {
            assert!(is_remark(text), "{text}");
        }
    }
}
