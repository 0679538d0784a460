//! The first process of each command.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::process::{Pid, WaitOptions, test_kill_process_group, waitpid};

use crate::process_table::Table;
use crate::process_tag::ProcessTag;
use crate::scope::Scope;
use crate::signal::send_to_group;
use crate::tree_signal::TreeSignal;

/// The first process of a command.
#[derive(Debug)]
struct CommandLeader {
    tag: ProcessTag,
    /// It has not ended yet.
    running: bool,
    /// Readable when it has.
    handle: Option<OwnedFd>,
}

/// The first processes of commands, by their number, which is also that of their session. Each is
/// kept until its session is empty.
#[derive(Debug, Default)]
pub(crate) struct CommandLeaders(BTreeMap<i32, CommandLeader>);

impl CommandLeaders {
    /// Adds a process that runs. Without a handle its end has to be polled for.
    pub(crate) fn insert(&mut self, pid: i32, tag: ProcessTag, handle: Option<OwnedFd>) {
        self.0.insert(pid, CommandLeader { tag, running: true, handle });
    }

    pub(crate) fn tag(&self, pid: i32) -> Option<ProcessTag> {
        self.0.get(&pid).map(|leader| leader.tag)
    }

    pub(crate) fn is_running(&self, pid: i32) -> bool {
        self.0.get(&pid).is_some_and(|leader| leader.running)
    }

    /// Returns the numbers of all, also of those that have ended.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.keys().copied()
    }

    /// Returns the numbers of those that run.
    pub(crate) fn running(&self) -> Vec<i32> {
        self.0.iter().filter(|(_, leader)| leader.running).map(|(pid, _)| *pid).collect()
    }

    /// Returns descriptors that are readable when something has ended.
    pub(crate) fn handles(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.0.values().filter(|leader| leader.running);
        running.filter_map(|leader| leader.handle.as_ref().map(|handle| handle.as_fd()))
    }

    /// True if the end of one that runs has to be polled for.
    pub(crate) fn lacks_handle(&self) -> bool {
        self.0.values().any(|leader| leader.running && leader.handle.is_none())
    }

    /// Marks one that ran as ended. `None` if it did not run.
    pub(crate) fn mark_ended(&mut self, pid: i32) -> Option<ProcessTag> {
        let leader = self.0.get_mut(&pid).filter(|leader| leader.running)?;
        leader.running = false;
        leader.handle = None;
        Some(leader.tag)
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        self.0.remove(&pid);
    }

    /// Sends a signal to the process groups of a scope.
    pub(crate) fn signal_groups(&self, scope: Scope, signal: TreeSignal) {
        let of_scope = self.0.iter().filter(|(_, leader)| scope.holds(leader.tag));
        of_scope.for_each(|(pid, _)| send_to_group(*pid, signal));
    }

    /// Collects the exit status of a process unless it leads a command that runs.
    pub(crate) fn collect(&self, pid: i32) {
        if let Some(pid) = Pid::from_raw(pid).filter(|_| !self.is_running(pid)) {
            // An error means that it is collected already.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }

    /// Collects those that have ended, and forgets them once their group is empty. For systems
    /// without a process table.
    pub(crate) fn collect_ended(&mut self) {
        self.pids().for_each(|pid| self.collect(pid));
        self.0.retain(|pid, leader| {
            let group = Pid::from_raw(*pid);
            leader.running || group.is_some_and(|it| test_kill_process_group(it).is_ok())
        });
    }

    /// Forgets sessions without a process. Until then their number cannot be reused.
    pub(crate) fn forget_empty_sessions(&mut self, table: &Table) {
        let sessions: BTreeSet<i32> = table.values().map(|process| process.session).collect();
        self.0.retain(|session, leader| leader.running || sessions.contains(session));
    }
}

/// Opens a child that is not collected yet, so that its number is its own.
#[cfg(target_os = "linux")]
pub(crate) fn open_child(pid: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_child(_pid: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}
