//! A command that is talked to while it runs, through pipes or a terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::command::Command;
use crate::launcher::{CommandEnds, Launcher};
use crate::pseudo_terminal::PseudoTerminal;
use crate::service::ServiceProcess;
use crate::spawn::{SpawnError, prepared};

/// What a terminal takes as the end of the input, at the beginning of a line.
const END_OF_INPUT: &[u8] = &[4];

/// How a command is connected with this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandIo {
    /// One pipe for its input, and one for its output and messages.
    Pipes,
    /// A terminal of its own.
    Terminal,
}

/// A running command with its input and output. Dropping its process ends its whole tree, as
/// ending its owner does.
#[derive(Debug)]
pub struct InteractiveCommand {
    /// The input.
    pub input: CommandInput,
    /// The output and messages, in the order of arrival. They must be read, or the command stops
    /// when the pipe is full.
    pub output: CommandOutput,
    /// The process.
    pub process: ServiceProcess,
}

/// The input of a running command. Dropping the input of a command with pipes ends it.
#[derive(Debug)]
pub struct CommandInput(InputEnd);

/// The output of a running command.
#[derive(Debug)]
pub struct CommandOutput(OutputEnd);

#[derive(Debug)]
enum InputEnd {
    Pipe(Sender),
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

#[derive(Debug)]
enum OutputEnd {
    Pipe(Receiver),
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// Our ends of the connection.
struct OwnEnds {
    input: InputEnd,
    output: OutputEnd,
}

impl InteractiveCommand {
    pub(crate) async fn start(
        launcher: &Arc<Launcher>,
        command: &Command,
        io: CommandIo,
    ) -> Result<Self, SpawnError> {
        let (command, program) = prepared(command.clone()).await?;
        Self::launch(launcher, &command, &program, io).await
    }

    async fn launch(
        launcher: &Arc<Launcher>,
        command: &Command,
        program: &Path,
        io: CommandIo,
    ) -> Result<Self, SpawnError> {
        let connection = match io {
            CommandIo::Pipes => connect_pipes(),
            CommandIo::Terminal => connect_terminal(),
        };
        let connection = connection.map_err(|source| SpawnError::from_system(source, program));
        let (OwnEnds { input, output }, ends) = connection?;
        let tree = launcher.launch(command, program, ends).await?;
        Ok(Self {
            input: CommandInput(input),
            output: CommandOutput(output),
            process: ServiceProcess::new(Arc::clone(launcher), tree),
        })
    }
}

fn connect_pipes() -> io::Result<(OwnEnds, CommandEnds)> {
    let (stdin, ours) = io::pipe()?;
    let input = InputEnd::Pipe(Sender::from_owned_fd(OwnedFd::from(ours))?);
    let (ours, stdout) = io::pipe()?;
    let stderr = stdout.try_clone()?;
    let output = OutputEnd::Pipe(Receiver::from_owned_fd(OwnedFd::from(ours))?);
    let ends = CommandEnds::pipes([stdin.into(), stdout.into(), stderr.into()]);
    Ok((OwnEnds { input, output }, ends))
}

fn connect_terminal() -> io::Result<(OwnEnds, CommandEnds)> {
    let PseudoTerminal { ours, theirs } = PseudoTerminal::open()?;
    let ours = Arc::new(watch(ours)?);
    let input = InputEnd::Terminal(Arc::clone(&ours));
    let output = OutputEnd::Terminal(ours);
    let ends = CommandEnds::terminal([theirs.try_clone()?, theirs.try_clone()?, theirs]);
    Ok((OwnEnds { input, output }, ends))
}

/// Has the runtime of this task say when a terminal can be read or written.
#[expect(unsafe_code, reason = "tokio has no safe way to watch a descriptor of another kind")]
fn watch(terminal: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open, and the `AsyncFd` owns it: it stays the same one, and open,
    // until both are dropped together.
    Ok(unsafe { AsyncFd::register(terminal) }?)
}

impl CommandInput {
    /// Writes what fits now, once something does, and returns how many bytes that were. Nothing
    /// was written if the future is dropped.
    ///
    /// # Errors
    ///
    /// If the command has closed its input, or ended.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            InputEnd::Pipe(pipe) => pipe.write(bytes).await,
            InputEnd::Terminal(terminal) => write_terminal(terminal, bytes).await,
        }
    }

    /// Ends the input. At a terminal this is the character for it, which a program may read
    /// otherwise.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub async fn close(self) -> io::Result<()> {
        match self.0 {
            InputEnd::Pipe(_) => Ok(()),
            InputEnd::Terminal(terminal) => {
                write_terminal(&terminal, END_OF_INPUT).await.map(|_written| ())
            }
        }
    }
}

async fn write_terminal(terminal: &AsyncFd<OwnedFd>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        let mut ready = terminal.writable().await?;
        let write = |fd: &AsyncFd<OwnedFd>| Ok(rustix::io::write(fd.get_ref(), bytes)?);
        if let Ok(written) = ready.try_io(write) {
            return written;
        }
    }
}

impl CommandOutput {
    pub(crate) const fn of_pipe(pipe: Receiver) -> Self {
        Self(OutputEnd::Pipe(pipe))
    }

    /// Reads what is there, once something is, and returns how many bytes that were; 0 at the
    /// end. Nothing is lost if the future is dropped.
    pub async fn read(&mut self, buffer: &mut [u8]) -> usize {
        match &mut self.0 {
            // An error of a pipe's reading end is its end.
            OutputEnd::Pipe(pipe) => pipe.read(buffer).await.unwrap_or(0),
            OutputEnd::Terminal(terminal) => read_terminal(terminal, buffer).await.unwrap_or(0),
        }
    }
}

/// A terminal that nobody has open any more gives an error, which is its end.
async fn read_terminal(terminal: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = terminal.readable().await?;
        let read = |fd: &AsyncFd<OwnedFd>| Ok(rustix::io::read(fd.get_ref(), &mut *buffer)?);
        if let Ok(read) = ready.try_io(read) {
            return read;
        }
    }
}
