//! What every command that runs agents stands on: Tokio's threads, and the standard streams.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::exit::CliError;
use crate::surroundings::PrintError;

/// After the end, how long threads that are stuck are waited for: in foreign code, or reading
/// standard input.
pub(crate) const STUCK: Duration = Duration::from_millis(100);
/// Threads for work on files, and for questions to the person. Each costs memory of its own, so
/// many agents that read at once share them.
const BLOCKING_THREADS: usize = 64;

/// The threads that agents run on.
pub(crate) fn threads() -> Result<Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(CliError::failed)
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
