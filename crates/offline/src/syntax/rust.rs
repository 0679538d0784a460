//! Rust.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, line_of};

pub(super) fn outline(source: Source<'_>) -> Outline {
    let mut out = Outline { doc: module_doc(source), ..Outline::default() };
    source.walk(|node| match node.kind() {
        "function_item" => {
            out.tests += u64::from(has_test_attribute(source, node));
            let top = node.parent().is_some_and(|parent| parent.kind() == "source_file");
            if top && source.field(node, "name") == "main" && !is_test_item(source, node) {
                out.mains.push(line_of(node));
            }
            true
        }
        "mod_item" if node.child_by_field_name("body").is_none() => {
            if is_test_item(source, node) {
                out.test_modules.push(source.field(node, "name").to_owned());
            }
            false
        }
        "use_declaration" => {
            if !in_test(source, node)
                && let Some(argument) = node.child_by_field_name("argument")
            {
                paths(source, argument, &[], &mut out.imports);
            }
            false
        }
        "token_tree" => false,
        _ => true,
    });
    out
}

/// Returns the first sentence of the comments `//!` at the top.
fn module_doc(source: Source<'_>) -> Option<String> {
    let mut doc = String::new();
    for node in source.children(source.root) {
        let text = source.text_of(node);
        match node.kind() {
            "line_comment" if text.starts_with("//!") => {
                doc.push_str(text.trim_end());
                doc.push('\n');
            }
            "block_comment" if text.starts_with("/*!") => doc.push_str(text),
            "line_comment" | "block_comment" | "inner_attribute_item" if doc.is_empty() => {}
            _ => break,
        }
    }
    let doc: String = doc
        .lines()
        .map(|line| line.trim_start_matches("//!"))
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    first_sentence(&doc)
}

/// The attributes that stand before an item.
fn attributes<'s>(source: Source<'s>, node: Node<'_>) -> Vec<&'s str> {
    let mut out = Vec::new();
    let mut at = node.prev_sibling();
    while let Some(before) = at {
        match before.kind() {
            "attribute_item" => out.push(source.text_of(before)),
            "line_comment" | "block_comment" => {}
            _ => break,
        }
        at = before.prev_sibling();
    }
    out
}

/// Whether a function has an attribute such as `#[test]` or `#[tokio::test]`.
fn has_test_attribute(source: Source<'_>, node: Node<'_>) -> bool {
    attributes(source, node).iter().any(|text| {
        let path = text.trim_start_matches(['#', '[', ' ']);
        let path = path.split(['(', ']']).next().unwrap_or_default().trim();
        let name = path.rsplit("::").next().unwrap_or_default().trim();
        matches!(
            name,
            "test" | "rstest" | "test_case" | "quickcheck" | "test_log" | "wasm_bindgen_test"
        )
    })
}

/// Whether an item is only compiled for tests.
pub(super) fn is_test_item(source: Source<'_>, node: Node<'_>) -> bool {
    if !node.kind().ends_with("_item") && node.kind() != "use_declaration" {
        return false;
    }
    has_test_attribute(source, node)
        || attributes(source, node).iter().any(|text| {
            let text: String = text.split_whitespace().collect();
            text.starts_with("#[cfg(test") || text.starts_with("#[cfg(all(test")
        })
}

fn in_test(source: Source<'_>, node: Node<'_>) -> bool {
    let mut at = Some(node);
    while let Some(node) = at {
        if is_test_item(source, node) {
            return true;
        }
        at = node.parent();
    }
    false
}

/// Collects the paths that a `use` names.
fn paths(source: Source<'_>, node: Node<'_>, before: &[String], out: &mut Vec<Import>) {
    let joined = |text: &str| {
        let segments = text.split("::").map(|part| part.trim().to_owned());
        before.iter().cloned().chain(segments.filter(|part| !part.is_empty())).collect::<Vec<_>>()
    };
    match node.kind() {
        "scoped_use_list" => {
            let prefix = joined(source.field(node, "path"));
            if let Some(list) = node.child_by_field_name("list") {
                for child in list.named_children(&mut list.walk()) {
                    paths(source, child, &prefix, out);
                }
            }
        }
        "use_list" => {
            for child in node.named_children(&mut node.walk()) {
                paths(source, child, before, out);
            }
        }
        "use_as_clause" => out.push(Import::Rust(joined(source.field(node, "path")))),
        "use_wildcard" => {
            let text = source.text_of(node);
            out.push(Import::Rust(joined(text.trim_end_matches('*').trim_end_matches("::"))));
        }
        "self" => out.push(Import::Rust(before.to_vec())),
        "identifier" | "scoped_identifier" | "crate" | "super" => {
            out.push(Import::Rust(joined(source.text_of(node))));
        }
        _ => {}
    }
}
