//! The line to the warden: a thread that starts it, passes requests on, and hands out reports.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::channel::{Inbox, send};
use crate::helper::HelperError;
use crate::mark::Seal;
use crate::registry::{Refusal, Scope, Shared};
use crate::serve::{serve, wait_for};
use crate::step::Steps;
use crate::supervisor::{Ended, Setup};
use crate::walk::{GRACE, KILL_LIMIT};
use crate::warden::{Home, Warden};
use crate::wire::{Hello, Report, Request};

/// What a program may take to say that it is a helper.
const GREETING_LIMIT: Duration = Duration::from_secs(20);
/// What the warden may take to end something, to leave, or to take in what it is sent: its own
/// limits, and some more for a machine that is busy.
const END_LIMIT: Duration = GRACE.saturating_add(KILL_LIMIT).saturating_add(Duration::from_secs(5));
/// Pause between two requests to a helper to go on, while an answer is waited for.
const NUDGE: Duration = Duration::from_secs(1);

/// A request, and the descriptors that go with it.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) request: Request,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Where errands are left. Never waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    sender: Sender<Errand>,
    /// A byte in it wakes the thread.
    bell: UnixStream,
}

impl Outbox {
    pub(crate) fn new(sender: Sender<Errand>, bell: UnixStream) -> Self {
        Self { sender, bell }
    }

    /// True if somebody is there to take it.
    pub(crate) fn put(&self, request: Request, descriptors: Vec<OwnedFd>) -> bool {
        let taken = self.sender.send(Errand { request, descriptors }).is_ok();
        // A full bell rings already.
        let _ = (&self.bell).write(&[0]);
        taken
    }
}

/// The thread's own state.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) seal: Seal,
    pub(crate) setup: Setup,
    pub(crate) steps: Steps,
    pub(crate) errands: Receiver<Errand>,
    pub(crate) bell: UnixStream,
    pub(crate) warden: Option<Line>,
    /// By ticket, until when an end that was asked for must be reported.
    pub(crate) due: BTreeMap<u64, Instant>,
}

/// A warden that runs.
pub(crate) struct Line {
    socket: UnixStream,
    inbox: Inbox,
    at: At,
}

/// Where it runs.
enum At {
    Helper(Child),
    Thread(JoinHandle<io::Result<()>>),
}

impl Link {
    pub(crate) fn run(mut self) {
        self.work();
        // Nobody is there any more for what is asked from now on, or was not read yet.
        drop(self.errands);
        self.shared.registry().close();
    }

