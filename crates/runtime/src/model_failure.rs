//! Words on a request that failed for good: after several attempts, with several models.

use deputize_core::Message;
use deputize_core::model::{FailureKind, ModelError};
use deputize_core::run::Run;
use deputize_core::sanitize::for_terminal_line;

/// Maximum number of characters of a call that an error repeats.
const CALL_CHARS: usize = 300;

/// How a model failed for good.
pub(crate) struct ModelFailure {
    /// The model, as agents name it.
    model: String,
    message: String,
    cause: String,
}

impl ModelFailure {
    pub(crate) fn new(model: String, error: &ModelError) -> Self {
        let message = error.message.clone();
        let cause = error.cause.clone().unwrap_or_else(|| message.clone());
        Self { model, message, cause }
    }
}

/// Returns the last failure of a request with the number of its attempts, if they were several. What
/// was not sent was not tried.
pub(crate) fn with_attempts(error: ModelError, attempts: u32) -> ModelError {
    if attempts < 2 || error.kind == FailureKind::Unavailable {
        return error;
    }
    let message = format!("{} (tried {attempts} times)", error.message);
    ModelError { cause: Some(error.message), message, ..error }
}

/// Returns the last of these failures with a line for each model, if several were tried.
pub(crate) fn of_all_models(error: ModelError, failures: &[ModelFailure]) -> ModelError {
    if failures.len() < 2 {
        return error;
    }
    let text = |words: fn(&ModelFailure) -> &str| {
        let line = |failure: &ModelFailure| format!("\n  {}: {}", failure.model, words(failure));
        let lines: String = failures.iter().map(line).collect();
        format!("no model could answer:{lines}")
    };
    let message = text(|failure| &failure.message);
    let cause = Some(text(|failure| &failure.cause)).filter(|cause| *cause != message);
    ModelError { message, cause, ..error }
}

/// Returns what stands in the last call of a conversation, on one line.
pub(crate) fn last_call_words(run: &Run) -> String {
    let calls = run.messages().iter().rev().find_map(|message| match &**message {
        Message::Assistant(said) => said.calls.last(),
        Message::User(_) | Message::Tool(_) => None,
    });
    calls.map(|call| for_terminal_line(&call.arguments, CALL_CHARS)).unwrap_or_default()
}
