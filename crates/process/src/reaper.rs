//! The reaper starts commands, reports their ends, and ends their trees. It runs in a process of
//! its own, or in a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};

use crate::channel::DESCRIPTORS;
use crate::command_leaders::{CommandLeaders, open_child};
use crate::containment::Containment;
use crate::fault_injection::FaultInjector;
use crate::kill_respawning::kill_respawning;
use crate::pid_namespace::{PidNamespace, PidNamespaces};
use crate::process_table::{Process, Table, attribute, read_environ, read_limit, read_table};
use crate::process_tag::{ProcessTag, UNKNOWN_COMMAND};
use crate::protocol::{ReaperConfig, ReaperReport, StartCommand};
use crate::scope::Scope;
use crate::signal::send;
use crate::start::{SpawnAttributes, start};
use crate::termination::{NamespacePhase, Termination, TerminationMethod};
use crate::termination_report::TerminationReport;
use crate::tree_kill::{KillStep, ProcTableError, TreeKill};
use crate::tree_signal::TreeSignal;

/// Pause between two looks at the table while a tree is being killed.
const BRISK: Duration = Duration::from_millis(4);
/// Pause between two looks while trees have time to end by themselves, and before tidying up.
const PATIENT: Duration = Duration::from_millis(20);
/// Pause between two looks at a child where the kernel cannot announce its end.
const TICK: Duration = Duration::from_millis(10);
/// Pause between two collections of orphans that ended by themselves.
const LEISURE: Duration = Duration::from_secs(1);
/// Commands that end before tidying up is not put off any longer.
const EXITS_BEFORE_ROUND: u32 = 16;

/// Where the reaper runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In a process of its own: every child is a command's, and this is the only thread.
    Process,
    /// In a thread of a program that may have other children.
    Thread,
}

type ProcessTags = BTreeMap<i32, ProcessTag>;

/// Starts commands, reports their ends, and terminates their process trees.
#[derive(Debug)]
pub(crate) struct Reaper {
    pub(crate) config: ReaperConfig,
    pub(crate) owners: OwnerSets,
    leaders: CommandLeaders,
    /// `None` where no namespaces are made.
    pub(crate) namespaces: Option<PidNamespaces>,
    pub(crate) jobs: Vec<Termination>,
    /// ProcessTags of processes seen while jobs run: a process keeps its tag after its parent, by
    /// which it was recognised, is gone.
    pub(crate) known: BTreeMap<(i32, u64), ProcessTag>,
    pub(crate) reports: Vec<ReaperReport>,
    /// Commands that ended since the last look at the table.
    pub(crate) exits_since_round: u32,
    pub(crate) mode: Mode,
    steps: FaultInjector,
}

/// Who has commands here.
#[derive(Debug, Default)]
pub(crate) struct OwnerSets {
    pub(crate) all: BTreeSet<u32>,
    /// Those that were asked to end: they start nothing more.
    pub(crate) ended: BTreeSet<u32>,
}

/// Returns the number of this process.
fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

impl Reaper {
    pub(crate) fn new(config: ReaperConfig, mode: Mode, steps: FaultInjector) -> Self {
        let namespaces =
            config.namespaces.then(|| PidNamespaces::new(steps.clone()).ok()).flatten();
        Self {
            config,
            owners: OwnerSets::default(),
            leaders: CommandLeaders::default(),
            namespaces,
            jobs: Vec::new(),
            known: BTreeMap::new(),
            reports: Vec::new(),
            exits_since_round: 0,
            mode,
            steps,
        }
    }

