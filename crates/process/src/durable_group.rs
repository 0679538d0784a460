//! Whether a durable command still runs, as a later program sees it.

use rustix::process::{Pid, test_kill_process_group};

use crate::process_table::{list, read_process};

/// Clock ticks of a second in `/proc`, on each Linux that Rust builds for.
const TICKS: u64 = 100;
/// By how much the start of a process may seem later than its record: the start of the machine is
/// known to the second, and clocks are set.
const SLACK_MS: u64 = 5000;

/// Returns whether a process still runs in the process group of a durable command, which was on
/// record at this Unix time in milliseconds. Its PID may be that of another process since.
#[must_use]
pub fn durable_group_runs(pid: u32, recorded_ms: u64) -> bool {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(group) = group.filter(|group| test_kill_process_group(*group) != Err(GONE)) else {
        return false;
    };
    let Ok(pids) = list() else { return true };
    !started_after(group, recorded_ms) && pids.into_iter().any(|pid| is_alive_in(pid, group))
}

const GONE: rustix::io::Errno = rustix::io::Errno::SRCH;

/// Whether a process runs and is in this group. One that has ended may wait for its parent.
fn is_alive_in(pid: i32, group: Pid) -> bool {
    let leader = group.as_raw_nonzero().get();
    let found = read_process(pid).ok().flatten();
    let is_alive = found.is_some_and(|it| it.session == leader && !it.zombie);
    is_alive && rustix::process::getpgid(Pid::from_raw(pid)).is_ok_and(|of| of == group)
}

/// Whether the process with the number of the group is there and began after this time.
fn started_after(group: Pid, ms: u64) -> bool {
    let leader = read_process(group.as_raw_nonzero().get()).ok().flatten();
    let Some((leader, boot)) = leader.zip(boot_time()) else { return false };
    let started_ms = boot * 1000 + leader.started * 1000 / TICKS;
    started_ms > ms.saturating_add(SLACK_MS)
}

/// Returns when the machine started, in Unix seconds.
fn boot_time() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
