//! Configuration of a server, as plain data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_core::setting_names::SettingNames;
use deputize_process::{ProgramError, resolve_program};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::access_tokens::TokenSource;

/// A server as the person configured it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name; part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub reach: ServerTransport,
    /// The variables of its program, or the headers of its address, that are configured for it: a
    /// person approves them by name.
    pub names: Vec<String>,
    /// How long things may take.
    pub limits: ServerLimits,
    /// The host's names of settings in errors, by the fields of the limits: `start`; and by
    /// `sign_in`, how a person signs in to the server.
    pub setting_names: SettingNames,
    /// Where access tokens for its address come from; `None` if it needs none, or has one among
    /// its headers.
    pub tokens: Option<TokenSource>,
}

/// The word for the directory that agents work in.
pub const WORKSPACE: &str = "workspace";

/// Where a program is started. Programs that run others take code from there (`npx` from
/// `node_modules`, `python3 x.py` the file), so it is a project's only by the person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerDirectory {
    /// A directory that no project writes to; made when it is needed.
    Own(PathBuf),
    /// The one that the person named, absolute.
    At(PathBuf),
    /// The one that agents work in.
    Workspace,
}

impl ServerDirectory {
    /// It as a person approves it: the place of our own directory is no matter of theirs.
    fn approved(&self) -> String {
        match self {
            Self::Own(_) => String::new(),
            Self::At(path) => path.display().to_string(),
            Self::Workspace => WORKSPACE.to_owned(),
        }
    }

    /// Returns the directory, which it creates if it is ours.
    pub(crate) async fn prepare(&self, workspace: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Own(path) => {
                let path = path.clone();
                let created = spawn_blocking(move || create_private(&path).map(|()| path)).await;
                created.map_err(io::Error::other).flatten()
            }
            Self::At(path) => Ok(path.clone()),
            Self::Workspace => Ok(workspace.to_owned()),
        }
    }
}

pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// The program or address of a server, as a person approves it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerTarget {
    /// The program's absolute path, or the address without its query, which may be secret.
    pub place: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The variables or headers that are configured for it, by name. What they hold is kept nowhere.
    pub names: Vec<String>,
    /// Where the program is started: nothing for a directory of our own, [`WORKSPACE`], or the path
    /// that the person named.
    pub cwd: String,
    /// The digest of all that, and of the query.
    pub digest: String,
}

impl ServerTarget {
    /// Returns the place with the arguments, in the way of a shell.
    #[must_use]
    pub fn line(&self) -> String {
        std::iter::once(&self.place)
            .chain(&self.args)
            .map(|word| quote_word(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Describes the difference to an earlier target in short. Arguments are left out, since one
    /// may be secret and this goes to logs.
    #[must_use]
    pub fn since(&self, before: &Self) -> String {
        let mut changes = Vec::new();
        if before.place != self.place {
            let before = &before.place;
            let now = &self.place;
            changes.push(format!("what is started or reached changed from {before} to {now}"));
        }
        if before.args != self.args {
            changes.push("its arguments changed".to_owned());
        }
        if before.names != self.names {
            changes.push("the names of its variables or headers changed".to_owned());
        }
        if before.cwd != self.cwd {
            changes.push("the directory that it is started in changed".to_owned());
        }
        if changes.is_empty() {
            return "the query of its address changed".to_owned();
        }
        changes.join("; ")
    }
}

/// A word as a shell would have to be given it.
fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerTransport {
    /// By starting a program that serves on its standard input and output.
    Program {
        /// Its absolute path.
        path: PathBuf,
        /// Arguments of the program.
        args: Vec<OsString>,
        /// The whole of its environment.
        env: BTreeMap<OsString, OsString>,
        /// Where it is started.
        cwd: ServerDirectory,
    },
    /// By HTTP.
    Url {
        /// URL of the server.
        url: String,
        /// Headers of each request. The values may be secret.
        headers: BTreeMap<String, String>,
    },
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// From the start to the list of its tools.
    pub start: Duration,
    /// Limit on a call without an answer or progress.
    pub idle: Duration,
    /// Limit on a call in total, whatever its progress.
    pub total: Duration,
    /// Before the second start; twice as long before the third.
    pub backoff: Duration,
}

impl ServerLimits {
    /// Seconds of [`Self::start`], unless set otherwise.
    pub const START_SECONDS: u32 = 30;
    /// Seconds of [`Self::idle`], unless set otherwise.
    pub const IDLE_SECONDS: u32 = 120;
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(Self::START_SECONDS.into()),
            idle: Duration::from_secs(Self::IDLE_SECONDS.into()),
            total: Duration::from_secs(3600),
            backoff: Duration::from_millis(500),
        }
    }
}

impl ServerConfig {
    /// Describes a program by its absolute path, or by a name that is looked up in the `PATH` of its
    /// environment.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be run.
    pub fn program(
        name: impl Into<String>,
        command: impl AsRef<OsStr>,
        args: Vec<OsString>,
        env: BTreeMap<OsString, OsString>,
        cwd: ServerDirectory,
    ) -> Result<Self, ProgramError> {
        let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let path = resolve_program(command.as_ref(), path)?;
        let names = env.keys().map(|name| name.to_string_lossy().into_owned()).collect();
        let reach = ServerTransport::Program { path, args, env, cwd };
        Ok(Self {
            name: name.into(),
            reach,
            names,
            limits: ServerLimits::default(),
            setting_names: SettingNames::default(),
            tokens: None,
        })
    }

