//! The base prompts of the top agent and of children, from the configuration.

use std::sync::Arc;

use deputize_agent::BasePrompt;
use deputize_core::ToolName;
use deputize_core::prompt::FillError;
use deputize_runtime::prompt::BaseParts;

use super::Discovered;
use crate::config::Config;

/// Returns the base prompt of all children.
pub(super) fn child_base(config: &Config, found: &Discovered) -> Result<Vec<Arc<str>>, FillError> {
    let parts = BaseParts {
        system_text: Some(&config.system_prompt),
        ..BaseParts::new(&found.date, found.children_environment())
    };
    let schemas = config.delegation.tool_schemas;
    Ok(BasePrompt::build(&parts, schemas)?.for_children(schemas))
}

/// Returns the base prompt of the top agent.
pub(super) fn top_base(
    config: &Config,
    found: &Discovered,
    delegation_tool: Option<ToolName>,
) -> Result<BasePrompt, FillError> {
    let parts = BaseParts {
        identity: found.identity.as_deref(),
        system_text: Some(&config.system_prompt),
        delegation_tool,
        project: found.files(),
        platform: Some(found.platform()),
        ..BaseParts::new(&found.date, found.environment())
    };
    let schemas = config.delegation.tool_schemas;
    let mut prompt = BasePrompt::build(&parts, schemas)?;
    if let Some(memory) = &found.memory {
        prompt.add_memory(memory, schemas);
    }
    Ok(prompt)
}
