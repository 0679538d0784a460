//! One command from its start to its result.

use std::future::pending;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::capture::OutputCapture;
use crate::command::{Command, Stdin};
use crate::launcher::{CommandEnds, Launcher, Side};
use crate::outcome::{Background, CommandOutcome, Exit, StateReport};
use crate::spawn::SpawnError;
use crate::termination_report::TerminationReport;
use crate::tree::Tree;

/// Time limit for the output, and then for the disk, after the command has ended. A background
/// process can hold the output longer.
pub const DRAIN_LIMIT: Duration = Duration::from_millis(500);
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// Our ends of a command's pipes.
pub(crate) struct Pipes {
    output: Receiver,
    feed: Option<Sender>,
    report: Option<Receiver>,
}

impl Pipes {
    pub(crate) fn new(output: PipeReader, side: Side) -> io::Result<Self> {
        let receiver = |reader: PipeReader| Receiver::from_owned_fd(OwnedFd::from(reader));
        let (feed, report) = match side {
            Side::None => (None, None),
            Side::Feed(writer) => (Some(Sender::from_owned_fd(OwnedFd::from(writer))?), None),
            Side::Report(reader) => (None, Some(receiver(reader)?)),
        };
        Ok(Self { output: receiver(output)?, feed, report })
    }
}

/// A command that runs. Dropping it ends its tree.
pub(crate) struct CommandRun<'a> {
    launcher: &'a Launcher,
    tree: Tree,
    started: Instant,
}

enum Stop {
    Exited(Exit),
    TimedOut,
    Cancelled,
}

impl<'a> CommandRun<'a> {
    pub(crate) async fn start(
        launcher: &'a Launcher,
        command: &Command,
        program: &Path,
    ) -> Result<(Self, Pipes), SpawnError> {
        let system = |source| SpawnError::from_system(source, program);
        let (output, side, ends) = launcher.pipes(&command.stdin).map_err(system)?;
        let pipes = Pipes::new(output, side).map_err(system)?;
        // Before the start: the child may be ahead of us.
        let started = Instant::now();
        let tree = launcher.launch(command, program, CommandEnds::pipes(ends)).await?;
        Ok((Self { launcher, tree, started }, pipes))
    }

    pub(crate) async fn finish(
        mut self,
        command: Command,
        pipes: Pipes,
        cancel: &CancellationToken,
    ) -> CommandOutcome {
        let Pipes { mut output, feed, mut report } = pipes;
        let mut capture = OutputCapture::new(command.output, command.spill);
        let mut reported = ReportBuffer::new(&command.stdin);
        let cancelled = EitherCancel { cancel, launcher: self.launcher };
        let (exit, ended, complete) = {
            let mut streams = Streams {
                output: pin!(read_output(&mut output, &mut capture)),
                side: pin!(serve_side(feed, &command.stdin, report.as_mut(), &mut reported)),
                output_done: false,
                side_done: false,
            };
            let stop = streams.during(self.stop(command.time_limit, &cancelled)).await;
            let (exit, ended) = match stop {
                Stop::Exited(exit) => (exit, TerminationReport::default()),
                Stop::TimedOut => (Exit::TimedOut, streams.during(self.end()).await),
                Stop::Cancelled => (Exit::Cancelled, streams.during(self.end()).await),
            };
            match self.drain(&mut streams, exit, &cancelled).await {
                Some(ended) => (Exit::Cancelled, ended, streams.output_done),
                None => (exit, ended, streams.output_done),
            }
        };
        if let Some(report) = &report {
            reported.take_rest(report);
        }
        let (output_kept, spill) = capture.finish(DRAIN_LIMIT).await;
        let background = if complete { Background::None } else { self.launcher.drain(output) };
        // What is left in the background may stay.
        self.tree.keep();
        CommandOutcome {
            exit,
            output: output_kept,
            spill,
            duration: self.started.elapsed(),
            background,
            ended,
            report: reported.into_report(),
        }
    }

    /// Waits for whatever ends the command first.
    async fn stop(&mut self, time_limit: Duration, cancelled: &EitherCancel<'_>) -> Stop {
        tokio::select! {
            biased;
            // Its processes are asked to end already: whichever way this one ended, that was it.
            () = self.launcher.ended() => Stop::Cancelled,
            exit = self.tree.ended() => Stop::Exited(exit),
            () = cancelled.wait() => Stop::Cancelled,
            () = tokio::time::sleep(time_limit) => Stop::TimedOut,
        }
    }

