//! Laws of the scheduler, held against random graphs, outcomes, caps and moments of cancelling.
//!
//! The oracle below knows only the task data and the public states; it recomputes from them, the slow
//! way, what the scheduler keeps up to date as it goes.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cmp::Reverse;
use std::collections::BTreeSet;

use deputize_workflow::{ErrorValue, Graph, Join, Outcome, Schedule, Task, TaskEvent, TaskState};
use proptest::prelude::*;

/// What a random driver does next; numbers are taken modulo what there is to choose from.
#[derive(Clone, Copy, Debug)]
enum Move {
    SetCap(usize),
    StartBest,
    StartAll,
    Finish(usize, Outcome),
    Late(usize, Outcome),
    Cancel,
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        5 => Just(Outcome::Success),
        2 => Just(Outcome::Failed),
        1 => Just(Outcome::Cancelled),
    ]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        10 => (1..6_usize).prop_map(Move::SetCap),
        30 => Just(Move::StartBest),
        20 => Just(Move::StartAll),
        60 => (any::<usize>(), outcomes()).prop_map(|(which, how)| Move::Finish(which, how)),
        10 => (any::<usize>(), outcomes()).prop_map(|(which, how)| Move::Late(which, how)),
        1 => Just(Move::Cancel),
    ];
    prop::collection::vec(one, 0..80)
}

/// Graphs without cycles whose index order says nothing about their edges.
fn graphs() -> impl Strategy<Value = Vec<Task>> {
    let join = prop_oneof![3 => Just(Join::All), 1 => Just(Join::Any), 1 => Just(Join::AllDone)];
    let node = (prop::collection::vec(any::<prop::sample::Index>(), 0..4), join, -2..3_i8);
    prop::collection::vec(node, 0..16)
        .prop_flat_map(|nodes| {
            let order: Vec<usize> = (0..nodes.len()).collect();
            (Just(nodes), Just(order).prop_shuffle())
        })
        .prop_map(|(nodes, place)| {
            let mut tasks = vec![Task::default(); nodes.len()];
            for (i, (edges, join, priority)) in nodes.into_iter().enumerate() {
                let to = |edge: prop::sample::Index| format!("t{}", place[edge.index(i)]);
                let depends_on = if i == 0 { vec![] } else { edges.into_iter().map(to).collect() };
                tasks[place[i]] = Task { id: None, depends_on, join, priority };
            }
            tasks
        })
}

struct Oracle {
    tasks: Vec<Task>,
    depends_on: Vec<BTreeSet<usize>>,
}

impl Oracle {
    fn new(tasks: &[Task]) -> Self {
        let index = |id: &String| id[1..].parse().unwrap();
        let depends_on = tasks.iter().map(|t| t.depends_on.iter().map(index).collect()).collect();
        Self { tasks: tasks.to_vec(), depends_on }
    }

    fn path(&self, task: usize) -> usize {
        let after = (0..self.tasks.len()).filter(|t| self.depends_on[*t].contains(&task));
        1 + after.map(|t| self.path(t)).max().unwrap_or(0)
    }

    fn holds(&self, task: usize, states: &[TaskState]) -> bool {
        let mut deps = self.depends_on[task].iter().map(|d| states[*d]);
        match self.tasks[task].join {
            Join::All => deps.all(|s| s == TaskState::Succeeded),
            Join::Any => deps.len() == 0 || deps.any(|s| s == TaskState::Succeeded),
            Join::AllDone => deps.all(TaskState::is_terminal),
        }
    }

    /// Whether the join could hold if everything still open went as well as possible.
    fn can_hold(&self, task: usize, states: &[TaskState]) -> bool {
        let hopeful = |s: &TaskState| if s.is_terminal() { *s } else { TaskState::Succeeded };
        self.holds(task, &states.iter().map(hopeful).collect::<Vec<_>>())
    }

    /// All that may start, best first.
    fn ready(&self, states: &[TaskState]) -> Vec<usize> {
        let mut ready: Vec<usize> = (0..states.len())
            .filter(|t| states[*t] == TaskState::Pending && self.holds(*t, states))
            .collect();
        ready.sort_by_key(|t| (Reverse(self.tasks[*t].priority), Reverse(self.path(*t)), *t));
        ready
    }

    /// Tasks from which `task` can be reached along edges.
    fn upstream(&self, task: usize) -> BTreeSet<usize> {
        let direct = self.depends_on[task].iter();
        direct.flat_map(|d| self.upstream(*d).into_iter().chain([*d])).collect()
    }

