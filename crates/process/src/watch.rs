//! Waiting for the end of a direct child.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Pause between two looks at a child where the kernel cannot announce its end.
const TICK: Duration = Duration::from_millis(10);

/// Waits for one child. Its status is collected here and nowhere else.
#[derive(Debug)]
pub(crate) struct Watch {
    child: Child,
    /// Readable when the child has ended.
    descriptor: Option<AsyncFd<OwnedFd>>,
}

impl Watch {
    pub(crate) fn new(child: Child) -> Self {
        let descriptor = open(&child).and_then(register);
        Self { child, descriptor }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or_default()
    }

    /// Waits for the end. Nothing is lost if the future is dropped.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            match &self.descriptor {
                Some(descriptor) => _ = descriptor.readable().await?,
                None => tokio::time::sleep(TICK).await,
            }
        }
    }
}

#[expect(unsafe_code, reason = "the runtime cannot know that the descriptor stays open")]
fn register(descriptor: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is moved in whole: it is open, and nobody else can close it or put
    // another file behind its number.
    unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.ok()
}

/// The child is not collected yet, so its number is its own.
#[cfg(target_os = "linux")]
fn open(child: &Child) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_child(child), PidfdFlags::NONBLOCK).ok()
}

#[cfg(not(target_os = "linux"))]
fn open(_child: &Child) -> Option<OwnedFd> {
    None
}
