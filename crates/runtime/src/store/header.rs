//! The first line of a session file, and the checksum of the others.

use deputize_core::SessionId;
use deputize_core::sanitize::FrameSecret;
use serde::{Deserialize, Serialize};

/// The format that this program writes, and the newest it reads.
pub(crate) const FORMAT: u32 = 1;

/// The first line of a session file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub format: u32,
    /// The session's id.
    pub session: SessionId,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub created: u64,
    /// Random bytes from which frame boundaries are derived.
    pub secret: FrameSecret,
}

/// The checksum of a record: over its bytes, and over the number of durable ones where it is
/// said.
pub(super) fn checksum(record: &[u8], durable: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(record);
    if durable > 0 {
        crc.update(&durable.to_le_bytes());
    }
    crc.finalize()
}
