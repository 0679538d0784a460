//! The warden starts commands, reports their ends, and ends their trees. It runs in a process of
//! its own, or in a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};

use crate::channel::DESCRIPTORS;
use crate::ending::{Job, Way};
use crate::mark::{Mark, STRAY, Seal};
use crate::registry::Scope;
use crate::space::{Space, Spaces};
use crate::start::{Nature, start};
use crate::step::Steps;
use crate::supervisor::Containment;
use crate::walk::Walk;
use crate::wire::{Hello, Report, Start};

/// Pause between two looks at the table while a tree is being killed.
const BRISK: Duration = Duration::from_millis(4);
/// Pause between two looks while trees have time to end by themselves, and before tidying up.
const PATIENT: Duration = Duration::from_millis(20);
/// Pause between two looks at a child where the kernel cannot announce its end.
const TICK: Duration = Duration::from_millis(10);
/// Pause between two collections of orphans that ended by themselves.
const LEISURE: Duration = Duration::from_secs(1);
/// Commands that end before tidying up is not put off any longer.
const UNTIDY: u32 = 16;

/// The first process of a command.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) mark: Mark,
    /// It has not ended yet.
    pub(crate) running: bool,
    /// Readable when it has.
    handle: Option<OwnedFd>,
}

/// Where a warden is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// In a process of its own: every child is a command's, and this is the only thread.
    Alone,
    /// In a thread of a program that may have other children.
    Guest,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Warden {
    pub(crate) seal: Seal,
    pub(crate) me: i32,
    pub(crate) owners: BTreeSet<u32>,
    /// Owners that were asked to end: they start nothing more.
    pub(crate) ended: BTreeSet<u32>,
    /// By number. Kept until their session is empty, whose number that is.
    pub(crate) roots: BTreeMap<i32, Root>,
    /// `None` where no namespaces are made.
    pub(crate) spaces: Option<Spaces>,
    pub(crate) jobs: Vec<Job>,
    /// Marks of processes seen while jobs run: a process keeps its mark after its parent, by
    /// which it was recognised, is gone.
    pub(crate) known: BTreeMap<(i32, u64), Mark>,
    pub(crate) reports: Vec<Report>,
    /// Commands that ended since the last look at the table.
    pub(crate) untidy: u32,
    pub(crate) home: Home,
    open_files: Option<u64>,
    steps: Steps,
}

impl Warden {
    pub(crate) fn new(hello: Hello, home: Home, steps: Steps) -> Self {
        let spaces = hello.namespaces.then(|| Spaces::new(steps.clone()).ok()).flatten();
        Self {
            seal: hello.seal,
            me: i32::try_from(std::process::id()).unwrap_or_default(),
            owners: BTreeSet::new(),
            ended: BTreeSet::new(),
            roots: BTreeMap::new(),
            spaces,
            jobs: Vec::new(),
            known: BTreeMap::new(),
            reports: Vec::new(),
            untidy: 0,
            home,
            open_files: hello.open_files,
            steps,
        }
    }

