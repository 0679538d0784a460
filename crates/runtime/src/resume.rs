//! Taking a stored session up again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{
    AgentId, AgentSpec, AgentStart, ApproverMode, Authority, CallId, CallStatus, Cancel, Catalog,
    Cost, Effects, Event, ExitReason, Extent, Fact, FileLedger, JournalError, Message, ModelText,
    Moment, Outcome, Receipts, Record, Run, SessionId, Status, Step, ToolDecl, ToolEnd, ToolResult,
    UserMessage,
};

use crate::parts::Parts;
use crate::session::{Restored, Session, SessionError, begin_tape};
use crate::shared::Shared;
use crate::store::{SessionDir, SessionFile, StoredSession, Tail};

/// An agent as the journal has it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) spec: AgentSpec,
    pub(crate) declared: Vec<Arc<ToolDecl>>,
    pub(crate) run: Run,
    pub(crate) receipts: Receipts,
    /// What its own replies cost.
    pub(crate) cost: Cost,
    /// Attempts of requests that it sent.
    pub(crate) requests: u32,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) begun: bool,
    /// How long it ran in earlier processes, at least.
    pub(crate) ran: Duration,
    /// Whether the end of the session is on record since.
    session_ended: bool,
    /// Where its shell is, if it left its beginning.
    pub(crate) shell: Option<PathBuf>,
    /// Messages that were left for it and that it had not read, in order.
    pub(crate) letters: VecDeque<String>,
    /// Calls that had started and have no result, with the tool and the arguments.
    pub(crate) started: BTreeMap<CallId, (String, String)>,
    /// What had come of the last attempt that broke off.
    broken: String,
    /// What had come of replies that were cut, each before the message of this number.
    cuts: Vec<(usize, String)>,
}

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
        let restored = restored(&stored.records);
        let agents = &restored.agents;
        let root = agents.get(&AgentId::root(&id));
        let recovery = Recovery {
            dropped_bytes,
            unknown: agents.values().flat_map(|agent| agent.unknown(&parts.catalog)).collect(),
            ended: root.and_then(|root| root.outcome.as_ref()).map(|outcome| outcome.status),
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
        let root = AgentId::root(self.id());
        let mut stored =
            self.take_stored(&root).ok_or_else(|| ResumeError::Empty(self.id().clone()))?;
        let complete = stored.outcome.take_if(|outcome| {
            how.message.is_none() && outcome.exit_reason == ExitReason::Completed
        });
        if let Some(outcome) = complete {
            return Ok(match stored.session_ended {
                // The process that put it on record may have died before it was durable.
                true => self.kept_until(u64::MAX, outcome).await,
                false => self.record_end(&stored.spec, outcome).await,
            });
        }
        if let Some(model) = how.model {
            stored.spec.model = model;
        }
        if let Some(approver) = how.approver {
            stored.spec.approver = approver;
        }
        self.record_start(&stored.spec)?;
        let mut stored = settle(self.shared(), stored)?;
        // A first message that a crash kept from the record comes before anything else.
        // One that ended before it began was held back by a hook: a new message takes its place.
        if !stored.begun && (stored.outcome.is_none() || how.message.is_none()) {
            let task = stored.spec.task.clone();
            if let Some(blocked) = self.submit(&mut stored, task, cancel).await? {
                return Ok(blocked);
            }
        }
        let max_iterations = how.max_iterations.unwrap_or(stored.spec.limits.max_iterations);
        // The message first: a crash between the two must not leave a turn without one.
        if let Some(text) = how.message {
            // To one that rests a message is news; only this makes it the first of a new turn.
            if stored.begun && stored.run.step() == Step::Rest {
                stored.put(self, Event::AgentResume { max_iterations })?;
            }
            let text = self.shared().parts.secrets.scrub(&text).into_owned();
            if let Some(blocked) = self.submit(&mut stored, text, cancel).await? {
                return Ok(blocked);
            }
        }
        // One that rests is woken by what it waits for.
        let rests = stored.run.may_rest() && stored.outcome.is_none() && self.is_owed(&stored);
        if !rests {
            stored.put(self, Event::AgentResume { max_iterations })?;
        }
        let authority = authority.meet(&stored.spec.grant);
        Ok(self.run_stored(stored, authority, cancel).await)
    }

    /// Whether an agent has children that nobody waits for and of whose end it was not told.
    fn is_owed(&self, parent: &Stored) -> bool {
        let told = parent.run.delivered();
        let is_one = |stored: &Stored| {
            let spec = &stored.spec;
            spec.background && spec.parent.as_ref() == Some(&parent.spec.id)
        };
        let tree = self.shared().tree();
        tree.stored.iter().any(|(id, stored)| is_one(stored) && !told.contains(id))
    }

    /// Puts a message of the person on record, unless a hook blocks it: then that is the end.
    async fn submit(
        &self,
        stored: &mut Stored,
        text: String,
        cancel: &Cancel,
    ) -> Result<Option<Outcome>, JournalError> {
        let moment = Moment::UserPromptSubmit { prompt: &text };
        let asked = Box::pin(self.shared().hooks(&stored.spec, moment, cancel));
        let Some(reason) = asked.await? else {
            stored.put(self, Event::Message(UserMessage { text, from: None }))?;
            return Ok(None);
        };
        let reason = crate::hook::message_blocked(&reason);
        let outcome = Outcome::without_run(&stored.spec, Status::Failed, reason);
        self.record(&stored.spec, Event::AgentEnd(Box::new(outcome.clone())))?;
        Ok(Some(self.record_end(&stored.spec, outcome).await))
    }
}

