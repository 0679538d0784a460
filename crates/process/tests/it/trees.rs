//! Trees that try to outlive their command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deputize_process::{Background, Exit, Owner};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::process_table::{Marker, bash, supervisor, until, zombies};

/// Name, script, and the sleeps that must be there before the tree is ended.
const TREES: &[(&str, &str, usize)] = &[
    ("one process", "{S}", 1),
    ("replaced shell", "exec {S}", 1),
    ("background jobs", "{S} & {S} & wait", 2),
    ("wide", "for i in $(seq 40); do {S} & done; wait", 40),
    ("job control groups", "set -m; {S} & {S} & {S}", 3),
    ("new session", "setsid {S} & {S}", 2),
    ("new session, forked", "setsid -f {S}; {S}", 2),
    ("double fork", "( ( {S} & ) & ); {S}", 2),
    ("double fork in a new session", "setsid bash -c '( {S} & ) & ( {S} & )' & {S}", 3),
    ("nohup", "nohup {S} >/dev/null 2>&1 & nohup setsid {S} & {S}", 3),
    ("ignores TERM", "trap '' TERM; {S}; {S}; {S}", 1),
    ("ignores all it can", "trap '' TERM INT HUP QUIT USR1 USR2 CHLD PIPE; {S} & {S} & {S}", 3),
    ("ignores TERM, detached", "trap '' TERM; setsid -f {S}; ( {S} & ); {S}", 3),
    ("starts more when told to end", "trap '{S} & setsid -f {S}' TERM; {S} & wait; {S}", 1),
    (
        "starts more when told to end, detached and deaf",
        "trap 'trap \"\" TERM; for i in 1 2 3; do env -i setsid -f sleep $N & done; wait' TERM; \
         N=$(echo {S} | cut -d\" \" -f2); {S} & wait; wait",
        1,
    ),
    ("starts a new one for each that ends", "trap '' TERM; while :; do {S}; done", 1),
    (
        "starts without end",
        "trap '' TERM; ( for i in $(seq 300); do setsid -f {S}; done ) & {S}",
        20,
    ),
    ("stopped", "{S} & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; kill -STOP $!; wait", 1),
    ("stops itself", "{S} & kill -STOP $$", 1),
    ("holds the pipe", "{S} & exec {S}", 2),
    ("closed descriptors", "( cd /; exec setsid {S} ) <&- >&- 2>&- & {S}", 2),
    ("cleared environment", "env -i setsid {S} & {S}", 2),
    ("cleared environment, orphan", "env -i setsid -f {S}; ( env -i {S} & ); {S}", 3),
    (
        "proper daemon",
        "env -i setsid bash -c '( trap \"\" TERM HUP; cd /; exec {S} ) <&- >&- 2>&- & exit' & {S}",
        2,
    ),
    ("lower limits, detached", "ulimit -R 1000000 && setsid -f {S}; {S}", 2),
    ("lower limits, cleared environment", "ulimit -R 1000000; env -i bash -c '( {S} & )'; {S}", 2),
    (
        "deep",
        "deep() { if [ $1 = 0 ]; then {S}; else bash -c 'deep $(($0 - 1)); :' $1; fi; }; \
         export -f deep; deep 30; :",
        1,
    ),
    (
        "deep sessions",
        "deep() { {S} & if [ $1 != 0 ]; then setsid bash -c 'deep $(($0 - 1)); :' $1; fi; }; \
         export -f deep; deep 10; wait",
        11,
    ),
];

