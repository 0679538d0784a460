//! Reads a text as a shell command, with tree-sitter's grammar of bash.

mod expansion;
mod quoting;
mod redirect;
mod statement;
mod word;

use std::borrow::Cow;
use std::cell::Cell;

use tree_sitter::{Node, Parser};

use crate::limits::{PARSE_STEPS_MAX, TREE_DEPTH_MAX};
use crate::syntax::{Command, Piece};

/// A text as the commands in it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) commands: Vec<Command>,
    /// Whether the grammar could read all of it.
    pub(crate) is_complete: bool,
}

/// Why a text was not read.
#[derive(Debug)]
pub(crate) enum ParseFailure {
    TooLong,
    Unreadable,
}

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Script, ParseFailure> {
    let mut parser = Parser::new();
    let language = tree_sitter_bash::LANGUAGE.into();
    parser.set_language(&language).map_err(|_| ParseFailure::Unreadable)?;
    let mut steps = 0;
    let mut count = |_: &tree_sitter::ParseState| {
        steps += 1;
        if steps > PARSE_STEPS_MAX {
            std::ops::ControlFlow::Break(())
        } else {
            std::ops::ControlFlow::Continue(())
        }
    };
    let options = tree_sitter::ParseOptions::new().progress_callback(&mut count);
    let bytes = foreign_as_plain(text);
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    let tree = tree.ok_or(ParseFailure::TooLong)?;
    let root = tree.root_node();
    let mut source = Source { text, depth: 0, is_too_deep: false, is_doubtful: Cell::new(false) };
    let commands = block(&mut source, root);
    if source.is_too_deep {
        return Err(ParseFailure::TooLong);
    }
    Ok(Script { commands, is_complete: !root.has_error() && !source.is_doubtful.get() })
}

/// Replaces each byte that is no ASCII by one that means nothing to a shell. To a shell both are
/// letters of a word, but the grammar's scanner looks such characters up in a table that has no place
/// for them, and reads beyond its end.
fn foreign_as_plain(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text.as_bytes());
    }
    Cow::Owned(text.bytes().map(|byte| if byte.is_ascii() { byte } else { 1 }).collect())
}

/// The text, while its tree is read.
pub(super) struct Source<'t> {
    text: &'t str,
    depth: usize,
    is_too_deep: bool,
    /// Whether the grammar read a part otherwise than the shell.
    is_doubtful: Cell<bool>,
}

impl<'t> Source<'t> {
    fn text_of(&self, node: Node<'_>) -> &'t str {
        self.between(node.start_byte(), node.end_byte())
    }

    fn between(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_else(|| {
            // A border within a character is none of the shell's.
            self.is_doubtful.set(true);
            ""
        })
    }

    /// Reads something one level deeper; nothing, if that is too deep.
    fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= TREE_DEPTH_MAX {
            self.is_too_deep = true;
            return T::default();
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }
}

/// Reads the commands that are children of a node. Words have commands in them, and commands words.
fn block(source: &mut Source<'_>, node: Node<'_>) -> Vec<Command> {
    statement::block(source, node)
}

/// Reads a parameter, whose default is a word again.
fn parameter(source: &mut Source<'_>, node: Node<'_>, is_quoted: bool) -> Piece {
    expansion::parameter(source, node, is_quoted)
}

/// The children of a node, each with the name of its field.
pub(super) fn children<'t>(node: Node<'t>) -> Vec<(&'t str, Node<'t>)> {
    let mut cursor = node.walk();
    let mut found = Vec::new();
    if cursor.goto_first_child() {
        loop {
            found.push((cursor.field_name().unwrap_or_default(), cursor.node()));
            if !cursor.goto_next_sibling() {
                break;
            }
        }
    }
    found
}

/// Returns the parts of a text that can be read, if it cannot be as a whole.
pub(crate) fn readable_parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = split_at_operators(text).into_iter().filter(|it| it.len() < text.len());
    parts.take(64).filter(|it| parse(it).is_ok_and(|it| it.is_complete))
}

/// Splits a text at operators outside of quotes, whatever the grammar makes of it.
fn split_at_operators(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            (';' | '&' | '|', None) => {
                parts.push(text.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts.retain(|it| !it.trim().is_empty());
    parts
}
