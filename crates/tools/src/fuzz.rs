//! What the fuzz targets reach beside the tools themselves, without a file of a project.

use std::fs::File;
use std::io;
use std::ops::Range;

use deputize_core::Cancel;

use crate::execute_code::message::{ScriptCallReader, line};
use crate::matching::{Edit, EditScope, NoMatch};
use crate::search::{CancellableFile, MatchDisplay, Search, SearchPage};

/// Returns the text of a file, as an edit reads it, and the bytes that it would write back; `None`
/// for files that are no text.
#[must_use]
pub fn text(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = crate::text::FileText::decode(bytes).ok()?;
    let again = text.charset.encode(&text.text).ok()?;
    Some((text.text, again))
}

/// The result of an edit.
#[derive(Debug)]
pub struct EditResult {
    /// All of it.
    pub text: String,
    /// The tier at which the old text was found.
    pub tier: String,
    /// Number of chat format marks restored in the new text.
    pub marks: usize,
    /// Replaced ranges, with the new ones.
    pub changes: Vec<(Range<usize>, Range<usize>)>,
}

/// Returns an edit of a text.
///
/// # Errors
/// When nothing is edited: the lines where the old text stands, if it stands at several.
pub fn edit(text: &str, old: &str, new: &str, all: bool) -> Result<EditResult, Vec<usize>> {
    let scope = if all { EditScope::All } else { EditScope::Only };
    match crate::matching::edit(text, Edit { old, new, scope }) {
        Ok(edited) => Ok(EditResult {
            text: edited.text,
            tier: format!("{:?}", edited.tier),
            marks: edited.marks,
            changes: edited.changes.into_iter().map(|it| (it.old, it.new)).collect(),
        }),
        Err(NoMatch::Ambiguous(lines)) => Err(lines),
        Err(_) => Err(Vec::new()),
    }
}

/// A text with the hunks of one file of a patch in it.
#[derive(Debug)]
pub struct PatchResult {
    /// All of it.
    pub text: String,
    /// Replaced ranges, with the new ones; empty for a file that the patch creates.
    pub changes: Vec<(Range<usize>, Range<usize>)>,
}

/// Puts the hunks of each file of a patch into one text; leaves out those whose hunks do not fit.
///
/// # Errors
/// When the text is no patch, with the text for the model.
pub fn patch(patch: &str, text: &str) -> Result<Vec<PatchResult>, String> {
    let files = crate::apply_patch::patch_text(patch, text)?;
    let result = |(text, changes): (String, Vec<crate::diff::ReplacedRange>)| PatchResult {
        text,
        changes: changes.into_iter().map(|it| (it.old, it.new)).collect(),
    };
    Ok(files.into_iter().map(result).collect())
}

/// Returns the hint for a model whose old text is missing.
#[must_use]
pub fn nearest(text: &str, wanted: &str) -> Option<String> {
    crate::nearest_text::nearest_text(text, wanted)
}

/// Size of one page of search results.
#[derive(Debug, Clone, Copy)]
pub struct PageSize {
    /// Maximum number of matches.
    pub matches: u64,
    /// Maximum number of bytes.
    pub bytes: usize,
}

/// Returns what a search of one file finds: the number of lines, how many are shown, and those.
///
/// # Errors
/// When the pattern is invalid, with the text for the model.
pub fn search(
    pattern: &str,
    context: usize,
    page: PageSize,
    file: File,
) -> Result<io::Result<(u64, u64, String)>, String> {
    let mut search = Search::new(pattern, context % 2 == 1, MatchDisplay::Lines(context))
        .map_err(|error| error.to_string())?;
    let mut page = SearchPage::new(0, page.matches, page.bytes);
    let cancel = Cancel::new();
    let seen = search.file("f", CancellableFile { file, cancel: &cancel }, &mut page);
    let (found, shown) = page.counts();
    Ok(seen.map(|_| (found, shown, page.text())))
}

/// The lines of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptLines {
    /// Those that are calls, each as JSON.
    pub calls: Vec<String>,
    /// The remark on the first one that is none, with which reading ends.
    pub fault: Option<String>,
}

/// Returns what a script writes to the connection of its calls, in these pieces.
#[must_use]
pub fn script_lines<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> ScriptLines {
    let mut reader = ScriptCallReader::default();
    let mut calls = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_call() {
                Ok(None) => break,
                Ok(Some(call)) => {
                    let value = serde_json::json!({
                        "id": call.id, "tool": call.tool, "arguments": call.arguments,
                    });
                    calls.push(String::from_utf8_lossy(&line(&value)).into_owned());
                }
                Err(error) => return ScriptLines { calls, fault: Some(error.note()) },
            }
        }
    }
    ScriptLines { calls, fault: None }
}
