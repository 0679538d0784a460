//! What is outside of the process under test: it remembers, whoever dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::hook::HookDecision;
use deputize_core::model::Delta;
use deputize_core::{AgentId, Authority, CallId, Cancel, CancelReason, Event, Message};
use deputize_core::{Observer, Record, SessionId};
use deputize_delegate::DELEGATE_CONTROL;
use deputize_runtime::fuzz::StateCheck;
use deputize_runtime::{Session, SessionDir, SyncMode};
use deputize_testkit::{Seed, SimDisk};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::mind::Mind;

/// A value that must reach nobody: models, tools and persons say it all the time.
pub(crate) const SECRET: &str = "sk-0123456789-canary";
pub(crate) const FOLDER: &str = "/state/sessions";

/// What one process of the many of a history meets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    /// The record with which it dies: kept, and shown to nobody else.
    pub(crate) dies_at_record: Option<u64>,
    /// The record at which a person interrupts it.
    pub(crate) cancelled_at_record: Option<u64>,
}

/// The world. Locks are held for statements; what is wrong is kept until the end.
pub(crate) struct World {
    pub(crate) seed: Seed,
    pub(crate) mind: Mind,
    pub(crate) disk: SimDisk,
    pub(crate) sync: SyncMode,
    state: Mutex<WorldState>,
}

#[derive(Default)]
pub(crate) struct WorldState {
    /// What is wrong.
    pub(crate) wrong: Vec<String>,
    /// Records that observers saw and that no crash has taken, in order.
    pub(crate) seen: Vec<Record>,
    /// How many bytes the file had when each of them was seen.
    pub(crate) ends: Vec<usize>,
    pub(crate) life: Life,
    /// The signal of the person in this life, and when it was given.
    pub(crate) cancel: Cancel,
    pub(crate) cancelled: Option<Instant>,
    /// Calls that may not be repeated and began, by agent.
    pub(crate) effects: BTreeSet<(AgentId, CallId)>,
    /// Whether a power cut met a session that never syncs: then effects may be repeated.
    pub(crate) forgetful: bool,
    /// The rights of agents as they were last seen: a call that was accepted in an earlier life is not
    /// judged again.
    pub(crate) rights: BTreeMap<AgentId, Authority>,
    /// The last request of each conversation.
    pub(crate) asked: BTreeMap<String, Vec<Arc<Message>>>,
    /// How often something was tried.
    tries: BTreeMap<String, u32>,
    /// Calls and requests under way, by agent.
    pub(crate) running: BTreeMap<String, u32>,
    shown: BTreeMap<AgentId, String>,
    /// Compares the agents of this process with their records.
    states: Option<StateCheck>,
    /// Calls that a hook blocked, by agent.
    pub(crate) blocked: BTreeSet<(AgentId, CallId)>,
    /// Whether the clock of the wall never jumps.
    pub(crate) clock_is_steady: bool,
    pub(crate) figures: Figures,
}

/// What happened, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) seeds: u64,
    pub(crate) processes: u64,
    pub(crate) kills: u64,
    pub(crate) power_cuts: u64,
    pub(crate) cancels: u64,
    pub(crate) disk_troubles: u64,
    pub(crate) resumes: u64,
    pub(crate) records: u64,
    pub(crate) requests: u64,
    pub(crate) calls: u64,
    pub(crate) agents: u64,
    pub(crate) steps: u64,
    pub(crate) virtual_ms: u64,
    /// Records whose time is before that of the record before them.
    pub(crate) clock_jumps: u64,
    /// Children in the background.
    pub(crate) background_agents: u64,
    /// Children whose answer has a schema.
    pub(crate) typed_agents: u64,
    /// Calls of `delegate_control`.
    pub(crate) control_calls: u64,
    /// Further tasks of children.
    pub(crate) continued_agents: u64,
    pub(crate) hook_runs: u64,
    pub(crate) hook_blocks: u64,
    /// Seeds whose operator bounds the toolsets of children.
    pub(crate) ceilings: u64,
    /// Seeds whose children have what they share in front.
    pub(crate) cache_first: u64,
    /// Seeds whose children are offered the tools of their parent.
    pub(crate) cache_preserving: u64,
}

impl World {
    pub(crate) fn new(seed: Seed, mind: Mind, sync: SyncMode) -> Arc<Self> {
        let disk = SimDisk::new(seed);
        let state = Mutex::default();
        Arc::new(Self { seed, mind, disk, sync, state })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }

    pub(crate) fn id() -> SessionId {
        SessionId::literal("s")
    }

    pub(crate) fn dir(&self) -> SessionDir {
        SessionDir::on(Arc::new(self.disk.clone()), FOLDER)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir().file(&Self::id())
    }

    /// Something is not as it must be. What a dead process still does does not count.
    pub(crate) fn wrong(&self, what: impl Display) {
        if !self.disk.is_dead() {
            self.state().wrong.push(what.to_string());
        }
    }

