//! One background command: a task reads its output, waits for its end and records it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deputize_core::Cancel;
use deputize_core::process::{ProcessExit, ProcessStart};
use deputize_core::process_recorder::{ProcessOutcome, ProcessRecords};
use deputize_core::source::Source;
use deputize_process::{CommandInput, CommandOutput, DRAIN_LIMIT, Exit, Output, SpillFile};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::output_log::{OutputFile, UnreadOutput, file_contains};
use super::process::{CommandEnd, StartedCommand, WatchedProcess};
use super::progress::CommandProgress;

/// The tool that starts such commands.
const SOURCE: &str = "terminal";
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A background command to be watched.
pub(crate) struct NewCommand {
    pub(crate) start: ProcessStart,
    /// The directory in which it begins.
    pub(crate) cwd: PathBuf,
    pub(crate) records: Arc<ProcessRecords>,
    /// Time after which it is ended; `None` for no limit.
    pub(crate) time_limit: Option<Duration>,
    /// Where its output is kept; `None` if it is not, or if a durable command has it kept.
    pub(crate) file: Option<SpillFile>,
    /// Whether its agent may go on after its turn, so that it gets a message if the end of the
    /// turn ends the command.
    pub(crate) is_top: bool,
}

/// A background command.
pub(crate) struct BackgroundCommand {
    start: ProcessStart,
    cwd: PathBuf,
    records: Arc<ProcessRecords>,
    is_top: bool,
    began: Instant,
    input: AsyncMutex<Option<CommandInput>>,
    state: Mutex<CommandState>,
    /// Signals output, or the end.
    news: Notify,
    /// Asks the task to end the command.
    stop: CancellationToken,
    /// Cancelled when the end is on record.
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct CommandState {
    output: UnreadOutput,
    /// Why the file does not hold the whole output.
    file_failed: Option<String>,
    /// Bytes that the file holds.
    in_file: u64,
    /// Why it was asked to end.
    stopped: Option<ProcessExit>,
    exit: Option<ProcessExit>,
    ran: Duration,
    /// Processes that could not be ended.
    left: Vec<i32>,
    /// Calls that wait for its end, and will report it.
    waiting: u32,
}

impl std::fmt::Debug for BackgroundCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackgroundCommand({})", self.start.process)
    }
}

impl BackgroundCommand {
    /// Watches a command that was started, to its end, in a task of this set. Dropping the set ends
    /// the command.
    pub(super) fn watch(
        new: NewCommand,
        command: StartedCommand,
        tasks: &mut JoinSet<()>,
    ) -> Arc<Self> {
        let StartedCommand { input, output, process } = command;
        let watched = Arc::new(Self {
            start: new.start,
            cwd: new.cwd,
            records: new.records,
            is_top: new.is_top,
            began: Instant::now(),
            input: AsyncMutex::new(input),
            state: Mutex::default(),
            news: Notify::new(),
            stop: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        let task = Watcher {
            command: Arc::clone(&watched),
            output,
            file: new.file.map(OutputFile::new),
            buffer: vec![0; CHUNK],
            is_open: true,
        };
        tasks.spawn(task.run(process, new.time_limit));
        watched
    }

    pub(crate) fn id(&self) -> &str {
        &self.start.process
    }

    pub(crate) fn start(&self) -> &ProcessStart {
        &self.start
    }

    /// Returns the directory in which it began.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns how it ended; `None` while it runs.
    pub(crate) fn exit(&self) -> Option<ProcessExit> {
        self.state.lock().exit
    }

    /// Returns how long it has run.
    pub(crate) fn ran(&self) -> Duration {
        let state = self.state.lock();
        if state.exit.is_some() { state.ran } else { self.began.elapsed() }
    }

    /// Returns how many bytes of its output were not read yet.
    pub(crate) fn unread(&self) -> u64 {
        self.state.lock().output.unread()
    }

    /// Returns how many bytes of output there were in all.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.state.lock().output.total()
    }

    /// Returns what is new. Of a command that runs it stays unread, so that whoever waits for a
    /// text finds it there.
    pub(crate) fn first_progress(&self) -> CommandProgress {
        let mut state = self.state.lock();
        let output = match state.exit {
            None => state.output.peek(),
            Some(_) => state.output.take(),
        };
        self.progress(&state, output)
    }

    /// Takes what is new.
    pub(crate) fn take_progress(&self) -> CommandProgress {
        let mut state = self.state.lock();
        let output = state.output.take();
        self.progress(&state, output)
    }

    fn progress(&self, state: &CommandState, output: Output) -> CommandProgress {
        let in_file = state.in_file;
        CommandProgress {
            output,
            exit: state.exit,
            ran: if state.exit.is_some() { state.ran } else { self.began.elapsed() },
            file: self.start.output.clone().map(|path| (path, in_file)),
            file_failed: state.file_failed.clone(),
            left: state.left.clone(),
            is_durable: self.start.durable_pid.is_some(),
        }
    }

    /// Returns the input; `None` in it if it is closed.
    pub(crate) async fn input(&self) -> AsyncMutexGuard<'_, Option<CommandInput>> {
        self.input.lock().await
    }

