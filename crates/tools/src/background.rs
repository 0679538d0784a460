//! The background commands of an agent.

mod command;
mod output_log;
mod process;
mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::ToolError;
use deputize_core::process::ProcessExit;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::BackgroundLimits;

pub(crate) use command::{BackgroundCommand, NewCommand};
pub(crate) use process::StartedCommand;

/// Commands that have ended and whose output can still be read. Of more, the first are forgotten.
const ENDED_KEPT: usize = 16;

/// The background commands of an agent. Dropping them ends them, except durable ones.
#[derive(Debug, Default)]
pub(crate) struct BackgroundCommands {
    /// In the order of their starts.
    commands: Mutex<Vec<Arc<BackgroundCommand>>>,
    /// The tasks that watch them.
    tasks: Mutex<JoinSet<()>>,
}

impl BackgroundCommands {
    /// Returns all of them that are known.
    pub(crate) fn all(&self) -> Vec<Arc<BackgroundCommand>> {
        self.commands.lock().clone()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<BackgroundCommand>> {
        self.commands.lock().iter().find(|command| command.id() == id).cloned()
    }

    /// Returns how many run.
    fn running(&self) -> usize {
        self.commands.lock().iter().filter(|command| command.exit().is_none()).count()
    }

    /// Refuses one more command than may run at once.
    pub(crate) fn check_room(&self, limits: &BackgroundLimits) -> Result<(), ToolError> {
        let running = self.running();
        if running < limits.commands {
            return Ok(());
        }
        let most = limits.commands;
        let name = limits.setting_names.note("background_commands");
        Err(ToolError::refused(format!(
            "{running} background commands run, and {most} is the most{name}: kill one with process"
        )))
    }

    /// Watches a command that was started, to its end.
    pub(crate) fn watch(&self, new: NewCommand, command: StartedCommand) -> Arc<BackgroundCommand> {
        let command = {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            BackgroundCommand::watch(new, command, &mut tasks)
        };
        let mut all = self.commands.lock();
        all.push(Arc::clone(&command));
        let ended = all.iter().filter(|command| command.exit().is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_KEPT);
        all.retain(|command| {
            let goes = surplus > 0 && command.exit().is_some();
            surplus -= usize::from(goes);
            !goes
        });
        command
    }

    /// Ends those that run, because their agent ends; durable ones go on.
    pub(crate) async fn close(&self) {
        let running: BTreeMap<String, _> =
            self.all().into_iter().map(|command| (command.id().to_owned(), command)).collect();
        for command in running.values() {
            command.stop(ProcessExit::AgentEnded);
        }
        for command in running.values() {
            command.ended().await;
        }
    }
}
