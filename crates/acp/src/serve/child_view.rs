//! A child agent as an editor shows it: one call, whose progress comes in few notes.

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use deputize_core::agent::AgentSpec;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Outcome, Status};
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use super::call_view::{below, update};

/// After so many calls there is a note, however soon.
const CALLS: usize = 5;
/// The most characters of a goal.
const GOAL_CHARS: usize = 120;
/// The most characters of a call that is shown.
const CALL_CHARS: usize = 120;

/// What an editor knows of a child.
#[derive(Debug)]
pub(crate) struct ChildView {
    id: String,
    /// The call that started it, as the editor knows it.
    below: Option<String>,
    /// Calls that had ended at the last note.
    noted_calls: usize,
    /// Whether something has happened since the last note.
    news: bool,
    /// The call that began last, or what a call said of itself since.
    last: String,
    runs: bool,
}

/// Returns the title of a child as a call.
pub(crate) fn child_title(session: &SessionSnapshot, child: &AgentSnapshot) -> String {
    let goal = for_terminal_line(&child.goal, GOAL_CHARS);
    format!("[{}] {goal}", session.task_path(&child.id))
}

impl ChildView {
    /// A child with this id, below its parent's call or, where the parent is a child itself, below
    /// that: calls of children are not shown one by one.
    pub(crate) fn new(id: String, spec: &AgentSpec, above: Option<&Self>) -> Self {
        let of_top = spec.spawned_by.as_ref().map(|by| by.call.to_string());
        let below = above.map(|child| child.id.clone()).or(of_top);
        Self { id, below, noted_calls: 0, news: false, last: String::new(), runs: true }
    }

    /// Its id as a call.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// It begins.
    pub(crate) fn update(&self, title: String) -> SessionUpdate {
        let call = ToolCall::new(self.id.clone(), title);
        let call = call.kind(ToolKind::Think).status(ToolCallStatus::InProgress);
        let call = call.meta(self.below.as_deref().map(below));
        SessionUpdate::ToolCall(call)
    }

    /// It goes on, after its end.
    pub(crate) fn goes_on(&mut self) -> Option<SessionUpdate> {
        let before = std::mem::replace(&mut self.runs, true);
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        (!before).then(|| update(self.id.clone(), fields))
    }

    /// It calls a tool.
    pub(crate) fn calls(&mut self, call: String) {
        self.last = call;
        self.news = true;
    }

    /// A call of it has ended, so many of them in all; the note that this is worth.
    pub(crate) fn called(&mut self, ended: usize) -> Option<SessionUpdate> {
        self.news = true;
        (ended.saturating_sub(self.noted_calls) >= CALLS).then(|| self.note(ended))
    }

    /// Some time has passed, and so many calls have ended; the note that is due.
    pub(crate) fn tick(&mut self, ended: usize) -> Option<SessionUpdate> {
        (self.runs && self.news).then(|| self.note(ended))
    }

    fn note(&mut self, ended: usize) -> SessionUpdate {
        (self.noted_calls, self.news) = (ended, false);
        let last = for_terminal_line(&self.last, CALL_CHARS);
        let text = format!("{}, last: {last}", calls(ended));
        update(self.id.clone(), ToolCallUpdateFields::new().content(vec![words(&text)]))
    }

    /// It has ended after so many calls.
    pub(crate) fn ends(&mut self, outcome: &Outcome, ended: usize) -> Option<SessionUpdate> {
        if !std::mem::replace(&mut self.runs, false) {
            return None;
        }
        let status = match outcome.status {
            Status::Completed => ToolCallStatus::Completed,
            Status::Failed | Status::Error | Status::Timeout | Status::Interrupted => {
                ToolCallStatus::Failed
            }
        };
        let answer = outcome.text.as_deref().filter(|text| !text.trim().is_empty());
        let mut content: Vec<_> = answer.map(words).into_iter().collect();
        let seconds = outcome.duration_ms.div_ceil(1000);
        let mut end = format!("{}: {}, {seconds} s", outcome.status.as_str(), calls(ended));
        if let Some(error) = &outcome.error {
            end.push_str(&format!(": {}", for_terminal_line(error, 500)));
        }
        content.push(words(&end));
        let fields = ToolCallUpdateFields::new().status(status).content(content);
        Some(update(self.id.clone(), fields))
    }

    /// Nothing more will come of it: its id, if the editor has not been told of an end.
    pub(crate) fn leave(&mut self) -> Option<String> {
        std::mem::replace(&mut self.runs, false).then(|| self.id.clone())
    }
}

fn calls(count: usize) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn words(text: &str) -> ToolCallContent {
    ToolCallContent::from(text.to_owned())
}
