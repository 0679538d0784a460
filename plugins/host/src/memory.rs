//! The memory limit of a plugin's process.

use std::io;

/// Limits the memory of this process to this many MB more than it has now, for good. Private
/// writable memory counts, whether it is used or not. Memory that is merely reserved does not
/// count, so that threads and allocators have room.
#[cfg(target_os = "linux")]
pub(crate) fn limit_memory(mb: u32) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = data_bytes()?.saturating_add(u64::from(mb) << 20);
    let most = getrlimit(Resource::Data).maximum.map_or(most, |maximum| maximum.min(most));
    Ok(setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// Does nothing: no limit of other systems counts what an allocator takes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_memory(_mb: u32) -> io::Result<()> {
    Ok(())
}

/// Returns the size of the memory that counts now, in bytes.
#[cfg(target_os = "linux")]
fn data_bytes() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kb.map(|kb| kb << 10).ok_or_else(|| io::Error::other("/proc/self/status has no VmData"))
}
