//! A child agent as an editor shows it: one call, whose progress comes in few notes.

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use deputize_core::event::AgentStart;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Outcome, Status};

use super::call_view::below;
use super::session_updates::update;

/// After so many calls there is a note, however soon.
const CALLS: u32 = 5;
/// The most characters of a goal.
const GOAL_CHARS: usize = 120;
/// The most characters of a call that is told of.
const CALL_CHARS: usize = 120;

#[derive(Debug)]
pub(crate) struct ChildView {
    id: String,
    /// The call that started it, as the editor knows it.
    below: Option<String>,
    /// `2/3` of a child, `2/3.1/2` of its child: which of how many tasks of one call.
    tag: String,
    goal: String,
    /// Calls that have ended.
    calls: u32,
    /// Those of them that no note told of.
    untold: u32,
    /// Whether something has happened since the last note.
    news: bool,
    /// The call that began last.
    last: String,
    runs: bool,
}

impl ChildView {
    /// A child with this id, below its parent's call or, where the parent is a child itself, below
    /// that: calls of children are not told one by one.
    pub(crate) fn new(id: String, start: &AgentStart, above: Option<&Self>) -> Self {
        let spec = &start.spec;
        let own = spec.spawned_by.as_ref();
        let of_top = own.map(|by| by.call.to_string());
        let below = above.map(|child| child.id.clone()).or(of_top);
        let own = own.map(|by| format!("{}/{}", by.task_index.saturating_add(1), by.task_count));
        let above = above.map(|child| format!("{}.", child.tag)).unwrap_or_default();
        Self {
            id,
            below,
            tag: format!("{above}{}", own.unwrap_or_default()),
            goal: for_terminal_line(&spec.goal, GOAL_CHARS),
            calls: 0,
            untold: 0,
            news: false,
            last: String::new(),
            runs: true,
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("[{}] {}", self.tag, self.goal)
    }

    /// Its id as a call.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// It begins.
    pub(crate) fn update(&self) -> SessionUpdate {
        let call = ToolCall::new(self.id.clone(), self.title());
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

    /// A call of it has ended; the note that this is worth.
    pub(crate) fn called(&mut self) -> Option<SessionUpdate> {
        self.calls += 1;
        self.untold += 1;
        self.news = true;
        (self.untold >= CALLS).then(|| self.note())
    }

    /// Some time has passed; the note that is due.
    pub(crate) fn tick(&mut self) -> Option<SessionUpdate> {
        (self.runs && self.news).then(|| self.note())
    }

    fn note(&mut self) -> SessionUpdate {
        (self.untold, self.news) = (0, false);
        let last = for_terminal_line(&self.last, CALL_CHARS);
        let text = format!("{}, last: {last}", calls(self.calls));
        update(self.id.clone(), ToolCallUpdateFields::new().content(vec![words(&text)]))
    }

    /// It has ended.
    pub(crate) fn ends(&mut self, outcome: &Outcome) -> Option<SessionUpdate> {
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
        let mut end = format!("{}: {}, {seconds} s", outcome.status.as_str(), calls(self.calls));
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

fn calls(count: u32) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn words(text: &str) -> ToolCallContent {
    ToolCallContent::from(text.to_owned())
}
