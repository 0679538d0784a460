//! The tools by which agents delegate.

use std::sync::Arc;

use deputize_core::schema::SchemaError;
use deputize_core::{Catalog, CatalogError, Clock};
use deputize_delegate::{
    ControlTool, DelegateTool, DelegationConfig, DelegationOptions, ToolFlavor,
};

/// Why the delegation tools cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// The schema of a tool cannot be built.
    #[error("the delegation tool cannot be built")]
    Schema(#[from] SchemaError),
    /// Another tool has the name of one of them.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Adds the tools by which agents delegate. A call that an older session made under the other
/// name of the delegation tool is read too.
///
/// # Errors
/// When a tool of their names is there already.
pub fn add_delegation_tools(
    catalog: &mut Catalog,
    delegation: &DelegationConfig,
    clock: &Arc<dyn Clock>,
) -> Result<(), DelegationError> {
    let tool = |config| DelegateTool::new(config, Arc::clone(clock));
    catalog.insert(tool(delegation.clone())?.into_entry())?;
    let other = match delegation.options.tool_name {
        ToolFlavor::DelegateTask => ToolFlavor::Task,
        ToolFlavor::Task => ToolFlavor::DelegateTask,
    };
    let former = DelegationConfig {
        options: DelegationOptions { tool_name: other, ..delegation.options },
        ..delegation.clone()
    };
    catalog.insert_former(tool(former)?.into_entry());
    if delegation.options.background {
        catalog.insert(ControlTool::new()?.into_entry())?;
    }
    Ok(())
}
