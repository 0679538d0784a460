//! The arguments of `terminal`.

use deputize_core::{AgentView, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(super) command: String,
    /// Default 120, at most 600.
    #[serde(default)]
    pub(super) timeout_seconds: Option<u32>,
    /// Return at once.
    #[serde(default)]
    pub(super) background: bool,
    /// Get a message at its end, before you finish. Not for servers.
    #[serde(default)]
    pub(super) notify_on_complete: bool,
    /// Background only.
    #[serde(default)]
    pub(super) pty: bool,
}

impl Args {
    /// Returns whether the command goes on when the program ends, as the person has configured. That
    /// of a child never does: the directory where a child begins is a choice of its parent.
    pub(super) fn is_durable(&self, agent: &AgentView) -> bool {
        let is_listed = || Settings::of_agent(agent).commands.durable.contains(&self.command);
        self.background && agent.spec.depth == 0 && is_listed()
    }

    /// Refuses arguments that do not go together.
    pub(super) fn check(&self, agent: &AgentView) -> Result<(), ToolError> {
        if self.command.trim().is_empty() {
            return Err(ToolError::refused("the command is empty"));
        }
        if !self.background && (self.pty || self.notify_on_complete) {
            let what = if self.pty { "pty" } else { "notify_on_complete" };
            return Err(ToolError::refused(format!("{what} needs background: true")));
        }
        if self.is_durable(agent) && (self.pty || self.timeout_seconds.is_some()) {
            return Err(ToolError::refused(
                "this command is durable: it has no terminal and no time limit; leave out pty and \
                 timeout_seconds",
            ));
        }
        Ok(())
    }
}
