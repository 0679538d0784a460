//! How the warden ends trees: it looks at the process table, decides, and sends signals.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::census::{Process, Table, attribute, read_environ, read_limit, read_table};
use crate::chase::chase;
use crate::mark::{Mark, STRAY};
use crate::registry::Scope;
use crate::signal::{send, send_to_group};
use crate::supervisor::Ended;
use crate::walk::{GRACE, KILL_LIMIT, Order, Sight, Step, Walk};
use crate::warden::{Home, Warden};
use crate::wire::Report;

type Marks = BTreeMap<i32, Mark>;

/// The ending of one scope.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) scope: Scope,
    /// `None` if nobody waits for it.
    pub(crate) ticket: Option<u64>,
    pub(crate) began: Instant,
    pub(crate) way: Way,
}

/// By which means.
#[derive(Debug)]
pub(crate) enum Way {
    /// By looking for everybody.
    Walk(Walk),
    /// With the help of their namespace.
    Space(Phase),
}

/// What was done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    Asking,
    /// They were asked to end, and have the grace for it.
    Waiting,
    /// All of them were killed, others of the namespace were not.
    Killed,
    /// The namespace is being ended, whose first process has this number.
    Dying(i32),
}

impl Way {
    pub(crate) fn asking() -> Self {
        Self::Space(Phase::Asking)
    }
}

impl Job {
    /// True while looking less often will do.
    pub(crate) fn is_patient(&self, now: Instant) -> bool {
        match &self.way {
            Way::Walk(walk) => walk.is_waiting(now),
            Way::Space(Phase::Waiting) => !self.grace_is_over(now),
            Way::Space(phase) => matches!(phase, Phase::Dying(_)),
        }
    }

    /// True if looking at the process table is of no use: the kernel says when it is done.
    pub(crate) fn waits_for_kernel(&self, now: Instant) -> bool {
        matches!(self.way, Way::Space(Phase::Dying(_))) && !self.limit_is_over(now)
    }

    fn grace_is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= GRACE
    }

    fn limit_is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) > GRACE + KILL_LIMIT
    }

    /// Puts the answer among the reports.
    fn answer(&self, reports: &mut Vec<Report>, ended: Ended) {
        reports.extend(self.ticket.map(|ticket| Report::Ended(ticket, ended)));
    }
}

impl Warden {
    /// Answers those whose namespace is gone.
    pub(crate) fn finish_gone(&mut self) {
        let Self { jobs, spaces, reports, .. } = self;
        jobs.retain(|job| {
            let Way::Space(Phase::Dying(init)) = job.way else { return true };
            let dying = spaces.as_ref().is_some_and(|spaces| spaces.is_init(init));
            if !dying {
                job.answer(reports, Ended::default());
            }
            dying
        });
    }

    /// Looks at the table once, for all jobs, and tidies up.
    pub(crate) fn round(&mut self, now: Instant) {
        match read_table() {
            Ok(table) => {
                let marks = self.marks(&table);
                self.step_spaces(now, &table, &marks);
                self.step_walks(now, &table, &marks);
                self.reap(&table, &marks);
                self.chase(now, &table);
                self.forget_empty_sessions(&table);
            }
            Err(error) => {
                let never = error.kind() == io::ErrorKind::Unsupported;
                self.step_blind(now, if never { Sight::Never } else { Sight::NotNow });
                self.reap_roots();
            }
        }
    }

    fn marks(&mut self, table: &Table) -> Marks {
        let adopted = self.adopted();
        let Self { seal, known, roots, owners, spaces, me, .. } = self;
        // Anybody can write what names no owner of ours: it says nothing.
        let of_ours = |mark: &Mark| owners.contains(&mark.owner);
        let in_limit = |pid| read_limit(pid).and_then(|it| seal.mark_in_limit(it)).filter(of_ours);
        let in_environ = |pid| seal.mark_in_environ(&read_environ(pid)).filter(of_ours);
        let evidence = |process: &Process| {
            known
                .get(&(process.pid, process.started))
                .copied()
                .or_else(|| in_limit(process.pid))
                .or_else(|| in_environ(process.pid))
                .or_else(|| roots.get(&process.session).map(|root| root.mark))
        };
        let mut marks = attribute(table, *me, adopted, evidence);
        for (pid, mark) in &marks {
            if let Some(process) = table.get(pid).filter(|_| Some(*mark) != adopted) {
                known.insert((process.pid, process.started), *mark);
            }
        }
        // They belong to the namespace, and are not what is in it.
        let init = |pid: &i32| spaces.as_ref().is_some_and(|spaces| spaces.is_init(*pid));
        marks.retain(|pid, _| !init(pid));
        marks
    }

