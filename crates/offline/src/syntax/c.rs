//! C.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, has_file_tag, is_doc_block, line_of};
use crate::licence::is_legal;

pub(super) fn outline(source: Source<'_>) -> Outline {
    let mut out = Outline { doc: head_comment(source), ..Outline::default() };
    source.walk(|node| match node.kind() {
        "preproc_include" => {
            let path = node.child_by_field_name("path");
            if let Some(path) = path.filter(|path| path.kind() == "string_literal") {
                out.imports.push(Import::C(source.text_of(path).trim_matches('"').to_owned()));
            }
            false
        }
        "function_definition" => {
            if function_name(source, node) == Some("main") {
                out.mains.push(line_of(node));
            }
            false
        }
        "translation_unit" | "linkage_specification" | "declaration_list" => true,
        kind => kind.starts_with("preproc_"),
    });
    out
}

fn function_name<'s>(source: Source<'s>, node: Node<'_>) -> Option<&'s str> {
    let mut at = node.child_by_field_name("declarator")?;
    while at.kind() != "identifier" {
        at = at.child_by_field_name("declarator")?;
    }
    Some(source.text_of(at))
}

/// Returns the first sentence of the documentation at the head: a documentation comment set
/// apart from the code, or a comment that begins with the name of the file. Any other comment may
/// belong to the line below it.
fn head_comment(source: Source<'_>) -> Option<String> {
    let children = source.children(source.root);
    let mut nodes = children.iter().peekable();
    while let Some(node) = nodes.next_if(|node| node.kind() == "comment") {
        let text = source.text_of(*node);
        if let Some(named) = after_file_name(text).filter(|_| !is_legal(text)) {
            return first_sentence(named);
        }
        let apart = nodes.peek().is_none_or(|next| {
            matches!(next.kind(), "comment" | "preproc_include")
                || next.start_position().row > node.end_position().row + 1
        });
        let documents = is_doc_block(text) && (apart || has_file_tag(text));
        if documents && let Some(doc) = first_sentence(text) {
            return Some(doc);
        }
    }
    None
}

/// Returns what follows the name of a source file and a dash or colon at the begin of a comment.
fn after_file_name(comment: &str) -> Option<&str> {
    let text = comment.strip_prefix("/*")?.trim_start_matches(['*', ' ', '\t', '\r', '\n']);
    let (name, rest) = text.split_once([' ', ':'])?;
    let (_, extension) = name.rsplit_once('.')?;
    let known = matches!(extension, "c" | "h" | "cc" | "cpp" | "hpp");
    let rest = rest.trim_start_matches(['-', ':', ' ']).trim_end_matches("*/");
    (known && !name.contains('\n')).then_some(rest)
}
