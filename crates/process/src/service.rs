//! A program that runs on and is talked to: a server of tools, a host of plugins.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe::{Receiver, Sender};

use crate::command::Command;
use crate::launcher::{CommandEnds, Launcher};
use crate::outcome::Exit;
use crate::spawn::{SpawnError, prepared};
use crate::termination_report::TerminationReport;
use crate::tree::Tree;

/// A running program with its three pipes. Dropping it ends its whole tree, as ending its owner
/// does.
#[derive(Debug)]
pub struct Service {
    /// The program's input. Set to `None` to close it.
    pub stdin: Option<Sender>,
    /// The program's output; the caller bounds what it keeps.
    pub stdout: Receiver,
    /// The program's messages. They must be read, or the program stops when the pipe is full.
    pub stderr: Receiver,
    process: ServiceProcess,
}

/// A running program apart from its pipes. Dropping it ends the program's whole tree.
#[derive(Debug)]
pub struct ServiceProcess {
    launcher: Arc<Launcher>,
    tree: Tree,
}

impl Service {
    pub(crate) async fn start(
        launcher: &Arc<Launcher>,
        command: &Command,
    ) -> Result<Self, SpawnError> {
        let (command, program) = prepared(command.clone()).await?;
        let system = |source| SpawnError::from_system(source, &program);
        let (theirs, ours) = io::pipe().map_err(system)?;
        let stdin = Sender::from_owned_fd(OwnedFd::from(ours)).map_err(system)?;
        let (stdout, out) = output_pipe().map_err(system)?;
        let (stderr, err) = output_pipe().map_err(system)?;
        let ends = CommandEnds::pipes([theirs.into(), out.into(), err.into()]);
        let tree = launcher.launch(&command, &program, ends).await?;
        Ok(Self {
            stdin: Some(stdin),
            stdout,
            stderr,
            process: ServiceProcess::new(Arc::clone(launcher), tree),
        })
    }

    /// Waits for the end of the program itself. Its descendants may live on; dropping this ends
    /// them. Nothing is lost if the future is dropped.
    pub async fn wait_for_exit(&mut self) -> Exit {
        self.process.wait_for_exit().await
    }

    /// Ends the program and everything that it started, and waits for it.
    pub async fn end(self) -> TerminationReport {
        self.process.end().await
    }

    /// Takes it apart: its input, its output, its messages, and its process, for whoever serves the
    /// pipes and waits for the end at the same time.
    #[must_use]
    pub fn into_parts(self) -> (Option<Sender>, Receiver, Receiver, ServiceProcess) {
        (self.stdin, self.stdout, self.stderr, self.process)
    }
}

impl ServiceProcess {
    pub(crate) const fn new(launcher: Arc<Launcher>, tree: Tree) -> Self {
        Self { launcher, tree }
    }

    /// Waits for its exit, as [`Service::wait_for_exit`] does.
    pub async fn wait_for_exit(&mut self) -> Exit {
        self.tree.ended().await
    }

    /// Ends it with all that it started, as [`Service::end`] does.
    pub async fn end(self) -> TerminationReport {
        self.launcher.end_scope(self.tree.scope()).await
    }
}

pub(crate) fn output_pipe() -> io::Result<(Receiver, io::PipeWriter)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Receiver::from_owned_fd(OwnedFd::from(ours))?, theirs))
}
