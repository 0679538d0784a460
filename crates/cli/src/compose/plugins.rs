//! Dynamic plugins: which there are, what they have, and how their calls are reached.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_agent::is_secret_name;
use deputize_core::sanitize::Secrets;
use deputize_core::{Catalog, CatalogEntry, CatalogError, Origin, ToolName, ToolsetName};
use deputize_mcp::is_server_name;
use deputize_plugin_host::{
    Description, HostError, HostProgram, InProcessPlugin, IsolatedPlugin, PluginBoundary,
    PluginError, PluginFile, PluginFileError, entries,
};
use deputize_process::{Supervisor, base_env, drop_hooks};
use deputize_tools::Processes;
use serde::{Deserialize, Serialize};

use super::AssemblyInput;
use crate::config::{Config, MEMORY_MB, PluginEntry};
use crate::process_env::ProcessEnv;
use crate::processes::{self, PLUGIN_HOST};

/// A plugin as it was found. A recording keeps it, so that a replay tells its tools without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundPlugin {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) isolated: bool,
    /// What its own process gets; no recording tells of that.
    #[serde(skip)]
    room: PluginProcess,
    /// Its own answer to what it has.
    pub(crate) description: String,
}

/// What the process of a plugin gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PluginProcess {
    /// Names of variables.
    env: Vec<String>,
    memory_mb: u32,
}

/// Why the configuration's plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PluginFault {
    #[error("plugin `{}` cannot be used", path.display())]
    Plugin {
        path: PathBuf,
        #[source]
        source: PluginError,
    },
    #[error(transparent)]
    Named(PluginError),
    #[error("no runtime can be started to ask plugins what they have")]
    Runtime(#[source] io::Error),
    #[error(
        "plugin `{}` puts tool `{tool}` in the toolset `{toolset}`, which is another one's \
         ({owner}); its author has to name another toolset",
        path.display()
    )]
    Toolset { path: PathBuf, tool: ToolName, toolset: ToolsetName, owner: Origin },
    #[error(
        "plugin `{}` has tool `{tool}` in the toolset `{toolset}`: tools `mcp__…` and toolsets \
         `mcp-…` are those of MCP servers; its author has to choose other names",
        path.display()
    )]
    Servers { path: PathBuf, tool: ToolName, toolset: ToolsetName },
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl PluginFault {
    /// What is wrong with the plugin at this path, which is named once.
    fn of(path: &Path, source: PluginError) -> Self {
        match source {
            PluginError::File(_) | PluginError::Description { .. } => Self::Named(source),
            source => Self::Plugin { path: path.to_owned(), source },
        }
    }
}

/// Looks at the plugins of the configuration. What one has is asked once for each file: it says
/// the same every time.
pub(super) fn find(from: &AssemblyInput<'_>) -> Result<Vec<FoundPlugin>, PluginFault> {
    from.config.plugins.iter().map(|entry| one(entry, from.surroundings)).collect()
}

/// Variables that plugins are to be given and that are not set.
pub(super) fn unset(config: &Config, around: &ProcessEnv) -> Vec<String> {
    let one = |entry: &PluginEntry| {
        let path = entry.path.clone();
        let unset = entry.env.iter().filter(|name| !around.os_env.contains_key(OsStr::new(name)));
        let told = move |name: &String| {
            format!("plugin `{path}`: its `env` names the variable `{name}`, which is not set")
        };
        unset.map(told).collect::<Vec<_>>()
    };
    config.plugins.iter().flat_map(one).collect()
}

/// Looks at one plugin of the configuration.
pub(crate) fn one(entry: &PluginEntry, around: &ProcessEnv) -> Result<FoundPlugin, PluginFault> {
    let mut found = pinned(entry, around)?;
    let kept = kept_at(&found.sha256, around);
    if let Some(text) = kept.as_deref().and_then(|kept| std::fs::read_to_string(kept).ok())
        && Description::parse(&text).is_ok()
    {
        found.description = text;
        return Ok(found);
    }
    let (text, _) = described(&found, around)?;
    if let Some(kept) = kept {
        keep(&kept, &text);
    }
    found.description = text;
    Ok(found)
}

