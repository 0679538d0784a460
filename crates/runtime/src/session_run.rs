//! Starts and ends a session around the run of its top agent.

use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::event::{JournalError, SessionStart};
use deputize_core::outcome::ExitReason;
use deputize_core::{Cancel, CancelReason, Event, Outcome, Status, describe_error};

use crate::launch::ReadyAgent;
use crate::outcome::host_fault;
use crate::session_config::SyncMode;
use crate::session_inner::SessionInner;
use crate::spawn::LocalAgent;

/// Runs the top agent to its end, and ends the session.
pub(crate) async fn run_to_end(
    shared: &Arc<SessionInner>,
    spec: &AgentSpec,
    agent: Result<ReadyAgent, String>,
) -> Outcome {
    let outcome = match agent {
        Ok(agent) => LocalAgent::launch(agent).wait().await,
        Err(error) => host_fault(spec, error),
    };
    // Background children are told to end, and waited for.
    shared.cancel.cancel(CancelReason::EndedAbove);
    shared.tasks.close();
    shared.tasks.wait().await;
    record_end(shared, spec, outcome).await
}

/// Puts the end of the session on record, and returns the outcome, which says so if that
/// failed. The answer is known either way; what a failed sync may have lost is written again
/// by the next process that opens the session.
pub(crate) async fn record_end(
    shared: &SessionInner,
    spec: &AgentSpec,
    outcome: Outcome,
) -> Outcome {
    let end = Event::SessionEnd {
        status: outcome.status,
        exit_code: outcome.exit_code(),
        usage: outcome.tree_usage(),
        cost_usd: outcome.cost_usd,
    };
    match shared.bus.record(spec, end) {
        Ok(record) => kept_until(shared, record.seq, outcome).await,
        Err(error) => journal_failure(outcome, &error),
    }
}

/// Waits until all up to this record is durable, and returns the outcome, which says so if that
/// failed.
pub(crate) async fn kept_until(shared: &SessionInner, seq: u64, outcome: Outcome) -> Outcome {
    if shared.config.record.sync == SyncMode::Never {
        return outcome;
    }
    match shared.bus.durable(seq).await {
        Ok(()) => outcome,
        Err(error) => journal_failure(outcome, &error),
    }
}

/// Returns a signal below the caller's and the session's own.
pub(crate) fn signal_below(shared: &SessionInner, cancel: &Cancel) -> Cancel {
    let own = shared.cancel.child();
    let caller = cancel.clone();
    let below = own.clone();
    shared.tasks.spawn(async move {
        tokio::select! {
            biased;
            () = caller.cancelled() => {
                below.cancel(caller.reason().unwrap_or(CancelReason::Interrupted));
            }
            () = below.cancelled() => {}
        }
    });
    own
}

/// Puts the start of the session on record, or that it is resumed.
pub(crate) fn record_start(shared: &SessionInner, spec: &AgentSpec) -> Result<(), JournalError> {
    let start = SessionStart {
        cwd: spec.cwd.clone(),
        model: spec.model.clone(),
        toolsets: spec.toolsets.iter().map(ToString::to_string).collect(),
        program: shared.config.record.program.clone(),
        endpoint: shared.config.record.endpoint.clone(),
        config_file: shared.config.record.config_file.clone(),
    };
    shared.bus.record(spec, Event::SessionStart(start)).map(|_| ())
}

/// An outcome whose record may be lost: it is no success any more.
fn journal_failure(outcome: Outcome, error: &JournalError) -> Outcome {
    let unkept = "the end of the session could not be kept";
    let error = match &outcome.error {
        // Why is told once where no record could be kept any more.
        Some(first) if first.contains(&*error.path.to_string_lossy()) => {
            format!("{first}; {unkept}")
        }
        Some(first) => format!("{first}; {unkept}: {}", describe_error(error)),
        None => format!("{unkept}: {}", describe_error(error)),
    };
    let (status, exit_reason) = match outcome.status {
        Status::Completed => (Status::Error, ExitReason::Error),
        status => (status, outcome.exit_reason),
    };
    Outcome { status, exit_reason, error: Some(error), ..outcome }
}
