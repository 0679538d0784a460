//! Stores records: a file for each server and way to start or reach it, in a folder of the
//! program's state. Configurations may each have another server of one name. An approval of one
//! does not apply to the other, and neither replaces the other's.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::names::toolset;
use crate::server::ServerTarget;
use crate::server_record::ServerRecord;

/// The most bytes of a record's file: what a server with all its tools may say, twice.
const CARD_BYTES: u64 = 128 * 1024 * 1024;
/// The most records that are kept of servers of one name.
const CARDS: usize = 64;

/// The folder of records.
#[derive(Debug, Clone)]
pub struct ApprovalStore {
    dir: PathBuf,
}

/// A record that cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalStoreError {
    /// The record of a server cannot be read.
    #[error("cannot read `{}`, the approval record of an MCP server", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// Read, and no record.
    #[error("`{}` is not an approval record of this program; delete it, and review the server again", path.display())]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: serde_json::Error,
    },
    /// The record of a server cannot be written.
    #[error("cannot write `{}`, the approval record of an MCP server", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// The directory of a server that is gone is still there.
    #[error("cannot move away `{}`, the start directory of that server", path.display())]
    Clear {
        /// Path of the directory.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// A server with this name has none.
    #[error("`{0}` cannot be the name of an MCP server")]
    Name(String),
}

impl ApprovalStore {
    /// Uses the records in a folder, which need not be there yet.
    #[must_use]
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Works on the records on a thread that may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ApprovalStoreError> + Send + 'static,
    ) -> Result<T, ApprovalStoreError> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        let lost = |error| ApprovalStoreError::Read {
            path: self.dir.clone(),
            source: io::Error::other(error),
        };
        done.map_err(lost).flatten()
    }

    /// Returns the directory that a server is started in where nobody says another one.
    ///
    /// # Errors
    /// When the name is none of a server.
    pub fn start_dir(&self, server: &str) -> Result<PathBuf, ApprovalStoreError> {
        check_name(server)?;
        Ok(self.dir.join("started-in").join(server))
    }

    /// Moves away the start directory of a server of this name, so that the next server of that
    /// name does not find its files. Returns where it went; `None` if it had no files.
    /// # Errors
    /// When it cannot be.
    pub fn clear_start_dir(&self, server: &str) -> Result<Option<PathBuf>, ApprovalStoreError> {
        let dir = self.start_dir(server)?;
        let wrong = |source| ApprovalStoreError::Clear { path: dir.clone(), source };
        match fs::remove_dir(&dir) {
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(wrong(error)),
        }
        // No server has such a name.
        let mut asides = (1_u64..).map(|count| dir.with_file_name(format!("{server}~{count}")));
        let Some(aside) = asides.find(|aside| !aside.exists()) else { return Ok(None) };
        fs::rename(&dir, &aside).map_err(wrong)?;
        Ok(Some(aside))
    }

    /// Returns the record of a server that is started or reached like this. Where there is none,
    /// that of another server of its name of which something was approved, so that a person sees
    /// what is other now; and else an empty one.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn read(
        &self,
        server: &str,
        start: &ServerTarget,
    ) -> Result<ServerRecord, ApprovalStoreError> {
        if let Some(record) = read_record(&self.file(server, start)?)? {
            return Ok(record);
        }
        let mut others = self.stored_records(server)?;
        if let Some(at) = others.iter().position(|kept| kept.key == start.digest) {
            return Ok(others.swap_remove(at).record);
        }
        let approved = others.into_iter().rev().find(|kept| kept.record.approved.is_some());
        Ok(approved.map(|kept| kept.record).unwrap_or_default())
    }

    /// Returns all records of servers of a name, the one that was written last at the end.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read_all(&self, server: &str) -> Result<Vec<ServerRecord>, ApprovalStoreError> {
        Ok(self.stored_records(server)?.into_iter().map(|kept| kept.record).collect())
    }

    /// Keeps the record of a server that is started or reached like this, for its owner's eyes; the
    /// file is replaced whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(
        &self,
        server: &str,
        start: &ServerTarget,
        record: &ServerRecord,
    ) -> Result<(), ApprovalStoreError> {
        let path = self.file(server, start)?;
        let wrong = |source| ApprovalStoreError::Write { path: path.clone(), source };
        fs::create_dir_all(&self.dir).map_err(wrong)?;
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::from).map_err(wrong)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).map_err(wrong)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(wrong)?;
        let new = !path.exists();
        file.persist(&path).map_err(|error| wrong(error.error))?;
        if new {
            // What cannot be tidied up now is at a later time.
            let _tidied = self.tidy(server, &path, start);
        }
        Ok(())
    }

    /// Returns the servers that there are records of, by name.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn names(&self) -> Result<Vec<String>, ApprovalStoreError> {
        let mut names: Vec<String> = self.files()?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Forgets a server that is started or reached like this. Whether there was anything to forget.
    ///
    /// # Errors
    /// When its file cannot be deleted, or those of its name cannot be read.
    pub fn remove(&self, server: &str, start: &ServerTarget) -> Result<bool, ApprovalStoreError> {
        let own = self.file(server, start)?;
        let kept = self.stored_records(server)?.into_iter();
        let paths = kept.filter(|kept| kept.key == start.digest).map(|kept| kept.path);
        let paths: Vec<PathBuf> = paths.filter(|path| *path != own).collect();
        let mut any = false;
        for path in paths.into_iter().chain([own]) {
            any |= delete_file(&path)?;
        }
        Ok(any)
    }

    /// Forgets all servers of a name, however they are started or reached.
    ///
    /// # Errors
    /// When a file cannot be deleted.
    pub fn forget(&self, server: &str) -> Result<(), ApprovalStoreError> {
        let mut own = self.files()?.into_iter().filter(|(name, _)| name == server);
        own.try_for_each(|(_, path)| delete_file(&path).map(drop))
    }

    /// The file of a record.
    fn file(&self, server: &str, start: &ServerTarget) -> Result<PathBuf, ApprovalStoreError> {
        check_name(server)?;
        let key = &start.digest;
        if !key.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(ApprovalStoreError::Name(format!("{server}.{key}")));
        }
        // No server's name has a dot.
        Ok(self.dir.join(format!("{server}.{key}.json")))
    }

    /// The files of records, each with the name of its server.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, ApprovalStoreError> {
        let wrong = |source| ApprovalStoreError::Read { path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(wrong(source)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(wrong)?;
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(".json"));
            let name = name.map(|name| name.split_once('.').map_or(name, |(name, _)| name));
            if let Some(name) = name.filter(|name| toolset(name).is_some()) {
                found.push((name.to_owned(), entry.path()));
            }
        }
        Ok(found)
    }

    /// Returns the stored records of servers with a name, by the time of writing.
    fn stored_records(&self, server: &str) -> Result<Vec<StoredRecord>, ApprovalStoreError> {
        check_name(server)?;
        let mut kept = Vec::new();
        for (_, path) in self.files()?.into_iter().filter(|(name, _)| name == server) {
            let Some(mut record) = read_record(&path)? else { continue };
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let key = match stem.split_once('.') {
                Some((_, key)) => key.to_owned(),
                None => of_its_name(&mut record),
            };
            let written = fs::metadata(&path).and_then(|file| file.modified());
            let written = written.unwrap_or(SystemTime::UNIX_EPOCH);
            kept.push(StoredRecord { written, path, key, record });
        }
        kept.sort_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
        Ok(kept)
    }

    /// Removes records after a new one: the one it replaces, and the oldest beyond the limit, those
    /// without an approval first.
    fn tidy(
        &self,
        server: &str,
        new: &Path,
        start: &ServerTarget,
    ) -> Result<(), ApprovalStoreError> {
        let mut kept = self.stored_records(server)?;
        kept.retain(|kept| kept.path != new);
        let (same, mut others): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|kept| kept.key == start.digest);
        others.sort_by_key(StoredRecord::is_approved);
        let beyond = (others.len() + 1).saturating_sub(CARDS);
        for kept in same.iter().chain(others.iter().take(beyond)) {
            delete_file(&kept.path)?;
        }
        Ok(())
    }
}

