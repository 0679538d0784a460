//! Launches the commands of one owner, and ends them.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Stdin};
use crate::helper::HelperError;
use crate::outbox::Outbox;
use crate::outcome::Background;
use crate::process_tag::{COMMANDS, ProcessTag, next_owner};
use crate::protocol::{ReaperRequest, StartCommand};
use crate::registry::{SharedRegistry, StartError};
use crate::scope::Scope;
use crate::spawn::{SpawnError, explain};
use crate::termination_report::TerminationReport;
use crate::tree::{Tree, abandon};

/// Outputs of one owner that are read on after their commands, because background processes hold
/// them.
pub const BACKGROUND_LIMIT: usize = 64;

/// Launches the commands of one owner. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Launcher {
    number: u32,
    commands: AtomicU32,
    shared: Arc<SharedRegistry>,
    outbox: Arc<Outbox>,
    /// Cancelled when the owner is ended.
    ended: CancellationToken,
    /// Reads, and throws away, what background processes write.
    drains: Mutex<JoinSet<()>>,
}

impl Launcher {
    pub(crate) fn new(shared: Arc<SharedRegistry>, outbox: Arc<Outbox>) -> Self {
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

    /// Ends every process, and refuses further commands.
    pub(crate) async fn end(&self) -> TerminationReport {
        self.close();
        let report = self.end_scope(Scope::Owner(self.number)).await;
        self.drains().abort_all();
        report
    }

    /// Refuses further commands and cancels those that run.
    fn close(&self) {
        self.shared.registry().open.remove(&self.number);
        self.ended.cancel();
    }

    /// Our ends of a command's pipes, and its own.
    pub(crate) fn pipes(&self, stdin: &Stdin) -> io::Result<(PipeReader, Side, [OwnedFd; 3])> {
        self.shared.steps.take()?;
        let (output, writer) = io::pipe()?;
        self.shared.steps.take()?;
        let (stdin, side) = open_stdin(stdin)?;
        self.shared.steps.take()?;
        let stderr = writer.try_clone()?;
        self.shared.steps.take()?;
        Ok((output, side, [stdin, writer.into(), stderr.into()]))
    }

    /// Has a command started.
    pub(crate) async fn launch(
        &self,
        command: &Command,
        program: &Path,
        ends: CommandEnds,
    ) -> Result<Tree, SpawnError> {
        let CommandEnds { descriptors, terminal } = ends;
        let number = self.commands.fetch_add(1, Ordering::Relaxed) % COMMANDS;
        let tag = ProcessTag { owner: self.number, command: number };
        let (started, mut tree) = {
            // Held until it is asked for: the end of the owner is asked for after it.
            let mut registry = self.shared.registry();
            if !registry.open.contains(&self.number) {
                return Err(SpawnError::OwnerEnded);
            }
            let awaited = registry.expect_start(tag);
            let start = StartCommand {
                tag,
                program: program.to_owned(),
                args: command.args.clone(),
                cwd: command.cwd.clone(),
                env: command.env.clone().into_iter().collect(),
                terminal,
            };
            if !self.outbox.put(ReaperRequest::Start(start), descriptors.into()) {
                registry.refuse(tag, StartError::Helper(HelperError::Lost));
            }
            (awaited.started, Tree::new(tag, awaited.exit, Arc::clone(&self.outbox)))
        };
        let refusal = match started.await {
            Ok(Ok(())) => return Ok(tree),
            Ok(Err(refusal)) => refusal,
            Err(_) => StartError::Helper(HelperError::Lost),
        };
        tree.keep();
        Err(match refusal {
            StartError::System(source) => explain(source, command, program),
            StartError::Helper(error) => error.into(),
        })
    }

    /// Ends a scope and waits for it.
    pub(crate) async fn end_scope(&self, scope: Scope) -> TerminationReport {
        let (ticket, ended) = self.shared.registry().expect_end();
        if !self.outbox.put(ReaperRequest::End { ticket, scope }, Vec::new()) {
            // The supervisor is gone: it has ended everything.
            self.shared.registry().answer(ticket, TerminationReport::default());
        }
        let ended = ended.await.unwrap_or_default();
        if !ended.is_complete() {
            tracing::warn!(?ended, "processes may be left");
        }
        ended
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
        self.drains.lock()
    }
}

impl Drop for Launcher {
    /// Asks the supervisor to end everything, without waiting.
    fn drop(&mut self) {
        self.close();
        abandon(&self.outbox, Scope::Owner(self.number));
    }
}

/// A command's own ends of its pipes, or of its terminal.
pub(crate) struct CommandEnds {
    /// Input, output and errors.
    pub(crate) descriptors: [OwnedFd; 3],
    /// Whether the input is a terminal that the command gets as its own.
    pub(crate) terminal: bool,
}

impl CommandEnds {
    pub(crate) const fn pipes(descriptors: [OwnedFd; 3]) -> Self {
        Self { descriptors, terminal: false }
    }

    pub(crate) const fn terminal(descriptors: [OwnedFd; 3]) -> Self {
        Self { descriptors, terminal: true }
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
