//! Where tokens are kept.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use deputize_core::sanitize::RotatingSecrets;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::http::without_query;
use super::stored_token::StoredToken;
use crate::names::toolset;
use crate::server::{create_private, hex};

/// How long another process may hold the lock of a token.
pub(super) const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks whether it is free.
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// The most bytes of a token's file.
const FILE_BYTES: u64 = 1024 * 1024;

/// A token that cannot be read or kept. No token is in the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenStoreError {
    /// The token cannot be read.
    #[error("cannot read `{}`, the sign-in to an MCP server", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// Read, and no token of this server.
    #[error("`{}` is not the sign-in to this MCP server; delete it, and sign in again", .0.display())]
    Form(PathBuf),
    /// The token cannot be written.
    #[error("cannot write `{}`, the sign-in to an MCP server", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// I/O error from the system.
        #[source]
        source: io::Error,
    },
    /// Another process holds the lock of the token for too long.
    #[error(
        "another program has been refreshing the sign-in to `{0}` for a minute: try again later"
    )]
    Busy(String),
    /// A server has no such name or address.
    #[error("`{0}` cannot be the name or the address of an MCP server")]
    Name(String),
}

/// Keeps others from changing the same token until it is dropped.
pub struct TokenLock {
    _guard: Box<dyn Send>,
}

impl TokenLock {
    /// Holds this, such as a locked file.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for TokenLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenLock(..)")
    }
}

/// Keeps tokens by the name and the address of a server. The functions may block.
pub trait TokenStore: Send + Sync {
    /// Returns the token of a server; `None` if there is none for this address.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    fn read(&self, server: &str, url: &str) -> Result<Option<StoredToken>, TokenStoreError>;

    /// Keeps a token in place of the one before. Whatever happens, one of the two is there after.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn write(&self, server: &str, token: &StoredToken) -> Result<(), TokenStoreError>;

    /// Deletes the token of a server. Returns whether there was one.
    ///
    /// # Errors
    /// If it cannot be deleted.
    fn remove(&self, server: &str, url: &str) -> Result<bool, TokenStoreError>;

    /// Returns the right to change the token of a server; `None` while another process has it. Who
    /// writes or removes a token has it: a refresh then brings back none that was removed.
    ///
    /// # Errors
    /// If nobody can have it.
    fn try_lock(&self, server: &str, url: &str) -> Result<Option<TokenLock>, TokenStoreError>;

    /// Waits for the right to change the token of a server, at most a minute.
    ///
    /// # Errors
    /// As [`TokenStore::try_lock`], and if another process does not give it back.
    fn lock(&self, server: &str, url: &str) -> Result<TokenLock, TokenStoreError> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = self.try_lock(server, url)? {
                return Ok(lock);
            }
            if begun.elapsed() > LOCK_LIMIT {
                return Err(TokenStoreError::Busy(server.to_owned()));
            }
            thread::sleep(LOCK_PAUSE);
        }
    }

    /// Returns the secret values of all tokens that were read or kept so far, which a session
    /// redacts. By default there are none: then nothing is redacted.
    fn secrets(&self) -> RotatingSecrets {
        RotatingSecrets::default()
    }
}

/// Keeps each token in a file that only its owner can read.
#[derive(Debug, Clone)]
pub struct FileTokenStore {
    dir: PathBuf,
    secrets: RotatingSecrets,
}

impl FileTokenStore {
    /// Uses a folder, which need not be there yet.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, secrets: RotatingSecrets::default() }
    }

    /// Returns the same, which adds the secret values of its tokens to these.
    #[must_use]
    pub fn with_secrets(self, secrets: RotatingSecrets) -> Self {
        Self { secrets, ..self }
    }

    fn add_secrets(&self, server: &str, token: &StoredToken) {
        let name = format!("mcp {server}");
        token.secrets().for_each(|secret| self.secrets.add(&name, secret));
    }

    /// Deletes the tokens of all servers of a name, whatever their address. Locks stay: another
    /// process may hold them. Returns whether there was one.
    ///
    /// # Errors
    /// If one cannot be deleted.
    pub fn remove_all(&self, server: &str) -> Result<bool, TokenStoreError> {
        check_name(server)?;
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(TokenStoreError::Read { path: self.dir.clone(), source }),
        };
        let mut any = false;
        for entry in entries {
            let wrong = |source| TokenStoreError::Read { path: self.dir.clone(), source };
            let path = entry.map_err(wrong)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // No server's name has a dot.
            let is_lock = name.ends_with(".lock");
            if !is_lock && name.split_once('.').is_some_and(|(name, _)| name == server) {
                any |= delete(&path)? && name.ends_with(".json");
            }
        }
        Ok(any)
    }

    fn file(&self, server: &str, url: &str, ending: &str) -> Result<PathBuf, TokenStoreError> {
        check_name(server)?;
        let key = hex(&Sha256::digest(key(url)?));
        Ok(self.dir.join(format!("{server}.{key}.{ending}")))
    }

    fn create_dir(&self) -> Result<(), TokenStoreError> {
        let wrong = |source| TokenStoreError::Write { path: self.dir.clone(), source };
        create_private(&self.dir).map_err(wrong)
    }
}

