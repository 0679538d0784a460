//! Graphs of tasks: which may start now, which never will, and why. A pure scheduler.
//!
//! A [`Graph`] is checked task data; a [`Schedule`] is a fold of [`TaskEvent`]s over it. Neither
//! does IO, waits, or looks at a clock. A driver asks [`Schedule::ready`] what to start, does it,
//! and passes the events to [`Schedule::apply`]. The same events give the same state, live and from
//! a journal.
//! A flat batch is a graph without edges, [`Graph::flat`].
//!
//! ```
//! use deputize_workflow::{TaskEvent, Graph, Outcome, Schedule, TaskState, Task};
//!
//! let task = |id: &str, depends_on: &[&str]| Task {
//!     id: Some(id.into()),
//!     depends_on: depends_on.iter().map(ToString::to_string).collect(),
//!     ..Task::default()
//! };
//! let tasks = [task("research", &[]), task("implement", &["research"]), task("tests", &["implement"])];
//! let mut schedule = Schedule::new(Graph::new(&tasks, deputize_workflow::DEFAULT_MAX_TASKS)?);
//!
//! let max_concurrency = 3;
//! while let Some(task) = schedule.ready(max_concurrency).next() {
//!     schedule.apply(TaskEvent::Started { task })?;
//! }
//! assert_eq!(schedule.running(), 1); // the others wait for `research`
//!
//! schedule.apply(TaskEvent::Finished { task: 0, outcome: Outcome::Failed })?;
//! assert_eq!(schedule.state(2), Some(TaskState::Skipped { root: 0 }));
//! assert!(schedule.is_finished());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Whoever runs tasks that may depend on each other should use this crate. What it deliberately lacks:
//! running anything, what tasks pass to each other, retries, conditions and time limits. A driver that
//! retries a task finishes it once, after its last attempt.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod cycle;
mod error;
mod graph;
mod schedule;
mod task;

pub use error::{ErrorValue, GraphError, GraphErrors};
pub use graph::{DEFAULT_MAX_TASKS, Graph};
pub use schedule::{EventError, Outcome, ReadyTasks, Schedule, TaskChange, TaskEvent, TaskState};
pub use task::{Join, MAX_ID_BYTES, Task};
