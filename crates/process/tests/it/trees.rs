//! Trees that try to outlive their command.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deputize_process::{Background, Command, Exit, Owner};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::corpus::{Fixture, fixtures};
use crate::process_table::{
    Marker, Mode, TIMEOUT, Zombies, bash, no_zombie_stays, supervisor, until,
};

/// From a request to the end of a tree.
const SOON: Duration = Duration::from_secs(2);
/// Trees that stand at the same time.
const TOGETHER: usize = 8;

/// How a tree is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TerminationMethod {
    Cancel,
    TimeLimit,
    Drop,
    EndOfOwner,
    EndOfSupervisor,
}

/// How long a tree may stand that is ended by its time.
const LIMIT: Duration = Duration::from_millis(700);

/// Returns the command that starts a tree.
fn tree_command(tree: &Fixture, marker: &Marker, cwd: &Path, way: TerminationMethod) -> Command {
    let mut command = bash(&marker.fill(&tree.script));
    command.cwd = cwd.to_owned();
    if way == TerminationMethod::TimeLimit {
        command.time_limit = LIMIT;
    }
    command
}

/// Starts a tree, ends it, checks that nothing is left, and returns how long that took.
async fn end(mode: Mode, tree: &Fixture, way: TerminationMethod) -> Duration {
    let supervisor = mode.supervisor();
    let owner = supervisor.owner();
    let marker = Marker::new();
    let cancel = CancellationToken::new();
    let dir = tempfile::tempdir().unwrap();
    let command = tree_command(tree, &marker, dir.path(), way);
    let stands = until(&tree.name, || marker.sleeping() >= tree.sleeps);
    let what = format!("{} {mode:?} {way:?}", tree.name);
    // One that hops could be overlooked once.
    let looks = if tree.hops { 200 } else { 1 };
    let began = Instant::now();
    let took = match way {
        TerminationMethod::TimeLimit => {
            let finished = owner.run(command, &cancel).await.unwrap();
            assert_eq!(finished.exit, Exit::TimedOut, "{what}");
            assert!(finished.ended.is_complete(), "{what}: {finished:?}");
            began.elapsed().saturating_sub(LIMIT)
        }
        TerminationMethod::Cancel | TerminationMethod::EndOfOwner => {
            let running = owner.run(command, &cancel);
            let ending = async {
                stands.await;
                let asked = Instant::now();
                if way == TerminationMethod::Cancel {
                    cancel.cancel();
                } else {
                    assert!(owner.end().await.is_complete(), "{what}");
                }
                asked
            };
            let (finished, asked) = tokio::join!(running, ending);
            let finished = finished.unwrap();
            assert_eq!(finished.exit, Exit::Cancelled, "{what}");
            assert!(finished.ended.is_complete(), "{what}: {finished:?}");
            asked.elapsed()
        }
        TerminationMethod::Drop | TerminationMethod::EndOfSupervisor => {
            tokio::select! {
                finished = owner.run(command, &cancel) => panic!("{what}: {finished:?}"),
                () = stands => {}
            }
            let asked = Instant::now();
            if way == TerminationMethod::Drop {
                wait_until_gone(&what, &marker, looks).await
            } else {
                tokio::task::block_in_place(|| drop(supervisor));
                asked.elapsed()
            }
        }
    };
    // A drop says nothing of the end: above, the test waits for it.
    if way != TerminationMethod::Drop {
        assert!((0..looks).all(|_| marker.alive().is_empty()), "{what}: {:?}", marker.alive());
    }
    took
}

/// Waits until nothing of the tree is alive, and returns how long that took.
async fn wait_until_gone(what: &str, marker: &Marker, looks: usize) -> Duration {
    let asked = Instant::now();
    let mut took = Duration::ZERO;
    let gone = || {
        took = asked.elapsed();
        (0..looks).all(|_| marker.alive().is_empty())
    };
    until(what, gone).await;
    took
}

/// Every tree, ended in that way, by a helper with namespaces and by one without.
async fn end_all(way: TerminationMethod) {
    for mode in [Mode::Namespace, Mode::TreeKill] {
        for (took, tree) in end_all_in(mode, way).await {
            // The machine may have been busy; what is slow is slow every time.
            let mut again = took;
            for _ in 0..3 {
                if again >= SOON {
                    again = end(mode, &tree, way).await;
                }
            }
            assert!(again < SOON, "{} {mode:?} {way:?}: {took:?}, then {again:?}", tree.name);
        }
    }
    no_zombie_stays().await;
}

