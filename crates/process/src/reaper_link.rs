//! The line to the reaper: a thread that starts it, passes requests on, and hands out reports.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::channel::{Inbox, send};
use crate::fault_injection::FaultInjector;
use crate::helper::HelperError;
use crate::outbox::OutgoingRequest;
use crate::process_tag::TagCodec;
use crate::protocol::{ReaperConfig, ReaperReport, ReaperRequest};
use crate::reaper::{Mode, Reaper};
use crate::reaper_server::{serve, wait_for};
use crate::registry::{SharedRegistry, StartError};
use crate::scope::Scope;
use crate::supervisor_config::SupervisorConfig;
use crate::termination_report::TerminationReport;
use crate::tree_kill::{GRACE, KILL_LIMIT};

/// Time limit for a program to identify itself as a helper.
const GREETING_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the reaper to end something, to leave, or to take in its messages: its own
/// limits, and some more for a busy machine.
const END_LIMIT: Duration = GRACE.saturating_add(KILL_LIMIT).saturating_add(Duration::from_secs(5));
/// Pause between two requests to a helper to go on, while an answer is waited for.
const NUDGE: Duration = Duration::from_secs(1);

/// The thread's own state.
pub(crate) struct ReaperLink {
    pub(crate) shared: Arc<SharedRegistry>,
    pub(crate) codec: TagCodec,
    pub(crate) setup: SupervisorConfig,
    pub(crate) steps: FaultInjector,
    pub(crate) requests: Receiver<OutgoingRequest>,
    pub(crate) bell: UnixStream,
    pub(crate) reaper: Option<ReaperConnection>,
    /// By ticket, until when an end that was asked for must be reported.
    pub(crate) due: BTreeMap<u64, Instant>,
}

/// A reaper that runs.
pub(crate) struct ReaperConnection {
    socket: UnixStream,
    inbox: Inbox,
    at: ReaperHost,
}

/// Where it runs.
enum ReaperHost {
    Helper(Child),
    Thread(JoinHandle<io::Result<()>>),
}

impl ReaperLink {
    pub(crate) fn run(mut self) {
        self.work();
        // Nobody is there any more for what is asked from now on, or was not read yet.
        drop(self.requests);
        self.shared.registry().close();
    }

    fn work(&mut self) {
        let mut leaving = None;
        loop {
            if leaving.is_some() && self.reaper.is_none() {
                return;
            }
            if self.wait(leaving).is_err() {
                self.lose();
            }
            let mut rung = [0; 64];
            while matches!(self.bell.read(&mut rung), Ok(1..)) {}
            while let Ok(outgoing) = self.requests.try_recv() {
                if outgoing.request == ReaperRequest::Close {
                    leaving = Some(Instant::now() + END_LIMIT);
                }
                self.pass_on(outgoing);
            }
            self.listen();
            let now = Instant::now();
            if leaving.iter().chain(self.due.values()).any(|limit| now > *limit) {
                self.lose();
            } else if leaving.is_some() || self.is_awaited() {
                self.nudge();
            }
        }
    }

    /// True while the reaper owes an answer.
    fn is_awaited(&self) -> bool {
        !self.due.is_empty() || self.shared.registry().is_starting()
    }