impl TokenStore for FileTokenStore {
    fn read(&self, server: &str, url: &str) -> Result<Option<StoredToken>, TokenStoreError> {
        let path = self.file(server, url, "json")?;
        let mut text = Vec::new();
        let read =
            fs::File::open(&path).and_then(|file| file.take(FILE_BYTES).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(TokenStoreError::Read { path, source }),
        }
        // What is wrong in it is not shown: a token may stand there.
        let token: StoredToken =
            serde_json::from_slice(&text).map_err(|_| TokenStoreError::Form(path.clone()))?;
        self.add_secrets(server, &token);
        if token.server == key(url)? { Ok(Some(token)) } else { Err(TokenStoreError::Form(path)) }
    }

    fn write(&self, server: &str, token: &StoredToken) -> Result<(), TokenStoreError> {
        let path = self.file(server, &token.server, "json")?;
        self.create_dir()?;
        self.add_secrets(server, token);
        let write = || {
            let text = serde_json::to_vec_pretty(token)?;
            // Its owner alone can read it. What a killed program leaves has the server's name, so
            // that it goes with the token.
            let mut names = tempfile::Builder::new();
            let mut file =
                names.prefix(&format!("{server}.")).suffix(".tmp").tempfile_in(&self.dir)?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|source| TokenStoreError::Write { path: path.clone(), source })
    }

    fn remove(&self, server: &str, url: &str) -> Result<bool, TokenStoreError> {
        delete(&self.file(server, url, "json")?)
    }

    fn try_lock(&self, server: &str, url: &str) -> Result<Option<TokenLock>, TokenStoreError> {
        let path = self.file(server, url, "lock")?;
        self.create_dir()?;
        let wrong = |source| TokenStoreError::Write { path: path.clone(), source };
        let file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(TokenLock::new(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(wrong(source)),
        }
    }
    fn secrets(&self) -> RotatingSecrets {
        self.secrets.clone()
    }
}

/// The address that a token belongs to.
fn key(url: &str) -> Result<String, TokenStoreError> {
    let url = Url::parse(url).map_err(|_| TokenStoreError::Name("URL".to_owned()))?;
    Ok(without_query(&url))
}

fn check_name(server: &str) -> Result<(), TokenStoreError> {
    toolset(server).map(drop).ok_or_else(|| TokenStoreError::Name(server.to_owned()))
}

/// Deletes a file. Returns whether there was one.
fn delete(path: &Path) -> Result<bool, TokenStoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(TokenStoreError::Write { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const URL: &str = "https://docs.example/mcp";

    fn token(server: &str) -> StoredToken {
        StoredToken {
            server: server.to_owned(),
            issuer: None,
            token_endpoint: "https://sso.example/token".to_owned(),
            resource: server.to_owned(),
            client_id: "me".to_owned(),
            client_secret: None,
            secret_in_body: false,
            access_token: "hush".to_owned(),
            refresh_token: None,
            expires_at: None,
            refresh_at: None,
            scopes: Vec::new(),
        }
    }

    #[test]
    fn a_token_is_its_owners_and_belongs_to_one_address() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileTokenStore::new(dir.path().join("oauth"));
        assert_eq!(store.read("docs", URL).unwrap(), None);
        store.write("docs", &token(URL)).unwrap();
        assert_eq!(store.read("docs", &format!("{URL}?key=1")).unwrap(), Some(token(URL)));
        for other in [
            "https://docs.example/other",
            "http://docs.example/mcp",
            "https://docs.example:8443/mcp",
        ] {
            assert_eq!(store.read("docs", other).unwrap(), None, "{other}");
        }
        let path = store.file("docs", URL, "json").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&store.dir)), (0o600, 0o700));

        // A file that somebody put there for another address is not sent to this one.
        fs::write(&path, serde_json::to_vec(&token("https://evil.example/")).unwrap()).unwrap();
        let error = store.read("docs", URL).unwrap_err().to_string();
        assert!(error.contains("is not the sign-in to this MCP server"), "{error}");
        assert!(!error.contains("hush"), "{error}");
        fs::write(&path, "{\"access_token\": \"hush").unwrap();
        assert!(!format!("{:?}", store.read("docs", URL)).contains("hush"));
        assert!(store.remove("docs", URL).unwrap() && !store.remove("docs", URL).unwrap());
        assert!(matches!(store.read("../docs", URL), Err(TokenStoreError::Name(_))));
    }

    #[test]
    fn one_at_a_time_refreshes_and_all_of_a_name_can_go() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileTokenStore::new(dir.path().to_owned());
        let lock = store.try_lock("docs", URL).unwrap();
        assert!(lock.is_some() && store.try_lock("docs", URL).unwrap().is_none());
        assert!(store.try_lock("other", URL).unwrap().is_some());
        drop(lock);
        assert!(store.try_lock("docs", URL).unwrap().is_some());
        store.write("docs", &token(URL)).unwrap();
        store.write("docs-2", &token(URL)).unwrap();
        let _refreshes = store.lock("docs", URL).unwrap();
        assert!(store.remove_all("docs").unwrap() && !store.remove_all("docs").unwrap());
        assert!(store.try_lock("docs", URL).unwrap().is_none(), "the lock is still that one");
        assert!(store.read("docs-2", URL).unwrap().is_some());
    }
}
