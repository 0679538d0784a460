//! The process that writes the output of a durable command to a file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Copies the input of this process to the file at its descriptor 2 and, while somebody reads it,
/// to its output. It ends with its input.
pub(crate) fn write_output(limit: u64) -> io::Result<()> {
    let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let reader = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    copy_output(input, reader, LimitedFile { file, length: 0, limit })
}

fn copy_output(mut input: File, reader: File, mut file: LimitedFile) -> io::Result<()> {
    let mut reader = Some(reader);
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = input.read(&mut buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        // A full disk must not stop the command: its output is read on.
        let _not_kept = file.push(bytes);
        if reader.as_mut().is_some_and(|reader| reader.write_all(bytes).is_err()) {
            reader = None;
        }
    }
}

/// A file that keeps the last part of what is written to it.
struct LimitedFile {
    file: File,
    length: u64,
    limit: u64,
}

impl LimitedFile {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let bytes = bytes.get(bytes.len().saturating_sub(limit)..).unwrap_or_default();
        if self.length + bytes.len() as u64 > self.limit {
            let room = self.limit - bytes.len() as u64;
            self.drop_first(room.min(self.limit / 2))?;
        }
        self.file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Drops the first bytes, so that at most so many are left.
    fn drop_first(&mut self, left: u64) -> io::Result<()> {
        let mut from = self.length.saturating_sub(left);
        let mut to = 0;
        let mut buffer = vec![0; CHUNK];
        while from < self.length {
            let read = self.file.read_at(&mut buffer, from)?;
            if read == 0 {
                break;
            }
            self.file.write_all_at(buffer.get(..read).unwrap_or_default(), to)?;
            (from, to) = (from + read as u64, to + read as u64);
        }
        self.file.set_len(to)?;
        self.length = to;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use super::*;

    #[test]
    fn a_file_keeps_the_last_part_and_never_more_than_its_limit() {
        let mut file = LimitedFile { file: tempfile::tempfile().unwrap(), length: 0, limit: 100 };
        let mut all = Vec::new();
        for number in 0..200_u32 {
            let line = format!("line {number}\n").into_bytes();
            file.push(&line).unwrap();
            all.extend(line);
            let mut kept = vec![0; usize::try_from(file.length).unwrap()];
            file.file.read_exact_at(&mut kept, 0).unwrap();
            assert_eq!(file.file.metadata().unwrap().len(), file.length);
            assert!(file.length <= 100 && all.ends_with(&kept));
        }
        assert!(file.length > 50);
    }

    #[test]
    fn output_is_kept_when_nobody_reads_it() {
        let (ours, theirs) = io::pipe().unwrap();
        drop(ours);
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(b"one\ntwo\n").unwrap();
        input.rewind().unwrap();
        let file = tempfile::tempfile().unwrap();
        let kept = file.try_clone().unwrap();
        let reader = File::from(std::os::fd::OwnedFd::from(theirs));
        copy_output(input, reader, LimitedFile { file, length: 0, limit: 100 }).unwrap();
        assert_eq!(kept.metadata().unwrap().len(), 8);
    }
}
