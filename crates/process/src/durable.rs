//! A command that goes on when its owner and this program end.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpgid};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;

use crate::command::{Command, SpillFile};
use crate::helper::Helper;
use crate::interactive::CommandOutput;
use crate::outcome::Exit;
use crate::signal::send_to_group;
use crate::spawn::{SpawnError, explain, prepared};
use crate::start::start_durable;
use crate::termination_report::TerminationReport;
use crate::tree_kill::{GRACE, KILL_LIMIT};
use crate::tree_signal::TreeSignal;

/// A running command that no owner, no supervisor and no end of this program ends. It has no input
/// and no mark. The helper program writes its output to a file, which keeps the last part of it
/// when it is full.
#[derive(Debug)]
pub struct DurableCommand {
    /// The output, while this program runs.
    pub output: CommandOutput,
    /// The process.
    pub process: DurableProcess,
}

/// The process of a durable command. Dropping it ends nothing.
#[derive(Debug)]
pub struct DurableProcess {
    pid: i32,
    leader: Arc<Mutex<GroupLeader>>,
    exit: watch::Receiver<Option<Exit>>,
}

/// The first process of a durable command, which leads a process group.
#[derive(Debug)]
struct GroupLeader {
    pid: i32,
    /// Whether its end was collected, so that its number may be that of another process.
    is_collected: bool,
    /// Whether its group ends with it.
    is_ended: bool,
}

impl DurableCommand {
    pub(crate) async fn start(
        helper: Option<Helper>,
        open_files: Option<u64>,
        command: &Command,
        file: &SpillFile,
    ) -> Result<Self, SpawnError> {
        let helper = helper.ok_or(SpawnError::NoHelper)?;
        let (command, program) = prepared(command.clone()).await?;
        let file = file.clone();
        let name = program.clone();
        let started = tokio::task::spawn_blocking(move || {
            let output = OutputPipes::open(&helper, &file, &program)?;
            output.start(&command, &program, open_files)
        });
        let lost = |error| SpawnError::from_system(io::Error::other(error), &name);
        let (output, process) = started.await.unwrap_or_else(|error| Err(lost(error)))?;
        let system = |source| SpawnError::from_system(source, &name);
        let output =
            CommandOutput::of_pipe(Receiver::from_owned_fd(output.into()).map_err(system)?);
        Ok(Self { output, process })
    }
}

/// Between a durable command, the process that writes its output to a file, and this program.
struct OutputPipes {
    /// Where the command writes.
    command: io::PipeWriter,
    /// Where this program reads what is in the file.
    ours: io::PipeReader,
    /// The process that writes the file.
    writer: Child,
}

impl OutputPipes {
    fn open(helper: &Helper, file: &SpillFile, program: &Path) -> Result<Self, SpawnError> {
        let system = |source| SpawnError::from_system(source, program);
        let (theirs, command) = io::pipe().map_err(system)?;
        let (ours, out) = io::pipe().map_err(system)?;
        let log = create(&file.path)
            .map_err(|source| SpawnError::OutputFile { path: file.path.clone(), source })?;
        let writer =
            helper.spawn_output_writer([theirs.into(), out.into(), log.into()], file.limit);
        Ok(Self { command, ours, writer: writer? })
    }

    /// Starts the command. If that fails, the writer ends because nobody has its pipe.
    fn start(
        self,
        command: &Command,
        program: &Path,
        open_files: Option<u64>,
    ) -> Result<(io::PipeReader, DurableProcess), SpawnError> {
        let Self { command: pipe, ours, mut writer } = self;
        let started = pipe.try_clone().and_then(|stderr| {
            start_durable(command, program, [pipe.into(), stderr.into()], open_files)
        });
        let child = match started {
            Ok(child) => child,
            Err(source) => {
                let _its_end = writer.wait();
                return Err(explain(source, command, program));
            }
        };
        let process = DurableProcess::watch(child, writer);
        Ok((ours, process.map_err(|source| SpawnError::from_system(source, program))?))
    }
}

fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    // A file that exists is not touched.
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

