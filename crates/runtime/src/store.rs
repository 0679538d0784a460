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
mod header;
mod opening;
mod read;
mod real;
mod record_reader;
mod summary;

pub use dir::SessionDir;
pub use disk::{Disk, DiskFile, OpenError, SLOW_SYNC};
pub use file::SessionFile;
pub use header::Header;
pub use opening::{OPENINGS_LIMIT, OpeningCount};
pub use read::{FileDamage, FileTail, ReadError, SpokenText, StoredSession};
pub use real::RealDisk;
pub use record_reader::{PositionError, RecordPosition};
pub use summary::SessionSummary;

pub(crate) use header::FORMAT;
use header::checksum;
pub(crate) use read::{DAMAGE_CHARS, no_json, out_of_row, read};
