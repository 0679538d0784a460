//! The names of delegation's tools and of their toolset.

use deputize_core::{ToolName, ToolsetName};

/// The set that delegation's own tools belong to.
pub const TOOLSET: ToolsetName = ToolsetName::literal("delegation");
/// The tool by which an agent delegates.
pub const TOOL: ToolName = ToolName::literal("delegate_task");
/// The same for models that are trained on it, see [`ToolFlavor::Task`](crate::ToolFlavor::Task).
pub const TASK: ToolName = ToolName::literal("task");
/// The tool by which an agent sees and reaches those below it.
pub const CONTROL: ToolName = ToolName::literal("delegate_control");
