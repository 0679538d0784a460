//! Reports of calls: how each is laid out, and the files with what it leaves out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::prompt::FillError;
use deputize_core::{AgentView, Outcome, ToolCallResult};

use crate::blocking::run_blocking;
use crate::config::{DelegationConfig, ToolFlavor};
use crate::output_file::{OutputFile, is_saved};
use crate::report::{
    HostObservations, ReportLayout, ReportLimits, SavedOutput, Truncation, host_value,
    lay_out_plain, result_entry, result_line,
};

/// Reports the ends of the children of one call to their parent. A file that cannot be written is
/// not named, so without it the report is laid out anew.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub(crate) async fn report_call(
    agent: &AgentView,
    config: &DelegationConfig,
    outcomes: &[Outcome],
    seen: HostObservations<'_>,
    total_ms: u64,
) -> Result<ToolCallResult, FillError> {
    let limits = ReportLimits::of(agent, config);
    let form = config.options.tool_name;
    let transcript_command = config.host.transcript_command.as_str();
    let mut kept: Vec<SavedOutput> = outcomes.iter().map(|it| planned_files(agent, it)).collect();
    let mut results = outcomes.first().map(|it| OutputFile::path(agent, it, "results.jsonl"));
    let mut tried = BTreeSet::new();
    loop {
        let results_path = results.as_deref();
        let seen = HostObservations {
            saved_outputs: &kept,
            results: results_path,
            transcript_command,
            ..seen
        };
        let (report, truncations) = lay_out(form, outcomes, seen, limits, total_ms)?;
        let mut files = left_out(agent, outcomes, &truncations, seen);
        // Of a further layout more children may be bare, so their file is written again.
        files.retain(|file| {
            tried.insert(file.path.clone()) || results_path == Some(file.path.as_path())
        });
        let lost = write(agent, files).await;
        if lost.is_empty() {
            return Ok(report);
        }
        kept = kept.iter().map(|files| without(files, &lost)).collect();
        results = results.filter(|path| !lost.contains(path));
    }
}

fn lay_out(
    form: ToolFlavor,
    outcomes: &[Outcome],
    seen: HostObservations<'_>,
    limits: ReportLimits<'_>,
    total_ms: u64,
) -> Result<(ToolCallResult, Vec<Truncation>), FillError> {
    if let (ToolFlavor::Task, [outcome]) = (form, outcomes) {
        let (result, truncation) = lay_out_plain(outcome, seen, limits)?;
        return Ok((result, vec![truncation]));
    }
    let layout = ReportLayout::new(outcomes, seen, limits)?;
    let truncations = layout.truncations().to_vec();
    Ok((Ok(layout.into_output(total_ms)), truncations))
}

/// Returns where the files about a child are, or will be if its report leaves something out.
fn planned_files(agent: &AgentView, outcome: &Outcome) -> SavedOutput {
    let found = outcome.inspection.as_deref();
    let summary = found.and_then(|found| found.summary_path.clone());
    SavedOutput {
        summary: summary.or_else(|| Some(OutputFile::answer_path(agent, outcome))),
        whole: Some(OutputFile::path(agent, outcome, "result.json")),
        output: Some(OutputFile::path(agent, outcome, "output.json")),
        diagnostic: found.and_then(|found| found.diagnostic_path.clone()),
    }
}

/// Returns the files of what a report leaves out. An answer that is in a file since the end of the
/// child is not written again. Children for whose entries there is no room share a file: they may
/// be thousands.
fn left_out(
    agent: &AgentView,
    outcomes: &[Outcome],
    truncations: &[Truncation],
    seen: HostObservations<'_>,
) -> Vec<OutputFile> {
    let mut files = Vec::new();
    let mut results = String::new();
    for ((index, outcome), left_out) in (seen.first..).zip(outcomes).zip(truncations) {
        if left_out.bare {
            results.push_str(&result_line(outcome, index));
            results.push('\n');
        }
        let known = outcome.inspection.as_ref().and_then(|found| found.summary_path.as_ref());
        if left_out.summary && known.is_none() {
            files.extend(OutputFile::answer(agent, outcome));
        }
        if left_out.entry {
            let path = OutputFile::path(agent, outcome, "result.json");
            files.push(OutputFile { path, text: format!("{:#}\n", result_entry(outcome, index)) });
        }
        if let Some(value) = host_value(outcome).filter(|_| left_out.output) {
            let path = OutputFile::path(agent, outcome, "output.json");
            files.push(OutputFile { path, text: format!("{value:#}\n") });
        }
    }
    let results = seen.results.filter(|_| !results.is_empty()).map(|path| (path, results));
    files.extend(results.map(|(path, text)| OutputFile { path: path.to_owned(), text }));
    files
}

/// Writes files on a thread that may block, and returns the paths of those that could not be
/// written.
async fn write(agent: &AgentView, files: Vec<OutputFile>) -> BTreeSet<PathBuf> {
    if files.is_empty() {
        return BTreeSet::new();
    }
    // A replay stays on its thread, for its order is that of the records.
    if !is_saved(&agent.session) {
        return files.into_iter().map(|file| file.path).collect();
    }
    let session = Arc::clone(&agent.session);
    run_blocking(move || {
        let lost = files.into_iter().filter_map(|file| {
            let path = file.path.clone();
            file.write(&session).is_none().then_some(path)
        });
        lost.collect()
    })
    .await
}

fn without(files: &SavedOutput, lost: &BTreeSet<PathBuf>) -> SavedOutput {
    let kept = |path: &Option<PathBuf>| path.clone().filter(|path| !lost.contains(path));
    SavedOutput {
        summary: kept(&files.summary),
        whole: kept(&files.whole),
        output: kept(&files.output),
        diagnostic: files.diagnostic.clone(),
    }
}
