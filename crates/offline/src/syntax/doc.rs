//! The documentation of a file, out of its comments.

use crate::readme::prose;
use crate::wording::sentence_end;

/// Tags of documentation whose text describes the whole file.
const FILE_TAGS: &[&str] = &["brief", "fileoverview", "overview", "description"];
/// Tags that belong to the whole file, and whose own text is a name.
const NAME_TAGS: &[&str] = &["file", "module", "packageDocumentation", "namespace"];

/// Whether a comment is documentation of the file by its tags.
pub(super) fn has_file_tag(comment: &str) -> bool {
    let mut tags = FILE_TAGS.iter().chain(NAME_TAGS);
    tags.any(|tag| comment.contains(&format!("@{tag}")) || comment.contains(&format!("\\{tag}")))
}

/// Whether a block comment is documentation by its mark: `/** … */` or `/*! … */`, not a box.
pub(super) fn is_doc_block(comment: &str) -> bool {
    let after = comment.strip_prefix("/**").or_else(|| comment.strip_prefix("/*!"));
    after.is_some_and(|after| !after.starts_with(['*', '/', '!']))
}

/// Returns the first sentence of prose in documentation. `None` when the documentation begins
/// with a licence, or has no prose before a heading, a list, a table, or the tags at its end.
pub(crate) fn first_sentence(comment: &str) -> Option<String> {
    let text = prose(&strip_marks(comment))?;
    let end = sentence_end(&text).unwrap_or(text.len());
    let sentence = text.get(..end)?.trim().trim_end_matches(':').replace("**", "");
    (sentence.split_whitespace().count() > 1).then_some(sentence)
}

/// Returns the text of a comment or docstring without its marks, up to the first tag of
/// something else than the file.
fn strip_marks(comment: &str) -> String {
    let mut lines = Vec::new();
    let block = comment.starts_with("/*");
    for line in comment.lines() {
        let line = without_mark(line.trim(), block).trim();
        let Some(tagged) = line.strip_prefix(['@', '\\']) else {
            lines.push(without_inline_tags(line));
            continue;
        };
        let (tag, rest) = tagged.split_once(char::is_whitespace).unwrap_or((tagged, ""));
        if FILE_TAGS.contains(&tag) {
            lines.push(without_inline_tags(rest));
        } else if NAME_TAGS.contains(&tag) {
            // `@file` is followed by a name, or by a description.
            let described = rest.split_whitespace().count() > 1;
            lines.push(if described { without_inline_tags(rest) } else { String::new() });
        } else {
            break;
        }
    }
    lines.join("\n")
}

/// Returns a line of a comment without the mark at its begin and its end.
fn without_mark(line: &str, block: bool) -> &str {
    let marks: &[&str] =
        if block { &["/**", "/*!", "/*", "*/", "**", "*"] } else { &["//!", "///", "//"] };
    let line = marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
    if block { line.strip_suffix("*/").unwrap_or(line) } else { line }
}

/// Returns a line with the text of tags such as `{@link Kite kites}` in their place.
fn without_inline_tags(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{@") {
        let Some((tag, after)) = after.split_once('}') else { break };
        let text = tag.split_once(' ').map_or("", |(_, text)| text);
        let shown = match tag.split_once(' ') {
            Some((name, target)) if name.starts_with("link") => {
                target.split_once(' ').map_or(target, |(_, label)| label)
            }
            _ => text,
        };
        out.push_str(before);
        out.push_str(shown);
        rest = after;
    }
    out.push_str(rest);
    out
}
