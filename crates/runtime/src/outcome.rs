//! Makes outcomes of agents' states.

use deputize_core::agent::AgentSpec;
use deputize_core::run::Step;
use deputize_core::{Outcome, Status};

use crate::agent_state::AgentState;

/// Returns what the state of an agent says of its end.
pub(crate) fn outcome_of(spec: &AgentSpec, state: &AgentState, fault: Option<String>) -> Outcome {
    let run = state.run();
    let mut outcome = match (run.step(), fault) {
        (Step::Done(end), None) => Outcome {
            status: end.status,
            exit_reason: end.reason,
            text: end.text.clone(),
            partial: end.partial,
            error: end.error.clone(),
            cause: end.cause.clone(),
            provider_unavailable: end.unavailable,
            ..host_fault(spec, String::new())
        },
        (_, fault) => {
            let fault = fault.unwrap_or_else(|| "the agent ended without an end".to_owned());
            Outcome { text: run.text(), ..host_fault(spec, fault) }
        }
    };
    outcome.iterations = run.iterations();
    outcome.usage = run.usage();
    outcome.trace = run.trace().to_vec();
    outcome.requests = state.requests();
    outcome.receipts = state.receipts().clone();
    if !run.served().is_empty() {
        run.served().clone_into(&mut outcome.model);
    }
    outcome
}

/// Returns the outcome of an agent that the host could not run.
pub(crate) fn host_fault(spec: &AgentSpec, error: String) -> Outcome {
    Outcome::without_run(spec, Status::Error, error)
}
