//! How and why an agent ends.

use serde::{Deserialize, Serialize};

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With an answer.
    Completed,
    /// Without an answer.
    Failed,
    /// By an internal error of the host.
    Error,
    /// By the time limit.
    Timeout,
    /// By an interrupt.
    Interrupted,
}

/// Why an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The model finished.
    Completed,
    /// It had made its maximum number of model requests.
    MaxIterations,
    /// Its budget had no room for another request.
    Budget,
    /// The model's output limit cut the answer.
    MaxOutputTokens,
    /// Its answer does not match the schema, even after corrections.
    SchemaInvalid,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// An error occurred.
    Error,
    /// Its time limit passed.
    Timeout,
    /// It was interrupted.
    Interrupted,
}

macro_rules! words {
    ($type:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// Returns the name used in events and results.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words!(Status {
    Completed => "completed", Failed => "failed", Error => "error", Timeout => "timeout",
    Interrupted => "interrupted",
});
words!(ExitReason {
    Completed => "completed", MaxIterations => "max_iterations",
    Budget => "budget", MaxOutputTokens => "max_output_tokens",
    SchemaInvalid => "schema_invalid", ContextOverflow => "context_overflow", Error => "error",
    Timeout => "timeout", Interrupted => "interrupted",
});
