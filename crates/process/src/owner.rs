//! The owner of an agent's processes.

use std::io::{self, PipeReader, PipeWriter};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Stdin};
use crate::finished::{Background, Finished};
use crate::mark::{COMMANDS, Mark, next_owner};
use crate::registry::{Root, Scope, Shared};
use crate::run::{Pipes, Running};
use crate::service::Service;
use crate::spawn::{Ends, SpawnError, prepare, start};
use crate::supervisor::{Ended, Request};

/// Outputs of one owner that are read on after their commands, because background processes hold
/// them.
pub const BACKGROUND_LIMIT: usize = 64;

/// Owns every process that one agent starts.
///
/// A background process that a command leaves behind lives until its owner is ended.
#[derive(Debug)]
pub struct Owner {
    number: u32,
    commands: AtomicU32,
    shared: Arc<Shared>,
    requests: Sender<Request>,
    /// Cancelled when the owner is ended.
    ended: CancellationToken,
    /// Reads, and throws away, what background processes write.
    drains: Mutex<JoinSet<()>>,
}

impl Owner {
    pub(crate) fn new(shared: Arc<Shared>, requests: Sender<Request>) -> Self {
        let number = next_owner();
        {
            let mut registry = shared.registry();
            registry.owners.insert(number);
            registry.open.insert(number);
        }
        Self {
            number,
            commands: AtomicU32::new(0),
            shared,
            requests,
            ended: CancellationToken::new(),
            drains: Mutex::default(),
        }
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
    ) -> Result<Finished, SpawnError> {
        if cancel.is_cancelled() {
            return Ok(Finished::not_started());
        }
        let (running, pipes) = self.begin(&command)?;
        Ok(Box::pin(running.finish(command, pipes, cancel)).await)
    }

    /// Starts a long-running program that is talked to through its three descriptors. Must be
    /// called inside a tokio runtime with IO. The input, output and time limits of `command` do
    /// not apply.
    ///
    /// # Errors
    ///
    /// If the program was not started.
    pub fn open(self: &Arc<Self>, command: &Command) -> Result<Service, SpawnError> {
        Service::start(self, command)
    }

    /// Ends every process that this owner ever started, and every command that runs. Nothing
    /// can be started afterwards.
    pub async fn end(&self) -> Ended {
        self.close();
        let ended = self.end_scope(Scope::Owner(self.number)).await;
        self.drains().abort_all();
        ended
    }

    /// Refuses further commands and cancels those that run.
    fn close(&self) {
        self.shared.registry().open.remove(&self.number);
        self.ended.cancel();
    }

    fn begin(&self, command: &Command) -> Result<(Running<'_>, Pipes), SpawnError> {
        let program = prepare(command)?;
        let system = |source| SpawnError::from_system(source, &program);
        let (output, writer) = io::pipe().map_err(system)?;
        let (stdin, side) = open_stdin(&command.stdin).map_err(system)?;
        let stderr = writer.try_clone().map_err(system)?.into();
        let ends = Ends { stdin, stdout: writer.into(), stderr };
        let pipes = Pipes::new(output, side).map_err(system)?;

        let started = Instant::now();
        let child = self.launch(command, &program, ends)?;
        Ok((Running::new(self, child, started), pipes))
    }

    /// Starts and registers the first process of a command.
    pub(crate) fn launch(
        &self,
        command: &Command,
        program: &Path,
        ends: Ends,
    ) -> Result<(Child, Mark), SpawnError> {
        let number = self.commands.fetch_add(1, Ordering::Relaxed) % COMMANDS;
        let mark = Mark { owner: self.number, command: number };
        // Held until the child is registered: the supervisor must not see it before.
        let mut registry = self.shared.registry();
        if !registry.open.contains(&self.number) {
            return Err(SpawnError::OwnerEnded);
        }
        let child = start(command, program, (&self.shared.seal, mark), ends)?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        registry.roots.insert(pid, Root { mark, watched: true });
        Ok((child, mark))
    }

    /// Ends a scope and waits for it.
    pub(crate) async fn end_scope(&self, scope: Scope) -> Ended {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(Request::End(scope, answer)).is_err() {
            // The supervisor is gone: it has ended everything.
            return Ended::default();
        }
        answered.await.unwrap_or_default()
    }

    /// Asks to end a scope; nobody waits.
    pub(crate) fn abandon(&self, scope: Scope) {
        let (answer, _) = oneshot::channel();
        let _ = self.requests.send(Request::End(scope, answer));
    }

    /// Asks the supervisor to collect what has ended.
    pub(crate) fn sweep(&self) {
        let _ = self.requests.send(Request::Sweep);
    }

    /// Leaves the first process of a command to the supervisor.
    pub(crate) fn unwatch(&self, pid: i32, mark: Mark) {
        // Collected, its number may be that of a later command already.
        if let Some(root) = self.shared.registry().roots.get_mut(&pid)
            && root.mark == mark
        {
            root.watched = false;
        }
    }

    /// Completes when the owner is ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Reads on from an output that a background process holds, so that neither a full pipe
    /// stops it nor a closed one kills it.
    pub(crate) fn drain(&self, mut output: Receiver) -> Background {
        let mut drains = self.drains();
        while drains.try_join_next().is_some() {}
        if drains.len() >= BACKGROUND_LIMIT {
            return Background::Closed;
        }
        drains.spawn(async move {
            let mut buffer = vec![0; 4096];
            while matches!(output.read(&mut buffer).await, Ok(1..)) {}
        });
        Background::Discarded
    }

    fn drains(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    /// Asks the supervisor to end everything, without waiting.
    fn drop(&mut self) {
        self.close();
        self.abandon(Scope::Owner(self.number));
    }
}

/// Our end of a pipe at the child's descriptor 0.
pub(crate) enum Side {
    None,
    Feed(PipeWriter),
    Report(PipeReader),
}

fn open_stdin(stdin: &Stdin) -> io::Result<(Stdio, Side)> {
    match stdin {
        Stdin::Null => Ok((Stdio::null(), Side::None)),
        Stdin::Bytes(_) => {
            let (reader, writer) = io::pipe()?;
            Ok((reader.into(), Side::Feed(writer)))
        }
        Stdin::Report { .. } => {
            let (reader, writer) = io::pipe()?;
            Ok((writer.into(), Side::Report(reader)))
        }
    }
}
