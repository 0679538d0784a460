//! The order in which a tree is ended: asked, given a grace, then stopped and killed until
//! nothing moves. Decisions only; the reaper reads the table and sends the signals.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::process_table::Process;
use crate::tree_signal::TreeSignal;

/// Time between the request to end and the first kill.
pub const GRACE: Duration = Duration::from_millis(500);
/// Time limit for the killing. After it, the processes that are left are reported instead. It takes
/// some hundredths of a second; a machine that is short of everything needs more.
pub const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Looks at the table in a row that must show nothing alive.
const QUIET_ROUNDS: u32 = 3;
/// Rounds in which a tree may show new processes before it is killed without being stopped.
const STOP_ROUNDS: u32 = 8;

/// The next step after one look at the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KillStep {
    /// Send the order to these, then look again.
    Send(TreeSignal, Vec<Process>),
    /// Look again.
    Look,
    /// Nothing is alive, or the limit has passed and these are.
    Done(Vec<Process>),
    /// The limit has passed; nobody was seen alive, but the tree is still changing.
    GiveUp,
}

/// The ending of one tree.
#[derive(Debug)]
pub(crate) struct TreeKill {
    began: Instant,
    asked: bool,
    stopped: BTreeSet<(i32, u64)>,
    stop_rounds: u32,
    quiet_rounds: u32,
    blind_kills: u32,
    restless: bool,
}

/// Why there is no process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcTableError {
    /// This system has none.
    Unsupported,
    /// It could not be read this time.
    Unreadable,
}