    fn check(&self, schedule: &Schedule, cap: usize) {
        let states = schedule.states();
        let running = states.iter().filter(|s| **s == TaskState::Running).count();
        assert_eq!(schedule.running(), running);
        assert_eq!(schedule.is_finished(), states.iter().all(|s| s.is_terminal()));

        let all = self.ready(states);
        let free = cap.saturating_sub(running);
        let expected: Vec<usize> = all.iter().copied().take(free).collect();
        assert_eq!(
            schedule.ready(cap).collect::<Vec<_>>(),
            expected,
            "order law, full use of slots"
        );
        assert!(schedule.is_finished() || running > 0 || !all.is_empty(), "deadlock");

        for (task, state) in states.iter().enumerate() {
            match state {
                TaskState::Pending => {
                    assert!(self.can_hold(task, states), "{task} is to be skipped")
                }
                TaskState::Skipped { root } => {
                    assert!(!self.can_hold(task, states), "{task} was skipped too early");
                    assert!(matches!(states[*root], TaskState::Failed | TaskState::Cancelled));
                    assert!(self.upstream(task).contains(root), "{root} is no cause of {task}");
                }
                TaskState::Running
                | TaskState::Succeeded
                | TaskState::Failed
                | TaskState::Cancelled => {}
            }
        }
    }
}

/// Runs a graph to its end as random moves say, then as fast as it can, and checks each step.
struct Driver {
    schedule: Schedule,
    oracle: Oracle,
    cap: usize,
    log: Vec<TaskEvent>,
    /// How often each task entered a terminal state.
    ends: Vec<usize>,
    starts: Vec<usize>,
    cancelled: bool,
}

impl Driver {
    fn new(tasks: &[Task]) -> Self {
        let graph = Graph::new(tasks, tasks.len()).unwrap();
        let ends = vec![0; tasks.len()];
        let oracle = Oracle::new(tasks);
        let schedule = Schedule::new(graph);
        Self { schedule, oracle, cap: 3, log: vec![], ends, starts: vec![], cancelled: false }
    }

    fn apply(&mut self, event: TaskEvent) {
        let before = self.schedule.states().to_vec();
        let changes = self.schedule.apply(event).unwrap();
        self.log.push(event);
        for (task, state) in before.iter().enumerate() {
            let actual: Vec<TaskState> =
                changes.iter().filter(|c| c.task == task).map(|c| c.state).collect();
            let now = self.schedule.states()[task];
            assert_eq!(
                actual,
                if now == *state { vec![] } else { vec![now] },
                "each change told once"
            );
            assert!(!state.is_terminal() || now == *state, "terminal states never change");
            self.ends[task] += usize::from(now != *state && now.is_terminal());
        }
        if let TaskEvent::Started { task } = event {
            assert!(!self.cancelled, "a start after cancelling");
            assert!(self.schedule.running() <= self.cap, "wider than the cap");
            self.starts.push(task);
        }
        self.oracle.check(&self.schedule, self.cap);
    }

    fn pick(&self, which: usize, wanted: impl Fn(TaskState) -> bool) -> Option<usize> {
        let states = self.schedule.states();
        let fits: Vec<usize> = (0..states.len()).filter(|t| wanted(states[*t])).collect();
        fits.get(which % fits.len().max(1)).copied()
    }

    fn start_best(&mut self) -> bool {
        let best = self.schedule.ready(self.cap).next();
        best.map(|task| self.apply(TaskEvent::Started { task })).is_some()
    }

    fn play(&mut self, next: Move) {
        match next {
            Move::SetCap(cap) => self.cap = cap,
            Move::StartBest => _ = self.start_best(),
            Move::StartAll => while self.start_best() {},
            Move::Finish(which, outcome) => {
                if let Some(task) = self.pick(which, |s| s == TaskState::Running) {
                    self.apply(TaskEvent::Finished { task, outcome });
                }
            }
            Move::Late(which, outcome) => {
                if let Some(task) = self.pick(which, TaskState::is_terminal) {
                    let before = self.schedule.clone();
                    self.apply(TaskEvent::Finished { task, outcome });
                    assert_eq!(self.schedule, before, "a late result changed something");
                }
            }
            Move::Cancel => {
                self.cancelled = true;
                self.apply(TaskEvent::Cancel);
            }
        }
    }

