//! The syntactic context of a position in a file: code, a comment or a string, in a test or not.

use tree_sitter::{Node, Point};

use super::{Grammar, Source, is_comment, rust};

/// Context of a position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SyntaxContext {
    /// Code outside of tests.
    Code,
    /// Code that only tests run.
    Test,
    Comment,
    Text,
}

/// Returns what stands at a position: its line from 0, and its byte in the line.
pub(crate) fn context_at(
    grammar: Grammar,
    source: Source<'_>,
    row: usize,
    column: usize,
) -> SyntaxContext {
    let point = Point::new(row, column);
    let after = Point::new(row, column + 1);
    let Some(node) = source.root.descendant_for_point_range(point, after) else {
        return SyntaxContext::Code;
    };
    let mut context = SyntaxContext::Code;
    let mut at = Some(node);
    while let Some(node) = at {
        if is_comment(node.kind()) {
            return SyntaxContext::Comment;
        }
        if context == SyntaxContext::Code {
            context = inner(grammar, source, node);
        }
        at = node.parent();
    }
    context
}

/// Returns whether a place lies in an item that only tests compile, also in its comments.
pub(crate) fn is_in_tests(grammar: Grammar, source: Source<'_>, row: usize, column: usize) -> bool {
    let point = Point::new(row, column);
    let after = Point::new(row, column + 1);
    let mut at = source.root.descendant_for_point_range(point, after);
    while let Some(node) = at.filter(|_| grammar == Grammar::Rust) {
        if rust::is_test_item(source, node) {
            return true;
        }
        at = node.parent();
    }
    false
}

fn inner(grammar: Grammar, source: Source<'_>, node: Node<'_>) -> SyntaxContext {
    match node.kind() {
        // Code in a template or in a formatted string is code again.
        "template_substitution" | "interpolation" => SyntaxContext::Code,
        "string"
        | "string_literal"
        | "raw_string_literal"
        | "template_string"
        | "char_literal"
        | "interpreted_string_literal"
        | "string_fragment"
        | "string_content" => SyntaxContext::Text,
        _ if grammar == Grammar::Rust && rust::is_test_item(source, node) => SyntaxContext::Test,
        _ => SyntaxContext::Code,
    }
}
