//! Hooks: shell commands of the person's configuration, and those that the program brings along.

mod document;
pub(crate) mod program;
mod shell;

use std::sync::Arc;

use deputize_core::hook::Hook;
use deputize_tools::Processes;

use crate::config::Hooks;
use crate::process_env::ProcessEnv;

/// All hooks of a run: those of the configuration, and after them the program's own.
pub(crate) fn all(
    config: &Hooks,
    processes: Arc<Processes>,
    around: &ProcessEnv,
) -> Vec<Arc<dyn Hook>> {
    let mut hooks = shell::configured(config, processes, &around.os_env);
    hooks.extend(around.own.hooks.iter().cloned());
    hooks
}
