//! Reads a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::clock::FixedClock;
use deputize_core::event::{AgentStart, RequestPurpose};
use deputize_core::{AgentId, Event, Record, SessionId};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::order::RecordOrder;
use super::{FORMAT, RecordingError, RecordingHeader, RecordingLine, SentRequest};
use crate::store::{no_json, out_of_row};

/// Limit on a line, in bytes.
const LONGEST_LINE: u64 = 256 * 1024 * 1024;
/// Limit on the header, in bytes; it has the instructions of a project.
const LONGEST_HEADER: u64 = 16 * 1024 * 1024;

/// A recording, read whole and checked. A last line that is incomplete is left out: a replay
/// says that the recording ends there.
#[derive(Debug)]
pub struct Recording {
    header: RecordingHeader,
    /// The records from before the session was taken up again.
    pub(crate) before: Vec<Record>,
    /// The records, in order.
    pub(crate) records: Vec<Arc<Record>>,
    /// Sent requests, by the number of the record `model.request`.
    pub(crate) sent: BTreeMap<u64, SentRequest>,
    /// System texts and tools, by hash.
    pub(crate) texts: BTreeMap<String, Arc<str>>,
    /// Bytes of a last, incomplete line.
    pub(crate) torn: u64,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// When it cannot be read, is no recording, or is damaged before its end.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let open = |source| RecordingError::Open { path: path.to_owned(), source };
        // Opening a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(open)?.is_file() {
            return Err(open(io::Error::other("it is not a regular file")));
        }
        let mut reader = BufReader::new(File::open(path).map_err(open)?);
        let mut line = Vec::new();
        if !first_line(&mut reader, &mut line).map_err(open)? {
            return Err(RecordingError::Foreign(path.to_owned()));
        }
        let mut next = |line: &mut Vec<u8>| {
            line.clear();
            reader.by_ref().take(LONGEST_LINE).read_until(b'\n', line).map_err(open)
        };
        let mut scan = RecordingScan::new(path, parse_header(path, &line)?);
        while next(&mut line)? > 0 {
            scan.number += 1;
            if line.last() != Some(&b'\n') {
                scan.recording.torn = line.len() as u64;
                break;
            }
            scan.read_line(&line)?;
        }
        Ok(scan.recording)
    }

    /// Returns the session's id.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.header.session
    }

    /// Returns the program that made it.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.header.program
    }

    /// Returns when it was begun: a clock that stands there.
    #[must_use]
    pub const fn clock(&self) -> FixedClock {
        FixedClock(self.header.created)
    }

    /// Returns the program's own data, see
    /// [`SessionRecorder::with_setup`](super::SessionRecorder::with_setup).
    #[must_use]
    pub const fn setup(&self) -> &Value {
        &self.header.setup
    }

    /// Returns whether it is of a session that was stored and taken up again.
    #[must_use]
    pub const fn taken_up(&self) -> bool {
        self.header.taken_up
    }

    /// Returns the records of the session from before it was taken up again.
    #[must_use]
    pub fn before(&self) -> &[Record] {
        &self.before
    }

    /// Returns the records, in order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|record| &**record)
    }

    /// Returns the person's message: the task, or the message to a resumed session.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        let root = AgentId::root(self.session());
        self.records().find_map(|record| match &record.event {
            Event::Message(message) if record.agent == root && message.from.is_none() => {
                Some(message.text.as_str())
            }
            _ => None,
        })
    }

    /// Returns the top agent as it was made, with its texts. `None` if it never was.
    #[must_use]
    pub fn top_agent(&self) -> Option<AgentSpec> {
        let root = AgentId::root(self.session());
        let start = self.starts().find(|start| start.spec.id == root)?;
        let system = start.system.iter().filter_map(|hash| self.texts.get(hash)).cloned();
        Some(AgentSpec { system: system.collect(), ..start.spec.clone() })
    }

    /// The model that the top agent went on with, where the session was taken up again.
    pub(crate) fn model(&self) -> Option<&str> {
        self.records().find_map(|record| match &record.event {
            Event::SessionStart(start) if !self.before.is_empty() => Some(start.model.as_str()),
            _ => None,
        })
    }

    /// The model that an agent asks first.
    pub(crate) fn asks(&self, agent: &AgentId) -> Option<&str> {
        self.records().find_map(|record| match &record.event {
            Event::ModelRequest { model, purpose: RequestPurpose::Turn, .. }
                if record.agent == *agent =>
            {
                Some(model.as_str())
            }
            _ => None,
        })
    }

    pub(crate) const fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// How agents were made, also before the session was taken up again.
    pub(crate) fn starts(&self) -> impl Iterator<Item = &AgentStart> {
        self.before.iter().chain(self.records()).filter_map(|record| match &record.event {
            Event::AgentStart(start) => Some(&**start),
            _ => None,
        })
    }
}

