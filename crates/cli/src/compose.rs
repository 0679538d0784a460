//! Assembles the program from its parts; the one place that knows every crate. It starts nothing.

use deputize_core::sanitize::Secrets;

use crate::config::{Config, LoadedConfig, Sources};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;

mod assembled_program;
mod delegation;
pub(crate) mod external;
mod input;
mod jobs;
mod linked_tools;
pub(crate) mod mcp;
mod messaging;
mod model;
pub(crate) mod plugins;
mod prices;
mod prompt_environment;
mod protected_folders;
mod resolved_models;
mod settings;
pub(crate) mod sign_in;
mod tool_settings;
mod toolset_bound;
mod top_profile;
mod web;

pub(crate) use assembled_program::{AssembledProgram, approvals, without_plugins};
pub(crate) use input::AssemblyInput;
pub(crate) use jobs::job_store;
pub(crate) use linked_tools::{
    LinkedTools, linked_catalog, toolset_names, toolset_of, turned_off, why_off,
};
pub(crate) use model::{
    ModelSelection, ModelUse, ca_file_fault, environment_secrets, name, unreachable, whole_endpoint,
};
pub(crate) use prices::{DollarLimits, MissingPrice};
pub(crate) use prompt_environment::PromptEnvironment;
pub(crate) use resolved_models::ResolvedModels;
pub(crate) use settings::{
    browser_warning, memory_files, missing_feature, missing_tools, profile_library, skill_library,
};
pub(crate) use toolset_bound::toolsets_within;
pub(crate) use top_profile::{TopProfile, profile_error, profile_warnings, unknown_toolsets};

/// Adds the values that are passed to external programs and must stay secret.
pub(crate) fn given_secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    external::secrets(config, env, secrets);
    mcp::secrets(config, env, secrets);
    plugins::secrets(config, env, secrets);
    web::secrets(config, env, secrets);
    messaging::secrets(config, env, secrets);
}

/// Loads the configuration and prints its warnings. Its secrets stay out of the log.
pub(crate) fn load_config(env: &ProcessEnv, sources: &Sources) -> Result<LoadedConfig, CliError> {
    let loaded = env.load(sources)?;
    redact_in_log(&loaded.config, env);
    Ok(loaded)
}

/// Redacts the secrets of a configuration in the program's log.
pub(crate) fn redact_in_log(config: &Config, env: &ProcessEnv) {
    if env.log.is_on() {
        env.log.redact(&config_secrets(config, env));
    }
}

/// Returns the secrets of a configuration, without those of the environment alone.
fn config_secrets(config: &Config, env: &ProcessEnv) -> Secrets {
    let mut secrets = Secrets::default();
    given_secrets(config, env, &mut secrets);
    model::provider_secrets(config, env, &mut secrets);
    secrets
}

/// Returns every value that is a secret by the configuration or by its variable's name.
pub(crate) fn all_secrets(config: &Config, env: &ProcessEnv) -> Secrets {
    let mut secrets = config_secrets(config, env);
    secrets.add_all(&environment_secrets(env));
    secrets
}
