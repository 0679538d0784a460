//! The values of `reasoning_effort`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hard a reasoning model thinks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// The model's own default.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// No reasoning.
    None,
    /// As little as possible.
    Minimal,
    /// Little reasoning.
    Low,
    /// Some reasoning.
    Medium,
    /// Much reasoning.
    High,
    /// As much as the model can.
    Xhigh,
}
