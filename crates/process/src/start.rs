//! Starting one process.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::command::Command;
use crate::pid_namespace::PidNamespace;
use crate::process_tag::{OWNER_VARIABLE, TagCodec, set_tag_limit};
use crate::protocol::StartCommand;

/// Attributes of a new process: what it inherits, and what it does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnAttributes<'a> {
    pub(crate) codec: &'a TagCodec,
    /// The namespace that it is in: its `/proc` is to be seen.
    pub(crate) namespace: Option<&'a PidNamespace>,
    /// The soft limit of open files, if not ours.
    pub(crate) open_files: Option<u64>,
    /// The process that it dies with: ours, whose only thread this is.
    pub(crate) dies_with: Option<i32>,
}

/// Starts the program in a session of its own, and gives its number.
pub(crate) fn start(
    start: &StartCommand,
    [stdin, stdout, stderr]: [OwnedFd; 3],
    attributes: SpawnAttributes<'_>,
) -> io::Result<i32> {
    let mut builder = std::process::Command::new(&start.program);
    builder
        .args(&start.args)
        .current_dir(&start.cwd)
        .env_clear()
        .envs(start.env.iter().map(|(name, value)| (name, value)))
        .env(OWNER_VARIABLE, attributes.codec.variable(start.tag))
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    let cwd = CString::new(start.cwd.as_os_str().as_bytes())?;
    let change = Change {
        limit: attributes.codec.limit(start.tag),
        mounts: attributes.namespace.map(|space| space.handle().as_raw_fd()),
        cwd,
        open_files: attributes.open_files,
        dies_with: attributes.dies_with,
        terminal: start.terminal,
    };
    prepare(&mut builder, change);
    let child = builder.spawn()?;
    i32::try_from(child.id()).map_err(io::Error::other)
}

/// Starts a durable command in a session of its own: without input, a mark, or anything that ends it
/// with its parent.
pub(crate) fn start_durable(
    command: &Command,
    program: &Path,
    [stdout, stderr]: [OwnedFd; 2],
    open_files: Option<u64>,
) -> io::Result<Child> {
    let mut builder = std::process::Command::new(program);
    builder
        .args(&command.args)
        .current_dir(&command.cwd)
        .env_clear()
        .envs(&command.env)
        .stdin(Stdio::null())
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    prepare(&mut builder, Change { open_files, ..Change::default() });
    builder.spawn()
}

/// Starts a helper in a session of its own, with none of our descriptors but its three.
pub(crate) fn detach(builder: &mut std::process::Command) {
    prepare(builder, Change::default());
}

/// Changes between fork and exec.
#[derive(Default)]
struct Change {
    limit: Option<u64>,
    mounts: Option<i32>,
    /// The working directory in these mounts.
    cwd: CString,
    open_files: Option<u64>,
    dies_with: Option<i32>,
    /// Whether descriptor 0 is the terminal of the new session.
    terminal: bool,
}

impl Change {
    /// Makes plain system calls; neither allocates, locks nor panics.
    fn make(&self) -> io::Result<()> {
        if let Some(parent) = self.dies_with {
            die_with(parent)?;
        }
        rustix::process::setsid()?;
        if self.terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        if let Some(handle) = self.mounts {
            PidNamespace::enter_mounts(borrow(handle))?;
            // The directory was that of the mounts before.
            change_directory(&self.cwd)?;
        }
        if let Some(limit) = self.limit {
            set_tag_limit(limit);
        }
        if let Some(soft) = self.open_files {
            limit_open_files(soft);
        }
        close_descriptors_at_exec();
        Ok(())
    }
}

#[expect(unsafe_code, reason = "the standard library has no safe way to start a session")]
fn prepare(builder: &mut std::process::Command, change: Change) {
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are
    // allowed, and `Change::make` does no other.
    unsafe { builder.pre_exec(move || change.make()) };
}

fn change_directory(cwd: &CStr) -> io::Result<()> {
    Ok(rustix::process::chdir(cwd)?)
}

/// The descriptor belongs to a namespace that outlives the start.
#[expect(unsafe_code, reason = "what is inherited by a fork has no lifetime")]
fn borrow<'a>(descriptor: i32) -> BorrowedFd<'a> {
    // SAFETY: the caller of `start` holds the namespace, and this process is a copy of the
    // caller's at that moment.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}

/// Has the kernel kill this process when its parent dies. Only for a parent of one thread: with
/// several, the kernel goes by the one that started this process.
#[cfg(target_os = "linux")]
fn die_with(parent: i32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: i32) -> io::Result<()> {
    Ok(())
}

/// Gives the limit back that this program was started with.
fn limit_open_files(soft: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum });
}

/// Marks every descriptor from 3 on to be closed by exec. They are not closed here: the standard
/// library reports a failed exec through one of them.
#[expect(unsafe_code, reason = "descriptors of unknown owners have no safe type")]
fn close_descriptors_at_exec() {
    /// Where the kernel cannot tag a range, descriptors above this number are left alone.
    const HIGHEST: libc::c_int = 4096;

    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes three numbers, touches no memory.
        let marked = unsafe {
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        if marked == 0 {
            return;
        }
    }
    for descriptor in 3..HIGHEST {
        // SAFETY: takes three numbers, touches no memory; a number that is not open is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
