//! The one way to a plugin's calls, wherever it runs.

use std::time::Duration;

use deputize_core::{BoxFuture, ToolCx};

use crate::error::PluginError;

/// How long a plugin may take to say what it has.
pub const DESCRIBE_LIMIT: Duration = Duration::from_secs(10);
/// How long a call may take to end after it was told to: less than an agent waits.
pub const SETTLE: Duration = Duration::from_millis(700);
/// The most notes of one call that are passed on.
pub(crate) const MAX_NOTES: u32 = 1000;

/// A call of one tool, as it crosses the boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCall {
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
    /// What the call is about, as JSON text.
    pub about: String,
    /// Whether it may be made twice: where its process ends while others run in it, it is made
    /// again, once and in a process of its own.
    pub repeatable: bool,
}

/// What came of a call that was told to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelResult {
    /// It answered.
    Answer(String),
    /// It did not, and was left behind: what became of it.
    Left(&'static str),
}

/// A plugin, wherever it runs. Calls may be made side by side.
pub trait PluginBoundary: Send + Sync + std::fmt::Debug {
    /// Its answer to what it has, which is not yet read.
    fn describe(&self) -> BoxFuture<'_, Result<String, PluginError>>;

    /// Makes a call; what it tells on the way goes to the context. Ends soon after its cancel,
    /// whatever the plugin does.
    fn call<'a>(
        &'a self,
        call: PluginCall,
        cx: &'a ToolCx,
    ) -> BoxFuture<'a, Result<CancelResult, PluginError>>;
}

const fn _object_safe(_: &dyn PluginBoundary) {}
