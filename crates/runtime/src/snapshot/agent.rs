//! One agent of a session snapshot.

use deputize_core::agent::{AgentActivity, AgentSpec, Role, SpawnedBy};
use deputize_core::budget::Cost;
use deputize_core::event::RequestPurpose;
use deputize_core::model::Usage;
use deputize_core::outcome::ExitReason;
use deputize_core::process::ProcessStart;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::todo::TodoItem;
use deputize_core::{AgentId, Catalog, Event, Outcome, Status, ToolEffect, ToolName};

use super::calls::AgentCalls;
use super::totals::TreeTotals;

/// Maximum number of characters that are kept of a goal.
const GOAL_CHARS: usize = 400;

/// An agent as it stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentSnapshot {
    /// ID of the agent.
    pub id: AgentId,
    /// ID of its parent; `None` for the top agent.
    pub parent: Option<AgentId>,
    /// Levels below the top agent, which has 0.
    pub depth: u32,
    /// The task, on one line of at most 400 characters, safe for a terminal.
    pub goal: String,
    /// Whether it may delegate work.
    pub role: Role,
    /// The name of its profile; `None` if it has none.
    pub profile: Option<String>,
    /// Whether it began with its parent's conversation.
    pub is_fork: bool,
    /// Tools that it sees and lacks only because nobody approves their calls.
    pub unapproved: Vec<ToolName>,
    /// The call that started it.
    pub spawned_by: Option<SpawnedBy>,
    /// The model that it asked last, or is to ask.
    pub model: String,
    /// Its requests, tokens and cost.
    pub usage: AgentUsage,
    /// Its calls, running and ended.
    pub calls: AgentCalls,
    /// Its todo list, as it left it last; empty without one.
    pub todo: Vec<TodoItem>,
    /// Its background commands that run, in the order of their starts.
    pub processes: Vec<ProcessStart>,
    /// When it began.
    pub times: AgentTimes,
    /// How it ended; `None` until then.
    pub exit: Option<AgentExit>,
    flags: ActivityFlags,
}

/// The model requests of an agent, without those of its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct AgentUsage {
    /// Number of requests sent; each attempt counts.
    pub requests: u32,
    /// Number of replies.
    pub replies: u32,
    /// Number of the request that the last reply answers, from 1.
    pub iteration: u32,
    /// Tokens, those of failed attempts included.
    pub tokens: Usage,
    /// Cost, that of failed attempts included.
    pub cost: Cost,
}

/// Times of an agent, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AgentTimes {
    /// Unix time of its start, in milliseconds.
    pub started: u64,
    /// Time since its start in which no process of the session ran, in milliseconds.
    pub downtime: u64,
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentExit {
    /// How it ended.
    pub status: Status,
    /// Why it ended.
    pub exit_reason: ExitReason,
    /// The error, for the operator.
    pub error: Option<String>,
    /// See [`Outcome::cause`].
    pub cause: Option<String>,
    /// Unix time of its end, in milliseconds.
    pub at: u64,
    /// Milliseconds from its start to its end.
    pub duration_ms: u64,
    /// Number of its calls.
    pub calls: usize,
    /// Whether it left a text.
    pub has_text: bool,
    /// Number of the top agent's turn at that time, from 0.
    pub turn: u32,
    /// The whole outcome; `None` unless the snapshot [keeps outcomes].
    ///
    /// [keeps outcomes]: super::SessionSnapshot::keep_outcomes
    pub outcome: Option<Box<Outcome>>,
}

/// Present work of a running agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AgentWork {
    /// It has sent no request yet.
    #[default]
    Starting,
    /// Waits for the model, or is between two steps.
    Model,
    /// Waits before the next attempt of a request.
    Retry {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Maximum number of attempts.
        of: u32,
    },
    /// Runs calls.
    Calls,
}

/// A time without progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The tool that is running; the first one called if there are several.
    pub tool: Option<String>,
    /// Milliseconds without progress when it was noticed.
    pub idle_ms: u64,
}

