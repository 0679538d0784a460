//! What the machine says is running, independently of the crate under test.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deputize_process::{Command, Helper, Supervisor, SupervisorConfig, base_env};
use rustix::process::{Pid, Signal, kill_process};

/// Far more than anything here takes; a bound for a test that would hang.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Where commands are started, and how their trees are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// By a helper, in PID namespaces if available.
    Namespace,
    /// By a helper, without them.
    TreeKill,
    /// By a thread of this process.
    Thread,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Namespace, Self::TreeKill, Self::Thread];

    pub(crate) fn setup(self) -> SupervisorConfig {
        let none: [&str; 0] = [];
        let helper = Helper::new(env!("CARGO_BIN_EXE_deputize-process-helper"), none);
        SupervisorConfig {
            helper: (self != Self::Thread).then_some(helper),
            namespaces: self == Self::Namespace,
            ..SupervisorConfig::default()
        }
    }

    pub(crate) fn supervisor(self) -> Supervisor {
        Supervisor::with(self.setup()).unwrap()
    }

    /// A supervisor, and how its helper is found among those of other tests, which run in this
    /// process too.
    pub(crate) fn watched(self) -> (Supervisor, HelperMark) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = HelperMark(format!("helper-{:07}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut setup = self.setup();
        setup.helper.iter_mut().for_each(|helper| helper.args.push((&mark.0).into()));
        (Supervisor::with(setup).unwrap(), mark)
    }
}

/// An argument that no other helper of this process has.
pub(crate) struct HelperMark(String);

impl HelperMark {
    /// The helper, if it runs. The first process of a namespace is a copy of it, and its child.
    pub(crate) fn find(&self) -> Option<Pid> {
        let me = i32::try_from(std::process::id()).unwrap();
        let expected = format!("\0{}\0", self.0);
        let is_it = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).ends_with(&expected)
                && Stat::of(*pid).is_some_and(|stat| stat.parent == me)
        };
        Pid::from_raw(processes().into_iter().find(is_it)?)
    }
}

pub(crate) fn supervisor() -> Supervisor {
    Mode::Namespace.supervisor()
}

pub(crate) fn env() -> BTreeMap<OsString, OsString> {
    base_env(&std::env::vars_os().collect())
}

/// A command in `bash`, which may take as long as it likes.
pub(crate) fn bash(script: &str) -> Command {
    Command {
        args: vec!["-c".into(), script.into()],
        env: env(),
        time_limit: TIMEOUT,
        ..Command::new("bash", "/")
    }
}

/// An argument that no other process of the machine has.
pub(crate) struct Marker(String);

impl Marker {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("31536.{:07}{number:04}", std::process::id()))
    }

    /// `{S}` and `@SLEEP@` become a sleep that carries the marker, `@MARK@` the marker.
    pub(crate) fn fill(&self, script: &str) -> String {
        let sleep = format!("sleep {}", self.0);
        script.replace("{S}", &sleep).replace("@SLEEP@", &sleep).replace("@MARK@", &self.0)
    }

    /// Numbers of the living processes whose arguments hold the marker.
    pub(crate) fn alive(&self) -> Vec<i32> {
        processes()
            .into_iter()
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&self.0)
            })
            .collect()
    }

    /// Those of them that have it as their last argument, as the sleep itself has.
    pub(crate) fn sleeping(&self) -> usize {
        let expected = format!("\0{}\0", self.0);
        processes()
            .into_iter()
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).ends_with(&expected)
            })
            .count()
    }
}

fn processes() -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

impl Drop for Marker {
    /// Whatever a failed test leaves.
    fn drop(&mut self) {
        for pid in self.alive().into_iter().filter_map(Pid::from_raw) {
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

/// What the kernel says of a process in one line.
struct Stat {
    zombie: bool,
    parent: i32,
    /// Clock ticks at its start.
    born: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        Some(Self {
            zombie: *fields.first()? == "Z",
            parent: fields.get(1)?.parse().ok()?,
            born: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Processes below this one that have ended and that nobody has taken note of, each with its
/// start. Those of other tests are among them: see [`Zombies`].
fn zombies() -> BTreeSet<(i32, u64)> {
    let me = i32::try_from(std::process::id()).unwrap();
    let table: BTreeMap<i32, Stat> =
        processes().into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let is_ours = |pid: i32| {
        let parent = |pid: &i32| table.get(pid).map(|stat| stat.parent);
        std::iter::successors(parent(&pid), parent).take(table.len()).any(|above| above == me)
    };
    let ended = table.iter().filter(|(pid, stat)| stat.zombie && is_ours(**pid));
    ended.map(|(pid, stat)| (*pid, stat.born)).collect()
}

/// Zombies that existed at one time. Other tests of this process have some at any time, but
/// none stays.
#[derive(Debug)]
pub(crate) struct Zombies(BTreeSet<(i32, u64)>);

impl Zombies {
    pub(crate) fn now() -> Self {
        Self(zombies())
    }

    /// True once all of them are collected.
    pub(crate) fn are_gone(&mut self) -> bool {
        let now = zombies();
        self.0.retain(|process| now.contains(process));
        self.0.is_empty()
    }
}

/// Checks that ended processes are collected soon.
pub(crate) async fn no_zombie_stays() {
    let mut zombies = Zombies::now();
    until("all zombies are collected", || zombies.are_gone()).await;
}

/// Looks again and again until `true`.
pub(crate) async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < TIMEOUT, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
