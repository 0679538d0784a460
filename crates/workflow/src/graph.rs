//! A checked graph: every dependency exists, there is no cycle, and the order of starting is fixed.
#![expect(clippy::indexing_slicing, reason = "indices are places in lists of one entry per task")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle;
use crate::error::{GraphError, GraphErrors};
use crate::task::{Join, Task, default_id, is_task_id};

/// Default limit on the tasks of a graph.
pub const DEFAULT_MAX_TASKS: usize = 256;

/// Tasks that passed all checks. A task is named by its index in the list it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Task indices, the one to be preferred first.
    by_rank: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) depends_on: Vec<usize>,
    pub(crate) dependents: Vec<usize>,
    pub(crate) join: Join,
    /// The task's place in the order of preference.
    pub(crate) rank: usize,
}

impl Graph {
    /// Checks everything and builds the graph. A read of another task's value has to be in
    /// `depends_on` already. No tasks at all are a graph that is finished from the start.
    ///
    /// # Errors
    /// All that is wrong, at once. Of cycles one shortest is named; a graph over `max_tasks` is not
    /// searched for cycles, since that takes time that grows faster than the graph.
    pub fn new(tasks: &[Task], max_tasks: usize) -> Result<Self, GraphErrors> {
        let ids: Arc<[String]> = tasks.iter().enumerate().map(|(i, task)| task.id_at(i)).collect();
        let mut errors = Vec::new();
        if tasks.len() > max_tasks {
            errors.push(GraphError::TooManyTasks { found: tasks.len(), limit: max_tasks });
        }
        let places = check_ids(&ids, &mut errors);
        let depends_on = resolve(tasks, &ids, &places, &mut errors);
        let dependents = reverse_edges(&depends_on);
        let order = cycle::topological(&depends_on, &dependents);
        if order.len() < tasks.len() && tasks.len() <= max_tasks {
            errors.extend(cycle::shortest(&depends_on).map(|path| cycle_error(&path, &ids)));
        }
        GraphErrors::none_of(errors)?;

        let by_rank = preference(tasks, &remaining_paths(&order, &dependents));
        let mut nodes: Vec<Node> = std::iter::zip(tasks, ids.iter())
            .zip(std::iter::zip(depends_on, dependents))
            .map(|((task, id), (depends_on, dependents))| Node {
                id: id.clone(),
                depends_on,
                dependents,
                join: task.join,
                rank: 0,
            })
            .collect();
        for (rank, task) in by_rank.iter().enumerate() {
            nodes[*task].rank = rank;
        }
        Ok(Self { nodes, by_rank })
    }

    /// Creates a flat batch: `tasks` tasks `t0`, `t1`, … without edges, preferred in that order.
    #[must_use]
    pub fn flat(tasks: usize) -> Self {
        let node = |index| Node {
            id: default_id(index),
            depends_on: Vec::new(),
            dependents: Vec::new(),
            join: Join::All,
            rank: index,
        };
        Self { nodes: (0..tasks).map(node).collect(), by_rank: (0..tasks).collect() }
    }

    /// Returns the number of tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the id of the task at this index.
    #[must_use]
    pub fn id(&self, task: usize) -> Option<&str> {
        self.nodes.get(task).map(|node| node.id.as_str())
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn at_rank(&self, rank: usize) -> usize {
        self.by_rank[rank]
    }
}

/// Reports bad and repeated ids; gives each id's first place.
fn check_ids<'a>(ids: &'a [String], errors: &mut Vec<GraphError>) -> BTreeMap<&'a str, usize> {
    let mut places = BTreeMap::new();
    for (task_index, id) in ids.iter().enumerate() {
        if !is_task_id(id) {
            errors.push(GraphError::BadId { task_index, id: id.clone() });
        }
        let first = *places.entry(id.as_str()).or_insert(task_index);
        if first != task_index {
            errors.push(GraphError::DupId { task_index, id: id.clone(), first });
        }
    }
    places
}

/// Edges by index, each once and in ascending order; those that lead nowhere are reported and left out.
fn resolve(
    tasks: &[Task],
    ids: &Arc<[String]>,
    places: &BTreeMap<&str, usize>,
    errors: &mut Vec<GraphError>,
) -> Vec<Vec<usize>> {
    let edges_of = |(task_index, task): (usize, &Task)| {
        let mut edges = BTreeSet::new();
        // In the order of the words, so that a name given twice is one error.
        for dependency in task.depends_on.iter().collect::<BTreeSet<_>>() {
            let id = ids[task_index].clone();
            match places.get(dependency.as_str()) {
                _ if *dependency == id => errors.push(GraphError::SelfDep { task_index, task: id }),
                Some(place) => _ = edges.insert(*place),
                None => errors.push(GraphError::UnknownDep {
                    task_index,
                    task: id,
                    dependency: dependency.clone(),
                    known: Arc::clone(ids),
                }),
            }
        }
        edges.into_iter().collect()
    };
    tasks.iter().enumerate().map(edges_of).collect()
}

fn reverse_edges(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut reversed = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            reversed[to].push(from);
        }
    }
    reversed
}

fn cycle_error(path: &[usize], ids: &[String]) -> GraphError {
    let first = path[0];
    let path = path.iter().chain([&first]).map(|task| ids[*task].clone()).collect();
    GraphError::Cycle { path, first }
}

/// For each task the number of tasks on the longest chain that starts with it.
fn remaining_paths(topological: &[usize], dependents: &[Vec<usize>]) -> Vec<usize> {
    let mut paths = vec![0; dependents.len()];
    for &task in topological.iter().rev() {
        let longest = dependents[task].iter().map(|dependent| paths[*dependent]).max();
        paths[task] = 1 + longest.unwrap_or(0);
    }
    paths
}

