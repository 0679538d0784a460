//! Reads a session file, whatever state it is in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::{Event, Record};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{FORMAT, Header};

/// The longest line that is read, in bytes.
const LONGEST_LINE: u64 = 256 * 1024 * 1024;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot open session file `{}`", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder for session files cannot be made or used.
    #[error("cannot use folder `{}` for sessions (DEPUTIZE_HOME chooses it)", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its first line is not a header.
    #[error("`{}` is not a session file: its first line is no header", path.display())]
    Header {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It was written by a newer program.
    #[error(
        "session file `{}` has format {found}, this program reads up to {FORMAT}: use a newer deputize",
        path.display()
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Another process writes to it.
    #[error("session file `{}` is in use by {owner}", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
        /// Who: `process 123`, or `another process`.
        owner: String,
    },
    /// A record in its middle is broken, so nothing may be appended.
    #[error(
        "line {} of session file `{}` is damaged ({}): it can be shown and exported, not resumed",
        damage.line, path.display(), damage.what
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where and how.
        damage: Damage,
    },
}

/// A broken record with good ones behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

/// The end of a session file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Its last record is whole.
    Whole,
    /// After its last good record come so many bytes that are none.
    Torn {
        /// How many.
        bytes: u64,
    },
}

/// A session as stored.
#[derive(Debug)]
pub struct StoredSession {
    /// Its first line.
    pub header: Header,
    /// Its records, up to the first that is not good.
    pub records: Vec<Record>,
    /// How it ends.
    pub tail: Tail,
    /// A broken record before its end.
    pub damage: Option<Damage>,
    /// Bytes up to the end of the last good record.
    pub(crate) good_bytes: u64,
}

impl StoredSession {
    /// The texts of its agents, by hash.
    #[must_use]
    pub fn texts(&self) -> BTreeMap<String, Arc<str>> {
        let starts = self.records.iter().filter_map(|record| match &record.event {
            Event::AgentStart(start) => Some(&start.texts),
            _ => None,
        });
        starts.flatten().map(|(hash, text)| (hash.clone(), Arc::clone(text))).collect()
    }
}

#[derive(Deserialize)]
struct Line<'l> {
    seq: u64,
    len: usize,
    crc: &'l str,
    #[serde(borrow)]
    record: &'l RawValue,
}

/// One line's record, if the line is good.
fn parse(line: &[u8], seq: u64) -> Result<Record, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let bytes = line.record.get().as_bytes();
    if line.len != bytes.len() {
        return Err(format!("it has {} bytes and says {}", bytes.len(), line.len));
    }
    let crc = format!("{:08x}", crc32fast::hash(bytes));
    if line.crc != crc {
        return Err(format!("its checksum is {crc} and it says {}", line.crc));
    }
    if line.seq != seq {
        return Err(format!("its number is {} and should be {seq}", line.seq));
    }
    serde_json::from_str(line.record.get()).map_err(|error| error.to_string())
}

/// Reads a session file.
pub(super) fn read(path: &Path) -> Result<StoredSession, ReadError> {
    let open = |source| ReadError::Open { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(open)?);
    let mut line = Vec::new();
    let read_line = |line: &mut Vec<u8>, reader: &mut BufReader<File>| {
        line.clear();
        reader.by_ref().take(LONGEST_LINE).read_until(b'\n', line).map_err(open)
    };
    let mut good_bytes = read_line(&mut line, &mut reader)? as u64;
    let header = parse_header(path, &line)?;
    let mut records = Vec::new();
    let mut bad: Option<Damage> = None;
    let (mut number, mut rest) = (1, 0);
    loop {
        let bytes = read_line(&mut line, &mut reader)? as u64;
        number += 1;
        if bytes == 0 {
            break;
        }
        let whole = line.last() == Some(&b'\n');
        let parsed = if whole {
            parse(&line, records.len() as u64)
        } else {
            Err("it has no end".to_owned())
        };
        match (parsed, &bad) {
            (Ok(record), None) => {
                good_bytes += bytes;
                records.push(record);
            }
            (Err(what), None) => {
                bad = Some(Damage { line: number, what });
                rest = bytes;
            }
            (_, Some(_)) => {
                rest += bytes;
                if looks_whole(&line) {
                    let damage = bad.take();
                    return Ok(StoredSession {
                        header,
                        records,
                        tail: Tail::Whole,
                        damage,
                        good_bytes,
                    });
                }
            }
        }
    }
    let tail = if bad.is_some() { Tail::Torn { bytes: rest } } else { Tail::Whole };
    Ok(StoredSession { header, records, tail, damage: None, good_bytes })
}

/// Whether a line behind a broken one is a record: then the broken one is damage in the
/// middle, not a torn tail.
fn looks_whole(line: &[u8]) -> bool {
    serde_json::from_slice::<Line<'_>>(line).is_ok_and(|line| {
        let bytes = line.record.get().as_bytes();
        format!("{:08x}", crc32fast::hash(bytes)) == line.crc
    })
}

fn parse_header(path: &Path, line: &[u8]) -> Result<Header, ReadError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let bad = |source| ReadError::Header { path: path.to_owned(), source };
    let format: Format = serde_json::from_slice(line).map_err(bad)?;
    if format.format > FORMAT {
        return Err(ReadError::Newer { path: path.to_owned(), found: format.format });
    }
    serde_json::from_slice(line).map_err(bad)
}