/// Loads one plugin of the configuration where its calls would run, and has it say what it has.
pub(crate) fn loaded(entry: &PluginEntry, around: &ProcessEnv) -> Result<Description, PluginFault> {
    Ok(described(&pinned(entry, around)?, around)?.1)
}

fn described(
    found: &FoundPlugin,
    around: &ProcessEnv,
) -> Result<(String, Description), PluginFault> {
    let text = ask(found, around)?;
    let failed = |error| PluginFault::of(&found.path, named(error, &found.path));
    let description = Description::parse(&text).map_err(failed)?;
    Ok((text, description))
}

/// One plugin of the configuration by its file, none of whose code has run yet.
fn pinned(entry: &PluginEntry, around: &ProcessEnv) -> Result<FoundPlugin, PluginFault> {
    let path = place(entry, around);
    let failed = |source: PluginFileError| PluginFault::of(&path, source.into());
    let file = PluginFile::read(&path).and_then(|file| file.pinned(&entry.sha256));
    let file = file.map_err(failed)?;
    file.table().map_err(failed)?;
    Ok(FoundPlugin {
        path: path.clone(),
        sha256: file.sha256().to_owned(),
        isolated: entry.isolated,
        room: PluginProcess { env: entry.env.clone(), memory_mb: entry.memory_mb },
        description: String::new(),
    })
}

/// Adds the tools of the plugins that were found. Nothing is loaded or started before a call.
pub(super) fn add(
    found: &[FoundPlugin],
    around: &ProcessEnv,
    catalog: &mut Catalog,
) -> Result<(), PluginFault> {
    found.iter().try_for_each(|plugin| add_one(plugin, around, catalog).map(|_| ()))
}

/// Adds the tools of one plugin that was found.
pub(crate) fn add_one(
    found: &FoundPlugin,
    around: &ProcessEnv,
    catalog: &mut Catalog,
) -> Result<Description, PluginFault> {
    let description = Description::parse(&found.description);
    let description = description.map_err(|source| PluginFault::of(&found.path, source))?;
    add_tools(&description, &found.path, &boundary(found, around), catalog)?;
    Ok(description)
}

/// Adds the tools that a plugin has: none takes a name or a toolset that is another one's.
pub(crate) fn add_tools(
    description: &Description,
    path: &Path,
    plugin: &Arc<dyn PluginBoundary>,
    catalog: &mut Catalog,
) -> Result<(), PluginFault> {
    for entry in entries(description, path, plugin) {
        let (path, tool) = (path.to_owned(), entry.name().clone());
        if is_server_name(&tool, &entry.toolset) {
            return Err(PluginFault::Servers { path, tool, toolset: entry.toolset });
        }
        if let Some(owner) = other_owner(catalog, &entry) {
            return Err(PluginFault::Toolset { path, tool, toolset: entry.toolset, owner });
        }
        catalog.insert(entry)?;
    }
    Ok(())
}

/// Who has the toolset of a tool, if that is not where the tool comes from: whoever gives a
/// toolset to an agent knows what is in it.
fn other_owner(catalog: &Catalog, entry: &CatalogEntry) -> Option<Origin> {
    let other = |it: &&CatalogEntry| it.toolset == entry.toolset && it.origin != entry.origin;
    catalog.iter().find(other).map(|other| other.origin.clone())
}

fn boundary(plugin: &FoundPlugin, around: &ProcessEnv) -> Arc<dyn PluginBoundary> {
    let FoundPlugin { path, sha256, isolated, room, .. } = plugin;
    if !isolated {
        return Arc::new(InProcessPlugin::new(path.clone(), sha256.clone()));
    }
    let owned = |cx: Option<&deputize_core::ToolCx>| match cx {
        Some(cx) => cx.agent.session.settings.get_or_insert_with(Processes::default).shared(),
        None => Supervisor::start().map(Arc::new),
    };
    Arc::new(IsolatedPlugin::new(path.clone(), sha256.clone(), host_program(around, room), owned))
}

