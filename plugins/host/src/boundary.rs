//! Access to a plugin, wherever it runs.

use std::time::Duration;

use deputize_core::{BoxFuture, ToolCx};

use crate::error::PluginError;

/// Time limit of a plugin's description.
pub const DESCRIBE_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of a cancelled call; shorter than the time an agent waits for it.
pub const SETTLE: Duration = Duration::from_millis(700);
/// Maximum number of notes of a call that are passed on.
pub(crate) const MAX_NOTES: u32 = 1000;

/// A call of one tool, as it crosses the boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
    /// The subject of the call, as JSON text.
    pub about: String,
    /// Whether it may be repeated. If its process ends while other calls run there, it is made once
    /// more, in a process of its own.
    pub repeatable: bool,
}

/// The result of a call that may have been cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelResult {
    /// It answered.
    Answer(String),
    /// It did not answer in time and was abandoned: what became of it.
    Left(&'static str),
}

/// A plugin, wherever it runs. Calls may run concurrently.
pub trait PluginBoundary: Send + Sync + std::fmt::Debug {
    /// Returns the plugin's description, as [`Description::parse`](crate::Description::parse) takes
    /// it.
    fn describe(&self) -> BoxFuture<'_, Result<String, PluginError>>;

    /// Makes a call and reports its notes as progress. Returns soon after `cx.cancel` is signalled,
    /// whatever the plugin does.
    fn call<'a>(
        &'a self,
        call: PluginCall,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CancelResult, PluginError>>;
}

const fn _object_safe(_: &dyn PluginBoundary) {}
