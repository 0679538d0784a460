//! A scheduled job, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use deputize_core::ToolName;
use deputize_core::sanitize::for_terminal_line;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// Characters of a job's name at most.
const NAME_CHARS: usize = 40;
/// Bytes of a job's prompt at most.
pub const PROMPT_BYTES: usize = 16 * 1024;

/// The name of a job: letters, digits and hyphens in lower case. It is the name of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct JobName(String);

/// A text is not the name of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a job: it has up to {NAME_CHARS} lower-case letters, digits and \
     hyphens, and begins with a letter or digit"
)]
pub struct JobNameError(String);

impl JobName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for JobName {
    type Err = JobNameError;

    fn from_str(text: &str) -> Result<Self, JobNameError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty()
            || text.len() > NAME_CHARS
            || text.starts_with('-')
            || !text.chars().all(is_plain)
        {
            let shown = deputize_core::sanitize::for_terminal_line(text, NAME_CHARS);
            return Err(JobNameError(shown));
        }
        Ok(Self(text.to_owned()))
    }
}

impl From<JobName> for String {
    fn from(name: JobName) -> Self {
        name.0
    }
}

impl TryFrom<String> for JobName {
    type Error = JobNameError;

    fn try_from(text: String) -> Result<Self, JobNameError> {
        text.parse()
    }
}

/// What happens to a time at which nothing could run the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissedPolicy {
    /// It is left out.
    Skip,
    /// The job runs once as soon as it can, however many times were missed.
    Once,
}

/// A scheduled job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// When it runs.
    pub schedule: Schedule,
    /// The task of each run.
    pub prompt: String,
    /// The toolsets of its agent.
    pub toolsets: Vec<String>,
    /// The tools that its agent has at most: those that its maker had. `None`: all of its toolsets,
    /// because a person made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<ToolName>>,
    /// The directory that its agent works in, absolute.
    pub cwd: PathBuf,
    /// The target of messages that gets its answers, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What happens to missed times. Unless set, a single time is made up for, and others are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedPolicy>,
    /// Time limit of a run in seconds, unless the program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Tokens that a run may use, unless the program's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Whether its times pass without a run.
    #[serde(default)]
    pub paused: bool,
    /// When it was made, changed or resumed last, in Unix milliseconds. Intervals count from here,
    /// and earlier times are none of its times.
    pub changed_ms: u64,
    /// What its maker had read from outside of this machine before, such as `web:example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// A text is no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It has a field that a job does not have.
    #[error("unknown field `{}`; a job has `{}`", for_terminal_line(name, 100), Job::FIELDS.join("`, `"))]
    UnknownField {
        /// The field.
        name: String,
    },
    /// It is no JSON, or a field has no or another value.
    #[error("{0}")]
    Malformed(String),
    /// A value is not allowed.
    #[error("{0}")]
    Invalid(String),
}

impl JobError {
    fn of_text(text: &[u8], error: &serde_json::Error) -> Self {
        let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(text).unwrap_or_default();
        let is_unknown = |name: &String| !Job::FIELDS.contains(&name.as_str());
        match fields.into_keys().find(is_unknown) {
            Some(name) => Self::UnknownField { name },
            None => Self::Malformed(for_terminal_line(&error.to_string(), 300)),
        }
    }
}

impl Job {
    /// The names of its fields in a file.
    pub const FIELDS: [&str; 13] = [
        "name",
        "schedule",
        "prompt",
        "toolsets",
        "tools",
        "cwd",
        "output",
        "missed",
        "timeout_seconds",
        "max_tokens",
        "paused",
        "changed_ms",
        "sources",
    ];

    /// Returns what happens to its missed times.
    #[must_use]
    pub fn missed_policy(&self) -> MissedPolicy {
        let usual = if self.schedule.is_single() { MissedPolicy::Once } else { MissedPolicy::Skip };
        self.missed.unwrap_or(usual)
    }

    /// Reads a job file.
    ///
    /// # Errors
    /// If it is no job. The error is one line.
    pub fn parse(text: &[u8]) -> Result<Self, JobError> {
        let job: Self =
            serde_json::from_slice(text).map_err(|error| JobError::of_text(text, &error))?;
        job.check().map_err(JobError::Invalid)?;
        Ok(job)
    }

    /// Checks what its type does not say.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let bytes = self.prompt.len();
        if self.prompt.trim().is_empty() {
            return Err("`prompt` is empty: say what to do".to_owned());
        }
        if bytes > PROMPT_BYTES {
            return Err(format!("`prompt` has {bytes} bytes, and {PROMPT_BYTES} is the most"));
        }
        if self.toolsets.is_empty() {
            return Err("`toolsets` is empty: name those that the job needs".to_owned());
        }
        if !self.cwd.is_absolute() {
            return Err("`cwd` is no absolute path".to_owned());
        }
        if self.timeout_seconds == Some(0) {
            return Err("`timeout_seconds` is 0: leave it out or give more".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_no_job_has_is_named() {
        let job = serde_json::json!({
            "name": "nightly", "schedule": "0 3 * * *", "prompt": "Look.", "toolsets": ["file"],
            "tools": [], "cwd": "/w", "output": "log", "missed": "once", "timeout_seconds": 1,
            "max_tokens": 1, "paused": true, "changed_ms": 1, "sources": ["web:x"],
        });
        let full = Job::parse(job.to_string().as_bytes()).unwrap();
        let written = serde_json::to_value(&full).unwrap();
        let mut names: Vec<&str> =
            written.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let mut fields = Job::FIELDS;
        fields.sort_unstable();
        assert_eq!(names, fields);

        let mut wrong = job;
        wrong["promt"] = "x".into();
        let error = Job::parse(wrong.to_string().as_bytes()).unwrap_err();
        assert_eq!(error, JobError::UnknownField { name: "promt".to_owned() });
        assert!(
            error.to_string().starts_with("unknown field `promt`; a job has `name`, `schedule`")
        );
        assert!(matches!(Job::parse(b"{"), Err(JobError::Malformed(_))));
    }
}
