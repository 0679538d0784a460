//! Resumes a stored session.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::ApproverMode;
use deputize_core::event::JournalError;
use deputize_core::hook::HookEvent;
use deputize_core::image::Image;
use deputize_core::message::UserMessage;
use deputize_core::name::ChildEndId;
use deputize_core::outcome::ExitReason;
use deputize_core::run::Step;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{
    AgentId, Authority, Cancel, Catalog, Event, Outcome, SessionId, Status, describe_error,
};

use crate::agent_state::StartedCall;
use crate::launch::resume_agent;
use crate::orphan::{lost_calls, may_repeat, settle_interrupted};
use crate::session_inner::SessionInner;
use crate::session_run::{kept_until, record_end, record_start, run_to_end, signal_below};
use crate::stored_agent::StoredAgent;

/// A call that had started when the program ended: what became of it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCall {
    /// Whose it is.
    pub agent: AgentId,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call, as the model wrote them.
    pub arguments: String,
}

/// Findings of reopening a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Bytes of a last, incomplete record that were dropped.
    pub dropped_bytes: u64,
    /// Calls whose outcome is unknown. They are not run again.
    pub unknown: Vec<UnknownCall>,
    /// How its top agent had ended, if it had.
    pub ended: Option<Status>,
}

/// Why a session cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It has no agent.
    #[error("session `{0}` has no agent to continue: it ended before it began; start a new one")]
    Empty(SessionId),
    /// The message has images, and the model sees none.
    #[error("the model `{0}` sees no images, and the message has some")]
    NoVision(String),
    /// Its file.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How a session goes on.
#[derive(Debug, Clone, Default)]
pub struct Continue {
    /// The person's new message, if any.
    pub message: Option<String>,
    /// Sources of parts of the message, beside the person.
    pub sources: SourceSet,
    /// Images that the model sees with the message.
    pub images: Vec<Image>,
    /// Another model for the top agent, if any.
    pub model: Option<String>,
    /// How the top agent's questions are now answered, if in another way.
    pub approver: Option<ApproverMode>,
    /// Model requests that a turn of the top agent now has, if it is to be another number.
    pub max_iterations: Option<u32>,
}

impl Recovery {
    /// Describes the agents of a session from whose file so many bytes were dropped.
    pub(crate) fn of(
        agents: &BTreeMap<AgentId, StoredAgent>,
        session: &SessionId,
        catalog: &Catalog,
        dropped_bytes: u64,
    ) -> Self {
        let root = agents.get(&AgentId::root(session));
        Self {
            dropped_bytes,
            unknown: agents.values().flat_map(|agent| unknown_calls(agent, catalog)).collect(),
            ended: root.and_then(|root| root.state.read().outcome().map(|outcome| outcome.status)),
        }
    }
}

fn unknown_calls(agent: &StoredAgent, catalog: &Catalog) -> Vec<UnknownCall> {
    let lost = lost_calls(&agent.state.read(), catalog);
    // A nested call that may be repeated has changed nothing.
    let lost = lost.into_iter().filter(|(_, call)| !may_repeat(call, catalog));
    let unknown = lost.map(|(_, StartedCall { tool, arguments })| UnknownCall {
        agent: agent.spec.id.clone(),
        tool,
        arguments,
    });
    unknown.collect()
}

/// Goes on with the top agent of a session that was opened; see [`Session::resume`].
///
/// [`Session::resume`]: crate::Session::resume
///
/// # Errors
/// If there is nothing to resume, or if the journal takes no records.
pub(crate) async fn resume_top_agent(
    shared: &Arc<SessionInner>,
    how: Continue,
    authority: Authority,
    cancel: &Cancel,
) -> Result<Outcome, ResumeError> {
    let id = &shared.view.id;
    let stored = shared.tree().stored.remove(&AgentId::root(id));
    let mut stored = stored.ok_or_else(|| ResumeError::Empty(id.clone()))?;
    if how.message.is_none()
        && let Some(outcome) = completed_before(shared, &stored).await
    {
        return Ok(outcome);
    }
    change_spec(shared, &mut stored.spec, &how)?;
    record_start(shared, &stored.spec)?;
    settle_interrupted(shared, &stored)?;
    if let Some(blocked) = record_turn(shared, &stored, how, cancel).await? {
        return Ok(blocked);
    }
    let authority = Arc::new(authority.intersect(&stored.spec.grant));
    let spec = stored.spec.clone();
    let agent = resume_agent(shared, stored, authority, signal_below(shared, cancel));
    Ok(run_to_end(shared, &spec, agent.map_err(|error| describe_error(&error))).await)
}

/// Applies to the top agent's spec what is to be another than before.
fn change_spec(
    shared: &SessionInner,
    spec: &mut AgentSpec,
    how: &Continue,
) -> Result<(), ResumeError> {
    if let Some(model) = &how.model {
        let was = std::mem::replace(&mut spec.model, model.clone());
        follow_model(shared, &was, model);
    }
    if let Some(approver) = how.approver {
        spec.approver = approver;
    }
    if !how.images.is_empty() && !shared.config.models.sees_images(&spec.model) {
        return Err(ResumeError::NoVision(spec.model.clone()));
    }
    Ok(())
}

