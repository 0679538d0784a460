//! Translates the configuration into the settings of other crates.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use deputize_agent::{AssemblyLimits, project};
use deputize_core::agent::AgentLimits;
use deputize_core::message::{AssistantMessage, UserMessage};
use deputize_core::model::ModelOptions;
use deputize_core::sanitize::Secrets;
use deputize_core::server_names::{server_of_toolset, split_server_tool};
use deputize_core::setting_names::SettingNames;
use deputize_core::tool::ToolsetParts;
use deputize_core::{Catalog, Message, ToolName, ToolsetName};
use deputize_documents::{ProfileLibrary, SkillLibrary};
use deputize_runtime::{Budgets, Heartbeat};
use deputize_tools::{MEMORY_TOOL, MemoryFiles};

use super::input::{AssemblyInput, ComposeError};
use super::mcp;
use crate::config::{
    BROWSER_TOOLSET, Config, OPTIONAL_TOOLSETS, PrefillMessage, PrefillRole, built_without, nearest,
};
use crate::process_env::ProcessEnv;

/// Returns the options of a model, with its own or the configured limit on an answer.
pub(super) fn options(config: &Config, max_output_tokens: Option<u32>) -> ModelOptions {
    let configured = Some(config.max_output_tokens).filter(|tokens| *tokens > 0);
    ModelOptions {
        reasoning_effort: config.reasoning_effort.word(),
        max_output_tokens: max_output_tokens.or(configured),
    }
}

/// Returns the limits of agents.
pub(super) fn limits(config: &Config) -> AssemblyLimits {
    let time = config.budget.seconds.unwrap_or_default();
    AssemblyLimits {
        agent: AgentLimits {
            max_iterations: config.max_iterations,
            time_ms: u64::from(time) * 1000,
            wrap_up_ms: u64::from(config.delegation.limits.wrap_up_seconds) * 1000,
        },
        budgets: Budgets {
            session: config.budget.spending(),
            children: config.delegation.budget.spending(),
        },
        children_time: config.delegation.budget.seconds.map(seconds),
        heartbeat: heartbeat(config),
        compaction: config.compaction.clone(),
    }
}