    /// Asks for its end, which will be recorded so. The first reason counts.
    pub(crate) fn stop(&self, why: ProcessExit) {
        self.state.lock().stopped.get_or_insert(why);
        self.stop.cancel();
    }

    /// Waits until its end is on record.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Waits until it ends, until a text is in its unread output after so many bytes of all, for a
    /// time, or until a cancel. Returns whether the text is there.
    pub(crate) async fn wait(
        &self,
        until: Option<(&str, u64)>,
        time: Duration,
        cancel: &Cancel,
    ) -> bool {
        let _waits = WaitMark::new(self);
        let found = match until {
            Some((text, from)) => self.search(text, from).await,
            None => false,
        };
        if found {
            return true;
        }
        let news = async {
            loop {
                let mut news = std::pin::pin!(self.news.notified());
                news.as_mut().enable();
                if self.over.is_cancelled() || self.state.lock().output.has_found() {
                    return;
                }
                news.await;
            }
        };
        let bounded = tokio::time::timeout(time, news);
        tokio::select! {
            biased;
            _ = bounded => {}
            () = cancel.cancelled() => {}
        }
        self.state.lock().output.has_found()
    }

    /// Begins to look for a text. Returns whether the output that was not read yet has it after so
    /// many bytes of all.
    async fn search(&self, text: &str, from: u64) -> bool {
        let (found, from) = {
            let mut state = self.state.lock();
            let found = state.output.begin_search(text, from);
            let unread = state.output.total().saturating_sub(state.output.unread());
            (found, state.output.lacks_some().then_some(from.max(unread)))
        };
        let (false, Some(from), Some(path)) = (found, from, self.start.output.clone()) else {
            return found;
        };
        let text = text.to_owned();
        let looked = tokio::task::spawn_blocking(move || file_contains(&path, from, &text)).await;
        matches!(looked, Ok(Ok(true)))
    }

    /// Puts its end on record.
    fn record_end(&self, exit: ProcessExit, left: Vec<i32>) {
        let (bytes, lines) = {
            let mut state = self.state.lock();
            state.exit = Some(exit);
            state.ran = self.began.elapsed();
            state.left = left;
            let lines = self.is_news(exit, state.waiting > 0).then(|| state.output.last_lines());
            (state.output.total(), lines)
        };
        let outcome = ProcessOutcome {
            start: self.start.clone(),
            source: Source::tool(SOURCE),
            exit,
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            output_bytes: bytes,
            message: lines,
        };
        if let Err(error) = self.records.recorder().record_end(outcome) {
            let error = deputize_core::describe_error(&error);
            tracing::error!(process = self.start.process, error, "end of a command not recorded");
        }
        self.over.cancel();
        self.news.notify_waiters();
    }