    /// To whom orphans without any mark belong: below a helper there are commands' only. While an
    /// owner lives they may be its; of those that are being ended, any will do.
    fn adopted(&self) -> Option<Mark> {
        let owned = |job: &Job| match (job.scope, &job.way) {
            (Scope::Owner(owner), Way::Walk(_)) => Some(Mark { owner, command: STRAY }),
            _ => None,
        };
        let alone = self.home == Home::Alone && self.owners.is_subset(&self.ended);
        self.jobs.iter().find_map(owned).filter(|_| alone)
    }

    fn step_walks(&mut self, now: Instant, table: &Table, marks: &Marks) {
        let Self { jobs, roots, reports, me, .. } = self;
        // Ours to collect. One whose end is reported says nothing new.
        let is_orphan = |process: &Process| {
            process.parent == *me && !roots.get(&process.pid).is_some_and(|root| root.running)
        };
        jobs.retain_mut(|job| {
            let Way::Walk(walk) = &mut job.way else { return true };
            let tree = tree(table, marks, |mark| job.scope.holds(mark));
            let (mut ended, alive): (Vec<_>, Vec<_>) =
                tree.into_iter().partition(|process| process.zombie);
            ended.retain(is_orphan);
            match walk.step(now, alive, ended.len()) {
                Step::Look => return true,
                Step::Send(order, processes) => {
                    processes.iter().for_each(|process| send(process, order));
                    return true;
                }
                Step::Done(left) => {
                    let left = numbers(&left);
                    job.answer(reports, Ended { left, ..Ended::default() });
                }
                Step::GiveUp => {
                    job.answer(reports, Ended { restless: true, ..Ended::default() });
                }
            }
            false
        });
    }

    fn step_spaces(&mut self, now: Instant, table: &Table, marks: &Marks) {
        let mut due: BTreeMap<u32, Vec<Scope>> = BTreeMap::new();
        let Self { jobs, reports, .. } = self;
        jobs.retain_mut(|job| {
            let over = (job.grace_is_over(now), job.limit_is_over(now));
            let Way::Space(phase) = &mut job.way else { return true };
            let mut alive = tree(table, marks, |mark| job.scope.holds(mark));
            alive.retain(|process| !process.zombie);
            if *phase == Phase::Asking {
                alive.iter().for_each(|process| send(process, Order::Term));
                *phase = Phase::Waiting;
            }
            if over.1 || (*phase == Phase::Killed && alive.is_empty()) {
                job.answer(reports, Ended { left: numbers(&alive), ..Ended::default() });
                return false;
            }
            if *phase == Phase::Killed {
                // A fork that was under way has given birth since, to one that is stopped.
                alive.iter().for_each(|process| send(process, Order::Kill));
            }
            if *phase == Phase::Waiting && (alive.is_empty() || over.0) {
                due.entry(job.scope.owner()).or_default().push(job.scope);
            }
            true
        });
        for (owner, scopes) in due {
            let phase = self.seal_off(owner, &scopes, table, marks);
            for job in &mut self.jobs {
                if scopes.contains(&job.scope)
                    && let Way::Space(at) = &mut job.way
                    && *at == Phase::Waiting
                {
                    *at = phase;
                }
            }
        }
    }

    /// Makes sure that nothing of the scopes is alive, seen or not: ends the namespace if nobody
    /// else is in it, else stops everybody in it at once, so that all can be seen.
    fn seal_off(&mut self, owner: u32, scopes: &[Scope], table: &Table, marks: &Marks) -> Phase {
        let doomed = |mark: Mark| scopes.iter().any(|scope| scope.holds(mark));
        let others = |mark: Mark| mark.owner == owner && !doomed(mark) && mark.command != STRAY;
        let is_empty = tree(table, marks, others).iter().all(|process| process.zombie);
        let killed = self.spaces.as_mut().filter(|_| is_empty).map(|it| it.kill(owner));
        if let Some(init) = killed.flatten() {
            return Phase::Dying(init);
        }
        let stopped = tree(table, marks, |mark| mark.owner == owner);
        let stopped: BTreeSet<(i32, u64)> =
            stopped.iter().filter(|it| it.stopped).map(|it| (it.pid, it.started)).collect();
        // If there is no process left for it, what is seen is killed all the same.
        let frozen = self.spaces.as_ref().is_some_and(|spaces| spaces.freeze(owner).is_ok());
        let Ok(seen) = read_table() else {
            let all = tree(table, marks, |mark| mark.owner == owner);
            let running = all.iter().filter(|it| !stopped.contains(&(it.pid, it.started)));
            running.for_each(|process| send(process, Order::Continue));
            return Phase::Waiting;
        };
        let marks = self.marks(&seen);
        for process in tree(&seen, &marks, |mark| mark.owner == owner) {
            if marks.get(&process.pid).is_some_and(|mark| doomed(*mark)) {
                send(&process, Order::Kill);
            } else if !stopped.contains(&(process.pid, process.started)) {
                send(&process, Order::Continue);
            }
        }
        if frozen { Phase::Killed } else { Phase::Waiting }
    }

