//! Agents of the journal when a session is resumed: what was under way is settled, and those that
//! nobody takes up again, or that cannot go on, end.

use std::sync::Arc;

use deputize_core::agent::{AgentSpec, AttachError};
use deputize_core::budget::Cost;
use deputize_core::event::{JournalError, ToolEnd};
use deputize_core::message::CallStatus;
use deputize_core::run::Step;
use deputize_core::sanitize::{for_terminal_line, frame_for_model};
use deputize_core::source::Source;
use deputize_core::{
    AgentId, AgentView, CallId, Cancel, CancelReason, Catalog, Effects, Event, Outcome, Status,
    ToolEffect, ToolResult, describe_error,
};

use crate::agent_context::AgentContext;
use crate::agent_state::{AgentState, PROGRAM_ENDED, StartedCall};
use crate::agent_tree::Spending;
use crate::child_end::{notify_of_end, session_path, signal_above};
use crate::outcome::{host_fault, outcome_of};
use crate::process_journal::lost_process;
use crate::session_inner::SessionInner;
use crate::stored_agent::StoredAgent;

/// Limit on a goal that identifies a child, in characters.
const GOAL_CHARS: usize = 80;

/// Returns why a child of the journal does not go on, or `None` if it does. It, or one above it, may
/// have been stopped. The end of an external program that has begun says more than that.
pub(crate) fn why_it_ends(
    shared: &SessionInner,
    parent: &AgentView,
    stored: &StoredAgent,
) -> Option<String> {
    let (begun, stopped) = {
        let state = stored.state.read();
        (state.has_begun(), state.stopped())
    };
    let lost = begun && shared.config.external.contains_key(&stored.spec.model);
    if let Some(reason) = stopped.filter(|_| !lost) {
        return Some(reason.as_text().to_owned());
    }
    let why = can_go_on(shared, parent, &stored.spec, begun).err()?;
    Some(format!("it could not go on: {why}"))
}

/// Whether its parent may have such a child now, and its model can be used.
fn can_go_on(
    shared: &SessionInner,
    parent: &AgentView,
    spec: &AgentSpec,
    begun: bool,
) -> Result<(), AttachError> {
    let authority = shared.child_authority(parent, &spec.grant)?;
    shared.routes(spec, &authority)?;
    // A program of its own that has not begun is started now.
    let program = shared.config.external.get(&spec.model).filter(|_| !begun);
    match program.and_then(|program| program.refusal(spec, &authority)) {
        Some(why) => Err(AttachError::External(why)),
        None => Ok(()),
    }
}

/// Ends a stored child that does not continue, with its partial outcome, after all agents below it.
/// Runs the hooks, then calls `on_end`.
pub(crate) fn end_stored(
    shared: &Arc<SessionInner>,
    stored: StoredAgent,
    why: String,
    on_end: impl FnOnce(Outcome) + Send + 'static,
) {
    let session = Arc::clone(shared);
    let spec = stored.spec.clone();
    shared.tasks.spawn(async move {
        let shared = session;
        let signal = signal_above(&shared, &spec).unwrap_or_else(|| shared.cancel.child());
        let ended = match end_orphans(&shared, &spec, &signal).await {
            Ok(()) => end_orphan(&shared, stored, Some(why), &signal).await,
            Err(error) => Err(error),
        };
        on_end(ended.unwrap_or_else(|error| host_fault(&spec, describe_error(&error))));
    });
}

