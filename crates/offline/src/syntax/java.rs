//! Java.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, is_doc_block, line_of};

pub(super) fn outline(source: Source<'_>) -> Outline {
    let mut out = Outline { doc: package_doc(source), ..Outline::default() };
    source.walk(|node| match node.kind() {
        "import_declaration" => {
            let name = node.named_child(0).map_or("", |name| source.text_of(name));
            out.imports.push(Import::Java(name.to_owned()));
            false
        }
        "method_declaration" => {
            if is_main(source, node) {
                out.mains.push(line_of(node));
            }
            out.tests += u64::from(is_test(source, node));
            true
        }
        _ => true,
    });
    out
}

fn modifiers<'s>(source: Source<'s>, node: Node<'_>) -> &'s str {
    let first = node.named_child(0).filter(|child| child.kind() == "modifiers");
    first.map_or("", |child| source.text_of(child))
}

fn is_main(source: Source<'_>, node: Node<'_>) -> bool {
    let modifiers = modifiers(source, node);
    let words: Vec<&str> = modifiers.split_whitespace().collect();
    source.field(node, "name") == "main"
        && source.field(node, "type") == "void"
        && words.contains(&"public")
        && words.contains(&"static")
        && source.field(node, "parameters").contains("String")
}

fn is_test(source: Source<'_>, node: Node<'_>) -> bool {
    let Some(modifiers) = node.named_child(0).filter(|child| child.kind() == "modifiers") else {
        return false;
    };
    let annotated = modifiers.named_children(&mut modifiers.walk()).any(|annotation| {
        let name = source.field(annotation, "name");
        matches!(
            name.rsplit('.').next().unwrap_or(name).trim(),
            "Test" | "ParameterizedTest" | "RepeatedTest" | "TestFactory"
        )
    });
    annotated || is_old_test(source, node)
}

/// Whether a method is a test by its name, in a class that extends `TestCase`.
fn is_old_test(source: Source<'_>, node: Node<'_>) -> bool {
    let class = node.parent().and_then(|body| body.parent());
    let base = class.map_or("", |class| source.field(class, "superclass"));
    source.field(node, "name").starts_with("test")
        && modifiers(source, node).contains("public")
        && base.ends_with("TestCase")
}

/// Returns the first sentence of the comment above the package clause, as in
/// `package-info.java`, or above the first type.
fn package_doc(source: Source<'_>) -> Option<String> {
    let mut doc = None;
    for node in source.children(source.root) {
        match node.kind() {
            "block_comment" => {
                let text = source.text_of(node);
                if is_doc_block(text) {
                    doc = first_sentence(text).or(doc);
                }
            }
            kind if kind.ends_with("_declaration")
                && !matches!(kind, "package_declaration" | "import_declaration") =>
            {
                break;
            }
            _ => {}
        }
    }
    doc
}
