//! JavaScript and TypeScript.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, has_file_tag, is_doc_block};

pub(super) fn outline(source: Source<'_>, test_file: bool) -> Outline {
    let mut out = Outline { doc: head_comment(source), ..Outline::default() };
    let runners = if test_file { test_runners(source) } else { Vec::new() };
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
                    let is_test =
                        || is_test(source, called) || is_runner_test(source, called, &runners);
                    out.tests += u64::from(test_file && titled && is_test());
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

/// Returns the names that a file gives to libraries whose tests are methods: `t.test(…)`.
fn test_runners(source: Source<'_>) -> Vec<&str> {
    let mut out = Vec::new();
    source.walk(|node| {
        let (name, from) = match node.kind() {
            "variable_declarator" => {
                let value = node.child_by_field_name("value");
                let value = value.filter(|it| source.field(*it, "function") == "require");
                let arguments = value.and_then(|it| it.child_by_field_name("arguments"));
                let from = arguments.and_then(|it| it.named_child(0));
                (node.child_by_field_name("name"), from)
            }
            "import_statement" => {
                let clause =
                    source.children(node).into_iter().find(|it| it.kind() == "import_clause");
                let name = clause.and_then(|it| it.named_child(0)).and_then(|name| {
                    if name.kind() == "namespace_import" { name.named_child(0) } else { Some(name) }
                });
                (name, node.child_by_field_name("source"))
            }
            _ => return true,
        };
        let library = from.map_or("", |from| source.text_of(from).trim_matches(['"', '\'']));
        if matches!(library, "tap" | "tape" | "node:test") {
            out.extend(name.filter(|it| it.kind() == "identifier").map(|it| source.text_of(it)));
        }
        true
    });
    out
}

/// Whether a call makes a test by a library of which the file has the name: `t(…)`, `t.test(…)`,
/// `t.skip(…)`. A parameter of the same name is a test, and what it makes is a part of that.
fn is_runner_test(source: Source<'_>, called: Option<Node<'_>>, runners: &[&str]) -> bool {
    let Some(called) = called else { return false };
    let object = match called.kind() {
        "member_expression" => {
            let method = source.field(called, "property");
            let known = matches!(method, "test" | "only" | "skip" | "todo");
            called.child_by_field_name("object").filter(|_| known)
        }
        _ => Some(called),
    };
    object.is_some_and(|object| {
        let name = source.text_of(object);
        object.kind() == "identifier" && runners.contains(&name) && !is_parameter(source, object)
    })
}

/// Whether a name is that of a parameter of a function around it.
fn is_parameter(source: Source<'_>, name: Node<'_>) -> bool {
    let text = source.text_of(name);
    let mut around = name.parent();
    while let Some(node) = around {
        let all = node.child_by_field_name("parameters");
        let mut listed = all.into_iter().flat_map(|all| source.children(all));
        // In TypeScript a parameter has its name as a pattern.
        let is_named =
            |it: Node<'_>| source.text_of(it) == text || source.field(it, "pattern") == text;
        if source.field(node, "parameter") == text || listed.any(is_named) {
            return true;
        }
        around = node.parent();
    }
    false
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
