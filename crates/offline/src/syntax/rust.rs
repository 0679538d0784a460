//! Rust.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, is_comment, line_of};

pub(super) fn outline(source: Source<'_>) -> Outline {
    let mut out = Outline { doc: module_doc(source), ..Outline::default() };
    // Attributes that stand before the next item, by level.
    let mut pending: Vec<Vec<&str>> = Vec::new();
    // The level of the item for tests that the walk is in.
    let mut test_level: Option<usize> = None;
    source.walk_levels(|node, level| {
        if test_level.is_some_and(|test| level <= test) {
            test_level = None;
        }
        pending.resize(level + 1, Vec::new());
        let Some(before) = pending.last_mut() else { return true };
        if node.kind() == "attribute_item" {
            before.push(source.text_of(node));
            return false;
        }
        if !node.is_named() || is_comment(node.kind()) {
            return false;
        }
        let attributes = std::mem::take(before);
        let test_function = attributes.iter().any(|text| names_test(text));
        if test_level.is_none()
            && (test_function || attributes.iter().any(|text| is_for_tests(text)))
        {
            test_level = Some(level);
        }
        let tested = test_level.is_some();
        match node.kind() {
            "function_item" => {
                out.tests += u64::from(test_function);
                if level == 1 && !tested && source.field(node, "name") == "main" {
                    out.mains.push(line_of(node));
                }
                true
            }
            "mod_item" if node.child_by_field_name("body").is_none() => {
                if tested {
                    out.test_modules.push(source.field(node, "name").to_owned());
                }
                false
            }
            "use_declaration" => {
                let argument = node.child_by_field_name("argument").filter(|_| !tested);
                if let Some(argument) = argument {
                    paths(source, argument, &[], &mut out.imports);
                }
                false
            }
            "token_tree" => false,
            _ => true,
        }
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
            "block_comment" if text.starts_with("/*!") && doc.is_empty() => {
                return first_sentence(text);
            }
            "line_comment" | "block_comment" | "inner_attribute_item" if doc.is_empty() => {}
            _ => break,
        }
    }
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

/// Whether an attribute makes a test of a function, as `#[test]` and `#[tokio::test]` do.
fn names_test(attribute: &str) -> bool {
    let path = attribute.trim_start_matches(['#', '[', ' ']);
    let path = path.split(['(', ']']).next().unwrap_or_default().trim();
    let name = path.rsplit("::").next().unwrap_or_default().trim();
    matches!(
        name,
        "test" | "rstest" | "test_case" | "quickcheck" | "test_log" | "wasm_bindgen_test"
    )
}

/// Whether an attribute has an item compiled for tests alone.
fn is_for_tests(attribute: &str) -> bool {
    let text: String = attribute.split_whitespace().collect();
    ["#[cfg(test)", "#[cfg(test,", "#[cfg(all(test,", "#[cfg(all(test)"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

/// Whether an item is only compiled for tests.
pub(super) fn is_test_item(source: Source<'_>, node: Node<'_>) -> bool {
    if !node.kind().ends_with("_item") && node.kind() != "use_declaration" {
        return false;
    }
    let attributes = attributes(source, node);
    attributes.iter().any(|text| names_test(text) || is_for_tests(text))
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
