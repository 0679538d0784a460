//! Which sessions run: those whose file is locked.

#[cfg(target_os = "linux")]
use std::io;

use deputize_core::SessionId;
use deputize_runtime::{ReadError, SessionDir};

/// A session that a process works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionHolder {
    pub(crate) session: SessionId,
    /// The process id; `None` if the system does not say.
    pub(crate) pid: Option<u32>,
}

/// The sessions here that a process works on, by name. No lock is taken: a session that is about
/// to begin must not find it taken.
pub(crate) fn running(sessions: &SessionDir) -> Result<Vec<SessionHolder>, ReadError> {
    let holders = LockHolders::read();
    let mut running = Vec::new();
    for session in sessions.list()? {
        if let Some(pid) = holders.holder_of(sessions, &session) {
            running.push(SessionHolder { session, pid });
        }
    }
    Ok(running)
}

/// The process that works on a session now, if one does.
pub(crate) fn holder(sessions: &SessionDir, session: &SessionId) -> Option<SessionHolder> {
    let pid = LockHolders::read().holder_of(sessions, session)?;
    Some(SessionHolder { session: session.clone(), pid })
}

/// The processes that hold the lock of a file, by the file's inode number. Files of different
/// file systems can share a number.
#[cfg(target_os = "linux")]
struct LockHolders(std::collections::BTreeMap<u64, std::collections::BTreeSet<u32>>);

/// The kernel gives no more than a page of its list at once.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Limit on reads of a list that takes several reads.
#[cfg(target_os = "linux")]
const LOOKS: usize = 8;

#[cfg(target_os = "linux")]
impl LockHolders {
    fn read() -> Self {
        Self::read_from(|| std::fs::File::open("/proc/locks"))
    }

    /// Between two reads the list may change: one that ends moves those behind it, and the next
    /// read passes over as many. What one read gives is whole; what takes several is looked at
    /// again, in pieces that end elsewhere, and what was held in any look counts.
    fn read_from<R: io::Read>(open: impl Fn() -> io::Result<R>) -> Self {
        let mut holders = Self(std::collections::BTreeMap::new());
        for look in 0..LOOKS {
            let mut reads = 0;
            let mut text = Vec::new();
            let mut page = [0; PAGE];
            // Without the list nothing is known to run.
            let Ok(mut locks) = open() else { break };
            let mut most = PAGE - look * PAGE / (2 * LOOKS);
            while let Ok(count @ 1..) = locks.read(page.get_mut(..most).unwrap_or_default()) {
                text.extend_from_slice(page.get(..count).unwrap_or_default());
                (reads, most) = (reads + 1, PAGE);
            }
            for (inode, pid) in String::from_utf8_lossy(&text).lines().filter_map(lock) {
                holders.0.entry(inode).or_default().insert(pid);
            }
            if reads <= 1 {
                break;
            }
        }
        holders
    }

    fn holder_of(&self, sessions: &SessionDir, session: &SessionId) -> Option<Option<u32>> {
        use std::os::unix::fs::MetadataExt as _;
        let file = std::fs::metadata(sessions.file(session)).ok()?;
        let pids = self.0.get(&file.ino())?;
        pids.iter().copied().find(|pid| has_open(*pid, &file)).map(Some)
    }
}

/// Whether a process has a file open. One whose files cannot be read counts as having it open.
#[cfg(target_os = "linux")]
fn has_open(pid: u32, file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let opened = open.flatten().filter_map(|entry| std::fs::metadata(entry.path()).ok());
    let key = |of: &std::fs::Metadata| (of.dev(), of.ino());
    opened.into_iter().any(|opened| key(&opened) == key(file))
}

/// The file and the process of a line as `1: FLOCK  ADVISORY  WRITE 4711 fd:00:123456 0 EOF`.
#[cfg(target_os = "linux")]
fn lock(line: &str) -> Option<(u64, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let place = fields.iter().position(|field| *field == "WRITE")?;
    let pid = fields.get(place + 1)?.parse().ok()?;
    let inode = fields.get(place + 2)?.rsplit(':').next()?.parse().ok()?;
    Some((inode, pid))
}

#[cfg(not(target_os = "linux"))]
struct LockHolders;

#[cfg(not(target_os = "linux"))]
impl LockHolders {
    fn read() -> Self {
        Self
    }

    fn holder_of(&self, sessions: &SessionDir, session: &SessionId) -> Option<Option<u32>> {
        let asked = super::client::ask(sessions, session, &super::ControlRequest::Status);
        let pid = asked.ok()?.get("pid").and_then(serde_json::Value::as_u64);
        Some(pid.and_then(|pid| u32::try_from(pid).ok()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Locks as the kernel lists them: a read gives whole lines from where the last one ended, by
    /// their number, as many as fit. After each read the first lock of the list is let go, or taken
    /// again.
    struct LockList {
        locks: Rc<RefCell<Vec<u64>>>,
        next: usize,
        rest: Vec<u8>,
    }

    impl io::Read for LockList {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut locks = self.locks.borrow_mut();
            while self.rest.len() < buffer.len()
                && let Some(inode) = locks.get(self.next)
            {
                let line = format!("1: FLOCK  ADVISORY  WRITE 7 fd:00:{inode} 0 EOF\n");
                if !self.rest.is_empty() && self.rest.len() + line.len() > PAGE {
                    break;
                }
                self.rest.extend_from_slice(line.as_bytes());
                self.next += 1;
            }
            let count = self.rest.as_slice().read(buffer)?;
            self.rest.drain(..count);
            if locks.first() == Some(&0) {
                locks.remove(0);
            } else {
                locks.insert(0, 0);
            }
            Ok(count)
        }
    }

    #[test]
    fn a_lock_that_is_held_is_found_whatever_others_are_let_go_meanwhile() {
        for others in [0, 1, 30, 70, 200, 1000] {
            let locks = Rc::new(RefCell::new((0..=others).collect::<Vec<u64>>()));
            let open = || Ok(LockList { locks: Rc::clone(&locks), next: 0, rest: Vec::new() });
            let holders = LockHolders::read_from(open);
            let missed: Vec<u64> = (1..=others).filter(|it| !holders.0.contains_key(it)).collect();
            assert!(missed.is_empty(), "of {others}: {missed:?}");
        }
    }
}
