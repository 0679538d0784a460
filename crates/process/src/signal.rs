//! Sending a signal to the process that was seen, and to no other that got its number since.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::process_table::{Process, read_process};
use crate::tree_signal::TreeSignal;

/// Sends `order` to the process if it is still the one in the table. Processes that are gone or
/// belong to another user are skipped; the next look at the table shows them.
pub(crate) fn send(process: &Process, order: TreeSignal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let handle = Handle::open(pid);
    let same = matches!(read_process(process.pid), Ok(Some(now)) if now.started == process.started);
    if !same {
        return;
    }
    for signal in signals(order) {
        handle.send(*signal);
    }
}

/// Sends `order` to every process of the group that `leader` founded.
pub(crate) fn send_to_group(leader: i32, order: TreeSignal) {
    let Some(leader) = Pid::from_raw(leader) else { return };
    for signal in signals(order) {
        // An error means that the group is gone or that it may not be signalled: nothing to do.
        let _ = kill_process_group(leader, *signal);
    }
}

fn signals(order: TreeSignal) -> &'static [Signal] {
    match order {
        // A process that is stopped would not see the request.
        TreeSignal::Term => &[Signal::TERM, Signal::CONT],
        TreeSignal::Stop => &[Signal::STOP],
        TreeSignal::Kill => &[Signal::KILL],
        TreeSignal::Continue => &[Signal::CONT],
    }
}

/// Refers to one process for good, where the kernel can: opened before the check of the start
/// time, so that the signal cannot reach a later process of the same number.
enum Handle {
    #[cfg(target_os = "linux")]
    Descriptor(std::os::fd::OwnedFd),
    Number(Pid),
}

impl Handle {
    fn open(pid: Pid) -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        {
            return Self::Descriptor(descriptor);
        }
        Self::Number(pid)
    }

    fn send(&self, signal: Signal) {
        let _sent = match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => rustix::process::pidfd_send_signal(descriptor, signal),
            Self::Number(pid) => kill_process(*pid, signal),
        };
    }
}
