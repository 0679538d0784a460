//! The supervisor: what a program has one of, and gets its owners from.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::command::{Command, SpillFile};
use crate::containment::Containment;
use crate::durable::DurableCommand;
use crate::fault_injection::FaultInjector;
use crate::helper::HelperError;
use crate::outbox::Outbox;
use crate::owner::Owner;
use crate::process_tag::TagCodec;
use crate::protocol::ReaperRequest;
use crate::reaper_link::ReaperLink;
use crate::registry::SharedRegistry;
use crate::spawn::SpawnError;
use crate::supervisor_config::SupervisorConfig;

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The kernel refused to hand orphaned descendants to this process.
    #[error(
        "cannot become the parent of orphaned processes; the kernel must be Linux 3.4 or later"
    )]
    Subreaper {
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Threads, memory or descriptors are missing.
    #[error(
        "cannot start the thread that starts and ends processes; free memory or raise the limits \
         of threads and open files"
    )]
    Thread {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

/// Ends the trees of its owners, and all of them when it is dropped.
///
/// A program makes one at its start and keeps it to its end: the process becomes the parent of
/// every orphan below it. Dropping it blocks until the processes of all its owners are gone, at
/// most [`GRACE`](crate::GRACE) and [`KILL_LIMIT`](crate::KILL_LIMIT) together, and some more for
/// a helper that does not answer.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<SharedRegistry>,
    outbox: Arc<Outbox>,
    thread: Option<JoinHandle<()>>,
    setup: SupervisorConfig,
}

impl Supervisor {
    /// Creates a supervisor without a helper: see [`SupervisorConfig::helper`] for what it cannot
    /// do.
    ///
    /// # Errors
    ///
    /// As [`Self::with`].
    pub fn start() -> Result<Self, SupervisorError> {
        Self::with(SupervisorConfig::default())
    }

    /// Makes this process the parent of its orphaned descendants and starts a thread. A helper is
    /// started by the first command.
    ///
    /// # Errors
    ///
    /// If the kernel refuses either.
    pub fn with(setup: SupervisorConfig) -> Result<Self, SupervisorError> {
        Self::counting(setup, FaultInjector::default())
    }

    pub(crate) fn counting(
        setup: SupervisorConfig,
        steps: FaultInjector,
    ) -> Result<Self, SupervisorError> {
        // The helper adopts orphans before; ours are those of a helper that was killed.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|source| SupervisorError::Subreaper { source: source.into() })?;
        let thread = |source| SupervisorError::Thread { source };
        let shared = Arc::new(SharedRegistry::new(steps.clone()));
        let (sender, requests) = channel();
        let (ring, bell) = UnixStream::pair().map_err(thread)?;
        ring.set_nonblocking(true).map_err(thread)?;
        bell.set_nonblocking(true).map_err(thread)?;
        let link = ReaperLink {
            shared: Arc::clone(&shared),
            codec: TagCodec::of_this_process(),
            setup: setup.clone(),
            steps,
            requests,
            bell,
            reaper: None,
            due: std::collections::BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("process-link".to_owned())
            .spawn(move || link.run())
            .map_err(thread)?;
        let outbox = Arc::new(Outbox::new(sender, ring));
        Ok(Self { shared, outbox, thread: Some(thread), setup })
    }

    /// Makes an owner: one for each agent.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(Arc::clone(&self.shared), Arc::clone(&self.outbox))
    }

    /// Starts a command that goes on when this program ends, with a file for the last part of its
    /// output.
    ///
    /// # Errors
    ///
    /// If nothing was started; always without a helper.
    pub async fn start_durable(
        &self,
        command: &Command,
        file: &SpillFile,
    ) -> Result<DurableCommand, SpawnError> {
        let SupervisorConfig { helper, open_files, .. } = self.setup.clone();
        DurableCommand::start(helper, open_files, command, file).await
    }

    /// Returns the means that keep trees together here. Starts the helper if need be, and waits
    /// for its answer.
    ///
    /// # Errors
    ///
    /// If there is no helper to ask.
    pub fn containment(&self) -> Result<Containment, HelperError> {
        let answer = self.shared.registry().expect_probe();
        self.outbox.put(ReaperRequest::Probe, Vec::new());
        answer.recv().unwrap_or(Err(HelperError::Lost))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.registry().open.clear();
        // A thread that is gone already has nothing left to end.
        self.outbox.put(ReaperRequest::Close, Vec::new());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Stdin;
    use crate::fault_injection::InjectedFault;
    use crate::outcome::Exit;
    use crate::spawn::SystemError;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};
    use tokio_util::sync::CancellationToken;

    /// Returns the targets of this process's open descriptors.
    fn open() -> BTreeSet<String> {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap();
        entries
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|to| to.display().to_string())
            // The directory that is being read here, and those of the look at the process table.
            .filter(|to| !to.starts_with("/proc/"))
            .collect()
    }

    /// Checks that descriptors opened since are closed soon. Other tests of this process open and
    /// close theirs meanwhile.
    async fn nothing_stays_open(before: &BTreeSet<String>, what: &str) {
        let mut since: BTreeSet<String> = open().difference(before).cloned().collect();
        let began = Instant::now();
        while !since.is_empty() {
            assert!(began.elapsed() < Duration::from_secs(30), "{what}: {since:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
            since = &since & &open();
        }
    }

    fn command() -> Command {
        let mut command = Command::new("/bin/sh", "/");
        command.args = vec!["-c".into(), "echo done".into()];
        command.stdin = Stdin::Report { limit: 10 };
        command
    }

    /// Every step of a start fails once, the first command's and a later one's, with everything
    /// that the system says when it is short of something.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_start_that_fails_at_any_step_is_an_error_and_leaves_nothing_open() {
        let cancel = CancellationToken::new();
        let mut starts = 0;
        for errno in [libc::EAGAIN, libc::ENOMEM, libc::EMFILE] {
            for fresh in [true, false] {
                for step in 1.. {
                    let failing = Arc::new(InjectedFault::default());
                    let setup = SupervisorConfig::default();
                    let supervisor =
                        Supervisor::counting(setup, FaultInjector::failing(&failing)).unwrap();
                    let owner = supervisor.owner();
                    if !fresh {
                        owner.run(command(), &cancel).await.unwrap();
                    }
                    let before = open();
                    failing.set(step, errno);
                    let outcome = owner.run(command(), &cancel).await;
                    starts += 1;
                    if failing.is_untouched() {
                        assert!(step > 4, "there are more steps than {step}");
                        break;
                    }
                    match outcome {
                        // What can be done without is done without.
                        Ok(finished) => assert_eq!(finished.output.head, b"done\n"),
                        Err(
                            SpawnError::System(
                                SystemError::Descriptors { .. } | SystemError::Exhausted { .. },
                            )
                            | SpawnError::Helper(_),
                        ) => {}
                        Err(error) => panic!("step {step}: {error:?}"),
                    }
                    let again = owner.run(command(), &cancel).await.unwrap();
                    assert_eq!((again.exit, &*again.output.head), (Exit::Code(0), &b"done\n"[..]));
                    if !fresh {
                        nothing_stays_open(&before, &format!("step {step}")).await;
                    }
                    let ended = owner.end().await;
                    assert!(ended.is_complete(), "step {step}: {ended:?}");
                }
            }
        }
        println!("{starts} starts, each with another step that failed");
    }
}
