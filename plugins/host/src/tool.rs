//! The tools of a plugin as catalog entries.

use std::path::Path;
use std::sync::Arc;

use deputize_core::{
    BoxFuture, CatalogEntry, Origin, Tool, ToolCallResult, ToolCx, ToolError, ToolOutput, ToolSpec,
};
use serde_json::Value;

use crate::about::about;
use crate::answer::tool_result;
use crate::boundary::{CancelResult, PluginBoundary, PluginCall};
use crate::description::Description;

/// Returns the tools of a plugin, for a catalog.
#[must_use]
pub fn entries(
    description: &Description,
    path: &Path,
    boundary: &Arc<dyn PluginBoundary>,
) -> Vec<CatalogEntry> {
    let entry = |described: &crate::ToolDescription| CatalogEntry {
        toolset: described.toolset.clone(),
        origin: Origin::Plugin { path: path.to_owned() },
        tool: Arc::new(PluginTool { spec: described.spec.clone(), boundary: Arc::clone(boundary) }),
    };
    description.tools.iter().map(entry).collect()
}

struct PluginTool {
    spec: ToolSpec,
    boundary: Arc<dyn PluginBoundary>,
}

impl Tool for PluginTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            let tool = self.spec.decl.name.as_str();
            let call = PluginCall {
                tool: tool.to_owned(),
                arguments: arguments.to_string(),
                about: about(cx),
                repeatable: self.spec.repeatable,
            };
            match self.boundary.call(call, cx).await.map_err(ToolError::failed)? {
                CancelResult::Answer(answer) => tool_result(tool, &answer),
                CancelResult::Left(what) => {
                    let output = ToolOutput::default().note(what);
                    Err(ToolError::Cancelled(Box::new(output)))
                }
            }
        })
    }
}
