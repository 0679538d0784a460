//! The base prompts: which part is system text, and which stands before the first message.

use std::sync::Arc;

use deputize_core::door::{Source, quote};
use deputize_core::{FillError, PromptParts, ToolName};
use deputize_runtime::prompt::{BaseParts, base_prompt};

use super::Found;
use crate::config::{Config, ToolSchemas};

/// What stands before the person's words where more comes before them in one message.
const REQUEST: &str = "THE REQUEST:";

/// A base prompt: what is system text, and what stands before the first message.
pub(super) struct Base {
    pub(super) system: Vec<Arc<str>>,
    pub(super) opening: Vec<Arc<str>>,
}

/// A base prompt as it is sent. For a provider's cache to serve parents and children alike, what
/// differs between them may not be in the system text.
fn base(config: &Config, parts: &BaseParts<'_>) -> Result<Base, FillError> {
    let PromptParts { stable, volatile } = base_prompt(parts)?;
    let block = |stable, volatile| PromptParts { stable, volatile }.render().into_blocks();
    Ok(match config.delegation.tool_schemas {
        ToolSchemas::Narrowed => Base { system: block(stable, volatile), opening: Vec::new() },
        ToolSchemas::CachePreserving => {
            Base { system: block(stable, Vec::new()), opening: block(Vec::new(), volatile) }
        }
    })
}

/// A first message with what stands before it.
pub(super) fn opened(opening: &[Arc<str>], message: &str) -> String {
    if opening.is_empty() {
        return message.to_owned();
    }
    format!("{}\n\n{REQUEST}\n{message}", opening.join("\n\n"))
}

/// What all children are told before their own prompt.
pub(super) fn child_base(config: &Config, found: &Found) -> Result<Vec<Arc<str>>, FillError> {
    let parts = BaseParts {
        system_text: Some(&config.system_prompt),
        ..BaseParts::new(&found.date, found.children_environment())
    };
    let Base { system, opening } = base(config, &parts)?;
    Ok(match config.delegation.tool_schemas {
        ToolSchemas::Narrowed => system,
        ToolSchemas::CachePreserving => opening,
    })
}

/// The base prompt of the top agent.
pub(super) fn top_base(
    config: &Config,
    found: &Found,
    delegation_tool: Option<ToolName>,
) -> Result<Base, FillError> {
    let parts = BaseParts {
        identity: found.identity.as_deref(),
        system_text: Some(&config.system_prompt),
        delegation_tool,
        project: found.files(),
        platform: Some(found.platform()),
        ..BaseParts::new(&found.date, found.environment())
    };
    let Base { mut system, mut opening } = base(config, &parts)?;
    if let Some(memory) = &found.memory {
        let memory = quote(&Source::Tool("memory".to_owned()), memory).into_string().into();
        // It is this agent's alone: where children share the system text it is not in there.
        match config.delegation.tool_schemas {
            ToolSchemas::Narrowed => system.push(memory),
            ToolSchemas::CachePreserving => opening.push(memory),
        }
    }
    Ok(Base { system, opening })
}
