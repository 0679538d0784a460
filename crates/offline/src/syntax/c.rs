//! C.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, line_of};

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

/// Returns the first sentence of the comments at the head that are set apart from the code.
fn head_comment(source: Source<'_>) -> Option<String> {
    let children = source.children(source.root);
    let mut nodes = children.iter().peekable();
    while let Some(node) = nodes.next_if(|node| node.kind() == "comment") {
        let apart = nodes.peek().is_none_or(|next| {
            next.kind() == "comment"
                || next.kind() == "preproc_include"
                || next.start_position().row > node.end_position().row + 1
        });
        let text = source.text_of(*node);
        // Some begin with the name of the file.
        let text = match text.split_once(" - ") {
            Some((name, rest))
                if !name
                    .trim_start_matches(['/', '*', ' ', '\n'])
                    .contains(char::is_whitespace) =>
            {
                rest
            }
            _ => text,
        };
        if let Some(doc) = first_sentence(text).filter(|_| apart) {
            return Some(doc);
        }
    }
    None
}
