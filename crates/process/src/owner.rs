//! The owner of an agent's processes.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Stdin};
use crate::finished::{Background, Finished};
use crate::helper::HelperError;
use crate::link::Outbox;
use crate::mark::{COMMANDS, Mark, next_owner};
use crate::registry::{Refusal, Scope, Shared};
use crate::run::{Pipes, Running};
use crate::service::Service;
use crate::spawn::{SpawnError, explain, prepared};
use crate::supervisor::Ended;
use crate::tree::{Tree, abandon};
use crate::wire::{Request, Start};

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
    outbox: Arc<Outbox>,
    /// Cancelled when the owner is ended.
    ended: CancellationToken,
    /// Reads, and throws away, what background processes write.
    drains: Mutex<JoinSet<()>>,
}

impl Owner {
    pub(crate) fn new(shared: Arc<Shared>, outbox: Arc<Outbox>) -> Self {
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
            outbox,
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
        let (command, program) = prepared(command).await?;
        let (running, pipes) = self.begin(&command, &program).await?;
        Ok(Box::pin(running.finish(command, pipes, cancel)).await)
    }

    /// Starts a long-running program that is talked to through its three descriptors. Must be
    /// called inside a tokio runtime with IO. The input, output and time limits of `command` do
    /// not apply.
    ///
    /// # Errors
    ///
    /// If the program was not started.
    pub async fn open(self: &Arc<Self>, command: &Command) -> Result<Service, SpawnError> {
        Service::start(self, command).await
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

    async fn begin(
        &self,
        command: &Command,
        program: &Path,
    ) -> Result<(Running<'_>, Pipes), SpawnError> {
        let system = |source| SpawnError::from_system(source, program);
        let (pipes, ends) = self.pipes(&command.stdin).map_err(system)?;
        let started = Instant::now();
        let tree = self.launch(command, program, ends).await?;
        Ok((Running::new(self, tree, started), pipes))
    }

    /// Our ends of a command's pipes, and its own.
    fn pipes(&self, stdin: &Stdin) -> io::Result<(Pipes, [OwnedFd; 3])> {
        self.shared.steps.take()?;
        let (output, writer) = io::pipe()?;
        self.shared.steps.take()?;
        let (stdin, side) = open_stdin(stdin)?;
        self.shared.steps.take()?;
        let stderr = writer.try_clone()?;
        self.shared.steps.take()?;
        Ok((Pipes::new(output, side)?, [stdin, writer.into(), stderr.into()]))
    }

    /// Has a command started.
    pub(crate) async fn launch(
        &self,
        command: &Command,
        program: &Path,
        ends: [OwnedFd; 3],
    ) -> Result<Tree, SpawnError> {
        let number = self.commands.fetch_add(1, Ordering::Relaxed) % COMMANDS;
        let mark = Mark { owner: self.number, command: number };
        let (started, mut tree) = {
            // Held until it is asked for: the end of the owner is asked for after it.
            let mut registry = self.shared.registry();
            if !registry.open.contains(&self.number) {
                return Err(SpawnError::OwnerEnded);
            }
            let awaited = registry.expect_start(mark);
            let start = Start {
                mark,
                program: program.to_owned(),
                args: command.args.clone(),
                cwd: command.cwd.clone(),
                env: command.env.clone().into_iter().collect(),
            };
            if !self.outbox.put(Request::Start(start), ends.into()) {
                registry.refuse(mark, Refusal::Helper(HelperError::Lost));
            }
            (awaited.started, Tree::new(mark, awaited.exit, Arc::clone(&self.outbox)))
        };
        let refusal = match started.await {
            Ok(Ok(())) => return Ok(tree),
            Ok(Err(refusal)) => refusal,
            Err(_) => Refusal::Helper(HelperError::Lost),
        };
        tree.keep();
        Err(match refusal {
            Refusal::System(source) => explain(source, command, program),
            Refusal::Helper(error) => error.into(),
        })
    }

    /// Ends a scope and waits for it.
    pub(crate) async fn end_scope(&self, scope: Scope) -> Ended {
        let (ticket, ended) = self.shared.registry().expect_end();
        if !self.outbox.put(Request::End { ticket, scope }, Vec::new()) {
            // The supervisor is gone: it has ended everything.
            self.shared.registry().answer(ticket, Ended::default());
        }
        ended.await.unwrap_or_default()
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
        abandon(&self.outbox, Scope::Owner(self.number));
    }
}

/// Our end of a pipe at the child's descriptor 0.
pub(crate) enum Side {
    None,
    Feed(PipeWriter),
    Report(PipeReader),
}

fn open_stdin(stdin: &Stdin) -> io::Result<(OwnedFd, Side)> {
    match stdin {
        Stdin::Null => Ok((File::open("/dev/null")?.into(), Side::None)),
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
