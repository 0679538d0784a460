//! The background commands of an agent.

mod command;
mod output_log;
mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::process::ProcessExit;
use parking_lot::Mutex;

pub(crate) use command::{BackgroundCommand, NewCommand};

/// Commands that have ended and whose output can still be read. Of more, the first are forgotten.
const ENDED_KEPT: usize = 16;

/// The background commands of an agent, in the order of their starts.
#[derive(Debug, Default)]
pub(crate) struct BackgroundCommands(Mutex<Vec<Arc<BackgroundCommand>>>);

impl BackgroundCommands {
    /// Returns all of them that are known.
    pub(crate) fn all(&self) -> Vec<Arc<BackgroundCommand>> {
        self.0.lock().clone()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<BackgroundCommand>> {
        self.0.lock().iter().find(|command| command.id() == id).cloned()
    }

    /// Returns how many run.
    pub(crate) fn running(&self) -> usize {
        self.0.lock().iter().filter(|command| command.exit().is_none()).count()
    }

    pub(crate) fn add(&self, command: Arc<BackgroundCommand>) {
        let mut all = self.0.lock();
        all.push(command);
        let ended = all.iter().filter(|command| command.exit().is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_KEPT);
        all.retain(|command| {
            let goes = surplus > 0 && command.exit().is_some();
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// Ends those that run, because their agent ends.
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
