//! File work runs off the asynchronous threads.

use deputize_core::{ToolCallResult, ToolCx, ToolError};

/// Whether a call is made or only tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// Everything but the writing is done.
    DryRun,
    Real,
}

/// Runs the work of one call on a thread that may block. The work itself looks at
/// `cx.cancel`; dropping the future does not end it.
pub(crate) async fn blocking(
    cx: &ToolCx,
    work: impl FnOnce(&ToolCx) -> ToolCallResult + Send + 'static,
) -> ToolCallResult {
    let cx = cx.clone();
    match tokio::task::spawn_blocking(move || work(&cx)).await {
        Ok(result) => result,
        Err(lost) => Err(ToolError::failed(lost)),
    }
}

/// Returns an error if the call was cancelled before anything was done.
pub(crate) fn still_wanted(cx: &ToolCx) -> Result<(), ToolError> {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::default()));
    }
    Ok(())
}
