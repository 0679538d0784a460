//! Where jobs are kept: a file for each job, and one for the history of its runs.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_file_lock::{LockError, lock};
use serde::Serialize;

use crate::job::{Job, JobName};
use crate::run_record::{JobHistory, RunStatus};

/// Jobs at most.
pub const MOST_JOBS: usize = 200;
/// Bytes of a file at most.
const FILE_BYTES: u64 = 256 * 1024;
/// How long another process that changes jobs is waited for.
const LOCK_LIMIT: Duration = Duration::from_secs(20);
/// How long the lock of the program that runs the jobs is waited for: somebody who asks whether it is
/// held holds it for a moment.
const DAEMON_LIMIT: Duration = Duration::from_millis(50);
/// What the names of files end with.
const ENDING: &str = "json";

/// Why jobs cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobStoreError {
    /// There is no such job.
    #[error("there is no job `{name}`{}", known_names(known))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// The names of those that there are.
        known: Vec<String>,
    },
    /// A job of this name exists.
    #[error("job `{0}` already exists: update it, or choose another name")]
    Taken(JobName),
    /// There are as many jobs as there may be.
    #[error("there are {MOST_JOBS} jobs, which is the most: remove some first")]
    Full,
    /// A job was changed meanwhile.
    #[error("`{0}` was changed meanwhile: edit it again")]
    Changed(JobName),
    /// A file is not a valid job.
    #[error("`{}` is not a valid job: {why}", path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// The mistake, as text.
        why: String,
    },
    /// What is on record of a job's runs cannot be understood.
    #[error(
        "`{}` is not a valid history of runs, so its job is held: delete the file to let the job run \
         again",
        .0.display()
    )]
    History(PathBuf),
    /// Another program runs the jobs.
    #[error("another program runs the jobs already{}", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Busy(Option<u32>),
    /// A file cannot be read or written.
    #[error("`{}` cannot be used{}", path.display(), remedy(source))]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; known: {}", known.join(", ")) }
}

/// Returns what to do where that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => " (make room on its disk)",
        _ => "",
    }
}

/// The jobs of a person, in a folder.
///
/// Each change holds a lock and replaces a file whole, so that processes that change jobs at the same
/// time lose nothing, and one that is killed leaves the old job or the new one.
///
/// ```
/// use deputize_cron::JobStore;
///
/// let dir = tempfile::tempdir()?;
/// let store = JobStore::new(dir.path().join("cron"));
/// assert!(store.list()?.jobs.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct JobStore {
    folder: PathBuf,
}

/// The jobs of a store, and the files that are none.
#[derive(Debug, Default)]
pub struct JobListing {
    /// The jobs by name.
    pub jobs: Vec<Job>,
    /// What is wrong with the other files.
    pub faults: Vec<JobStoreError>,
}

/// Lets one program run the jobs of a store. Ends when it is dropped, and with its process.
#[derive(Debug)]
pub struct DaemonLock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl JobStore {
    /// Creates the store of a folder, which may not exist yet.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder for the answers of a job.
    #[must_use]
    pub fn output_folder(&self, name: &JobName) -> PathBuf {
        self.folder.join("output").join(name.as_str())
    }

