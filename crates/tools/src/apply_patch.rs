//! `apply_patch`: changes of several files, all or none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deputize_core::file_state::PathGuard;
use deputize_core::message::ModelText;
use deputize_core::tool::{CallCheck, DisplayedDiff, spec_of};
use deputize_core::{
    ArgumentRole, Display, Effects, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind,
    ToolOutput, ToolSpec, TypedTool, sanitize,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;
use crate::blocking::{CallMode, blocking, still_wanted};
use crate::diff::FileDiff;
use crate::display_name::restored_marks;
use crate::existing_file::{ExistingFile, WriteExtent, may_create, none_to_change};
use crate::file_updates::{FileUpdate, make_all};
use crate::granted_path::{Access, GrantedPath, check_written_paths};
use crate::matching::NoMatch;
use crate::nearest_text::nearest_text;
use crate::path_error::PathError;
use crate::text::FileText;

mod hunk;
mod hunks;
mod parse;

use hunk::Hunk;
use hunks::{HunkMismatch, MismatchReason, apply};
use parse::{FilePatch, PatchAction, parse};

/// Files that one patch changes at most.
const MOST_FILES: usize = 100;

const DESCRIPTION: &str = "Change, create, rename or remove several files, all or nothing. Takes \
    a unified diff or `*** Begin Patch`; line numbers may be wrong.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    patch: String,
}

#[derive(Debug)]
pub(crate) struct ApplyPatch;

impl TypedTool for ApplyPatch {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example =
            |title, patch| Example { title, arguments: serde_json::json!({"patch": patch}) };
        ToolSpec {
            examples: vec![
                example(
                    "A unified diff of two files",
                    "--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n-# Title\n+# Name\n \n \
                     TODO: a\n--- /dev/null\n+++ b/notes/new.md\n@@ -0,0 +1 @@\n+# New\n",
                ),
                example(
                    "The form with marks",
                    "*** Begin Patch\n*** Update File: README.md\n@@\n-TODO: a\n+Done: a\n*** End \
                     Patch",
                ),
            ],
            kind: ToolKind::Edit,
            subject: Subject::new(Some("patch".into()), "patch", ArgumentRole::Patch),
            ..ToolSpec::effectful(spec_of::<Args>("apply_patch", DESCRIPTION), Effects::WritesFiles)
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        // Of a patch that cannot be read the call tells.
        let files = parse(&args.patch).unwrap_or_default();
        let paths: Vec<&str> = files.iter().flat_map(FilePatch::paths).collect();
        check_written_paths(cx, &paths, move |cx| apply_patch(&args, cx, CallMode::DryRun)).await
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| apply_patch(&args, cx, CallMode::Real)).await
    }
}

deputize_core::register_tool!("file", ApplyPatch);

fn apply_patch(args: &Args, cx: &ToolCx, mode: CallMode) -> ToolCallResult {
    let files = parse(&args.patch).map_err(|error| ToolError::refused(error.to_string()))?;
    if files.len() > MOST_FILES {
        let found = files.len();
        return Err(ToolError::refused(format!(
            "the patch changes {found} files, and {MOST_FILES} is the most: split it"
        )));
    }
    let places = PatchPlaces::resolve(cx, &files)?;
    let _guards = places.lock(cx);
    let mut plan = PatchPlan::default();
    for (file, (place, new_place)) in files.iter().zip(places.0) {
        still_wanted(cx)?;
        plan.add(cx, file, place, new_place)?;
    }
    let output = ToolOutput {
        content: plan.lines.join("\n"),
        notes: plan.notes,
        display: Some(Display::Diffs { files: plan.diffs }),
        ..ToolOutput::default()
    };
    match mode {
        CallMode::DryRun => Ok(output),
        CallMode::Real => make_all(cx, &plan.changes, output),
    }
}

/// The place of each file of a patch, and the place that it is renamed to.
struct PatchPlaces(Vec<(GrantedPath, Option<GrantedPath>)>);

