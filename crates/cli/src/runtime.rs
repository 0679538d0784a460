//! Setup of every command that runs agents: Tokio's threads, and the standard streams.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use deputize_process::share_c_heap;
use rustix::process::{Resource, getrlimit};

use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::processes::enough_open_files;
use crate::stdio::PrintError;

/// After the end, how long threads that are stuck are waited for: in foreign code, or reading
/// standard input.
pub(crate) const STUCK: Duration = Duration::from_millis(100);
/// Threads for work on files, and for questions to the person. Each costs memory of its own, so
/// many agents that read at once share them.
const BLOCKING_THREADS: usize = 64;
/// Threads and processes that a run takes beside those of Tokio's workers: for output, for
/// blocking work, and for starting and ending commands, of which one must be possible.
const LEAST_BESIDE: usize = 8;
/// A user, or a container, that may have so many has room for a run.
const MANY_THREADS: u64 = 4096;

/// Nothing can be run with so few.
#[derive(Debug, thiserror::Error)]
#[error("{found} more threads and processes may be started, and a run needs {least}")]
struct TooFewThreads {
    found: usize,
    least: usize,
}

/// Starts the threads that agents run on, if a run may have enough of them and enough open files.
/// They start beside whatever follows, so a command that needs them calls this first.
///
/// Tokio gives up where it finds none, so a thread for blocking work is there from the beginning and
/// stays: what finds no other waits for it.
pub(crate) fn start_threads(env: &ProcessEnv) -> Result<Runtime, CliError> {
    let few = |few| CliError::failed(few).hint("raise the limit (ulimit -Hn, ulimit -n)");
    enough_open_files(env.open_files).map_err(few)?;
    enough_threads()?;
    share_c_heap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(24 * 60 * 60))
        .enable_all()
        .build()
        .map_err(CliError::failed)?;
    // A worker makes it, while this thread goes on.
    runtime.spawn(async { drop(spawn_blocking(|| ())) });
    Ok(runtime)
}

/// Checks that a run can start the threads that it needs, if a limit applies.
fn enough_threads() -> Result<(), CliError> {
    if most_threads().is_none_or(|most| most >= MANY_THREADS) {
        return Ok(());
    }
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let least = workers + LEAST_BESIDE;
    let found = could_start(least);
    if found >= least {
        return Ok(());
    }
    let advice = "end other programs of this user, or raise the limit (ulimit -Hu, ulimit -u; in a \
                  container that of its pids)";
    Err(CliError::failed(TooFewThreads { found, least }).hint(advice))
}

/// Returns the limit on threads and processes: this user's, or a container's.
fn most_threads() -> Option<u64> {
    let user = getrlimit(Resource::Nproc).current;
    let container = std::fs::read_to_string("/sys/fs/cgroup/pids.max");
    let container = container.ok().and_then(|most| most.trim().parse().ok());
    user.into_iter().chain(container).min()
}

/// Returns how many threads, up to `most`, could exist at once.
fn could_start(most: usize) -> usize {
    let mut held = Vec::new();
    while held.len() < most {
        let (end, ended) = mpsc::channel::<()>();
        let waits = move || {
            let _told = ended.recv();
        };
        let Ok(thread) = thread::Builder::new().spawn(waits) else { break };
        held.push((end, thread));
    }
    let found = held.len();
    for (end, thread) in held {
        drop(end);
        let _ended = thread.join();
    }
    found
}

/// Standard output, which from now on is the peer's alone: what else is printed there goes to
/// standard error.
pub(crate) fn take_stdout() -> Result<File, CliError> {
    let taken = || {
        let output = own(io::stdout())?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(output)
    };
    taken().map_err(|error| CliError::failed(PrintError(error)))
}

/// A descriptor of our own for a standard stream.
pub(crate) fn own(stream: impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}
