//! The plugins of the configuration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use deputize_agent::is_secret_name;
use deputize_agent::plugins::{PluginConfig, PluginLoader, PluginProcess};
use deputize_core::sanitize::Secrets;

use crate::config::{Config, PluginEntry};
use crate::process_env::ProcessEnv;
use crate::processes::{self, PLUGIN_HOST};

/// How this program loads plugins.
pub(crate) fn loader(env: &ProcessEnv) -> PluginLoader {
    let sessions = env.sessions().ok();
    let state = sessions.as_ref().and_then(|sessions| sessions.path().parent());
    PluginLoader {
        env: env.os_env.clone(),
        host_argument: PLUGIN_HOST,
        supervisor: processes::setup(env.open_files),
        store: state.map(|state| state.join("plugins")),
    }
}

/// A plugin of the configuration.
pub(crate) fn plugin(entry: &PluginEntry, env: &ProcessEnv) -> PluginConfig {
    PluginConfig {
        path: place(entry, env),
        sha256: entry.sha256.clone(),
        isolated: entry.isolated,
        process: PluginProcess { env: entry.env.clone(), memory_mb: entry.memory_mb },
    }
}

/// Variables that plugins are to be given and that are not set.
pub(super) fn unset(config: &Config, env: &ProcessEnv) -> Vec<String> {
    let one = |entry: &PluginEntry| {
        let path = entry.path.clone();
        let unset = entry.env.iter().filter(|name| !env.os_env.contains_key(OsStr::new(name)));
        let warning = move |name: &String| {
            format!("plugin `{path}`: its `env` names the variable `{name}`, which is not set")
        };
        unset.map(warning).collect::<Vec<_>>()
    };
    config.plugins.iter().flat_map(one).collect()
}

/// The values that plugins are given and that nobody else may see.
pub(super) fn secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    let named = config.plugins.iter().flat_map(|plugin| &plugin.env);
    for name in named.filter(|name| is_secret_name(name)) {
        if let Some(value) = env.var(name) {
            secrets.add(name, value);
        }
    }
}

/// Where a plugin of the configuration is.
pub(crate) fn place(entry: &PluginEntry, env: &ProcessEnv) -> PathBuf {
    match (entry.path.strip_prefix("~/"), env.var("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(&entry.path),
    }
}