impl PatchPlaces {
    fn resolve(cx: &ToolCx, files: &[FilePatch]) -> Result<Self, ToolError> {
        let mut places = Vec::new();
        let mut named = BTreeMap::new();
        for FilePatch { path, change } in files {
            let (place, new_path) = match change {
                PatchAction::Create { .. } => (GrantedPath::to_write(cx, path)?, None),
                PatchAction::Remove { .. } => (removed_place(cx, path)?, None),
                PatchAction::Update { new_path: None, .. } => (changed_place(cx, path)?, None),
                PatchAction::Update { new_path, .. } => {
                    (removed_place(cx, path)?, new_path.as_ref())
                }
            };
            let new_place = new_path.map(|path| GrantedPath::to_write(cx, path)).transpose()?;
            for place in [Some(&place), new_place.as_ref()].into_iter().flatten() {
                if let Some((other, name)) =
                    named.insert(place.path(), (change, place.shown().to_owned()))
                {
                    return Err(named_twice(place, &name, [other, change]));
                }
            }
            places.push((place, new_place));
        }
        // What lies in a directory comes next to it in this order.
        for ((outer, (_, file)), (inner, (_, within))) in named.iter().zip(named.iter().skip(1)) {
            if inner.starts_with(outer) {
                return Err(ToolError::refused(format!(
                    "the patch names the file {file}, and {within} as if it were a directory: use \
                     another path, or two patches"
                )));
            }
        }
        Ok(Self(places))
    }

    /// Keeps other writes to all places out, locked in one order for all calls.
    fn lock(&self, cx: &ToolCx) -> Vec<PathGuard> {
        let places = self.0.iter().flat_map(|(place, new)| [Some(place), new.as_ref()]);
        let mut paths: Vec<PathBuf> = places.flatten().map(GrantedPath::path).collect();
        paths.sort();
        paths.iter().map(|path| cx.agent.session.files.lock_path(path)).collect()
    }
}

/// Why a patch may not name a file twice.
fn named_twice(place: &GrantedPath, other: &str, changes: [&PatchAction; 2]) -> ToolError {
    let is_created = changes.iter().any(|it| matches!(it, PatchAction::Create { .. }));
    let is_removed = changes.iter().any(|it| matches!(it, PatchAction::Remove { .. }));
    let path = place.shown();
    let same = if path == other {
        format!("the patch names {path} twice")
    } else {
        format!("{other} and {path} are the same file")
    };
    ToolError::refused(match is_created && is_removed {
        true => format!("the patch removes and creates {path}: update it instead"),
        false => format!("{same}: put all its hunks under one header, in the order of the file"),
    })
}

/// The place of a file that is there.
fn changed_place(cx: &ToolCx, path: &str) -> Result<GrantedPath, ToolError> {
    GrantedPath::existing(cx, path, Access::Write).map_err(|error| none_to_change(cx, path, error))
}

/// The place of a file that is there under the name that the patch has for it: what a link leads to
/// would go, and the link would stay.
fn removed_place(cx: &ToolCx, path: &str) -> Result<GrantedPath, ToolError> {
    let place = changed_place(cx, path)?;
    if place.is_behind_symlink()? {
        let target = place.path();
        let target = target.strip_prefix(&cx.agent.spec.cwd).unwrap_or(&target);
        return Err(ToolError::refused(format!(
            "{} is a symlink to {}, and a patch removes or renames no symlinks: name that file if you \
             mean it, or use a command for the symlink",
            place.shown(),
            crate::display_name::display_name(&target.to_string_lossy())
        )));
    }
    Ok(place)
}

/// What a patch does, as far as its files were looked at.
#[derive(Default)]
struct PatchPlan {
    changes: Vec<FileUpdate>,
    /// A line for each file, for the model.
    lines: Vec<String>,
    notes: Vec<String>,
    diffs: Vec<DisplayedDiff>,
}

impl PatchPlan {
    fn add(
        &mut self,
        cx: &ToolCx,
        file: &FilePatch,
        place: GrantedPath,
        new_place: Option<GrantedPath>,
    ) -> Result<(), ToolError> {
        match &file.change {
            PatchAction::Create { content } => self.create(cx, place, content),
            PatchAction::Remove { hunks } => self.remove(cx, place, hunks),
            PatchAction::Update { hunks, .. } => self.update(cx, place, hunks, new_place),
        }
    }

