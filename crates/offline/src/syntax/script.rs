//! JavaScript and TypeScript.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, has_file_tag, is_doc_block};

pub(super) fn outline(source: Source<'_>, test_file: bool) -> Outline {
    let mut out = Outline { doc: head_comment(source), ..Outline::default() };
    source.walk(|node| {
        match node.kind() {
            "import_statement" | "export_statement" => {
                if let Some(from) = node.child_by_field_name("source") {
                    out.imports.extend(specifier(source, from));
                }
            }
            "call_expression" => {
                let called = node.child_by_field_name("function");
                let kind = called.map_or("", |called| called.kind());
                let name = called.map_or("", |called| source.text_of(called));
                let first =
                    node.child_by_field_name("arguments").and_then(|all| all.named_child(0));
                if let Some(first) = first {
                    if kind == "import" || name == "require" {
                        out.imports.extend(specifier(source, first));
                    }
                    let titled = matches!(first.kind(), "string" | "template_string");
                    out.tests += u64::from(test_file && titled && is_test(source, called));
                }
            }
            _ => {}
        }
        true
    });
    out
}

/// Whether a call makes a test: `it(…)`, `test(…)`, `test.only(…)`, `it.each(…)(…)`.
fn is_test(source: Source<'_>, called: Option<Node<'_>>) -> bool {
    let Some(mut node) = called else { return false };
    loop {
        match node.kind() {
            "identifier" => {
                return matches!(source.text_of(node), "it" | "test" | "specify" | "fit" | "xit");
            }
            "member_expression" => {
                let modifier = source.field(node, "property");
                let known = ["only", "skip", "concurrent", "each", "failing", "serial", "fails"];
                let todo = matches!(modifier, "todo" | "runIf" | "skipIf");
                let deno = source.text_of(node) == "Deno.test";
                if !known.contains(&modifier) && !todo {
                    return deno;
                }
                let Some(object) = node.child_by_field_name("object") else { return false };
                node = object;
            }
            "call_expression" => {
                let Some(function) = node.child_by_field_name("function") else { return false };
                node = function;
            }
            _ => return false,
        }
    }
}

fn specifier(source: Source<'_>, node: Node<'_>) -> Option<Import> {
    if node.kind() != "string" {
        return None;
    }
    Some(Import::Script(source.text_of(node).trim_matches(['"', '\'']).to_owned()))
}

/// Returns the first sentence of the documentation with which a file begins, if it is set apart
/// from the code below it.
fn head_comment(source: Source<'_>) -> Option<String> {
    let children = source.children(source.root);
    let mut nodes = children.iter().filter(|node| node.kind() != "hash_bang_line").peekable();
    while let Some(node) = nodes.next_if(|node| node.kind() == "comment") {
        let text = source.text_of(*node);
        // `/*!` only keeps a comment when a file is made small.
        if !is_doc_block(text) || text.starts_with("/*!") {
            continue;
        }
        let apart = nodes.peek().is_none_or(|next| {
            next.start_position().row > node.end_position().row + 1
                || matches!(next.kind(), "comment" | "import_statement")
                || source.text_of(**next).starts_with("'use strict'")
        });
        if (apart || has_file_tag(text))
            && let Some(doc) = first_sentence(text)
        {
            return Some(doc);
        }
    }
    None
}
