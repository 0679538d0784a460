//! What is configured of a server: plain data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use deputize_process::{ProgramError, resolve_program};
use sha2::{Digest as _, Sha256};

/// A server as the person configured it.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name; part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// How long things may take.
    pub limits: Limits,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    /// By starting a program that serves on its standard input and output.
    Program {
        /// Its absolute path.
        path: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
        /// The whole of its environment.
        env: BTreeMap<OsString, OsString>,
        /// Where it works, absolute.
        cwd: PathBuf,
    },
    /// By HTTP.
    Url {
        /// Its address.
        url: String,
        /// What is sent with each request. The values may be secret.
        headers: BTreeMap<String, String>,
    },
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the start to the list of its tools.
    pub start: Duration,
    /// A call without an answer and without a sign of progress.
    pub idle: Duration,
    /// A call, whatever progress it tells of.
    pub total: Duration,
    /// Before the second start; twice as long before the third.
    pub backoff: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(3600),
            backoff: Duration::from_millis(500),
        }
    }
}

impl Server {
    /// A program by its absolute path, or by a name that is looked up in the `PATH` of its
    /// environment.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be run.
    pub fn program(
        name: impl Into<String>,
        command: impl AsRef<OsStr>,
        args: Vec<OsString>,
        env: BTreeMap<OsString, OsString>,
        cwd: impl Into<PathBuf>,
    ) -> Result<Self, ProgramError> {
        let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let path = resolve_program(command.as_ref(), path)?;
        let reach = Reach::Program { path, args, env, cwd: cwd.into() };
        Ok(Self { name: name.into(), reach, limits: Limits::default() })
    }

    /// A server that runs already.
    pub fn url(
        name: impl Into<String>,
        url: impl Into<String>,
        headers: BTreeMap<String, String>,
    ) -> Self {
        let reach = Reach::Url { url: url.into(), headers };
        Self { name: name.into(), reach, limits: Limits::default() }
    }

    /// What is started or reached, for people. No argument, value or query of it: they may be
    /// secret.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.reach {
            Reach::Program { path, .. } => path.display().to_string(),
            Reach::Url { url, .. } => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        }
    }

    /// The digest of what is configured of it: another one asks the server anew what it has. What
    /// variables and headers hold is not in it, only their names.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut sum = Sha256::new();
        let mut add = |part: &[u8]| {
            sum.update(part);
            sum.update([0]);
        };
        match &self.reach {
            Reach::Program { path, args, env, .. } => {
                add(b"program");
                add(path.as_os_str().as_encoded_bytes());
                args.iter().for_each(|arg| add(arg.as_encoded_bytes()));
                env.keys().for_each(|name| add(name.as_encoded_bytes()));
            }
            Reach::Url { url, headers } => {
                add(b"url");
                add(url.as_bytes());
                headers.keys().for_each(|name| add(name.as_bytes()));
            }
        }
        hex(&sum.finalize())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({}, {})", self.name, self.place())
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reach(..)")
    }
}

/// A digest as text: its first 16 bytes.
pub(crate) fn hex(sum: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(sum.get(..16).unwrap_or(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_the_place_shows_a_secret() {
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer hush".to_owned())]);
        let server = Server::url("far", "http://127.0.0.1:9/mcp?key=hush", headers);
        assert_eq!(format!("{server:?}"), "Server(far, http://127.0.0.1:9/mcp)");
        assert!(!format!("{:?}", server.reach).contains("hush"));
    }

    #[test]
    fn the_digest_is_of_what_is_configured_and_of_no_value() {
        let server = |value: &str, arg: &str| {
            let env =
                BTreeMap::from([("KEY".into(), value.into()), ("PATH".into(), "/bin".into())]);
            Server::program("a", "sh", vec![arg.into()], env, "/").unwrap().digest()
        };
        assert_eq!(server("one", "x"), server("two", "x"));
        assert_ne!(server("one", "x"), server("one", "y"));
    }
}
