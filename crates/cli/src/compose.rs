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
mod kept;
mod linked_tools;
pub(crate) mod mcp;
mod messaging;
mod model;
pub(crate) mod plugins;
mod prices;
mod prompt_environment;
mod resolved_models;
mod settings;
pub(crate) mod sign_in;
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
pub(crate) fn given_secrets(config: &Config, around: &ProcessEnv, secrets: &mut Secrets) {
    external::secrets(config, around, secrets);
    mcp::secrets(config, around, secrets);
    plugins::secrets(config, around, secrets);
    web::secrets(config, around, secrets);
    messaging::secrets(config, around, secrets);
}

/// Loads the configuration and prints its warnings. Its secrets stay out of the log.
pub(crate) fn load_config(
    around: &ProcessEnv,
    sources: &Sources,
) -> Result<LoadedConfig, CliError> {
    let loaded = around.load(sources)?;
    redact_in_log(&loaded.config, around);
    Ok(loaded)
}

/// Redacts the secrets of a configuration in the program's log.
pub(crate) fn redact_in_log(config: &Config, around: &ProcessEnv) {
    if around.log.is_on() {
        around.log.redact(&config_secrets(config, around));
    }
}

/// Returns the secrets of a configuration, without those of the environment alone.
fn config_secrets(config: &Config, around: &ProcessEnv) -> Secrets {
    let mut secrets = Secrets::default();
    given_secrets(config, around, &mut secrets);
    model::provider_secrets(config, around, &mut secrets);
    secrets
}

/// Returns every value that is a secret by the configuration or by its variable's name.
pub(crate) fn all_secrets(config: &Config, around: &ProcessEnv) -> Secrets {
    let mut secrets = config_secrets(config, around);
    secrets.add_all(&environment_secrets(around));
    secrets
}
