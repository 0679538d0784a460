//! Taking a stored session up again.

use std::sync::Arc;

use deputize_core::{
    AgentId, AgentSpec, ApproverMode, Authority, CallId, CallStatus, Cancel, Catalog, Effects,
    Event, ExitReason, Fact, JournalError, ModelText, Moment, Outcome, SessionId, Status, Step,
    ToolEnd, ToolResult, UserMessage,
};

use crate::agent_state::{AgentState, StartedCall};
use crate::parts::Parts;
use crate::session::{Session, SessionError, begin_tape};
use crate::shared::Shared;
use crate::store::{SessionDir, SessionFile, Tail};
use crate::stored::{StoredAgent, restored};

/// A call that had started when the program ended: what became of it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCall {
    /// Whose it is.
    pub agent: AgentId,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: String,
}

/// What was found when a session was opened again.
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
    #[error("session `{0}` has no agent to go on with: it ended before it began; start a new one")]
    Empty(SessionId),
    /// Its file.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How a session goes on.
#[derive(Debug, Clone, Default)]
pub struct Continue {
    /// What the person says, if anything.
    pub message: Option<String>,
    /// Another model for the top agent, if any.
    pub model: Option<String>,
    /// How the top agent's questions are now answered, if in another way.
    pub approver: Option<ApproverMode>,
    /// Model requests that a turn of the top agent now has, if it is to be another number.
    pub max_iterations: Option<u32>,
}

impl Session {
    /// Opens a stored session to go on with it.
    ///
    /// # Errors
    /// When it is in use, damaged, or cannot be opened.
    pub fn open(
        dir: &SessionDir,
        id: SessionId,
        parts: Parts,
    ) -> Result<(Self, Recovery), SessionError> {
        let (file, stored) = SessionFile::open(dir, &id)?;
        let parts = Parts { secret: stored.header.secret.clone(), ..parts };
        let dropped_bytes = match stored.tail {
            Tail::Whole => 0,
            Tail::Torn { bytes } => bytes,
        };
        let restored = restored(&stored.records, &parts);
        let agents = &restored.agents;
        let root = agents.get(&AgentId::root(&id));
        let recovery = Recovery {
            dropped_bytes,
            unknown: agents
                .values()
                .flat_map(|agent| unknown_calls(agent, &parts.catalog))
                .collect(),
            ended: root.and_then(|root| root.state.read().outcome().map(|outcome| outcome.status)),
        };
        begin_tape(&parts, &id, Some(&stored.records));
        Ok((Self::over(dir, id, parts, Arc::new(file), restored), recovery))
    }

    /// The spec of the stored top agent.
    ///
    /// # Errors
    /// When the session has none.
    pub fn stored_spec(&self) -> Result<AgentSpec, ResumeError> {
        self.peek_stored(&AgentId::root(self.id()), |stored| stored.spec.clone())
            .ok_or_else(|| ResumeError::Empty(self.id().clone()))
    }

    /// Goes on with a session that was opened: finishes what was begun, or takes a new
    /// message. One that is complete gives the outcome it has. The authority is met with what the agent had asked for.
    ///
    /// # Errors
    /// When there is nothing to go on with, or the journal takes no records.
    pub async fn resume(
        &self,
        how: Continue,
        authority: Authority,
        cancel: &Cancel,
    ) -> Result<Outcome, ResumeError> {
        // What it holds across its waits is too large for the stack of every caller.
        Box::pin(self.resume_top_agent(how, authority, cancel)).await
    }

    async fn resume_top_agent(
        &self,
        how: Continue,
        authority: Authority,
        cancel: &Cancel,
    ) -> Result<Outcome, ResumeError> {
        let root = AgentId::root(self.id());
        let mut stored =
            self.take_stored(&root).ok_or_else(|| ResumeError::Empty(self.id().clone()))?;
        let (outcome, session_ended) = {
            let state = stored.state.read();
            (state.outcome().cloned(), state.session_ended())
        };
        let complete = outcome.filter(|outcome| {
            how.message.is_none() && outcome.exit_reason == ExitReason::Completed
        });
        if let Some(outcome) = complete {
            return Ok(match session_ended {
                // The process that put it on record may have died before it was durable.
                true => self.kept_until(u64::MAX, outcome).await,
                false => self.record_end(&stored.spec, outcome).await,
            });
        }
        if let Some(model) = how.model {
            let was = std::mem::replace(&mut stored.spec.model, model.clone());
            self.shared().follow(&was, &model);
        }
        if let Some(approver) = how.approver {
            stored.spec.approver = approver;
        }
        self.record_start(&stored.spec)?;
        settle(self.shared(), &stored)?;
        // A first message that a crash kept from the record comes before anything else.
        // One that ended before it began was held back by a hook: a new message takes its place.
        let (begun, ended) = {
            let state = stored.state.read();
            (state.has_begun(), state.outcome().is_some())
        };
        if !begun && (!ended || how.message.is_none()) {
            let task = stored.spec.task.clone();
            if let Some(blocked) = self.submit(&stored.spec, task, cancel).await? {
                return Ok(blocked);
            }
        }
        let max_iterations = how.max_iterations.unwrap_or(stored.spec.limits.max_iterations);
        // The message first: a crash between the two must not leave a turn without one.
        if let Some(text) = how.message {
            // To one that rests a message is news; only this makes it the first of a new turn.
            let rests = {
                let state = stored.state.read();
                state.has_begun() && state.run().step() == Step::Rest
            };
            if rests {
                self.record(&stored.spec, Event::AgentResume { max_iterations })?;
            }
            let text = self.shared().parts.secrets.scrub(&text).into_owned();
            if let Some(blocked) = self.submit(&stored.spec, text, cancel).await? {
                return Ok(blocked);
            }
        }
        // One that rests is woken by what it waits for.
        let may_rest = {
            let state = stored.state.read();
            state.run().may_rest() && state.outcome().is_none()
        };
        if !may_rest || !self.is_owed(&stored) {
            self.record(&stored.spec, Event::AgentResume { max_iterations })?;
        }
        let authority = authority.meet(&stored.spec.grant);
        Ok(self.run_stored(stored, authority, cancel).await)
    }

