//! The tag that every process of a command carries.
//!
//! A process can leave its parent, its process group, its session and its environment behind; it
//! inherits its resource limits all the same. So the tag is written twice: as a variable of the
//! environment, and into the limit on the processor time of real-time threads, whose marked
//! values (over a century) limit nothing. An unprivileged process can only lower that limit.

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that names the owner of a process. Reserved: it never enters a shell's state.
pub const OWNER_VARIABLE: &str = "DEPUTIZE_OWNER";

const COMMAND_BITS: u32 = 20;
const OWNER_BITS: u32 = 32;
/// The highest bit of a tag that a process without a limit of its own writes: the value stays
/// clear of the kernel's "unlimited".
#[cfg(target_os = "linux")]
const HIGHEST_BIT: u32 = 62;

/// Number of commands of one owner with distinct tags. Later ones reuse the numbers of commands a
/// million earlier.
pub(crate) const COMMANDS: u32 = UNKNOWN_COMMAND;

/// The command of a process of which only the owner is known.
pub(crate) const UNKNOWN_COMMAND: u32 = (1 << COMMAND_BITS) - 1;

/// Which command of which owner a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessTag {
    /// Unique in this process.
    pub(crate) owner: u32,
    /// Below [`COMMANDS`], or [`UNKNOWN_COMMAND`].
    pub(crate) command: u32,
}

/// A number for a new owner, unique in this process.
pub(crate) fn next_owner() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Writes and reads tags for this process, and for no other: a runtime that runs below another
/// one uses a lower bit and another instance name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagCodec {
    pub(crate) instance: String,
    /// Mixed into the owner's number: a limit has no room for the whole instance name.
    pub(crate) salt: u32,
    /// The bit that says "a tag", below 64.
    pub(crate) bit: Option<u32>,
}

impl TagCodec {
    pub(crate) fn of_this_process() -> Self {
        let instance = RandomState::new().hash_one(std::process::id());
        let [a, b, c, d, ..] = instance.to_ne_bytes();
        Self {
            instance: format!("{instance:016x}"),
            salt: u32::from_ne_bytes([a, b, c, d]),
            bit: free_bit(),
        }
    }

    /// The limit that carries `tag`, in microseconds; `None` where limits cannot carry it.
    pub(crate) fn limit(&self, tag: ProcessTag) -> Option<u64> {
        let owner = u64::from(tag.owner ^ self.salt);
        let number = (owner << COMMAND_BITS) | u64::from(tag.command);
        self.bit.map(|bit| (1 << bit) | number)
    }

    /// The tag in a limit, if this process wrote it. One that another runtime wrote on the same
    /// bit gives an owner that, but for one chance in four billion, does not exist.
    pub(crate) fn tag_in_limit(&self, limit: u64) -> Option<ProcessTag> {
        let number = limit ^ (1 << self.bit?);
        if number >> (OWNER_BITS + COMMAND_BITS) != 0 {
            return None;
        }
        let owner = u32::try_from(number >> COMMAND_BITS).ok()? ^ self.salt;
        let command = u32::try_from(number & u64::from(UNKNOWN_COMMAND)).ok()?;
        Some(ProcessTag { owner, command })
    }

    /// The value of [`OWNER_VARIABLE`].
    pub(crate) fn variable(&self, tag: ProcessTag) -> OsString {
        format!("{}.{}.{}", self.instance, tag.owner, tag.command).into()
    }

    /// The tag in an environment block (`NAME=value` entries, each ended by NUL), if this
    /// process wrote it.
    pub(crate) fn tag_in_environ(&self, block: &[u8]) -> Option<ProcessTag> {
        block.split(|byte| *byte == 0).find_map(|entry| {
            let entry = std::str::from_utf8(entry).ok()?;
            let value = entry.strip_prefix(OWNER_VARIABLE)?.strip_prefix('=')?;
            let numbers = value.strip_prefix(self.instance.as_str())?.strip_prefix('.')?;
            let (owner, command) = numbers.split_once('.')?;
            Some(ProcessTag { owner: owner.parse().ok()?, command: command.parse().ok()? })
        })
    }
}

#[cfg(target_os = "linux")]
fn free_bit() -> Option<u32> {
    use rustix::process::{Resource, getrlimit};
    match getrlimit(Resource::Rttime).maximum {
        None => Some(HIGHEST_BIT),
        // A tag may only lower the limit that this process has itself.
        Some(limit) => {
            let bit = limit.checked_ilog2()?.checked_sub(1)?;
            (OWNER_BITS + COMMAND_BITS..=HIGHEST_BIT).contains(&bit).then_some(bit)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn free_bit() -> Option<u32> {
    None
}

/// Tags this process and all that it will start.
#[cfg(target_os = "linux")]
pub(crate) fn set_tag_limit(limit: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let current = getrlimit(Resource::Rttime).current.unwrap_or(limit).min(limit);
    // Without it the process is still known by its environment, its session and its parent.
    let _ = setrlimit(Resource::Rttime, Rlimit { current: Some(current), maximum: Some(limit) });
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_tag_limit(_limit: u64) {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codec(bit: Option<u32>) -> TagCodec {
        TagCodec { instance: "00ff".to_owned(), salt: 0xdead_beef, bit }
    }

    proptest! {
        #[test]
        fn a_mark_survives_both_ways(owner: u32, command in 0..=UNKNOWN_COMMAND, bit in 52_u32..=62) {
            let tag = ProcessTag { owner, command };
            let codec = codec(Some(bit));
            prop_assert_eq!(codec.tag_in_limit(codec.limit(tag).unwrap()), Some(tag));
            let mut block = b"A=1\0DEPUTIZE_OWNER=".to_vec();
            block.extend(codec.variable(tag).into_encoded_bytes());
            block.extend(b"\0Z=\0");
            prop_assert_eq!(codec.tag_in_environ(&block), Some(tag));
        }

        #[test]
        fn the_mark_of_a_runtime_below_is_not_ours(owner: u32, command in 0..COMMANDS) {
            let tag = ProcessTag { owner, command };
            prop_assert_eq!(codec(Some(62)).tag_in_limit(codec(Some(61)).limit(tag).unwrap()), None);
        }

        #[test]
        fn any_bytes_are_read(limit: u64, block: Vec<u8>) {
            let _ = codec(Some(60)).tag_in_limit(limit);
            prop_assert_eq!(codec(None).tag_in_environ(&block), None);
        }
    }

    #[test]
    fn the_variable_of_another_runtime_is_not_ours() {
        for block in [
            "DEPUTIZE_OWNER=00fe.1.2",
            "DEPUTIZE_OWNER=00ff1.2",
            "DEPUTIZE_OWNER=00ff.1",
            "DEPUTIZE_OWNERS=00ff.1.2",
            "X=DEPUTIZE_OWNER=00ff.1.2",
        ] {
            assert_eq!(codec(None).tag_in_environ(block.as_bytes()), None, "{block}");
        }
    }
}