impl Stored {
    /// Puts an event of this agent on record and takes it.
    fn put(&mut self, session: &Session, event: Event) -> Result<(), JournalError> {
        let record = session.record(&self.spec, event)?;
        self.take(&record.event);
        Ok(())
    }

    fn unknown(&self, catalog: &Catalog) -> Vec<UnknownCall> {
        let Step::Call(open) = self.run.step() else { return Vec::new() };
        let begun = open.into_iter().filter_map(|call| self.started.get(&call.id));
        let lost = begun.filter(|(tool, _)| !repeatable(catalog, tool));
        lost.map(|(tool, arguments)| UnknownCall {
            agent: self.spec.id.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
        })
        .collect()
    }
}

fn repeatable(catalog: &Catalog, tool: &str) -> bool {
    catalog.get(tool).is_some_and(|entry| entry.tool.spec().repeatable)
}

/// Gives calls that had started, and may not be repeated, a result that says so. Others stay
/// open and run again.
pub(crate) fn settle(shared: &Shared, mut stored: Stored) -> Result<Stored, JournalError> {
    let Step::Call(open) = stored.run.step() else { return Ok(stored) };
    let open: Vec<CallId> = open.into_iter().map(|call| call.id).collect();
    for call in open {
        let Some((tool, arguments)) = stored.started.get(&call) else { continue };
        if repeatable(&shared.parts.catalog, tool) {
            continue;
        }
        let facts: Vec<Fact> = unknown_command(shared, tool, arguments).into_iter().collect();
        let text = "interrupted: the program ended while this call ran, so its outcome is unknown. \
                    It was not run again; look at what it left before you repeat it.";
        let end = ToolEnd {
            tool: tool.clone(),
            result: ToolResult {
                call,
                status: CallStatus::Error,
                text: ModelText::own(text),
                fingerprint: String::new(),
            },
            args_bytes: arguments.len() as u64,
            ms: 0,
            facts,
            display: None,
            error: Some("the program ended while it ran".to_owned()),
        };
        shared.bus.record(&stored.spec, Event::ToolEnd(Box::new(end.clone())))?;
        stored.take(&Event::ToolEnd(Box::new(end)));
    }
    Ok(stored)
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

/// What a session that is taken up again brings along, from its records.
pub(crate) fn restored(records: &[Record]) -> Restored {
    let texts = texts(records);
    let mut agents = fold(records, &texts);
    for (id, ran) in run_times(records) {
        if let Some(stored) = agents.get_mut(&id) {
            stored.ran = ran;
        }
    }
    let mut spent = (Cost::default(), Cost::default());
    for agent in agents.values() {
        spent.0 += agent.cost;
        if agent.spec.depth > 0 {
            spent.1 += agent.cost;
        }
    }
    Restored {
        next: records.len() as u64,
        agents,
        children_time: children_time(records),
        spent,
        texts: texts.into_keys().collect::<BTreeSet<_>>(),
        files: ledger(records),
        play: None,
    }
}

/// The time in which at least one child ran.
fn children_time(records: &[Record]) -> Duration {
    let mut running: BTreeSet<&AgentId> = BTreeSet::new();
    let (mut spent, mut before) = (0_u64, 0);
    for record in records {
        if let Event::SessionStart(_) = record.event {
            // What ran when a process ended did not run until the next one.
            running.clear();
        }
        if !running.is_empty() {
            // Clocks jump back, too.
            spent += record.at.saturating_sub(before);
        }
        before = record.at;
        match record.event {
            Event::AgentEnd(_) => _ = running.remove(&record.agent),
            Event::AgentStart(_) | Event::ModelRequest { .. } | Event::ToolStart { .. }
                if record.depth > 0 =>
            {
                running.insert(&record.agent);
            }
            _ => {}
        }
    }
    Duration::from_millis(spent)
}

/// How long each child ran that has no end: from its first message on, as long as there were
/// records of the process that it ran in.
fn run_times(records: &[Record]) -> BTreeMap<AgentId, Duration> {
    let mut times: BTreeMap<AgentId, Duration> = BTreeMap::new();
    let mut running: BTreeSet<AgentId> = BTreeSet::new();
    let mut before = 0;
    for record in records {
        if let Event::SessionStart(_) = record.event {
            // Nothing ran between two processes.
            running.clear();
        }
        // Clocks jump back, too.
        let passed = Duration::from_millis(record.at.saturating_sub(before));
        before = record.at;
        for id in &running {
            *times.entry(id.clone()).or_default() += passed;
        }
        match record.event {
            Event::AgentEnd(_) => {
                running.remove(&record.agent);
                times.remove(&record.agent);
            }
            Event::Message(_) | Event::ModelRequest { .. } | Event::ToolStart { .. }
                if record.depth > 0 =>
            {
                running.insert(record.agent.clone());
            }
            _ => {}
        }
    }
    times
}

/// The texts of the agents of a session, by hash.
fn texts(records: &[Record]) -> BTreeMap<String, Arc<str>> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::AgentStart(start) => Some(&start.texts),
        _ => None,
    });
    starts.flatten().map(|(hash, text)| (hash.clone(), Arc::clone(text))).collect()
}

