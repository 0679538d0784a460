//! Commands that go on when their program ends.

use std::fs;
use std::path::Path;

use deputize_process::{CommandIo, DurableProcess, Exit, SpillFile, durable_group_runs};

use crate::process_table::{Marker, Mode, bash, no_zombie_stays, until};

fn holds(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|output| output.contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_after_its_supervisor_and_writes_on_to_its_file() {
    for mode in [Mode::Namespace, Mode::TreeKill] {
        let dir = tempfile::tempdir().unwrap();
        let gate = dir.path().join("gate");
        rustix::fs::mkfifoat(rustix::fs::CWD, &gate, 0o600.into()).unwrap();
        let file = SpillFile::new(dir.path().join("log"));
        let (durable, other) = (Marker::new(), Marker::new());
        let script = format!("echo one; cat {}; echo two; {{S}}", gate.display());
        let supervisor = mode.supervisor();
        let owner = supervisor.owner();
        let ordinary = bash(&other.fill("{S}"));
        let ordinary = owner.interact(&ordinary, CommandIo::Pipes).await.unwrap();
        let command = bash(&durable.fill(&script));
        let mut started = supervisor.start_durable(&command, &file).await.unwrap();
        let mut buffer = [0; 100];
        let read = started.output.read(&mut buffer).await;
        assert_eq!(&buffer[..read], b"one\n", "{mode:?}");
        until("the other one runs", || other.sleeping() == 1).await;

        assert!(owner.end().await.is_complete(), "{mode:?}");
        drop((ordinary, owner, supervisor, started.output));
        assert_eq!(other.alive(), [0; 0], "{mode:?}");
        drop(fs::OpenOptions::new().write(true).open(&gate).unwrap());
        until("it writes on", || holds(&file.path, "one\ntwo\n")).await;
        until("it sleeps", || durable.sleeping() == 1).await;

        let pid = started.process.pid();
        let group = rustix::process::getpgid(rustix::process::Pid::from_raw(pid)).unwrap();
        assert_eq!(group.as_raw_nonzero().get(), pid);
        assert!(started.process.end().await.is_complete(), "{mode:?}");
        assert_eq!(durable.alive(), [0; 0], "{mode:?}");
    }
}

/// Starts a command and drops its supervisor, and the folder of its output.
async fn start(script: &str) -> (Marker, DurableProcess) {
    let dir = tempfile::tempdir().unwrap();
    let marker = Marker::new();
    let command = bash(&marker.fill(script));
    let file = SpillFile::new(dir.path().join("log"));
    let started = Mode::TreeKill.supervisor().start_durable(&command, &file).await.unwrap();
    (marker, started.process)
}

#[tokio::test]
async fn ending_it_ends_its_group_when_its_first_process_goes_at_once() {
    let (marker, process) = start("(trap '' TERM; {S}; true) & exec {S}").await;
    until("both sleep", || marker.sleeping() == 2).await;
    assert!(process.end().await.is_complete());
    until("nothing is left", || marker.alive().is_empty()).await;
    no_zombie_stays().await;
}

#[tokio::test]
async fn what_loses_its_parent_is_collected_while_it_runs() {
    let (marker, process) = start("for i in 1 2 3; do (true & true); done; exec {S}").await;
    until("it sleeps", || marker.sleeping() == 1).await;
    no_zombie_stays().await;
    assert!(process.end().await.is_complete());
}

#[tokio::test]
async fn its_exit_is_seen_and_what_it_started_goes_on() {
    let (marker, mut process) = start("{S} & exit 7").await;
    assert_eq!(process.wait_for_exit().await, Exit::Code(7));
    drop(process);
    until("what it started sleeps", || marker.sleeping() == 1).await;
    drop(marker);
    no_zombie_stays().await;
}

/// The time by the machine's files.
fn now_ms() -> u64 {
    let file = tempfile::tempfile().unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[tokio::test]
async fn a_later_program_sees_whether_it_runs_and_whether_its_number_is_another_ones() {
    // Its first process ends, and its group goes on.
    let (marker, mut process) = start("{S} & exit 7").await;
    assert_eq!(process.wait_for_exit().await, Exit::Code(7));
    let pid = u32::try_from(process.pid()).unwrap();
    assert!(durable_group_runs(pid, now_ms()));
    until("what it started sleeps", || marker.sleeping() == 1).await;
    drop((process, marker));
    until("it is gone", || !durable_group_runs(pid, now_ms())).await;

    let (_marker, process) = start("exec {S}").await;
    let pid = u32::try_from(process.pid()).unwrap();
    assert!(durable_group_runs(pid, now_ms()));
    assert!(!durable_group_runs(pid, 0), "it began after this record");
    assert!(process.end().await.is_complete());
    assert!(!durable_group_runs(pid, now_ms()));
}
