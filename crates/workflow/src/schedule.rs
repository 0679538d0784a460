//! The state of a running graph, as a fold of what happened.
#![expect(
    clippy::indexing_slicing,
    reason = "indices are checked when an event enters, and edges lead to tasks"
)]

use std::collections::{BTreeSet, VecDeque, btree_set};

use thiserror::Error;

use crate::graph::Graph;
use crate::task::Join;

/// Where one task stands. All but the first two are terminal and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not started: it waits for its dependencies or for a slot.
    Pending,
    /// Started and not yet ended. It holds a slot, also while it is being cancelled.
    Running,
    /// It ended successfully.
    Succeeded,
    /// It failed.
    Failed,
    /// Never started, because its join can no longer hold.
    Skipped {
        /// The task that began it: it failed or was cancelled. Not itself skipped.
        root: usize,
    },
    /// Cancelled, before its start or while it ran.
    Cancelled,
}

impl TaskState {
    /// Returns whether this state is final.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// How a task that had started ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it was for.
    Success,
    /// It did not.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// Something that happened; the only way a schedule changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// A ready task was started.
    Started {
        /// Index of the task in the graph, from 0.
        task: usize,
    },
    /// A task ended. For one that had already ended this is a late result, which changes nothing.
    Finished {
        /// Index of the task in the graph, from 0.
        task: usize,
        /// How it ended.
        outcome: Outcome,
    },
    /// The whole graph is cancelled: what is pending ends now, and nothing starts any more. What runs
    /// is for the driver to stop; each keeps its slot, and the outcome it gives, until it is finished.
    Cancel,
}

/// One task entered a new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// Index of the task in the graph, from 0.
    pub task: usize,
    /// The state it is in now.
    pub state: TaskState,
}

/// An event that cannot have happened. The schedule is as it was before.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventError {
    /// There is no such task.
    #[error("event for task {task} of a graph of {tasks}; indices begin at 0")]
    UnknownTask {
        /// The index in the event.
        task: usize,
        /// Number of tasks.
        tasks: usize,
    },
    /// A start of a task that was not ready.
    #[error(
        "task `{id}` was started though it is {state:?} and not ready; start what `ready` gives"
    )]
    NotReady {
        /// The task's id.
        id: String,
        /// The state it is in.
        state: TaskState,
    },
    /// An end of a task that never started.
    #[error("task `{id}` finished but was never started; apply its start first")]
    NotStarted {
        /// The task's id.
        id: String,
    },
}

/// A graph and how far it has come.
///
/// As long as not all tasks have ended and nothing is cancelled, something runs or is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    graph: Graph,
    states: Vec<TaskState>,
    tallies: Vec<Tally>,
    /// Ranks of the tasks that may start, so that the first is the one to start first.
    ready: BTreeSet<usize>,
    running: usize,
    ended: usize,
}

/// The tasks to start now, best first: what [`Schedule::ready`] gives. A type with a name, so that
/// `while let Some(task) = schedule.ready(n).next()` may change the schedule in its body.
#[derive(Clone, Debug)]
pub struct ReadyTasks<'a> {
    graph: &'a Graph,
    ranks: std::iter::Take<btree_set::Iter<'a, usize>>,
}

impl Iterator for ReadyTasks<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.ranks.next().map(|rank| self.graph.at_rank(*rank))
    }
}

/// How the dependencies of one task have ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    succeeded: usize,
    otherwise: usize,
}

/// Meaning of a tally for a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    Open,
    Never,
}

impl Schedule {
    /// Creates a schedule with nothing started.
    #[must_use]
    pub fn new(graph: Graph) -> Self {
        let free = |node: &&crate::graph::Node| node.depends_on.is_empty();
        Self {
            states: vec![TaskState::Pending; graph.len()],
            tallies: vec![Tally::default(); graph.len()],
            ready: graph.nodes().iter().filter(free).map(|node| node.rank).collect(),
            running: 0,
            ended: 0,
            graph,
        }
    }

