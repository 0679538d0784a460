//! When conversations are compacted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When conversations are compacted, and by which model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// The part of a model's context that a conversation may fill before older messages give way to
    /// a summary. At 1, only when it is full.
    #[schemars(range(min = 0.1, max = 1.0))]
    pub at: f64,
    /// The model that writes the summary, as PROVIDER/MODEL. Empty: the agent's own.
    pub model: String,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { at: 0.8, model: String::new() }
    }
}
