//! Children that are an external agent: `delegation.acp_command`.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_acp::AcpProgram;
use deputize_agent::{external_agent_name, external_agents, is_secret_name, use_external_agent};
use deputize_core::external_agent::ExternalAgents;
use deputize_core::sanitize::Secrets;
use deputize_delegate::DelegationConfig;
use deputize_process::{ProgramError, base_env, drop_hooks};
use deputize_tools::Processes;

use crate::config::Config;
use crate::exit::CliError;
use crate::process_env::ProcessEnv;

/// Why the external agent cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`delegation.acp_command` cannot be run")]
struct UnusableProgram(#[source] ProgramError);

/// Returns the model name of external children; `None` if children are agents of this program.
pub(super) fn name(config: &Config) -> Option<String> {
    let command = Some(&config.delegation.acp_command).filter(|command| !command.is_empty())?;
    Some(external_agent_name(command))
}

/// Makes children external if configured. They have none of our tools, and no children of their
/// own.
pub(super) fn apply(config: &Config, policy: &mut DelegationConfig, warnings: &mut Vec<String>) {
    let Some(name) = name(config) else { return };
    let set = &config.delegation;
    for (key, is_set) in [
        ("model", !set.model.is_empty()),
        ("models", !set.models.is_empty()),
        ("fallback_models", !set.fallback_models.is_empty()),
    ] {
        if is_set {
            warnings.push(format!(
                "delegation.{key} has no effect with delegation.acp_command: an external agent \
                 chooses its model itself"
            ));
        }
    }
    use_external_agent(policy, &name);
}

/// Returns the configured program, if it exists.
pub(crate) fn program(config: &Config, env: &ProcessEnv) -> Result<Option<AcpProgram>, CliError> {
    let set = &config.delegation;
    if set.acp_command.is_empty() {
        return Ok(None);
    }
    let mut variables = base_env(&env.os_env);
    let named = set
        .acp_env
        .iter()
        .filter_map(|name| env.os_env.get_key_value(name.as_ref() as &std::ffi::OsStr));
    variables.extend(named.map(|(name, value)| (name.clone(), value.clone())));
    drop_hooks(&mut variables);
    let args = set.acp_args.iter().map(Into::into).collect();
    let found = AcpProgram::find(&set.acp_command, args, variables);
    found.map(Some).map_err(|error| CliError::usage(UnusableProgram(error)))
}

/// Adds the values that are passed to the external agent and must stay secret.
pub(super) fn secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    for name in config.delegation.acp_env.iter().filter(|name| is_secret_name(name)) {
        if let Some(value) = env.var(name) {
            secrets.add(name, value);
        }
    }
}

/// Returns the source of external children.
pub(crate) fn agents(
    config: &Config,
    program: Option<AcpProgram>,
    processes: &Arc<Processes>,
) -> BTreeMap<String, Arc<dyn ExternalAgents>> {
    let (Some(name), Some(program)) = (name(config), program) else { return BTreeMap::new() };
    external_agents(name, program, processes)
}
