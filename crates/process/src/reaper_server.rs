//! The life of a reaper: requests come in, reports go out, children end.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::Inbox;
use crate::fault_injection::FaultInjector;
use crate::protocol::{ReaperReport, ReaperRequest};
use crate::reaper::{Mode, Reaper};

/// Serves the program at the other end until it is gone, or says so, and all that it had started
/// is gone too. `program` is readable when that program has ended.
pub(crate) fn serve(
    socket: UnixStream,
    program: Option<OwnedFd>,
    mode: Mode,
    steps: FaultInjector,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut server = Server { socket, inbox: Inbox::default(), out: Vec::new(), program };
    let Some(mut reaper) = server.greet(mode, steps)? else { return Ok(()) };
    let mut closing = false;
    loop {
        if closing && reaper.jobs.is_empty() && server.out.is_empty() {
            return Ok(());
        }
        let idle = server.wait(&reaper, closing)?;
        let now = closing || server.take_requests(&mut reaper);
        if now && !closing {
            reaper.end_all();
        }
        closing |= now;
        reaper.advance(Instant::now(), idle);
        server.report(&mut reaper.reports);
    }
}

/// The end of the line to the program that is served.
struct Server {
    socket: UnixStream,
    inbox: Inbox,
    /// Frames that the socket did not take yet: a reaper never waits for its reader.
    out: Vec<u8>,
    program: Option<OwnedFd>,
}

impl Server {
    /// Waits for the first request; `None` if there is none.
    fn greet(&mut self, mode: Mode, steps: FaultInjector) -> io::Result<Option<Reaper>> {
        loop {
            self.inbox.fill(&self.socket);
            match self.inbox.next().map_err(io::Error::other)? {
                Some(body) => {
                    let Some(ReaperRequest::ReaperConfig(hello)) = ReaperRequest::read(&body)
                    else {
                        return Err(ErrorKind::InvalidData.into());
                    };
                    self.report(&mut vec![ReaperReport::Ready]);
                    return Ok(Some(Reaper::new(hello, mode, steps)));
                }
                None if self.inbox.is_at_end() => return Ok(None),
                None => {}
            }
            wait_for(&mut [PollFd::new(&self.socket, PollFlags::IN)], None)?;
        }
    }

    /// Waits until something is to be done; true if nothing was for the whole pause.
    fn wait(&self, reaper: &Reaper, closing: bool) -> io::Result<bool> {
        let handles = reaper.handles();
        let mut watched: Vec<PollFd<'_>> =
            handles.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        if !closing {
            watched.push(PollFd::new(&self.socket, PollFlags::IN));
            watched.extend(self.program.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        }
        if !self.out.is_empty() {
            watched.push(PollFd::new(&self.socket, PollFlags::OUT));
        }
        wait_for(&mut watched, reaper.pause(Instant::now()))
    }

    /// Passes requests on; true if there will be no more.
    fn take_requests(&mut self, reaper: &mut Reaper) -> bool {
        self.inbox.fill(&self.socket);
        while let Some(body) = self.inbox.next().transpose() {
            // Whoever sends what is no request is not to be served.
            let Some(request) = body.ok().and_then(|body| ReaperRequest::read(&body)) else {
                return true;
            };
            match request {
                ReaperRequest::Start(what) => reaper.start(&what, self.inbox.descriptors()),
                ReaperRequest::End { ticket, scope } => reaper.end(scope, Some(ticket)),
                ReaperRequest::Probe => reaper.probe(),
                ReaperRequest::Close | ReaperRequest::ReaperConfig(_) => return true,
            }
        }
        self.inbox.is_at_end() || self.program_is_gone()
    }

    fn program_is_gone(&self) -> bool {
        let Some(program) = &self.program else { return false };
        let mut watched = [PollFd::new(program, PollFlags::IN)];
        wait_for(&mut watched, Some(Duration::ZERO)).is_ok_and(|idle| !idle)
    }

    fn report(&mut self, reports: &mut Vec<ReaperReport>) {
        self.out.extend(reports.drain(..).flat_map(|report| report.frame()));
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Nobody is there to read it.
                Err(_) => self.out.clear(),
            }
        }
    }
}

/// Waits until one of them is ready; true if none was in time.
pub(crate) fn wait_for(watched: &mut [PollFd<'_>], pause: Option<Duration>) -> io::Result<bool> {
    let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
    match poll(watched, pause.as_ref()) {
        Ok(ready) => Ok(ready == 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
