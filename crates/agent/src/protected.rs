//! Paths to which no agent writes, wherever it works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders of configuration and state below a home directory.
const HOME_FOLDERS: [&str; 2] = [".config/deputize", ".local/state/deputize"];
/// The folder of a project's own settings, wherever the project is. A version that trusts projects
/// would obey what is planted there today.
const PROJECT: &str = ".deputize";
/// Names in a folder of configuration or state.
const OWN: [&str; 4] = ["config.yaml", "control", "mcp", "sessions"];
/// The variables that name a configuration file of git.
const GIT_CONFIGS: [&str; 2] = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];

/// Returns the paths to which an agent in `cwd` does not write: the folders and files of the
/// program, those that the command line has by default below the home directory, the settings of
/// any project, and configuration files of git that variables name. Each path is there as it is
/// named and without links.
#[must_use]
pub fn protected_paths(
    env: &BTreeMap<String, String>,
    cwd: &Path,
    folders: impl IntoIterator<Item = PathBuf>,
    files: impl IntoIterator<Item = PathBuf>,
) -> BTreeSet<PathBuf> {
    let home = env.get("HOME").map(|home| cwd.join(home));
    let default = home.into_iter().flat_map(|home| HOME_FOLDERS.map(|folder| home.join(folder)));
    let mut real = RealPaths::default();
    let real_cwd = real.of(cwd);
    let named = folders.into_iter().chain(default).flat_map(|folder| {
        // An agent that works inside such a folder may write what else is there.
        if real_cwd.starts_with(real.of(&folder)) {
            OWN.map(|name| folder.join(name)).to_vec()
        } else {
            vec![folder.join("config.yaml"), folder]
        }
    });
    let named: Vec<_> = named.chain(files).chain(git_configs(env, cwd)).collect();
    let absolute = named.into_iter().filter(|path| path.is_absolute());
    let all = absolute.flat_map(|path| [real.of(&path), path]);
    let inside = real_cwd.components().any(|part| part.as_os_str().eq_ignore_ascii_case(PROJECT));
    let project = match inside {
        true => Path::new(PROJECT).join("config.yaml"),
        false => PathBuf::from(PROJECT),
    };
    all.chain([project]).collect()
}

/// Returns the configuration files of git that variables name. Those at the usual places are
/// guarded by their names.
fn git_configs(env: &BTreeMap<String, String>, cwd: &Path) -> Vec<PathBuf> {
    let files = GIT_CONFIGS.into_iter().filter_map(|name| env.get(name)).map(PathBuf::from);
    let folder = env.get("XDG_CONFIG_HOME").map(|folder| Path::new(folder).join("git/config"));
    files.chain(folder).map(|file| cwd.join(file)).collect()
}

/// Paths without links. Most of those that are asked for lie in the same few folders.
#[derive(Debug, Default)]
struct RealPaths {
    known: BTreeMap<PathBuf, RealPath>,
}

/// A path without links, as far as it is there.
#[derive(Debug, Clone)]
struct RealPath {
    path: PathBuf,
    exists: bool,
}

impl RealPaths {
    fn of(&mut self, path: &Path) -> PathBuf {
        self.resolve(path).path
    }

    fn resolve(&mut self, path: &Path) -> RealPath {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let parent = path.parent().map(|parent| self.resolve(parent));
        // What lies in a folder that is not there is not there either.
        let there = parent.as_ref().is_none_or(|parent| parent.exists);
        let found = there.then(|| path.canonicalize().ok()).flatten();
        let exists = found.is_some();
        let missing = || {
            let name = path.components().next_back();
            parent.zip(name).map(|(parent, name)| parent.path.join(name))
        };
        let path_found = found.or_else(missing).unwrap_or_else(|| path.to_owned());
        let real = RealPath { path: path_found, exists };
        self.known.insert(path.to_owned(), real.clone());
        real
    }
}
