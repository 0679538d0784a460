//! A PID namespace for the commands of one owner.
//!
//! Its first process does nothing but be there: when it is killed, the kernel kills everything in
//! the namespace at once, however fast it starts and ends; and the kernel kills it when the
//! process that made it dies. Commands see a `/proc` of their own, and run as whom they would run
//! anyway: where making a namespace needs a user namespace around it, none is made.

pub(crate) use kernel::{PidNamespace, PidNamespaces};

#[cfg(target_os = "linux")]
mod kernel {
    use std::collections::BTreeMap;
    use std::ffi::CStr;
    use std::fs::File;
    use std::io::{self, PipeReader, PipeWriter, Read as _};
    use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal,
        set_parent_process_death_signal, waitpid,
    };
    use rustix::thread::{
        ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe,
    };

    use crate::fault_injection::FaultInjector;
    use crate::process_tag::set_tag_limit;

    const PROC: &CStr = c"/proc";

    #[derive(Debug)]
    pub(crate) struct PidNamespace {
        init: Pid,
        handle: OwnedFd,
    }

    impl PidNamespace {
        /// The number of its first process.
        pub(crate) fn init(&self) -> i32 {
            self.init.as_raw_nonzero().get()
        }

        /// Readable when the namespace is gone.
        pub(crate) fn handle(&self) -> BorrowedFd<'_> {
            self.handle.as_fd()
        }

        /// Begins the end of everything in it.
        pub(crate) fn kill(&self) {
            // An error means that it is gone.
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        }

        /// Has a new process, between its fork and its program, see the namespace's `/proc`.
        pub(crate) fn enter_mounts(handle: BorrowedFd<'_>) -> io::Result<()> {
            Ok(move_into_thread_name_spaces(handle, ThreadNameSpaceType::MOUNT)?)
        }

        /// True once everything in it is gone.
        fn is_gone(&self) -> bool {
            !matches!(waitpid(Some(self.init), WaitOptions::NOHANG), Ok(None))
        }
    }

    /// The namespaces that this process made.
    #[derive(Debug)]
    pub(crate) struct PidNamespaces {
        home: File,
        /// By owner; `None` where one could not be made.
        of: BTreeMap<u32, Option<PidNamespace>>,
        /// Those that are being ended.
        dying: Vec<PidNamespace>,
        /// A process has been in one and seen its `/proc`.
        proven: bool,
        steps: FaultInjector,
    }

    impl PidNamespaces {
        /// Fails where there would be no way home from a new one: in a user namespace that does
        /// not own this process's PID namespace.
        pub(crate) fn new(steps: FaultInjector) -> io::Result<Self> {
            let home = File::open("/proc/self/ns/pid")?;
            move_into_thread_name_spaces(home.as_fd(), ThreadNameSpaceType::PROCESS_ID)?;
            Ok(Self { home, of: BTreeMap::new(), dying: Vec::new(), proven: false, steps })
        }

        /// The namespace of an owner, made if it is the first time; `None` if none can be made.
        /// Running out of something is an error: trying again may help. `limit` marks its first
        /// process, by which those that lost their own tags are known.
        pub(crate) fn of_owner(
            &mut self,
            owner: u32,
            limit: Option<u64>,
        ) -> io::Result<Option<&PidNamespace>> {
            if !self.of.contains_key(&owner) {
                let space = match self.create(limit) {
                    Ok(space) => Some(space),
                    Err(error) if is_exhausted(&error) => return Err(error),
                    Err(_not_allowed) => None,
                };
                self.of.insert(owner, space);
            }
            Ok(self.get(owner))
        }

        pub(crate) fn get(&self, owner: u32) -> Option<&PidNamespace> {
            self.of.get(&owner)?.as_ref()
        }

        /// Those that live, by owner.
        pub(crate) fn alive(&self) -> impl Iterator<Item = (u32, &PidNamespace)> {
            self.of.iter().filter_map(|(owner, space)| Some((*owner, space.as_ref()?)))
        }

        pub(crate) fn dying(&self) -> impl Iterator<Item = &PidNamespace> {
            self.dying.iter()
        }

        /// True if the process is the first one of a namespace.
        pub(crate) fn is_init(&self, pid: i32) -> bool {
            self.alive().map(|(_, space)| space).chain(self.dying()).any(|it| it.init() == pid)
        }

        /// Begins the end of an owner's namespace; the number of its first process. The next
        /// command of that owner gets another one.
        pub(crate) fn kill(&mut self, owner: u32) -> Option<i32> {
            let space = self.of.remove(&owner)??;
            space.kill();
            let init = space.init();
            self.dying.push(space);
            Some(init)
        }

        /// Lets go of those that are gone.
        pub(crate) fn collect(&mut self) {
            self.dying.retain(|space| !space.is_gone());
            self.of.retain(|_, space| !space.as_ref().is_some_and(PidNamespace::is_gone));
        }

        /// Calls `start`, whose new processes are inside.
        pub(crate) fn inside<T>(
            &self,
            space: &PidNamespace,
            start: impl FnOnce() -> io::Result<T>,
        ) -> io::Result<T> {
            move_into_thread_name_spaces(space.handle(), ThreadNameSpaceType::PROCESS_ID)?;
            let started = start();
            self.go_home();
            started
        }

        /// Keeps everything in an owner's namespace from running and from starting more, all at
        /// once: a process that is just starting another one is either seen here or starts a
        /// stopped one.
        pub(crate) fn freeze(&self, owner: u32) -> io::Result<()> {
            let Some(space) = self.get(owner) else { return Ok(()) };
            let stopper = self.inside(space, || {
                fork(|| {
                    stop_all_others();
                    0
                })
            })?;
            let _its_end = waitpid(Some(stopper), WaitOptions::empty());
            Ok(())
        }

        fn create(&mut self, limit: Option<u64>) -> io::Result<PidNamespace> {
            self.steps.take()?;
            let (report, report_to) = io::pipe()?;
            self.steps.take()?;
            new_process_namespace()?;
            let init = fork(|| be_init(report_to, limit));
            self.go_home();
            let init = init?;
            let space = self.greet(init, report).and_then(|space| self.prove(space));
            if space.is_err() {
                let _gone = rustix::process::kill_process(init, Signal::KILL);
                let _its_end = waitpid(Some(init), WaitOptions::empty());
            }
            space
        }

        /// Waits until the first process is ready.
        fn greet(&self, init: Pid, mut report: PipeReader) -> io::Result<PidNamespace> {
            let mut errno = [0; size_of::<i32>()];
            report.read_exact(&mut errno)?;
            match i32::from_ne_bytes(errno) {
                0 => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
            self.steps.take()?;
            Ok(PidNamespace { init, handle: pidfd_open(init, PidfdFlags::empty())? })
        }

        /// Has one process go the way of a command, the first time: to make a namespace takes
        /// other rights than to enter it.
        fn prove(&mut self, space: PidNamespace) -> io::Result<PidNamespace> {
            if !self.proven {
                let enter = || i32::from(PidNamespace::enter_mounts(space.handle()).is_err());
                let entering = self.inside(&space, || fork(enter))?;
                let status = waitpid(Some(entering), WaitOptions::empty())?;
                if status.is_none_or(|(_, status)| status.exit_status() != Some(0)) {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                self.proven = true;
            }
            Ok(space)
        }

        /// Where new processes go from here on.
        fn go_home(&self) {
            let home = move_into_thread_name_spaces;
            if home(self.home.as_fd(), ThreadNameSpaceType::PROCESS_ID).is_err() {
                // Everything that is started would be in a stranger's namespace: better to end,
                // which ends all of them.
                std::process::abort();
            }
        }
    }

    fn is_exhausted(error: &io::Error) -> bool {
        matches!(
            error.raw_os_error(),
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM)
        )
    }

    #[expect(unsafe_code, reason = "sharing less is unsafe where it is about descriptors")]
    fn new_process_namespace() -> io::Result<()> {
        // SAFETY: only the namespace of later children changes, nothing of this thread's.
        Ok(unsafe { unshare_unsafe(UnshareFlags::NEWPID) }?)
    }

    #[expect(unsafe_code, reason = "sharing less is unsafe where it is about descriptors")]
    fn new_mounts() -> io::Result<()> {
        // SAFETY: only the view of mounted file systems is this process's own from here on.
        Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
    }

    /// Starts a process that does `work` and ends with its result.
    #[expect(unsafe_code, reason = "the standard library cannot fork")]
    fn fork(work: impl FnOnce() -> i32) -> io::Result<Pid> {
        // SAFETY: takes nothing. What the new process does is listed below: system calls only,
        // so that it does no harm that another thread held a lock meanwhile.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let status = work();
                // SAFETY: takes a number, does not return, runs nothing of this program's.
                unsafe { libc::_exit(status) }
            }
            pid => Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into()),
        }
    }

    /// Stops every process of the namespace but its first and this one.
    #[expect(unsafe_code, reason = "no safe type stands for every process")]
    fn stop_all_others() {
        // SAFETY: takes two numbers, touches no memory. It is called inside a namespace only.
        unsafe { libc::kill(-1, libc::SIGSTOP) };
    }

    /// The life of a namespace's first process. It reports, and then waits to be killed.
    fn be_init(report_to: PipeWriter, limit: Option<u64>) -> i32 {
        limit.into_iter().for_each(set_tag_limit);
        let outcome = settle(&report_to);
        let errno = outcome.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        // Nobody to report to: whoever made this process is dead.
        if rustix::io::write(&report_to, &errno.to_ne_bytes()).is_err() || errno != 0 {
            return 1;
        }
        drop(report_to);
        loop {
            pause();
        }
    }

    fn settle(report_to: &PipeWriter) -> io::Result<()> {
        // From here on it dies with its parent; a parent that died before is found out by the
        // report, which it does not read.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        close_all_but(report_to.as_raw_fd())?;
        ignore_children();
        new_mounts()?;
        // Of `/proc` only: other mounts that a command makes go where they would go anyway.
        mount_change(PROC, MountPropagationFlags::PRIVATE)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        Ok(mount(c"proc", PROC, c"proc", flags, None)?)
    }

    /// Commands' pipes must not be held open here.
    #[expect(unsafe_code, reason = "descriptors of unknown owners have no safe type")]
    fn close_all_but(kept: i32) -> io::Result<()> {
        let kept = kept.cast_unsigned();
        for (first, last) in [(0, kept.wrapping_sub(1)), (kept + 1, u32::MAX)] {
            if first > last {
                continue;
            }
            // SAFETY: takes three numbers, touches no memory; this process has no object left
            // that uses one of these descriptors.
            if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Has the kernel collect orphans.
    #[expect(unsafe_code, reason = "the standard library has no signals")]
    fn ignore_children() {
        // SAFETY: installs no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }

    #[expect(unsafe_code, reason = "the standard library cannot wait for a signal")]
    fn pause() {
        // SAFETY: takes nothing, touches no memory.
        unsafe { libc::pause() };
    }
}

/// Stands in where the kernel has no such namespaces.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;
    use std::os::fd::BorrowedFd;

    use crate::fault_injection::FaultInjector;

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum PidNamespace {}

    impl PidNamespace {
        pub(crate) fn init(&self) -> i32 {
            match *self {}
        }

        pub(crate) fn handle(&self) -> BorrowedFd<'_> {
            match *self {}
        }

        pub(crate) fn enter_mounts(_handle: BorrowedFd<'_>) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// There are none.
    #[derive(Debug)]
    pub(crate) enum PidNamespaces {}

    impl PidNamespaces {
        pub(crate) fn new(_steps: FaultInjector) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn of_owner(
            &mut self,
            _owner: u32,
            _limit: Option<u64>,
        ) -> io::Result<Option<&PidNamespace>> {
            match *self {}
        }

        pub(crate) fn get(&self, _owner: u32) -> Option<&PidNamespace> {
            match *self {}
        }

        pub(crate) fn alive(&self) -> std::iter::Empty<(u32, &PidNamespace)> {
            match *self {}
        }

        pub(crate) fn dying(&self) -> std::iter::Empty<&PidNamespace> {
            match *self {}
        }

        pub(crate) fn is_init(&self, _pid: i32) -> bool {
            match *self {}
        }

        pub(crate) fn kill(&mut self, _owner: u32) -> Option<i32> {
            match *self {}
        }

        pub(crate) fn collect(&mut self) {
            match *self {}
        }

        pub(crate) fn inside<T>(
            &self,
            _space: &PidNamespace,
            _start: impl FnOnce() -> io::Result<T>,
        ) -> io::Result<T> {
            match *self {}
        }

        pub(crate) fn freeze(&self, _owner: u32) -> io::Result<()> {
            match *self {}
        }
    }
}
