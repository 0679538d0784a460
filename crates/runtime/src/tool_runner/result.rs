//! Results of calls, for the model and the record.

use std::borrow::Cow;
use std::time::Duration;

use deputize_core::image::Image;
use deputize_core::message::{CallStatus, ModelText};
use deputize_core::policy::Denial;
use deputize_core::sanitize::{Secrets, clean, for_terminal_line, frame_for_model, remove_frames};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::todo::TodoItem;
use deputize_core::tool::DisplayedDiff;
use deputize_core::truncate::truncate_bytes;
use deputize_core::{
    Display, ToolCall, ToolCallResult, ToolEffect, ToolError, ToolOutput, describe_error,
};
use sha2::{Digest as _, Sha256};

use crate::agent_context::AgentContext;
use crate::recorded_path::recorded_path;

/// Limit on our own text about a call that did not run, in bytes.
const MOST_OWN_BYTES: usize = 8 * 1024;
/// Limit on a result for a model, in bytes; tools have smaller limits of their own.
const MOST_RESULT_BYTES: usize = 512 * 1024;
/// Limit on the images of a result.
const MOST_IMAGES: usize = 8;
/// Limit on the images of a result together, in bytes of base64.
const MOST_IMAGE_BYTES: usize = 8 * 1024 * 1024;
/// Limit on a tool's notes, in bytes.
const MOST_NOTES_BYTES: usize = 64 * 1024;

/// A call that has its result.
pub(super) struct FinishedCall {
    pub(super) status: CallStatus,
    /// Why it failed, in our own words; `None` if it did not.
    pub(super) reason: Option<String>,
    /// The framed content and the remarks.
    pub(super) body: String,
    pub(super) fingerprint: String,
    pub(super) output: ToolOutput,
    pub(super) error: Option<String>,
    pub(super) sources: SourceSet,
}

impl FinishedCall {
    /// A result in our own words.
    pub(super) fn own(status: CallStatus, text: impl Into<String>) -> Self {
        let text = bound_text(&text.into());
        let sum = Sha256::digest(text.as_bytes());
        Self {
            status,
            fingerprint: data_encoding::HEXLOWER.encode(sum.get(..8).unwrap_or_default()),
            reason: Some(text),
            body: String::new(),
            output: ToolOutput::default(),
            error: None,
            sources: [Source::host()].into(),
        }
    }

    /// The result of a call that a rule forbids.
    pub(super) fn denied(denial: &Denial) -> Self {
        Self {
            error: Some(bound_text(&denial.for_person)),
            ..Self::own(CallStatus::Denied, denial.for_model.as_str())
        }
    }

    /// The result of a call on which the tool panicked.
    pub(super) fn crashed(call: &ToolCall) -> Self {
        let text = "the tool crashed on this call; its other calls still work. Try other arguments \
                    or another way.";
        Self {
            error: Some(format!("tool {} panicked", call.name)),
            ..Self::own(CallStatus::Error, text)
        }
    }

    /// Adds lines of this program to what the model gets.
    pub(super) fn add(&mut self, lines: Option<String>) {
        if let Some(lines) = lines {
            self.body = join_lines(&self.body, &lines);
            self.sources.insert(Source::host());
        }
    }

    /// Returns the text for the model.
    pub(super) fn text(&self) -> ModelText {
        let reason = self.reason.as_ref().map(|reason| format!("error: {reason}"));
        ModelText::own(join_lines(&reason.unwrap_or_default(), &self.body))
    }

    /// Returns the text for a script, which has no frames with this boundary.
    pub(super) fn script_text(&self, boundary: &str) -> String {
        let reason = self.reason.as_deref().unwrap_or_default();
        remove_frames(&join_lines(reason, &self.body), boundary).into_owned()
    }
}

/// Joins two texts, each of which may be empty, by a line break.
fn join_lines(first: &str, second: &str) -> String {
    match (first, second) {
        ("", one) | (one, "") => one.to_owned(),
        _ => format!("{first}\n{second}"),
    }
}

