//! The names of delegation's tools and of their toolset.

use deputize_core::{ToolName, ToolsetName};

/// The toolset of delegation's own tools.
pub const DELEGATION_TOOLSET: ToolsetName = ToolsetName::literal("delegation");
/// The tool by which an agent delegates.
pub const DELEGATE_TASK: ToolName = ToolName::literal("delegate_task");
/// The tool with one argument by which models delegate that are trained on it; see
/// [`ToolFlavor::Task`](crate::ToolFlavor::Task).
pub const TASK_TOOL: ToolName = ToolName::literal("task");
/// The tool by which an agent sees and reaches those below it.
pub const DELEGATE_CONTROL: ToolName = ToolName::literal("delegate_control");
