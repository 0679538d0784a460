//! Which sessions run: those whose file is locked.

use std::io;

use deputize_core::SessionId;
use deputize_runtime::SessionDir;

/// A session that a process works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) session: SessionId,
    /// The process, where the system tells.
    pub(crate) pid: Option<u32>,
}

/// The sessions here that a process works on, by name. No lock is taken: a session that is about
/// to begin must not find it taken.
pub(crate) fn running(sessions: &SessionDir) -> io::Result<Vec<Holder>> {
    let held = Held::look();
    let mut running = Vec::new();
    for session in sessions.list()? {
        if let Some(pid) = held.by(sessions, &session) {
            running.push(Holder { session, pid });
        }
    }
    Ok(running)
}

#[cfg(target_os = "linux")]
struct Held(std::collections::BTreeMap<u64, u32>);

#[cfg(target_os = "linux")]
impl Held {
    fn look() -> Self {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        // `1: FLOCK  ADVISORY  WRITE 4711 fd:00:123456 0 EOF`
        let one = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let place = fields.iter().position(|field| *field == "WRITE")?;
            let pid = fields.get(place + 1)?.parse().ok()?;
            let inode = fields.get(place + 2)?.rsplit(':').next()?.parse().ok()?;
            Some((inode, pid))
        };
        Self(locks.lines().filter_map(one).collect())
    }

    fn by(&self, sessions: &SessionDir, session: &SessionId) -> Option<Option<u32>> {
        use std::os::unix::fs::MetadataExt as _;
        let inode = std::fs::metadata(sessions.file(session)).ok()?.ino();
        self.0.get(&inode).copied().map(Some)
    }
}

#[cfg(not(target_os = "linux"))]
struct Held;

#[cfg(not(target_os = "linux"))]
impl Held {
    fn look() -> Self {
        Self
    }

    fn by(&self, sessions: &SessionDir, session: &SessionId) -> Option<Option<u32>> {
        let asked = super::client::ask(sessions, session, &super::Request::Status);
        let pid = asked.ok()?.get("pid").and_then(serde_json::Value::as_u64);
        Some(pid.and_then(|pid| u32::try_from(pid).ok()))
    }
}
