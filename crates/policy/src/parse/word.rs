//! Words.

use std::rc::Rc;

use tree_sitter::Node;

use super::{Source, children, quoting};
use crate::decode::unescape_ansi_c;
use crate::syntax::{Command, Operation, Parameter, Piece, SimpleCommand, Word};

/// Reads a word.
pub(super) fn word(source: &mut Source<'_>, node: Node<'_>) -> Word {
    let mut pieces = Vec::new();
    push_pieces(source, node, &mut pieces);
    Word { pieces }
}

/// Reads nodes that stand side by side as one word.
pub(super) fn joined(source: &mut Source<'_>, nodes: &[Node<'_>]) -> Word {
    let mut pieces = Vec::new();
    for node in nodes {
        push_pieces(source, *node, &mut pieces);
    }
    Word { pieces }
}

fn push_pieces(source: &mut Source<'_>, node: Node<'_>, pieces: &mut Vec<Piece>) {
    let found = source.deeper(|source| pieces_of(source, node));
    pieces.extend(found);
}

fn pieces_of(source: &mut Source<'_>, node: Node<'_>) -> Vec<Piece> {
    let text = source.text_of(node);
    let mut pieces = Vec::new();
    match node.kind() {
        "concatenation" | "command_name" => push_parts(source, node, &mut pieces),
        "string" => quoted_parts(source, node, &mut pieces),
        "translated_string" => {
            for (_, child) in children(node).into_iter().filter(|it| it.1.kind() == "string") {
                push_pieces(source, child, &mut pieces);
            }
        }
        "raw_string" => {
            let inner = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
            pieces.push(Piece::Quoted(inner.unwrap_or(text).to_owned()));
        }
        "ansi_c_string" => {
            let inner = text.strip_prefix("$'").and_then(|it| it.strip_suffix('\''));
            pieces.push(Piece::Quoted(unescape_ansi_c(inner.unwrap_or(text))));
        }
        "simple_expansion" | "expansion" => pieces.push(super::parameter(source, node, false)),
        "command_substitution" => pieces.push(substitution(source, node, false)),
        "process_substitution" => {
            let body = Rc::new(super::block(source, node));
            pieces.push(Piece::Process { body, reads: text.starts_with('<') });
        }
        "arithmetic_expansion" => pieces.push(unknown(source, node)),
        "ERROR" => {
            pieces.push(unknown(source, node));
        }
        _ if node.child_count() > 0 && !text.is_ascii() => push_parts(source, node, &mut pieces),
        _ => quoting::push_bare(&mut pieces, text),
    }
    pieces
}

/// Reads the children of a node, and the text between them.
fn push_parts(source: &mut Source<'_>, node: Node<'_>, pieces: &mut Vec<Piece>) {
    let mut at = node.start_byte();
    for (_, child) in children(node) {
        quoting::push_bare(pieces, source.between(at, child.start_byte()));
        push_pieces(source, child, pieces);
        at = child.end_byte();
    }
    quoting::push_bare(pieces, source.between(at, node.end_byte()));
}

/// Reads what stands between double quotes.
fn quoted_parts(source: &mut Source<'_>, node: Node<'_>, pieces: &mut Vec<Piece>) {
    let mut from = node.start_byte() + 1;
    let end = node.end_byte().saturating_sub(1).max(from);
    // An empty string is a word, too.
    pieces.push(Piece::Quoted(String::new()));
    for (_, child) in children(node) {
        if child.start_byte() < from || child.start_byte() >= end || !is_expansion(child) {
            continue;
        }
        push_quoted(source, (from, child.start_byte()), pieces);
        push_quoted_expansion(source, child, pieces);
        from = child.end_byte();
    }
    push_quoted(source, (from, end), pieces);
}

