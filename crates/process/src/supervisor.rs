//! The supervisor: one thread that ends trees and collects their orphans.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::sync::oneshot;

use crate::census::{Process, Table, attribute, read_environ, read_limit, read_table};
use crate::chase::chase;
use crate::mark::Mark;
use crate::owner::Owner;
use crate::registry::{Registry, Root, Scope, Shared};
use crate::signal::{send, send_to_group};
use crate::walk::{Sight, Step, Walk};

/// Pause between two looks at the table while a tree is being killed.
const BRISK: Duration = Duration::from_millis(4);
/// Pause between two looks while trees have time to end by themselves.
const PATIENT: Duration = Duration::from_millis(20);

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The kernel refused to hand orphaned descendants to this process.
    #[error(
        "cannot become the parent of orphaned processes; the kernel must be Linux 3.4 or later"
    )]
    Subreaper {
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The thread that ends processes did not start.
    #[error("cannot start the thread that ends processes; free memory or raise the thread limit")]
    Thread {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

/// What ending a tree came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "processes may be left that could not be ended"]
pub struct Ended {
    /// Numbers of the processes that were still alive at the limit, for example because they
    /// changed their user or hang in the kernel.
    pub left: Vec<i32>,
    /// At the limit, nobody was seen alive, but processes went on ending that must have been
    /// started by somebody: a tree that changes faster than it can be stopped.
    pub restless: bool,
    /// The process table could not be read, always or at the last look: process groups were
    /// killed, and who had left them was not seen. Always so where there is no `/proc`.
    pub groups_only: bool,
}

impl Ended {
    /// True if it is certain that nothing is left. So in every normal case on Linux.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && !self.restless && !self.groups_only
    }
}

/// Ends the trees of its owners, and all of them when it is dropped.
///
/// A program makes one at its start and keeps it to its end: the process becomes the parent of
/// every orphan below it. Dropping it blocks until the processes of all its owners are gone, at
/// most [`GRACE`](crate::GRACE) and [`KILL_LIMIT`](crate::KILL_LIMIT) together.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
    requests: Sender<Request>,
    thread: Option<JoinHandle<()>>,
}

/// What the supervisor's thread is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// End these and answer, if anybody still listens.
    End(Scope, oneshot::Sender<Ended>),
    /// Collect what has ended.
    Sweep,
    /// End all, then leave.
    Close,
}

