//! The two questions about edges that a check asks: an order without cycles, or a shortest cycle.
#![expect(
    clippy::indexing_slicing,
    reason = "an edge list has one entry per node, and edges lead to nodes"
)]

use std::collections::VecDeque;

/// Nodes so that each comes after all that it depends on. Nodes on a cycle, and those that
/// depend on such, are left out.
pub(crate) fn topological(depends_on: &[Vec<usize>], dependents: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = depends_on.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..open.len()).filter(|node| open[*node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &dependent in &dependents[node] {
            open[dependent] -= 1;
            if open[dependent] == 0 {
                order.push(dependent);
            }
        }
    }
    order
}

/// A shortest cycle along `depends_on`, starting at its least node, which is not repeated at the end.
/// Takes nodes times edges steps at most.
pub(crate) fn shortest(depends_on: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut best: Option<Vec<usize>> = None;
    for start in 0..depends_on.len() {
        let bound = best.as_ref().map_or(usize::MAX, Vec::len);
        // Two is the least there is: a task that waits for itself is an error of its own.
        if bound <= 2 {
            break;
        }
        best = through(depends_on, start).filter(|found| found.len() < bound).or(best);
    }
    best
}

/// A shortest cycle through `start`, by breadth-first search.
fn through(depends_on: &[Vec<usize>], start: usize) -> Option<Vec<usize>> {
    let mut came_from: Vec<Option<usize>> = vec![None; depends_on.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for &next in &depends_on[node] {
            if next == start {
                return Some(path_to(node, &came_from));
            }
            if came_from[next].is_none() {
                came_from[next] = Some(node);
                queue.push_back(next);
            }
        }
    }
    None
}

fn path_to(end: usize, came_from: &[Option<usize>]) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(end), |node| came_from[*node]).collect();
    path.reverse();
    path
}
