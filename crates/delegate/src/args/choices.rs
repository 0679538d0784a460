//! What a call chooses for its children.

use deputize_core::agent::Role;
use serde_json::Value;

/// What a call, or a task, chooses for a child; `None` for what it does not say.
#[derive(Default)]
pub(super) struct TaskChoices {
    pub(super) role: Option<Role>,
    pub(super) max_iterations: Option<u32>,
    pub(super) output_schema: Option<Value>,
    pub(super) model: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) is_fork: Option<bool>,
}

impl TaskChoices {
    /// Adds what another says where this says nothing.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            role: self.role.or(other.role),
            max_iterations: self.max_iterations.or(other.max_iterations),
            output_schema: self.output_schema.or_else(|| other.output_schema.clone()),
            model: self.model.or_else(|| other.model.clone()),
            profile: self.profile.or_else(|| other.profile.clone()),
            is_fork: self.is_fork.or(other.is_fork),
        }
    }
}
