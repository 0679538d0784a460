//! `deputize acp`: this agent for an editor, on the standard streams.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use deputize_acp::serve::{Who, serve};
use deputize_core::{Cancel, RetryPolicy, ToolCrate};
use deputize_runtime::Gates;
use deputize_tools::Processes;

use crate::args::Acp;
use crate::compose::acp::{Desk, Office};
use crate::exit::{CliError, Exit};
use crate::processes::{enough_open_files, setup};
use crate::stop::Signals;
use crate::surroundings::{PrintError, Surroundings, tell};

/// After the end, how long threads that are stuck are waited for: one reads standard input.
const STUCK: Duration = Duration::from_millis(100);
/// Threads for work on files.
const BLOCKING_THREADS: usize = 64;

/// Serves until the editor is gone.
pub(crate) fn acp(
    links: &[ToolCrate],
    mut around: Surroundings,
    args: &Acp,
) -> Result<u8, CliError> {
    enough_open_files(around.open_files).map_err(CliError::failed)?;
    if around.stdin_is_terminal {
        tell("note: an editor starts this program and talks to it; see docs/acp.md");
    }
    around.at_editor = true;
    let input = own(io::stdin()).map_err(CliError::failed)?;
    let output = take_stdout().map_err(|error| CliError::failed(PrintError(error)))?;
    let processes = Arc::new(Processes::with(setup(around.open_files)));
    let desk = Desk(Arc::new(Office {
        links: links.to_vec(),
        dir: around.sessions()?,
        options: args.options(),
        around,
        processes,
        gate: Arc::new(Gates::new(RetryPolicy::default(), fastrand::u64(..))),
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(CliError::failed)?;
    let code = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed)?;
        let end = Cancel::new();
        let streams = (tokio::fs::File::from_std(input), tokio::fs::File::from_std(output));
        let who = Who { name: "deputize", version: env!("CARGO_PKG_VERSION") };
        let served = Box::pin(serve(who, Arc::new(desk), streams, &end));
        let served = signals.guard(served, &end, |_| {}).await;
        let interrupted = served.is_none() || end.is_cancelled();
        Ok(if interrupted { Exit::Interrupted.code() } else { 0 })
    });
    runtime.shutdown_timeout(STUCK);
    code
}

/// Standard output, which from now on is the editor's alone: what else is printed there goes to
/// standard error.
fn take_stdout() -> io::Result<File> {
    let output = own(io::stdout())?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(output)
}

/// A descriptor of our own for a standard stream.
fn own(stream: impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}
