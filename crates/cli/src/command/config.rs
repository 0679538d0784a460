//! `deputize config`.

use std::path::Path;

use deputize_core::ToolName;
use deputize_core::server_names::{is_tool_of, split_server_tool};
use deputize_delegate::DELEGATION_TOOLSET;
use deputize_documents::ProfileError;
use deputize_plugin_host::PluginFile;

use crate::args::Config;
use crate::compose::{
    self, AssemblyInput, DollarLimits, LinkedTools, MissingPrice, ModelSelection, browser_warning,
    ca_file_fault, plugins, profile_library, unreachable, without_plugins,
};
use crate::config::{
    ConfigError, ConfigPlace, LoadedConfig, ModelOverrides, Output, PluginEntry, Problem,
    ProviderEntry, Sources, Verb, VerbError, in_order, load, render_check, run,
};
use crate::exit::CliError;
use crate::hooks::program::faults;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// Runs one verb.
pub(crate) fn config(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Config,
) -> Result<(), CliError> {
    let (verb, sources) = match command {
        Config::Path { settings } => (Verb::Path, env.sources(settings, Vec::new())?),
        Config::Check { settings } => (Verb::Check, env.sources(settings, Vec::new())?),
        Config::Schema => (Verb::Schema, Sources::default()),
        Config::Show { view } => {
            (Verb::Show { json: view.json }, env.sources(&view.settings, Vec::new())?)
        }
    };
    let mut result = run(verb, &sources);
    if verb == Verb::Check {
        result = match (load(&sources), result) {
            (Ok(mut loaded), result) => {
                let hooks = faults(&loaded.config.hooks, env).into_iter();
                let hooks = hooks.filter_map(|(key, fault)| {
                    Some(Problem::new(loaded.origins.get(&key)?, fault))
                });
                let hooks: Vec<Problem> = hooks.collect();
                loaded.warnings.extend(hooks);
                let browser = browser_warning(&loaded.config)
                    .zip(loaded.origins.get("browser.enabled"))
                    .map(|(warning, place)| Problem::new(place, warning));
                loaded.warnings.extend(browser);
                let skipped_models = skipped_models(&loaded, env);
                loaded.warnings.extend(skipped_models);
                let unused = models_of_no_profile(&loaded, links, env, &sources);
                loaded.warnings.extend(unused);
                let unused = tools_of_no_server(&loaded);
                loaded.warnings.extend(unused);
                let missing = missing_tools(&loaded, links, env, &sources);
                with_more(result.map(|_| render_check(&loaded, &sources)), &loaded, env, missing)
            }
            (Err(error), _) => Err(VerbError::Config(and_files(error, env))),
        };
    }
    let warnings = match &result {
        Ok(output) => output.warnings.as_slice(),
        Err(VerbError::Config(error)) => error.warnings.as_slice(),
        Err(VerbError::NoHome) => &[],
    };
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    print(&result.map_err(CliError::usage)?.text)
}

/// Adds to the result of a check the faults of files that the configuration names (a run reads them
/// only when it needs them), and the reasons for which a run would be refused.
fn with_more(
    result: Result<Output, VerbError>,
    loaded: &LoadedConfig,
    env: &ProcessEnv,
    missing_tools: Vec<Problem>,
) -> Result<Output, VerbError> {
    let fault = |(name, entry): (&String, &ProviderEntry)| {
        let fault = ca_file_fault(name, entry.ca_file.as_deref()?, env)?;
        let place = loaded.origins.get(&format!("providers.{name}.ca_file"))?;
        Some(Problem::new(place, fault))
    };
    let mut problems: Vec<Problem> = loaded.config.providers.iter().filter_map(fault).collect();
    problems.extend(missing_prices(loaded, env));
    problems.extend(missing_tools);
    problems.extend(plugin_faults(loaded, env));
    if problems.is_empty() {
        return result;
    }
    let problems = in_order(problems);
    let warnings = loaded.warnings.clone();
    let ca_files = Vec::new();
    Err(VerbError::Config(ConfigError { problems, warnings, ca_files }))
}

/// Files of plugins that cannot be read, or are not the pinned ones. None of their code runs.
fn plugin_faults(loaded: &LoadedConfig, env: &ProcessEnv) -> Vec<Problem> {
    let fault = |entry: &PluginEntry| {
        let file = PluginFile::read(&plugins::place(entry, env));
        let fault = file.and_then(|file| file.verify(&entry.sha256)).err()?;
        let text = format!("`plugins`: {}", CliError::usage(fault).chain());
        Some(Problem::new(loaded.origins.get("plugins")?, text))
    };
    loaded.config.plugins.iter().filter_map(fault).collect()
}