/// The agents of a session, each as the fold of its records.
fn fold(records: &[Record], texts: &BTreeMap<String, Arc<str>>) -> BTreeMap<AgentId, Stored> {
    let mut agents: BTreeMap<AgentId, Stored> = BTreeMap::new();
    for record in records {
        match &record.event {
            Event::AgentStart(start) => {
                agents.insert(record.agent.clone(), stored(start, texts));
            }
            event => {
                if let Some(agent) = agents.get_mut(&record.agent) {
                    agent.take(event);
                }
            }
        }
    }
    agents
}

fn stored(start: &AgentStart, texts: &BTreeMap<String, Arc<str>>) -> Stored {
    let mut spec = start.spec.clone();
    spec.system = start.system.iter().filter_map(|hash| texts.get(hash)).cloned().collect();
    let tools = texts.get(&start.tools).and_then(|text| serde_json::from_str(text).ok());
    let tools: Vec<ToolDecl> = tools.unwrap_or_default();
    Stored {
        run: Run::of(&spec),
        spec,
        declared: tools.into_iter().map(Arc::new).collect(),
        receipts: Receipts::default(),
        cost: Cost::default(),
        requests: 0,
        outcome: None,
        begun: false,
        ran: Duration::ZERO,
        session_ended: false,
        shell: None,
        letters: VecDeque::new(),
        started: BTreeMap::new(),
        broken: String::new(),
        cuts: Vec::new(),
    }
}

impl Stored {
    fn take(&mut self, event: &Event) {
        match event {
            Event::ToolStart { call, tool, arguments } => {
                self.started.insert(*call, (tool.clone(), arguments.clone()));
            }
            Event::ToolEnd(end) => {
                for fact in &end.facts {
                    self.receipts.add(fact);
                    if let Fact::ShellMoved { path } = fact {
                        self.shell = Some(path.clone());
                    }
                }
            }
            Event::AgentEnd(outcome) => self.outcome = Some((**outcome).clone()),
            Event::ModelResponse { reply, cost_usd, .. } => {
                self.broken.clear();
                self.cost += Cost {
                    tokens: reply.usage.input.saturating_add(reply.usage.output),
                    usd: cost_usd.unwrap_or_default(),
                    unpriced: cost_usd.is_none(),
                };
            }
            Event::ModelRequest { .. } => self.requests = self.requests.saturating_add(1),
            Event::ModelError { error, retried, cost } => {
                self.cost += cost.unwrap_or_default();
                if !error.partial.trim().is_empty() {
                    self.broken.clone_from(&error.partial);
                }
                if !retried && !self.broken.is_empty() {
                    let text = std::mem::take(&mut self.broken);
                    self.cuts.push((self.run.messages().len(), text));
                }
            }
            Event::MessageLeft { text } => self.letters.push_back(text.clone()),
            Event::Message(message) => {
                // It reads them in the order they were left.
                let is_left = |left: &&String| message.from.is_none() && **left == message.text;
                if self.letters.front().filter(is_left).is_some() {
                    self.letters.pop_front();
                }
                self.begun = true;
                self.outcome = None;
                self.session_ended = false;
            }
            Event::AgentResume { .. } => {
                self.outcome = None;
                self.session_ended = false;
            }
            Event::SessionEnd { .. } => self.session_ended = true,
            _ => {}
        }
        if let Some(input) = event.input() {
            self.run.apply(input);
        }
    }
}