    /// How many of the records that were seen are certain to survive the end of the machine.
    pub(crate) fn durable(&self) -> usize {
        let bytes = self.disk.durable_len(&self.path());
        self.state().ends.partition_point(|end| *end <= bytes)
    }

    /// How often this was tried before.
    pub(crate) fn tries(&self, what: &str) -> u32 {
        let mut state = self.state();
        let tries = state.tries.entry(what.to_owned()).or_default();
        *tries += 1;
        *tries - 1
    }

    /// The person interrupts.
    pub(crate) fn interrupt(&self) {
        let mut state = self.state();
        if state.cancelled.is_none() {
            state.cancelled = Some(Instant::now());
            state.figures.cancels += 1;
            let cancel = state.cancel.clone();
            drop(state);
            cancel.cancel(CancelReason::Interrupted);
        }
    }

    /// A process begins.
    pub(crate) fn begin(&self, life: Life) -> Cancel {
        let mut state = self.state();
        state.life = life;
        state.cancel = Cancel::new();
        state.cancelled = None;
        state.running.clear();
        state.shown.clear();
        state.states = None;
        state.figures.processes += 1;
        state.cancel.clone()
    }

    /// Compares what is true of each agent with what the records say, from now on.
    pub(crate) fn check_states(&self, session: &Session) {
        // The other histories have the same agents again and again.
        if self.mind == Mind::Chance {
            let mut state = self.state();
            state.states = Some(StateCheck::new(session, &state.seen));
        }
    }

    /// Something is under way until this is dropped.
    pub(crate) fn under_way(self: &Arc<Self>, what: String) -> RunningGuard {
        *self.state().running.entry(what.clone()).or_default() += 1;
        RunningGuard { world: Arc::clone(self), what }
    }

    /// A process has ended, however: nothing of it may still run.
    pub(crate) fn ended(&self) {
        let state = self.state();
        let running: Vec<String> = state.running.keys().cloned().collect();
        let leaked = state.shown.iter().find(|(_, text)| text.contains(SECRET));
        let leaked = leaked.map(|(agent, _)| format!("{agent} showed a secret"));
        drop(state);
        if !running.is_empty() {
            self.wrong(format!("still under way after the end: {running:?}"));
        }
        leaked.into_iter().for_each(|leaked| self.wrong(leaked));
    }

    fn saw(&self, record: &Record) {
        let mut state = self.state();
        if self.disk.is_dead() {
            return;
        }
        if record.seq != state.seen.len() as u64 {
            let what = format!("record {} came after {}", record.seq, state.seen.len());
            state.wrong.push(what);
        }
        let differs = state.states.as_ref().and_then(|states| states.check(record).err());
        state.wrong.extend(differs);
        let jumped = state.seen.last().is_some_and(|last| record.at < last.at);
        state.figures.clock_jumps += u64::from(jumped);
        let mut seen = record.clone();
        if let Event::AgentStart(start) = &mut seen.event {
            // The file has the list once, beside the records.
            start.spec.declared = None;
        }
        state.seen.push(seen);
        state.ends.push(self.disk.len(&self.path()));
        let figures = &mut state.figures;
        figures.records += 1;
        match &record.event {
            Event::ModelRequest { .. } => figures.requests += 1,
            Event::ToolStart { tool, .. } => {
                figures.calls += 1;
                figures.control_calls += u64::from(tool == DELEGATE_CONTROL.as_str());
            }
            Event::AgentStart(start) => {
                figures.agents += 1;
                figures.background_agents += u64::from(start.spec.background);
                figures.typed_agents += u64::from(start.spec.output_schema.is_some());
            }
            Event::AgentResume { task: Some(_), .. } => figures.continued_agents += 1,
            Event::Hook(run) => {
                figures.hook_runs += 1;
                figures.hook_blocks += u64::from(run.decision == HookDecision::Block);
            }
            _ => {}
        }
        if state.life.dies_at_record == Some(record.seq) {
            self.disk.kill();
        }
        let cancels = state.life.cancelled_at_record == Some(record.seq);
        drop(state);
        if cancels {
            self.interrupt();
        }
    }
}

/// Takes something off the list of what is under way.
pub(crate) struct RunningGuard {
    world: Arc<World>,
    what: String,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut state = self.world.state();
        if let Some(count) = state.running.get_mut(&self.what) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&self.what);
            }
        }
    }
}

/// Sees what the world sees of a session.
pub(crate) struct WorldObserver(pub(crate) Arc<World>);

impl Observer for WorldObserver {
    fn on_record(&self, record: &Record) {
        self.0.saw(record);
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        let (Delta::Text(text) | Delta::Reasoning(text)) = delta else { return };
        self.0.state().shown.entry(agent.clone()).or_default().push_str(text);
    }
}
