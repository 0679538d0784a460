//! The base prompts of the top agent and of children, from the configuration.

use std::sync::Arc;

use deputize_agent::BasePrompt;
use deputize_core::{FillError, ToolName};
use deputize_delegate::ToolSchemas;
use deputize_runtime::prompt::BaseParts;

use super::Found;
use crate::config::{self, Config};

/// Returns which tools children are sent, as the delegation policy has it.
pub(super) const fn tool_schemas(config: &Config) -> ToolSchemas {
    match config.delegation.tool_schemas {
        config::ToolSchemas::Narrowed => ToolSchemas::Narrowed,
        config::ToolSchemas::CachePreserving => ToolSchemas::CachePreserving,
    }
}

/// Returns the base prompt of all children.
pub(super) fn child_base(config: &Config, found: &Found) -> Result<Vec<Arc<str>>, FillError> {
    let parts = BaseParts {
        system_text: Some(&config.system_prompt),
        ..BaseParts::new(&found.date, found.children_environment())
    };
    let schemas = tool_schemas(config);
    Ok(BasePrompt::build(&parts, schemas)?.for_children(schemas))
}

/// Returns the base prompt of the top agent.
pub(super) fn top_base(
    config: &Config,
    found: &Found,
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
    let schemas = tool_schemas(config);
    let mut prompt = BasePrompt::build(&parts, schemas)?;
    if let Some(memory) = &found.memory {
        prompt.add_memory(memory, schemas);
    }
    Ok(prompt)
}