    /// Describes a server that runs already.
    pub fn url(
        name: impl Into<String>,
        url: impl Into<String>,
        headers: BTreeMap<String, String>,
    ) -> Self {
        let names = headers.keys().cloned().collect();
        let reach = ServerTransport::Url { url: url.into(), headers };
        Self {
            name: name.into(),
            reach,
            names,
            limits: ServerLimits::default(),
            setting_names: SettingNames::default(),
            tokens: None,
        }
    }

    /// Returns the same with access tokens from there.
    #[must_use]
    pub fn with_tokens(self, tokens: TokenSource) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Returns the program or address for people, without arguments.
    fn place(&self) -> String {
        match &self.reach {
            ServerTransport::Program { path, .. } => path.display().to_string(),
            ServerTransport::Url { url, .. } => {
                url.split(['?', '#']).next().unwrap_or_default().to_owned()
            }
        }
    }

    /// Returns the program or address of a server, as a person approves it.
    #[must_use]
    pub fn start(&self) -> ServerTarget {
        let (args, cwd, query) = match &self.reach {
            ServerTransport::Program { args, cwd, .. } => {
                let args = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
                (args, cwd.approved(), "")
            }
            ServerTransport::Url { url, .. } => (Vec::new(), String::new(), url.as_str()),
        };
        let place = self.place();
        let names = self.names.clone();
        let mut sum = Sha256::new();
        let mut add = |part: &str| {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        };
        [&place, query, &cwd].into_iter().for_each(&mut add);
        for list in [&args, &names] {
            add(&list.len().to_string());
            list.iter().for_each(|part| add(part));
        }
        ServerTarget { digest: hex(&sum.finalize()), place, args, names, cwd }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerConfig({}, {})", self.name, self.place())
    }
}

impl fmt::Debug for ServerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTransport(..)")
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
        let server = ServerConfig::url("far", "http://127.0.0.1:9/mcp?key=hush", headers);
        assert_eq!(format!("{server:?}"), "ServerConfig(far, http://127.0.0.1:9/mcp)");
        assert!(!format!("{:?}", server.reach).contains("hush"));
    }

    #[test]
    fn what_is_approved_is_the_program_its_arguments_and_the_names_of_its_variables() {
        let server = |value: &str, args: &[&str]| {
            let env =
                BTreeMap::from([("KEY".into(), value.into()), ("PATH".into(), "/bin".into())]);
            let args = args.iter().map(OsString::from).collect();
            let server =
                ServerConfig::program("a", "sh", args, env, ServerDirectory::Own("/a".into()))
                    .unwrap();
            ServerConfig { names: vec!["KEY".into()], ..server }
        };
        let one = server("one", &["-c", "a b"]).start();
        assert_eq!(one, server("two", &["-c", "a b"]).start());
        assert_eq!(one.line(), format!("{} -c 'a b'", one.place));
        let now = server("one", &["-c", "it's"]).start();
        assert_eq!(now.line(), format!(r"{} -c 'it'\''s'", one.place));
        assert_eq!(now.since(&one), "its arguments changed");
        assert_ne!(server("", &["a", "b"]).start().digest, server("", &["ab"]).start().digest);
        let named =
            ServerConfig { names: vec!["KEY".into(), "LD".into()], ..server("", &[]) }.start();
        let expected = "the names of its variables or headers changed";
        assert_eq!(named.since(&server("", &[]).start()), expected);

        let at = |cwd: ServerDirectory| {
            let env = BTreeMap::from([("PATH".into(), "/bin".into())]);
            let server = ServerConfig::program("a", "sh", Vec::new(), env, cwd).unwrap();
            ServerConfig { names: Vec::new(), ..server }.start()
        };
        let own = at(ServerDirectory::Own("/a".into()));
        assert_eq!(own, at(ServerDirectory::Own("/b".into())), "ours is nobody's to approve");
        for other in [at(ServerDirectory::Workspace), at(ServerDirectory::At("/b".into()))] {
            assert_eq!(other.since(&own), "the directory that it is started in changed");
            assert_ne!(other.digest, own.digest);
        }

        let url = |query: &str| {
            ServerConfig::url("far", format!("http://h/mcp?{query}"), BTreeMap::new())
        };
        let one = url("a=1").start();
        let two = url("a=2").start();
        assert_eq!(two.since(&one), "the query of its address changed");
        assert_ne!(one, two);
    }
}
