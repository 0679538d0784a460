//! One process: from its start to its end, however that comes.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::{ApproverMode, Grant};
use deputize_core::sanitize::{FrameSecret, Secrets};
use deputize_core::{Authority, Cancel, Outcome, ToolsetName};
use deputize_delegate::{
    BackgroundPolicy, DelegationConfig, DelegationLimits, DelegationOptions, OverLimit,
    PromptLayout, ToolSchemas,
};
use deputize_runtime::{
    Budgets, ChildConfig, Continue, Heartbeat, Models, RecordConfig, Session, SessionConfig,
    SyncMode,
};
use deputize_testkit::{CrashKind, DiskFault, Steps, StepsEnd};
use tokio::time::Instant;

use crate::mind::Mind;
use crate::model::SimModel;
use crate::rules::{SimClock, SimHook, SimPerson, SimRules};
use crate::tools::catalog;
use crate::world::{Life, SECRET, World, WorldObserver};

/// Longer than any history takes in virtual time.
const LONGEST: Duration = Duration::from_secs(72 * 3600);
/// How long an interrupt may take: two seconds, and a few syncs of a slow disk.
const INTERRUPT: Duration = Duration::from_millis(2200);

/// A place in the life of a process, counted from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessMoment {
    /// Before so many steps of its tasks.
    Step(u64),
    /// When so many records were shown.
    Record(u64),
    /// In the middle of an operation of the disk; only crashes happen there.
    Disk(u64),
}

/// What a process meets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessFaults {
    pub(crate) crash: Option<(ProcessMoment, Option<CrashKind>)>,
    pub(crate) cancel: Option<ProcessMoment>,
    /// An operation of the disk, what happens there, and whether it stays.
    pub(crate) disk: Option<(u64, DiskFault, bool)>,
    /// Whether the machine ends once the process has.
    pub(crate) power_cut_after: bool,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum LifeEnd {
    /// The session has an outcome.
    Ended(Box<Outcome>),
    /// The session could not be had, or not go on.
    Refused(String),
    Crashed,
}