/// Every tree, some at a time; those that took long.
async fn end_all_in(mode: Mode, way: TerminationMethod) -> Vec<(Duration, Fixture)> {
    let mut left: VecDeque<_> = fixtures(mode).into();
    let all = left.len();
    let mut rows = JoinSet::new();
    let mut done = Vec::new();
    while let Some(tree) = left.pop_front() {
        // What hops keeps a processor busy: it stands alone.
        let room = if tree.hops { 1 } else { TOGETHER };
        while rows.len() >= room {
            done.push(rows.join_next().await.unwrap().unwrap());
        }
        rows.spawn(async move { (end(mode, &tree, way).await, tree) });
    }
    done.extend(rows.join_all().await);
    let (took, tree) = done.iter().max_by_key(|(took, _)| *took).unwrap();
    println!("{way:?} {mode:?}: {all} trees, none left, slowest {} {took:?}", tree.name);
    done.retain(|(took, _)| *took >= SOON);
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_leaves_nothing_of_any_tree() {
    end_all(TerminationMethod::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_helper_a_cancel_leaves_nothing_of_any_tree_either() {
    // The threads of this process share its time: nothing is said about theirs.
    end_all_in(Mode::Thread, TerminationMethod::Cancel).await;
    no_zombie_stays().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_leaves_nothing_of_any_tree() {
    end_all(TerminationMethod::TimeLimit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_leaves_nothing_of_any_tree() {
    end_all(TerminationMethod::Drop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_owner_leaves_nothing_of_any_tree() {
    end_all(TerminationMethod::EndOfOwner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_supervisor_leaves_nothing_of_any_tree() {
    end_all(TerminationMethod::EndOfSupervisor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_cancelled_at_once_leave_nothing() {
    let supervisor = supervisor();
    let owner = Arc::new(supervisor.owner());
    let marker = Arc::new(Marker::new());
    let cancel = CancellationToken::new();
    let mut runs = JoinSet::new();
    for _ in 0..50 {
        let script = marker.fill("trap '' TERM; setsid -f {S}; ( {S} & ); {S}");
        let owner = Arc::clone(&owner);
        let cancel = cancel.clone();
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
    let one = supervisor.owner();
    let other = supervisor.owner();
    let script = "env -i setsid -f {S}; ( {S} & ); setsid {S} & {S}";
    let markers = [Marker::new(), Marker::new(), Marker::new()];
    let cancels = [(); 3].map(|()| CancellationToken::new());
    let run = |owner: &'static Owner, at: usize, marker: &Marker, cancel: &CancellationToken| {
        let command = bash(&marker.fill(script));
        let cancel = cancel.clone();
        async move { (at, owner.run(command, &cancel).await.unwrap()) }
    };
    // Three commands: two of the first owner, one of the other.
    let one: &Owner = Box::leak(Box::new(one));
    let other: &Owner = Box::leak(Box::new(other));
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
    let owner = supervisor.owner();
    let marker = Marker::new();
    let cancel = CancellationToken::new();
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
    let owner = supervisor.owner();
    let marker = Marker::new();
    let command = bash(&marker.fill(LEAVES_DAEMONS));
    owner.run(command, &CancellationToken::new()).await.unwrap();
    until("all are started", || marker.sleeping() == 3).await;
    drop(owner);
    until("all are gone", || marker.alive().is_empty()).await;
}

#[tokio::test]
async fn dropping_the_supervisor_waits_until_all_is_gone() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let marker = Marker::new();
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
    let owner = supervisor.owner();
    let marker = Marker::new();
    let cancel = CancellationToken::new();
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
    let mut orphans = Zombies::now();
    let began = Instant::now();
    while !orphans.are_gone() {
        assert!(began.elapsed() < TIMEOUT, "left uncollected: {orphans:?}");
        // Orphans are collected when a command ends.
        owner.run(bash(":"), &CancellationToken::new()).await.unwrap();
    }
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
async fn a_signal_from_elsewhere_is_reported() {
    let supervisor = supervisor();
    let finished =
        supervisor.owner().run(bash("kill -KILL $$"), &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.exit, Exit::Signal(9));
}