/// One record in its file.
struct StoredRecord {
    written: SystemTime,
    path: PathBuf,
    /// How the server is started or reached: the digest of a [`ServerTarget`].
    key: String,
    record: ServerRecord,
}

impl StoredRecord {
    fn is_approved(&self) -> bool {
        self.record.approved.as_ref().is_some_and(|approved| approved.start.digest == self.key)
    }
}

/// How the server is started or reached whose record an earlier version kept by its name alone: as it
/// was approved, or else as it was asked.
fn of_its_name(record: &mut ServerRecord) -> String {
    match &record.approved {
        Some(approved) => {
            record.start = approved.start.clone();
            approved.start.digest.clone()
        }
        None => record.asked.clone(),
    }
}

fn check_name(server: &str) -> Result<(), ApprovalStoreError> {
    toolset(server).map(drop).ok_or_else(|| ApprovalStoreError::Name(server.to_owned()))
}

/// The record in a file, if there is one.
fn read_record(path: &Path) -> Result<Option<ServerRecord>, ApprovalStoreError> {
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ApprovalStoreError::Read { path: path.to_owned(), source }),
    };
    let record = serde_json::from_slice(&text);
    record.map(Some).map_err(|source| ApprovalStoreError::Form { path: path.to_owned(), source })
}

/// Deletes a file. Whether there was one.
fn delete_file(path: &Path) -> Result<bool, ApprovalStoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ApprovalStoreError::Write { path: path.to_owned(), source }),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    fs::File::open(path)?.take(CARD_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::ServerListing;

    fn start(digest: &str) -> ServerTarget {
        ServerTarget { place: "/bin/s".into(), digest: digest.into(), ..ServerTarget::default() }
    }

    fn approved(digest: &str) -> ServerRecord {
        let mut record = ServerRecord::default();
        record.record_and_approve(&start(digest), ServerListing::default());
        record
    }

    #[test]
    fn what_a_server_left_where_it_was_started_is_not_there_for_the_next_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().join("mcp"));
        let start = records.start_dir("a").unwrap();
        assert_eq!(records.clear_start_dir("a").unwrap(), None);
        fs::create_dir_all(&start).unwrap();
        assert_eq!(records.clear_start_dir("a").unwrap(), None);
        for count in 1..3 {
            fs::create_dir_all(start.join("node_modules")).unwrap();
            let aside = records.clear_start_dir("a").unwrap().unwrap();
            assert!(aside.ends_with(format!("a~{count}")) && aside.join("node_modules").exists());
            assert!(!start.exists());
        }
    }

    #[test]
    fn a_card_is_kept_for_its_owner_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().join("mcp"));
        let start = start("1a");
        assert_eq!(records.read("a", &start).unwrap(), ServerRecord::default());
        assert_eq!(records.names().unwrap(), Vec::<String>::new());
        let record = approved("1a");
        records.write("a", &start, &record).unwrap();
        assert_eq!(records.read("a", &start).unwrap(), record);
        assert_eq!(records.names().unwrap(), ["a"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let file = records.file("a", &start).unwrap();
            let mode = fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(records.remove("a", &start).unwrap() && !records.remove("a", &start).unwrap());
    }

    #[test]
    fn servers_of_one_name_have_each_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().to_owned());
        let [one, two, three] = ["1", "2", "3"].map(start);
        records.write("a", &one, &approved("1")).unwrap();
        // Of another one it is seen that it is another one.
        assert!(records.read("a", &two).unwrap().target_changed(&two));
        records.write("a", &two, &approved("2")).unwrap();
        for (start, digest) in [(&one, "1"), (&two, "2")] {
            assert_eq!(records.read("a", start).unwrap(), approved(digest));
        }
        assert!(records.remove("a", &two).unwrap() && !records.remove("a", &three).unwrap());
        assert_eq!(records.read("a", &one).unwrap(), approved("1"));
        // What nobody approved says nothing of another one.
        let mut heard = ServerRecord::default();
        heard.record_listing(&one, ServerListing::default());
        records.write("b", &one, &heard).unwrap();
        assert_eq!(records.read("b", &two).unwrap(), ServerRecord::default());
    }

    #[test]
    fn what_was_kept_by_name_alone_is_that_of_the_server_that_was_approved() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().to_owned());
        let old = dir.path().join("a.json");
        let one = start("1");
        let two = start("2");
        // It was seen otherwise since.
        let seen = ServerRecord { start: two.clone(), ..approved("1") };
        fs::write(&old, serde_json::to_vec(&seen).unwrap()).unwrap();
        assert_eq!(records.read("a", &one).unwrap(), approved("1"));
        assert_eq!(records.read_all("a").unwrap(), [approved("1")]);
        records.write("a", &two, &approved("2")).unwrap();
        assert!(old.exists() && records.read("a", &one).unwrap() == approved("1"));
        records.write("a", &one, &approved("1")).unwrap();
        assert!(!old.exists());
        assert_eq!(records.read_all("a").unwrap().len(), 2);
        fs::write(&old, serde_json::to_vec(&seen).unwrap()).unwrap();
        assert!(records.remove("a", &one).unwrap() && !old.exists());
        assert_eq!(records.read_all("a").unwrap(), [approved("2")]);
    }

    #[test]
    fn the_oldest_beyond_the_limit_are_forgotten_and_approved_ones_last() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().to_owned());
        for n in 0..CARDS {
            let start = start(&n.to_string());
            let key = n.to_string();
            let record = if n == 1 { ServerRecord::default() } else { approved(&key) };
            records.write("a", &start, &record).unwrap();
        }
        records.write("b", &start("1"), &approved("1")).unwrap();
        assert_eq!(records.read_all("a").unwrap().len(), CARDS);
        records.write("a", &start("new"), &approved("new")).unwrap();
        assert_eq!(records.read_all("a").unwrap().len(), CARDS);
        assert!(!records.file("a", &start("1")).unwrap().exists());
        assert_eq!(records.read_all("b").unwrap().len(), 1);
        records.forget("a").unwrap();
        assert_eq!(records.names().unwrap(), ["b"]);
    }

    #[test]
    fn a_broken_card_is_no_approval_and_a_name_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let records = ApprovalStore::new(dir.path().to_owned());
        fs::write(dir.path().join("a.1.json"), "{").unwrap();
        assert!(matches!(records.read("a", &start("1")), Err(ApprovalStoreError::Form { .. })));
        assert!(matches!(records.read("../a", &start("1")), Err(ApprovalStoreError::Name(_))));
        assert!(matches!(records.read("a", &start("../1")), Err(ApprovalStoreError::Name(_))));
    }
}