    /// Returns whether its agent gets a message about the end.
    fn is_news(&self, exit: ProcessExit, is_reported: bool) -> bool {
        match exit {
            ProcessExit::Killed => false,
            ProcessExit::AgentEnded | ProcessExit::LeftRunning { .. } => self.is_top,
            _ => self.start.notify && !is_reported,
        }
    }
}

/// Marks a command as waited for, until it is dropped.
struct WaitMark<'a>(&'a BackgroundCommand);

impl<'a> WaitMark<'a> {
    fn new(command: &'a BackgroundCommand) -> Self {
        command.state.lock().waiting += 1;
        Self(command)
    }
}

impl Drop for WaitMark<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        state.output.end_search();
    }
}

/// The task that watches a command.
struct Watcher {
    command: Arc<BackgroundCommand>,
    output: CommandOutput,
    file: Option<OutputFile>,
    buffer: Vec<u8>,
    is_open: bool,
}

impl Watcher {
    async fn run(mut self, mut process: WatchedProcess, time_limit: Option<Duration>) {
        let command = Arc::clone(&self.command);
        let over = {
            let limit = async {
                match time_limit {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            let over = async {
                tokio::select! {
                    biased;
                    () = command.stop.cancelled() => CommandEnd::Stopped,
                    exit = process.wait_for_exit() => CommandEnd::Exited(exit),
                    () = limit => CommandEnd::TimedOut,
                }
            };
            self.reading(over).await
        };
        if matches!(over, CommandEnd::Exited(_)) {
            self.drain().await;
        }
        let stopped = command.state.lock().stopped.unwrap_or(ProcessExit::Killed);
        if let (CommandEnd::Stopped, ProcessExit::AgentEnded, Some(pid)) =
            (&over, stopped, command.start.durable_pid)
        {
            return command.record_end(ProcessExit::LeftRunning { pid }, Vec::new());
        }
        let left = self.reading(process.end(&over)).await;
        self.drain().await;
        let exit = match over {
            CommandEnd::Exited(Exit::Code(code)) => ProcessExit::Code { code },
            CommandEnd::Exited(Exit::Signal(signal)) => ProcessExit::Signal { signal },
            CommandEnd::Exited(Exit::Cancelled) => ProcessExit::AgentEnded,
            CommandEnd::Exited(Exit::TimedOut | Exit::Unknown) => ProcessExit::Unknown,
            CommandEnd::Stopped => stopped,
            CommandEnd::TimedOut => ProcessExit::TimedOut,
        };
        *command.input.lock().await = None;
        command.record_end(exit, left);
    }

    /// Reads the output while something else is waited for.
    async fn reading<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            let read = tokio::select! {
                biased;
                done = &mut awaited => return done,
                read = self.output.read(&mut self.buffer), if self.is_open => read,
            };
            self.push(read).await;
        }
    }

    /// Reads what is left of the output, which a process that it started may hold open.
    async fn drain(&mut self) {
        let limit = tokio::time::sleep(DRAIN_LIMIT);
        let mut limit = std::pin::pin!(limit);
        while self.is_open {
            let read = tokio::select! {
                biased;
                read = self.output.read(&mut self.buffer) => read,
                () = &mut limit => return,
            };
            self.push(read).await;
        }
    }

    /// Takes so many bytes of the buffer.
    async fn push(&mut self, read: usize) {
        let bytes = self.buffer.get(..read).unwrap_or_default();
        self.is_open = !bytes.is_empty();
        if let Some(file) = &mut self.file {
            file.push(bytes).await;
        }
        {
            let mut state = self.command.state.lock();
            state.output.push(bytes);
            if let Some(file) = &self.file {
                state.in_file = file.written();
                state.file_failed = file.failed().map(str::to_owned);
            }
        }
        self.command.news.notify_waiters();
    }
}
