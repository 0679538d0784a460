//! The session file: one per root session, JSON lines, appended to and never rewritten.
//!
//! The first line is the [`Header`]. Every other line is
//! `{"seq":N,"durable":D,"len":L,"crc":"xxxxxxxx","record":{…}}`: the record's number, the number
//! of records known to be durable when it was written (omitted if none), the record's length in
//! bytes, and the CRC-32 of those bytes and of that number. So torn and flipped records are
//! detected, and records lost in a power cut differ from damage.

mod dir;
mod disk;
mod file;
mod opening;
mod read;
mod real;
mod record_reader;
mod summary;

pub use dir::SessionDir;
pub use disk::{Disk, DiskFile, OpenError, SLOW_SYNC};
pub use file::SessionFile;
pub use opening::{OPENINGS_LIMIT, OpeningCount};
pub use read::{FileDamage, FileTail, ReadError, SpokenText, StoredSession};
pub use real::RealDisk;
pub use record_reader::{PositionError, RecordPosition};
pub use summary::SessionSummary;

pub(crate) use read::{DAMAGE_CHARS, no_json, out_of_row, read};

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
fn checksum(record: &[u8], durable: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(record);
    if durable > 0 {
        crc.update(&durable.to_le_bytes());
    }
    crc.finalize()
}
