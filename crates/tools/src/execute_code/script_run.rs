//! One script from its start to its end.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use deputize_core::event::JournalError;
use deputize_core::{Cancel, CancelReason, ToolCx};
use deputize_process::{
    Command, ConnectedProgram, Exit, Output, OutputCapture, OutputLimits, Owner, SpawnError, Spill,
    SpillFile, base_env,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::calls::{CallsEnd, ScriptCalls};
use super::clock::ScriptClock;
use super::message::{LINE_BYTES, ScriptStart, line};
use super::python::isolated;
use crate::Settings;

/// The functions for scripts.
const MODULE: &str = include_str!("agent_tools.py");
/// What Python runs: it takes the connection from its input, and module and script from there.
const START: &str = include_str!("start.py");
/// Bytes that are kept of the messages of a script, from their end.
const STDERR_BYTES: usize = 8 * 1024;
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Time limit for what is left after the end: calls that settle, output, the disk.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// A script that has ended.
#[derive(Debug)]
pub(super) struct ScriptEnd {
    pub(super) exit: Exit,
    /// Its output, and the file with all of it.
    pub(super) output: Output,
    pub(super) spill: Option<Spill>,
    /// The end of its messages.
    pub(super) stderr: Output,
    /// Its calls; `None` if they did not settle.
    pub(super) calls: Option<CallsEnd>,
    /// Numbers of processes that could not be ended.
    pub(super) left: Vec<i32>,
}

/// Why a script has no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScriptError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Runs a script, and ends everything that it started.
pub(super) async fn run_script(
    python: &Path,
    script: &str,
    owner: &Owner,
    spill: Option<SpillFile>,
    cx: &ToolCx,
) -> Result<ScriptEnd, ScriptError> {
    let settings = Settings::of(cx);
    let limits = &settings.code;
    // Where the paths of the file tools begin.
    let mut command = Command::new(python, cx.agent.spec.cwd.clone());
    command.args = isolated(START);
    command.env = base_env(&settings.commands.env);
    let ConnectedProgram { socket, mut stdout, mut stderr, mut process } =
        owner.connect(&command).await?;
    let clock = ScriptClock::new(Duration::from_secs(limits.seconds.into()));
    let inner = ToolCx { cancel: cx.cancel.child(), ..cx.clone() };
    let start = ScriptStart { module: MODULE, script, limit: LINE_BYTES };
    let head = limits.output_bytes / 2;
    let tail = limits.output_bytes - head;
    let mut output = OutputCapture::new(OutputLimits { head, tail }, spill);
    let messages = OutputLimits { head: 0, tail: STDERR_BYTES };
    let mut messages = OutputCapture::new(messages, None);
    let lost = cx.cancel.child();
    let mut calls = None;
    let (exit, ended) = {
        let serve = ScriptCalls::new(&inner, limits, &clock).serve(socket, line(&start));
        let attend = async {
            let serve = async {
                let end = serve.await;
                if end.is_err() {
                    // Without a journal nothing may go on.
                    lost.cancel(CancelReason::Interrupted);
                }
                calls = Some(end);
            };
            tokio::join!(serve, read(&mut stdout, &mut output), read(&mut stderr, &mut messages));
        };
        let mut attended = SideTask { work: std::pin::pin!(attend), is_done: false };
        let exit = attended.during(stop(process.wait_for_exit(), &clock, &lost)).await;
        // Nobody reads what calls give from now on.
        inner.cancel.cancel(CancelReason::Interrupted);
        let ended = attended.during(owner.end()).await;
        let _rest = tokio::time::timeout(DRAIN_LIMIT, attended.finish()).await;
        (exit, ended)
    };
    let (output, spill) = output.finish(DRAIN_LIMIT).await;
    let (stderr, _none) = messages.finish(DRAIN_LIMIT).await;
    let calls = calls.transpose()?;
    Ok(ScriptEnd { exit, output, spill, stderr, calls, left: ended.left })
}

/// Waits for whatever ends a script first.
async fn stop(exited: impl Future<Output = Exit>, clock: &ScriptClock, cancel: &Cancel) -> Exit {
    tokio::select! {
        biased;
        exit = exited => exit,
        () = cancel.cancelled() => Exit::Cancelled,
        () = clock.run_out() => Exit::TimedOut,
    }
}

async fn read(from: &mut Receiver, capture: &mut OutputCapture) {
    let mut buffer = vec![0; CHUNK];
    loop {
        // An error of a pipe's reading end is its end.
        let read = from.read(&mut buffer).await.unwrap_or(0);
        match buffer.get(..read) {
            None | Some([]) => return,
            Some(bytes) => capture.push(bytes).await,
        }
    }
}

/// Work that goes on while something else is waited for.
struct SideTask<W> {
    work: W,
    is_done: bool,
}

impl<W: Future<Output = ()> + Unpin> SideTask<W> {
    async fn during<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            tokio::select! {
                biased;
                done = &mut awaited => return done,
                () = self.step() => {}
            }
        }
    }

    /// Waits for the end of the work, once.
    async fn step(&mut self) {
        if self.is_done {
            pending::<()>().await;
        }
        (&mut self.work).await;
        self.is_done = true;
    }

    async fn finish(&mut self) {
        if !self.is_done {
            self.step().await;
        }
    }
}
