//! Reads the records of a session file from a position on, one after the other.

use std::io::{self, BufRead, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::disk::Disk;
use super::read::{LONGEST_LINE, ReadError, parse_header, record_of_line};

/// A position in a session file, behind a record. It knows that record, so that a file which was
/// replaced or cut is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPosition {
    /// Where the line of the record begins, in bytes.
    line: u64,
    /// Number of the record.
    seq: u64,
    /// Checksum of its line, and of nothing before it.
    crc: u32,
}

/// Why records behind a position cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PositionError {
    /// The file cannot be read at all.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something else stands there by now: the file was cut or replaced.
    #[error("the session file has other records than before")]
    Replaced,
}

/// Reads the good records behind a position, or all, and returns the position behind the last one;
/// the same position if there are none. `record` sees each record with its number, as it is stored,
/// and may not know it. What follows a broken record is not read: it may be half written yet.
pub(super) fn read_records(
    disk: &dyn Disk,
    path: &Path,
    after: Option<RecordPosition>,
    record: &mut dyn FnMut(u64, &RawValue),
) -> Result<Option<RecordPosition>, PositionError> {
    let start = after.map_or(0, |position| position.line);
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let mut lines = Lines {
        reader: disk.read_from(path, start).map_err(failed)?,
        line: Vec::new(),
        next: start,
    };
    let mut position = after;
    match after {
        None => {
            lines.advance().map_err(failed)?;
            parse_header(path, &lines.line)?;
        }
        Some(position) => {
            let is_there = lines.advance().map_err(failed)?.is_some_and(|line| {
                record_of_line(&lines.line, position.seq).is_some()
                    && line == position.line
                    && crc32fast::hash(&lines.line) == position.crc
            });
            if !is_there {
                return Err(PositionError::Replaced);
            }
        }
    }
    loop {
        let seq = position.map_or(0, |position| position.seq.saturating_add(1));
        let Some(line) = lines.advance().map_err(failed)? else { return Ok(position) };
        let Some(found) = record_of_line(&lines.line, seq) else { return Ok(position) };
        record(seq, found);
        position = Some(RecordPosition { line, seq, crc: crc32fast::hash(&lines.line) });
    }
}

/// The lines of a file.
struct Lines {
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Where the next one begins.
    next: u64,
}

impl Lines {
    /// Reads a line with its end. Returns where it begins; `None` at the end of the file.
    fn advance(&mut self) -> io::Result<Option<u64>> {
        self.line.clear();
        let bytes = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line)?;
        let begin = self.next;
        self.next += bytes as u64;
        Ok((bytes > 0).then_some(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FORMAT, Header, RealDisk, SessionDir, SessionFile};
    use deputize_core::event::{Journal as _, LogLevel};
    use deputize_core::sanitize::FrameSecret;
    use deputize_core::{AgentId, Event, Record, SessionId};

    struct Fixture {
        _folder: tempfile::TempDir,
        dir: SessionDir,
        id: SessionId,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let dir = SessionDir::new(folder.path());
            let id = SessionId::literal("s");
            let secret = FrameSecret::new(&[7; 16]);
            let header = Header { format: FORMAT, session: id.clone(), created: 0, secret };
            drop(SessionFile::create(&dir, &header).unwrap());
            Self { _folder: folder, dir, id }
        }

        fn append(&self, texts: &[&str]) {
            let (file, stored) = SessionFile::open(&self.dir, &self.id).unwrap();
            for (seq, text) in (stored.records.len() as u64..).zip(texts) {
                let message = (*text).to_owned();
                let event = Event::Log { level: LogLevel::Info, message, cause: None };
                let agent = AgentId::root(&self.id);
                let record = Record { seq, at: 0, agent, parent: None, depth: 0, event };
                file.append_record(&record).unwrap();
            }
        }

        fn read(
            &self,
            after: Option<RecordPosition>,
        ) -> Result<(Vec<String>, Option<RecordPosition>), PositionError> {
            let mut texts = Vec::new();
            let mut keep = |_, record: &RawValue| {
                let record: Record = serde_json::from_str(record.get()).unwrap();
                let Event::Log { message, .. } = record.event else { panic!("{record:?}") };
                texts.push(message);
            };
            let position = self.dir.read_records(&self.id, after, &mut keep)?;
            Ok((texts, position))
        }
    }

    #[test]
    fn each_record_is_read_once_and_what_is_half_written_waits() {
        let fixture = Fixture::new();
        assert_eq!(fixture.read(None).unwrap(), (Vec::new(), None));
        fixture.append(&["a", "b"]);
        let (texts, position) = fixture.read(None).unwrap();
        assert_eq!(texts, ["a", "b"]);
        assert_eq!(fixture.read(position).unwrap(), (Vec::new(), position));
        let path = fixture.dir.file(&fixture.id);
        let whole = std::fs::read(&path).unwrap();
        fixture.append(&["c"]);
        let longer = std::fs::read(&path).unwrap();
        for cut in whole.len()..longer.len() {
            std::fs::write(&path, &longer[..cut]).unwrap();
            assert_eq!(fixture.read(position).unwrap(), (Vec::new(), position), "{cut}");
        }
        std::fs::write(&path, &longer).unwrap();
        assert_eq!(fixture.read(position).unwrap().0, ["c"]);
    }

    #[test]
    fn a_file_that_was_cut_or_replaced_is_noticed() {
        let fixture = Fixture::new();
        fixture.append(&["a", "b"]);
        let (_, position) = fixture.read(None).unwrap();
        let path = fixture.dir.file(&fixture.id);
        let whole = std::fs::read(&path).unwrap();
        let head = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in head..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let read = fixture.read(position);
            assert!(matches!(read, Err(PositionError::Replaced)), "{cut}: {read:?}");
        }
        std::fs::write(&path, &whole[..head]).unwrap();
        fixture.append(&["a", "c", "d"]);
        assert!(matches!(fixture.read(position), Err(PositionError::Replaced)));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(fixture.read(None), Err(PositionError::Read(ReadError::Header { .. }))));
    }

    #[test]
    fn a_storage_that_cannot_seek_is_read_from_the_same_byte() {
        /// Has only the methods that every storage has.
        struct Plain;
        impl Disk for Plain {
            fn make_folder(&self, path: &Path) -> io::Result<()> {
                RealDisk.make_folder(path)
            }
            fn create(
                &self,
                path: &Path,
            ) -> Result<Box<dyn super::super::DiskFile>, super::super::OpenError> {
                RealDisk.create(path)
            }
            fn open(
                &self,
                path: &Path,
            ) -> Result<Box<dyn super::super::DiskFile>, super::super::OpenError> {
                RealDisk.open(path)
            }
            fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
                RealDisk.read(path)
            }
            fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
                RealDisk.files(folder)
            }
            fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
                RealDisk.rewrite(path, from)
            }
            fn remove_file(&self, path: &Path) -> io::Result<()> {
                RealDisk.remove_file(path)
            }
            fn remove_folder(&self, path: &Path) -> io::Result<()> {
                RealDisk.remove_folder(path)
            }
            fn sync_names(
                &self,
                folders: Vec<std::path::PathBuf>,
            ) -> deputize_core::BoxFuture<'static, io::Result<()>> {
                RealDisk.sync_names(folders)
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "0123456789").unwrap();
        for disk in [&RealDisk as &dyn Disk, &Plain] {
            for (from, rest) in [(0, "0123456789"), (4, "456789"), (10, ""), (11, "")] {
                let mut text = String::new();
                disk.read_from(&path, from).unwrap().read_to_string(&mut text).unwrap();
                assert_eq!(text, rest, "{from}");
            }
        }
    }
}
