//! Redirects.

use tree_sitter::Node;

use super::{Source, children, word};
use crate::syntax::{Redirect, Word};

/// Reads `>file` and the like. The grammar takes the words behind the file into the redirect: they
/// are arguments.
pub(super) fn file_redirect(
    source: &mut Source<'_>,
    node: Node<'_>,
) -> (Option<Redirect>, Vec<Word>) {
    let parts = children(node);
    let is_operator = |it: &&(&str, Node<'_>)| it.0.is_empty() && !it.1.is_named();
    let operator = parts.iter().find(is_operator).map_or("", |it| source.text_of(it.1));
    let targets: Vec<_> = parts.iter().filter(|it| it.0 == "destination").map(|it| it.1).collect();
    let mut words = targets.into_iter().map(|it| word::word(source, it));
    let Some(target) = words.next() else { return (None, Vec::new()) };
    let redirect = match operator {
        "<" => Redirect::Read(target),
        ">&" | "<&" | ">&-" | "<&-" => Redirect::Duplicate(target),
        _ => Redirect::Write(target),
    };
    (Some(redirect), words.collect())
}

/// Reads `<<<word`.
pub(super) fn here_string(source: &mut Source<'_>, node: Node<'_>) -> Option<Redirect> {
    let parts = children(node);
    let value = parts.iter().rev().find(|it| it.1.is_named() && it.1.kind() != "file_descriptor");
    value.map(|it| Redirect::Text(word::word(source, it.1)))
}

/// Reads the text of `<<END`.
pub(super) fn here_document(source: &mut Source<'_>, node: Node<'_>) -> Option<Redirect> {
    let parts = children(node);
    let start = parts.iter().find(|it| it.1.kind() == "heredoc_start")?;
    let is_literal = source.text_of(start.1).contains(['\'', '"', '\\']);
    let strips_tabs = parts.iter().any(|it| it.1.kind() == "<<-");
    let body = parts.iter().find(|it| it.1.kind() == "heredoc_body")?;
    let text = word::here_document(source, body.1, is_literal);
    Some(Redirect::Text(if strips_tabs { without_tabs(text) } else { text }))
}

fn without_tabs(mut text: Word) -> Word {
    use crate::syntax::Piece;
    for piece in &mut text.pieces {
        if let Piece::Quoted(text) = piece {
            let lines: Vec<_> = text.split('\n').map(|it| it.trim_start_matches('\t')).collect();
            *text = lines.join("\n");
        }
    }
    text
}