impl Supervisor {
    /// Starts the thread and makes this process the parent of its orphaned descendants.
    ///
    /// # Errors
    ///
    /// If the kernel refuses either.
    pub fn start() -> Result<Self, SupervisorError> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|source| SupervisorError::Subreaper { source: source.into() })?;
        let shared = Arc::new(Shared::new());
        let (requests, inbox) = channel();
        let mut warden =
            Warden { shared: Arc::clone(&shared), jobs: Vec::new(), known: BTreeMap::new() };
        let thread = std::thread::Builder::new()
            .name("process-supervisor".to_owned())
            .spawn(move || warden.serve(&inbox))
            .map_err(|source| SupervisorError::Thread { source })?;
        Ok(Self { shared, requests, thread: Some(thread) })
    }

    /// Makes an owner: one for each agent.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(Arc::clone(&self.shared), self.requests.clone())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.registry().open.clear();
        // A thread that is gone already has nothing left to end.
        let _ = self.requests.send(Request::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Job {
    scope: Scope,
    walk: Walk,
    answer: Option<oneshot::Sender<Ended>>,
}

/// The thread's own state.
struct Warden {
    shared: Arc<Shared>,
    jobs: Vec<Job>,
    /// Marks of processes seen while jobs run: a process keeps its mark after its parent, by
    /// which it was recognised, is gone.
    known: BTreeMap<(i32, u64), Mark>,
}

impl Warden {
    fn serve(&mut self, inbox: &Receiver<Request>) {
        let mut closing = false;
        loop {
            if self.jobs.is_empty() {
                self.known.clear();
                if closing {
                    return;
                }
            }
            match self.next(inbox) {
                Ok(request) => closing |= self.accept(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => closing |= self.accept(Request::Close),
            }
            while let Ok(request) = inbox.try_recv() {
                closing |= self.accept(request);
            }
            self.round(Instant::now());
        }
    }

    fn next(&self, inbox: &Receiver<Request>) -> Result<Request, RecvTimeoutError> {
        if self.jobs.is_empty() {
            return inbox.recv().map_err(|_closed| RecvTimeoutError::Disconnected);
        }
        let now = Instant::now();
        let waiting = self.jobs.iter().all(|job| job.walk.is_waiting(now));
        inbox.recv_timeout(if waiting { PATIENT } else { BRISK })
    }

    /// Takes a request on; true if it is the last one.
    fn accept(&mut self, request: Request) -> bool {
        let (scope, answer, last) = match request {
            Request::End(scope, answer) => (scope, Some(answer), false),
            Request::Close => (Scope::All, None, true),
            Request::Sweep => return false,
        };
        self.jobs.push(Job { scope, walk: Walk::new(Instant::now()), answer });
        last
    }

    /// Looks at the table once, for all jobs.
    fn round(&mut self, now: Instant) {
        // Read before the table: a root that is registered later is not missing from it.
        let roots = self.shared.registry().roots.clone();
        match read_table() {
            Ok(table) => {
                let marks = self.marks(&table, &roots);
                self.step_jobs(now, &table, &marks);
                self.reap(&table, &marks);
                self.chase(now, &table);
                self.forget_empty_sessions(&table, &roots);
            }
            Err(error) => {
                let never = error.kind() == io::ErrorKind::Unsupported;
                let sight = if never { Sight::Never } else { Sight::NotNow };
                self.step_jobs_blind(now, &roots, sight);
                self.reap_roots(&roots);
            }
        }
    }

    fn marks(&mut self, table: &Table, roots: &BTreeMap<i32, Root>) -> BTreeMap<i32, Mark> {
        let Self { shared, known, .. } = self;
        let owners = shared.registry().owners.clone();
        let evidence = |process: &Process| {
            known
                .get(&(process.pid, process.started))
                .copied()
                .or_else(|| {
                    read_limit(process.pid).and_then(|limit| shared.seal.mark_in_limit(limit))
                })
                .or_else(|| shared.seal.mark_in_environ(&read_environ(process.pid)))
                .or_else(|| roots.get(&process.session).map(|root| root.mark))
        };
        let mut marks = attribute(table, me(), evidence);
        marks.retain(|_, mark| owners.contains(&mark.owner));
        for (pid, mark) in &marks {
            if let Some(process) = table.get(pid) {
                known.insert((process.pid, process.started), *mark);
            }
        }
        marks
    }

    fn step_jobs(&mut self, now: Instant, table: &Table, marks: &BTreeMap<i32, Mark>) {
        let roots = self.shared.registry().roots.clone();
        // Ours to collect. One that a command will collect says nothing new.
        let is_orphan = |process: &Process| {
            process.parent == me() && !roots.get(&process.pid).is_some_and(|root| root.watched)
        };
        self.jobs.retain_mut(|job| {
            let holds = |pid| marks.get(pid).is_some_and(|mark| job.scope.holds(*mark));
            let tree = table.values().filter(|process| holds(&process.pid)).copied();
            let (mut ended, alive): (Vec<_>, Vec<_>) = tree.partition(|process| process.zombie);
            ended.retain(is_orphan);
            match job.walk.step(now, alive, ended.len()) {
                Step::Look => true,
                Step::Send(order, processes) => {
                    for process in &processes {
                        send(process, order);
                    }
                    true
                }
                Step::Done(left) => {
                    let left = left.iter().map(|process| process.pid).collect();
                    job.finish(Ended { left, ..Ended::default() })
                }
                Step::GiveUp => job.finish(Ended { restless: true, ..Ended::default() }),
            }
        });
    }

    fn chase(&self, now: Instant, table: &Table) {
        let restless = self.jobs.iter().filter(|job| job.walk.is_restless(now));
        let scopes: Vec<Scope> = restless.map(|job| job.scope).collect();
        if !scopes.is_empty() {
            let wanted = |mark| scopes.iter().any(|scope| scope.holds(mark));
            chase(table, &self.shared.seal, wanted);
        }
    }

    fn step_jobs_blind(&mut self, now: Instant, roots: &BTreeMap<i32, Root>, sight: Sight) {
        self.jobs.retain_mut(|job| match job.walk.step_blind(now, sight) {
            Step::Look => true,
            Step::Send(order, _) => {
                for (leader, root) in roots {
                    if job.scope.holds(root.mark) {
                        send_to_group(*leader, order);
                    }
                }
                true
            }
            Step::Done(_) | Step::GiveUp => {
                job.finish(Ended { groups_only: true, ..Ended::default() })
            }
        });
    }

    /// Collects ended orphans and ended children that nobody waits for; by number, never "any
    /// child", which would take the exit status of a running command.
    fn reap(&self, table: &Table, marks: &BTreeMap<i32, Mark>) {
        // A command is started with the registry locked, so that its first process is never seen
        // here before it is registered.
        let registry = self.shared.registry();
        for process in table.values().filter(|process| process.zombie && process.parent == me()) {
            if marks.contains_key(&process.pid) {
                collect(&registry, process.pid);
            }
        }
    }

    fn reap_roots(&self, roots: &BTreeMap<i32, Root>) {
        let mut registry = self.shared.registry();
        for leader in roots.keys() {
            collect(&registry, *leader);
            let Some(group) = Pid::from_raw(*leader) else { continue };
            if rustix::process::test_kill_process_group(group).is_err() {
                registry.roots.retain(|pid, root| pid != leader || root.watched);
            }
        }
    }

    /// Forgets sessions without a process. Until then their number cannot be used anew.
    fn forget_empty_sessions(&self, table: &Table, roots: &BTreeMap<i32, Root>) {
        let mut registry = self.shared.registry();
        for (session, root) in roots {
            if root.watched || table.values().any(|process| process.session == *session) {
                continue;
            }
            if registry.roots.get(session) == Some(root) {
                registry.roots.remove(session);
            }
        }
    }
}

impl Job {
    /// Answers; always false, "do not keep".
    fn finish(&mut self, ended: Ended) -> bool {
        if let Some(answer) = self.answer.take() {
            // Nobody listens after a command was dropped.
            let _ = answer.send(ended);
        }
        false
    }
}

fn me() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Takes note of the end of one child, unless a running command does.
fn collect(registry: &Registry, pid: i32) {
    let watched = registry.roots.get(&pid).is_some_and(|root| root.watched);
    if let Some(pid) = Pid::from_raw(pid).filter(|_| !watched) {
        // An error means that it is collected already.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
