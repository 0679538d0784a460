//! Files about children that timed out before anything of a reply had come to them.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use deputize_core::agent::AgentSpec;
use deputize_core::model::Usage;
use deputize_core::tool::SessionView;
use deputize_core::{Outcome, Status};
use jiff::Timestamp;

use crate::config::DelegationConfig;
use crate::output_file::{is_saved, log_unsaved, open, private};
use crate::report::transcript_of;

/// Limit on diagnostic files of one session in one second.
const SAME_NAMES: u32 = 1000;

/// The diagnosis of one child, and where it is to be written.
pub(crate) struct Diagnosis {
    folder: PathBuf,
    /// The file's name without its number and ending.
    name: String,
    text: String,
}

impl Diagnosis {
    /// Returns the diagnosis of a child that timed out before it began; `None` for any other.
    pub(crate) fn of(
        session: &SessionView,
        config: &DelegationConfig,
        child: &AgentSpec,
        end: &Outcome,
        now_ms: u64,
    ) -> Option<Self> {
        let folder = config.host.logs.clone()?;
        if end.status != Status::Timeout || has_begun(end) {
            return None;
        }
        let at = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let time = at.strftime("%Y%m%dT%H%M%SZ");
        let name = format!("subagent-timeout-{}-{time}", session.id);
        Some(Self { folder, name, text: describe(config, child, end, &at.to_string()) })
    }

    /// Writes it to a new file, and returns its path; `None` if it could not be written.
    pub(crate) fn write(&self, session: &SessionView) -> Option<PathBuf> {
        if !is_saved(session) {
            return None;
        }
        for number in 0..SAME_NAMES {
            let again = if number == 0 { String::new() } else { format!("-{number}") };
            let path = self.folder.join(format!("{}{again}.log", self.name));
            let error = match open(&path, private().create_new(true)) {
                Ok(mut file) => match file.write_all(self.text.as_bytes()) {
                    Ok(()) => return Some(path),
                    Err(error) => {
                        let _half = fs::remove_file(&path);
                        error
                    }
                },
                Err(error) => error,
            };
            if error.kind() != io::ErrorKind::AlreadyExists {
                log_unsaved(&path, &error);
                return None;
            }
        }
        None
    }
}

/// Returns whether anything of a reply to a child has come: then it is counted, if only as an
/// estimate. An external agent is known by what it reports.
fn has_begun(outcome: &Outcome) -> bool {
    let reported = outcome.text.is_some() || !outcome.trace.is_empty();
    reported || outcome.iterations > 0 || outcome.usage != Usage::default()
}

/// Returns the diagnosis. The task's text stays in the session, where known secrets are left out.
fn describe(config: &DelegationConfig, spec: &AgentSpec, outcome: &Outcome, at: &str) -> String {
    let system: usize = spec.system.iter().map(|block| block.len()).sum();
    let session = spec.id.as_str().split('/').next().unwrap_or_default();
    let limits = spec.limits;
    let effort = spec.options.reasoning_effort.as_deref().unwrap_or("the model's own");
    let tools: Vec<&str> = spec.tools.iter().map(|tool| tool.as_str()).collect();
    let toolsets: Vec<&str> = spec.toolsets.iter().map(|toolset| toolset.as_str()).collect();
    let task = transcript_of(&config.host.transcript_command, session, spec.id.as_str());
    let limit = match config.setting_name("child_timeout_seconds") {
        "" => "its time limit",
        name => name,
    };
    let lines = [
        ("time", at.to_owned()),
        ("agent", spec.id.to_string()),
        ("what happened", "the time limit came before anything of a reply of the model".to_owned()),
        ("error", outcome.error.clone().unwrap_or_default()),
        ("requests sent", outcome.requests.to_string()),
        ("waited, ms", outcome.duration_ms.to_string()),
        ("time limit, ms", limits.time_ms.to_string()),
        ("then for a closing answer, ms", limits.wrap_up_ms.to_string()),
        ("model", spec.model.clone()),
        ("reasoning effort", effort.to_owned()),
        ("role", spec.role.as_str().to_owned()),
        ("depth", spec.depth.to_string()),
        ("toolsets", toolsets.join(", ")),
        ("tools", tools.join(", ")),
        ("system text, bytes", system.to_string()),
        ("first message, bytes", spec.task.len().to_string()),
        ("working directory", spec.cwd.display().to_string()),
        ("its task", task.unwrap_or_else(|| "in the session's record".to_owned())),
        (
            "what to try",
            format!("see whether the provider answers; raise {limit}; fewer children at once"),
        ),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let _infallible = writeln!(text, "{name}: {}", value.replace(['\n', '\r'], " "));
    }
    text
}
