//! Everything that can be wrong with a graph, and what to do about it.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Limit on the task ids in a remedy; the rest are counted.
const LISTED_IDS: usize = 20;
/// Limit on the errors that [`GraphErrors`] lists in its text; the rest are counted.
const LISTED_ERRORS: usize = 10;
/// Limit on a foreign word in a message, in characters.
const QUOTED_CHARS: usize = 80;

/// One thing wrong with a graph. The text of a variant says what and which; [`GraphError::remedy`]
/// says what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// The id is not of the allowed form.
    #[error("task {task_index} has the id {}, which is not allowed", QuotedWord(id))]
    BadId {
        /// Place of the task in the list.
        task_index: usize,
        /// The id as given.
        id: String,
    },
    /// An earlier task has the same id.
    #[error("task {task_index} has the id {}, as task {first} has", QuotedWord(id))]
    DupId {
        /// Place of the later of the two tasks.
        task_index: usize,
        /// The id of both.
        id: String,
        /// Place of the first task with this id.
        first: usize,
    },
    /// A dependency names no task.
    #[error("task {} depends on {}, which is not a task", QuotedWord(task), QuotedWord(dependency))]
    UnknownDep {
        /// Place of the task in the list.
        task_index: usize,
        /// ID of the task.
        task: String,
        /// The name that leads nowhere.
        dependency: String,
        /// Ids of all tasks, in order.
        known: Arc<[String]>,
    },
    /// A task waits for itself.
    #[error("task {} depends on itself", QuotedWord(task))]
    SelfDep {
        /// Place of the task in the list.
        task_index: usize,
        /// ID of the task.
        task: String,
    },
    /// Tasks wait for each other in a ring.
    #[error("tasks wait for each other: {}", Path(path))]
    Cycle {
        /// One shortest cycle: ids along `depends_on`, the first one again at the end.
        path: Vec<String>,
        /// Place of the path's first task in the list.
        first: usize,
    },
    /// The graph is over the limit.
    #[error("{found} tasks, and the limit is {limit}")]
    TooManyTasks {
        /// Number of tasks.
        found: usize,
        /// Limit on tasks.
        limit: usize,
    },
}

/// The offending value of a [`GraphError`], as the caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorValue<'a> {
    /// One word.
    Word(&'a str),
    /// A path of task ids.
    Path(&'a [String]),
    /// A number of tasks.
    Count(usize),
}

impl GraphError {
    /// Returns the stable name of this kind of error: `E_BAD_ID`, `E_DUP_ID`, `E_UNKNOWN_DEP`,
    /// `E_SELF_DEP`, `E_CYCLE` or `E_TOO_MANY_TASKS`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadId { .. } => "E_BAD_ID",
            Self::DupId { .. } => "E_DUP_ID",
            Self::UnknownDep { .. } => "E_UNKNOWN_DEP",
            Self::SelfDep { .. } => "E_SELF_DEP",
            Self::Cycle { .. } => "E_CYCLE",
            Self::TooManyTasks { .. } => "E_TOO_MANY_TASKS",
        }
    }

    /// Returns the one task to blame; `None` for errors of several tasks.
    #[must_use]
    pub fn task_index(&self) -> Option<usize> {
        match self {
            Self::BadId { task_index, .. }
            | Self::DupId { task_index, .. }
            | Self::UnknownDep { task_index, .. }
            | Self::SelfDep { task_index, .. } => Some(*task_index),
            Self::Cycle { .. } | Self::TooManyTasks { .. } => None,
        }
    }

    /// Returns the id of the task to blame; of a cycle, its first task.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::BadId { id: task, .. }
            | Self::DupId { id: task, .. }
            | Self::UnknownDep { task, .. }
            | Self::SelfDep { task, .. } => Some(task),
            Self::Cycle { path, .. } => path.first().map(String::as_str),
            Self::TooManyTasks { .. } => None,
        }
    }

    /// Returns the field of the call that is wrong: `id`, `depends_on` or `tasks`.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::BadId { .. } | Self::DupId { .. } => "id",
            Self::UnknownDep { .. } | Self::SelfDep { .. } | Self::Cycle { .. } => "depends_on",
            Self::TooManyTasks { .. } => "tasks",
        }
    }

    /// Returns the whole value of that field.
    #[must_use]
    pub fn value(&self) -> ErrorValue<'_> {
        match self {
            Self::BadId { id: word, .. }
            | Self::DupId { id: word, .. }
            | Self::UnknownDep { dependency: word, .. }
            | Self::SelfDep { task: word, .. } => ErrorValue::Word(word),
            Self::Cycle { path, .. } => ErrorValue::Path(path),
            Self::TooManyTasks { found, .. } => ErrorValue::Count(*found),
        }
    }

    /// Returns the remedy, as a sentence fragment.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::BadId { .. } => {
                "ids have the form [a-z][a-z0-9_-]{0,63}; `inputs` and `shared` are reserved".into()
            }
            Self::DupId { first, .. } => format!("rename one; task {first} has this id"),
            Self::UnknownDep { known, .. } => format!("tasks are {}", list(known, LISTED_IDS)),
            Self::SelfDep { .. } => "remove the task from its own depends_on".into(),
            Self::Cycle { .. } => "remove one of these edges".into(),
            Self::TooManyTasks { limit, .. } => format!("send at most {limit} tasks at once"),
        }
    }

    /// Returns the sort key: errors are listed in the order of their tasks.
    pub(crate) fn place(&self) -> usize {
        match self {
            Self::Cycle { first, .. } => *first,
            other => other.task_index().unwrap_or(0),
        }
    }
}

/// All that is wrong with a graph: at least one error, in the order of the tasks.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the graph is rejected: {}", ErrorList(errors))]
pub struct GraphErrors {
    errors: Vec<GraphError>,
}

impl GraphErrors {
    /// `Err` with all of them in order when there are any.
    pub(crate) fn none_of(mut errors: Vec<GraphError>) -> Result<(), Self> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(GraphError::place);
        Err(Self { errors })
    }

    /// Returns the errors, at least one.
    #[must_use]
    pub fn errors(&self) -> &[GraphError] {
        &self.errors
    }
}

impl IntoIterator for GraphErrors {
    type Item = GraphError;
    type IntoIter = std::vec::IntoIter<GraphError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

/// A foreign word in a message: quoted, escaped, and cut with a note when long.
struct QuotedWord<'a>(&'a str);

impl fmt::Display for QuotedWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED_CHARS) {
            None => write!(f, "`{}`", self.0.escape_debug()),
            Some((end, _)) => {
                let (shown, rest) = self.0.split_at(end);
                write!(f, "`{}` and {} more bytes", shown.escape_debug(), rest.len())
            }
        }
    }
}

struct Path<'a>(&'a [String]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, id) in self.0.iter().enumerate() {
            let arrow = if step == 0 { "" } else { " -> " };
            write!(f, "{arrow}{}", QuotedWord(id))?;
        }
        Ok(())
    }
}

struct ErrorList<'a>(&'a [GraphError]);

impl fmt::Display for ErrorList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&list(self.0, LISTED_ERRORS))
    }
}

/// The first `limit` items with commas, and how many more there are.
fn list<T: fmt::Display>(items: &[T], limit: usize) -> String {
    let shown: Vec<String> = items.iter().take(limit).map(ToString::to_string).collect();
    match items.len().saturating_sub(limit) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
