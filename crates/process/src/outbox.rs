//! Requests on their way to the thread that passes them on to the reaper.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use crate::protocol::ReaperRequest;

/// A request, and the descriptors that go with it.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    pub(crate) request: ReaperRequest,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Where requests are left. Never waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    sender: Sender<OutgoingRequest>,
    /// A byte in it wakes the thread.
    bell: UnixStream,
}

impl Outbox {
    pub(crate) fn new(sender: Sender<OutgoingRequest>, bell: UnixStream) -> Self {
        Self { sender, bell }
    }

    /// True if somebody is there to take it.
    pub(crate) fn put(&self, request: ReaperRequest, descriptors: Vec<OwnedFd>) -> bool {
        let taken = self.sender.send(OutgoingRequest { request, descriptors }).is_ok();
        // A full bell rings already.
        let _ = (&self.bell).write(&[0]);
        taken
    }
}
