//! The process that starts and ends commands.

use std::fs;
use std::path::Path;
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use deputize_process::{
    CommandOutcome, Containment, Exit, Helper, HelperError, Owner, SpawnError, Supervisor,
    SupervisorConfig,
};
use deputize_requirements::{check, require, root, test_path};
use rustix::process::{Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::process_table::{Marker, Mode, TIMEOUT, bash, no_zombie_stays, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_deputize-process-helper");

async fn run(owner: &Owner, script: &str) -> CommandOutcome {
    owner.run(bash(script), &CancellationToken::new()).await.unwrap()
}

async fn says(owner: &Owner, script: &str) -> String {
    String::from_utf8(run(owner, script).await.output.head).unwrap()
}

fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_it_is_killed_nothing_is_left_and_the_next_command_gets_another_one() {
    const TREE: &str = "trap '' TERM; env -i setsid -f {S}; ( {S} & ); setsid {S} & {S}";
    for mode in [Mode::Namespace, Mode::TreeKill] {
        let (supervisor, helper) = mode.watched();
        let owner = supervisor.owner();
        let marker = Marker::new();
        let cancel = CancellationToken::new();
        let running = owner.run(bash(&marker.fill(TREE)), &cancel);
        let killing = async {
            until("the tree stands", || marker.sleeping() == 4).await;
            kill_process(helper.find().unwrap(), Signal::KILL).unwrap();
        };
        let (finished, ()) = tokio::join!(running, killing);
        assert_eq!(finished.unwrap().exit, Exit::Unknown, "{mode:?}");
        assert_eq!(marker.alive(), [0; 0], "{mode:?}");
        assert_eq!(says(&owner, "echo again").await, "again\n", "{mode:?}");
        assert!(owner.end().await.is_complete(), "{mode:?}");
        drop(supervisor);
        assert_eq!(helper.find(), None, "{mode:?}");
        no_zombie_stays().await;
    }
}

#[tokio::test]
async fn a_request_to_end_does_not_end_it_and_is_not_ignored_by_commands() {
    let (supervisor, mark) = Mode::TreeKill.watched();
    let owner = supervisor.owner();
    let ignored = says(&owner, "grep SigIgn /proc/self/status").await;
    let helper = mark.find().unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(helper, signal).unwrap();
    }
    assert_eq!(says(&owner, "grep SigIgn /proc/self/status").await, ignored);
    assert_eq!(mark.find(), Some(helper));
    assert_eq!(run(&owner, "kill -TERM $$").await.exit, Exit::Signal(15));
}

#[tokio::test]
async fn a_command_that_stops_it_is_ended_at_its_time_limit() {
    let supervisor = Mode::TreeKill.supervisor();
    let owner = supervisor.owner();
    let marker = Marker::new();
    let mut command = bash(&marker.fill("kill -STOP $PPID; {S}"));
    command.time_limit = Duration::from_millis(300);
    let cancel = CancellationToken::new();
    let running = tokio::time::timeout(TIMEOUT, owner.run(command, &cancel));
    let finished = running.await.expect("the time limit holds").unwrap();
    assert_eq!(finished.exit, Exit::TimedOut);
    assert!(finished.ended.is_complete(), "{finished:?}");
    assert!(finished.duration < Duration::from_secs(10), "{finished:?}");
    assert_eq!(marker.alive(), [0; 0]);
    assert_eq!(says(&owner, "echo on").await, "on\n");
}

/// The start may not have been reported yet: that is no reason to say that nothing ran.
#[tokio::test]
async fn a_command_that_kills_it_at_once_has_run() {
    for _ in 0..20 {
        let supervisor = Mode::TreeKill.supervisor();
        let owner = supervisor.owner();
        assert_eq!(run(&owner, "kill -9 $PPID; sleep 9").await.exit, Exit::Unknown);
        assert_eq!(says(&owner, "echo on").await, "on\n");
    }
}

#[tokio::test]
async fn who_carries_no_mark_and_has_no_parent_ends_with_the_last_owner() {
    const NO_MARK: &str = "ulimit -R 5; env -i setsid -f {S} >/dev/null 2>&1";
    let supervisor = Mode::TreeKill.supervisor();
    let one = supervisor.owner();
    let other = supervisor.owner();
    let marker = Marker::new();
    run(&one, &marker.fill(NO_MARK)).await;
    run(&other, ":").await;
    until("it runs", || marker.sleeping() == 1).await;
    assert!(other.end().await.is_complete());
    assert_eq!(marker.sleeping(), 1, "it may be the other's");
    assert!(one.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);

    let owner = supervisor.owner();
    let marker = Marker::new();
    run(&owner, &marker.fill(NO_MARK)).await;
    until("it runs", || marker.sleeping() == 1).await;
    drop(supervisor);
    assert_eq!(marker.alive(), [0; 0]);
}

/// What the program itself may be kept from, or has around it, its helper is kept from and has.
#[tokio::test]
async fn where_namespaces_can_be_made_and_not_used_it_does_without() {
    for wrapper in [
        &["/usr/bin/unshare", "--user", "--map-root-user"][..],
        &["/usr/bin/setpriv", "--bounding-set", "-sys_chroot"],
    ] {
        let mut may = Program::new(wrapper[0]);
        let may = may.args(&wrapper[1..]).arg("/bin/true").status().is_ok_and(|it| it.success());
        let need = if may { Ok(()) } else { Err("this system does not allow it".to_owned()) };
        if check(&format!("{} by {}", test_path!(), wrapper[0]), need).is_none() {
            continue;
        }
        let args = wrapper[1..].iter().copied().chain([PROGRAM]);
        let helper = Some(Helper::new(wrapper[0], args));
        let supervisor =
            Supervisor::with(SupervisorConfig { helper, ..SupervisorConfig::default() }).unwrap();
        assert_eq!(supervisor.containment().unwrap(), Containment::ProcessTable, "{wrapper:?}");
        let owner = supervisor.owner();
        let marker = Marker::new();
        assert_eq!(says(&owner, "echo works").await, "works\n", "{wrapper:?}");
        run(&owner, &marker.fill("setsid -f {S} >/dev/null 2>&1")).await;
        until("it runs", || marker.sleeping() == 1).await;
        assert!(owner.end().await.is_complete(), "{wrapper:?}");
        assert_eq!(marker.alive(), [0; 0], "{wrapper:?}");
    }
}

#[tokio::test]
async fn it_has_nothing_of_ours() {
    // Nobody else may look into it.
    require!(root());
    let file = fs::File::open("/").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let (supervisor, mark) = Mode::TreeKill.watched();
    let owner = supervisor.owner();
    run(&owner, ":").await;
    let helper = mark.find().unwrap().as_raw_nonzero();
    let place = |name: &str| format!("/proc/{helper}/{name}");
    assert_eq!(fs::read(place("environ")).unwrap(), b"");
    assert_eq!(fs::read_link(place("cwd")).unwrap(), Path::new("/"));
    let descriptors = fs::read_dir(place("fd")).unwrap();
    let open: Vec<_> = descriptors
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .map(|to| to.display().to_string())
        .collect();
    let expected = |to: &String| {
        ["/dev/null", "socket:", "anon_inode:[pidfd]"].iter().any(|start| to.starts_with(start))
    };
    assert!(open.iter().all(expected), "{open:?}");
    let tasks = fs::read_dir(place("task")).unwrap().count();
    assert_eq!(tasks, 1, "a process dies with the thread that started it");
}

#[tokio::test]
async fn a_program_that_is_no_helper_is_reported() {
    let outcome = async |helper: Helper| {
        let setup = SupervisorConfig { helper: Some(helper), ..SupervisorConfig::default() };
        let supervisor = Supervisor::with(setup).unwrap();
        supervisor.owner().run(bash(":"), &CancellationToken::new()).await.unwrap_err()
    };
    let none: [&str; 0] = [];
    let error = outcome(Helper::new("/no/such/program", none)).await;
    assert!(matches!(error, SpawnError::Helper(HelperError::Start { .. })), "{error:?}");
    for stranger in [Helper::new("/bin/true", none), Helper::new("/bin/sh", ["-c", "exit 7"])] {
        let error = outcome(stranger).await;
        assert!(matches!(error, SpawnError::Helper(HelperError::Stranger { .. })), "{error:?}");
    }
    no_zombie_stays().await;
}

#[test]
fn by_hand_it_does_nothing_and_says_so() {
    let done = Program::new(PROGRAM).stdin(Stdio::null()).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    let actual = String::from_utf8(done.stderr).unwrap();
    assert!(
        actual.starts_with("this starts and ends the commands of another process: "),
        "{actual}"
    );
}

#[tokio::test]
async fn the_commands_of_an_owner_see_each_other() {
    for mode in Mode::ALL {
        let supervisor = mode.supervisor();
        let one = supervisor.owner();
        let other = supervisor.owner();
        let marker = Marker::new();
        let started = says(&one, &marker.fill("{S} >/dev/null 2>&1 & echo $!")).await;
        let pid = started.trim();
        until("it is no shell any more", || marker.sleeping() == 1).await;
        let named = format!("tr '\\0' ' ' </proc/{pid}/cmdline");
        let theirs = says(&one, &named).await;
        assert_eq!(theirs.trim_end(), marker.fill("{S}"), "{mode:?}");
        let contained = supervisor.containment().unwrap() == Containment::PidNamespace;
        if contained {
            let seen = says(&other, &format!("{named} 2>&1; ls /proc | grep -c '^[0-9]'")).await;
            assert!(!seen.contains(&marker.fill("{S}")), "{mode:?}: {seen}");
        }
        assert_eq!(run(&one, &format!("kill {pid}")).await.exit, Exit::Code(0));
        until("it is gone", || marker.alive().is_empty()).await;
    }
}

#[tokio::test]
async fn in_a_namespace_a_command_that_kills_everything_kills_its_own() {
    let supervisor = Mode::Namespace.supervisor();
    let one = supervisor.owner();
    let other = supervisor.owner();
    let marker = Marker::new();
    if supervisor.containment().unwrap() != Containment::PidNamespace {
        return;
    }
    run(&other, &marker.fill("{S} >/dev/null 2>&1 &")).await;
    until("it runs", || marker.sleeping() == 1).await;
    run(&one, "kill -9 -1").await;
    assert_eq!(marker.sleeping(), 1);
    assert_eq!(says(&one, "echo on").await, "on\n");
    // Its first process cannot be killed from inside.
    run(&one, "kill -9 1").await;
    assert_eq!(says(&one, "echo $PPID; mount | grep -c '^proc on /proc '").await, "0\n2\n");
}

#[tokio::test]
async fn ending_one_command_leaves_what_was_stopped_stopped() {
    const DEAF: &str = "trap '' TERM; setsid -f {S}; {S}; {S}";
    const HOPS: &str = "hop() { hop & exit; }; for i in $(seq @); do ( trap '' TERM; hop & ); \
        done; exec {S}";
    for mode in Mode::ALL {
        let supervisor = mode.supervisor();
        let contained = supervisor.containment().unwrap() == Containment::PidNamespace;
        let owner = supervisor.owner();
        let marker = Marker::new();
        let script = "{S} >/dev/null 2>&1 & {S} >/dev/null 2>&1 & \
            until [ $(cat /proc/$!/comm) = sleep ]; do :; done; kill -STOP $!";
        run(&owner, &marker.fill(script)).await;
        until("both are there", || marker.sleeping() == 2).await;
        let states = || {
            let alive = marker.alive().into_iter();
            let mut states: Vec<_> = alive.filter_map(|pid| state(&pid.to_string())).collect();
            states.sort_unstable();
            states
        };
        until("one is stopped", || states() == ['S', 'T']).await;
        // Only the kernel is fast enough for many that hop at once.
        let hops = if contained { "12" } else { "1" };
        for (tree, sleeps) in [(DEAF, 2), (HOPS, 1)] {
            let doomed = Marker::new();
            let cancel = CancellationToken::new();
            let running = owner.run(bash(&doomed.fill(tree).replace('@', hops)), &cancel);
            let cancelling = async {
                until("the tree stands", || doomed.sleeping() == sleeps).await;
                cancel.cancel();
            };
            let (finished, ()) = tokio::join!(running, cancelling);
            assert!(finished.unwrap().ended.is_complete(), "{mode:?}");
            assert!((0..100).all(|_| doomed.alive().is_empty()), "{mode:?}");
        }
        until("both are as they were", || states() == ['S', 'T']).await;
        assert!(owner.end().await.is_complete());
        assert_eq!(marker.alive(), [0; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn commands_have_the_limit_of_open_files_that_is_meant_for_them() {
    for mode in Mode::ALL {
        let setup = SupervisorConfig { open_files: Some(321), ..mode.setup() };
        let supervisor = Supervisor::with(setup).unwrap();
        let soft = says(&supervisor.owner(), "ulimit -Sn").await;
        let hard = "ulimit -Hn";
        assert_eq!(soft, "321\n", "{mode:?}");
        assert_ne!(says(&supervisor.owner(), hard).await, soft, "{mode:?}");
    }
}

#[tokio::test]
async fn it_is_not_started_before_the_first_command() {
    let (supervisor, helper) = Mode::TreeKill.watched();
    let owner = supervisor.owner();
    assert!(owner.end().await.is_complete());
    assert_eq!(helper.find(), None);
    run(&supervisor.owner(), ":").await;
    assert!(helper.find().is_some());
    drop(supervisor);
    assert_eq!(helper.find(), None);
}
