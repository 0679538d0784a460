//! CommandRun out of descriptors. A program of its own, because it changes its limit.

#![cfg(target_os = "linux")]

use std::fs::{self, File};

use deputize_process::{Command, Exit, SpawnError, Supervisor, SystemError};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn without_descriptors_a_command_is_refused_and_none_leaks() {
    let supervisor = Supervisor::start().unwrap();
    let owner = supervisor.owner();
    let cancel = CancellationToken::new();
    let command = || Command::new("/bin/true", "/");
    assert_eq!(owner.run(command(), &cancel).await.unwrap().exit, Exit::Code(0));

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    // Leaves none, then one more at a time, until the command starts.
    let mut held: Vec<File> = std::iter::from_fn(|| File::open("/").ok()).collect();
    let mut refused = 0;
    let exit = loop {
        let before = held.len();
        match owner.run(command(), &cancel).await {
            Ok(finished) => break finished.exit,
            Err(error) => assert!(
                matches!(error, SpawnError::System(SystemError::Descriptors { .. })),
                "{error:?}"
            ),
        }
        // Nothing leaked: as many can be opened as before.
        held.extend(std::iter::from_fn(|| File::open("/").ok()));
        assert!(held.len() >= before, "{} of {before}", held.len());
        refused += 1;
        held.truncate(before - 1);
    };
    assert_eq!(exit, Exit::Code(0));
    assert!(refused > 2);
    drop(held);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let after = open();
    for _ in 0..20 {
        assert_eq!(owner.run(command(), &cancel).await.unwrap().exit, Exit::Code(0));
    }
    // The supervisor reads the process table now and then, with three at most.
    assert!(open() <= after + 3, "{} after {after}", open());
    assert!(owner.end().await.is_complete());
}