    /// Whether an agent has children that nobody waits for and of whose end it was not told.
    fn is_owed(&self, parent: &StoredAgent) -> bool {
        let told = parent.state.read().run().delivered().clone();
        let is_one = |stored: &StoredAgent| {
            let spec = &stored.spec;
            spec.background && spec.parent.as_ref() == Some(&parent.spec.id)
        };
        let tree = self.shared().tree();
        tree.stored.iter().any(|(id, stored)| is_one(stored) && !told.contains(id))
    }

    /// Puts a message of the person on record, unless a hook blocks it: then that is the end.
    async fn submit(
        &self,
        spec: &AgentSpec,
        text: String,
        cancel: &Cancel,
    ) -> Result<Option<Outcome>, JournalError> {
        let moment = Moment::UserPromptSubmit { prompt: &text };
        let asked = Box::pin(self.shared().hooks(spec, moment, cancel));
        let Some(reason) = asked.await? else {
            self.record(spec, Event::Message(UserMessage { text, from: None }))?;
            return Ok(None);
        };
        let reason = crate::hook::message_blocked(&reason);
        let outcome = Outcome::without_run(spec, Status::Failed, reason);
        self.record(spec, Event::AgentEnd(Box::new(outcome.clone())))?;
        Ok(Some(self.record_end(spec, outcome).await))
    }
}

impl Shared {
    /// Agents under way with the model that the top agent had go on with its new one, where
    /// nothing else names the old one any more.
    fn follow(&self, was: &str, now: &str) {
        if self.parts.models.route(was).is_some() || self.parts.external.contains_key(was) {
            return;
        }
        for stored in self.tree().stored.values_mut() {
            if stored.spec.model == was && stored.state.read().outcome().is_none() {
                now.clone_into(&mut stored.spec.model);
            }
        }
    }
}

/// Returns the calls that had started when the program ended and do not run again.
fn lost_calls(state: &AgentState, catalog: &Catalog) -> Vec<(CallId, StartedCall)> {
    let Step::Call(open) = state.run().step() else { return Vec::new() };
    let started = open.into_iter().filter_map(|call| {
        let started = state.started_call(call.id)?;
        Some((call.id, started.clone()))
    });
    let runs_again =
        |call, started: &StartedCall| runs_again(started, state.has_accepted(call), catalog);
    started.filter(|(call, started)| !runs_again(*call, started)).collect()
}

/// Returns whether a call that had started may run again. Where it started agents, another tool may
/// take it up.
fn runs_again(call: &StartedCall, accepted: bool, catalog: &Catalog) -> bool {
    let entry = accepted.then(|| catalog.spawner(&call.tool)).flatten();
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
    let entry = entry.or_else(|| catalog.get(&call.tool));
    entry.is_some_and(|entry| entry.tool.may_repeat(&arguments))
}

fn unknown_calls(agent: &StoredAgent, catalog: &Catalog) -> Vec<UnknownCall> {
    let lost = lost_calls(&agent.state.read(), catalog);
    let unknown = lost.into_iter().map(|(_, StartedCall { tool, arguments })| UnknownCall {
        agent: agent.spec.id.clone(),
        tool,
        arguments,
    });
    unknown.collect()
}

/// Puts on record what became of what was under way when the program ended. A request is over,
/// and what it took an estimate. Calls that had started, and may not be repeated, get a result that
/// says so; others stay open and run again.
pub(crate) fn settle(shared: &Shared, stored: &StoredAgent) -> Result<(), JournalError> {
    let parts = &shared.parts;
    if let Some((error, cost)) = stored.lost_request(&parts.models, parts.budgets) {
        let event = Event::ModelError { error, retried: true, cost: Some(cost) };
        shared.bus.record(&stored.spec, event)?;
    }
    let lost = lost_calls(&stored.state.read(), &parts.catalog);
    for (call, StartedCall { tool, arguments }) in lost {
        let facts: Vec<Fact> = unknown_command(shared, &tool, &arguments).into_iter().collect();
        let text = "interrupted: the program ended while this call ran, so its outcome is unknown. \
                    It was not run again; look at what it left before you repeat it.";
        let said = shared.untold(&stored.spec.id, call).map(|said| format!("\n{said}"));
        let text = format!("{text}{}", said.unwrap_or_default());
        let end = ToolEnd {
            result: ToolResult {
                call,
                status: CallStatus::Error,
                text: ModelText::own(text),
                fingerprint: String::new(),
            },
            tool,
            args_bytes: arguments.len() as u64,
            ms: 0,
            facts,
            display: None,
            error: Some("the program ended while it ran".to_owned()),
            boundary: None,
        };
        shared.bus.record(&stored.spec, Event::ToolEnd(Box::new(end)))?;
    }
    Ok(())
}

/// The command of a call of which nothing but its start is known: how it ended is not.
fn unknown_command(shared: &Shared, tool: &str, arguments: &str) -> Option<Fact> {
    let entry = shared.parts.catalog.get(tool)?;
    if entry.tool.spec().effects != Effects::Unknown {
        return None;
    }
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let command = shared.parts.secrets.scrub(arguments.get("command")?.as_str()?).into_owned();
    Some(Fact::Command { command, exit_code: None, unknown: true })
}
