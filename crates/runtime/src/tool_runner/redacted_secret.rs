//! Calls that would write the mark of a secret where the secret belongs.

use deputize_core::message::CallStatus;
use deputize_core::sanitize::Secrets;
use deputize_core::{Effects, ToolSpec};
use serde_json::Value;

use super::result::FinishedCall;

/// Returns the result of a call that has the mark of a secret in its arguments and may change
/// something: a model that writes a file anew as it read it would destroy the secret. A call that
/// only reads may look for the mark.
pub(super) fn refuse_mark(
    secrets: &Secrets,
    tool: &ToolSpec,
    arguments: &Value,
) -> Option<FinishedCall> {
    if tool.effects_of(arguments) == Effects::ReadOnly {
        return None;
    }
    let mark = secrets.mask_in(&arguments.to_string())?;
    let text = format!(
        "nothing ran: {mark} in the arguments stands in place of a secret, which models are not \
         shown: a file or a command would get this text itself. In a file, change only the lines \
         around it; or let the person do it."
    );
    Some(FinishedCall::own(CallStatus::Error, text))
}