/// Tools that composite toolsets name and that are not there. What plugins bring is known when they
/// run.
fn missing_tools(
    loaded: &LoadedConfig,
    links: &LinkedTools,
    env: &ProcessEnv,
    sources: &Sources,
) -> Vec<Problem> {
    let config = &loaded.config;
    let names_tools = config.composite_toolsets.values().any(|set| !set.tools.is_empty());
    if !names_tools || !config.plugins.is_empty() {
        return Vec::new();
    }
    let from = AssemblyInput::here(links, config, env, sources);
    let Ok(catalog) = without_plugins(&from) else { return Vec::new() };
    let missing = compose::missing_tools(config, &catalog);
    let problem = |(key, error): (String, _)| {
        Some(Problem::new(loaded.origins.get(&key)?, format!("{error}")))
    };
    missing.filter_map(problem).collect()
}

/// Models that are set for profiles that are not there.
fn models_of_no_profile(
    loaded: &LoadedConfig,
    links: &LinkedTools,
    env: &ProcessEnv,
    sources: &Sources,
) -> Vec<Problem> {
    let named = &loaded.config.delegation.profile_models;
    if named.is_empty() {
        return Vec::new();
    }
    let from = AssemblyInput::here(links, &loaded.config, env, sources);
    let library = profile_library(&from);
    let project = if from.project_files { "" } else { "; `--project-files` adds the project's" };
    let problem = |name: &String| {
        let error = library.find(name).err()?;
        let ProfileError::Unknown { .. } = error else { return None };
        let place = loaded.origins.get(&format!("delegation.profile_models.{name}"))?;
        Some(Problem::new(place, format!("`delegation.profile_models`: {error}{project}")))
    };
    named.keys().filter_map(problem).collect()
}

/// Tools that composite toolsets name and whose server is not there.
fn tools_of_no_server(loaded: &LoadedConfig) -> Vec<Problem> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    for (set, entry) in &config.composite_toolsets {
        let key = format!("composite_toolsets.{set}.tools");
        let Some(place) = loaded.origins.get(&key) else { continue };
        for tool in entry.tools.iter().filter(|tool| ToolName::new(tool.as_str()).is_ok()) {
            let has_server = || config.mcp_servers.keys().any(|server| is_tool_of(tool, server));
            if split_server_tool(tool).is_some() && !has_server() {
                let text = format!(
                    "`{key}`: there is no server for the tool `{tool}`: add it to `mcp_servers`"
                );
                problems.push(Problem::new(place, text));
            }
        }
    }
    problems
}

/// Models of lists that a run goes without, because it cannot ask them.
fn skipped_models(loaded: &LoadedConfig, env: &ProcessEnv) -> Vec<Problem> {
    let config = &loaded.config;
    let lists = [
        ("fallback_models", &config.fallback_models),
        ("delegation.models", &config.delegation.models),
        ("delegation.fallback_models", &config.delegation.fallback_models),
    ];
    let problems = lists.into_iter().flat_map(|(key, names)| {
        names.iter().filter_map(move |name| {
            let why = unreachable(config, &ModelOverrides::default(), name, env)?;
            let message = format!("`{key}`: {name} is passed over: {why}");
            Some(Problem::new(loaded.origins.get(key)?, message))
        })
    });
    problems.collect()
}

/// Limits of dollars that cannot be held, because nobody knows what a model costs.
fn missing_prices(loaded: &LoadedConfig, env: &ProcessEnv) -> Vec<Problem> {
    let config = &loaded.config;
    let hands_on = |name: &String| name == DELEGATION_TOOLSET.as_str();
    let hands_on = config.toolsets.is_empty() || config.toolsets.iter().any(hands_on);
    // Which models there are is said elsewhere, or with `run`.
    let Ok(asked) = ModelSelection::of(config, &ModelOverrides::default()) else {
        return Vec::new();
    };
    let refusals = DollarLimits { config, hands_on }.refusals(&asked, env);
    let problem =
        |why: &MissingPrice| Some(Problem::new(loaded.origins.get(why.limit())?, why.to_string()));
    refusals.iter().filter_map(problem).collect()
}

/// Returns all mistakes of a configuration and of the files that it names.
fn and_files(mut error: ConfigError, env: &ProcessEnv) -> ConfigError {
    let fault = |(provider, file, place): &(String, String, ConfigPlace)| {
        // A path that is none is a mistake of its own.
        let is_path = file.starts_with("~/") || Path::new(file).is_absolute();
        let fault = is_path.then(|| ca_file_fault(provider, file, env)).flatten()?;
        Some(Problem::new(place, fault))
    };
    error.problems.extend(error.ca_files.iter().filter_map(fault));
    error.problems = in_order(error.problems);
    error
}
