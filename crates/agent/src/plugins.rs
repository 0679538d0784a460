//! Dynamic plugins: what they have, and how their calls are reached.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::server_names::{server_of_toolset, split_server_tool};
use deputize_core::{
    Catalog, CatalogEntry, CatalogError, Origin, ToolCx, ToolName, ToolSource, ToolsetName,
};
use deputize_plugin_host::{
    Description, HostError, HostProgram, InProcessPlugin, IsolatedPlugin, MEMORY_MB,
    PluginBoundary, PluginError, PluginFile, PluginFileError, entries,
};
use deputize_process::{Supervisor, SupervisorConfig, base_env, drop_hooks, this_program};
use deputize_tools::Processes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::extension::{Extension, ExtensionContext, ExtensionError};
use crate::helper;

/// A plugin, and how it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginConfig {
    /// The library's file, absolute.
    pub path: PathBuf,
    /// The file's SHA-256 in hexadecimal. Another file is refused.
    pub sha256: String,
    /// Whether it runs in a process of its own. Without one it has all rights of this program, and
    /// its faults may end the program.
    pub isolated: bool,
    /// Settings of its process.
    pub process: PluginProcess,
}

impl PluginConfig {
    /// Returns the settings of a plugin that runs in a process of its own.
    pub fn new(path: impl Into<PathBuf>, sha256: impl Into<String>) -> Self {
        let path = path.into();
        let sha256 = sha256.into();
        Self { path, sha256, isolated: true, process: PluginProcess::default() }
    }
}

/// Settings of a plugin's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginProcess {
    /// Names of variables that it gets of this program's environment, beside the harmless ones.
    pub env: Vec<String>,
    /// Its memory, in MB (1,048,576 bytes).
    pub memory_mb: u32,
}

impl Default for PluginProcess {
    fn default() -> Self {
        Self { env: Vec::new(), memory_mb: MEMORY_MB }
    }
}

/// A plugin with its own description of what it has. A recording keeps it, so that a replay has its
/// tools without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// The library's file.
    pub path: PathBuf,
    /// The file's SHA-256 in hexadecimal.
    pub sha256: String,
    /// Whether it runs in a process of its own.
    pub isolated: bool,
    /// Settings of its process; not recorded.
    #[serde(skip)]
    process: PluginProcess,
    /// The plugin's own description, as JSON.
    pub description: String,
}

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginLoadError {
    /// It cannot be loaded, or does not describe itself.
    #[error("plugin `{}` cannot be used", path.display())]
    Plugin {
        /// Path of the file.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: PluginError,
    },
    /// The same where the cause names the file.
    #[error(transparent)]
    Named(PluginError),
    /// It cannot be asked what it has.
    #[error("cannot start a runtime for listing the tools of plugins")]
    Runtime(#[source] io::Error),
    /// One of its tools is in the toolset of another source.
    #[error(
        "plugin `{}` puts tool `{tool}` in the toolset `{toolset}`, which is another one's \
         ({owner}); its author has to name another toolset",
        path.display()
    )]
    Toolset {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tool.
        tool: ToolName,
        /// Name of the toolset.
        toolset: ToolsetName,
        /// Whose toolset it is.
        owner: Origin,
    },
    /// One of its tools is named like a tool of an MCP server.
    #[error(
        "plugin `{}` has tool `{tool}` in the toolset `{toolset}`: tools `mcp__…` and toolsets \
         `mcp-…` are those of MCP servers; its author has to choose other names",
        path.display()
    )]
    Servers {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tool.
        tool: ToolName,
        /// Name of the toolset.
        toolset: ToolsetName,
    },
    /// One of its tools has the name of another tool.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// It is to run in a process of its own, which this program does not start.
    #[error(
        "plugin `{}` runs in a process of its own; call `run_as_helper` first in `main`, or set \
         `isolated` to false",
        .0.display()
    )]
    NoHelper(PathBuf),
}

impl PluginLoadError {
    /// Returns what is wrong with the plugin at a path, which is named once.
    fn at(path: &Path, source: PluginError) -> Self {
        match source {
            PluginError::File(_) | PluginError::Description { .. } => Self::Named(source),
            source => Self::Plugin { path: path.to_owned(), source },
        }
    }
}

