//! Reads a session file, whatever state it is in.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use deputize_core::agent::AgentSpec;
use deputize_core::compaction::Compaction;
use deputize_core::event::SessionStart;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Event, Message, Record, SessionId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::disk::{Disk, OpenError};
use super::{FORMAT, Header, checksum};
use crate::agent_state::AgentState;
use crate::agent_states::AgentStates;
use crate::stored_spec::stored_spec;

/// Limit on a line, in bytes.
pub(super) const LONGEST_LINE: u64 = 256 * 1024 * 1024;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot open session file `{}`", path.display())]
    Open {
        /// The session file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// The folder for session files cannot be made or used.
    #[error("cannot use folder `{}` for sessions", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// Its first line is not a header.
    #[error("`{}` is not a session file: its first line is not a header", path.display())]
    Header {
        /// The session file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: serde_json::Error,
    },
    /// It was written by a newer program.
    #[error(
        "session file `{}` has format {found}, this program reads up to {FORMAT}: use a newer version",
        path.display()
    )]
    Newer {
        /// The session file.
        path: PathBuf,
        /// Format version of the file.
        found: u32,
    },
    /// Another process writes to it.
    #[error("session file `{}` is in use by {owner}", path.display())]
    InUse {
        /// The session file.
        path: PathBuf,
        /// The process: `process 123`, or `another process`.
        owner: String,
    },
    /// Each of its last openings ended the program.
    #[error(
        "session `{session}` was taken up {openings} times in a row, and each time the program \
         was gone before a model was asked: it can be shown and exported, not resumed; \
         remove `{}` to try it again",
        path.display()
    )]
    Unlucky {
        /// ID of the session.
        session: SessionId,
        /// Number of openings.
        openings: u64,
        /// The file that counts them.
        path: PathBuf,
    },
    /// A record in its middle is broken, so nothing may be appended.
    #[error(
        "line {} of session file `{}` is damaged ({}): it can be shown and exported, not resumed",
        damage.line, path.display(), damage.what
    )]
    Damaged {
        /// The session file.
        path: PathBuf,
        /// Place and kind of the damage.
        damage: FileDamage,
    },
}

impl ReadError {
    /// Returns why the file of a session cannot be opened for appending.
    pub(super) fn of_opening(error: OpenError, path: &Path) -> Self {
        let path = path.to_owned();
        match error {
            OpenError::InUse(owner) => Self::InUse { path, owner },
            OpenError::Io(source) => Self::Open { path, source },
        }
    }
}

/// A broken record with good ones behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDamage {
    /// The line, from 1.
    pub line: u64,
    /// Description of the fault.
    pub what: String,
}

/// Characters of what is wrong with a line of a file.
pub(crate) const DAMAGE_CHARS: usize = 500;

impl FileDamage {
    /// Returns the error of a line. `what` may quote the file, so it is sanitized.
    fn at(line: u64, what: &str) -> Self {
        Self { line, what: for_terminal_line(what, DAMAGE_CHARS) }
    }
}

/// The end of a session file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTail {
    /// Its last record is whole.
    Whole,
    /// After its last good record come so many bytes that are none.
    Torn {
        /// Number of these bytes.
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
    pub tail: FileTail,
    /// A broken record before its end.
    pub damage: Option<FileDamage>,
    /// Bytes up to the end of the last good record.
    pub(crate) good_bytes: u64,
    /// Bytes that are known to survive the end of the machine.
    pub(crate) durable_bytes: u64,
    /// The states of its agents, folded from its records at first use.
    states: OnceLock<AgentStates>,
}

/// A text of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum SpokenText {
    /// A message, as the model saw it.
    Message(Arc<Message>),
    /// The received part of a reply that was cut or broke off. No model reads it.
    Cut(String),
    /// Text of an external agent, even if it did not end.
    External(String),
    /// From here on, a summary stood for earlier messages.
    Compaction(Box<Compaction>),
}

/// Returns a range of a conversation with the texts that are no messages. A range without an end has
/// those behind the last message too.
fn spoken(state: &AgentState, range: Range<usize>) -> Vec<SpokenText> {
    let cuts = state.cut_replies().iter().map(|(at, text)| (*at, SpokenText::Cut(text.clone())));
    let external = state.external_texts().iter();
    let external = external.map(|(at, text)| (*at, SpokenText::External(text.clone())));
    let is_inside = |(at, _): &(usize, SpokenText)| range.contains(at);
    let mut texts: Vec<(usize, SpokenText)> = cuts.chain(external).filter(is_inside).collect();
    texts.sort_by_key(|(at, _)| *at);
    let mut texts = texts.into_iter().peekable();
    let mut said = Vec::new();
    let messages = state.run().messages().iter().enumerate();
    for (at, message) in messages.filter(|(at, _)| range.contains(at)) {
        while let Some((_, text)) = texts.next_if(|(before, _)| *before <= at) {
            said.push(text);
        }
        said.push(SpokenText::Message(Arc::clone(message)));
    }
    said.extend(texts.map(|(_, text)| text));
    said
}