/// Reads the first line, if it may be a header: a large file of another kind is not searched for
/// the end of a line.
fn first_line(reader: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    if reader.fill_buf()?.first() != Some(&b'{') {
        return Ok(false);
    }
    reader.take(LONGEST_HEADER).read_until(b'\n', line).map(|_| true)
}

fn parse_header(path: &Path, line: &[u8]) -> Result<RecordingHeader, RecordingError> {
    #[derive(Deserialize)]
    struct Format {
        recording: u32,
    }
    let foreign = |_| RecordingError::Foreign(path.to_owned());
    let format: Format = serde_json::from_slice(line).map_err(foreign)?;
    if format.recording > FORMAT {
        return Err(RecordingError::Newer { path: path.to_owned(), found: format.recording });
    }
    serde_json::from_slice(line)
        .map_err(|error| RecordingError::damaged(path, 1, &no_json(line, &error)))
}

/// A recording while it is read.
struct RecordingScan {
    path: PathBuf,
    recording: Recording,
    /// Requests whose records are still to come.
    pending: BTreeMap<AgentId, SentRequest>,
    order: RecordOrder,
    next: u64,
    /// The line, from 1.
    number: u64,
}

impl RecordingScan {
    fn new(path: &Path, header: RecordingHeader) -> Self {
        let recording = Recording {
            header,
            before: Vec::new(),
            records: Vec::new(),
            sent: BTreeMap::new(),
            texts: BTreeMap::new(),
            torn: 0,
        };
        let path = path.to_owned();
        let pending = BTreeMap::new();
        let order = RecordOrder::default();
        Self { path, recording, pending, order, next: 0, number: 1 }
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), RecordingError> {
        let taken = whole(line).and_then(|line| self.sort(line));
        taken.map_err(|what| RecordingError::damaged(&self.path, self.number, &what))
    }

    /// Puts a line where it belongs.
    fn sort(&mut self, line: RecordingLine) -> Result<(), String> {
        match line {
            RecordingLine::Request(mut sent) => {
                self.recording.texts.append(&mut sent.texts);
                self.pending.insert(sent.agent.clone(), sent);
            }
            RecordingLine::Before(record) => {
                self.number_of(&record)?;
                self.order.before(&record);
                self.recording.before.push(record);
            }
            RecordingLine::Record(record) => {
                self.number_of(&record)?;
                self.order.record(&record)?;
                if let Event::ModelRequest { purpose: RequestPurpose::Turn, .. } = record.event {
                    let sent = self.pending.remove(&record.agent);
                    let sent = sent.ok_or("what the request sent does not stand before it")?;
                    self.recording.sent.insert(record.seq, sent);
                }
                self.recording.records.push(Arc::new(record));
            }
        }
        Ok(())
    }

    fn number_of(&mut self, record: &Record) -> Result<(), String> {
        if record.seq != self.next {
            return Err(out_of_row("record", record.seq, self.next));
        }
        self.next += 1;
        if let Event::AgentStart(start) = &record.event {
            let texts = start.texts.iter().map(|(hash, text)| (hash.clone(), Arc::clone(text)));
            self.recording.texts.extend(texts);
        }
        Ok(())
    }
}