fn ledger(records: &[Record]) -> FileLedger {
    let files = FileLedger::default();
    for record in records {
        match &record.event {
            // A call that did not end runs again, so that what it read counts when it ended.
            Event::ToolEnd(end) => end.facts.iter().for_each(|fact| {
                if let Fact::FileRead { path, version, whole } = fact {
                    let extent = if *whole { Extent::Whole } else { Extent::Part };
                    files.saw_extent(&record.agent, path, version.clone(), extent);
                }
            }),
            Event::FileWrite { path, version, created: false } => {
                files.wrote(&record.agent, path, version.clone());
            }
            Event::FileWrite { path, version, created: true } => {
                files.created(&record.agent, path, version.clone());
            }
            Event::AgentEnd(_) if record.depth > 0 => files.ended(&record.agent),
            _ => {}
        }
    }
    files
}

/// What was said in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message, as the model saw it.
    Message(Arc<Message>),
    /// What had come of a reply that was cut or broke off. No model reads it.
    Cut(String),
}

impl StoredSession {
    /// The conversation of an agent, as its model saw it after the system text.
    #[must_use]
    pub fn messages(&self, agent: &AgentId) -> Option<Vec<Arc<Message>>> {
        let agents = fold(&self.records, &self.texts());
        agents.get(agent).map(|stored| stored.run.messages().to_vec())
    }

    /// The conversation of an agent after the system text, with what had come of replies that were
    /// cut, where they were.
    #[must_use]
    pub fn said(&self, agent: &AgentId) -> Option<Vec<Said>> {
        let agents = fold(&self.records, &self.texts());
        let stored = agents.get(agent)?;
        let mut cuts = stored.cuts.iter().peekable();
        let mut said = Vec::new();
        for (at, message) in stored.run.messages().iter().enumerate() {
            while let Some((_, text)) = cuts.next_if(|(before, _)| *before <= at) {
                said.push(Said::Cut(text.clone()));
            }
            said.push(Said::Message(Arc::clone(message)));
        }
        said.extend(cuts.map(|(_, text)| Said::Cut(text.clone())));
        Some(said)
    }

    /// The top agent's spec, with its texts.
    #[must_use]
    pub fn root_spec(&self) -> Option<AgentSpec> {
        let texts = self.texts();
        let root = AgentId::root(&self.header.session);
        self.records.iter().find_map(|record| match &record.event {
            Event::AgentStart(start) if record.agent == root => Some(stored(start, &texts).spec),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deputize_core::{Stale, Version};

    #[test]
    fn what_was_read_in_part_is_known_in_part_after_a_resume() {
        let agent = AgentId::root(&SessionId::literal("s"));
        let (path, version) = (PathBuf::from("/w/f"), Version::of(b"x"));
        let read = |whole| {
            let call = CallId { step: 1, slot: 0 };
            let (status, text) = (CallStatus::Ok, ModelText::own(""));
            let (path, version) = (path.clone(), version.clone());
            Event::ToolEnd(Box::new(ToolEnd {
                tool: "read_file".to_owned(),
                result: ToolResult { call, status, text, fingerprint: String::new() },
                args_bytes: 0,
                ms: 0,
                facts: vec![Fact::FileRead { path, version, whole }],
                display: None,
                error: None,
            }))
        };
        let record =
            |event| Record { seq: 0, at: 0, agent: agent.clone(), parent: None, depth: 0, event };
        let files = ledger(&[record(read(false))]);
        assert_eq!(files.check(&agent, &path, &version), Ok(()));
        let partly = Err(Stale::Partly { lines: None });
        assert_eq!(files.check_whole(&agent, &path, &version), partly);
        let files = ledger(&[record(read(false)), record(read(true))]);
        assert_eq!(files.check_whole(&agent, &path, &version), Ok(()));
    }
}
