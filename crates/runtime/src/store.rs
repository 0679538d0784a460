//! The session file: one per root session, JSON lines, appended to and never rewritten.
//!
//! The first line is the [`Header`]. Every other line is
//! `{"seq":N,"len":L,"crc":"xxxxxxxx","record":{…}}`: the record's number, its length in
//! bytes and the CRC-32 of those bytes, so that a torn or flipped record is known.

mod dir;
mod file;
mod read;

pub use dir::SessionDir;
pub use file::SessionFile;
pub use read::{Damage, ReadError, StoredSession, Tail};

use deputize_core::SessionId;
use deputize_core::door::FrameSecret;
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
    /// What frame boundaries are derived from.
    pub secret: FrameSecret,
}
