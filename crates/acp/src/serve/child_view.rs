//! A child agent as an editor shows it: one call, with occasional progress notes.

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use deputize_core::agent::AgentSpec;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Outcome, Status};
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use super::call_view::{below, update};

/// Number of calls after which a note is due, however recent the last one.
const CALLS: usize = 5;
/// Limit on a goal, in characters.
const GOAL_CHARS: usize = 120;
/// Limit on a shown call, in characters.
const CALL_CHARS: usize = 120;

/// A child, as the editor knows it.
#[derive(Debug)]
pub(crate) struct ChildView {
    id: String,
    /// The call that started it, as the editor knows it.
    below: Option<String>,
    /// Number of calls that had ended at the last note.
    noted_calls: usize,
    /// Whether something has happened since the last note.
    news: bool,
    /// The call that began last, or its latest progress text.
    last: String,
    runs: bool,
}

/// Returns the title of a child as a call.
pub(crate) fn child_title(session: &SessionSnapshot, child: &AgentSnapshot) -> String {
    let goal = for_terminal_line(&child.goal, GOAL_CHARS);
    format!("[{}] {goal}", session.task_path(&child.id))
}

impl ChildView {
    /// Creates the view of a child. It stands below its parent's call or, if the parent is a child
    /// itself, below that child: the calls of children are not shown one by one.
    pub(crate) fn new(id: String, spec: &AgentSpec, above: Option<&Self>) -> Self {
        let of_top = spec.spawned_by.as_ref().map(|by| by.call.to_string());
        let below = above.map(|child| child.id.clone()).or(of_top);
        Self { id, below, noted_calls: 0, news: false, last: String::new(), runs: true }
    }

    /// Its id as a call.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the update that shows the child.
    pub(crate) fn update(&self, title: String) -> SessionUpdate {
        let call = ToolCall::new(self.id.clone(), title);
        let call = call.kind(ToolKind::Think).status(ToolCallStatus::InProgress);
        let call = call.meta(self.below.as_deref().map(below));
        SessionUpdate::ToolCall(call)
    }

    /// Marks an ended child as running again; `None` if it was running.
    pub(crate) fn goes_on(&mut self) -> Option<SessionUpdate> {
        let before = std::mem::replace(&mut self.runs, true);
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
        (!before).then(|| update(self.id.clone(), fields))
    }

    /// Records the start of a call.
    pub(crate) fn calls(&mut self, call: String) {
        self.last = call;
        self.news = true;
    }

    /// Records the end of a call; `ended` is the total. Returns a note if one is due.
    pub(crate) fn record_call(&mut self, ended: usize) -> Option<SessionUpdate> {
        self.news = true;
        (ended.saturating_sub(self.noted_calls) >= CALLS).then(|| self.note(ended))
    }

    /// Returns a note if one is due; `ended` is the number of ended calls.
    pub(crate) fn tick(&mut self, ended: usize) -> Option<SessionUpdate> {
        (self.runs && self.news).then(|| self.note(ended))
    }

    fn note(&mut self, ended: usize) -> SessionUpdate {
        (self.noted_calls, self.news) = (ended, false);
        let last = for_terminal_line(&self.last, CALL_CHARS);
        let text = format!("{}, last: {last}", calls(ended));
        update(self.id.clone(), ToolCallUpdateFields::new().content(vec![words(&text)]))
    }

    /// Records the child's end after `ended` calls.
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

    /// Drops the child. Returns its id if the editor has not received its end.
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
