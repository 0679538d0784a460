//! What the owners and the link both know: who may start commands, and who waits for what.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::finished::Exit;
use crate::helper::HelperError;
use crate::mark::Mark;
use crate::step::Steps;
use crate::supervisor::{Containment, Ended};
use crate::wire::Report;

/// Which processes a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One command's.
    Command(Mark),
    /// One owner's.
    Owner(u32),
}

impl Scope {
    pub(crate) fn holds(self, mark: Mark) -> bool {
        match self {
            Self::Command(command) => command == mark,
            Self::Owner(owner) => owner == mark.owner,
        }
    }

    pub(crate) fn owner(self) -> u32 {
        match self {
            Self::Command(mark) => mark.owner,
            Self::Owner(owner) => owner,
        }
    }
}

/// Why a command was not started.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The system said so.
    System(io::Error),
    /// There is nobody to start it.
    Helper(HelperError),
}

/// What becomes of a start, and of the command after it.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) started: oneshot::Receiver<Result<(), Refusal>>,
    pub(crate) exit: oneshot::Receiver<Exit>,
}

/// Shared between the owners and the link.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    registry: Mutex<Registry>,
    pub(crate) steps: Steps,
}

/// Who may start commands, and who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Owners whose processes are ours to end.
    pub(crate) owners: BTreeSet<u32>,
    /// Owners that may start commands.
    pub(crate) open: BTreeSet<u32>,
    tickets: u64,
    starts: BTreeMap<Mark, oneshot::Sender<Result<(), Refusal>>>,
    /// Starts that are on their way: the command may run already.
    sent: BTreeSet<Mark>,
    exits: BTreeMap<Mark, oneshot::Sender<Exit>>,
    ends: BTreeMap<u64, oneshot::Sender<Ended>>,
    probes: Vec<std::sync::mpsc::Sender<Result<Containment, HelperError>>>,
}

impl Shared {
    pub(crate) fn new(steps: Steps) -> Self {
        Self { registry: Mutex::default(), steps }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        // Every change is one insertion or removal, so a panic leaves nothing half done.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Waits for a command that is about to be asked for.
    pub(crate) fn expect_start(&mut self, mark: Mark) -> Awaited {
        let (start, started) = oneshot::channel();
        let (end, exit) = oneshot::channel();
        self.starts.insert(mark, start);
        self.exits.insert(mark, end);
        Awaited { started, exit }
    }

    /// Waits for an end that is about to be asked for; its ticket comes first.
    pub(crate) fn expect_end(&mut self) -> (u64, oneshot::Receiver<Ended>) {
        let (answer, ended) = oneshot::channel();
        self.tickets += 1;
        self.ends.insert(self.tickets, answer);
        (self.tickets, ended)
    }

    /// Waits for a word on how trees are held.
    pub(crate) fn expect_probe(
        &mut self,
    ) -> std::sync::mpsc::Receiver<Result<Containment, HelperError>> {
        let (answer, answered) = std::sync::mpsc::channel();
        self.probes.push(answer);
        answered
    }

    /// Hands a report to who waits for it; nobody may, after a drop.
    pub(crate) fn take(&mut self, report: Report) {
        match report {
            Report::Ready => {}
            Report::Started(mark) => {
                self.sent.remove(&mark);
                let _ = self.starts.remove(&mark).map(|start| start.send(Ok(())));
            }
            Report::Refused(mark, errno) => {
                self.refuse(mark, Refusal::System(io::Error::from_raw_os_error(errno)));
            }
            Report::Exited(mark, status) => {
                let exit = status.map(ExitStatus::from_raw).map_or(Exit::Unknown, Exit::from);
                let _ = self.exits.remove(&mark).map(|waiting| waiting.send(exit));
            }
            Report::Ended(ticket, ended) => self.answer(ticket, ended),
            Report::Holds(containment) => self.tell(|| Ok(containment)),
        }
    }

    pub(crate) fn refuse(&mut self, mark: Mark, refusal: Refusal) {
        self.sent.remove(&mark);
        self.exits.remove(&mark);
        let _ = self.starts.remove(&mark).map(|start| start.send(Err(refusal)));
    }

    pub(crate) fn answer(&mut self, ticket: u64, ended: Ended) {
        let _ = self.ends.remove(&ticket).map(|waiting| waiting.send(ended));
    }

    pub(crate) fn tell(&mut self, mut word: impl FnMut() -> Result<Containment, HelperError>) {
        for probe in self.probes.drain(..) {
            let _ = probe.send(word());
        }
    }

    /// The start is on its way.
    pub(crate) fn sent(&mut self, mark: Mark) {
        self.sent.insert(mark);
    }

    /// True if a start is on its way.
    pub(crate) fn is_starting(&self) -> bool {
        !self.sent.is_empty()
    }

    /// True if somebody waits for that end.
    pub(crate) fn awaits(&self, ticket: u64) -> bool {
        self.ends.contains_key(&ticket)
    }

    /// Whoever started commands is gone, and all of them are ended. What was left is `ended`.
    /// A command whose start was on its way may have run; one that was not asked for yet will be
    /// asked of the next one.
    pub(crate) fn lose_all(&mut self, ended: &Ended) {
        for mark in std::mem::take(&mut self.sent) {
            let _ = self.starts.remove(&mark).map(|start| start.send(Ok(())));
        }
        for (mark, exit) in std::mem::take(&mut self.exits) {
            if self.starts.contains_key(&mark) {
                self.exits.insert(mark, exit);
            } else {
                let _ = exit.send(Exit::Unknown);
            }
        }
        for (_, end) in std::mem::take(&mut self.ends) {
            let _ = end.send(ended.clone());
        }
        self.tell(|| Err(HelperError::Lost));
    }

    /// There will be nobody to start commands any more.
    pub(crate) fn close(&mut self) {
        self.lose_all(&Ended::default());
        for mark in self.starts.keys().copied().collect::<Vec<_>>() {
            self.refuse(mark, Refusal::Helper(HelperError::Lost));
        }
    }
}
