//! The environment of the process, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Component, Path, PathBuf};

use deputize_agent::add_secrets;
use deputize_core::sanitize::{RotatingSecrets, Secrets};
use deputize_process::{OpenFiles, raise_open_files};
use deputize_runtime::SessionDir;

use crate::approve::can_ask;
use crate::args::Settings;
use crate::config::{FlagValue, LoadedConfig, Sources, load};
use crate::exit::CliError;
use crate::extensions::Extensions;
use crate::log::{LOG_VARIABLE, Log};
use crate::stdio::tell;

/// The environment, the working directory, and which of the standard streams are terminals.
pub(crate) struct ProcessEnv {
    /// Variables whose names and values are text.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) os_env: BTreeMap<OsString, OsString>,
    /// The names of the program's toolsets.
    pub(crate) toolsets: BTreeSet<String>,
    /// Returns the toolset of a tool, if the program knows its tools.
    pub(crate) toolset_of: Option<fn(&str) -> Option<String>>,
    cwd: PathBuf,
    pub(crate) terminals: Terminals,
    /// Extensions of this program.
    pub(crate) own: Extensions,
    /// Whether an editor shows the agents' text.
    pub(crate) at_editor: bool,
    /// Whether there is a person who can be asked: at a terminal, or at an editor.
    pub(crate) person_available: bool,
    /// Limit on open files, raised as far as possible; `None` if the system refused to say.
    pub(crate) open_files: Option<OpenFiles>,
    /// The log of this process, which redacts secrets.
    pub(crate) log: Log,
    /// The secrets that change while the program runs.
    pub(crate) rotating_secrets: RotatingSecrets,
}

/// Which of the standard streams are terminals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terminals {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

#[derive(Debug, thiserror::Error)]
enum DirectoryError {
    #[error("the working directory cannot be used")]
    Cwd(#[source] io::Error),
    #[error("cannot work in `{}`", path.display())]
    Chosen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot work in `{}`: it is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("cannot work in `{}`: its name is not UTF-8; rename it", .0.display())]
    Unnamed(PathBuf),
    #[error("no directory for sessions, jobs and memory: set DEPUTIZE_HOME to one")]
    NoState,
}

