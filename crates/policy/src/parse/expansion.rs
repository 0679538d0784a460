//! Parameters: `$x` and `${x…}`.

use std::rc::Rc;

use tree_sitter::Node;

use super::{Source, children, word};
use crate::syntax::{Operation, Parameter, Piece, Word};

/// Reads a parameter.
pub(super) fn parameter(source: &mut Source<'_>, node: Node<'_>, is_quoted: bool) -> Piece {
    let parts = children(node);
    let is_name =
        |kind: &str| matches!(kind, "variable_name" | "special_variable_name" | "subscript");
    let Some(at) = parts.iter().position(|(_, it)| is_name(it.kind())) else {
        return special(source, node, is_quoted);
    };
    let Some((_, named)) = parts.get(at) else { return word::unknown(source, node) };
    let (name, index) = name_and_index(source.text_of(*named));
    let before = parts.get(..at).unwrap_or_default();
    let prefix = before.iter().find(|it| it.0 == "operator").map(|it| source.text_of(it.1));
    let after: Vec<_> = parts.get(at + 1..).unwrap_or_default().iter().map(|it| it.1).collect();
    let operation = match prefix {
        Some("#") => Operation::Length,
        Some("!") => Operation::Indirect,
        _ => operation(source, &after),
    };
    Piece::Parameter(Rc::new(Parameter { name, index, is_quoted, operation }))
}

/// Reads `$` and `${…}` around what the grammar takes for an operator: `${#}`, `${!}`.
fn special(source: &mut Source<'_>, node: Node<'_>, is_quoted: bool) -> Piece {
    let text = source.text_of(node);
    let inner = text.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    let name = inner.or_else(|| text.strip_prefix('$')).unwrap_or_default();
    if matches!(name, "#" | "!" | "@" | "*" | "?") {
        let operation = Operation::None;
        let name = name.to_owned();
        return Piece::Parameter(Rc::new(Parameter { name, index: None, is_quoted, operation }));
    }
    word::unknown(source, node)
}

/// Splits `a[1]`.
pub(super) fn name_and_index(text: &str) -> (String, Option<String>) {
    match text.split_once('[') {
        Some((name, index)) => {
            let index = index.strip_suffix(']').unwrap_or(index);
            (name.to_owned(), Some(index.trim_matches(['"', '\'']).to_owned()))
        }
        None => (text.replace("\\\n", ""), None),
    }
}

fn operation(source: &mut Source<'_>, after: &[Node<'_>]) -> Operation {
    let after: Vec<_> = after.iter().copied().filter(|it| it.kind() != "}").collect();
    let Some((operator, rest)) = after.split_first() else { return Operation::None };
    let kind = source.text_of(*operator);
    match kind {
        "-" | ":-" => Operation::Default { word: word::joined(source, rest), assigns: false },
        "=" | ":=" => Operation::Default { word: word::joined(source, rest), assigns: true },
        "+" | ":+" => Operation::Alternative(word::joined(source, rest)),
        "?" | ":?" => Operation::None,
        "#" | "##" | "%" | "%%" => Operation::Remove {
            pattern: word::joined(source, rest),
            is_suffix: kind.starts_with('%'),
            is_longest: kind.len() == 2,
        },
        "/" | "//" | "/#" | "/%" => replace(source, kind, rest),
        "^" | "^^" => Operation::Upper { is_all: kind.len() == 2 },
        "," | ",," => Operation::Lower { is_all: kind.len() == 2 },
        ":" => substring(source, &after),
        _ => Operation::Other(word::joined(source, rest)),
    }
}

fn replace(source: &mut Source<'_>, kind: &str, rest: &[Node<'_>]) -> Operation {
    let slash = rest.iter().position(|it| it.kind() == "/").unwrap_or(rest.len());
    let pattern = word::joined(source, rest.get(..slash).unwrap_or_default());
    let with: Vec<_> = rest.get(slash..).unwrap_or_default().to_vec();
    let with: Vec<_> = with.into_iter().filter(|it| it.kind() != "/").collect();
    let with = word::joined(source, &with);
    if kind.len() == 2 && kind != "//" {
        return Operation::Other(Word { pieces: [pattern.pieces, with.pieces].concat() });
    }
    Operation::Replace { pattern, with, is_all: kind == "//" }
}

fn substring(source: &mut Source<'_>, after: &[Node<'_>]) -> Operation {
    let from = after.first().map_or(0, Node::start_byte);
    let to = after.last().map_or(from, Node::end_byte);
    let text = source.between(from, to);
    let mut numbers = text.split(':').skip(1).map(|it| {
        let it = it.trim().trim_matches(['(', ')']);
        it.parse::<i64>().ok()
    });
    match (numbers.next().flatten(), numbers.next()) {
        (Some(offset), None) => Operation::Substring { offset, length: None },
        (Some(offset), Some(Some(length))) => Operation::Substring { offset, length: Some(length) },
        _ => Operation::Other(word::joined(source, after)),
    }
}
