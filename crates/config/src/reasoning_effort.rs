//! The values of `reasoning_effort`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How hard a reasoning model thinks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// No level. Each key says what that means.
    #[default]
    #[schemars(description = "")]
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

impl ReasoningEffort {
    /// Returns the word that providers read; `None` for the model's own default.
    pub fn word(self) -> Option<String> {
        let word = serde_json::to_value(self).ok()?;
        word.as_str().filter(|word| !word.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_read_the_word_of_the_configuration() {
        assert_eq!(ReasoningEffort::Unset.word(), None);
        assert_eq!(ReasoningEffort::None.word().as_deref(), Some("none"));
        assert_eq!(ReasoningEffort::Xhigh.word().as_deref(), Some("xhigh"));
    }
}