/// A plugin in a process that this supervisor owns, whoever calls it.
pub(crate) fn isolated(
    file: &PluginFile,
    around: &ProcessEnv,
    by: &Arc<Supervisor>,
) -> IsolatedPlugin {
    let by = Arc::clone(by);
    let (path, sha256) = (file.path().to_owned(), file.sha256().to_owned());
    let room = PluginProcess { memory_mb: MEMORY_MB, ..PluginProcess::default() };
    IsolatedPlugin::new(path, sha256, host_program(around, &room), move |_| Ok(Arc::clone(&by)))
}

/// This program, as the process of a plugin.
fn host_program(around: &ProcessEnv, room: &PluginProcess) -> HostProgram {
    let mut env = base_env(&around.os_env);
    let named = room.env.iter().filter_map(|name| around.os_env.get_key_value(OsStr::new(name)));
    env.extend(named.map(|(name, value)| (name.clone(), value.clone())));
    drop_hooks(&mut env);
    let program =
        deputize_process::this_program().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let args = vec![OsString::from(PLUGIN_HOST)];
    HostProgram { program, args, env, memory_mb: room.memory_mb }
}

/// The values that plugins are given and that nobody else may see.
pub(super) fn secrets(config: &Config, around: &ProcessEnv, secrets: &mut Secrets) {
    let named = config.plugins.iter().flat_map(|plugin| &plugin.env);
    for name in named.filter(|name| is_secret_name(name)) {
        if let Some(value) = around.var(name) {
            secrets.add(name, value);
        }
    }
}

/// Has a plugin say what it has, where it will run. A thread of its own waits, since whoever
/// composes may be in a runtime already.
fn ask(found: &FoundPlugin, around: &ProcessEnv) -> Result<String, PluginFault> {
    let failed = |source| PluginFault::of(&found.path, source);
    let waited = std::thread::scope(|scope| {
        let asked = scope.spawn(|| -> Result<String, PluginFault> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(PluginFault::Runtime)?;
            if !found.isolated {
                return runtime.block_on(boundary(found, around).describe()).map_err(failed);
            }
            let setup = processes::setup(around.open_files);
            let supervisor =
                Supervisor::with(setup).map_err(|error| failed(HostError::from(error).into()))?;
            let by = Arc::new(supervisor);
            let owned = move |_: Option<&_>| Ok(Arc::clone(&by));
            let (path, sha256) = (found.path.clone(), found.sha256.clone());
            let isolated =
                IsolatedPlugin::new(path, sha256, host_program(around, &found.room), owned);
            runtime.block_on(isolated.describe()).map_err(failed)
        });
        asked.join()
    });
    waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A description's fault with the file that it is of, where it has not even a name.
pub(crate) fn named(error: PluginError, path: &Path) -> PluginError {
    match error {
        PluginError::Description { plugin, why } if plugin == "?" => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            PluginError::Description { plugin: name, why }
        }
        error => error,
    }
}

/// Where a plugin of the configuration is.
pub(crate) fn place(entry: &PluginEntry, around: &ProcessEnv) -> PathBuf {
    match (entry.path.strip_prefix("~/"), around.var("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(&entry.path),
    }
}

/// Where what a file says of itself is kept; by its digest, so that it is never another one's.
fn kept_at(sha256: &str, around: &ProcessEnv) -> Option<PathBuf> {
    let sessions = around.sessions().ok()?;
    Some(sessions.path().parent()?.join("plugins").join(format!("{sha256}.json")))
}

/// Keeps a description. Where that cannot be, the plugin is asked again the next time.
fn keep(kept: &Path, text: &str) {
    let half = kept.with_extension(format!("{}.part", std::process::id()));
    let dir = kept.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&half, text))
        .and_then(|()| std::fs::rename(&half, kept));
    if written.is_err() {
        let _there_is_none = std::fs::remove_file(&half);
    }
}