    /// Starts a command with its three descriptors, fewer of which mean that this process could
    /// not take them.
    pub(crate) fn start(&mut self, what: &StartCommand, descriptors: Vec<OwnedFd>) {
        let report = match self.try_start(what, descriptors) {
            Ok(()) => ReaperReport::Started(what.tag),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                ReaperReport::Refused(what.tag, errno)
            }
        };
        self.reports.push(report);
    }

    fn try_start(&mut self, what: &StartCommand, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Ok(ends) = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors) else {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        };
        self.steps.take()?;
        let owner = what.tag.owner;
        self.owners.all.insert(owner);
        if let Some(namespaces) = &mut self.namespaces {
            let stray = ProcessTag { owner, command: UNKNOWN_COMMAND };
            namespaces.of_owner(owner, self.config.codec.limit(stray))?;
        }
        let namespaces = self.namespaces.as_ref();
        let namespace = namespaces.and_then(|namespaces| namespaces.get(owner));
        self.steps.take()?;
        let dies_with = (self.mode == Mode::Process && namespace.is_none()).then_some(own_pid());
        let attributes = SpawnAttributes {
            codec: &self.config.codec,
            namespace,
            open_files: self.config.open_files,
            dies_with,
        };
        let pid = match (namespaces, namespace) {
            (Some(namespaces), Some(namespace)) => {
                namespaces.inside(namespace, || start(what, ends, attributes))?
            }
            _ => start(what, ends, attributes)?,
        };
        // Without a handle its end is looked for: nothing that runs is given up for want of one.
        let handle = self.steps.take().and_then(|()| open_child(pid)).ok();
        self.leaders.insert(pid, what.tag, handle);
        Ok(())
    }

    /// Begins to end a scope; its end is reported under the ticket.
    pub(crate) fn end(&mut self, scope: Scope, ticket: Option<u64>) {
        let owner = scope.owner();
        if scope == Scope::Owner(owner) {
            self.owners.ended.insert(owner);
        }
        let contained =
            self.namespaces.as_ref().is_some_and(|namespaces| namespaces.get(owner).is_some());
        let now = Instant::now();
        let way = if contained {
            TerminationMethod::asking()
        } else {
            TerminationMethod::TreeKill(TreeKill::new(now))
        };
        self.jobs.push(Termination { scope, ticket, began: now, way });
    }

    /// Begins to end everything.
    pub(crate) fn end_all(&mut self) {
        for owner in self.owners.all.clone() {
            let scope = Scope::Owner(owner);
            if !self.jobs.iter().any(|job| job.scope == scope) {
                self.end(scope, None);
            }
        }
    }

    /// Returns the means that would keep the next owner's trees together.
    pub(crate) fn probe(&mut self) {
        /// No owner has it.
        const NOBODY: u32 = 0;
        let namespaces = self.namespaces.as_mut();
        let made = namespaces.is_some_and(|namespaces| {
            let made = matches!(namespaces.of_owner(NOBODY, None), Ok(Some(_)));
            namespaces.kill(NOBODY);
            made
        });
        self.reports.push(ReaperReport::Holds(match made {
            true => Containment::PidNamespace,
            false if cfg!(target_os = "linux") => Containment::ProcessTable,
            false => Containment::ProcessGroups,
        }));
    }

    /// Returns how long nothing is due unless one of [`Self::handles`] is readable.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        if !self.jobs.is_empty() {
            let patient = self.jobs.iter().all(|job| job.is_patient(now));
            return Some(if patient { PATIENT } else { BRISK });
        }
        if self.leaders.lacks_handle() {
            return Some(TICK);
        }
        if self.exits_since_round > 0 {
            return Some(PATIENT);
        }
        let orphans =
            self.mode == Mode::Process && self.leaders.pids().any(|pid| !self.is_inside(pid));
        orphans.then_some(LEISURE)
    }

    /// Readable when something has ended.
    pub(crate) fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let namespaces = self
            .namespaces
            .iter()
            .flat_map(|namespaces| namespaces.dying().map(PidNamespace::handle));
        self.leaders.handles().chain(namespaces).collect()
    }

    /// Does the due work. `idle` is set if there was nothing else to do for the whole pause.
    pub(crate) fn advance(&mut self, now: Instant, idle: bool) {
        self.collect();
        self.finish_gone();
        let tidy =
            self.exits_since_round > 0 && (idle || self.exits_since_round >= EXITS_BEFORE_ROUND);
        if tidy || self.jobs.iter().any(|job| !job.waits_for_kernel(now)) {
            self.round(now);
            self.exits_since_round = 0;
        }
        if self.jobs.is_empty() {
            self.known.clear();
        }
    }

    /// Takes note of what has ended.
    fn collect(&mut self) {
        if self.mode == Mode::Process && self.jobs.is_empty() {
            // By the way of commands' orphans: while a tree is ended, the walk counts them.
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                self.record_exit(pid.as_raw_nonzero().get(), Some(status));
            }
        }
        for number in self.leaders.running() {
            match Pid::from_raw(number).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG)) {
                Some(Ok(None)) => {}
                Some(Ok(Some((_, status)))) => self.record_exit(number, Some(status)),
                // Somebody else in this program took its status.
                Some(Err(_)) | None => self.record_exit(number, None),
            }
        }
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.collect();
        }
    }

    fn record_exit(&mut self, pid: i32, status: Option<WaitStatus>) {
        let inside = self.is_inside(pid);
        let Some(tag) = self.leaders.mark_ended(pid) else { return };
        self.reports.push(ReaperReport::Exited(tag, status.map(WaitStatus::as_raw)));
        if inside {
            // Whatever it leaves is known by its namespace.
            self.leaders.remove(pid);
        } else {
            self.exits_since_round += 1;
        }
    }

    fn is_inside(&self, leader: i32) -> bool {
        let owner = self.leaders.tag(leader).map(|tag| tag.owner);
        let namespaces = self.namespaces.as_ref();
        owner.is_some_and(|owner| {
            namespaces.is_some_and(|namespaces| namespaces.get(owner).is_some())
        })
    }

    /// Answers those whose namespace is gone.
    pub(crate) fn finish_gone(&mut self) {
        let Self { jobs, namespaces, reports, .. } = self;
        jobs.retain(|job| {
            let TerminationMethod::PidNamespace(NamespacePhase::Dying(init)) = job.way else {
                return true;
            };
            let dying = namespaces.as_ref().is_some_and(|namespaces| namespaces.is_init(init));
            if !dying {
                job.answer(reports, TerminationReport::default());
            }
            dying
        });
    }

    /// Looks at the table once, for all jobs, and tidies up.
    pub(crate) fn round(&mut self, now: Instant) {
        match read_table() {
            Ok(table) => {
                let tags = self.tag_processes(&table);
                self.step_namespaces(now, &table, &tags);
                self.step_tree_kills(now, &table, &tags);
                self.reap(&table, &tags);
                self.kill_respawning(now, &table);
                self.leaders.forget_empty_sessions(&table);
            }
            Err(error) => {
                let never = error.kind() == io::ErrorKind::Unsupported;
                self.step_without_table(
                    now,
                    if never { ProcTableError::Unsupported } else { ProcTableError::Unreadable },
                );
                self.leaders.collect_ended();
            }
        }
    }

    fn tag_processes(&mut self, table: &Table) -> ProcessTags {
        let adopted = self.adopt_orphan();
        let Self { config, known, leaders, owners, namespaces, .. } = self;
        let codec = &config.codec;
        // Anybody can write what names no owner of ours: it says nothing.
        let of_ours = |tag: &ProcessTag| owners.all.contains(&tag.owner);
        let in_limit = |pid| read_limit(pid).and_then(|it| codec.tag_in_limit(it)).filter(of_ours);
        let in_environ = |pid| codec.tag_in_environ(&read_environ(pid)).filter(of_ours);
        let evidence = |process: &Process| {
            known
                .get(&(process.pid, process.started))
                .copied()
                .or_else(|| in_limit(process.pid))
                .or_else(|| in_environ(process.pid))
                .or_else(|| leaders.tag(process.session))
        };
        let mut tags = attribute(table, own_pid(), adopted, evidence);
        for (pid, tag) in &tags {
            if let Some(process) = table.get(pid).filter(|_| Some(*tag) != adopted) {
                known.insert((process.pid, process.started), *tag);
            }
        }
        // They belong to the namespace, and are not what is in it.
        let init =
            |pid: &i32| namespaces.as_ref().is_some_and(|namespaces| namespaces.is_init(*pid));
        tags.retain(|pid, _| !init(pid));
        tags
    }

    /// To whom orphans without any tag belong: below a helper there are commands' only. While an
    /// owner lives they may be its; of those that are being ended, any will do.
    fn adopt_orphan(&self) -> Option<ProcessTag> {
        let owned = |job: &Termination| match (job.scope, &job.way) {
            (Scope::Owner(owner), TerminationMethod::TreeKill(_)) => {
                Some(ProcessTag { owner, command: UNKNOWN_COMMAND })
            }
            _ => None,
        };
        let alone = self.mode == Mode::Process && self.owners.all.is_subset(&self.owners.ended);
        self.jobs.iter().find_map(owned).filter(|_| alone)
    }

    fn step_tree_kills(&mut self, now: Instant, table: &Table, tags: &ProcessTags) {
        let Self { jobs, leaders, reports, .. } = self;
        let me = own_pid();
        // Ours to collect. One whose end is reported says nothing new.
        let is_orphan =
            |process: &Process| process.parent == me && !leaders.is_running(process.pid);
        jobs.retain_mut(|job| {
            let TerminationMethod::TreeKill(kill) = &mut job.way else { return true };
            let tree = tree(table, tags, |tag| job.scope.holds(tag));
            let (mut ended, alive): (Vec<_>, Vec<_>) =
                tree.into_iter().partition(|process| process.zombie);
            ended.retain(is_orphan);
            match kill.step(now, alive, ended.len()) {
                KillStep::Look => return true,
                KillStep::Send(order, processes) => {
                    processes.iter().for_each(|process| send(process, order));
                    return true;
                }
                KillStep::Done(left) => {
                    let left = numbers(&left);
                    job.answer(reports, TerminationReport { left, ..TerminationReport::default() });
                }
                KillStep::GiveUp => {
                    job.answer(
                        reports,
                        TerminationReport { restless: true, ..TerminationReport::default() },
                    );
                }
            }
            false
        });
    }

    fn step_namespaces(&mut self, now: Instant, table: &Table, tags: &ProcessTags) {
        let mut due: BTreeMap<u32, Vec<Scope>> = BTreeMap::new();
        let Self { jobs, reports, .. } = self;
        jobs.retain_mut(|job| {
            let over = (job.grace_is_over(now), job.limit_is_over(now));
            let TerminationMethod::PidNamespace(phase) = &mut job.way else { return true };
            let mut alive = tree(table, tags, |tag| job.scope.holds(tag));
            alive.retain(|process| !process.zombie);
            if *phase == NamespacePhase::Asking {
                alive.iter().for_each(|process| send(process, TreeSignal::Term));
                *phase = NamespacePhase::Waiting;
            }
            if over.1 || (*phase == NamespacePhase::Killed && alive.is_empty()) {
                job.answer(
                    reports,
                    TerminationReport { left: numbers(&alive), ..TerminationReport::default() },
                );
                return false;
            }
            if *phase == NamespacePhase::Killed {
                // A fork that was under way has given birth since, to one that is stopped.
                alive.iter().for_each(|process| send(process, TreeSignal::Kill));
            }
            if *phase == NamespacePhase::Waiting && (alive.is_empty() || over.0) {
                due.entry(job.scope.owner()).or_default().push(job.scope);
            }
            true
        });
        for (owner, scopes) in due {
            let phase = self.isolate(owner, &scopes, table, tags);
            for job in &mut self.jobs {
                if scopes.contains(&job.scope)
                    && let TerminationMethod::PidNamespace(at) = &mut job.way
                    && *at == NamespacePhase::Waiting
                {
                    *at = phase;
                }
            }
        }
    }

    /// Makes sure that nothing of the scopes is alive, seen or not: ends the namespace if nobody
    /// else is in it, else stops everybody in it at once, so that all can be seen.
    fn isolate(
        &mut self,
        owner: u32,
        scopes: &[Scope],
        table: &Table,
        tags: &ProcessTags,
    ) -> NamespacePhase {
        let doomed = |tag: ProcessTag| scopes.iter().any(|scope| scope.holds(tag));
        let others =
            |tag: ProcessTag| tag.owner == owner && !doomed(tag) && tag.command != UNKNOWN_COMMAND;
        let is_empty = tree(table, tags, others).iter().all(|process| process.zombie);
        let killed = self.namespaces.as_mut().filter(|_| is_empty).map(|it| it.kill(owner));
        if let Some(init) = killed.flatten() {
            return NamespacePhase::Dying(init);
        }
        let stopped = tree(table, tags, |tag| tag.owner == owner);
        let stopped: BTreeSet<(i32, u64)> =
            stopped.iter().filter(|it| it.stopped).map(|it| (it.pid, it.started)).collect();
        // If there is no process left for it, what is seen is killed all the same.
        let frozen =
            self.namespaces.as_ref().is_some_and(|namespaces| namespaces.freeze(owner).is_ok());
        let Ok(seen) = read_table() else {
            let all = tree(table, tags, |tag| tag.owner == owner);
            let running = all.iter().filter(|it| !stopped.contains(&(it.pid, it.started)));
            running.for_each(|process| send(process, TreeSignal::Continue));
            return NamespacePhase::Waiting;
        };
        let tags = self.tag_processes(&seen);
        for process in tree(&seen, &tags, |tag| tag.owner == owner) {
            if tags.get(&process.pid).is_some_and(|tag| doomed(*tag)) {
                send(&process, TreeSignal::Kill);
            } else if !stopped.contains(&(process.pid, process.started)) {
                send(&process, TreeSignal::Continue);
            }
        }
        if frozen { NamespacePhase::Killed } else { NamespacePhase::Waiting }
    }

    /// Without a table: groups are signalled, and whole namespaces of owners are ended.
    fn step_without_table(&mut self, now: Instant, error: ProcTableError) {
        let Self { jobs, leaders, reports, namespaces, .. } = self;
        jobs.retain_mut(|job| {
            let signal = |signal| leaders.signal_groups(job.scope, signal);
            let grace = job.grace_is_over(now);
            let limit = job.limit_is_over(now);
            match &mut job.way {
                TerminationMethod::TreeKill(kill) => match kill.step_without_table(now, error) {
                    KillStep::Look => return true,
                    KillStep::Send(order, _) => {
                        signal(order);
                        return true;
                    }
                    KillStep::Done(_) | KillStep::GiveUp => {}
                },
                TerminationMethod::PidNamespace(phase) if !limit => {
                    if *phase == NamespacePhase::Asking {
                        signal(TreeSignal::Term);
                        *phase = NamespacePhase::Waiting;
                    } else if *phase == NamespacePhase::Waiting
                        && grace
                        && let Scope::Owner(owner) = job.scope
                        && let Some(init) = namespaces.as_mut().and_then(|it| it.kill(owner))
                    {
                        *phase = NamespacePhase::Dying(init);
                    }
                    return true;
                }
                TerminationMethod::PidNamespace(_) => {}
            }
            job.answer(
                reports,
                TerminationReport { groups_only: true, ..TerminationReport::default() },
            );
            false
        });
    }

    fn kill_respawning(&self, now: Instant, table: &Table) {
        let restless = self.jobs.iter().filter(
            |job| matches!(&job.way, TerminationMethod::TreeKill(kill) if kill.is_restless(now)),
        );
        let scopes: Vec<Scope> = restless.map(|job| job.scope).collect();
        if !scopes.is_empty() {
            let wanted = |tag| scopes.iter().any(|scope| scope.holds(tag));
            kill_respawning(table, &self.config.codec, wanted);
        }
    }

    /// Collects ended orphans, and first processes whose end was reported; by number, never "any
    /// child", which would take the exit status of a running command.
    fn reap(&self, table: &Table, tags: &ProcessTags) {
        for process in
            table.values().filter(|process| process.zombie && process.parent == own_pid())
        {
            if tags.contains_key(&process.pid) {
                self.leaders.collect(process.pid);
            }
        }
    }
}

/// The processes whose tag is `wanted`.
fn tree(table: &Table, tags: &ProcessTags, wanted: impl Fn(ProcessTag) -> bool) -> Vec<Process> {
    let holds = |process: &&Process| tags.get(&process.pid).is_some_and(|tag| wanted(*tag));
    table.values().filter(holds).copied().collect()
}

fn numbers(processes: &[Process]) -> Vec<i32> {
    processes.iter().map(|process| process.pid).collect()
}