    fn run(tasks: &[Task], moves: &[Move]) -> Self {
        let mut driver = Self::new(tasks);
        driver.oracle.check(&driver.schedule, driver.cap);
        moves.iter().for_each(|next| driver.play(*next));
        while !driver.schedule.is_finished() {
            let before = driver.log.len();
            driver.play(Move::StartAll);
            driver.play(Move::Finish(driver.log.len(), Outcome::Success));
            assert!(driver.log.len() > before, "nothing left to do, and not finished");
        }
        driver
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Width, order, full use of slots, causes, finality: checked by the oracle after every event.
    #[test]
    fn every_graph_ends_and_each_task_once(tasks in graphs(), moves in moves()) {
        let driver = Driver::run(&tasks, &moves);
        prop_assert!(driver.ends.iter().all(|ends| *ends == 1));
        let started: BTreeSet<usize> = driver.starts.iter().copied().collect();
        prop_assert_eq!(started.len(), driver.starts.len());
    }

    #[test]
    fn the_same_events_give_the_same_state(tasks in graphs(), moves in moves()) {
        let driver = Driver::run(&tasks, &moves);
        let fold = |events: &[TaskEvent]| {
            let mut schedule = Schedule::new(Graph::new(&tasks, tasks.len()).unwrap());
            events.iter().for_each(|event| _ = schedule.apply(*event).unwrap());
            schedule
        };
        prop_assert_eq!(fold(&driver.log), driver.schedule);
        for end in 0..driver.log.len() {
            driver.oracle.check(&fold(&driver.log[..end]), driver.cap);
        }
    }

    #[test]
    fn a_flat_batch_runs_in_index_order(n in 0..40_usize, moves in moves()) {
        let moves: Vec<Move> =
            moves.into_iter().filter(|next| !matches!(next, Move::Cancel)).collect();
        let tasks = vec![Task::default(); n];
        prop_assert_eq!(Graph::new(&tasks, n).unwrap(), Graph::flat(n));
        let driver = Driver::run(&tasks, &moves);
        prop_assert_eq!(driver.starts, (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn a_rejected_graph_has_a_shortest_cycle_and_an_accepted_one_has_none(
        edges in prop::collection::vec((0..9_usize, 0..9_usize), 0..16),
    ) {
        let mut tasks = vec![Task::default(); 9];
        let edges: Vec<_> = edges.into_iter().filter(|(from, to)| from != to).collect();
        edges.iter().for_each(|(from, to)| tasks[*from].depends_on.push(format!("t{to}")));
        let expected = girth(&edges);
        let errors: Vec<_> = Graph::new(&tasks, 9).err().into_iter().flatten().collect();
        prop_assert_eq!(errors.len(), usize::from(expected.is_some()));
        for error in errors {
            let ErrorValue::Path(path) = error.value() else { panic!("{error}") };
            prop_assert_eq!(Some(path.len() - 1), expected);
            let id = |id: &String| id[1..].parse::<usize>().unwrap();
            prop_assert!(path.windows(2).all(|edge| edges.contains(&(id(&edge[0]), id(&edge[1])))));
            prop_assert_eq!(path.first(), path.last());
            prop_assert_eq!(path.first(), path.iter().min());
        }
    }

    /// With no overhead the makespan stays within work / width + critical path * (1 - 1 / width).
    #[test]
    fn no_slot_is_wasted(
        tasks in graphs(),
        work in prop::collection::vec(1..20_usize, 16),
        width in 1..6_usize,
    ) {
        let tasks: Vec<Task> =
            tasks.into_iter().map(|task| Task { join: Join::All, ..task }).collect();
        let oracle = Oracle::new(&tasks);
        let mut schedule = Schedule::new(Graph::new(&tasks, tasks.len()).unwrap());
        let mut now = 0;
        let mut until = BTreeSet::new();
        loop {
            while let Some(task) = schedule.ready(width).next() {
                schedule.apply(TaskEvent::Started { task }).unwrap();
                until.insert((now + work[task], task));
            }
            let Some((then, task)) = until.pop_first() else { break };
            now = then;
            schedule.apply(TaskEvent::Finished { task, outcome: Outcome::Success }).unwrap();
        }
        prop_assert!(schedule.is_finished());
        let total: usize = work[..tasks.len()].iter().sum();
        let critical = (0..tasks.len()).map(|t| longest(&oracle, &work, t)).max().unwrap_or(0);
        prop_assert!(width * now <= total + critical * (width - 1));
    }
}

fn longest(oracle: &Oracle, work: &[usize], task: usize) -> usize {
    let before = oracle.depends_on[task].iter().map(|d| longest(oracle, work, *d)).max();
    work[task] + before.unwrap_or(0)
}

/// The number of edges of a shortest cycle among nine nodes, from all distances.
fn girth(edges: &[(usize, usize)]) -> Option<usize> {
    let mut distance = [[usize::MAX; 9]; 9];
    edges.iter().for_each(|(from, to)| distance[*from][*to] = 1);
    for by in 0..9 {
        for from in 0..9 {
            for to in 0..9 {
                let round = distance[from][by].saturating_add(distance[by][to]);
                distance[from][to] = distance[from][to].min(round);
            }
        }
    }
    (0..9).map(|node| distance[node][node]).min().filter(|length| *length < usize::MAX)
}
