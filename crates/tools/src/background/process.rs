//! The process of a background command, which its agent ends or leaves.

use deputize_process::{
    CommandInput, CommandOutput, DurableCommand, DurableProcess, Exit, InteractiveCommand,
    ServiceProcess,
};

/// A background command that was started.
pub(crate) struct StartedCommand {
    /// `None` if it has no input.
    pub(super) input: Option<CommandInput>,
    pub(super) output: CommandOutput,
    pub(super) process: WatchedProcess,
}

/// The process of a background command.
pub(super) enum WatchedProcess {
    /// It ends with its agent, as does everything that it started.
    Owned(ServiceProcess),
    /// It goes on.
    Durable(DurableProcess),
}

/// Why a command is over.
pub(super) enum CommandEnd {
    Exited(Exit),
    Stopped,
    TimedOut,
}

impl From<InteractiveCommand> for StartedCommand {
    fn from(command: InteractiveCommand) -> Self {
        let InteractiveCommand { input, output, process, .. } = command;
        Self { input: Some(input), output, process: WatchedProcess::Owned(process) }
    }
}

impl From<DurableCommand> for StartedCommand {
    fn from(command: DurableCommand) -> Self {
        let DurableCommand { output, process } = command;
        Self { input: None, output, process: WatchedProcess::Durable(process) }
    }
}

impl StartedCommand {
    /// Returns the PID of a durable command.
    pub(crate) fn durable_pid(&self) -> Option<u32> {
        match &self.process {
            WatchedProcess::Owned(_) => None,
            WatchedProcess::Durable(process) => u32::try_from(process.pid()).ok(),
        }
    }

    /// Ends it, also if it is durable.
    pub(crate) async fn end(self) {
        let _what_could_not_be_ended = self.process.end(&CommandEnd::Stopped).await;
    }
}

impl WatchedProcess {
    pub(super) async fn wait_for_exit(&mut self) -> Exit {
        match self {
            Self::Owned(process) => process.wait_for_exit().await,
            Self::Durable(process) => process.wait_for_exit().await,
        }
    }

    /// Ends what is left of a command that is over, and returns what could not be ended. What a
    /// durable command started goes on if the command ended by itself.
    pub(super) async fn end(self, over: &CommandEnd) -> Vec<i32> {
        match (self, over) {
            (Self::Owned(process), _) => process.end().await.left,
            (Self::Durable(_), CommandEnd::Exited(_)) => Vec::new(),
            (Self::Durable(process), _) => process.end().await.left,
        }
    }
}
