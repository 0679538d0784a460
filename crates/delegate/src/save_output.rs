//! What is kept on disk of children that have ended: what their parent is not shown whole, and
//! what is to be known of one that timed out before it began.
//!
//! Written in place and rarely; what cannot be written is left out, and costs the result nothing.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use deputize_core::agent::AgentSpec;
use deputize_core::model::Usage;
use deputize_core::sanitize::for_terminal;
use deputize_core::{AgentView, Outcome, Status};
use jiff::Timestamp;

use crate::config::{DelegationConfig, ToolFlavor};
use crate::report::{
    HostObservations, ReportLimits, SavedOutput, Truncation, cuts, host_value, result_entry,
};

/// How many diagnostic files of one session and one second there may be.
const SAME_NAMES: u32 = 1000;

/// Whether the session is kept on disk at all: one that is played from a recording is not.
pub(crate) fn is_saved(agent: &AgentView) -> bool {
    agent.session.spill.parent().is_some_and(Path::is_dir)
}

/// Keeps what a call's result will leave out, and gives the paths for each child. What was kept at
/// a child's end stays.
pub(crate) fn save_output(
    (agent, config): (&AgentView, &DelegationConfig),
    (specs, outcomes): (&[AgentSpec], &[Outcome]),
    seen: HostObservations<'_>,
    caps: ReportLimits<'_>,
    now_ms: u64,
) -> Vec<SavedOutput> {
    if !is_saved(agent) {
        return Vec::new();
    }
    // Of a child that began in an earlier process there is no spec here.
    let specs = specs.iter().map(Some).chain(std::iter::repeat(None));
    let diagnosed = |(outcome, spec): (&Outcome, Option<&AgentSpec>)| {
        let known = outcome.found.as_ref().and_then(|found| found.diagnostic_path.clone());
        known.or_else(|| diagnose(agent, config, (spec?, outcome), now_ms))
    };
    let diagnosed: Vec<Option<PathBuf>> = outcomes.iter().zip(specs).map(diagnosed).collect();
    let cuts = would_cut((agent, config), outcomes, (seen, &diagnosed), (outcomes.len(), caps));
    let all = (0..).zip(outcomes).zip(cuts.iter().zip(diagnosed));
    all.map(|((index, outcome), (cut, diagnostic))| {
        let known = outcome.found.as_ref().and_then(|found| found.summary_path.clone());
        let whole = cut.entry.then(|| format!("{:#}\n", result_entry(outcome, index)));
        let output = host_value(outcome).filter(|_| cut.output);
        let output = output.map(|value| format!("{value:#}\n"));
        SavedOutput {
            summary: known.or_else(|| whole_answer(agent, outcome, *cut)),
            whole: stored(place(agent, outcome, "result.json"), &whole.unwrap_or_default()),
            output: stored(place(agent, outcome, "output.json"), &output.unwrap_or_default()),
            diagnostic,
        }
    })
    .collect()
}