/// Loads plugins for a program.
#[derive(Debug, Clone)]
pub struct PluginLoader {
    /// The environment of the program. A plugin's own process gets the harmless part of it.
    pub env: BTreeMap<OsString, OsString>,
    /// The only argument with which the program becomes the process of a plugin, which calls
    /// `deputize_plugin_host::host_main`.
    pub host_argument: &'static str,
    /// How the process of a plugin is owned that is only asked what it has.
    pub supervisor: SupervisorConfig,
    /// Where descriptions are kept by the digest of their file, so that each is asked for once;
    /// `None` asks every time.
    pub store: Option<PathBuf>,
}

impl PluginLoader {
    /// The loader of an agent.
    fn of_agent(cx: &ExtensionContext<'_>) -> Self {
        Self {
            env: cx.env.clone(),
            host_argument: helper::PLUGIN_HOST,
            supervisor: helper::supervisor_config(),
            store: None,
        }
    }

    /// Describes a plugin. One whose file was described before is not loaded.
    ///
    /// # Errors
    /// When it cannot be loaded, or does not describe itself.
    pub fn describe(&self, config: &PluginConfig) -> Result<PluginRecord, PluginLoadError> {
        let mut record = check_file(config)?;
        let store = self.store.as_ref().map(|dir| dir.join(format!("{}.json", record.sha256)));
        if let Some(text) = store.as_deref().and_then(|file| std::fs::read_to_string(file).ok())
            && Description::parse(&text).is_ok()
        {
            record.description = text;
            return Ok(record);
        }
        let (text, _) = self.load_record(&record)?;
        if let Some(file) = store {
            keep(&file, &text);
        }
        record.description = text;
        Ok(record)
    }

    /// Loads a plugin where its calls would run, and has it describe itself.
    ///
    /// # Errors
    /// When it cannot be loaded, or does not describe itself.
    pub fn load(&self, config: &PluginConfig) -> Result<Description, PluginLoadError> {
        Ok(self.load_record(&check_file(config)?)?.1)
    }

    fn load_record(&self, record: &PluginRecord) -> Result<(String, Description), PluginLoadError> {
        let text = self.ask(record)?;
        let failed = |error| PluginLoadError::at(&record.path, with_file_name(error, &record.path));
        let description = Description::parse(&text).map_err(failed)?;
        Ok((text, description))
    }

    /// Adds the tools of a plugin. Nothing is loaded or started before a call.
    ///
    /// # Errors
    /// When one of its tools takes a name or a toolset that is another one's.
    pub fn add(
        &self,
        record: &PluginRecord,
        catalog: &mut Catalog,
    ) -> Result<Description, PluginLoadError> {
        let description = Description::parse(&record.description);
        let description = description.map_err(|it| PluginLoadError::at(&record.path, it))?;
        add_plugin_tools(&description, &record.path, &self.boundary(record), catalog)?;
        Ok(description)
    }

    fn boundary(&self, record: &PluginRecord) -> Arc<dyn PluginBoundary> {
        let path = record.path.clone();
        let sha256 = record.sha256.clone();
        if !record.isolated {
            return Arc::new(InProcessPlugin::new(path, sha256));
        }
        let owner = |cx: Option<&ToolCx>| match cx {
            Some(cx) => cx.agent.session.settings.get_or_insert_with(Processes::default).shared(),
            None => Supervisor::start().map(Arc::new),
        };
        Arc::new(IsolatedPlugin::new(path, sha256, self.host_program(&record.process), owner))
    }

    /// Returns a plugin in a process that a supervisor owns, whoever calls it.
    #[must_use]
    pub fn isolate(&self, file: &PluginFile, supervisor: &Arc<Supervisor>) -> IsolatedPlugin {
        let path = file.path().to_owned();
        let sha256 = file.sha256().to_owned();
        let host = self.host_program(&PluginProcess::default());
        let by = Arc::clone(supervisor);
        IsolatedPlugin::new(path, sha256, host, move |_| Ok(Arc::clone(&by)))
    }

    /// The program, as the process of a plugin.
    fn host_program(&self, process: &PluginProcess) -> HostProgram {
        let mut env = base_env(&self.env);
        let named = process.env.iter().filter_map(|name| self.env.get_key_value(OsStr::new(name)));
        env.extend(named.map(|(name, value)| (name.clone(), value.clone())));
        drop_hooks(&mut env);
        let program = this_program().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        let args = vec![OsString::from(self.host_argument)];
        HostProgram { program, args, env, memory_mb: process.memory_mb }
    }