    /// Starts a command with its three descriptors, fewer of which mean that this process could
    /// not take them.
    pub(crate) fn start(&mut self, what: &Start, descriptors: Vec<OwnedFd>) {
        let report = match self.try_start(what, descriptors) {
            Ok(()) => Report::Started(what.mark),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                Report::Refused(what.mark, errno)
            }
        };
        self.reports.push(report);
    }

    fn try_start(&mut self, what: &Start, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Ok(ends) = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors) else {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        };
        self.steps.take()?;
        let owner = what.mark.owner;
        self.owners.insert(owner);
        if let Some(spaces) = &mut self.spaces {
            let stray = Mark { owner, command: STRAY };
            spaces.of_owner(owner, self.seal.limit(stray))?;
        }
        let spaces = self.spaces.as_ref();
        let space = spaces.and_then(|spaces| spaces.get(owner));
        self.steps.take()?;
        let dies_with = (self.home == Home::Alone && space.is_none()).then_some(self.me);
        let nature = Nature { seal: &self.seal, space, open_files: self.open_files, dies_with };
        let pid = match (spaces, space) {
            (Some(spaces), Some(space)) => spaces.inside(space, || start(what, ends, nature))?,
            _ => start(what, ends, nature)?,
        };
        // Without a handle its end is looked for: nothing that runs is given up for want of one.
        let handle = self.steps.take().and_then(|()| open(pid)).ok();
        self.roots.insert(pid, Root { mark: what.mark, running: true, handle });
        Ok(())
    }

    /// Begins to end a scope; its end is reported under the ticket.
    pub(crate) fn end(&mut self, scope: Scope, ticket: Option<u64>) {
        let owner = scope.owner();
        if scope == Scope::Owner(owner) {
            self.ended.insert(owner);
        }
        let contained = self.spaces.as_ref().is_some_and(|spaces| spaces.get(owner).is_some());
        let now = Instant::now();
        let way = if contained { Way::asking() } else { Way::Walk(Walk::new(now)) };
        self.jobs.push(Job { scope, ticket, began: now, way });
    }

    /// Begins to end everything.
    pub(crate) fn end_all(&mut self) {
        for owner in self.owners.clone() {
            let scope = Scope::Owner(owner);
            if !self.jobs.iter().any(|job| job.scope == scope) {
                self.end(scope, None);
            }
        }
    }

    /// Tells by which means the trees of the next owner would be held.
    pub(crate) fn probe(&mut self) {
        /// No owner has it.
        const NOBODY: u32 = 0;
        let spaces = self.spaces.as_mut();
        let made = spaces.is_some_and(|spaces| {
            let made = matches!(spaces.of_owner(NOBODY, None), Ok(Some(_)));
            spaces.kill(NOBODY);
            made
        });
        self.reports.push(Report::Holds(match made {
            true => Containment::Namespace,
            false if cfg!(target_os = "linux") => Containment::Walk,
            false => Containment::Groups,
        }));
    }

    /// How long nothing need be done unless one of [`Self::handles`] is readable.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        if !self.jobs.is_empty() {
            let patient = self.jobs.iter().all(|job| job.is_patient(now));
            return Some(if patient { PATIENT } else { BRISK });
        }
        if self.roots.values().any(|root| root.running && root.handle.is_none()) {
            return Some(TICK);
        }
        if self.untidy > 0 {
            return Some(PATIENT);
        }
        let orphans =
            self.home == Home::Alone && self.roots.keys().any(|pid| !self.is_inside(*pid));
        orphans.then_some(LEISURE)
    }

    /// Readable when something has ended.
    pub(crate) fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let roots = self.roots.values().filter(|root| root.running);
        let roots = roots.filter_map(|root| root.handle.as_ref().map(|handle| handle.as_fd()));
        let spaces = self.spaces.iter().flat_map(|spaces| spaces.dying().map(Space::handle));
        roots.chain(spaces).collect()
    }

    /// Does what is due. `idle`: there was nothing else to do for the whole pause.
    pub(crate) fn advance(&mut self, now: Instant, idle: bool) {
        self.collect();
        self.finish_gone();
        let tidy = self.untidy > 0 && (idle || self.untidy >= UNTIDY);
        if tidy || self.jobs.iter().any(|job| !job.waits_for_kernel(now)) {
            self.round(now);
            self.untidy = 0;
        }
        if self.jobs.is_empty() {
            self.known.clear();
        }
    }

    /// Takes note of what has ended.
    fn collect(&mut self) {
        if self.home == Home::Alone && self.jobs.is_empty() {
            // By the way of commands' orphans: while a tree is ended, the walk counts them.
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                self.has_ended(pid.as_raw_nonzero().get(), Some(status));
            }
        }
        let running: Vec<i32> =
            self.roots.iter().filter(|(_, root)| root.running).map(|(pid, _)| *pid).collect();
        for number in running {
            match Pid::from_raw(number).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG)) {
                Some(Ok(None)) => {}
                Some(Ok(Some((_, status)))) => self.has_ended(number, Some(status)),
                // Somebody else in this program took its status.
                Some(Err(_)) | None => self.has_ended(number, None),
            }
        }
        if let Some(spaces) = &mut self.spaces {
            spaces.collect();
        }
    }

    fn has_ended(&mut self, pid: i32, status: Option<WaitStatus>) {
        let inside = self.is_inside(pid);
        let Some(root) = self.roots.get_mut(&pid).filter(|root| root.running) else { return };
        root.running = false;
        root.handle = None;
        self.reports.push(Report::Exited(root.mark, status.map(WaitStatus::as_raw)));
        if inside {
            // Whatever it leaves is known by its namespace.
            self.roots.remove(&pid);
        } else {
            self.untidy += 1;
        }
    }

    fn is_inside(&self, root: i32) -> bool {
        let owner = self.roots.get(&root).map(|root| root.mark.owner);
        let spaces = self.spaces.as_ref();
        owner.is_some_and(|owner| spaces.is_some_and(|spaces| spaces.get(owner).is_some()))
    }
}

/// The child is not collected yet, so its number is its own.
#[cfg(target_os = "linux")]
fn open(pid: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn open(_pid: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