    /// A command of the same user can stop the helper, which then neither reports nor ends
    /// anything.
    fn nudge(&self) {
        if let Some(ReaperConnection { at: ReaperHost::Helper(child), .. }) = &self.reaper
            && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // It is not collected, so the number is its own.
            let _gone = kill_process(pid, Signal::CONT);
        }
    }

    /// Waits until something is to be done.
    fn wait(&self, leaving: Option<Instant>) -> io::Result<()> {
        let mut watched = vec![PollFd::new(&self.bell, PollFlags::IN)];
        watched.extend(self.reaper.iter().map(|line| PollFd::new(&line.socket, PollFlags::IN)));
        let pending = leaving.is_some() || self.is_awaited();
        let limit = pending.then_some(NUDGE);
        wait_for(&mut watched, limit).map(drop)
    }

    fn pass_on(&mut self, OutgoingRequest { request, descriptors }: OutgoingRequest) {
        if self.reaper.is_none() {
            match &request {
                // Nothing runs.
                ReaperRequest::ReaperConfig(_) | ReaperRequest::Close => return,
                ReaperRequest::End { ticket, .. } => {
                    return self.shared.registry().answer(*ticket, TerminationReport::default());
                }
                ReaperRequest::Start(_) | ReaperRequest::Probe => {}
            }
            match self.engage() {
                Ok(line) => {
                    tracing::debug!("reaper started");
                    self.reaper = Some(line);
                }
                Err(error) => {
                    tracing::error!(?error, "reaper not started");
                    return self.refuse(&request, error);
                }
            }
        }
        if let Err(error) = self.steps.take() {
            return self.not_sent(&request, StartError::System(error));
        }
        self.nudge();
        let Some(line) = &self.reaper else { return };
        let borrowed: Vec<BorrowedFd<'_>> =
            descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        let Err(error) = send(&line.socket, &request.frame(), &borrowed) else {
            return self.has_sent(&request);
        };
        // One that takes nothing in has a part of a frame perhaps: none can follow it.
        let is_lost = matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
        );
        let lost = StartError::Helper(HelperError::Lost);
        self.not_sent(&request, if is_lost { lost } else { StartError::System(error) });
        if is_lost {
            self.lose();
        }
    }

    fn has_sent(&mut self, request: &ReaperRequest) {
        let mut registry = self.shared.registry();
        match request {
            ReaperRequest::Start(what) => registry.sent(what.tag),
            // A thread cannot be stopped by a command, nor killed.
            ReaperRequest::End { ticket, .. } if registry.awaits(*ticket) && self.is_helper() => {
                self.due.insert(*ticket, Instant::now() + END_LIMIT);
            }
            _ => {}
        }
    }

    /// Nothing of the request was taken in.
    fn not_sent(&mut self, request: &ReaperRequest, refusal: StartError) {
        match request {
            ReaperRequest::Start(what) => self.shared.registry().refuse(what.tag, refusal),
            _ => self.lose(),
        }
    }

    fn is_helper(&self) -> bool {
        matches!(self.reaper, Some(ReaperConnection { at: ReaperHost::Helper(_), .. }))
    }

    fn refuse(&self, request: &ReaperRequest, error: HelperError) {
        let mut registry = self.shared.registry();
        match request {
            ReaperRequest::Start(what) => registry.refuse(what.tag, StartError::Helper(error)),
            _ => {
                let mut error = Some(error);
                registry.answer_probes(|| Err(error.take().unwrap_or(HelperError::Lost)));
            }
        }
    }

    /// Starts a reaper and waits until it is ready.
    fn engage(&mut self) -> Result<ReaperConnection, HelperError> {
        let program = self.setup.helper.as_ref().map(|helper| helper.program.clone());
        let program = program.unwrap_or_default();
        let system = |source| HelperError::start(&program, source);
        self.steps.take().map_err(system)?;
        let (ours, theirs) = UnixStream::pair().map_err(system)?;
        ours.set_write_timeout(Some(END_LIMIT)).map_err(system)?;
        self.steps.take().map_err(system)?;
        let at = match &self.setup.helper {
            Some(helper) => ReaperHost::Helper(helper.spawn(theirs)?),
            None => ReaperHost::Thread(self.thread(theirs).map_err(system)?),
        };
        let hello = ReaperRequest::ReaperConfig(ReaperConfig {
            codec: self.codec.clone(),
            open_files: self.setup.open_files,
            namespaces: self.setup.namespaces && (self.setup.helper.is_some() || cfg!(test)),
        });
        let mut line = ReaperConnection { socket: ours, inbox: Inbox::default(), at };
        let greeted = send(&line.socket, &hello.frame(), &[]).is_ok() && line.is_greeted();
        if greeted {
            return Ok(line);
        }
        if let ReaperHost::Helper(child) = &mut line.at {
            let _ = child.kill();
        }
        line.dismiss();
        Err(HelperError::Stranger { program })
    }

    fn thread(&self, socket: UnixStream) -> io::Result<JoinHandle<io::Result<()>>> {
        let steps = self.steps.clone();
        let work = move || serve(socket, None, Mode::Thread, steps);
        std::thread::Builder::new().name("process-reaper".to_owned()).spawn(work)
    }

    /// Hands out what the reaper reports.
    fn listen(&mut self) {
        let Some(line) = &mut self.reaper else { return };
        line.inbox.fill(&line.socket);
        let mut understood = true;
        while let Ok(Some(body)) = line.inbox.next() {
            match ReaperReport::read(&body) {
                Some(report) => {
                    if let ReaperReport::Ended(ticket, _) = &report {
                        self.due.remove(ticket);
                    }
                    self.shared.registry().apply_report(report);
                }
                None => understood = false,
            }
        }
        if line.inbox.is_at_end() || !understood {
            self.lose();
        }
    }

    /// The reaper is gone, or has to go. What it did not end is ended from here.
    fn lose(&mut self) {
        self.due.clear();
        let Some(line) = self.reaper.take() else { return };
        let ended = if line.dismiss() {
            tracing::debug!("reaper ended in order");
            TerminationReport::default()
        } else {
            let ended = self.sweep();
            tracing::error!(?ended, "reaper lost: all commands were ended");
            ended
        };
        self.shared.registry().lose_all(&ended);
    }

    /// Ends whatever of our commands is below this process, which is where orphans of a helper
    /// go.
    fn sweep(&self) -> TerminationReport {
        let hello = ReaperConfig { codec: self.codec.clone(), open_files: None, namespaces: false };
        let mut reaper = Reaper::new(hello, Mode::Thread, FaultInjector::default());
        reaper.owners.all.clone_from(&self.shared.registry().owners);
        for owner in reaper.owners.all.clone() {
            reaper.end(Scope::Owner(owner), Some(owner.into()));
        }
        let mut all = TerminationReport::default();
        while !reaper.jobs.is_empty() {
            let _ = wait_for(&mut [], reaper.pause(Instant::now()));
            reaper.advance(Instant::now(), true);
        }
        for report in reaper.reports {
            if let ReaperReport::Ended(_, ended) = report {
                all.left.extend(ended.left);
                all.restless |= ended.restless;
                all.groups_only |= ended.groups_only;
            }
        }
        all
    }
}

impl ReaperConnection {
    fn is_greeted(&mut self) -> bool {
        let limit = Instant::now() + GREETING_LIMIT;
        loop {
            self.inbox.fill(&self.socket);
            match self.inbox.next() {
                Ok(Some(body)) => return ReaperReport::read(&body) == Some(ReaperReport::Ready),
                Ok(None) if !self.inbox.is_at_end() => {}
                Ok(None) | Err(_) => return false,
            }
            let left = limit.saturating_duration_since(Instant::now());
            let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
            if left.is_zero() || wait_for(&mut watched, Some(left)).is_err() {
                return false;
            }
        }
    }

    /// Sees to its end. True if it left in order, with everything that it had started.
    fn dismiss(self) -> bool {
        let Self { socket, inbox, at } = self;
        drop(socket);
        match at {
            ReaperHost::Thread(thread) => thread.join().is_ok_and(|outcome| outcome.is_ok()),
            ReaperHost::Helper(mut child) => {
                // One that closed its end is about to leave.
                if !inbox.is_at_end() {
                    let _ = child.kill();
                }
                child.wait().is_ok_and(|status| status.success())
            }
        }
    }
}