/// Returns when children send heartbeats.
fn heartbeat(config: &Config) -> Heartbeat {
    let set = &config.delegation;
    Heartbeat {
        every: seconds(set.heartbeat_seconds.max(1)),
        stale_idle: seconds(set.stale_idle_seconds),
        stale_in_tool: seconds(set.stale_in_tool_seconds),
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// Adds the toolsets that the configuration makes of others. What cannot be a name is left out.
pub(super) fn add_composites(config: &Config, catalog: &mut Catalog) {
    for (name, entry) in &config.composite_toolsets {
        let tools = entry.tools.iter().filter_map(|tool| ToolName::new(tool.as_str()).ok());
        let includes = entry.includes.iter();
        let includes = includes.filter_map(|set| ToolsetName::new(set.as_str()).ok());
        let parts = ToolsetParts { tools: tools.collect(), includes: includes.collect() };
        if let Ok(name) = ToolsetName::new(name.as_str()) {
            catalog.insert_composite(name, parts);
        }
    }
}

/// Finds a tool that a toolset of the configuration names and that is not there.
///
/// # Errors
/// If there is one.
pub(super) fn check_composites(config: &Config, catalog: &Catalog) -> Result<(), ComposeError> {
    missing_tools(config, catalog).next().map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns the tools that toolsets of the configuration name and that are not there, each with the key
/// that names it. One of a server may be out of reach for a while.
pub(crate) fn missing_tools(
    config: &Config,
    catalog: &Catalog,
) -> impl Iterator<Item = (String, ComposeError)> {
    let of_server = |tool: &str| ToolName::new(tool).is_ok() && split_server_tool(tool).is_some();
    let named = config.composite_toolsets.iter();
    let named = named.flat_map(|(set, entry)| entry.tools.iter().map(move |tool| (set, tool)));
    let missing = named.filter(move |(_, tool)| catalog.get(tool).is_none() && !of_server(tool));
    missing.map(|(set, tool)| {
        let names = catalog.iter().map(|entry| entry.name().as_str());
        let near = nearest(tool, names).map(str::to_owned);
        let key = format!("composite_toolsets.{set}.tools");
        (key, ComposeError::CompositeTool { set: set.clone(), tool: tool.clone(), near })
    })
}

/// Returns the toolsets of the top agent: all, or the configured ones. Names of later versions were
/// reported when the configuration was read.
pub(super) fn toolsets(
    config: &Config,
    catalog: &Catalog,
) -> Result<Vec<ToolsetName>, ComposeError> {
    let mut known = catalog.toolsets();
    if config.toolsets.is_empty() {
        return Ok(known.into_iter().collect());
    }
    known.extend(catalog.composites().cloned());
    let own = config.composite_toolsets.keys();
    known.extend(own.filter_map(|name| ToolsetName::new(name.as_str()).ok()));
    let mut chosen = Vec::new();
    let of_editor = mcp::toolsets_of_editor(config);
    for name in config.toolsets.iter().cloned().chain(of_editor) {
        if let Some(found) = known.iter().find(|known| known.as_str() == name) {
            if !chosen.contains(found) {
                chosen.push(found.clone());
            }
        } else if !OPTIONAL_TOOLSETS.contains(&name.as_str())
            // Why a server's tools are not to be had was told already.
            && server_of_toolset(&name).is_none()
        {
            if let Some(entry) = catalog.get(&name) {
                let hint = format!("that is a tool of the toolset `{}`", entry.toolset);
                return Err(ComposeError::Toolset { name, hint });
            }
            // Those of servers may lack their tools because this one was named instead of them.
            let known = known.iter().map(ToString::to_string).chain(mcp::toolsets(config));
            let off = cfg!(feature = "browser").then(|| BROWSER_TOOLSET.to_owned());
            let known = known
                .chain(off)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ");
            return Err(ComposeError::Toolset { name, hint: format!("known: {known}") });
        }
    }
    Ok(chosen)
}

pub(super) fn prefill(config: &Config) -> Vec<Message> {
    let message = |message: &PrefillMessage| {
        let text = message.content.clone();
        match message.role {
            PrefillRole::User => Message::User(UserMessage::new(text)),
            PrefillRole::Assistant => {
                Message::Assistant(AssistantMessage { text, ..AssistantMessage::default() })
            }
        }
    };
    config.prefill_messages.iter().map(message).collect()
}

/// Returns the places of skills: the program's, the person's, and the project's if its files are to
/// be read.
pub(crate) fn skill_library(from: &AssemblyInput<'_>) -> SkillLibrary {
    let library = deputize_tools::bundled_skills();
    let library = match &from.home {
        Some(home) => library.with_user(home.join("skills")),
        None => library,
    };
    if !from.project_files {
        return library;
    }
    let root = project::root(&from.cwd);
    library.with_project(&from.cwd, root.as_deref().unwrap_or(&from.cwd))
}

/// Returns the places of profiles: the program's, the person's, and the project's if its files are
/// to be read.
pub(crate) fn profile_library(from: &AssemblyInput<'_>) -> ProfileLibrary {
    let library = deputize_tools::bundled_profiles();
    let library = match &from.home {
        Some(home) => library.with_user(home.join("agents")),
        None => library,
    };
    if !from.project_files {
        return library;
    }
    let root = project::root(&from.cwd);
    library.with_project(&from.cwd, root.as_deref().unwrap_or(&from.cwd))
}

/// Returns the files of the memory; `None` if the program has a memory of its own, or no folder for
/// its state.
pub(crate) fn memory_files(env: &ProcessEnv, secrets: Secrets) -> Option<MemoryFiles> {
    let state = env.states().next().filter(|_| env.own.memory.is_none())?;
    Some(MemoryFiles::new(state.join(MEMORY_TOOL), secrets))
}

/// Returns where past sessions are searched.
#[cfg(feature = "session-search")]
pub(super) fn session_search(env: &ProcessEnv) -> deputize_session_index::SessionSearchSettings {
    let index = env.sessions().ok().map(deputize_session_index::SessionIndex::new);
    deputize_session_index::SessionSearchSettings { index }
}

/// Returns how agents use browsers.
#[cfg(feature = "browser")]
pub(super) fn browser(config: &Config) -> deputize_browser::BrowserSettings {
    let set = &config.browser;
    deputize_browser::BrowserSettings {
        enabled: set.enabled,
        program: Some(&set.program).filter(|path| !path.is_empty()).map(PathBuf::from),
        limits: deputize_browser::BrowserLimits {
            browsers: set.max_browsers as usize,
            timeout: seconds(set.timeout_seconds),
            ..deputize_browser::BrowserLimits::default()
        },
        setting_names: SettingNames::from_iter([
            ("allow_hosts", "fetch.allow_hosts"),
            ("browser_enabled", "browser.enabled"),
            ("browser_program", "browser.program"),
        ]),
    }
}

/// Returns that this program was built without a toolset, if it was.
pub(crate) fn missing_feature(toolset: &str) -> Option<String> {
    let lack = built_without(toolset)?;
    let is_built = match toolset {
        BROWSER_TOOLSET => cfg!(feature = "browser"),
        _ => cfg!(feature = "session-search"),
    };
    (!is_built).then_some(lack)
}

/// Returns a warning if the configuration asks for a browser that this program does not have.
pub(crate) fn browser_warning(config: &Config) -> Option<String> {
    let is_missing = config.browser.enabled && cfg!(not(feature = "browser"));
    let warning =
        "`browser.enabled`: this program was built without a browser, the feature `browser`";
    is_missing.then(|| warning.to_owned())
}

/// Returns the settings of the built-in tools.
pub(super) fn built_in(from: &AssemblyInput<'_>) -> deputize_tools::Settings {
    let config = from.config;
    deputize_tools::Settings {
        files: deputize_tools::FileLimits {
            read_lines: config.limits.read_lines as usize,
            read_bytes: config.limits.read_bytes as usize,
            ..deputize_tools::FileLimits::default()
        },
        on_stale_write: config.file_state.on_stale_write,
        commands: deputize_tools::CommandSettings {
            env: from.environment.os_env.clone(),
            background: deputize_tools::BackgroundLimits {
                commands: config.limits.background_commands as usize,
                setting_names: SettingNames::from_iter([(
                    "background_commands",
                    "limits.background_commands",
                )]),
                ..deputize_tools::BackgroundLimits::default()
            },
            cwd: Some(&config.terminal.cwd).filter(|cwd| !cwd.is_empty()).map(PathBuf::from),
            durable: config.terminal.durable.clone(),
            ..deputize_tools::CommandSettings::default()
        },
        code: deputize_tools::CodeLimits {
            seconds: config.code_execution.timeout_seconds,
            calls: config.code_execution.max_calls,
            output_bytes: config.code_execution.output_bytes as usize,
            setting_names: SettingNames::from_iter([
                ("code_seconds", "code_execution.timeout_seconds"),
                ("code_calls", "code_execution.max_calls"),
                ("code_output_bytes", "code_execution.output_bytes"),
            ]),
        },
        ..deputize_tools::Settings::default()
    }
}
