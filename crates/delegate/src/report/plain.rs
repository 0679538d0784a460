//! The end of one child as a plain text, for models that expect no more.

use deputize_core::message::ModelText;
use deputize_core::outcome::ExitReason;
use deputize_core::prompt::FillError;
use deputize_core::sanitize::for_exact_line;
use deputize_core::source::Source;
use deputize_core::{Outcome, Status, ToolCallResult, ToolError, ToolOutput};

use super::entry::{error, where_whole};
use super::fit::PLAIN;
use super::{
    ASIDE, Audience, HostObservations, PATH_CHARS, ReportLimits, Truncation, ends, notes, short,
};

/// Lays out the answer of the one child of a call, and says what it leaves out. That it is cut, that
/// a limit was reached, and what the host has to say of it stands beside it.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub(crate) fn lay_out_plain(
    outcome: &Outcome,
    seen: HostObservations<'_>,
    limits: ReportLimits<'_>,
) -> Result<(ToolCallResult, Truncation), FillError> {
    let kept = seen.saved_outputs.first();
    let aside = limits.whole(1) / ASIDE;
    let most = limits.plain();
    let mut output = ToolOutput {
        source: Some(Source::child(outcome.agent.as_str())),
        ..text(outcome, seen, most)
    };
    output.notes.extend(limit(outcome));
    output.notes.extend(session(outcome));
    let diagnostic = kept.and_then(|kept| kept.diagnostic.as_ref());
    output.notes.extend(
        diagnostic.map(|path| format!("what is known of it: `{}`", path.to_string_lossy())),
    );
    output.notes.extend(notes(std::slice::from_ref(outcome), seen, limits.cwd, aside)?);
    output.notes.extend(short(seen.warnings, aside));
    let summary = outcome.text.as_ref().is_some_and(|text| text.len() > most);
    let truncation = Truncation { summary, ..Truncation::default() };
    let why = error(outcome, Audience::Model(PLAIN));
    let result = match (outcome.status, why) {
        (Status::Completed, _) | (_, None) => Ok(output),
        (status, Some(why)) => Err(ToolError::Partly {
            text: ModelText::own(format!("the child {}: {why}", ended(status))),
            output: Box::new(output),
        }),
    };
    Ok((result, truncation))
}

const fn ended(status: Status) -> &'static str {
    match status {
        Status::Completed => "ended",
        Status::Failed => "failed",
        Status::Error => "could not be run",
        Status::Timeout => "ran out of time",
        Status::Interrupted => "was interrupted",
    }
}

fn text(outcome: &Outcome, seen: HostObservations<'_>, most: usize) -> ToolOutput {
    let Some(text) = outcome.text.as_deref().filter(|text| !text.trim().is_empty()) else {
        return ToolOutput::default().note("the child gave no answer");
    };
    if text.len() <= most {
        return ToolOutput::text(text);
    }
    let (head, tail) = ends(text, most);
    let all = text.len();
    let cut = text.len() - head.len() - tail.len();
    let whole = where_whole(outcome, seen);
    ToolOutput::text(format!("{head}\n[...]\n{tail}"))
        .note(format!("{cut} of {all} bytes left out at [...]; the whole answer: {whole}"))
}

/// Where the session of a child is that did not come to the end of its task.
fn session(outcome: &Outcome) -> Option<String> {
    let path = outcome.session_path.as_deref()?;
    let path = for_exact_line(&path.to_string_lossy(), PATH_CHARS);
    (outcome.exit_reason != ExitReason::Completed).then(|| format!("the child's session: `{path}`"))
}

fn limit(outcome: &Outcome) -> Option<String> {
    if outcome.status != Status::Completed {
        return None;
    }
    let calls = outcome.iterations;
    match outcome.exit_reason {
        ExitReason::MaxIterations => Some(format!(
            "the child reached its limit of model requests, after {calls}; this is its closing \
             answer, and the task may not be done"
        )),
        ExitReason::Budget => {
            Some("the child's budget had no room for more; this is its closing answer".to_owned())
        }
        ExitReason::MaxOutputTokens => Some("the model's output limit cut this answer".to_owned()),
        _ => None,
    }
}