/// Runs one process. `say` is what the person says if the session exists already.
pub(crate) fn live(world: &Arc<World>, troubles: ProcessFaults, say: Option<String>) -> LifeEnd {
    let seen = world.state().seen.len() as u64;
    let at_record = |at: Option<ProcessMoment>| match at {
        Some(ProcessMoment::Record(n)) => Some(seen + n),
        _ => None,
    };
    let life = Life {
        dies_at_record: at_record(troubles.crash.map(|(at, _)| at)),
        cancelled_at_record: at_record(troubles.cancel),
    };
    let cancel = world.begin(life);
    let operations = world.disk.operations();
    if let Some((ProcessMoment::Disk(n), _)) = troubles.crash {
        world.disk.trouble_at(operations + n, DiskFault::Killed);
    }
    match troubles.disk {
        Some((n, trouble, false)) => world.disk.trouble_at(operations + n, trouble),
        Some((n, trouble, true)) => world.disk.trouble_from(operations + n, trouble),
        None => {}
    }
    let steps = Steps::new().unwrap();
    let work = process(Arc::clone(world), say, cancel);
    let ended = steps.run(work, LONGEST, |step| {
        if matches!(troubles.crash, Some((ProcessMoment::Step(n), _)) if n == step) {
            world.disk.kill();
        }
        if troubles.cancel == Some(ProcessMoment::Step(step)) {
            world.interrupt();
        }
        world.state().figures.steps += 1;
        if world.disk.is_dead() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match ended {
        StepsEnd::Stopped => LifeEnd::Crashed,
        StepsEnd::Hung => {
            let running = format!("{:?}", world.state().running);
            world.wrong(format!("it hangs; under way: {running}"));
            LifeEnd::Refused("it hangs".to_owned())
        }
        // It died in its last step: nobody hears what it would have said.
        StepsEnd::Done(_) if world.disk.is_dead() => LifeEnd::Crashed,
        StepsEnd::Done(result) => {
            if steps.tasks() > 0 {
                world.wrong(format!("{} tasks are left", steps.tasks()));
            }
            world.ended();
            result.map_or_else(LifeEnd::Refused, |outcome| LifeEnd::Ended(Box::new(outcome)))
        }
    }
}

async fn process(
    world: Arc<World>,
    say: Option<String>,
    cancel: Cancel,
) -> Result<Outcome, String> {
    let since = Instant::now();
    let outcome = Box::pin(session(&world, say, &cancel, since)).await;
    let cancelled = world.state().cancelled;
    if let Some(took) = cancelled.map(|at| at.elapsed()).filter(|took| *took > INTERRUPT) {
        world.wrong(format!("an interrupt took {took:?}"));
    }
    world.state().figures.virtual_ms += u64::try_from(since.elapsed().as_millis()).unwrap();
    outcome
}

async fn session(
    world: &Arc<World>,
    say: Option<String>,
    cancel: &Cancel,
    since: Instant,
) -> Result<Outcome, String> {
    let setting = Setting::of(world);
    setting.count(world);
    let config = session_config(world, since, &setting);
    let dir = world.dir();
    let id = World::id();
    if world.disk.bytes(&world.path()).is_none() {
        let session = Session::create(&dir, id, config).map_err(|error| error.to_string())?;
        let mut spec = session.top_agent("sim/m", &setting.task, Path::new("/work"));
        spec.system = vec![format!("You are simulated. {SECRET}").into()];
        spec.approver = ApproverMode::Ask;
        spec.limits = setting.limits;
        world.check_states(&session);
        let authority = Authority::root(session.catalog(), &setting.grant);
        return Ok(session.run(spec, authority, cancel).await);
    }
    world.state().figures.resumes += 1;
    let opened = Session::open(&dir, id, config).map_err(|error| error.to_string());
    let (session, _) = opened?;
    world.check_states(&session);
    let authority = Authority::root(session.catalog(), &setting.grant);
    let how = Continue { message: say, ..Continue::default() };
    session.resume(how, authority, cancel).await.map_err(|error| error.to_string())
}

/// What the person has configured; the same in all lives of a history.
struct Setting {
    task: String,
    limits: AgentLimits,
    grant: Grant,
    delegation: DelegationConfig,
    budgets: Budgets,
    children_time: Option<Duration>,
    hooks: bool,
}

impl Setting {
    /// Counts what it has; a seed is counted once, however many processes it takes.
    fn count(&self, world: &World) {
        let figures = &mut world.state().figures;
        figures.ceilings = self.delegation.toolsets.ceiling.is_some().into();
        figures.cache_first =
            (self.delegation.options.prompt_layout == PromptLayout::CacheFirst).into();
        figures.cache_preserving =
            (self.delegation.options.tool_schemas == ToolSchemas::CachePreserving).into();
    }

    fn of(world: &World) -> Self {
        let grant = Grant {
            spawn_depth: Some(3),
            spawn_number: Some(40),
            approver: Some(ApproverMode::Ask),
            read: Some([Path::new("/work").to_owned()].into()),
            ..Grant::default()
        };
        let mut limits = AgentLimits { max_iterations: 9, time_ms: 0, wrap_up_ms: 0 };
        let mut delegation = DelegationConfig {
            limits: DelegationLimits { max_spawn_depth: 3, ..DelegationLimits::default() },
            options: DelegationOptions { background: true, ..DelegationOptions::default() },
            ..DelegationConfig::default()
        };
        let mut task = "go".to_owned();
        let mut budgets = Budgets::default();
        let mut children_time = None;
        let mut hooks = false;
        if world.mind == Mind::Chance {
            let mut dice = world.seed.dice("setting");
            limits.max_iterations = dice.u32(1..7);
            if dice.u32(..3) == 0 {
                limits.time_ms = dice.u64(500..300_000);
                limits.wrap_up_ms = if dice.bool() { dice.u64(..10_000) } else { 0 };
            }
            delegation.limits.max_iterations = dice.u32(1..5);
            delegation.limits.max_spawn_depth = dice.u32(1..4);
            delegation.limits.max_children_per_session = dice.u32(3..12);
            delegation.limits.max_concurrent_children = dice.u32(1..4);
            delegation.limits.child_timeout_seconds = if dice.bool() { dice.u32(..90) } else { 0 };
            delegation.limits.wrap_up_seconds = dice.u32(..3) * 5;
            if dice.bool() {
                delegation.limits.over_limit = OverLimit::Queue;
                delegation.approvals.mode = ApproverMode::Ask;
            }
            task = format!("{SECRET} is for you: go");
            let mut dice = world.seed.dice("budget");
            let mut some = |most| (dice.u32(..3) == 0).then(|| dice.u64(..most));
            budgets.session.tokens = some(200_000);
            budgets.children.tokens = some(100_000);
            children_time = some(100_000).map(Duration::from_millis);
            let mut dice = world.seed.dice("features");
            hooks = dice.u32(..3) == 0;
            if dice.u32(..3) == 0 {
                let mut sets = ["delegation", "see", "work"].map(ToolsetName::literal).to_vec();
                sets.remove(dice.usize(..3));
                delegation.toolsets.ceiling = Some(sets.into_iter().collect());
            }
            if dice.u32(..3) == 0 {
                delegation.options.prompt_layout = PromptLayout::CacheFirst;
            }
            if dice.u32(..3) == 0 {
                delegation.options.tool_schemas = ToolSchemas::CachePreserving;
            }
        }
        Self { task, limits, grant, delegation, budgets, children_time, hooks }
    }
}

fn session_config(world: &Arc<World>, since: Instant, setting: &Setting) -> SessionConfig {
    let clock = Arc::new(SimClock { world: Arc::clone(world), since });
    let catalog = catalog(world, clock.clone(), setting.delegation.clone());
    let mut models = Models::default();
    models.insert("sim/m", "m", Arc::new(SimModel(Arc::clone(world))));
    let mut secrets = Secrets::default();
    secrets.add("KEY", SECRET);
    let lifecycle = BackgroundPolicy::new(setting.delegation.clone(), clock.clone());
    let children = ChildConfig {
        time_limit: setting.children_time,
        heartbeat: Some(Heartbeat::default()),
        lifecycle: Some(Arc::new(lifecycle)),
        ..ChildConfig::default()
    };
    let mut config = SessionConfig {
        children,
        budgets: setting.budgets,
        models,
        secrets,
        clock,
        policy: Arc::new(SimRules(Arc::clone(world))),
        approver: Arc::new(SimPerson(Arc::clone(world))),
        observers: vec![Arc::new(WorldObserver(Arc::clone(world)))],
        record: RecordConfig {
            sync: world.sync,
            secret: FrameSecret::new(&[9; 16]),
            ..RecordConfig::new()
        },
        ..SessionConfig::new(catalog)
    };
    config.requests.seed = world.seed.0;
    if setting.hooks {
        config.hooks.hooks.push(Arc::new(SimHook(Arc::clone(world))));
    }
    config
}

/// How often a session is synced: mostly as by default.
pub(crate) fn sync_of(seed: deputize_testkit::Seed) -> SyncMode {
    match seed.dice("sync").u32(..10) {
        0 => SyncMode::Always,
        1 => SyncMode::Never,
        _ => SyncMode::Turn,
    }
}
