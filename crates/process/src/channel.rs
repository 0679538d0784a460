//! Frames and descriptors over a stream socket.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::FRAME_LIMIT;

/// Descriptors that come with the start of a command.
pub(crate) const DESCRIPTORS: usize = 3;
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Sends a frame with its descriptors; waits until it is taken.
pub(crate) fn send(
    socket: &UnixStream,
    mut frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    while !frame.is_empty() {
        match sendmsg(socket, &[IoSlice::new(frame)], &mut control, SendFlags::empty()) {
            Ok(sent) => {
                frame = frame.get(sent..).unwrap_or_default();
                // They went with the first byte.
                control.clear();
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Data from the other end that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The descriptors of each frame that has some, in order: fewer than were sent if this
    /// process may not open as many.
    descriptors: VecDeque<Vec<OwnedFd>>,
    ended: bool,
}

/// A frame that no program of ours sends.
#[derive(Debug, thiserror::Error)]
#[error("a frame of {length} bytes is above the limit of {FRAME_LIMIT}")]
pub(crate) struct FrameTooLong {
    length: usize,
}

impl Inbox {
    /// Reads what is there, without waiting. An error of the socket is its end.
    pub(crate) fn fill(&mut self, socket: &UnixStream) {
        let mut buffer = vec![0; CHUNK];
        while !self.ended {
            match self.receive(socket.as_fd(), &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => self.bytes.extend(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_broken) => self.ended = true,
            }
        }
    }

    /// True if nothing more comes than what was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ended
    }

    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::DONTWAIT;
        let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        #[cfg(not(target_os = "linux"))]
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
        }
        if !descriptors.is_empty() || received.flags.contains(ReturnFlags::CTRUNC) {
            self.descriptors.push_back(descriptors);
        }
        Ok(received.bytes)
    }

    /// The body of the next whole frame.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, FrameTooLong> {
        let Some((length, rest)) = self.bytes.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > FRAME_LIMIT {
            return Err(FrameTooLong { length });
        }
        let Some(body) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.bytes.drain(..size_of::<u32>() + length);
        Ok(Some(body))
    }

    /// The descriptors that came with the frame just taken, in order.
    pub(crate) fn descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.pop_front().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn frame(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_le_bytes(), body].concat()
    }

    #[test]
    fn frames_keep_their_order_and_their_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = |name: &str| std::fs::File::open(name).unwrap();
        let null = file("/dev/null");
        let zero = file("/dev/zero");
        send(&ours, &frame(b"plain"), &[]).unwrap();
        send(&ours, &frame(b"two"), &[null.as_fd(), zero.as_fd()]).unwrap();
        send(&ours, &frame(b""), &[]).unwrap();
        send(&ours, &frame(b"one"), &[zero.as_fd()]).unwrap();
        let mut inbox = Inbox::default();
        let mut seen = Vec::new();
        inbox.fill(&theirs);
        while let Some(body) = inbox.next().unwrap() {
            let descriptors =
                if matches!(&*body, b"two" | b"one") { inbox.descriptors().len() } else { 0 };
            seen.push((String::from_utf8(body).unwrap(), descriptors));
        }
        let expected = [("plain", 0), ("two", 2), ("", 0), ("one", 1)];
        assert_eq!(seen, expected.map(|(text, count)| (text.to_owned(), count)));
        assert!(!inbox.is_at_end());
        drop(ours);
        inbox.fill(&theirs);
        assert!(inbox.is_at_end());
    }

    #[test]
    fn a_frame_may_come_in_any_pieces_and_must_not_be_huge() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut inbox = Inbox::default();
        for byte in frame(b"pieces") {
            inbox.fill(&theirs);
            assert!(inbox.next().unwrap().is_none());
            ours.write_all(&[byte]).unwrap();
        }
        inbox.fill(&theirs);
        assert_eq!(inbox.next().unwrap().unwrap(), b"pieces");
        ours.write_all(&u32::MAX.to_le_bytes()).unwrap();
        inbox.fill(&theirs);
        assert!(inbox.next().is_err());
    }
}
