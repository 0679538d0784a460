//! Which toolsets of a job the configuration does not have, and what to do.

use deputize_core::sanitize::for_terminal_line;
use deputize_core::server_names::server_of_toolset;
use deputize_cron::Job;

use crate::compose::{mcp, missing_feature, toolsets_within};
use crate::config::{BROWSER_TOOLSET, Config, ConfigSource, LoadedConfig, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;

/// Characters of the name of a toolset.
const NAME_CHARS: usize = 40;

/// A job names a toolset that the configuration does not give to agents.
#[derive(Debug, thiserror::Error)]
enum ToolsetBeyond {
    #[error("toolset `{0}` is not among `toolsets` of the configuration")]
    Key(String),
    #[error("toolset `{0}` is not among those of `--toolsets`")]
    Option(String),
}

impl ToolsetBeyond {
    fn new(toolset: &str, loaded: &LoadedConfig) -> Self {
        let toolset = for_terminal_line(toolset, NAME_CHARS);
        let place = loaded.origins.get("toolsets");
        match place.map(|place| place.source()) {
            Some(ConfigSource::Flag(_)) => Self::Option(toolset),
            _ => Self::Key(toolset),
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Key(toolset) => {
                format!("`{} {toolset}` puts it there", format_command("tools enable"))
            }
            Self::Option(_) => "start this program with it, or without `--toolsets`".to_owned(),
        }
    }
}

/// Narrows the configuration to what the job names and may use.
pub(super) fn narrow(loaded: &mut LoadedConfig, job: &Job) -> Result<(), CliError> {
    let mut toolsets = Vec::new();
    for named in &job.toolsets {
        let within = toolsets_within(&loaded.config, named);
        if within.is_empty() {
            let beyond = ToolsetBeyond::new(named, loaded);
            let remedy = beyond.remedy();
            return Err(CliError::usage(beyond).hint(remedy));
        }
        toolsets.extend(within);
    }
    let config = &mut loaded.config;
    config.toolsets = toolsets;
    if let Some(most) = job.max_tokens {
        let tokens = config.budget.tokens.map_or(most, |tokens| tokens.min(most));
        config.budget.tokens = Some(tokens);
    }
    Ok(())
}

fn is_beyond(config: &Config, toolset: &str) -> bool {
    toolsets_within(config, toolset).is_empty()
}

/// Returns why a job does not get toolsets that it names, and what to do; `None` if it gets all.
pub(crate) fn toolset_fault(loaded: &LoadedConfig, env: &ProcessEnv, job: &Job) -> Option<String> {
    let mut faults = Vec::new();
    for toolset in &job.toolsets {
        if is_beyond(&loaded.config, toolset) {
            let beyond = ToolsetBeyond::new(toolset, loaded);
            faults.push(format!("{beyond}: {}", beyond.remedy()));
        } else {
            faults.extend(missing(&loaded.config, env, toolset));
        }
    }
    if faults.is_empty() {
        return None;
    }
    faults.push(format!("`{} {}` changes the job", format_command("cron edit"), job.name));
    Some(faults.join("; "))
}

/// Returns why nothing gives a toolset. What plugins bring is known only when they run.
fn missing(config: &Config, env: &ProcessEnv, toolset: &str) -> Option<String> {
    let shown = for_terminal_line(toolset, NAME_CHARS);
    if let Some(lack) = missing_feature(toolset) {
        return Some(lack);
    }
    if toolset == BROWSER_TOOLSET && !config.browser.enabled {
        return Some(format!("toolset `{shown}` is off: set `browser.enabled`"));
    }
    let own = config.composite_toolsets.keys();
    let is_known = env.toolsets.iter().chain(own).any(|known| known == toolset)
        || mcp::toolsets(config).any(|known| known == toolset);
    if is_known || env.toolsets.is_empty() || !config.plugins.is_empty() {
        return None;
    }
    if server_of_toolset(toolset).is_some() {
        return Some(format!("no server of `mcp_servers` gives the toolset `{shown}`"));
    }
    let near = nearest(toolset, env.toolsets.iter().map(String::as_str));
    let near = near.map(|near| format!(" (is it `{near}`?)")).unwrap_or_default();
    Some(format!("there is no toolset `{shown}` any more{near}"))
}