    fn create(&mut self, cx: &ToolCx, place: GrantedPath, content: &str) -> Result<(), ToolError> {
        check_free(&place)?;
        self.notes.extend(may_create(cx, &place)?);
        let restored = sanitize::restored_whole(content, "")
            .map_err(|error| ToolError::refused(format!("{}: {error}", place.shown())))?;
        self.notes.extend(restored_marks(restored.marks));
        let difference = FileDiff::of("", &restored.text);
        self.report(&place, None, &format!("created {}", place.shown()), &difference);
        let new = Some(restored.text.into_owned().into_bytes());
        self.changes.push(FileUpdate { place, old: None, new, mode_of: None });
        Ok(())
    }

    fn remove(&mut self, cx: &ToolCx, place: GrantedPath, hunks: &[Hunk]) -> Result<(), ToolError> {
        let (old, text) = self.read(cx, &place, WriteExtent::Whole)?;
        if !hunks.is_empty() {
            let rest = apply(&text.text, hunks).map_err(|it| mismatch(&place, &text.text, &it))?;
            if !rest.text.is_empty() {
                return Err(ToolError::refused(format!(
                    "{} is to be removed, and the patch does not name all its lines: name them all",
                    place.shown()
                )));
            }
        }
        let difference = FileDiff::of(&text.text, "");
        self.report(&place, None, &format!("removed {}", place.shown()), &difference);
        self.changes.push(FileUpdate { place, old: Some(old), new: None, mode_of: None });
        Ok(())
    }

    fn update(
        &mut self,
        cx: &ToolCx,
        place: GrantedPath,
        hunks: &[Hunk],
        new_place: Option<GrantedPath>,
    ) -> Result<(), ToolError> {
        let extent = if new_place.is_some() { WriteExtent::Whole } else { WriteExtent::Part };
        let (old, text) = self.read(cx, &place, extent)?;
        let patched = apply(&text.text, hunks).map_err(|it| mismatch(&place, &text.text, &it))?;
        let new = text
            .charset
            .encode(&patched.text)
            .map_err(|error| ToolError::refused(format!("{}: {error}", place.shown())))?;
        self.notes.extend(patched.inexact.iter().map(|at| {
            let path = place.shown();
            format!("the hunk at line {at} of the patch was found in {path} with other space")
        }));
        self.notes.extend(restored_marks(patched.marks));
        let difference = FileDiff::between(&text.text, &patched.text, &patched.changes);
        let Some(new_place) = new_place else {
            self.report(&place, None, &format!("changed {}", place.shown()), &difference);
            self.changes.push(FileUpdate { place, old: Some(old), new: Some(new), mode_of: None });
            return Ok(());
        };
        check_free(&new_place)?;
        self.notes.extend(may_create(cx, &new_place)?);
        let line = format!("renamed {} to {}", place.shown(), new_place.shown());
        self.report(&new_place, Some(place.path()), &line, &difference);
        let mode_of = Some(old.meta.clone());
        self.changes.push(FileUpdate { place: new_place, old: None, new: Some(new), mode_of });
        self.changes.push(FileUpdate { place, old: Some(old), new: None, mode_of: None });
        Ok(())
    }

    /// Reads a file that the agent may change.
    fn read(
        &mut self,
        cx: &ToolCx,
        place: &GrantedPath,
        extent: WriteExtent,
    ) -> Result<(ExistingFile, FileText), ToolError> {
        let limit = Settings::of(cx).files.edit_bytes;
        let old = ExistingFile::read(cx, place, limit)?;
        let Some(bytes) = &old.bytes else {
            let path = place.shown().to_owned();
            let bytes = old.version.bytes;
            let instead = "change it with the terminal";
            return Err(PathError::TooLarge { path, bytes, limit, instead }.into());
        };
        // Before it is told to read a file that cannot be read.
        let text = FileText::decode(bytes).map_err(|error| {
            let path = place.shown();
            ToolError::refused(format!(
                "{path}: {error}: change, rename or remove it with a command"
            ))
        })?;
        self.notes.extend(old.may_change(cx, place, extent)?);
        Ok((old, text))
    }