/// Puts on record with what the top agent goes on: its first message if that is missing, the
/// person's new one, and that it goes on, unless it rests and is woken by what it waits for. Returns
/// its outcome if a hook blocks a message.
async fn record_turn(
    shared: &SessionInner,
    stored: &StoredAgent,
    how: Continue,
    cancel: &Cancel,
) -> Result<Option<Outcome>, JournalError> {
    let spec = &stored.spec;
    // A first message that a crash kept from the record comes before anything else.
    // One that ended before it began was held back by a hook: a new message takes its place.
    let (begun, ended) = {
        let state = stored.state.read();
        (state.has_begun(), state.outcome().is_some())
    };
    if !begun && (!ended || how.message.is_none()) {
        let task = message_of(&spec.task, &spec.task_sources, &spec.images);
        if let Some(blocked) = submit(shared, spec, task, cancel).await? {
            return Ok(Some(blocked));
        }
    }
    let max_iterations = how.max_iterations.unwrap_or(spec.limits.max_iterations);
    // The message first: a crash between the two must not leave a turn without one.
    if let Some(text) = how.message {
        // To one that rests a message is news; only this makes it the first of a new turn.
        let rests = {
            let state = stored.state.read();
            state.has_begun() && state.run().step() == Step::Rest
        };
        if rests {
            shared.bus.record(spec, Event::AgentResume { max_iterations, task: None })?;
        }
        let text = shared.config.secrets.scrub(&text).into_owned();
        let message = message_of(&text, &how.sources, &how.images);
        if let Some(blocked) = submit(shared, spec, message, cancel).await? {
            return Ok(Some(blocked));
        }
    }
    let may_rest = {
        let state = stored.state.read();
        state.run().may_rest() && state.outcome().is_none()
    };
    if !may_rest || !is_owed(shared, stored) {
        shared.bus.record(spec, Event::AgentResume { max_iterations, task: None })?;
    }
    Ok(None)
}

/// Returns the outcome of an agent that has completed, once its end is durable.
async fn completed_before(shared: &Arc<SessionInner>, stored: &StoredAgent) -> Option<Outcome> {
    let (outcome, session_ended) = {
        let state = stored.state.read();
        (state.outcome().cloned(), state.session_ended())
    };
    let outcome = outcome.filter(|outcome| outcome.exit_reason == ExitReason::Completed)?;
    Some(match session_ended {
        // The process that put it on record may have died before it was durable.
        true => kept_until(shared, u64::MAX, outcome).await,
        false => record_end(shared, &stored.spec, outcome).await,
    })
}

/// Returns whether an agent has messages to read, or background children whose end was not
/// delivered to it.
fn is_owed(shared: &SessionInner, parent: &StoredAgent) -> bool {
    if !parent.state.read().mailbox().is_empty() {
        return true;
    }
    let arrived = parent.state.read().run().delivered().clone();
    let is_one = |stored: &StoredAgent| {
        let spec = &stored.spec;
        spec.background && spec.parent.as_ref() == Some(&parent.spec.id)
    };
    let tree = shared.tree();
    tree.stored.iter().any(|(id, stored)| {
        let number = stored.state.read().end_number();
        is_one(stored) && !arrived.contains(&ChildEndId { child: id.clone(), number })
    })
}

/// Returns a message of the person, which has parts of other sources.
fn message_of(text: &str, others: &SourceSet, images: &[Image]) -> UserMessage {
    let sources = others.iter().cloned().chain([Source::user()]);
    UserMessage { images: images.to_vec(), ..UserMessage::new(text).with_sources(sources) }
}

/// Puts a message of the person on record, unless a hook blocks it: then that is the end.
async fn submit(
    shared: &SessionInner,
    spec: &AgentSpec,
    message: UserMessage,
    cancel: &Cancel,
) -> Result<Option<Outcome>, JournalError> {
    let event = HookEvent::UserPromptSubmit { prompt: &message.text };
    let asked = Box::pin(shared.hooks.run(spec, event, cancel));
    let Some(reason) = asked.await? else {
        shared.bus.record(spec, Event::Message(message))?;
        return Ok(None);
    };
    let reason = crate::hook::message_blocked(&reason);
    let outcome = Outcome::without_run(spec, Status::Failed, reason);
    shared.bus.record(spec, Event::AgentEnd(Box::new(outcome.clone())))?;
    Ok(Some(record_end(shared, spec, outcome).await))
}

/// Agents under way with the model that the top agent had go on with its new one, where
/// nothing else names the old one any more.
fn follow_model(shared: &SessionInner, was: &str, now: &str) {
    if shared.config.models.route(was).is_some() || shared.config.external.contains_key(was) {
        return;
    }
    for stored in shared.tree().stored.values_mut() {
        if stored.spec.model == was && stored.state.read().outcome().is_none() {
            now.clone_into(&mut stored.spec.model);
        }
    }
}