    /// Returns the tasks to start now, best first: as many as there are free slots when
    /// `max_concurrency` tasks of this graph may run at once. The number may differ from call to
    /// call: a cap shared with others is given as what they leave of it, and a lowered one stops no
    /// task but starts none until enough have ended. With 0 nothing starts.
    #[must_use]
    pub fn ready(&self, max_concurrency: usize) -> ReadyTasks<'_> {
        let free = max_concurrency.saturating_sub(self.running);
        ReadyTasks { graph: &self.graph, ranks: self.ready.iter().take(free) }
    }

    /// Takes in what happened and says what changed by it, in order: the event's own task first,
    /// then those skipped because of it. Nothing changed when the list is empty.
    ///
    /// # Errors
    /// The event contradicts the state; the schedule is unchanged.
    pub fn apply(&mut self, event: TaskEvent) -> Result<Vec<TaskChange>, EventError> {
        match event {
            TaskEvent::Started { task } => self.start(task),
            TaskEvent::Finished { task, outcome } => self.finish(task, outcome),
            TaskEvent::Cancel => Ok(self.cancel()),
        }
    }

    /// Returns the graph this is a schedule of.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns where the task at this index stands; `None` if there is no such task.
    #[must_use]
    pub fn state(&self, task: usize) -> Option<TaskState> {
        self.states.get(task).copied()
    }

    /// Returns the states of all tasks, by index.
    #[must_use]
    pub fn states(&self) -> &[TaskState] {
        &self.states
    }

    /// Returns the number of running tasks.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Returns whether every task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.ended == self.states.len()
    }

    fn start(&mut self, task: usize) -> Result<Vec<TaskChange>, EventError> {
        let state = self.task_state(task)?;
        if !self.ready.remove(&self.graph.nodes()[task].rank) {
            return Err(EventError::NotReady { id: self.graph.nodes()[task].id.clone(), state });
        }
        self.running += 1;
        Ok(vec![self.enter(task, TaskState::Running)])
    }

    fn finish(&mut self, task: usize, outcome: Outcome) -> Result<Vec<TaskChange>, EventError> {
        match self.task_state(task)? {
            TaskState::Running => {}
            TaskState::Pending => {
                return Err(EventError::NotStarted { id: self.graph.nodes()[task].id.clone() });
            }
            TaskState::Succeeded
            | TaskState::Failed
            | TaskState::Skipped { .. }
            | TaskState::Cancelled => {
                return Ok(Vec::new());
            }
        }
        self.running -= 1;
        Ok(self.end(task, outcome.into()))
    }

    fn cancel(&mut self) -> Vec<TaskChange> {
        self.ready.clear();
        let pending: Vec<usize> = (0..self.states.len())
            .filter(|task| self.states[*task] == TaskState::Pending)
            .collect();
        pending.into_iter().map(|task| self.enter(task, TaskState::Cancelled)).collect()
    }

    /// Ends a task, and skips, transitively, those whose join this makes impossible.
    fn end(&mut self, task: usize, state: TaskState) -> Vec<TaskChange> {
        let mut changes = vec![self.enter(task, state)];
        let mut queue = VecDeque::from([task]);
        while let Some(ended) = queue.pop_front() {
            let skipped = self.settle_dependents(ended);
            queue.extend(skipped.iter().map(|change| change.task));
            changes.extend(skipped);
        }
        changes
    }

    /// Counts an ended task for those that wait for it: some become ready, some are skipped.
    fn settle_dependents(&mut self, ended: usize) -> Vec<TaskChange> {
        let (succeeded, root) = match self.states[ended] {
            TaskState::Succeeded => (true, ended),
            TaskState::Skipped { root } => (false, root),
            TaskState::Pending | TaskState::Running | TaskState::Failed | TaskState::Cancelled => {
                (false, ended)
            }
        };
        let mut skipped = Vec::new();
        for place in 0..self.graph.nodes()[ended].dependents.len() {
            let task = self.graph.nodes()[ended].dependents[place];
            if self.states[task] != TaskState::Pending {
                continue;
            }
            self.tallies[task].count(succeeded);
            let node = &self.graph.nodes()[task];
            match self.tallies[task].verdict(node.join, node.depends_on.len()) {
                Verdict::Holds => _ = self.ready.insert(node.rank),
                Verdict::Open => {}
                Verdict::Never => skipped.push(self.enter(task, TaskState::Skipped { root })),
            }
        }
        skipped
    }

    /// The only place that changes a state.
    fn enter(&mut self, task: usize, state: TaskState) -> TaskChange {
        self.ended += usize::from(state.is_terminal());
        self.states[task] = state;
        TaskChange { task, state }
    }

    fn task_state(&self, task: usize) -> Result<TaskState, EventError> {
        self.state(task).ok_or(EventError::UnknownTask { task, tasks: self.states.len() })
    }
}

