//! Durable commands of a session that still run.

use deputize_core::Event;
use deputize_core::sanitize::for_verbatim_line;
use deputize_process::durable_group_runs;
use deputize_runtime::StoredSession;

/// Limit on a command in a message, in characters.
const COMMAND_CHARS: usize = 200;

/// A durable command that still runs, or what it started.
pub(super) struct DurableCommand {
    pid: u32,
    command: String,
}

/// Returns the durable commands of a session that still run.
pub(super) fn running_commands(stored: &StoredSession) -> Vec<DurableCommand> {
    let command = |record: &deputize_core::Record| {
        let Event::ProcessStart(start) = &record.event else { return None };
        let pid = start.durable_pid.filter(|pid| durable_group_runs(*pid, record.at))?;
        Some(DurableCommand { pid, command: for_verbatim_line(&start.command, COMMAND_CHARS) })
    };
    stored.records.iter().filter_map(command).collect()
}

/// Returns the commands with their process groups, in which what they started may go on alone.
pub(super) fn listed(commands: &[DurableCommand]) -> String {
    let words = |it: &DurableCommand| format!("`{}` in process group {}", it.command, it.pid);
    commands.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Returns the command that ends them, with all that they started in their process groups.
pub(super) fn kill_command(commands: &[DurableCommand]) -> String {
    let groups: String = commands.iter().map(|it| format!(" -{}", it.pid)).collect();
    format!("kill --{groups}")
}