/// Keeps at a child's end what a result for so many children will leave out of its answer, and
/// what is to be known of it if it never began.
pub(crate) fn save_one(
    (agent, config): (&AgentView, &DelegationConfig),
    (spec, outcome): (&AgentSpec, &Outcome),
    seen: HostObservations<'_>,
    (siblings, caps): (usize, ReportLimits<'_>),
    now_ms: u64,
) -> SavedOutput {
    if !is_saved(agent) {
        return SavedOutput::default();
    }
    let outcomes = std::slice::from_ref(outcome);
    let diagnosed = [diagnose(agent, config, (spec, outcome), now_ms)];
    let cuts = would_cut((agent, config), outcomes, (seen, &diagnosed), (siblings, caps));
    let cut = cuts.first().copied().unwrap_or_default();
    let [diagnostic] = diagnosed;
    SavedOutput { summary: whole_answer(agent, outcome, cut), diagnostic, ..SavedOutput::default() }
}

/// What a result will leave out, if all of it were kept: so no path that is named then makes an
/// entry longer than was thought.
fn would_cut(
    (agent, config): (&AgentView, &DelegationConfig),
    outcomes: &[Outcome],
    (seen, diagnosed): (HostObservations<'_>, &[Option<PathBuf>]),
    (children, caps): (usize, ReportLimits<'_>),
) -> Vec<Truncation> {
    if config.options.tool_name == ToolFlavor::Task {
        let cut = |outcome: &Outcome| Truncation {
            summary: outcome.text.as_ref().is_some_and(|text| text.len() > caps.plain()),
            ..Truncation::default()
        };
        return outcomes.iter().map(cut).collect();
    }
    let all = outcomes.iter().zip(diagnosed);
    let kept: Vec<SavedOutput> = all
        .map(|(outcome, diagnostic)| SavedOutput {
            summary: Some(place(agent, outcome, "summary.txt")),
            whole: Some(place(agent, outcome, "result.json")),
            output: Some(place(agent, outcome, "output.json")),
            diagnostic: diagnostic.clone(),
        })
        .collect();
    let seen = HostObservations { kept: &kept, ..seen };
    // What cannot be told is not kept either.
    cuts(outcomes, seen, (children, caps)).unwrap_or_default()
}

fn place(agent: &AgentView, outcome: &Outcome, ending: &str) -> PathBuf {
    let name = outcome.agent.as_str().replace('/', "~");
    agent.session.spill.join(format!("{name}.{ending}"))
}

/// The whole of an answer of which a part is shown, as a person may see it: a terminal gets it too.
fn whole_answer(agent: &AgentView, outcome: &Outcome, cut: Truncation) -> Option<PathBuf> {
    let text = outcome.text.as_deref().filter(|_| cut.summary)?;
    stored(place(agent, outcome, "summary.txt"), &for_terminal(text))
}

/// The path at which a text was written; nothing when it is empty or could not be.
fn stored(path: PathBuf, text: &str) -> Option<PathBuf> {
    if text.is_empty() {
        return None;
    }
    let mut options = private();
    options.create(true).truncate(true);
    match made(&path, &options).and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Some(path),
        Err(error) => {
            log_unsaved(&path, &error);
            None
        }
    }
}

fn log_unsaved(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), error = error.to_string(), "output of a child not saved");
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn made(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    options.open(path)
}

/// Whether anything of a reply to a child has come: then it is counted, if only as an estimate. A
/// program of its own is known by what it tells.
fn has_begun(outcome: &Outcome) -> bool {
    let told = outcome.text.is_some() || !outcome.trace.is_empty();
    told || outcome.iterations > 0 || outcome.usage != Usage::default()
}

/// The file about a child that timed out before anything of a reply had come to it.
fn diagnose(
    agent: &AgentView,
    config: &DelegationConfig,
    (spec, outcome): (&AgentSpec, &Outcome),
    now_ms: u64,
) -> Option<PathBuf> {
    let folder = config.host.logs.as_ref()?;
    if outcome.status != Status::Timeout || has_begun(outcome) {
        return None;
    }
    let at = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    let text = diagnosis(spec, outcome, &at.to_string());
    let session = &agent.session.id;
    let time = at.strftime("%Y%m%dT%H%M%SZ");
    for number in 0..SAME_NAMES {
        let again = if number == 0 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("subagent-timeout-{session}-{time}{again}.log"));
        let error = match made(&path, private().create_new(true)) {
            Ok(mut file) => match file.write_all(text.as_bytes()) {
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

/// What is to be known. The task's text stays in the session, where known secrets are left out.
fn diagnosis(spec: &AgentSpec, outcome: &Outcome, at: &str) -> String {
    let system: usize = spec.system.iter().map(|block| block.len()).sum();
    let session = spec.id.as_str().split('/').next().unwrap_or_default();
    let limits = spec.limits;
    let effort = spec.options.reasoning_effort.as_deref().unwrap_or("the model's own");
    let tools: Vec<&str> = spec.tools.iter().map(|tool| tool.as_str()).collect();
    let toolsets: Vec<&str> = spec.toolsets.iter().map(|toolset| toolset.as_str()).collect();
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
        ("its task", format!("deputize sessions show {session} --agent {}", spec.id)),
        (
            "what to try",
            "see whether the provider answers; raise \
             delegation.child_timeout_seconds; fewer children at once"
                .to_owned(),
        ),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let _infallible = writeln!(text, "{name}: {}", value.replace(['\n', '\r'], " "));
    }
    text
}