    fn work(&mut self) {
        let mut leaving = None;
        loop {
            if leaving.is_some() && self.warden.is_none() {
                return;
            }
            if self.wait(leaving).is_err() {
                self.lose();
            }
            let mut rung = [0; 64];
            while matches!(self.bell.read(&mut rung), Ok(1..)) {}
            while let Ok(errand) = self.errands.try_recv() {
                if errand.request == Request::Close {
                    leaving = Some(Instant::now() + END_LIMIT);
                }
                self.pass_on(errand);
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

    /// True while the warden owes an answer.
    fn is_awaited(&self) -> bool {
        !self.due.is_empty() || self.shared.registry().is_starting()
    }

    /// A command of the same user can stop the helper, which then neither reports nor ends
    /// anything.
    fn nudge(&self) {
        if let Some(Line { at: At::Helper(child), .. }) = &self.warden
            && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // It is not collected, so the number is its own.
            let _gone = kill_process(pid, Signal::CONT);
        }
    }

    /// Waits until something is to be done.
    fn wait(&self, leaving: Option<Instant>) -> io::Result<()> {
        let mut watched = vec![PollFd::new(&self.bell, PollFlags::IN)];
        watched.extend(self.warden.iter().map(|line| PollFd::new(&line.socket, PollFlags::IN)));
        let pending = leaving.is_some() || self.is_awaited();
        let limit = pending.then_some(NUDGE);
        wait_for(&mut watched, limit).map(drop)
    }

    fn pass_on(&mut self, Errand { request, descriptors }: Errand) {
        if self.warden.is_none() {
            match &request {
                // Nothing runs.
                Request::Hello(_) | Request::Close => return,
                Request::End { ticket, .. } => {
                    return self.shared.registry().answer(*ticket, Ended::default());
                }
                Request::Start(_) | Request::Probe => {}
            }
            match self.engage() {
                Ok(line) => self.warden = Some(line),
                Err(error) => return self.refuse(&request, error),
            }
        }
        if let Err(error) = self.steps.take() {
            return self.not_sent(&request, Refusal::System(error));
        }
        self.nudge();
        let Some(line) = &self.warden else { return };
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
        let lost = Refusal::Helper(HelperError::Lost);
        self.not_sent(&request, if is_lost { lost } else { Refusal::System(error) });
        if is_lost {
            self.lose();
        }
    }

    fn has_sent(&mut self, request: &Request) {
        let mut registry = self.shared.registry();
        match request {
            Request::Start(what) => registry.sent(what.mark),
            // A thread cannot be stopped by a command, nor killed.
            Request::End { ticket, .. } if registry.awaits(*ticket) && self.is_helper() => {
                self.due.insert(*ticket, Instant::now() + END_LIMIT);
            }
            _ => {}
        }
    }

    /// Nothing of the request was taken in.
    fn not_sent(&mut self, request: &Request, refusal: Refusal) {
        match request {
            Request::Start(what) => self.shared.registry().refuse(what.mark, refusal),
            _ => self.lose(),
        }
    }

    fn is_helper(&self) -> bool {
        matches!(self.warden, Some(Line { at: At::Helper(_), .. }))
    }

    fn refuse(&self, request: &Request, error: HelperError) {
        let mut registry = self.shared.registry();
        match request {
            Request::Start(what) => registry.refuse(what.mark, Refusal::Helper(error)),
            _ => {
                let mut error = Some(error);
                registry.tell(|| Err(error.take().unwrap_or(HelperError::Lost)));
            }
        }
    }

    /// Starts a warden and waits until it is ready.
    fn engage(&mut self) -> Result<Line, HelperError> {
        let program = self.setup.helper.as_ref().map(|helper| helper.program.clone());
        let program = program.unwrap_or_default();
        let system = |source| HelperError::start(&program, source);
        self.steps.take().map_err(system)?;
        let (ours, theirs) = UnixStream::pair().map_err(system)?;
        ours.set_write_timeout(Some(END_LIMIT)).map_err(system)?;
        self.steps.take().map_err(system)?;
        let at = match &self.setup.helper {
            Some(helper) => At::Helper(helper.spawn(theirs)?),
            None => At::Thread(self.thread(theirs).map_err(system)?),
        };
        let hello = Request::Hello(Hello {
            seal: self.seal.clone(),
            open_files: self.setup.open_files,
            namespaces: self.setup.namespaces && (self.setup.helper.is_some() || cfg!(test)),
        });
        let mut line = Line { socket: ours, inbox: Inbox::default(), at };
        let greeted = send(&line.socket, &hello.frame(), &[]).is_ok() && line.is_greeted();
        if greeted {
            return Ok(line);
        }
        if let At::Helper(child) = &mut line.at {
            let _ = child.kill();
        }
        line.dismiss();
        Err(HelperError::Stranger { program })
    }

    fn thread(&self, socket: UnixStream) -> io::Result<JoinHandle<io::Result<()>>> {
        let steps = self.steps.clone();
        let work = move || serve(socket, None, Home::Guest, steps);
        std::thread::Builder::new().name("process-warden".to_owned()).spawn(work)
    }

    /// Hands out what the warden reports.
    fn listen(&mut self) {
        let Some(line) = &mut self.warden else { return };
        line.inbox.fill(&line.socket);
        let mut understood = true;
        while let Ok(Some(body)) = line.inbox.next() {
            match Report::read(&body) {
                Some(report) => {
                    if let Report::Ended(ticket, _) = &report {
                        self.due.remove(ticket);
                    }
                    self.shared.registry().take(report);
                }
                None => understood = false,
            }
        }
        if line.inbox.is_at_end() || !understood {
            self.lose();
        }
    }

    /// The warden is gone, or has to go. What it did not end is ended from here.
    fn lose(&mut self) {
        self.due.clear();
        let Some(line) = self.warden.take() else { return };
        let ended = if line.dismiss() { Ended::default() } else { self.sweep() };
        self.shared.registry().lose_all(&ended);
    }

    /// Ends whatever of our commands is below this process, which is where orphans of a helper
    /// go.
    fn sweep(&self) -> Ended {
        let hello = Hello { seal: self.seal.clone(), open_files: None, namespaces: false };
        let mut warden = Warden::new(hello, Home::Guest, Steps::default());
        warden.owners.clone_from(&self.shared.registry().owners);
        for owner in warden.owners.clone() {
            warden.end(Scope::Owner(owner), Some(owner.into()));
        }
        let mut all = Ended::default();
        while !warden.jobs.is_empty() {
            let _ = wait_for(&mut [], warden.pause(Instant::now()));
            warden.advance(Instant::now(), true);
        }
        for report in warden.reports {
            if let Report::Ended(_, ended) = report {
                all.left.extend(ended.left);
                all.restless |= ended.restless;
                all.groups_only |= ended.groups_only;
            }
        }
        all
    }
}

impl Line {
    fn is_greeted(&mut self) -> bool {
        let limit = Instant::now() + GREETING_LIMIT;
        loop {
            self.inbox.fill(&self.socket);
            match self.inbox.next() {
                Ok(Some(body)) => return Report::read(&body) == Some(Report::Ready),
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
            At::Thread(thread) => thread.join().is_ok_and(|outcome| outcome.is_ok()),
            At::Helper(mut child) => {
                // One that closed its end is about to leave.
                if !inbox.is_at_end() {
                    let _ = child.kill();
                }
                child.wait().is_ok_and(|status| status.success())
            }
        }
    }
}