/// Task indices by priority, then longest remaining path, then index.
fn preference(tasks: &[Task], paths: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|task| (Reverse(tasks[*task].priority), Reverse(paths[*task]), *task));
    order
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::error::ErrorValue;

    /// One line per error of the graph that `lines` say, each `id: dependency dependency`.
    fn check(lines: &[&str], max_tasks: usize) -> String {
        let tasks: Vec<Task> = lines.iter().map(|line| task(line)).collect();
        let Err(errors) = Graph::new(&tasks, max_tasks) else { return "accepted".into() };
        let show = |error: &GraphError| {
            let value = match error.value() {
                ErrorValue::Word(word) => word.to_owned(),
                ErrorValue::Path(path) => path.join(" "),
                ErrorValue::Count(count) => count.to_string(),
            };
            let code = error.code();
            let index = error.task_index();
            let task = error.task();
            let field = error.field();
            let remedy = error.remedy();
            format!("{code} {index:?} {task:?} {field} [{value}] {remedy}\n  {error}")
        };
        errors.errors().iter().map(show).collect::<Vec<_>>().join("\n")
    }

    fn task(line: &str) -> Task {
        let (id, depends_on) = line.split_once(':').unwrap();
        Task {
            id: (id != "-").then(|| id.to_owned()),
            depends_on: depends_on.split_whitespace().map(str::to_owned).collect(),
            ..Task::default()
        }
    }

    #[test]
    fn all_errors_come_at_once_and_in_order() {
        assert_snapshot!(check(&["a: b", "b: a", "c: ghost c ghost", "C d: zz", "a:"], 5), @r#"
        E_CYCLE None Some("a") depends_on [a b a] remove one of these edges
          tasks wait for each other: `a` -> `b` -> `a`
        E_SELF_DEP Some(2) Some("c") depends_on [c] remove the task from its own depends_on
          task `c` depends on itself
        E_UNKNOWN_DEP Some(2) Some("c") depends_on [ghost] tasks are a, b, c, C d, a
          task `c` depends on `ghost`, which is not a task
        E_BAD_ID Some(3) Some("C d") id [C d] ids have the form [a-z][a-z0-9_-]{0,63}; `inputs` and `shared` are reserved
          task 3 has the id `C d`, which is not allowed
        E_UNKNOWN_DEP Some(3) Some("C d") depends_on [zz] tasks are a, b, c, C d, a
          task `C d` depends on `zz`, which is not a task
        E_DUP_ID Some(4) Some("a") id [a] rename one; task 0 has this id
          task 4 has the id `a`, as task 0 has
        "#);
    }

    #[test]
    fn of_several_cycles_a_shortest_is_distinguished_from_its_first_task() {
        let lines = ["a: b", "b: c", "c: a", "d: e", "e: f", "f: d e", "g: a"];
        assert_snapshot!(check(&lines, 7), @r#"
        E_CYCLE None Some("e") depends_on [e f e] remove one of these edges
          tasks wait for each other: `e` -> `f` -> `e`
        "#);
    }

    #[test]
    fn a_default_id_can_collide_with_a_given_one() {
        assert_snapshot!(check(&["t1:", "-:", "-:"], 3), @r#"
        E_DUP_ID Some(1) Some("t1") id [t1] rename one; task 0 has this id
          task 1 has the id `t1`, as task 0 has
        "#);
    }

    #[test]
    fn long_and_hostile_words_do_not_flood_a_message() {
        let long = format!("{}\u{1b}[2J{}:", "x".repeat(70), "y".repeat(1_000_000));
        let tasks: Vec<Task> = [task(&long)].into();
        let text = Graph::new(&tasks, 1).unwrap_err().to_string();
        assert_snapshot!(text, @r"
        the graph is rejected: task 0 has the id `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\u{1b}[2Jyyyyyy` and 999994 more bytes, which is not allowed
        ");

        let mut many: Vec<Task> = (0..60).map(|_| task("-:")).collect();
        many[0].depends_on = (0..30).map(|n| format!("no{n}")).collect();
        let errors = Graph::new(&many, 60).unwrap_err();
        assert!(errors.errors()[0].remedy().ends_with("t18, t19 and 40 more"));
        assert!(errors.to_string().ends_with(" and 20 more"));
    }

    #[test]
    fn what_is_over_the_limit_is_refused_quickly() {
        let ring: Vec<Task> =
            (0..200_000).map(|i| task(&format!("-: t{}", (i + 1) % 200_000))).collect();
        let errors = Graph::new(&ring, DEFAULT_MAX_TASKS).unwrap_err();
        assert_eq!(
            errors.errors(),
            [GraphError::TooManyTasks { found: 200_000, limit: DEFAULT_MAX_TASKS }]
        );
    }

    #[test]
    fn the_densest_graph_is_checked() {
        let dense = |id: usize| (0..id).map(|i| format!(" t{i}")).collect::<String>();
        let lines: Vec<String> =
            (0..DEFAULT_MAX_TASKS).map(|id| format!("t{id}:{}", dense(id))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(check(&lines, DEFAULT_MAX_TASKS), "accepted");
    }

    #[test]
    fn nothing_is_a_graph() {
        assert_eq!(Graph::new(&[], 0).unwrap(), Graph::flat(0));
        assert_eq!(Graph::new(&vec![Task::default(); 3], 3).unwrap(), Graph::flat(3));
    }
}