impl From<Outcome> for TaskState {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

impl Tally {
    fn count(&mut self, succeeded: bool) {
        let side = if succeeded { &mut self.succeeded } else { &mut self.otherwise };
        *side += 1;
    }

    /// For a task with at least one dependency.
    fn verdict(self, join: Join, dependencies: usize) -> Verdict {
        let all_ended = self.succeeded + self.otherwise == dependencies;
        match join {
            Join::All if self.otherwise > 0 => Verdict::Never,
            Join::Any if self.succeeded > 0 => Verdict::Holds,
            Join::Any if all_ended => Verdict::Never,
            Join::All | Join::AllDone if all_ended => Verdict::Holds,
            Join::All | Join::Any | Join::AllDone => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::task::Task;

    fn task(id: &str, depends_on: &[&str], join: Join) -> Task {
        let depends_on = depends_on.iter().map(ToString::to_string).collect();
        Task { id: Some(id.into()), depends_on, join, ..Task::default() }
    }

    /// Applies words such as `+a` (started), `a=ok`, `a=bad`, `a=stop` and `cancel`; one line each with what
    /// changed, and what is ready with two slots.
    fn check(tasks: &[Task], words: &str) -> String {
        let graph = Graph::new(tasks, tasks.len()).unwrap();
        let place = |id: &str| tasks.iter().position(|t| t.id.as_deref() == Some(id)).unwrap_or(99);
        let id = |task: usize| graph.id(task).unwrap();
        let mut schedule = Schedule::new(graph.clone());
        let mut lines = String::new();
        for word in words.split_whitespace() {
            let done = match (word.strip_prefix('+'), word.split_once('=')) {
                (Some(id), _) => schedule.apply(TaskEvent::Started { task: place(id) }),
                (_, Some((id, how))) => {
                    let outcome = match how {
                        "ok" => Outcome::Success,
                        "bad" => Outcome::Failed,
                        _ => Outcome::Cancelled,
                    };
                    schedule.apply(TaskEvent::Finished { task: place(id), outcome })
                }
                _ => schedule.apply(TaskEvent::Cancel),
            };
            let changed = match done {
                Ok(changes) => {
                    changes.iter().map(|c| format!("{} {:?}", id(c.task), c.state)).collect()
                }
                Err(error) => vec![error.to_string()],
            };
            let ready: Vec<&str> = schedule.ready(2).map(id).collect();
            let ready = format!("ready {}", ready.join(" "));
            lines += &format!("{word:7} {} ({})\n", changed.join(", "), ready.trim_end());
        }
        lines + &format!("finished {}", schedule.is_finished())
    }

    #[test]
    fn a_failure_skips_what_needs_it_and_runs_what_only_waits_for_it() {
        let tasks = [
            task("a", &[], Join::All),
            task("b", &["a"], Join::All),
            task("c", &["b", "d"], Join::AllDone),
            task("d", &[], Join::All),
            task("e", &["b"], Join::All),
        ];
        assert_snapshot!(check(&tasks, "+a +d a=bad d=ok +c c=ok"), @"
        +a      a Running (ready d)
        +d      d Running (ready)
        a=bad   a Failed, b Skipped { root: 0 }, e Skipped { root: 0 } (ready)
        d=ok    d Succeeded (ready c)
        +c      c Running (ready)
        c=ok    c Succeeded (ready)
        finished true
        ");
    }

    #[test]
    fn any_starts_with_the_first_success_and_gives_up_with_the_last_failure() {
        let tasks = [
            task("a", &[], Join::All),
            task("b", &[], Join::All),
            task("any", &["a", "b"], Join::Any),
            task("late", &["any"], Join::All),
        ];
        assert_snapshot!(check(&tasks, "+a +b a=ok +any b=bad any=ok"), @"
        +a      a Running (ready b)
        +b      b Running (ready)
        a=ok    a Succeeded (ready any)
        +any    any Running (ready)
        b=bad   b Failed (ready)
        any=ok  any Succeeded (ready late)
        finished false
        ");
        assert_snapshot!(check(&tasks, "+a +b b=bad a=stop"), @"
        +a      a Running (ready b)
        +b      b Running (ready)
        b=bad   b Failed (ready)
        a=stop  a Cancelled, any Skipped { root: 0 }, late Skipped { root: 0 } (ready)
        finished true
        ");
    }

    #[test]
    fn cancel_ends_what_has_not_begun_and_late_results_change_nothing() {
        let tasks = [
            task("a", &[], Join::All),
            task("b", &[], Join::All),
            task("c", &["a"], Join::All),
            task("d", &[], Join::All),
        ];
        assert_snapshot!(check(&tasks, "+a +b cancel cancel +d a=ok b=stop b=ok c=ok"), @"
        +a      a Running (ready b)
        +b      b Running (ready)
        cancel  c Cancelled, d Cancelled (ready)
        cancel   (ready)
        +d      task `d` was started though it is Cancelled and not ready; start what `ready` gives (ready)
        a=ok    a Succeeded (ready)
        b=stop  b Cancelled (ready)
        b=ok     (ready)
        c=ok     (ready)
        finished true
        ");
    }

    #[test]
    fn what_cannot_have_happened_is_an_error_and_changes_nothing() {
        let tasks = [task("a", &[], Join::All), task("b", &["a"], Join::All)];
        assert_snapshot!(check(&tasks, "+b b=ok a=ok +zz +a +a"), @"
        +b      task `b` was started though it is Pending and not ready; start what `ready` gives (ready a)
        b=ok    task `b` finished but was never started; apply its start first (ready a)
        a=ok    task `a` finished but was never started; apply its start first (ready a)
        +zz     event for task 99 of a graph of 2; indices begin at 0 (ready a)
        +a      a Running (ready)
        +a      task `a` was started though it is Running and not ready; start what `ready` gives (ready)
        finished false
        ");
    }

    #[test]
    fn a_lowered_cap_stops_no_task_and_starts_none() {
        let mut schedule = Schedule::new(Graph::flat(5));
        for task in 0..3 {
            schedule.apply(TaskEvent::Started { task }).unwrap();
        }
        let ready = |schedule: &Schedule, cap| schedule.ready(cap).collect::<Vec<_>>();
        assert_eq!(ready(&schedule, 1), []);
        assert_eq!(ready(&schedule, 0), []);
        schedule.apply(TaskEvent::Finished { task: 1, outcome: Outcome::Success }).unwrap();
        assert_eq!(ready(&schedule, 2), []);
        assert_eq!(ready(&schedule, 3), [3]);
        assert_eq!(ready(&schedule, usize::MAX), [3, 4]);
    }
}