impl StoredSession {
    /// Returns the conversation of an agent, as its model saw it after the system text.
    #[must_use]
    pub fn messages(&self, agent: &AgentId) -> Option<Vec<Arc<Message>>> {
        Some(self.states().get(agent)?.messages())
    }

    /// Returns the conversation of an agent after the system text, with what had come of replies
    /// that were cut, where they were. Messages that a compaction replaced stand before it.
    #[must_use]
    pub fn spoken_texts(&self, agent: &AgentId) -> Option<Vec<SpokenText>> {
        let own = || self.records.iter().filter(|record| record.agent == *agent);
        if !own()
            .any(|record| matches!(record.event, Event::Compaction(_) | Event::ResultsCut { .. }))
        {
            let state = self.states().get(agent)?;
            let state = state.read();
            return Some(spoken(&state, 0..usize::MAX));
        }
        let spec = own().find_map(|record| match &record.event {
            Event::AgentStart(start) => Some(&start.spec),
            _ => None,
        });
        let mut state = AgentState::new(spec?);
        let mut said = Vec::new();
        let mut from = 0;
        for record in own() {
            if let Event::Compaction(compaction) = &record.event {
                let end = compaction.part.end.max(from);
                said.extend(spoken(&state, from..end));
                said.push(SpokenText::Compaction(compaction.clone()));
                from = compaction.part.position_after(end);
            }
            if matches!(record.event, Event::ResultsCut { .. }) {
                // The whole results.
                said.extend(spoken(&state, from..usize::MAX));
                from = state.run().messages().len();
            }
            state.apply(&record.event);
        }
        said.extend(spoken(&state, from..usize::MAX));
        Some(said)
    }

    fn states(&self) -> &AgentStates {
        self.states.get_or_init(|| AgentStates::of(&self.records))
    }

    /// Returns the top agent's spec, with its texts.
    #[must_use]
    pub fn root_spec(&self) -> Option<AgentSpec> {
        let texts = self.texts();
        let root = AgentId::root(&self.header.session);
        self.records.iter().find_map(|record| match &record.event {
            Event::AgentStart(start) if record.agent == root => Some(stored_spec(start, &texts).0),
            _ => None,
        })
    }

    /// Returns how it was last taken up.
    #[must_use]
    pub fn last_start(&self) -> Option<&SessionStart> {
        self.records.iter().rev().find_map(|record| match &record.event {
            Event::SessionStart(start) => Some(start),
            _ => None,
        })
    }

    /// Returns the texts of its agents, by hash.
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
struct RecordLine<'l> {
    seq: u64,
    /// Number of records that were durable when this one was written.
    #[serde(default)]
    durable: u64,
    len: usize,
    crc: &'l str,
    #[serde(borrow)]
    record: &'l RawValue,
}

/// The fault of a line.
enum BadRecord {
    /// It is not what was written; at the end of the file a write that was cut short.
    Broken(String),
    /// It is what was written, and this program does not know it.
    Unknown(String),
}

/// One line's record, and how many were durable before it, if the line is good.
fn parse<T>(
    line: &[u8],
    seq: u64,
    record: &mut impl FnMut(&RawValue) -> serde_json::Result<T>,
) -> Result<(T, u64), BadRecord> {
    let line = whole(line, seq).map_err(BadRecord::Broken)?;
    let record = record(line.record).map_err(|error| {
        BadRecord::Unknown(format!("this program does not know it, a newer one may: {error}"))
    })?;
    Ok((record, line.durable))
}

/// Returns the fault of a line that is not JSON, without its number.
pub(crate) fn no_json(line: &[u8], error: &serde_json::Error) -> String {
    if line.trim_ascii().is_empty() {
        return "it is empty".to_owned();
    }
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// Returns the fault of a line that does not follow the one before it.
pub(crate) fn out_of_row(what: &str, found: u64, next: u64) -> String {
    let why = if found > next { "a line is missing before it" } else { "it stood there before" };
    format!("{why}: its {what} is {found} and should be {next}")
}

/// A line, if it is what was written.
fn whole(line: &[u8], seq: u64) -> Result<RecordLine<'_>, String> {
    let line: RecordLine<'_> =
        serde_json::from_slice(line).map_err(|error| no_json(line, &error))?;
    let bytes = line.record.get().as_bytes();
    if line.len != bytes.len() {
        return Err(format!("it has {} bytes and says {}", bytes.len(), line.len));
    }
    let crc = format!("{:08x}", checksum(bytes, line.durable));
    if line.crc != crc {
        return Err(format!("its checksum is {crc} and it says {}", line.crc));
    }
    if line.seq != seq {
        return Err(out_of_row("number", line.seq, seq));
    }
    Ok(line)
}