/// Reads the text of a here-document, which is expanded as between double quotes.
pub(super) fn here_document(source: &mut Source<'_>, node: Node<'_>, is_literal: bool) -> Word {
    if is_literal {
        let text = source.text_of(node).to_owned();
        return Word { pieces: vec![Piece::Quoted(text)] };
    }
    let mut pieces = Vec::new();
    let mut from = node.start_byte();
    for (_, child) in children(node).into_iter().filter(|it| is_expansion(it.1)) {
        push_quoted(source, (from, child.start_byte()), &mut pieces);
        push_quoted_expansion(source, child, &mut pieces);
        from = child.end_byte();
    }
    push_quoted(source, (from, node.end_byte()), &mut pieces);
    Word { pieces }
}

fn push_quoted(source: &Source<'_>, (from, to): (usize, usize), pieces: &mut Vec<Piece>) {
    if from < to {
        pieces.push(Piece::Quoted(quoting::unescape_double(source.between(from, to))));
    }
}

fn push_quoted_expansion(source: &mut Source<'_>, node: Node<'_>, pieces: &mut Vec<Piece>) {
    let found = source.deeper(|source| {
        Some(match node.kind() {
            "simple_expansion" | "expansion" => super::parameter(source, node, true),
            "command_substitution" => substitution(source, node, true),
            _ => unknown(source, node),
        })
    });
    pieces.extend(found);
}

fn is_expansion(node: Node<'_>) -> bool {
    let kinds = ["simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"];
    kinds.contains(&node.kind()) || node.is_error()
}

fn substitution(source: &mut Source<'_>, node: Node<'_>, is_quoted: bool) -> Piece {
    let reads_file = children(node).iter().any(|(_, it)| it.kind() == "file_redirect");
    let body = Rc::new(super::block(source, node));
    if reads_file {
        Piece::Unknown { inside: body }
    } else {
        Piece::Substitution { body, is_quoted }
    }
}

/// What is unknown, with the commands inside.
pub(super) fn unknown(source: &mut Source<'_>, node: Node<'_>) -> Piece {
    Piece::Unknown { inside: Rc::new(commands_inside(source, node)) }
}

/// Returns the commands of the substitutions anywhere inside a node.
pub(super) fn commands_inside(source: &mut Source<'_>, node: Node<'_>) -> Vec<Command> {
    source.deeper(|source| {
        let mut found = Vec::new();
        for (_, child) in children(node) {
            if matches!(child.kind(), "command_substitution" | "process_substitution") {
                found.extend(super::block(source, child));
            } else {
                found.extend(commands_inside(source, child));
            }
        }
        found
    })
}

/// Returns the commands inside of a loop's head.
pub(super) fn commands_inside_head(source: &mut Source<'_>, node: Node<'_>) -> Vec<Command> {
    let mut found = Vec::new();
    for (_, child) in children(node).into_iter().filter(|it| it.0 != "body") {
        found.extend(commands_inside(source, child));
    }
    found
}

/// Adds a node to the word before it: no blank is between them. The grammar takes `a$X` that a slash
/// follows for two words.
pub(super) fn extend(source: &mut Source<'_>, node: Node<'_>, simple: &mut SimpleCommand) {
    let Some(last) = simple.words.last_mut() else { return };
    let text = source.text_of(node);
    let end = text.find(|it: char| it != '_' && !it.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let has_dollar = matches!(last.pieces.last(), Some(Piece::Bare(text)) if text.ends_with('$'));
    if !has_dollar || name.is_empty() || rest.contains(['$', '`', '"', '\'', '(']) {
        source.is_doubtful.set(true);
    }
    if let (true, Some(Piece::Bare(before))) = (has_dollar, last.pieces.last_mut()) {
        before.pop();
    }
    let (name, index, operation) = (name.to_owned(), None, Operation::None);
    let parameter = Parameter { name, index, is_quoted: false, operation };
    last.pieces.push(Piece::Parameter(Rc::new(parameter)));
    quoting::push_bare(&mut last.pieces, rest);
}