impl TreeKill {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            asked: false,
            stopped: BTreeSet::new(),
            stop_rounds: 0,
            quiet_rounds: 0,
            blind_kills: 0,
            restless: false,
        }
    }

    /// True while the tree has time to end by itself: looking less often will do.
    pub(crate) fn is_waiting(&self, now: Instant) -> bool {
        self.asked && self.quiet_rounds == 0 && !self.grace_is_over(now)
    }

    /// True if the tree changes faster than it is looked at: its processes start others and end.
    pub(crate) fn is_restless(&self, now: Instant) -> bool {
        self.restless && self.grace_is_over(now)
    }

    /// Decides from the processes of the tree that are alive, and the number that ended since the
    /// last look: where one has just ended, its successor may have been overlooked.
    pub(crate) fn step(&mut self, now: Instant, alive: Vec<Process>, ended: usize) -> KillStep {
        self.restless = ended > 0;
        if alive.is_empty() && ended == 0 {
            self.quiet_rounds += 1;
            return if self.quiet_rounds >= QUIET_ROUNDS {
                KillStep::Done(alive)
            } else {
                KillStep::Look
            };
        }
        self.quiet_rounds = 0;
        if now.duration_since(self.began) > GRACE + KILL_LIMIT {
            return if alive.is_empty() { KillStep::GiveUp } else { KillStep::Done(alive) };
        }
        if alive.is_empty() {
            return KillStep::Look;
        }
        if !self.asked {
            self.asked = true;
            return KillStep::Send(TreeSignal::Term, alive);
        }
        if !self.grace_is_over(now) {
            return KillStep::Look;
        }
        let (old, new): (Vec<_>, Vec<_>) =
            alive.into_iter().partition(|p| self.stopped.contains(&(p.pid, p.started)));
        // A stopped tree cannot start more: once a look shows nobody new, the tree is complete.
        if new.is_empty() {
            return KillStep::Send(TreeSignal::Kill, old);
        }
        self.stop_rounds += 1;
        if self.stop_rounds > STOP_ROUNDS {
            return KillStep::Send(TreeSignal::Kill, [old, new].concat());
        }
        self.stopped.extend(new.iter().map(|process| (process.pid, process.started)));
        KillStep::Send(TreeSignal::Stop, new)
    }

    /// Decides without a table: the groups are asked, and after the grace killed. If the table
    /// may come back, that is waited for until the limit.
    pub(crate) fn step_without_table(&mut self, now: Instant, error: ProcTableError) -> KillStep {
        if !self.asked {
            self.asked = true;
            return KillStep::Send(TreeSignal::Term, Vec::new());
        }
        if !self.grace_is_over(now) {
            return KillStep::Look;
        }
        let killed = error == ProcTableError::Unsupported && self.blind_kills >= QUIET_ROUNDS;
        if killed || now.duration_since(self.began) > GRACE + KILL_LIMIT {
            return KillStep::Done(Vec::new());
        }
        self.blind_kills += 1;
        KillStep::Send(TreeSignal::Kill, Vec::new())
    }

    fn grace_is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= GRACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> Process {
        Process { pid, parent: 1, session: pid, started: 5, zombie: false, stopped: false }
    }

    fn tree(pids: &[i32]) -> Vec<Process> {
        pids.iter().map(|pid| process(*pid)).collect()
    }

    /// Milliseconds since the start, who is alive (and, negative, who has just ended).
    fn walk(looks: &[(u64, &[i32])]) -> Vec<String> {
        let start = Instant::now();
        let mut walk = TreeKill::new(start);
        let show = |processes: Vec<Process>| processes.iter().map(|p| p.pid).collect::<Vec<_>>();
        looks
            .iter()
            .map(|(ms, pids)| {
                let (alive, ended): (Vec<_>, Vec<_>) =
                    tree(pids).into_iter().partition(|p| p.pid > 0);
                match walk.step(start + Duration::from_millis(*ms), alive, ended.len()) {
                    KillStep::Send(order, to) => format!("{order:?} {:?}", show(to)),
                    KillStep::Look => "Look".to_owned(),
                    KillStep::Done(left) => format!("Done {:?}", show(left)),
                    KillStep::GiveUp => "GiveUp".to_owned(),
                }
            })
            .collect()
    }

    #[test]
    fn a_tree_that_ends_when_asked_is_never_killed() {
        let steps = walk(&[(0, &[1, 2]), (20, &[2]), (40, &[]), (45, &[]), (50, &[])]);
        assert_eq!(steps, ["Term [1, 2]", "Look", "Look", "Look", "Done []"]);
    }

    #[test]
    fn an_ignorer_is_stopped_and_then_killed() {
        let steps =
            walk(&[(0, &[1]), (499, &[1]), (500, &[1]), (505, &[1]), (510, &[]), (515, &[])]);
        assert_eq!(steps, ["Term [1]", "Look", "Stop [1]", "Kill [1]", "Look", "Look"]);
    }

    #[test]
    fn who_appears_during_the_stopping_is_stopped_before_any_kill() {
        let steps = walk(&[(0, &[1]), (500, &[1]), (505, &[1, 2]), (510, &[1, 2]), (515, &[3])]);
        assert_eq!(steps, ["Term [1]", "Stop [1]", "Stop [2]", "Kill [1, 2]", "Stop [3]"]);
    }

    #[test]
    fn quiet_rounds_must_follow_each_other() {
        let steps = walk(&[(0, &[1]), (5, &[]), (10, &[]), (15, &[2]), (20, &[]), (25, &[])]);
        assert_eq!(steps, ["Term [1]", "Look", "Look", "Look", "Look", "Look"]);
    }

    #[test]
    fn a_tree_whose_processes_have_just_ended_is_not_quiet() {
        let steps =
            walk(&[(0, &[1]), (500, &[-1]), (505, &[]), (510, &[-2]), (515, &[]), (520, &[])]);
        assert_eq!(steps, ["Term [1]", "Look", "Look", "Look", "Look", "Look"]);
        assert_eq!(walk(&[(0, &[1]), (10_501, &[-3])]), ["Term [1]", "GiveUp"]);
    }

    #[test]
    fn a_tree_that_grows_without_end_is_killed_unstopped() {
        let grown: Vec<Vec<i32>> = (1..=12).map(|last| (1..=last).collect()).collect();
        let looks: Vec<(u64, &[i32])> = [(0, grown[0].as_slice())]
            .into_iter()
            .chain(grown.iter().map(|pids| (500, pids.as_slice())))
            .collect();
        let steps = walk(&looks);
        assert!(steps[8].starts_with("Stop"), "{steps:?}");
        assert_eq!(steps[9], "Kill [1, 2, 3, 4, 5, 6, 7, 8, 9]");
    }

    #[test]
    fn what_cannot_be_killed_is_reported_at_the_limit() {
        let steps = walk(&[(0, &[1]), (500, &[1]), (505, &[1]), (10_501, &[1])]);
        assert_eq!(steps, ["Term [1]", "Stop [1]", "Kill [1]", "Done [1]"]);
    }

    #[test]
    fn without_a_table_the_groups_are_killed() {
        let start = Instant::now();
        let mut walk = TreeKill::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        let term = TreeSignal::Term;
        let kill = TreeSignal::Kill;
        assert_eq!(
            walk.step_without_table(at(0), ProcTableError::Unsupported),
            KillStep::Send(term, Vec::new())
        );
        assert_eq!(walk.step_without_table(at(100), ProcTableError::Unsupported), KillStep::Look);
        for ms in [500, 505, 510] {
            assert_eq!(
                walk.step_without_table(at(ms), ProcTableError::Unsupported),
                KillStep::Send(kill, Vec::new())
            );
        }
        // One that may come back is worth waiting for: it shows who escaped.
        assert_eq!(
            walk.step_without_table(at(515), ProcTableError::Unreadable),
            KillStep::Send(kill, Vec::new())
        );
        assert_eq!(
            walk.step_without_table(at(10_501), ProcTableError::Unreadable),
            KillStep::Done(Vec::new())
        );
        assert_eq!(
            walk.step_without_table(at(515), ProcTableError::Unsupported),
            KillStep::Done(Vec::new())
        );
    }
}