/// A line, if it is what was written.
fn whole(line: &[u8]) -> Result<RecordingLine, String> {
    #[derive(Deserialize)]
    struct LineFrame<'l> {
        len: usize,
        crc: &'l str,
        #[serde(borrow)]
        line: &'l RawValue,
    }
    let framed: LineFrame<'_> =
        serde_json::from_slice(line).map_err(|error| no_json(line, &error))?;
    let bytes = framed.line.get().as_bytes();
    if framed.len != bytes.len() {
        return Err(format!("it has {} bytes and says {}", bytes.len(), framed.len));
    }
    let crc = format!("{:08x}", crc32fast::hash(bytes));
    if framed.crc != crc {
        return Err(format!("its checksum is {crc} and it says {}", framed.crc));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| format!("this program does not know it, a newer one may: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_file_of_another_kind_is_refused_at_its_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zeros");
        for head in ["", "{"] {
            // Sparse: nothing could read it whole.
            std::fs::write(&path, head).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
            let mut reader = BufReader::new(File::open(&path).unwrap());
            let error = Recording::read(&path).unwrap_err();
            assert!(matches!(error, RecordingError::Foreign(_)), "{head}: {error:?}");
            let mut line = Vec::new();
            let header = first_line(&mut reader, &mut line).unwrap();
            assert_eq!(
                (header, line.len() as u64),
                if head.is_empty() { (false, 0) } else { (true, LONGEST_HEADER) }
            );
        }
    }

    #[test]
    fn what_is_damaged_is_reported_in_one_line_for_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let header = json!({
            "recording": 1, "program": "p", "session": "s", "created": 0,
            "secret": "0".repeat(32), "taken_up": false,
        });
        let inside = format!("{{\"rec\u{7f}\u{202e}{}\":{{}}}}", "d".repeat(2000));
        let len = inside.len();
        let crc = crc32fast::hash(inside.as_bytes());
        let line = format!("{{\"len\":{len},\"crc\":\"{crc:08x}\",\"line\":{inside}}}");
        std::fs::write(&path, format!("{header}\n{line}\n")).unwrap();
        let actual = Recording::read(&path).unwrap_err().to_string();
        assert!(actual.contains("line 2 of recording"), "{actual}");
        assert!(!actual.contains(['\u{7f}', '\u{202e}']), "{actual:?}");
        assert!(actual.len() < 800, "{} bytes", actual.len());
    }

    #[test]
    fn what_was_changed_or_is_missing_is_reported_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let describe = |secret: &str, rest: &str| {
            let header = json!({
                "recording": 1, "program": "p", "session": "s", "created": 0,
                "secret": secret, "taken_up": false,
            });
            std::fs::write(&path, format!("{header}\n{rest}")).unwrap();
            let read = Recording::read(&path).map(|_| ()).map_err(|error| error.to_string());
            read.map_err(|error| error.replace(&path.display().to_string(), "R"))
        };
        let whole = "0".repeat(32);
        assert_eq!(describe(&whole, ""), Ok(()));
        for changed in ["zz", "", &"0".repeat(31), &"z".repeat(32)] {
            let error = describe(changed, "").unwrap_err();
            assert!(error.starts_with("line 1 of recording `R` is damaged: its secret is not 32"));
            assert!(!error.contains(" at line"), "{error}");
        }
        let blank = "line 2 of recording `R` is damaged: it is empty";
        assert_eq!(describe(&whole, "\n"), Err(blank.to_owned()));
        let missing = "a line is missing before it: its record is 4 and should be 3";
        assert_eq!(out_of_row("record", 4, 3), missing);
        assert!(out_of_row("record", 2, 3).starts_with("it stood there before"));
    }

    #[test]
    fn dollars_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let dollars = random.f64() / 1000.0;
            let text = serde_json::to_string(&dollars).unwrap();
            let read: f64 = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_bits(), dollars.to_bits(), "{text}");
        }
    }
}