/// Trees whose processes start a successor and end, faster than a process table can be read.
const HOPPERS: &[(&str, &str, usize)] = &[
    (
        "hops from process to process",
        "hop() { trap '' TERM; setsid -f bash -c 'hop; : {S}'; }; export -f hop; hop; {S}",
        1,
    ),
    (
        "hops with a cleared environment",
        "hop='trap \"\" TERM; env -i setsid -f bash -c \"$0\" \"$0\"; : {S}'; bash -c \"$hop\" \"$hop\"; {S}",
        1,
    ),
    ("hops without a program", "hop() { hop & exit; }; ( trap '' TERM; hop & ); exec {S}", 1),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_leaves_nothing_of_any_tree() {
    let supervisor = supervisor();
    let mut rows = JoinSet::new();
    for (name, script, sleeps) in TREES {
        let owner = supervisor.owner();
        rows.spawn(async move {
            let (marker, cancel) = (Marker::new(), CancellationToken::new());
            let command = bash(&marker.fill(script));
            let running = owner.run(command, &cancel);
            let cancelling = async {
                until(name, || marker.sleeping() >= *sleeps).await;
                cancel.cancel();
                Instant::now()
            };
            let (finished, cancelled) = tokio::join!(running, cancelling);
            let finished = finished.unwrap();
            assert_eq!(marker.alive(), [0; 0], "{name}: {finished:?}");
            assert_eq!(finished.exit, Exit::Cancelled, "{name}");
            assert!(finished.ended.is_complete(), "{name}");
            (cancelled.elapsed(), name)
        });
    }
    let slowest = rows.join_all().await.into_iter().max();
    println!("{} trees ended together, the slowest {slowest:?}", TREES.len());
    until("no zombies", || zombies().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_hop_are_caught() {
    let supervisor = supervisor();
    for (name, script, sleeps) in HOPPERS {
        let (owner, marker, cancel) = (supervisor.owner(), Marker::new(), CancellationToken::new());
        let command = bash(&marker.fill(script));
        let cancelling = async {
            until(name, || marker.sleeping() >= *sleeps).await;
            cancel.cancel();
            Instant::now()
        };
        let (finished, cancelled) = tokio::join!(owner.run(command, &cancel), cancelling);
        println!("{name}: {:?}", cancelled.elapsed());
        assert!(finished.unwrap().ended.is_complete(), "{name}");
        // One that got away would show up in one of many looks.
        assert!((0..200).all(|_| marker.alive().is_empty()), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_leaves_nothing_of_any_tree() {
    let supervisor = supervisor();
    let mut rows = JoinSet::new();
    for (name, script, _) in TREES {
        let owner = supervisor.owner();
        rows.spawn(async move {
            let marker = Marker::new();
            let mut command = bash(&marker.fill(script));
            command.time_limit = Duration::from_millis(700);
            let finished = owner.run(command, &CancellationToken::new()).await.unwrap();
            assert_eq!(marker.alive(), [0; 0], "{name}: {finished:?}");
            assert_eq!(finished.exit, Exit::TimedOut, "{name}");
        });
    }
    rows.join_all().await;
    until("no zombies", || zombies().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_leaves_nothing_of_any_tree() {
    let supervisor = supervisor();
    let mut rows = JoinSet::new();
    for (name, script, sleeps) in TREES {
        let owner = supervisor.owner();
        rows.spawn(async move {
            let marker = Marker::new();
            let command = bash(&marker.fill(script));
            let cancel = CancellationToken::new();
            tokio::select! {
                finished = owner.run(command, &cancel) => panic!("{name}: {finished:?}"),
                () = until(name, || marker.sleeping() >= *sleeps) => {}
            }
            until(name, || marker.alive().is_empty()).await;
        });
    }
    rows.join_all().await;
    until("no zombies", || zombies().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_cancelled_at_once_leave_nothing() {
    let supervisor = supervisor();
    let (owner, marker) = (Arc::new(supervisor.owner()), Arc::new(Marker::new()));
    let cancel = CancellationToken::new();
    let mut runs = JoinSet::new();
    for _ in 0..50 {
        let script = marker.fill("trap '' TERM; setsid -f {S}; ( {S} & ); {S}");
        let (owner, cancel) = (Arc::clone(&owner), cancel.clone());
        runs.spawn(async move { owner.run(bash(&script), &cancel).await.unwrap() });
    }
    until("all trees stand", || marker.sleeping() == 150).await;
    let cancelled = Instant::now();
    cancel.cancel();
    let all = runs.join_all().await;
    println!("50 trees of deaf processes ended in {:?}", cancelled.elapsed());
    assert_eq!(marker.alive(), [0; 0]);
    assert!(all.iter().all(|finished| finished.exit == Exit::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_one_tree_hits_no_other() {
    let supervisor = supervisor();
    let (one, other) = (supervisor.owner(), supervisor.owner());
    let script = "env -i setsid -f {S}; ( {S} & ); setsid {S} & {S}";
    let markers = [Marker::new(), Marker::new(), Marker::new()];
    let cancels = [(); 3].map(|()| CancellationToken::new());
    let run = |owner: &'static Owner, at: usize, marker: &Marker, cancel: &CancellationToken| {
        let (command, cancel) = (bash(&marker.fill(script)), cancel.clone());
        async move { (at, owner.run(command, &cancel).await.unwrap()) }
    };
    // Three commands: two of the first owner, one of the other.
    let (one, other): (&Owner, &Owner) = (Box::leak(Box::new(one)), Box::leak(Box::new(other)));
    let mut runs = JoinSet::new();
    for (at, owner) in [one, one, other].into_iter().enumerate() {
        runs.spawn(run(owner, at, &markers[at], &cancels[at]));
    }
    until("all trees stand", || markers.iter().all(|marker| marker.sleeping() == 4)).await;
    let count = || markers.each_ref().map(|marker| marker.sleeping());

    cancels[0].cancel();
    assert_eq!(runs.join_next().await.unwrap().unwrap().0, 0);
    assert_eq!(count(), [0, 4, 4]);

    assert!(one.end().await.is_complete());
    let (at, finished) = runs.join_next().await.unwrap().unwrap();
    assert_eq!((at, finished.exit), (1, Exit::Cancelled));
    assert_eq!(count(), [0, 0, 4]);

    assert!(other.end().await.is_complete());
    assert_eq!(count(), [0, 0, 0]);
    assert!(one.run(bash(":"), &CancellationToken::new()).await.is_err());
}

const LEAVES_DAEMONS: &str = "env -i setsid -f {S}; ( {S} & ) >/dev/null 2>&1; nohup {S} & echo ok";

#[tokio::test]
async fn a_background_process_lives_until_its_owner_ends() {
    let supervisor = supervisor();
    let (owner, marker, cancel) = (supervisor.owner(), Marker::new(), CancellationToken::new());
    let finished = owner.run(bash(&marker.fill(LEAVES_DAEMONS)), &cancel).await.unwrap();
    assert_eq!(finished.exit, Exit::Code(0));
    assert_eq!(finished.background, Background::Discarded);
    until("all are started", || marker.sleeping() == 3).await;
    owner.run(bash(":"), &cancel).await.unwrap();
    assert_eq!(marker.sleeping(), 3);
    assert!(owner.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
}

#[tokio::test]
async fn dropping_the_owner_ends_its_background_processes() {
    let supervisor = supervisor();
    let (owner, marker) = (supervisor.owner(), Marker::new());
    let command = bash(&marker.fill(LEAVES_DAEMONS));
    owner.run(command, &CancellationToken::new()).await.unwrap();
    until("all are started", || marker.sleeping() == 3).await;
    drop(owner);
    until("all are gone", || marker.alive().is_empty()).await;
}

#[tokio::test]
async fn dropping_the_supervisor_waits_until_all_is_gone() {
    let supervisor = supervisor();
    let (owner, marker) = (supervisor.owner(), Marker::new());
    let command = bash(&marker.fill(LEAVES_DAEMONS));
    owner.run(command, &CancellationToken::new()).await.unwrap();
    until("all are started", || marker.sleeping() == 3).await;
    drop(supervisor);
    assert_eq!(marker.alive(), [0; 0]);
    assert!(owner.run(bash(":"), &CancellationToken::new()).await.is_err());
    assert!(owner.end().await.is_complete());
}

#[tokio::test]
async fn a_cancel_while_the_pipe_is_held_ends_the_holder() {
    let supervisor = supervisor();
    let (owner, marker, cancel) = (supervisor.owner(), Marker::new(), CancellationToken::new());
    let command = bash(&marker.fill("{S} & echo $BASHPID"));
    let cancelling = async {
        until("the shell is gone", || marker.alive().len() == 1 && marker.sleeping() == 1).await;
        cancel.cancel();
    };
    let (finished, ()) = tokio::join!(owner.run(command, &cancel), cancelling);
    // On a slow machine the result may have come first: then the holder is in the background.
    match finished.unwrap().exit {
        Exit::Cancelled => assert_eq!(marker.alive(), [0; 0]),
        exit => assert_eq!(exit, Exit::Code(0)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_collected_and_no_exit_code_is_lost() {
    let supervisor = supervisor();
    let owner = Arc::new(supervisor.owner());
    let mut runs = JoinSet::new();
    for code in 0..150 {
        let owner = Arc::clone(&owner);
        runs.spawn(async move {
            let script = format!("( ( : ) & setsid -f true ); exit {code}");
            let finished = owner.run(bash(&script), &CancellationToken::new()).await.unwrap();
            assert_eq!(finished.exit, Exit::Code(code));
        });
    }
    runs.join_all().await;
    for _ in 0..200 {
        if zombies().is_empty() {
            return;
        }
        // Orphans are collected when a command ends.
        owner.run(bash(":"), &CancellationToken::new()).await.unwrap();
    }
    panic!("left uncollected: {:?}", zombies());
}

#[tokio::test]
async fn a_command_cancelled_before_its_start_is_not_started() {
    let supervisor = supervisor();
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let command = bash(&format!("touch {}/ran", dir.path().display()));
    let finished = supervisor.owner().run(command, &cancel).await.unwrap();
    assert_eq!(finished.exit, Exit::Cancelled);
    assert!(!dir.path().join("ran").exists());
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_told() {
    let supervisor = supervisor();
    let finished =
        supervisor.owner().run(bash("kill -KILL $$"), &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.exit, Exit::Signal(9));
}
