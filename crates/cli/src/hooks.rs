//! Hooks: shell commands of the person's configuration, and those that the program brings along.

use std::sync::Arc;

use deputize_agent::{HookCommand, shell_hooks};
use deputize_core::hook::{Hook, HookPoint};
use deputize_tools::Processes;

use crate::config::Hooks;
use crate::process_env::ProcessEnv;

pub(crate) mod program;

/// Returns the commands of a configuration, in the order of its points.
fn commands(hooks: &Hooks) -> impl Iterator<Item = HookCommand> {
    let points = [
        (HookPoint::PreToolUse, &hooks.pre_tool_use),
        (HookPoint::PostToolUse, &hooks.post_tool_use),
        (HookPoint::UserPromptSubmit, &hooks.user_prompt_submit),
        (HookPoint::SubagentStart, &hooks.subagent_start),
        (HookPoint::SubagentStop, &hooks.subagent_stop),
    ];
    points.into_iter().flat_map(|(point, commands)| {
        commands.iter().map(move |command| HookCommand { point, command: command.clone() })
    })
}

/// All hooks of a run: those of the configuration, and after them the program's own.
pub(crate) fn all(
    config: &Hooks,
    processes: Arc<Processes>,
    env: &ProcessEnv,
) -> Vec<Arc<dyn Hook>> {
    let mut hooks = shell_hooks(commands(config), processes, &env.os_env);
    hooks.extend(env.own.hooks.iter().cloned());
    hooks
}
