//! The machine's own storage.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::BoxFuture;

use super::disk::{Disk, DiskFile, OpenError};

/// Number of bytes rewritten at a time.
const PIECE: usize = 1024 * 1024;

/// The machine's own storage. Syncing runs on Tokio's threads for blocking work.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path).map_err(|error| match error.kind() {
            // A file, or a link to nowhere, stands in its way.
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        })?;
        owner_only(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        let mut options = OpenOptions::new();
        options.create_new(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        RealFile::lock(options.open(path)?)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>, OpenError> {
        RealFile::lock(OpenOptions::new().read(true).append(true).open(path)?)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn BufRead>> {
        self.read_from(path, 0)
    }

    fn read_from(&self, path: &Path, from: u64) -> io::Result<Box<dyn BufRead>> {
        // Opening a pipe would wait for a writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(Box::new(BufReader::new(file)))
    }

    fn files(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn rewrite(&self, path: &Path, from: u64) -> io::Result<()> {
        // Not a handle for appending, which would write at the end.
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut piece = vec![0; PIECE];
        let mut at = from;
        loop {
            file.seek(SeekFrom::Start(at))?;
            let bytes = file.read(&mut piece)?;
            if bytes == 0 {
                return Ok(());
            }
            file.seek(SeekFrom::Start(at))?;
            file.write_all(piece.get(..bytes).unwrap_or_default())?;
            at += bytes as u64;
        }
    }

    fn run_long(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async {
            // It fails only if the work panics, or if the program ends.
            let _done = tokio::task::spawn_blocking(work).await;
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_names(&self, folders: Vec<PathBuf>) -> BoxFuture<'static, io::Result<()>> {
        blocking(move || folders.iter().try_for_each(|folder| File::open(folder)?.sync_all()))
    }
}

struct RealFile(Arc<File>);

impl RealFile {
    fn lock(file: File) -> Result<Box<dyn DiskFile>, OpenError> {
        match file.try_lock() {
            Ok(()) => Ok(Box::new(Self(Arc::new(file)))),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(owner(&file))),
            Err(TryLockError::Error(source)) => Err(OpenError::Io(source)),
        }
    }
}

impl Drop for RealFile {
    /// Closing alone frees the lock only when no copy of the handle is left, and a process that is
    /// just being started has one.
    fn drop(&mut self) {
        // If it fails, it is freed with the last copy.
        let _best_effort = self.0.unlock();
    }
}

impl DiskFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.0).write_all(bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_now(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let file = Arc::clone(&self.0);
        blocking(move || file.sync_data())
    }
}

fn blocking(
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(async {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    })
}

/// Names the holder of the lock, as far as the system says.
fn owner(file: &File) -> String {
    let unknown = "another process".to_owned();
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(meta) = file.metadata() else { return unknown };
        let (major, minor) = device(meta.dev());
        // An inode's number alone may be that of a file on another disk.
        let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
        let Ok(locks) = File::open("/proc/locks") else { return unknown };
        // In whole pages: between two reads the kernel's list may change.
        let lines = BufReader::new(locks).lines().map_while(Result::ok);
        let holder = lines.filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let at = fields.iter().position(|field| *field == "WRITE")?;
            let held = *fields.get(at + 2)?;
            (held == place).then(|| fields.get(at + 1).map(|pid| (*pid).to_owned())).flatten()
        });
        holder.into_iter().next().map_or(unknown, |pid| format!("process {pid}"))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _unused = file;
        unknown
    }
}

/// The two numbers of a device, as Linux packs them into one.
#[cfg(target_os = "linux")]
const fn device(packed: u64) -> (u64, u64) {
    let major = ((packed >> 8) & 0xfff) | ((packed >> 32) & !0xfff);
    let minor = (packed & 0xff) | ((packed >> 12) & !0xff);
    (major, minor & 0xffff_ffff)
}

fn owner_only(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    {
        let _unused = path;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Syncing the other end of a pipe, or a folder that is on no disk, fails, which shows that the
    /// system is asked at all.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_is_asked_to_sync_files_and_names() {
        let (_reader, writer) = io::pipe().unwrap();
        let file = RealFile::lock(File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        let refused = |result: io::Result<()>| result.unwrap_err().kind();
        assert_eq!(refused(file.sync_now()), io::ErrorKind::InvalidInput);
        assert_eq!(refused(file.sync().await), io::ErrorKind::InvalidInput);
        let folder = tempfile::tempdir().unwrap();
        RealDisk.sync_names(vec![folder.path().to_owned()]).await.unwrap();
        let names = vec![folder.path().to_owned(), PathBuf::from("/proc/self")];
        assert_eq!(refused(RealDisk.sync_names(names).await), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn what_is_rewritten_is_written_and_stays_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let text = vec![b'x'; PIECE + 7];
        fs::write(&path, &text).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        RealDisk.rewrite(&path, 5).unwrap();
        assert!(fs::metadata(&path).unwrap().modified().unwrap() > long_ago);
        assert!(fs::read(&path).unwrap() == text);
    }

    #[test]
    fn a_file_let_go_is_free_though_a_process_being_started_has_its_handle_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let file = File::create(&path).unwrap();
        let copy = file.try_clone().unwrap();
        let held = RealFile::lock(file).unwrap();
        assert!(matches!(RealDisk.open(&path), Err(OpenError::InUse(_))));
        drop(held);
        assert!(RealDisk.open(&path).is_ok());
        drop(copy);
    }
}
