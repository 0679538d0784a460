//! Raising the limit of open files. A program of its own, because it changes its limit.

use deputize_process::{
    Command, OPEN_FILES_LIMIT, OpenFiles, Supervisor, SupervisorConfig, raise_open_files,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn the_limit_is_raised_for_us_and_not_for_commands() {
    let mut limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let raised = raise_open_files().unwrap();
    assert_eq!(raised, OpenFiles { before: 64, now: hard.min(OPEN_FILES_LIMIT) });
    assert_eq!(getrlimit(Resource::Nofile).current, Some(raised.now));
    assert_eq!(raise_open_files().unwrap().now, raised.now);

    let setup = SupervisorConfig { open_files: Some(raised.before), ..SupervisorConfig::default() };
    let supervisor = Supervisor::with(setup).unwrap();
    let mut command = Command::new("/bin/sh", "/");
    command.args = vec!["-c".into(), "ulimit -n".into()];
    let finished = supervisor.owner().run(command, &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.output.head, b"64\n");
}
