//! Reading all layers, and all that is wrong with them, in one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::findings::Findings;
use super::keys::Config;
use super::layer::{self, FlagValue};
use super::place::{ConfigPlace, ConfigSource, Problem};
use super::tree::{PlacedValue, Value};
use super::{check, clamp, rules, toolsets};

/// Limit on listed problems; further ones are counted.
const MAX_LISTED_PROBLEMS: usize = 100;

/// Where the configuration comes from. Nothing else is read: no variable of the process's own
/// environment, no working directory.
#[derive(Clone, Default)]
pub struct Sources {
    /// The working directory; its `.deputize/config.yaml` is the project's.
    pub cwd: PathBuf,
    /// `--config`: a file to read instead of the person's own.
    pub config_file: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// `--set` options, each KEY=VALUE, in their order.
    pub set: Vec<String>,
    /// Other options that set keys, the strongest layer.
    pub flags: Vec<FlagValue>,
    /// The toolsets that the program has; empty: the names of toolsets are not checked.
    pub toolsets: BTreeSet<String>,
    /// Returns the toolset of a tool, for an error about a toolset that is the name of a tool.
    pub toolset_of: Option<fn(&str) -> Option<String>>,
    /// Whether the person lets agents read the project's own files.
    pub project_files: bool,
}

impl fmt::Debug for Sources {
    /// Leaves out the environment, which holds keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("cwd", &self.cwd)
            .field("config_file", &self.config_file)
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Returns the file of the person's own configuration: `--config`, or `config.yaml` in
    /// [`Sources::home`]. `None` when the environment names no home directory.
    pub fn user_file(&self) -> Option<PathBuf> {
        let default = || self.home().map(|home| home.join("config.yaml"));
        self.config_file.clone().or_else(default)
    }

    /// `$DEPUTIZE_HOME`, or `deputize` in the platform's configuration directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.homes().next()
    }

    /// Returns the folders that it may be: the first of them is it.
    pub fn homes(&self) -> impl Iterator<Item = PathBuf> {
        let var = |name: &str| {
            self.env.get(name).filter(|value| !value.is_empty()).map(|value| self.cwd.join(value))
        };
        let platform = || {
            if cfg!(windows) {
                return var("APPDATA");
            }
            if cfg!(target_os = "macos") {
                return var("HOME").map(|home| home.join("Library/Application Support"));
            }
            // The directory specification says that a relative path is to be ignored.
            let xdg = self.env.get("XDG_CONFIG_HOME").map(PathBuf::from);
            let xdg = xdg.filter(|path| path.is_absolute());
            xdg.or_else(|| var("HOME").map(|home| home.join(".config")))
        };
        let platform = platform().map(|dir| dir.join("deputize"));
        var("DEPUTIZE_HOME").into_iter().chain(platform)
    }

    pub(super) fn project_file(&self) -> PathBuf {
        self.cwd.join(".deputize").join("config.yaml")
    }
}

/// A configuration without mistakes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The values in force.
    pub config: Config,
    /// What the operator should know although it works.
    pub warnings: Vec<Problem>,
    /// For each key that is not a default, dotted, the place that set it.
    pub origins: BTreeMap<String, ConfigPlace>,
}

/// All mistakes of a configuration, one a line, in the order of the layers and lines.
/// The exit code is [`ConfigError::EXIT_CODE`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list_problems(problems))]
pub struct ConfigError {
    /// The mistakes; at least one.
    pub problems: Vec<Problem>,
    /// What the operator should know besides.
    pub warnings: Vec<Problem>,
    /// Files of authorities that providers name, which nobody has read: by whom, which, and where.
    pub ca_files: Vec<(String, String, ConfigPlace)>,
}

impl ConfigError {
    /// Wrong usage or configuration.
    pub const EXIT_CODE: u8 = 2;
}

fn list_problems(problems: &[Problem]) -> String {
    let mut lines: Vec<String> =
        problems.iter().take(MAX_LISTED_PROBLEMS).map(Problem::to_string).collect();
    let rest = problems.len().saturating_sub(MAX_LISTED_PROBLEMS);
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}

/// Reads all layers and merges them, later ones winning: defaults, the person's file, environment
/// variables `DEPUTIZE__SECTION__KEY`, `--set`, other options. The project's file is not read.
///
/// # Errors
///
/// Every mistake of every layer, also of values that a later layer replaces.
pub fn load(sources: &Sources) -> Result<LoadedConfig, ConfigError> {
    let mut found = Findings::default();
    let layers = layers(sources, &mut found);
    let source = Arc::new(ConfigSource::Flag("defaults".to_owned()));
    let mut merged = PlacedValue::empty_map(ConfigPlace::whole(&source));
    for layer in layers {
        check::check(&layer, &mut found.errors);
        merged.overlay(layer);
    }
    rules::check(&merged, &mut found);
    toolsets::check(&merged, &sources.toolsets, sources.toolset_of, &mut found);
    clamp::apply(&mut merged, &mut found.warnings);
    let config = match serde_json::from_value(merged.to_json()) {
        Ok(config) if found.errors.is_empty() => config,
        Ok(_) => return Err(refusal(found)),
        Err(error) => {
            if found.errors.is_empty() {
                found.errors.push(Problem::new(&merged.place, error.to_string()));
            }
            return Err(refusal(found));
        }
    };
    let mut origins = BTreeMap::new();
    collect_origins(&merged, "", &mut origins);
    Ok(LoadedConfig { config, warnings: in_order(found.warnings), origins })
}

fn layers(sources: &Sources, found: &mut Findings) -> Vec<PlacedValue> {
    let user = sources.user_file();
    let must_exist = sources.config_file.is_some();
    let file = user.as_deref().and_then(|path| layer::file(path, must_exist, &mut found.errors));
    ignore_project(&sources.project_file(), user.as_deref(), found);
    let mut layers: Vec<PlacedValue> = file.into_iter().collect();
    layers.extend(layer::env(&sources.env, &mut found.errors));
    layers.extend(layer::set(&sources.set, &mut found.errors));
    layers.extend(sources.flags.iter().map(FlagValue::layer));
    layers
}

/// Says that the project's file has no say. It is not even opened: what is in it may have been
/// written by anybody.
fn ignore_project(path: &Path, user: Option<&Path>, found: &mut Findings) {
    if Some(path) == user || path.symlink_metadata().is_err() {
        return;
    }
    let place = ConfigPlace::whole(&Arc::new(ConfigSource::File(path.to_owned())));
    let message = "this project configuration is ignored: a directory cannot be trusted yet, and \
                   without trust a project must not choose endpoints, programs or permissions; \
                   `--config` reads a file all the same";
    found.warnings.push(Problem::new(&place, message));
}

fn refusal(found: Findings) -> ConfigError {
    let problems = in_order(found.errors);
    let warnings = in_order(found.warnings);
    ConfigError { problems, warnings, ca_files: found.ca_files }
}

/// Sorts problems by layer and line, and removes duplicates.
pub fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort();
    problems.dedup();
    problems
}

fn collect_origins(node: &PlacedValue, path: &str, origins: &mut BTreeMap<String, ConfigPlace>) {
    for (key, entry) in node.entries() {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{key}");
        if matches!(entry.node.value, Value::Map(_)) {
            collect_origins(&entry.node, &path, origins);
        } else {
            origins.insert(path, entry.key.clone());
        }
    }
}