    /// Has a plugin describe itself, where it will run. A thread of its own waits, since the caller
    /// may be in a runtime already.
    fn ask(&self, record: &PluginRecord) -> Result<String, PluginLoadError> {
        let failed = |source| PluginLoadError::at(&record.path, source);
        let waited = std::thread::scope(|scope| {
            let asked = scope.spawn(|| -> Result<String, PluginLoadError> {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(PluginLoadError::Runtime)?;
                if !record.isolated {
                    return runtime.block_on(self.boundary(record).describe()).map_err(failed);
                }
                let supervisor = Supervisor::with(self.supervisor.clone());
                let supervisor =
                    supervisor.map_err(|error| failed(HostError::from(error).into()))?;
                let by = Arc::new(supervisor);
                let path = record.path.clone();
                let sha256 = record.sha256.clone();
                let host = self.host_program(&record.process);
                let isolated = IsolatedPlugin::new(path, sha256, host, move |_: Option<&_>| {
                    Ok(Arc::clone(&by))
                });
                runtime.block_on(isolated.describe()).map_err(failed)
            });
            asked.join()
        });
        waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Reads the file of a plugin and checks it. None of its code runs.
fn check_file(config: &PluginConfig) -> Result<PluginRecord, PluginLoadError> {
    let failed = |source: PluginFileError| PluginLoadError::at(&config.path, source.into());
    let file = PluginFile::read(&config.path).and_then(|file| file.verify(&config.sha256));
    let file = file.map_err(failed)?;
    file.table().map_err(failed)?;
    Ok(PluginRecord {
        path: config.path.clone(),
        sha256: file.sha256().to_owned(),
        isolated: config.isolated,
        process: config.process.clone(),
        description: String::new(),
    })
}

/// Adds the tools of a plugin. None takes a name or a toolset that is another one's.
///
/// # Errors
/// When one of them does.
pub fn add_plugin_tools(
    description: &Description,
    path: &Path,
    plugin: &Arc<dyn PluginBoundary>,
    catalog: &mut Catalog,
) -> Result<(), PluginLoadError> {
    for entry in entries(description, path, plugin) {
        let path = path.to_owned();
        let tool = entry.name().clone();
        if is_of_server(&entry) {
            return Err(PluginLoadError::Servers { path, tool, toolset: entry.toolset });
        }
        if let Some(owner) = other_owner(catalog, &entry) {
            return Err(PluginLoadError::Toolset { path, tool, toolset: entry.toolset, owner });
        }
        catalog.insert(entry)?;
    }
    Ok(())
}

/// Returns whether a tool has a name that tools of MCP servers have.
fn is_of_server(entry: &CatalogEntry) -> bool {
    split_server_tool(entry.name().as_str()).is_some()
        || server_of_toolset(entry.toolset.as_str()).is_some()
}

/// Returns who has the toolset of a tool, if that is not where the tool comes from. Whoever gives a
/// toolset to an agent knows what is in it.
fn other_owner(catalog: &Catalog, entry: &CatalogEntry) -> Option<Origin> {
    let other = |it: &&CatalogEntry| it.toolset == entry.toolset && it.origin != entry.origin;
    catalog.iter().find(other).map(|other| other.origin.clone())
}

/// Returns a fault of a description with the name of its file, where it has no name of its own.
#[must_use]
pub fn with_file_name(error: PluginError, path: &Path) -> PluginError {
    match error {
        PluginError::Description { plugin, why } if plugin == "?" => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            PluginError::Description { plugin: name, why }
        }
        error => error,
    }
}

/// Keeps a description. Where that cannot be, the plugin is asked again the next time.
fn keep(file: &Path, text: &str) {
    let half = file.with_extension(format!("{}.part", std::process::id()));
    let dir = file.parent().unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&half, text))
        .and_then(|()| std::fs::rename(&half, file));
    if written.is_err() {
        let _there_is_none = std::fs::remove_file(&half);
    }
}

impl Extension for PluginConfig {
    fn describe(&self, cx: &ExtensionContext<'_>) -> Result<Value, ExtensionError> {
        if self.isolated && !helper::is_available() {
            return Err(PluginLoadError::NoHelper(self.path.clone()).into());
        }
        Ok(serde_json::to_value(PluginLoader::of_agent(cx).describe(self)?)?)
    }

    fn add_tools(
        &self,
        described: &Value,
        cx: &ExtensionContext<'_>,
        catalog: &mut Catalog,
    ) -> Result<Option<Arc<dyn ToolSource>>, ExtensionError> {
        let record: PluginRecord = serde_json::from_value(described.clone())?;
        // What its process gets is in no record.
        let record = PluginRecord { process: self.process.clone(), ..record };
        PluginLoader::of_agent(cx).add(&record, catalog)?;
        Ok(None)
    }
}
