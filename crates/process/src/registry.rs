//! State that the owners and the link share: who may start commands, and who waits for what.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::containment::Containment;
use crate::fault_injection::FaultInjector;
use crate::helper::HelperError;
use crate::outcome::Exit;
use crate::process_tag::ProcessTag;
use crate::protocol::ReaperReport;
use crate::termination_report::TerminationReport;

/// Why a command was not started.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The system said so.
    System(io::Error),
    /// There is nobody to start it.
    Helper(HelperError),
}

/// A start whose result is awaited, and then its command.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    pub(crate) started: oneshot::Receiver<Result<(), StartError>>,
    pub(crate) exit: oneshot::Receiver<Exit>,
}

/// The registry that the owners and the link share.
#[derive(Debug, Default)]
pub(crate) struct SharedRegistry {
    registry: Mutex<Registry>,
    pub(crate) steps: FaultInjector,
}

/// Who may start commands, and who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Owners whose processes are ours to end.
    pub(crate) owners: BTreeSet<u32>,
    /// Owners that may start commands.
    pub(crate) open: BTreeSet<u32>,
    tickets: u64,
    starts: BTreeMap<ProcessTag, oneshot::Sender<Result<(), StartError>>>,
    /// Starts that are on their way: the command may run already.
    sent: BTreeSet<ProcessTag>,
    exits: BTreeMap<ProcessTag, oneshot::Sender<Exit>>,
    ends: BTreeMap<u64, oneshot::Sender<TerminationReport>>,
    probes: Vec<std::sync::mpsc::Sender<Result<Containment, HelperError>>>,
}

impl SharedRegistry {
    pub(crate) fn new(steps: FaultInjector) -> Self {
        Self { registry: Mutex::default(), steps }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        // Every change is one insertion or removal, so a panic leaves nothing half done.
        self.registry.lock()
    }
}

impl Registry {
    /// Waits for a command that is about to be asked for.
    pub(crate) fn expect_start(&mut self, tag: ProcessTag) -> PendingCommand {
        let (start, started) = oneshot::channel();
        let (end, exit) = oneshot::channel();
        self.starts.insert(tag, start);
        self.exits.insert(tag, end);
        PendingCommand { started, exit }
    }

    /// Waits for an end that is about to be asked for; its ticket comes first.
    pub(crate) fn expect_end(&mut self) -> (u64, oneshot::Receiver<TerminationReport>) {
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
    pub(crate) fn apply_report(&mut self, report: ReaperReport) {
        match report {
            ReaperReport::Ready => {}
            ReaperReport::Started(tag) => {
                self.sent.remove(&tag);
                let _ = self.starts.remove(&tag).map(|start| start.send(Ok(())));
            }
            ReaperReport::Refused(tag, errno) => {
                self.refuse(tag, StartError::System(io::Error::from_raw_os_error(errno)));
            }
            ReaperReport::Exited(tag, status) => {
                let exit = status.map(ExitStatus::from_raw).map_or(Exit::Unknown, Exit::from);
                let _ = self.exits.remove(&tag).map(|waiting| waiting.send(exit));
            }
            ReaperReport::Ended(ticket, ended) => self.answer(ticket, ended),
            ReaperReport::Holds(containment) => self.answer_probes(|| Ok(containment)),
        }
    }

    pub(crate) fn refuse(&mut self, tag: ProcessTag, refusal: StartError) {
        self.sent.remove(&tag);
        self.exits.remove(&tag);
        let _ = self.starts.remove(&tag).map(|start| start.send(Err(refusal)));
    }

    pub(crate) fn answer(&mut self, ticket: u64, ended: TerminationReport) {
        let _ = self.ends.remove(&ticket).map(|waiting| waiting.send(ended));
    }

    pub(crate) fn answer_probes(
        &mut self,
        mut word: impl FnMut() -> Result<Containment, HelperError>,
    ) {
        for probe in self.probes.drain(..) {
            let _ = probe.send(word());
        }
    }

    /// The start is on its way.
    pub(crate) fn sent(&mut self, tag: ProcessTag) {
        self.sent.insert(tag);
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
    pub(crate) fn lose_all(&mut self, ended: &TerminationReport) {
        for tag in std::mem::take(&mut self.sent) {
            let _ = self.starts.remove(&tag).map(|start| start.send(Ok(())));
        }
        for (tag, exit) in std::mem::take(&mut self.exits) {
            if self.starts.contains_key(&tag) {
                self.exits.insert(tag, exit);
            } else {
                let _ = exit.send(Exit::Unknown);
            }
        }
        for (_, end) in std::mem::take(&mut self.ends) {
            let _ = end.send(ended.clone());
        }
        self.answer_probes(|| Err(HelperError::Lost));
    }

    /// There will be nobody to start commands any more.
    pub(crate) fn close(&mut self) {
        self.lose_all(&TerminationReport::default());
        for tag in self.starts.keys().copied().collect::<Vec<_>>() {
            self.refuse(tag, StartError::Helper(HelperError::Lost));
        }
    }
}