    fn report(
        &mut self,
        place: &GrantedPath,
        renamed_from: Option<PathBuf>,
        line: &str,
        difference: &FileDiff,
    ) {
        self.lines.push(format!("{line}: +{} -{}", difference.added, difference.removed));
        self.diffs.push(difference.displayed(place.path(), renamed_from));
    }
}

/// Fails if there is something at a place where a file is to be created.
fn check_free(place: &GrantedPath) -> Result<(), ToolError> {
    match place.metadata() {
        Ok(meta) if meta.is_dir() => Err(ToolError::refused(format!(
            "{} is a directory: name a file in it, or another path",
            place.shown()
        ))),
        Ok(_) => Err(ToolError::refused(format!(
            "{} is there already: read it, and patch its lines",
            place.shown()
        ))),
        Err(PathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Why a hunk does not fit, with what may help.
fn mismatch(place: &GrantedPath, text: &str, mismatch: &HunkMismatch<'_>) -> ToolError {
    let HunkMismatch { hunk, reason, after } = mismatch;
    let after = after.map(|line| format!(" after line {line}, where the hunk before it ends"));
    let after = after.unwrap_or_default();
    let head = format!("{}, hunk at line {} of the patch", place.shown(), hunk.at);
    let refused =
        |words: String| ToolError::refused(format!("{head}: {words}; nothing was changed"));
    match reason {
        MismatchReason::Anchor => {
            let anchor = crate::display_name::display_name(hunk.anchor.as_deref().unwrap_or_default());
            refused(format!("there is no line `{anchor}`{after}"))
        }
        MismatchReason::NoPlace => refused(
            "it only adds lines and does not say where: add a line of the file before or after them"
                .to_owned(),
        ),
        MismatchReason::PastEnd { lines } => {
            refused(format!("the file has {lines} lines: insert after one of them{after}"))
        }
        MismatchReason::Place(NoMatch::Ambiguous(lines)) => {
            let first = lines.first().copied().unwrap_or(1);
            let (old, new) = hunk.counts();
            let lines: Vec<String> = lines.iter().take(20).map(usize::to_string).collect();
            let lines = lines.join(", ");
            refused(format!(
                "its lines are there several times, at lines {lines}: give the line number as in \
                 `@@ -{first},{old} +{first},{new} @@`, or add lines around them"
            ))
        }
        MismatchReason::Place(NoMatch::NoChange) => {
            refused("its new lines are there already".to_owned())
        }
        MismatchReason::Place(NoMatch::Mark(error)) => refused(error.to_string()),
        MismatchReason::Place(NoMatch::TooLarge { bytes, limit }) => {
            refused(format!("the file would have {bytes} bytes, and {limit} is the most"))
        }
        MismatchReason::Place(NoMatch::TooMany) => {
            refused("its lines are there too many times: add lines around them".to_owned())
        }
        MismatchReason::Place(NoMatch::Nowhere) => {
            let words = format!("its lines do not occur in the file{after}; nothing was changed");
            match nearest_text(text, &hunk.old) {
                // The file's own text goes where content goes, so that it is framed as such.
                Some(near) => ToolError::Partly {
                    text: ModelText::own(format!("{head}: {words}. The most similar lines of it:")),
                    output: Box::new(ToolOutput::text(near)),
                },
                None => ToolError::refused(format!("{head}: {words}")),
            }
        }
    }
}

/// Puts the hunks of each file of a patch into one text: the new texts of those whose hunks fit, and
/// what was replaced. Fails with the error of a text that is no patch.
#[cfg(feature = "fuzz")]
pub(crate) fn patch_text(
    patch: &str,
    text: &str,
) -> Result<Vec<(String, Vec<crate::diff::ReplacedRange>)>, String> {
    let files = parse(patch).map_err(|error| error.to_string())?;
    let patched = |file: &FilePatch| match &file.change {
        PatchAction::Create { content } => Some((content.clone(), Vec::new())),
        PatchAction::Update { hunks, .. } | PatchAction::Remove { hunks } => {
            apply(text, hunks).ok().map(|patched| (patched.text, patched.changes))
        }
    };
    Ok(files.iter().filter_map(patched).collect())
}

#[cfg(test)]
mod tests;