/// Returns the record of a line with its end, if it is good and has this number.
pub(super) fn record_of_line(line: &[u8], seq: u64) -> Option<&RawValue> {
    let is_ended = line.last() == Some(&b'\n');
    is_ended.then(|| whole(line, seq).ok()).flatten().map(|line| line.record)
}

/// A session file as [`scan`] reads it.
pub(super) struct SessionScan<T> {
    pub(super) header: Header,
    /// Results of its records, up to the first bad one.
    records: Vec<T>,
    tail: FileTail,
    damage: Option<FileDamage>,
    good_bytes: u64,
    durable_bytes: u64,
    /// Bytes that were read.
    pub(super) bytes: u64,
}

/// State of a scan.
struct RecordScan<T> {
    records: Vec<T>,
    good_bytes: u64,
    /// Where each record ends.
    ends: Vec<u64>,
    /// Number of records known to be durable.
    durable: u64,
    bad: Option<BadLine>,
}

/// The first line that is not good.
struct BadLine {
    damage: FileDamage,
    /// Bytes from it on.
    bytes: u64,
    /// Whether zeros are in it, which no record has.
    hole: bool,
}

impl<T> RecordScan<T> {
    /// Takes a line; gives the damage after which no more is read.
    fn read_line(
        &mut self,
        line: &[u8],
        number: u64,
        record: &mut impl FnMut(&RawValue) -> serde_json::Result<T>,
    ) -> Option<FileDamage> {
        let bytes = line.len() as u64;
        if let Some(bad) = &mut self.bad {
            bad.bytes += bytes;
            let whole = durable_before(line)?;
            // A power cut may leave out what was written before, but only what was not durable
            // yet, and it leaves zeros there. Nothing else that is whole is thrown away.
            let left_out = bad.hole && whole <= self.records.len() as u64;
            return (!left_out).then(|| bad.damage.clone());
        }
        let parsed = match line.last() {
            Some(b'\n') => parse(line, self.records.len() as u64, record),
            _ => Err(BadRecord::Broken("it has no end".to_owned())),
        };
        match parsed {
            Ok((record, durable)) => {
                self.good_bytes += bytes;
                self.ends.push(self.good_bytes);
                self.durable = self.durable.max(durable);
                self.records.push(record);
                None
            }
            // Nothing that was acknowledged is thrown away.
            Err(BadRecord::Unknown(what)) => Some(FileDamage::at(number, &what)),
            Err(BadRecord::Broken(what)) => {
                let damage = FileDamage::at(number, &what);
                let hole = line.contains(&0);
                self.bad = Some(BadLine { damage, bytes, hole });
                None
            }
        }
    }
}

/// Reads a session file.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<StoredSession, ReadError> {
    let scanned = scan(disk, path, |record| serde_json::from_str(record.get()))?;
    let SessionScan { header, records, tail, damage, good_bytes, durable_bytes, .. } = scanned;
    let states = OnceLock::new();
    Ok(StoredSession { header, records, tail, damage, good_bytes, durable_bytes, states })
}

/// Reads a session file; `record` makes of each good record what is kept of it.
pub(super) fn scan<T>(
    disk: &dyn Disk,
    path: &Path,
    mut record: impl FnMut(&RawValue) -> serde_json::Result<T>,
) -> Result<SessionScan<T>, ReadError> {
    let open = |source| ReadError::Open { path: path.to_owned(), source };
    let mut reader = disk.read(path).map_err(open)?;
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        reader.by_ref().take(LONGEST_LINE).read_until(b'\n', line).map_err(open)
    };
    let header_bytes = next(&mut line)? as u64;
    let header = parse_header(path, &line)?;
    let good_bytes = header_bytes;
    let mut scan =
        RecordScan { records: Vec::new(), good_bytes, ends: Vec::new(), durable: 0, bad: None };
    let mut damage = None;
    let mut number = 1;
    let mut bytes = header_bytes;
    while damage.is_none() && next(&mut line)? > 0 {
        number += 1;
        bytes += line.len() as u64;
        damage = scan.read_line(&line, number, &mut record);
    }
    let RecordScan { records, good_bytes, ends, durable, bad } = scan;
    let last = usize::try_from(durable).unwrap_or(usize::MAX).checked_sub(1);
    let durable_bytes = last.and_then(|last| ends.get(last)).copied().unwrap_or_default();
    let tail = match bad {
        Some(BadLine { bytes, .. }) if damage.is_none() => FileTail::Torn { bytes },
        _ => FileTail::Whole,
    };
    Ok(SessionScan { header, records, tail, damage, good_bytes, durable_bytes, bytes })
}

/// If a line behind a broken one is a record: how many were durable when it was written.
fn durable_before(line: &[u8]) -> Option<u64> {
    let line: RecordLine<'_> = serde_json::from_slice(line).ok()?;
    let crc = format!("{:08x}", checksum(line.record.get().as_bytes(), line.durable));
    (crc == line.crc).then_some(line.durable)
}

pub(super) fn parse_header(path: &Path, line: &[u8]) -> Result<Header, ReadError> {
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
