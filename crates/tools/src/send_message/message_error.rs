//! Why a message was not delivered.

use std::error::Error;

use deputize_core::message::ModelText;
use deputize_core::{ToolError, describe_error};

/// Why a message was not delivered. The texts name targets and nothing behind them, because models
/// read them; the source has the details for the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// There is no such target.
    #[error("there is no target `{name}`; {}", known_targets(known))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// The names of those that there are.
        known: String,
    },
    /// The message is empty, too long, or has a secret in it.
    #[error("{0}")]
    Text(String),
    /// Nothing was sent.
    #[error("nothing was sent to `{target}`: {why}")]
    NotSent {
        /// Name of the message target.
        target: String,
        /// The cause, as text for the model.
        why: String,
        /// The error behind it, for the operator.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// It may have been delivered.
    #[error(
        "it is not known whether the message reached `{target}`: {why}. Do not send it again by \
         yourself"
    )]
    Unsure {
        /// Name of the message target.
        target: String,
        /// The cause, as text for the model.
        why: String,
        /// The error behind it, for the operator.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

fn known_targets(known: &str) -> String {
    if known.is_empty() { "none is configured".to_owned() } else { format!("targets: {known}") }
}

impl MessageError {
    /// Creates the error that nothing was sent.
    pub(crate) fn not_sent(target: &str, why: impl Into<String>) -> Self {
        Self::NotSent { target: target.to_owned(), why: why.into(), source: None }
    }

    /// Creates the error that it is not known whether the message arrived.
    pub(crate) fn unsure(target: &str, why: impl Into<String>) -> Self {
        Self::Unsure { target: target.to_owned(), why: why.into(), source: None }
    }

    /// Returns the same with details for the operator.
    pub(crate) fn because(self, details: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let details = Some(details.into());
        match self {
            Self::NotSent { target, why, .. } => Self::NotSent { target, why, source: details },
            Self::Unsure { target, why, .. } => Self::Unsure { target, why, source: details },
            other => other,
        }
    }
}

impl From<MessageError> for ToolError {
    fn from(error: MessageError) -> Self {
        let text = error.to_string();
        match error {
            MessageError::NotSent { target, why, source: Some(source) }
            | MessageError::Unsure { target, why, source: Some(source) } => {
                let source = format!("`{target}`: {why}: {}", describe_error(&*source)).into();
                Self::Unavailable { text: ModelText::own(text), source }
            }
            _ => Self::refused(text),
        }
    }
}