    /// Without a table: groups are signalled, and whole namespaces of owners are ended.
    fn step_blind(&mut self, now: Instant, sight: Sight) {
        let Self { jobs, roots, reports, spaces, .. } = self;
        jobs.retain_mut(|job| {
            let signal = |order| {
                let mine = roots.iter().filter(|(_, root)| job.scope.holds(root.mark));
                mine.for_each(|(leader, _)| send_to_group(*leader, order));
            };
            let (grace, limit) = (job.grace_is_over(now), job.limit_is_over(now));
            match &mut job.way {
                Way::Walk(walk) => match walk.step_blind(now, sight) {
                    Step::Look => return true,
                    Step::Send(order, _) => {
                        signal(order);
                        return true;
                    }
                    Step::Done(_) | Step::GiveUp => {}
                },
                Way::Space(phase) if !limit => {
                    if *phase == Phase::Asking {
                        signal(Order::Term);
                        *phase = Phase::Waiting;
                    } else if *phase == Phase::Waiting
                        && grace
                        && let Scope::Owner(owner) = job.scope
                        && let Some(init) = spaces.as_mut().and_then(|it| it.kill(owner))
                    {
                        *phase = Phase::Dying(init);
                    }
                    return true;
                }
                Way::Space(_) => {}
            }
            job.answer(reports, Ended { groups_only: true, ..Ended::default() });
            false
        });
    }

    fn chase(&self, now: Instant, table: &Table) {
        let restless = self
            .jobs
            .iter()
            .filter(|job| matches!(&job.way, Way::Walk(walk) if walk.is_restless(now)));
        let scopes: Vec<Scope> = restless.map(|job| job.scope).collect();
        if !scopes.is_empty() {
            let wanted = |mark| scopes.iter().any(|scope| scope.holds(mark));
            chase(table, &self.seal, wanted);
        }
    }

    /// Collects ended orphans, and first processes whose end was reported; by number, never "any
    /// child", which would take the exit status of a running command.
    fn reap(&self, table: &Table, marks: &Marks) {
        for process in table.values().filter(|process| process.zombie && process.parent == self.me)
        {
            if marks.contains_key(&process.pid) {
                self.let_go(process.pid);
            }
        }
    }

    fn reap_roots(&mut self) {
        for leader in self.roots.keys() {
            self.let_go(*leader);
        }
        self.roots.retain(|leader, root| {
            let group = Pid::from_raw(*leader);
            root.running
                || group.is_some_and(|it| rustix::process::test_kill_process_group(it).is_ok())
        });
    }

    fn let_go(&self, pid: i32) {
        let running = self.roots.get(&pid).is_some_and(|root| root.running);
        if let Some(pid) = Pid::from_raw(pid).filter(|_| !running) {
            // An error means that it is collected already.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Forgets sessions without a process. Until then their number cannot be used anew.
    fn forget_empty_sessions(&mut self, table: &Table) {
        let sessions: BTreeSet<i32> = table.values().map(|process| process.session).collect();
        self.roots.retain(|session, root| root.running || sessions.contains(session));
    }
}

/// The processes whose mark is `wanted`.
fn tree(table: &Table, marks: &Marks, wanted: impl Fn(Mark) -> bool) -> Vec<Process> {
    let holds = |process: &&Process| marks.get(&process.pid).is_some_and(|mark| wanted(*mark));
    table.values().filter(holds).copied().collect()
}

fn numbers(processes: &[Process]) -> Vec<i32> {
    processes.iter().map(|process| process.pid).collect()
}