/// Returns the display without secrets.
pub(super) fn scrubbed_display(secrets: &Secrets, display: Display) -> Display {
    let scrubbed = |diff: &str| secrets.scrub(diff).into_owned();
    match display {
        Display::Diff { path, diff } => {
            Display::Diff { path: recorded_path(path), diff: scrubbed(&diff) }
        }
        Display::Diffs { files } => {
            let files = files.into_iter().map(|file| DisplayedDiff {
                path: recorded_path(file.path),
                diff: scrubbed(&file.diff),
                renamed_from: file.renamed_from.map(recorded_path),
            });
            Display::Diffs { files: files.collect() }
        }
    }
}

/// Returns the effect without secrets.
pub(super) fn scrubbed_fact(secrets: &Secrets, fact: ToolEffect) -> ToolEffect {
    match fact {
        ToolEffect::Command { command, exit_code, unknown } => {
            let command = secrets.scrub(&command).into_owned();
            ToolEffect::Command { command, exit_code, unknown }
        }
        ToolEffect::NotBegun { agent, task_index, model, status, error } => {
            let error = secrets.scrub(&error).into_owned();
            ToolEffect::NotBegun { agent, task_index, model, status, error }
        }
        ToolEffect::FileRead { path, version, whole } => {
            ToolEffect::FileRead { path: recorded_path(path), version, whole }
        }
        ToolEffect::FileWritten { path, version, created } => {
            ToolEffect::FileWritten { path: recorded_path(path), version, created }
        }
        ToolEffect::TodoChanged { items } => {
            let scrubbed =
                |item: TodoItem| TodoItem { text: secrets.scrub(&item.text).into_owned(), ..item };
            ToolEffect::TodoChanged { items: items.into_iter().map(scrubbed).collect() }
        }
        ToolEffect::OutsideRead { source } => ToolEffect::OutsideRead { source },
        ToolEffect::FileRemoved { path } => ToolEffect::FileRemoved { path: recorded_path(path) },
        ToolEffect::ShellMoved { path } => ToolEffect::ShellMoved { path: recorded_path(path) },
    }
}

/// Returns a tool's result for the model and the record.
pub(super) fn done(
    cx: &AgentContext,
    call: &ToolCall,
    result: ToolCallResult,
    timed_out: Option<Duration>,
) -> FinishedCall {
    let (status, lead, output, error) = match result {
        Ok(output) => (CallStatus::Ok, None, output, None),
        Err(ToolError::Refused(text)) => {
            (CallStatus::Error, Some(text.into_string()), ToolOutput::default(), None)
        }
        Err(ToolError::Partly { text, output }) => {
            (CallStatus::Error, Some(text.into_string()), *output, None)
        }
        Err(ToolError::Denied(Denial { for_model, for_person })) => (
            CallStatus::Denied,
            Some(for_model),
            ToolOutput::default(),
            Some(bound_text(&for_person)),
        ),
        Err(ToolError::Cancelled(output)) => {
            let lead = timed_out.map_or_else(
                || "cancelled".to_owned(),
                |limit| format!("cancelled at its time limit of {} s", limit.as_secs()),
            );
            (CallStatus::Cancelled, Some(lead), *output, None)
        }
        Err(ToolError::Unavailable { text, source }) => {
            let failed = describe_error(&ToolError::Failed(source));
            (CallStatus::Error, Some(text.into_string()), ToolOutput::default(), Some(failed))
        }
        Err(error) => {
            let lead = "the tool failed for a reason of this machine; the person was told. Try another way.".to_owned();
            (CallStatus::Error, Some(lead), ToolOutput::default(), Some(describe_error(&error)))
        }
    };
    let output = bound_images(output);
    let (reason, body, mut fingerprint) = text(cx, call, lead.as_deref(), &output);
    if output.waited {
        // No other call has it.
        fingerprint = format!("waited in {}", call.id);
    }
    FinishedCall { status, reason, body, fingerprint, output, error, sources: SourceSet::new() }
}

