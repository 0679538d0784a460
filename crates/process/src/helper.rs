//! The reaper in a process of its own, and how it is started.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};

use crate::fault_injection::FaultInjector;
use crate::output_writer::write_output;
use crate::private::keep_private;
use crate::reaper::Mode;
use crate::reaper_server::serve;
use crate::start::detach;

/// Name of the helper in lists of processes. It differs from the program's name, so killing all
/// processes of that name spares the one that cleans up after it.
const NAME: &str = "process-reaper";

/// Name of the helper that writes the output of a durable command to a file. The limit of the file
/// follows it.
const WRITER_NAME: &str = "output-writer ";

/// A program that starts commands and ends them when this program is gone, however that went.
///
/// It is any program whose `main` calls [`helper_main`] when it is started with these arguments:
/// most simply this one again.
///
/// ```no_run
/// use deputize_process::{Helper, SupervisorConfig, Supervisor, helper_main};
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if std::env::args_os().nth(1).is_some_and(|first| first == "--helper") {
///         return helper_main();
///     }
///     let helper = Helper::new("/proc/self/exe", ["--helper"]);
///     let supervisor = Supervisor::with(SupervisorConfig { helper: Some(helper), ..SupervisorConfig::default() });
///     // ...
///     # drop(supervisor);
///     ExitCode::SUCCESS
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    /// An absolute path. On Linux, `/proc/self/exe` is the running program, also when its file
    /// has been replaced meanwhile.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Its whole environment, which commands of the same user can read. Commands do not inherit
    /// it.
    pub env: Vec<(OsString, OsString)>,
}

/// Returns the running program.
#[must_use]
pub fn this_program() -> Option<PathBuf> {
    if cfg!(target_os = "linux") {
        Some("/proc/self/exe".into())
    } else {
        std::env::current_exe().ok()
    }
}

impl Helper {
    /// Returns the running program as its own helper; `None` where its file is not known. On Linux
    /// it is the running program also when its file has been replaced meanwhile.
    pub fn this_program<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Option<Self> {
        this_program().map(|program| Self::new(program, args))
    }

    /// Creates a helper with an empty environment.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.into(), args, env: Vec::new() }
    }

    /// Starts it with one end of a socket as its input.
    pub(crate) fn spawn(&self, socket: UnixStream) -> Result<Child, HelperError> {
        let ends = [Stdio::from(OwnedFd::from(socket)), Stdio::null(), Stdio::null()];
        self.spawn_as(NAME, ends)
    }

    /// Starts it as the process that writes the output of a durable command to a file with a limit.
    pub(crate) fn spawn_output_writer(
        &self,
        [input, reader, file]: [OwnedFd; 3],
        limit: u64,
    ) -> Result<Child, HelperError> {
        self.spawn_as(&format!("{WRITER_NAME}{limit}"), [input.into(), reader.into(), file.into()])
    }

    fn spawn_as(&self, name: &str, ends: [Stdio; 3]) -> Result<Child, HelperError> {
        let [stdin, stdout, stderr] = ends;
        let mut builder = std::process::Command::new(&self.program);
        builder
            .arg0(name)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr);
        detach(&mut builder);
        builder.spawn().map_err(|source| HelperError::start(&self.program, source))
    }
}

/// Why there is no helper, and so no command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelperError {
    /// It cannot be started.
    #[error("cannot start `{}`, which ends commands when this program is gone; check that it can be run, and that descriptors, memory and processes are left", program.display())]
    Start {
        /// Path of the helper's program.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It is another program.
    #[error("`{}` is not a helper: its main must call deputize_process::helper_main when it is started with the arguments of the setup", program.display())]
    Stranger {
        /// The started program.
        program: PathBuf,
    },
    /// It has ended, and with it every command.
    #[error(
        "the process that starts commands has ended, and all commands with it; try again to start another one"
    )]
    Lost,
}

impl HelperError {
    pub(crate) fn start(program: &Path, source: io::Error) -> Self {
        Self::Start { program: program.to_owned(), source }
    }
}

/// Runs a helper: serves the program that started it, ends all commands when that
/// program is gone, and returns when they are; or writes the output of a durable command to its
/// file, until its end.
///
/// Call it before anything else, in a `main` that has started no thread. By hand it does nothing
/// and says so.
#[must_use]
pub fn helper_main() -> ExitCode {
    if let Some(limit) = output_limit() {
        // Its messages would be in the file with the output.
        return write_output(limit).map_or(ExitCode::from(2), |()| ExitCode::SUCCESS);
    }
    let outcome = adopt_socket().and_then(|socket| {
        // It sees the environments that commands are given.
        keep_private()?;
        let program = settle()?;
        serve(socket, program, Mode::Process, FaultInjector::default())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _unread = writeln!(
                io::stderr(),
                "this starts and ends the commands of another process: {error}"
            );
            ExitCode::from(2)
        }
    }
}

/// Returns the limit of the file that this process was started to write, if it was.
fn output_limit() -> Option<u64> {
    let name = std::env::args_os().next()?;
    name.to_str()?.strip_prefix(WRITER_NAME)?.parse().ok()
}

/// Takes the socket from where it was given, so that no command can get at it.
fn adopt_socket() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    rustix::net::sockopt::socket_type(stdin.as_fd())?;
    let socket = stdin.as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}

/// Gives this process what a reaper needs; the handle of the program that it serves, if the
/// kernel has one.
#[cfg(target_os = "linux")]
fn settle() -> io::Result<Option<OwnedFd>> {
    use rustix::process::{
        PidfdFlags, Signal, getppid, pidfd_open, set_child_subreaper,
        set_parent_process_death_signal,
    };
    // What it is called is a matter of looks.
    let _ = rustix::thread::set_name(c"process-reaper");
    outlast_requests();
    set_child_subreaper(Some(rustix::process::getpid()))?;
    // One that a command has stopped would not see the end of the program that it serves.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    // The end of the socket says the same, unless somebody else holds the other end.
    Ok(getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok()))
}

#[cfg(not(target_os = "linux"))]
fn settle() -> io::Result<Option<OwnedFd>> {
    outlast_requests();
    Ok(None)
}

/// Has requests to end do nothing: the end of the program that is served is what ends this one.
/// Commands do not inherit that, as they would if the signals were ignored.
#[expect(unsafe_code, reason = "the standard library has no signals")]
fn outlast_requests() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the handler does nothing, which is safe at any moment.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
