//! Pseudo-terminals, for programs that insist on a terminal.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize};
use rustix::termios::{tcgetattr, tcsetattr, tcsetwinsize};

/// Lines of the terminal.
const ROWS: u16 = 50;
/// Columns of the terminal: wide, because programs break their lines there.
const COLUMNS: u16 = 200;

/// A new pseudo-terminal.
pub(crate) struct PseudoTerminal {
    /// The end of this program, which does not block.
    pub(crate) ours: OwnedFd,
    /// The end of the command.
    pub(crate) theirs: OwnedFd,
}

impl PseudoTerminal {
    pub(crate) fn open() -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&*name, flags, Mode::empty())?;
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size)?;
        // Whoever waits for a text must not be met by the echo of what it has just written.
        let mut modes = tcgetattr(&theirs)?;
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&theirs, OptionalActions::Now, &modes)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok(Self { ours, theirs })
    }
}