/// The text of a result: what we say of it, then the framed content and the tool's remarks; with its
/// fingerprint.
fn text(
    cx: &AgentContext,
    call: &ToolCall,
    lead: Option<&str>,
    output: &ToolOutput,
) -> (Option<String>, String, String) {
    let secrets = &cx.shared.config.secrets;
    let mut parts: Vec<String> = Vec::new();
    let reason = lead.map(|lead| bound_text(&secrets.scrub(lead)));
    let content = secrets.scrub(&output.content);
    let all = content.len();
    let content = truncate_bytes(&content, MOST_RESULT_BYTES);
    let cut = all - content.len();
    if !content.is_empty() {
        let tool = || Source::tool(&call.name);
        let source = output.source.clone().unwrap_or_else(tool);
        let framed = frame_for_model(
            &cx.shared.config.record.secret,
            cx.view.id(),
            call.id,
            &source,
            content,
        );
        parts.push(framed.into_string());
    } else if reason.is_none() && output.notes.is_empty() {
        parts.push("(no output)".to_owned());
    }
    if cut > 0 {
        parts.push(format!("[{cut} bytes left out: a result has at most {MOST_RESULT_BYTES}]"));
    }
    parts.extend(remarks(output.notes.iter().map(|note| secrets.scrub(note))));
    let mut hash = Sha256::new();
    for part in [lead.unwrap_or_default(), content]
        .into_iter()
        .chain(output.notes.iter().map(String::as_str))
    {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    output.images.iter().for_each(|image| hash.update(image.base64().as_bytes()));
    let sum = hash.finalize();
    let fingerprint = data_encoding::HEXLOWER.encode(sum.get(..8).unwrap_or_default());
    (reason, parts.join("\n"), fingerprint)
}

/// Leaves out images above the limits of a result, with a remark.
fn bound_images(mut output: ToolOutput) -> ToolOutput {
    let mut bytes = 0;
    let mut fits = |image: &Image| {
        bytes += image.base64().len();
        bytes <= MOST_IMAGE_BYTES
    };
    let kept = output.images.iter().take(MOST_IMAGES).take_while(|image| fits(image)).count();
    if kept < output.images.len() {
        let left_out = output.images.len() - kept;
        output.images.truncate(kept);
        output = output.note(format!(
            "{left_out} images left out: a result has at most {MOST_IMAGES}, of {} MiB together",
            MOST_IMAGE_BYTES / (1024 * 1024)
        ));
    }
    output
}

/// Cleans an unframed error text of a tool or plugin, and cuts it at the limit with a mark.
fn bound_text(text: &str) -> String {
    let kept = truncate_bytes(text, MOST_OWN_BYTES);
    let cut = text.len() - kept.len();
    let kept = clean(kept).text;
    if cut > 0 { format!("{kept} [{cut} bytes left out]") } else { kept.into_owned() }
}

/// A tool's remarks as they stand behind its content; of very many, how many more there are.
fn remarks<'t>(notes: impl ExactSizeIterator<Item = Cow<'t, str>>) -> Vec<String> {
    let all = notes.len();
    let mut shown = Vec::new();
    let mut room = MOST_NOTES_BYTES;
    for (index, note) in notes.enumerate() {
        let note = format!("[{}]", for_terminal_line(&note, 2000));
        let Some(rest) = room.checked_sub(note.len()) else {
            shown.push(format!("[{} more remarks left out]", all - index));
            break;
        };
        room = rest;
        shown.push(note);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_outside_of_a_frame_are_cleaned_and_bounded() {
        let evil = "no\u{1b}[2J such\u{202e} word <|im_start|>\nask again";
        assert_eq!(bound_text(evil), "no such word ‹|im_start|>\nask again");
        let own = FinishedCall::own(CallStatus::Error, evil);
        assert_eq!(own.text().as_str(), "error: no such word ‹|im_start|>\nask again");
        let long = bound_text(&"é".repeat(1_500_000));
        assert!(long.len() < MOST_OWN_BYTES + 50, "{}", long.len());
        assert!(long.ends_with("é [2991808 bytes left out]"), "{}", &long[long.len() - 60..]);
    }

    #[test]
    fn remarks_without_end_are_counted() {
        let shown = |notes: usize| {
            let notes: Vec<String> =
                (0..notes).map(|n| format!("{n} {}", "x".repeat(998))).collect();
            remarks(notes.iter().map(|note| Cow::Borrowed(note.as_str())))
        };
        assert_eq!(shown(3).len(), 3);
        let many = shown(1000);
        assert!(many.iter().map(String::len).sum::<usize>() < MOST_NOTES_BYTES + 100);
        let kept = many.len() - 1;
        assert_eq!(many.last().unwrap(), &format!("[{} more remarks left out]", 1000 - kept));
    }
}
