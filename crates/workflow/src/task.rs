//! Specification of one task.

/// Limit on a task id, in bytes.
pub const MAX_ID_BYTES: usize = 64;

/// Names that own values of a workflow beside its tasks, so that no task may have them.
const RESERVED_IDS: [&str; 2] = ["inputs", "shared"];

/// One task as it was asked for, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// `[a-z][a-z0-9_-]{0,63}`, neither `inputs` nor `shared`. Absent: `t` and the task's index.
    pub id: Option<String>,
    /// Ids of the tasks this one waits for, in any order; naming one twice is naming it once.
    pub depends_on: Vec<String>,
    /// Condition on them before this task may start.
    pub join: Join,
    /// Higher starts first. The scheduler compares, it sets no bounds.
    pub priority: i8,
}

impl Task {
    /// The id given, else the default one for a task at `index`.
    pub(crate) fn id_at(&self, index: usize) -> String {
        self.id.clone().unwrap_or_else(|| default_id(index))
    }
}

/// When the dependencies of a task allow its start. Without dependencies each of them holds at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// All have succeeded. Cannot hold any more when one has ended otherwise.
    #[default]
    All,
    /// At least one has succeeded. Cannot hold any more when all have ended otherwise.
    Any,
    /// All have ended, however they did. Can always hold.
    AllDone,
}

pub(crate) fn default_id(index: usize) -> String {
    format!("t{index}")
}

pub(crate) fn is_task_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && id.len() <= MAX_ID_BYTES
        && !RESERVED_IDS.contains(&id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_lower_case_words() {
        let longest = "a".repeat(MAX_ID_BYTES);
        for good in ["a", "t0", "stripe-client_2", "input", longest.as_str()] {
            assert!(is_task_id(good), "{good}");
        }
        let too_long = "a".repeat(MAX_ID_BYTES + 1);
        for bad in ["", "A", "0a", "-a", "_", "a b", "a.b", "aé", "a\0", "a\n", "inputs", "shared"]
        {
            assert!(!is_task_id(bad), "{bad:?}");
        }
        assert!(!is_task_id(&too_long));
    }
}
