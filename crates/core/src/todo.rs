//! The todo list of an agent.

use std::borrow::Cow;

use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::resource::Resource;

/// The state of an item of a todo list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    /// Not started yet.
    Pending,
    /// Worked on now; at most one item of a list is.
    InProgress,
    /// Completed; no work is left.
    Done,
}

/// The names explain themselves: a model gets no more than them.
impl JsonSchema for TodoState {
    fn schema_name() -> Cow<'static, str> {
        "TodoState".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": ["pending", "in_progress", "done"]})
    }
}

/// An item of a todo list.
// Models know it by its names; descriptions would be sent with every request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "")]
pub struct TodoItem {
    /// What is to be done.
    #[schemars(description = "")]
    pub text: String,
    /// Its state.
    #[schemars(description = "")]
    pub state: TodoState,
}

/// The todo list of one agent, stored with it. The runtime fills it again when the agent is resumed.
#[derive(Debug, Default)]
pub struct TodoList(Mutex<Vec<TodoItem>>);

impl Resource for TodoList {}

impl TodoList {
    /// Replaces the items.
    pub fn set(&self, items: Vec<TodoItem>) {
        *self.0.lock() = items;
    }

    /// Returns the items.
    #[must_use]
    pub fn items(&self) -> Vec<TodoItem> {
        self.0.lock().clone()
    }
}
