//! What a call asks for.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::agent::Role;
use serde_json::{Value, json};

use crate::call_error::CallError;
use crate::config::ToolFlavor;

/// The one field of a call of `task`.
pub(crate) const DESCRIPTION: &str = "description";

/// One task as it was asked for, readable as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestedTask {
    /// Its index in `tasks`; `None` in single mode.
    pub index: Option<u32>,
    /// What the child is to accomplish; never blank in a call without errors.
    pub goal: String,
    /// What it needs to know.
    pub context: Option<String>,
    /// The toolsets it asks for, as written; `None` if it names none.
    pub toolsets: Option<BTreeSet<String>>,
    /// Whether it may delegate.
    pub role: Role,
    /// Whether its conversation begins with that of its parent.
    pub is_fork: bool,
    /// Upper bound on its model requests; `None` means as configured.
    pub max_iterations: Option<u32>,
    /// JSON Schema for its answer; `None` for any text.
    pub output_schema: Option<Value>,
    /// Its model, one of those that the operator names.
    pub model: Option<String>,
    /// The name of its profile, one of those that the operator offers. What the profile says of
    /// role, iterations, schema and model is in the other fields.
    pub profile: Option<String>,
}

impl RequestedTask {
    /// Returns what the task asks for, without what makes no difference to the work.
    fn normalized(&self) -> Self {
        Self {
            index: None,
            goal: self.goal.trim().to_owned(),
            context: self.context.as_deref().map(|context| context.trim().to_owned()),
            ..self.clone()
        }
    }
}

/// A parsed call, and its mistakes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedCall {
    /// Number of tasks in the call, readable or not.
    pub count: usize,
    /// The tasks that could be read, in order; incomplete when there are errors.
    pub tasks: Vec<RequestedTask>,
    /// Whether the children are background children.
    pub background: bool,
    /// The tasks whose children an earlier process of the session began: with one, the call was
    /// accepted then.
    pub started_tasks: BTreeSet<u32>,
    /// Mistakes in the call, in order.
    pub errors: Vec<CallError>,
    /// Deviations from the text of the call, and ignored parts.
    pub warnings: Vec<String>,
}

impl ParsedCall {
    /// Returns whether two calls without mistakes ask for the same work, however they are written
    /// and in whatever order.
    pub(crate) fn asks_same(&self, other: &Self) -> bool {
        let mut left: BTreeMap<&str, Vec<RequestedTask>> = BTreeMap::new();
        for task in &other.tasks {
            left.entry(task.goal.trim()).or_default().push(task.normalized());
        }
        let mut take = |task: &RequestedTask| {
            let alike = left.get_mut(task.goal.trim())?;
            let task = task.normalized();
            let at = alike.iter().position(|other| *other == task)?;
            Some(alike.swap_remove(at))
        };
        self.errors.is_empty()
            && other.errors.is_empty()
            && self.background == other.background
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().all(|task| take(task).is_some())
    }

    /// Returns the tasks that ask for the same work as an earlier one of the call, each with that one.
    pub(crate) fn repeated_tasks(&self) -> Vec<(&RequestedTask, &RequestedTask)> {
        // A call may have thousands of tasks: only those of one goal are compared.
        let mut first: BTreeMap<&str, Vec<(RequestedTask, &RequestedTask)>> = BTreeMap::new();
        let mut repeated = Vec::new();
        for task in &self.tasks {
            let alike = first.entry(task.goal.trim()).or_default();
            let normalized = task.normalized();
            match alike.iter().find(|(earlier, _)| *earlier == normalized) {
                Some((_, earlier)) => repeated.push((task, *earlier)),
                None => alike.push((normalized, task)),
            }
        }
        repeated
    }

    /// The field that asks for children, and what it holds: of many tasks, how many.
    pub(crate) fn asks(&self, form: ToolFlavor) -> (&'static str, Value) {
        match (form, self.tasks.first()) {
            (ToolFlavor::Task, task) => (DESCRIPTION, task.map(|task| task.goal.clone()).into()),
            (ToolFlavor::DelegateTask, Some(RequestedTask { index: None, goal, .. })) => {
                ("goal", json!(goal))
            }
            (ToolFlavor::DelegateTask, _) => ("tasks", json!(self.count)),
        }
    }
}