impl DurableProcess {
    /// Waits for the end in a thread, which is gone with this program.
    fn watch(child: Child, writer: Child) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let leader = GroupLeader { pid, is_collected: false, is_ended: false };
        let leader = Arc::new(Mutex::new(leader));
        let (sender, exit) = watch::channel(None);
        let watched = Arc::clone(&leader);
        let work = move || {
            let exit = collect(child, &watched).map_or(Exit::Unknown, Exit::from);
            // Also if somebody else in this program took its status.
            watched.lock().is_collected = true;
            // Nobody may listen any more.
            let _unheard = sender.send(Some(exit));
            collect_orphans(pid);
            let mut writer = writer;
            let _its_end = writer.wait();
        };
        let thread = std::thread::Builder::new().name("durable-command".to_owned());
        // What nobody watches must not run.
        thread.spawn(work).inspect_err(|_| send_to_group(pid, TreeSignal::Kill))?;
        Ok(Self { pid, leader, exit })
    }

    /// Returns its PID, which is that of its process group too.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for the end of its first process. Nothing is lost if the future is dropped.
    pub async fn wait_for_exit(&mut self) -> Exit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Unknown),
            Err(_) => Exit::Unknown,
        }
    }

    /// Ends its process group, and waits for it. Processes that left the group go on.
    pub async fn end(mut self) -> TerminationReport {
        self.leader.lock().end(TreeSignal::Term);
        if self.exits_within(GRACE).await {
            return TerminationReport::default();
        }
        self.leader.lock().end(TreeSignal::Kill);
        match self.exits_within(KILL_LIMIT).await {
            true => TerminationReport::default(),
            false => TerminationReport { left: vec![self.pid], ..TerminationReport::default() },
        }
    }

    async fn exits_within(&mut self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.wait_for_exit()).await.is_ok()
    }
}

impl GroupLeader {
    /// Signals the group, unless its number may be that of another one.
    fn end(&mut self, signal: TreeSignal) {
        self.is_ended = true;
        if !self.is_collected {
            send_to_group(self.pid, signal);
        }
    }

    /// Kills what is left of a group that was ended. Its first process is collected with it.
    fn kill_rest(&mut self) {
        if self.is_ended {
            send_to_group(self.pid, TreeSignal::Kill);
        }
        self.is_collected = true;
    }
}

/// Waits for the end of the first process, and collects those of its group that lost their parent
/// and ended. What is left of a group that was ended is killed while its number is still its own.
fn collect(mut child: Child, leader: &Mutex<GroupLeader>) -> Option<ExitStatus> {
    let group = Pid::from_child(&child);
    loop {
        wait_for_one(group)?;
        let mut leader = leader.lock();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if waitid(WaitId::Pid(group), look).ok()?.is_some() {
            leader.kill_rest();
            return child.wait().ok();
        }
        match waitpgid(group, WaitOptions::NOHANG).ok()? {
            // It ended since the look.
            Some((pid, status)) if pid == group => {
                leader.kill_rest();
                return Some(ExitStatus::from_raw(status.as_raw()));
            }
            Some(_) | None => {}
        }
    }
}

/// Collects what the first process left in its group. The kernel makes this program its parent. What
/// left the group too is in the table of processes until this program ends.
fn collect_orphans(pid: i32) {
    let Some(group) = Pid::from_raw(pid) else { return };
    while wait_for_one(group).is_some() {
        let _its_end = waitpgid(group, WaitOptions::NOHANG);
    }
}

/// Waits until a child in this group has ended, and leaves it to be collected. `None` if there is no
/// such child.
fn wait_for_one(group: Pid) -> Option<()> {
    loop {
        match waitid(WaitId::Pgid(Some(group)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => return Some(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::supervisor::Supervisor;
    use crate::supervisor_config::SupervisorConfig;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh", "/");
        command.args = vec!["-c".into(), script.into()];
        command
    }

    #[tokio::test]
    async fn without_a_helper_nothing_is_started() {
        let supervisor = Supervisor::start().unwrap();
        let file = SpillFile::new("/nowhere/log");
        let error = supervisor.start_durable(&sh("true"), &file).await.unwrap_err();
        assert!(matches!(error, SpawnError::NoHelper), "{error}");
    }

    #[tokio::test]
    async fn one_whose_status_somebody_else_took_is_not_signalled() {
        use std::os::unix::process::CommandExt as _;
        let shell = |script: &str| {
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", script]).process_group(0).spawn().unwrap()
        };
        let child = shell("exit 0");
        let taken = rustix::process::waitpid(Some(Pid::from_child(&child)), WaitOptions::empty());
        assert!(taken.unwrap().is_some());
        let mut process = DurableProcess::watch(child, shell("exit 0")).unwrap();
        assert_eq!(process.wait_for_exit().await, Exit::Unknown);
        assert!(process.leader.lock().is_collected);
    }

    #[tokio::test]
    async fn an_output_file_that_exists_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("log");
        std::fs::write(&path, "mine").unwrap();
        let setup = SupervisorConfig {
            helper: Some(Helper::new("/bin/true", [""])),
            ..SupervisorConfig::default()
        };
        let supervisor = Supervisor::with(setup).unwrap();
        let error = supervisor.start_durable(&sh("true"), &SpillFile::new(&path)).await;
        assert!(matches!(error, Err(SpawnError::OutputFile { .. })), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
