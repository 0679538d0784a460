//! What a flood of output takes. A program of its own, because the memory is the whole process's.

#![cfg(target_os = "linux")]

use std::fs;

use deputize_process::{Command, SpillFile, Supervisor};
use tokio_util::sync::CancellationToken;

/// The most memory that this process ever used, in KiB.
#[cfg(test)]
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_flood_takes_little_memory_and_is_on_disk() {
    const FLOOD: u64 = 50 * 1024 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let spill = SpillFile::new(dir.path().join("out"));
    let before = peak_memory();
    let script = format!("echo first; head -c {} /dev/zero; echo last", FLOOD - 11);
    let mut command = Command::new("/bin/sh", "/");
    command.args = vec!["-c".into(), script.into()];
    command.env.insert("PATH".into(), "/usr/bin:/bin".into());
    command.spill = Some(spill.clone());
    let supervisor = Supervisor::start().unwrap();
    let finished = supervisor.owner().run(command, &CancellationToken::new()).await.unwrap();
    assert!(peak_memory() - before < 40 * 1024, "{} KiB more", peak_memory() - before);
    assert_eq!(finished.output.total, FLOOD);
    assert_eq!((finished.output.head.len(), finished.output.tail.len()), (16384, 16384));
    assert!(finished.output.head.starts_with(b"first\n\0"));
    assert!(finished.output.tail.ends_with(b"\0last\n"));
    assert_eq!(finished.output.omitted(), FLOOD - 32768);
    let report = finished.spill.unwrap();
    assert_eq!((report.written, fs::metadata(&spill.path).unwrap().len()), (FLOOD, FLOOD));
    assert!(report.problem.is_none());
}
