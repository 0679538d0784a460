//! A program that runs on and is talked to: a server of tools, a host of plugins.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe::{Receiver, Sender};

use crate::command::Command;
use crate::finished::Exit;
use crate::mark::Mark;
use crate::owner::Owner;
use crate::registry::Scope;
use crate::spawn::{Ends, SpawnError, prepare};
use crate::supervisor::Ended;
use crate::watch::Watch;

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
    owner: Arc<Owner>,
    watch: Watch,
    mark: Mark,
}

impl Service {
    pub(crate) fn start(owner: &Arc<Owner>, command: &Command) -> Result<Self, SpawnError> {
        let program = prepare(command)?;
        let system = |source| SpawnError::from_system(source, &program);
        let (theirs, ours) = io::pipe().map_err(system)?;
        let stdin = Sender::from_owned_fd(OwnedFd::from(ours)).map_err(system)?;
        let (stdout, out) = output_pipe().map_err(system)?;
        let (stderr, err) = output_pipe().map_err(system)?;
        let ends = Ends { stdin: theirs.into(), stdout: out.into(), stderr: err.into() };
        let (child, mark) = owner.launch(command, &program, ends)?;
        let (owner, watch) = (Arc::clone(owner), Watch::new(child));
        Ok(Self { stdin: Some(stdin), stdout, stderr, owner, watch, mark })
    }

    /// Waits for the end of the program itself. Its descendants may live on; dropping this ends
    /// them. Nothing is lost if the future is dropped.
    pub async fn exited(&mut self) -> Exit {
        self.watch.ended().await.map_or(Exit::Unknown, Exit::from)
    }

    /// Ends the program and everything that it started, and waits for it.
    pub async fn end(self) -> Ended {
        self.owner.end_scope(Scope::Command(self.mark)).await
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.owner.unwatch(self.watch.pid(), self.mark);
        self.owner.abandon(Scope::Command(self.mark));
    }
}

fn output_pipe() -> io::Result<(Receiver, io::PipeWriter)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Receiver::from_owned_fd(OwnedFd::from(ours))?, theirs))
}
