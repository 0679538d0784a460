//! What stands at a place of a file: code, a comment or a string, in a test or not.

use tree_sitter::{Node, Point};

use super::{Grammar, Source, is_comment, rust};

/// What stands at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Code.
    Code,
    /// Code that only tests run.
    Test,
    /// A comment.
    Comment,
    /// A string.
    Text,
}

/// Tells what stands at a place: its line from 0, and its byte in the line.
pub(crate) fn place_of(grammar: Grammar, source: Source<'_>, row: usize, column: usize) -> Place {
    let point = Point::new(row, column);
    let after = Point::new(row, column + 1);
    let Some(node) = source.root.descendant_for_point_range(point, after) else {
        return Place::Code;
    };
    let mut place = Place::Code;
    let mut at = Some(node);
    while let Some(node) = at {
        if is_comment(node.kind()) {
            return Place::Comment;
        }
        if place == Place::Code {
            place = inner(grammar, source, node);
        }
        at = node.parent();
    }
    place
}

/// Returns whether a place lies in an item that only tests compile, also in its comments.
pub(crate) fn is_in_tests(grammar: Grammar, source: Source<'_>, row: usize, column: usize) -> bool {
    let (point, after) = (Point::new(row, column), Point::new(row, column + 1));
    let mut at = source.root.descendant_for_point_range(point, after);
    while let Some(node) = at.filter(|_| grammar == Grammar::Rust) {
        if rust::is_test_item(source, node) {
            return true;
        }
        at = node.parent();
    }
    false
}

fn inner(grammar: Grammar, source: Source<'_>, node: Node<'_>) -> Place {
    match node.kind() {
        // Code in a template or in a formatted string is code again.
        "template_substitution" | "interpolation" => Place::Code,
        "string"
        | "string_literal"
        | "raw_string_literal"
        | "template_string"
        | "char_literal"
        | "interpreted_string_literal"
        | "string_fragment"
        | "string_content" => Place::Text,
        _ if grammar == Grammar::Rust && rust::is_test_item(source, node) => Place::Test,
        _ => Place::Code,
    }
}