/// Returns the reports of a call's children that ended in an earlier process and that nobody
/// attached to; `None` if there are none.
pub(crate) fn is_unreported(
    shared: &SessionInner,
    parent: &AgentId,
    call: CallId,
) -> Option<String> {
    let tree = shared.tree();
    let of_call = |stored: &&StoredAgent| {
        let spec = &stored.spec;
        let by = spec.spawned_by.as_ref().filter(|_| spec.parent.as_ref() == Some(parent));
        by.is_some_and(|by| by.call == call) && !spec.background
    };
    let said = tree.stored.values().filter(of_call).filter_map(|stored| {
        let state = stored.state.read();
        let outcome = state.outcome()?;
        let text = outcome.text.as_deref().or(outcome.error.as_deref())?;
        let source = Source::child(outcome.agent.as_str());
        let text = shared.config.secrets.scrub(text);
        let framed = frame_for_model(&shared.config.record.secret, parent, call, &source, &text);
        let goal = for_terminal_line(&stored.spec.goal, GOAL_CHARS);
        let status = outcome.status.as_str();
        Some(format!("Its child {goal:?} had ended ({status}):\n{}", framed.as_str()))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Ends the agents below one that is ending which a crash had left without an end, the
/// deepest first: their calls have results now, so nobody will ever ask for them again.
/// What they did and what they cost counts all the same.
///
/// # Errors
/// When the journal takes no records.
pub(crate) async fn end_orphans(
    shared: &SessionInner,
    ending: &AgentSpec,
    signal: &Cancel,
) -> Result<(), JournalError> {
    let prefix = format!("{}/", ending.id);
    let is_orphan = |id: &AgentId, stored: &StoredAgent| {
        id.as_str().starts_with(&prefix) && stored.state.read().outcome().is_none()
    };
    let orphans: Vec<StoredAgent> = {
        let stored = &mut shared.tree().stored;
        let ids = stored.iter().filter(|(id, stored)| is_orphan(id, stored));
        let ids: Vec<AgentId> = ids.map(|(id, _)| id.clone()).rev().collect();
        ids.iter().filter_map(|id| stored.remove(id)).collect()
    };
    for stored in orphans {
        end_orphan(shared, stored, None, signal).await?;
    }
    Ok(())
}

/// Nothing of an agent follows its end: what hooks say of one below it comes before that.
async fn end_orphan(
    shared: &SessionInner,
    stored: StoredAgent,
    why: Option<String>,
    signal: &Cancel,
) -> Result<Outcome, JournalError> {
    settle_interrupted(shared, &stored)?;
    let StoredAgent { spec, state, earlier, .. } = &stored;
    let (begun, requests, stopped) = {
        let state = state.read();
        (state.has_begun(), state.requests(), state.stopped())
    };
    // What a program of its own cost that ran nobody here knows: it asked no model of ours.
    let external = requests == 0 && shared.config.models.route(&spec.model).is_none();
    let reason = stopped.unwrap_or(CancelReason::Interrupted);
    shared.bus.record(spec, Event::AgentStop { reason, pending: false })?;
    let (mut outcome, mut cost, said) = {
        let state = state.read();
        let said = state.external_text().map(str::to_owned);
        (outcome_of(spec, &state, None), state.cost(), said)
    };
    cost.unpriced |= begun && external;
    // One whose answer is on record had come to its end.
    outcome.error = why.filter(|_| outcome.status != Status::Completed).or(outcome.error);
    outcome.text = outcome.text.or(said);
    let ran = earlier.tasks + earlier.agent;
    outcome.duration_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
    record_end(shared, spec, &mut outcome, cost)?;
    notify_of_end(shared, spec, &outcome, signal).await;
    shared.keep_continuable(stored);
    Ok(outcome)
}

/// Records the end of an agent that its driver does not record, with the work of those below it.
fn record_end(
    shared: &SessionInner,
    spec: &AgentSpec,
    outcome: &mut Outcome,
    mut cost: Cost,
) -> Result<(), JournalError> {
    let ended = shared.registry.remove_live(spec, Spending { usage: outcome.usage, cost });
    cost += ended.below.cost;
    outcome.children_usage = ended.below.usage;
    outcome.cost_usd = cost.known_usd();
    outcome.session_path = session_path(shared, spec);
    shared.tree().add_descendants(outcome, ended.unfinished);
    shared.bus.record(spec, Event::AgentEnd(Box::new(outcome.clone())))?;
    shared.tree().store_end(spec, outcome);
    Ok(())
}

/// Ends an agent whose task panicked, and records that unless its end is on record.
pub(crate) fn end_panicked(cx: &AgentContext) -> Outcome {
    let shared = &cx.shared;
    let spec = cx.spec();
    cx.handle.children.cancel(CancelReason::EndedAbove);
    cx.handle.mark_over();
    let (recorded, mut outcome, cost) = {
        let state = cx.state.read();
        let why = "the agent's task panicked: this is a bug in deputize".to_owned();
        (state.outcome().cloned(), outcome_of(spec, &state, Some(why)), state.cost())
    };
    match recorded {
        Some(recorded) => outcome = recorded,
        // If even this cannot be kept, the outcome still reaches whoever waits.
        None => _ = record_end(shared, spec, &mut outcome, cost),
    }
    shared.keep_continuable(cx.ended());
    outcome
}

/// Returns the calls that had started when the program ended and do not run again: nested ones
/// before the calls that made them.
pub(crate) fn lost_calls(state: &AgentState, catalog: &Catalog) -> Vec<(CallId, StartedCall)> {
    let mut lost = state.nested_calls();
    let Step::Call(open) = state.run().step() else { return lost };
    let started = open.into_iter().filter_map(|call| {
        let started = state.started_call(call.id)?;
        Some((call.id, started.clone()))
    });
    let runs_again =
        |call, started: &StartedCall| runs_again(started, state.has_accepted(call), catalog);
    lost.extend(started.filter(|(call, started)| !runs_again(*call, started)));
    lost
}

/// Returns whether a call that had started may run again. Where it started agents, another tool may
/// take it up.
fn runs_again(call: &StartedCall, accepted: bool, catalog: &Catalog) -> bool {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
    match accepted.then(|| catalog.spawner(&call.tool)).flatten() {
        Some(entry) => entry.tool.may_repeat(&arguments),
        None => may_repeat(call, catalog),
    }
}

/// Returns whether the tool of a call says that it may be repeated.
pub(crate) fn may_repeat(call: &StartedCall, catalog: &Catalog) -> bool {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
    catalog.get(&call.tool).is_some_and(|entry| entry.tool.may_repeat(&arguments))
}

/// Puts on record what became of what was under way when the program ended. A request is over,
/// and what it took an estimate. Calls that had started, and may not be repeated, get a result that
/// says so; others stay open and run again.
pub(crate) fn settle_interrupted(
    shared: &SessionInner,
    stored: &StoredAgent,
) -> Result<(), JournalError> {
    let config = &shared.config;
    if let Some((error, cost)) = stored.lost_request(&config.models, config.budgets) {
        let event = Event::ModelError { error, retried: true, cost: Some(cost) };
        shared.bus.record(&stored.spec, event)?;
    }
    let running = stored.state.read().running_processes();
    for start in running {
        let end = lost_process(&start);
        shared.bus.record(&stored.spec, Event::ProcessEnd(Box::new(end)))?;
    }
    let lost = lost_calls(&stored.state.read(), &config.tools.catalog);
    for (call, StartedCall { tool, arguments }) in lost {
        let facts: Vec<ToolEffect> =
            unknown_command(shared, &tool, &arguments).into_iter().collect();
        let text = "interrupted: the program ended while this call ran, so its outcome is unknown. \
                    It was not run again; look at what it left before you repeat it.";
        let said = is_unreported(shared, &stored.spec.id, call).map(|said| format!("\n{said}"));
        let text = format!("{text}{}", said.unwrap_or_default());
        let mut result = ToolResult::host(call, CallStatus::Error, text);
        result.sources.extend(stored.state.read().call_sources(call));
        let end = ToolEnd {
            result,
            tool,
            args_bytes: arguments.len() as u64,
            ms: 0,
            facts,
            display: None,
            error: Some(PROGRAM_ENDED.to_owned()),
            boundary: None,
        };
        shared.bus.record(&stored.spec, Event::ToolEnd(Box::new(end)))?;
    }
    Ok(())
}

/// The command of a call of which nothing but its start is known: how it ended is not.
fn unknown_command(shared: &SessionInner, tool: &str, arguments: &str) -> Option<ToolEffect> {
    let entry = shared.config.tools.catalog.get(tool)?;
    if entry.tool.spec().effects != Effects::Unknown {
        return None;
    }
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let (_, command) = entry.tool.spec().subject.commands(&arguments).next()?;
    let command = shared.config.secrets.scrub(command).into_owned();
    Some(ToolEffect::Command { command, exit_code: None, unknown: true })
}
