//! A program that talks to this one through a socket, beside its output and its messages.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;

use crate::command::Command;
use crate::launcher::{CommandEnds, Launcher};
use crate::service::{ServiceProcess, output_pipe};
use crate::spawn::{SpawnError, prepared};

/// A running program whose input is one end of a socket pair. The socket has no name, so no other
/// program can connect to it. Dropping the process ends the program's whole tree, as ending its
/// owner does.
#[derive(Debug)]
pub struct ConnectedProgram {
    /// The other end of the socket that is descriptor 0 of the program. The program is expected to
    /// move it to another number and to open `/dev/null` in its place.
    pub socket: UnixStream,
    /// The program's output. It must be read, or the program stops when the pipe is full.
    pub stdout: Receiver,
    /// The program's messages, which must be read too.
    pub stderr: Receiver,
    /// The process.
    pub process: ServiceProcess,
}

impl ConnectedProgram {
    pub(crate) async fn start(
        launcher: &Arc<Launcher>,
        command: &Command,
    ) -> Result<Self, SpawnError> {
        let (command, program) = prepared(command.clone()).await?;
        let system = |source| SpawnError::from_system(source, &program);
        let (socket, theirs) = connect().map_err(system)?;
        let (stdout, out) = output_pipe().map_err(system)?;
        let (stderr, err) = output_pipe().map_err(system)?;
        let ends = CommandEnds::pipes([theirs, out.into(), err.into()]);
        let tree = launcher.launch(&command, &program, ends).await?;
        let process = ServiceProcess::new(Arc::clone(launcher), tree);
        Ok(Self { socket, stdout, stderr, process })
    }
}

/// Returns our end of a socket pair, and the program's.
fn connect() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}