    /// Returns all jobs. Files that are none are reported and do not stop the others.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<JobListing, JobStoreError> {
        let folder = self.folder.join("jobs");
        let failed = |source| JobStoreError::Io { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(JobListing::default());
            }
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                names.push(path);
            }
        }
        names.sort();
        let mut listing = JobListing::default();
        for path in names {
            match read_job(&path) {
                Ok(Some(job)) => listing.jobs.push(job),
                Ok(None) => {}
                Err(error) => listing.faults.push(error),
            }
        }
        Ok(listing)
    }

    /// Returns a job.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be read.
    pub fn get(&self, name: &JobName) -> Result<Job, JobStoreError> {
        read_job(&self.job_path(name))?.map_or_else(|| Err(self.unknown(name)), Ok)
    }

    /// Returns the history of a job; an empty one if nothing is on record.
    ///
    /// # Errors
    /// If it cannot be read or understood. The job may have run, so it must not run as a new one does.
    pub fn history(&self, name: &JobName) -> Result<JobHistory, JobStoreError> {
        let path = self.history_path(name);
        match read(&path) {
            Ok(None) => Ok(JobHistory::default()),
            Ok(Some(text)) => {
                serde_json::from_slice(&text).map_err(|_| JobStoreError::History(path))
            }
            Err(source) => Err(JobStoreError::Io { path, source }),
        }
    }

    /// Checks that a job of this name can be added.
    ///
    /// # Errors
    /// If there is one of this name, or there are too many.
    pub fn check_new(&self, name: &JobName) -> Result<(), JobStoreError> {
        if self.job_path(name).exists() {
            return Err(JobStoreError::Taken(name.clone()));
        }
        if self.list()?.jobs.len() >= MOST_JOBS {
            return Err(JobStoreError::Full);
        }
        Ok(())
    }

    /// Checks that there is a file of a job of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_there(&self, name: &JobName) -> Result<(), JobStoreError> {
        if self.job_path(name).exists() { Ok(()) } else { Err(self.unknown(name)) }
    }

    /// Returns the history of a job as people read it: a run that no program makes any more was cut
    /// off.
    ///
    /// # Errors
    /// As [`JobStore::history`].
    pub fn present_history(&self, name: &JobName) -> Result<JobHistory, JobStoreError> {
        let mut history = self.history(name)?;
        if let Some(last) = &mut history.last
            && last.status == RunStatus::Running
            && !self.has_daemon()
        {
            last.status = RunStatus::CutOff;
        }
        Ok(history)
    }

    /// Adds a job.
    ///
    /// # Errors
    /// If there is one of this name, there are too many, or it cannot be written.
    pub fn create(&self, job: &Job) -> Result<(), JobStoreError> {
        let _lock = self.lock()?;
        self.check_new(&job.name)?;
        let path = self.job_path(&job.name);
        // What an earlier job of this name did is not its history.
        remove(&self.history_path(&job.name))?;
        write(&path, job)
    }

    /// Changes a job: `change` gets the present one and may refuse. Returns the new one.
    ///
    /// # Errors
    /// If there is none of this name, it is refused, or it cannot be written.
    pub fn update(
        &self,
        name: &JobName,
        change: impl FnOnce(Job) -> Result<Job, JobStoreError>,
    ) -> Result<Job, JobStoreError> {
        let _lock = self.lock()?;
        let job = change(self.get(name)?)?;
        write(&self.job_path(name), &job)?;
        Ok(job)
    }

    /// Returns the text of a job's file, also of one that is no job, for a person who edits it.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be read.
    pub fn text(&self, name: &JobName) -> Result<String, JobStoreError> {
        let path = self.job_path(name);
        let text = read(&path).map_err(|source| JobStoreError::Io { path, source })?;
        let text = text.ok_or_else(|| self.unknown(name))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Replaces a job whose file has had this text.
    ///
    /// # Errors
    /// If the file has another text by now, or cannot be written.
    pub fn replace(&self, before: &str, job: &Job) -> Result<(), JobStoreError> {
        let _lock = self.lock()?;
        if self.text(&job.name)? != before {
            return Err(JobStoreError::Changed(job.name.clone()));
        }
        write(&self.job_path(&job.name), job)
    }

    /// Removes a job and its history. The files with its answers stay. A file that is no job is removed
    /// too. Returns whether there is a present run, which goes on to its end.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be removed.
    pub fn remove(&self, name: &JobName) -> Result<bool, JobStoreError> {
        let _lock = self.lock()?;
        self.check_there(name)?;
        // One whose history cannot be read is held, so it does not run.
        let history = self.present_history(name).unwrap_or_default();
        remove(&self.job_path(name))?;
        remove(&self.history_path(name))?;
        Ok(history.last.is_some_and(|last| last.status == RunStatus::Running))
    }

    /// Changes the history of a job, if the job is still there. Returns whether it is.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn record(
        &self,
        name: &JobName,
        change: impl FnOnce(&mut JobHistory),
    ) -> Result<bool, JobStoreError> {
        let _lock = self.lock()?;
        if !self.job_path(name).exists() {
            return Ok(false);
        }
        let mut history = self.history(name)?;
        change(&mut history);
        write(&self.history_path(name), &history)?;
        Ok(true)
    }

    /// Asks for a run now, which the program that runs the jobs begins soon, or when the present run
    /// has ended. Returns whether there is a present run.
    ///
    /// # Errors
    /// If there is no job of this name, or that cannot be written.
    pub fn request_run(&self, name: &JobName) -> Result<bool, JobStoreError> {
        let mut runs = false;
        let is_there = self.record(name, |history| {
            runs = history.last.as_ref().is_some_and(|last| last.status == RunStatus::Running);
            history.requested = true;
        })?;
        if is_there { Ok(runs && self.has_daemon()) } else { Err(self.unknown(name)) }
    }

    /// Becomes the one program that runs the jobs.
    ///
    /// # Errors
    /// If another one does, or there can be no lock.
    pub fn lock_daemon(&self) -> Result<DaemonLock, JobStoreError> {
        let path = self.folder.join(".daemon");
        let failed = |source| JobStoreError::Io { path: path.clone(), source };
        private_folder(&self.folder).map_err(failed)?;
        let file = open_lock(&path).map_err(failed)?;
        let mut file = match lock(file, DAEMON_LIMIT, || false) {
            Ok(file) => file,
            Err(LockError::Busy) => return Err(JobStoreError::Busy(read_pid(&path))),
            Err(error) => return Err(failed(error.into())),
        };
        file.set_len(0).map_err(failed)?;
        write!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(DaemonLock(file))
    }

    /// Returns whether a program runs the jobs.
    #[must_use]
    pub fn has_daemon(&self) -> bool {
        matches!(
            File::open(self.folder.join(".daemon")).map(|file| file.try_lock_shared()),
            Ok(Err(TryLockError::WouldBlock))
        )
    }

    fn unknown(&self, name: &JobName) -> JobStoreError {
        let known = self.list().map(|listing| listing.jobs).unwrap_or_default();
        let known = known.into_iter().map(|job| job.name.to_string()).collect();
        JobStoreError::Unknown { name: name.to_string(), known }
    }

    fn job_path(&self, name: &JobName) -> PathBuf {
        self.folder.join("jobs").join(format!("{name}.{ENDING}"))
    }

    fn history_path(&self, name: &JobName) -> PathBuf {
        self.folder.join("history").join(format!("{name}.{ENDING}"))
    }

    /// Waits for the lock of the folder, which is held until the file is dropped.
    fn lock(&self) -> Result<File, JobStoreError> {
        let path = self.folder.join(".lock");
        let wait = || {
            private_folder(&self.folder)?;
            Ok(lock(open_lock(&path)?, LOCK_LIMIT, || false)?)
        };
        wait().map_err(|source| JobStoreError::Io { path: path.clone(), source })
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(path)
}

/// Creates a folder that only this user may read.
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn read_pid(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(20).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn read_job(path: &Path) -> Result<Option<Job>, JobStoreError> {
    let malformed = |why| JobStoreError::Malformed { path: path.to_owned(), why };
    let text = read(path);
    let text = text.map_err(|source| JobStoreError::Io { path: path.to_owned(), source })?;
    let Some(text) = text else { return Ok(None) };
    let job = Job::parse(&text).map_err(|error| malformed(error.to_string()))?;
    if path.file_stem().is_none_or(|stem| stem != job.name.as_str()) {
        return Err(malformed(format!("its name is `{}`: rename the file or the job", job.name)));
    }
    Ok(Some(job))
}

/// Reads a file; `None` if it is not there.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(io::Error::other(format!("it has more than {FILE_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// Replaces a file by a value, whole or not at all.
fn write(path: &Path, value: &impl Serialize) -> Result<(), JobStoreError> {
    let folder = path.parent().unwrap_or(path);
    let write = || {
        private_folder(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&mut file, value)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| JobStoreError::Io { path: path.to_owned(), source })
}

fn remove(path: &Path) -> Result<(), JobStoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| JobStoreError::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests;