    async fn end(&self) -> TerminationReport {
        self.launcher.end_scope(self.tree.scope()).await
    }

    /// Reads what is left of the output, which a background process may hold open. A cancel
    /// still counts: it ends the background processes too, and then what it ended is returned.
    async fn drain<O, S>(
        &mut self,
        streams: &mut Streams<'_, O, S>,
        exit: Exit,
        cancelled: &EitherCancel<'_>,
    ) -> Option<TerminationReport>
    where
        O: Future<Output = ()>,
        S: Future<Output = ()>,
    {
        if matches!(exit, Exit::Cancelled | Exit::TimedOut) {
            let _ = tokio::time::timeout(DRAIN_LIMIT, streams.output()).await;
            return None;
        }
        tokio::select! {
            biased;
            _ = tokio::time::timeout(DRAIN_LIMIT, streams.output()) => return None,
            () = cancelled.wait() => {}
        }
        let ended = streams.during(self.end()).await;
        let _ = tokio::time::timeout(DRAIN_LIMIT, streams.output()).await;
        Some(ended)
    }
}

/// The caller's cancel, or the end of the owner.
struct EitherCancel<'a> {
    cancel: &'a CancellationToken,
    launcher: &'a Launcher,
}

impl EitherCancel<'_> {
    async fn wait(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.launcher.ended() => {}
        }
    }
}

/// The pipes, served while something else is waited for.
struct Streams<'a, O, S> {
    output: Pin<&'a mut O>,
    side: Pin<&'a mut S>,
    output_done: bool,
    side_done: bool,
}

impl<O: Future<Output = ()>, S: Future<Output = ()>> Streams<'_, O, S> {
    async fn during<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        loop {
            tokio::select! {
                biased;
                done = &mut awaited => return done,
                () = self.output.as_mut(), if !self.output_done => self.output_done = true,
                () = self.side.as_mut(), if !self.side_done => self.side_done = true,
            }
        }
    }

    /// Serves both until the output has ended.
    async fn output(&mut self) {
        while !self.output_done {
            tokio::select! {
                biased;
                () = self.output.as_mut() => self.output_done = true,
                () = self.side.as_mut(), if !self.side_done => self.side_done = true,
            }
        }
    }
}

async fn read_output(output: &mut Receiver, capture: &mut OutputCapture) {
    let mut buffer = vec![0; CHUNK];
    loop {
        // An error of a pipe's reading end is its end.
        let read = output.read(&mut buffer).await.unwrap_or(0);
        match buffer.get(..read) {
            None | Some([]) => return,
            Some(bytes) => capture.push(bytes).await,
        }
    }
}

async fn serve_side(
    feed: Option<Sender>,
    stdin: &Stdin,
    report: Option<&mut Receiver>,
    reported: &mut ReportBuffer,
) {
    if let (Some(mut feed), Stdin::Bytes(bytes)) = (feed, stdin) {
        // The program need not read its input.
        let _ = feed.write_all(bytes).await;
    } else if let Some(report) = report {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = report.read(&mut buffer).await {
            reported.push(buffer.get(..read).unwrap_or_default());
        }
    } else {
        pending().await
    }
}

/// The bytes of the report pipe.
struct ReportBuffer {
    limit: Option<usize>,
    bytes: Vec<u8>,
    too_long: bool,
}

impl ReportBuffer {
    fn new(stdin: &Stdin) -> Self {
        let limit = match stdin {
            Stdin::Report { limit } => Some(*limit),
            Stdin::Null | Stdin::Bytes(_) => None,
        };
        Self { limit, bytes: Vec::new(), too_long: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.too_long |= self.bytes.len() + bytes.len() > self.limit.unwrap_or(0);
        if !self.too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Takes what the command wrote before it ended. The end of the pipe is not waited for: a
    /// background process may have inherited it.
    fn take_rest(&mut self, report: &Receiver) {
        let mut buffer = vec![0; CHUNK];
        while !self.too_long {
            match rustix::io::read(report, &mut buffer) {
                Ok(0) => return,
                Ok(read) => self.push(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_nothing_there) => return,
            }
        }
    }

    fn into_report(self) -> Option<StateReport> {
        let limit = self.limit?;
        Some(if self.too_long {
            StateReport::TooLong { limit }
        } else {
            StateReport::Bytes(self.bytes)
        })
    }
}
