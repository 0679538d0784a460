//! The life of a warden: requests come in, reports go out, children end.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel::Inbox;
use crate::step::Steps;
use crate::warden::{Home, Warden};
use crate::wire::{Report, Request};

/// Serves the program at the other end until it is gone, or says so, and all that it had started
/// is gone too. `program` is readable when that program has ended.
pub(crate) fn serve(
    socket: UnixStream,
    program: Option<OwnedFd>,
    home: Home,
    steps: Steps,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut desk = Desk { socket, inbox: Inbox::default(), out: Vec::new(), program };
    let Some(mut warden) = desk.greet(home, steps)? else { return Ok(()) };
    let mut closing = false;
    loop {
        if closing && warden.jobs.is_empty() && desk.out.is_empty() {
            return Ok(());
        }
        let idle = desk.wait(&warden, closing)?;
        let now = closing || desk.take_requests(&mut warden);
        if now && !closing {
            warden.end_all();
        }
        closing |= now;
        warden.advance(Instant::now(), idle);
        desk.report(&mut warden.reports);
    }
}

/// The end of the line to the program that is served.
struct Desk {
    socket: UnixStream,
    inbox: Inbox,
    /// Frames that the socket did not take yet: a warden never waits for its reader.
    out: Vec<u8>,
    program: Option<OwnedFd>,
}

impl Desk {
    /// Waits for the first request; `None` if there is none.
    fn greet(&mut self, home: Home, steps: Steps) -> io::Result<Option<Warden>> {
        loop {
            self.inbox.fill(&self.socket);
            match self.inbox.next().map_err(io::Error::other)? {
                Some(body) => {
                    let Some(Request::Hello(hello)) = Request::read(&body) else {
                        return Err(ErrorKind::InvalidData.into());
                    };
                    self.report(&mut vec![Report::Ready]);
                    return Ok(Some(Warden::new(hello, home, steps)));
                }
                None if self.inbox.is_at_end() => return Ok(None),
                None => {}
            }
            wait_for(&mut [PollFd::new(&self.socket, PollFlags::IN)], None)?;
        }
    }

    /// Waits until something is to be done; true if nothing was for the whole pause.
    fn wait(&self, warden: &Warden, closing: bool) -> io::Result<bool> {
        let handles = warden.handles();
        let mut watched: Vec<PollFd<'_>> =
            handles.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        if !closing {
            watched.push(PollFd::new(&self.socket, PollFlags::IN));
            watched.extend(self.program.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        }
        if !self.out.is_empty() {
            watched.push(PollFd::new(&self.socket, PollFlags::OUT));
        }
        wait_for(&mut watched, warden.pause(Instant::now()))
    }

    /// Passes requests on; true if there will be no more.
    fn take_requests(&mut self, warden: &mut Warden) -> bool {
        self.inbox.fill(&self.socket);
        while let Some(body) = self.inbox.next().transpose() {
            // Whoever sends what is no request is not to be served.
            let Some(request) = body.ok().and_then(|body| Request::read(&body)) else {
                return true;
            };
            match request {
                Request::Start(what) => warden.start(&what, self.inbox.descriptors()),
                Request::End { ticket, scope } => warden.end(scope, Some(ticket)),
                Request::Probe => warden.probe(),
                Request::Close | Request::Hello(_) => return true,
            }
        }
        self.inbox.is_at_end() || self.program_is_gone()
    }

    fn program_is_gone(&self) -> bool {
        let Some(program) = &self.program else { return false };
        let mut watched = [PollFd::new(program, PollFlags::IN)];
        wait_for(&mut watched, Some(Duration::ZERO)).is_ok_and(|idle| !idle)
    }

    fn report(&mut self, reports: &mut Vec<Report>) {
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
