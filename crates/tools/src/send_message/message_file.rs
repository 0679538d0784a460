//! Files that messages are appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use deputize_core::sanitize::for_terminal;
use deputize_file_lock::lock;
use jiff::Timestamp;
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;

/// Appends a message with its time: a line, and further lines of it indented. The whole message is
/// written or nothing of it. Processes that write at the same time wait for each other, up to a limit.
pub(super) fn append(path: &Path, text: &str, now_ms: u64, limit: Duration) -> io::Result<()> {
    let mut file = lock(open(path)?, limit, || false)?;
    let end = file.seek(SeekFrom::End(0))?;
    let entry = entry(text, now_ms);
    // The line of a program that was killed, or of another program, may have no end.
    let entry = if ends_its_line(&mut file, end)? { entry } else { format!("\n{entry}") };
    let written = file.write_all(entry.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        // No part of it may look like a message.
        let _best_effort = file.set_len(end);
    }
    written
}

/// Returns whether a file takes messages, without changing or creating it.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) => open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
        }
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A named pipe without a reader is an error, and is not waited for. A link may have been put
    // there by somebody else.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let options = options.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => io::Error::other("it is a link"),
        _ => error,
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

fn ends_its_line(file: &mut File, end: u64) -> io::Result<bool> {
    let Some(last) = end.checked_sub(1) else { return Ok(true) };
    file.seek(SeekFrom::Start(last))?;
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

fn entry(text: &str, now_ms: u64) -> String {
    let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let now = now.unwrap_or_default();
    let text = for_terminal(text.trim_end());
    format!("{now:.0} {}\n", text.replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn append(path: &Path, text: &str, now_ms: u64) -> io::Result<()> {
        super::append(path, text, now_ms, Duration::from_secs(20))
    }

    #[test]
    fn each_message_begins_a_line_with_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "One.", 0).unwrap();
        append(&path, "Two,\nthree.\x1b[2J\n\n", 86_400_000).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("1970-01-01T00:00:00Z One.\n1970-01-02T00:00:00Z Two,\n  three."));
        assert!(
            !text.contains('\x1b') && text.ends_with('\n') && !text.ends_with("\n\n"),
            "{text}"
        );
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "torn").unwrap();
        append(&path, "x", 0).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "torn\n1970-01-01T00:00:00Z x\n");
    }

    #[test]
    fn many_writers_lose_and_mix_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text = "line\n".repeat(500);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| append(&path, &text, 0).unwrap()));
            }
        });
        let all = std::fs::read_to_string(&path).unwrap();
        assert_eq!(all, entry(&text, 0).repeat(160));
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        assert!(append(dir.path(), "x", 0).is_err());
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let error = append(&pipe, "x", 0).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
        assert!(append(&dir.path().join("missing/log"), "x", 0).is_err());
        assert!(append(Path::new("/dev/full"), "x", 0).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert_eq!(append(&link, "x", 0).unwrap_err().to_string(), "it is a link");
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        let error = super::append(&path, "x", 0, Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "another process holds its lock");
        assert!(check(&path).is_ok() && check(&dir.path().join("new")).is_ok());
        assert!(check(dir.path()).is_err() && check(&dir.path().join("missing/log")).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
