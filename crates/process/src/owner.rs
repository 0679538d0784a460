//! The owner of an agent's processes.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::command::Command;
use crate::command_run::CommandRun;
use crate::connected_program::ConnectedProgram;
use crate::interactive::{CommandIo, InteractiveCommand};
use crate::launcher::Launcher;
use crate::outbox::Outbox;
use crate::outcome::CommandOutcome;
use crate::registry::SharedRegistry;
use crate::service::Service;
use crate::spawn::{SpawnError, prepared};
use crate::termination_report::TerminationReport;

/// Owns every process that one agent starts.
///
/// A background process that a command leaves behind lives until its owner is ended.
#[derive(Debug)]
pub struct Owner(Arc<Launcher>);

impl Owner {
    pub(crate) fn new(shared: Arc<SharedRegistry>, outbox: Arc<Outbox>) -> Self {
        Self(Arc::new(Launcher::new(shared, outbox)))
    }

    /// Runs a command to its end: its own, its time limit's, a cancel, or the owner's. Must be
    /// called inside a tokio runtime with IO and time.
    ///
    /// At the time limit, at a cancel, and when the future is dropped, the whole tree of the
    /// command is ended: asked first, killed after [`GRACE`](crate::GRACE). In the first two
    /// cases the result comes when it is gone; after a drop the supervisor goes on by itself.
    /// A command whose cancel came first is not started.
    ///
    /// # Errors
    ///
    /// If the command was not started. Whatever happens later is in the result.
    pub async fn run(
        &self,
        command: Command,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, SpawnError> {
        if cancel.is_cancelled() {
            return Ok(CommandOutcome::not_started());
        }
        let (command, program) = prepared(command).await?;
        let (run, pipes) = CommandRun::start(&self.0, &command, &program).await?;
        let outcome = Box::pin(run.finish(command, pipes, cancel)).await;
        let ms = u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(program = %program.display(), exit = ?outcome.exit, ms, "command ended");
        Ok(outcome)
    }

    /// Starts a long-running program that is talked to through its three descriptors. Must be
    /// called inside a tokio runtime with IO. The input, output and time limits of `command` do
    /// not apply.
    ///
    /// # Errors
    ///
    /// If the program was not started.
    pub async fn open(&self, command: &Command) -> Result<Service, SpawnError> {
        Service::start(&self.0, command).await
    }

    /// Starts a program that talks to this one through a socket. Must be called inside a tokio
    /// runtime with IO. The input, output and time limits of `command` do not apply.
    ///
    /// # Errors
    ///
    /// If the program was not started.
    pub async fn connect(&self, command: &Command) -> Result<ConnectedProgram, SpawnError> {
        ConnectedProgram::start(&self.0, command).await
    }

    /// Starts a command whose input is written and whose output is read while it runs. Must be
    /// called inside a tokio runtime with IO. The input, output and time limits of `command` do
    /// not apply.
    ///
    /// # Errors
    ///
    /// If the command was not started.
    pub async fn interact(
        &self,
        command: &Command,
        io: CommandIo,
    ) -> Result<InteractiveCommand, SpawnError> {
        InteractiveCommand::start(&self.0, command, io).await
    }

    /// Ends every process that this owner ever started, and every command that runs. Nothing
    /// can be started afterwards.
    pub async fn end(&self) -> TerminationReport {
        self.0.end().await
    }
}
