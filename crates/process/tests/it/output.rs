//! What is kept of the output.

use std::fs;
use std::time::Duration;

use deputize_process::{
    Background, Command, CommandOutcome, Exit, OutputLimits, SpillFile, SpillProblem, Stdin,
};
use tokio_util::sync::CancellationToken;

use crate::process_table::{Marker, TIMEOUT, bash, supervisor, until};

async fn run(command: Command) -> CommandOutcome {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    owner.run(command, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn both_streams_come_in_the_order_of_arrival() {
    let finished = run(bash("echo 1; echo 2 >&2; echo 3; exit 4")).await;
    assert_eq!(finished.output.head, b"1\n2\n3\n");
    assert_eq!(finished.exit, Exit::Code(4));
    assert_eq!(finished.background, Background::None);
    assert!(finished.spill.is_none() && finished.report.is_none());
}

#[tokio::test]
async fn a_flood_beyond_the_disk_limit_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let spill = SpillFile { path: dir.path().join("out"), limit: 1_000_000 };
    let mut command = bash("head -c 5000000 /dev/zero");
    command.spill = Some(spill.clone());
    let finished = run(command).await;
    assert_eq!(finished.exit, Exit::Code(0));
    assert_eq!(finished.output.total, 5_000_000);
    assert_eq!(fs::metadata(&spill.path).unwrap().len(), 1_000_000);
    let problem = finished.spill.unwrap().problem;
    assert!(matches!(problem, Some(SpillProblem::Full { limit: 1_000_000 })), "{problem:?}");
}

#[tokio::test]
async fn one_giant_binary_line_is_kept_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let spill = SpillFile::new(dir.path().join("out"));
    let script = format!("head -c 3000000 /dev/urandom | tr -d '\\n' | tee {}", copy.display());
    let mut command = bash(&script);
    command.spill = Some(spill.clone());
    command.output = OutputLimits { head: 1000, tail: 0 };
    let finished = run(command).await;
    let copy = fs::read(copy).unwrap();
    assert_eq!(finished.output.head, copy[..1000]);
    assert_eq!(finished.output.tail, b"");
    assert!(fs::read(&spill.path).unwrap() == copy);
}

#[tokio::test]
async fn a_spill_directory_that_is_gone_does_not_stop_the_command() {
    let mut command = bash("head -c 100000 /dev/zero; exit 7");
    command.spill = Some(SpillFile::new("/no/such/directory/out"));
    let finished = run(command).await;
    assert_eq!((finished.exit, finished.output.total), (Exit::Code(7), 100_000));
    assert!(matches!(finished.spill.unwrap().problem, Some(SpillProblem::Write { .. })));
}

#[tokio::test]
async fn output_before_a_time_limit_is_kept() {
    let marker = Marker::new();
    let mut command = bash(&marker.fill("trap 'echo told; exit' TERM; echo begun; {S} & wait"));
    command.time_limit = Duration::from_millis(500);
    let finished = run(command).await;
    assert_eq!(finished.exit, Exit::TimedOut);
    assert_eq!(finished.output.head, b"begun\ntold\n");
}

#[tokio::test]
async fn a_stopped_process_is_asked_too() {
    let mut command = bash("trap 'echo told; exit' TERM; echo begun; kill -STOP $$");
    command.time_limit = Duration::from_millis(500);
    assert_eq!(run(command).await.output.head, b"begun\ntold\n");
}

#[tokio::test]
async fn a_flood_can_be_cancelled() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let cancel = CancellationToken::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let mut command = bash("yes & yes");
    command.spill = Some(SpillFile { path: path.clone(), limit: 1 << 20 });
    let cancelling = async {
        until("output flows", || path.exists()).await;
        cancel.cancel();
    };
    let (finished, ()) = tokio::join!(owner.run(command, &cancel), cancelling);
    assert_eq!(finished.unwrap().exit, Exit::Cancelled);
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_neither_delays_nor_dies_of_it() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let marker = Marker::new();
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let done = dir.path().join("done");
    let script = format!(
        "( until [ -e {} ]; do sleep 0.02; done; head -c 300000 /dev/zero && touch {}; exec {{S}} ) & echo hi",
        go.display(),
        done.display()
    );
    let command = bash(&marker.fill(&script));
    let finished = owner.run(command, &CancellationToken::new()).await.unwrap();
    assert_eq!((finished.exit, finished.background), (Exit::Code(0), Background::Discarded));
    assert_eq!(finished.output.head, b"hi\n");
    assert!(finished.duration < TIMEOUT / 4, "{:?}", finished.duration);
    // More than a pipe holds: it would stop, or die of the signal, if nobody read.
    fs::write(&go, "").unwrap();
    until("all is written", || done.exists()).await;
    until("it goes on", || marker.sleeping() == 1).await;
    assert!(owner.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
}

#[tokio::test]
async fn a_program_may_close_its_output_and_go_on() {
    let finished = run(bash("echo a; exec >&- 2>&-; sleep 0.3; exit 3")).await;
    assert_eq!(finished.exit, Exit::Code(3));
    assert!(finished.duration >= Duration::from_millis(300));
    assert_eq!(finished.output.head, b"a\n");
}

#[tokio::test]
async fn input_is_empty_unless_given() {
    let finished = run(bash("cat; echo end")).await;
    assert_eq!(finished.output.head, b"end\n");

    let mut command = bash("cat");
    command.stdin = Stdin::Bytes(vec![7; 1_000_000]);
    command.output = OutputLimits { head: 2_000_000, tail: 0 };
    assert!(run(command).await.output.head == vec![7; 1_000_000]);

    // Nobody reads it.
    let mut command = bash("exit 5");
    command.stdin = Stdin::Bytes(vec![7; 1_000_000]);
    assert_eq!(run(command).await.exit, Exit::Code(5));
}
