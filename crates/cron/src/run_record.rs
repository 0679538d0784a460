//! What is on record of a job's runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// It began, and nothing is on record of its end.
    Running,
    /// It gave its answer.
    Completed,
    /// It gave its answer, which did not get where the job says.
    Undelivered,
    /// It ended without completing its task.
    Failed,
    /// Its time was over.
    Timeout,
    /// The program ended first.
    Interrupted,
    /// The program was gone in the middle of it, so nobody knows how far it came.
    #[serde(rename = "cut_off")]
    CutOff,
}

impl RunStatus {
    /// Returns whether the run came to its answer.
    pub(crate) const fn has_answer(self) -> bool {
        matches!(self, Self::Completed | Self::Undelivered)
    }

    /// Returns its name, such as `completed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Undelivered => "not delivered",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::CutOff => "cut off",
        }
    }

    /// Returns its name with how many calls were denied, such as `completed, 2 calls denied`.
    #[must_use]
    pub fn with_denied(self, denied: u32) -> String {
        let name = self.as_str();
        match denied {
            0 => name.to_owned(),
            1 => format!("{name}, 1 call denied"),
            more => format!("{name}, {more} calls denied"),
        }
    }
}

/// The last run of a job. It is written before the run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// How it stands.
    pub status: RunStatus,
    /// When it began, in Unix milliseconds.
    pub started_ms: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// How often the run of this time began, because the program had ended in the middle of it.
    #[serde(default)]
    pub attempts: u32,
    /// Its session; also `None` for one that ended before it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The file with its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// What went wrong, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many calls were denied.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What is on record of a job's times and runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHistory {
    /// Times up to this one were run or left out, in Unix milliseconds.
    pub handled_ms: u64,
    /// Whether somebody asked for a run now.
    pub requested: bool,
    /// How many runs began.
    pub runs: u64,
    /// The last run.
    pub last: Option<RunRecord>,
}