/// Flags that decide the activity of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ActivityFlags {
    work: AgentWork,
    /// Whether it waits for a slot among those that run.
    is_waiting: bool,
    is_resting: bool,
    /// Whether it is stopping, or gives its closing answer.
    is_ending: bool,
    stall: Option<Stall>,
}

impl AgentSnapshot {
    pub(super) fn new(at: u64, spec: &AgentSpec) -> Self {
        Self {
            id: spec.id.clone(),
            parent: spec.parent.clone(),
            depth: spec.depth,
            goal: for_terminal_line(&spec.goal, GOAL_CHARS),
            role: spec.role,
            profile: spec.profile.clone(),
            is_fork: spec.is_fork,
            unapproved: spec.unapproved.clone(),
            spawned_by: spec.spawned_by.clone(),
            model: spec.model.clone(),
            usage: AgentUsage::default(),
            calls: AgentCalls::default(),
            todo: Vec::new(),
            processes: Vec::new(),
            times: AgentTimes { started: at, downtime: 0 },
            exit: None,
            flags: ActivityFlags { is_waiting: spec.background, ..ActivityFlags::default() },
        }
    }

    pub(super) fn apply(&mut self, event: &Event, tools: &Catalog) {
        self.flags.apply(event);
        self.usage.apply(event);
        self.calls.apply(event, tools);
        match event {
            // Agents know it by this name; its server may call it something else in replies.
            Event::ModelRequest { model, purpose: RequestPurpose::Turn, .. }
                if !model.is_empty() =>
            {
                self.model.clone_from(model);
            }
            Event::AgentResume { task, .. } => {
                self.exit = None;
                if let Some(task) = task {
                    self.goal = for_terminal_line(&task.goal, GOAL_CHARS);
                }
            }
            Event::ProcessStart(start) => self.processes.push(start.clone()),
            Event::ProcessEnd(end) => {
                self.processes.retain(|running| running.process != end.process);
            }
            Event::ToolEnd(end) => {
                let todo = |fact: &ToolEffect| match fact {
                    ToolEffect::TodoChanged { items } => Some(items.clone()),
                    _ => None,
                };
                if let Some(items) = end.facts.iter().rev().find_map(todo) {
                    self.todo = items;
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, exit: AgentExit) {
        self.exit = Some(exit);
    }

    /// Another process goes on with the session after this many milliseconds.
    pub(super) fn begin_run(&mut self, down_ms: u64) {
        self.calls.clear();
        self.flags.is_ending = false;
        // A child is resumed when its turn comes.
        self.flags.is_waiting = self.depth > 0 && self.exit.is_none();
        self.times.downtime = self.times.downtime.saturating_add(down_ms);
    }

    /// It goes on with a further task after its end: the time between does not count.
    pub(super) fn leave_out_rest(&mut self, at: u64) {
        if let Some(exit) = &self.exit {
            let rest = at.saturating_sub(self.times.started).saturating_sub(exit.duration_ms);
            self.times.downtime = rest;
        }
    }

    /// Returns what it does, in a session that runs.
    #[must_use]
    pub fn activity(&self) -> AgentActivity {
        let flags = &self.flags;
        match &self.exit {
            Some(exit) => AgentActivity::Ended(exit.status),
            None if flags.is_ending => AgentActivity::Ending,
            None if flags.is_waiting => AgentActivity::Waiting,
            None if self.calls.question().is_some() => AgentActivity::Asking,
            None if flags.stall.is_some() => AgentActivity::Stalled,
            None if flags.is_resting => AgentActivity::Resting,
            None => AgentActivity::Running,
        }
    }

    /// Returns what it is working on; the last thing if it has ended.
    #[must_use]
    pub const fn work(&self) -> AgentWork {
        if self.calls.running.is_empty() { self.flags.work } else { AgentWork::Calls }
    }

    /// Returns the time without progress that was noticed, if there was no progress since.
    #[must_use]
    pub const fn stall(&self) -> Option<&Stall> {
        self.flags.stall.as_ref()
    }

    /// Returns which task of how many of one call it works on, such as `2/3`; `None` for the top
    /// agent.
    #[must_use]
    pub fn task_position(&self) -> Option<String> {
        let by = self.spawned_by.as_ref()?;
        Some(format!("{}/{}", by.task_index.saturating_add(1), by.task_count))
    }

    /// Returns the number of calls that it began or that were answered without beginning.
    #[must_use]
    pub fn call_count(&self) -> usize {
        let open = || self.calls.ended.saturating_add(self.calls.running.len());
        self.exit.as_ref().map_or_else(open, |exit| exit.calls)
    }

    /// Returns for how many milliseconds it has worked at this Unix time. Time in which no process
    /// of the session ran is left out.
    #[must_use]
    pub fn elapsed_ms(&self, now: u64) -> u64 {
        let AgentTimes { started, downtime } = self.times;
        let open = || now.saturating_sub(started).saturating_sub(downtime);
        self.exit.as_ref().map_or_else(open, |exit| exit.duration_ms)
    }

    /// Returns the totals of this agent alone.
    #[must_use]
    pub fn totals(&self) -> TreeTotals {
        let status = self.exit.as_ref().map(|exit| exit.status);
        TreeTotals::of_agent(status, self.usage.tokens, self.usage.cost)
    }
}

impl AgentUsage {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::ModelRequest { purpose: RequestPurpose::Turn, .. } => {
                self.requests = self.requests.saturating_add(1);
            }
            Event::ModelResponse { iteration, reply, cost_usd, .. } => {
                self.iteration = *iteration;
                self.replies = self.replies.saturating_add(1);
                self.tokens += reply.usage;
                self.cost += Cost {
                    tokens: reply.usage.input.saturating_add(reply.usage.output),
                    usd: cost_usd.unwrap_or_default(),
                    unpriced: cost_usd.is_none(),
                };
            }
            Event::ModelError { error, cost, .. } => {
                self.tokens += error.usage.as_deref().copied().unwrap_or_default();
                self.cost += cost.unwrap_or_default();
            }
            Event::Compaction(compaction) => {
                let request = &compaction.request;
                self.requests = self.requests.saturating_add(1);
                self.tokens += request.usage;
                self.cost += request.cost();
            }
            // The host does not know what an external agent cost.
            Event::AgentEnd(outcome) => self.cost.unpriced |= outcome.external,
            _ => {}
        }
    }
}

impl AgentExit {
    pub(super) fn new(at: u64, turn: u32, outcome: &Outcome) -> Self {
        Self {
            status: outcome.status,
            exit_reason: outcome.exit_reason,
            error: outcome.error.clone(),
            cause: outcome.cause.clone(),
            at,
            duration_ms: outcome.duration_ms,
            calls: outcome.trace.len(),
            has_text: outcome.text.is_some(),
            turn,
            outcome: None,
        }
    }
}

impl ActivityFlags {
    fn apply(&mut self, event: &Event) {
        // What others do to an agent is no progress of it.
        if !matches!(
            event,
            Event::MessageLeft { .. } | Event::SpawnPaused { .. } | Event::ProcessEnd(_)
        ) {
            self.stall = None;
        }
        match event {
            Event::ModelRequest { .. } => {
                (self.is_waiting, self.is_resting) = (false, false);
                self.work = AgentWork::Model;
            }
            Event::ModelRetry { attempt, of, .. } => {
                self.work = AgentWork::Retry { attempt: *attempt, of: *of };
            }
            Event::ToolStart { .. } => {
                self.is_waiting = false;
                self.work = AgentWork::Model;
            }
            Event::ToolEnd(_) | Event::ApprovalDecision { .. } => self.work = AgentWork::Model,
            Event::Message(_) => (self.is_waiting, self.is_resting) = (false, false),
            Event::AgentRest => (self.is_waiting, self.is_resting) = (false, true),
            Event::AgentWrapUp { .. } | Event::AgentStop { .. } => self.is_ending = true,
            Event::AgentResume { task, .. } => {
                (self.is_ending, self.is_resting) = (false, false);
                self.is_waiting = task.is_some();
            }
            Event::AgentHeartbeat { current_tool, idle_ms, stalled: true, .. } => {
                self.stall = Some(Stall { tool: current_tool.clone(), idle_ms: *idle_ms });
            }
            _ => {}
        }
    }
}
