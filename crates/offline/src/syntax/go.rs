//! Go.

use tree_sitter::Node;

use super::{Import, Outline, Source, first_sentence, line_of};

pub(super) fn outline(source: Source<'_>, test_file: bool) -> Outline {
    let mut out = Outline { doc: package_doc(source), ..Outline::default() };
    let mut main = false;
    source.walk(|node| match node.kind() {
        "package_clause" => {
            main = node.named_child(0).is_some_and(|name| source.text_of(name) == "main");
            false
        }
        "import_spec" => {
            let path = source.field(node, "path").trim_matches(['"', '`']);
            out.imports.push(Import::Go(path.to_owned()));
            false
        }
        "function_declaration" => {
            let name = source.field(node, "name");
            if main && name == "main" && !test_file {
                out.mains.push(line_of(node));
            }
            out.tests += u64::from(test_file && is_test(source, node, name));
            false
        }
        "source_file" | "import_declaration" | "import_spec_list" => true,
        "comment" => {
            out.is_left_out |= leaves_out(source.text_of(node));
            false
        }
        _ => false,
    });
    if out.is_left_out {
        out.mains.clear();
    }
    out
}

/// Whether a comment is a build constraint that no build satisfies by itself: by convention the
/// tags `ignore` and `tools` are never set.
fn leaves_out(comment: &str) -> bool {
    let constraint = comment.strip_prefix("//go:build ").map(str::trim);
    matches!(constraint, Some("ignore" | "tools"))
}

fn is_test(source: Source<'_>, node: Node<'_>, name: &str) -> bool {
    let Some(rest) = name.strip_prefix("Test") else { return false };
    let parameters = source.field(node, "parameters");
    !rest.starts_with(|c: char| c.is_lowercase())
        && parameters.contains("testing.T")
        && !parameters.contains("testing.TB")
}

/// Returns the first sentence of the comment right above the package clause. A library's says
/// `Package` first; any other comment there belongs to its file.
fn package_doc(source: Source<'_>) -> Option<String> {
    let children = source.children(source.root);
    let at = children.iter().position(|node| node.kind() == "package_clause")?;
    let mut lines = Vec::new();
    let mut below = children.get(at)?.start_position().row;
    for node in children.get(..at)?.iter().rev() {
        if node.kind() != "comment" || node.end_position().row + 1 < below {
            break;
        }
        let text = source.text_of(*node);
        if !is_directive(text) {
            lines.push(text);
        }
        below = node.start_position().row;
    }
    lines.reverse();
    let program = source.text_of(*children.get(at)?).ends_with("main");
    first_sentence(&lines.join("\n")).filter(|doc| program || doc.starts_with("Package "))
}

/// Whether a comment is for the compiler or another tool, as `//go:build linux` is.
fn is_directive(comment: &str) -> bool {
    let Some(text) = comment.strip_prefix("//") else { return false };
    let word = text.split_once(':').map_or("", |(word, _)| word);
    text.starts_with(" +build") || !word.is_empty() && word.chars().all(char::is_alphanumeric)
}