impl ProcessEnv {
    /// Reads the environment of this process, for a program with these toolsets.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads them")]
    pub(crate) fn of_process(
        toolsets: BTreeSet<String>,
        toolset_of: fn(&str) -> Option<String>,
        own: Extensions,
    ) -> Result<Self, CliError> {
        let os_env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let text = |(name, value): (&OsString, &OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        Ok(Self {
            variables: os_env.iter().filter_map(text).collect(),
            cwd: std::env::current_dir().map_err(DirectoryError::Cwd).map_err(CliError::usage)?,
            os_env,
            toolsets,
            toolset_of: Some(toolset_of),
            own,
            terminals: Terminals {
                stdin: io::stdin().is_terminal(),
                stdout: io::stdout().is_terminal(),
                stderr: io::stderr().is_terminal(),
            },
            at_editor: false,
            person_available: can_ask(),
            open_files: raise_open_files().ok(),
            log: Log::default(),
            rotating_secrets: RotatingSecrets::default(),
        })
    }

    /// Creates an environment with these variables, in `/`, without terminals.
    #[cfg(test)]
    pub(crate) fn for_tests(env: &[(&str, &str)]) -> Self {
        Self {
            variables: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            os_env: BTreeMap::new(),
            toolsets: BTreeSet::new(),
            toolset_of: None,
            cwd: PathBuf::from("/"),
            terminals: Terminals::default(),
            own: Extensions::default(),
            at_editor: false,
            person_available: false,
            open_files: None,
            log: Log::default(),
            rotating_secrets: RotatingSecrets::default(),
        }
    }

    /// Starts the log that the environment or the command line asks for.
    pub(crate) fn start_log(&mut self, file: Option<&Path>) -> Result<(), CliError> {
        let file = file.map(|file| self.cwd.join(file));
        self.log = Log::start(file.as_deref(), self.var(LOG_VARIABLE))?;
        if self.log.is_on() {
            let mut secrets = Secrets::default();
            add_secrets(
                &mut secrets,
                self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())),
            );
            self.log.redact(&secrets);
        }
        Ok(())
    }

    /// Returns a variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Replaces `${NAME}` by variables of the environment. Returns the name of one that is not set.
    pub(crate) fn expand<'v>(&self, value: &'v str) -> Result<String, &'v str> {
        let mut out = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push_str("${");
                rest = after;
                continue;
            };
            out.push_str(self.var(name).ok_or(name)?);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Returns whether the terminal supports cursor movement.
    pub(crate) fn moves_cursor(&self) -> bool {
        self.var("TERM").is_some_and(|term| term != "dumb")
    }

    /// Returns whether to use colour.
    pub(crate) fn colour(&self) -> bool {
        self.moves_cursor() && self.var("NO_COLOR").is_none()
    }

    /// Returns the working directory, absolute and without links.
    pub(crate) fn cwd(&self, chosen: Option<&Path>) -> Result<PathBuf, CliError> {
        let path = self.cwd.join(chosen.unwrap_or(Path::new("")));
        let found = path.canonicalize().map_err(|source| {
            let path = path.clone();
            CliError::usage(DirectoryError::Chosen { path, source })
        })?;
        if !found.is_dir() {
            return Err(CliError::usage(DirectoryError::NotDirectory(path)));
        }
        if found.to_str().is_none() {
            return Err(CliError::usage(DirectoryError::Unnamed(found)));
        }
        Ok(found)
    }

    /// Returns the sources of the configuration.
    pub(crate) fn sources(
        &self,
        settings: &Settings,
        flags: Vec<FlagValue>,
    ) -> Result<Sources, CliError> {
        Ok(Sources {
            cwd: self.cwd(settings.cwd.as_deref())?,
            config_file: settings.config.as_ref().map(|path| plain(self.cwd.join(path))),
            env: self.variables.clone(),
            set: settings.set.clone(),
            project_files: settings.project_files,
            flags,
            toolsets: self.toolsets.clone(),
            toolset_of: self.toolset_of,
        })
    }

    /// Loads the configuration and prints its warnings.
    pub(crate) fn load(&self, sources: &Sources) -> Result<LoadedConfig, CliError> {
        match load(sources) {
            Ok(loaded) => {
                loaded.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
                Ok(loaded)
            }
            Err(error) => {
                error.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
                Err(CliError::usage(error))
            }
        }
    }

    /// Returns the folder of session files: below `$DEPUTIZE_HOME`, or in the platform's state
    /// directory.
    pub(crate) fn sessions(&self) -> Result<SessionDir, CliError> {
        Ok(SessionDir::new(self.state()?.join("sessions")))
    }

    /// Returns the state folder.
    pub(crate) fn state(&self) -> Result<PathBuf, CliError> {
        self.states().next().ok_or_else(|| CliError::usage(DirectoryError::NoState))
    }

    /// Returns the candidates for the state folder; the first one is used.
    pub(crate) fn states(&self) -> impl Iterator<Item = PathBuf> {
        let dir = |name: &str| self.var(name).map(|value| self.cwd.join(value));
        let state = || {
            if cfg!(windows) {
                return dir("LOCALAPPDATA");
            }
            if cfg!(target_os = "macos") {
                return dir("HOME").map(|home| home.join("Library/Application Support"));
            }
            let xdg = self.var("XDG_STATE_HOME").map(PathBuf::from);
            let xdg = xdg.filter(|path| path.is_absolute());
            xdg.or_else(|| dir("HOME").map(|home| home.join(".local/state")))
        };
        let platform = state().map(|state| state.join("deputize"));
        dir("DEPUTIZE_HOME").into_iter().chain(platform)
    }
}

/// Returns the path without `..` if its directory exists. Links on the way are followed, as `..`
/// does.
fn plain(path: PathBuf) -> PathBuf {
    let up = path.components().any(|part| part == Component::ParentDir);
    let parts = path.parent().zip(path.file_name());
    let whole =
        parts.filter(|_| up).and_then(|(dir, name)| Some(dir.canonicalize().ok()?.join(name)));
    whole.unwrap_or(path)
}
