//! A page as a text: what it says, and its elements with numbers.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::truncate::truncate_with_ellipsis;
use deputize_core::wording::one_line;

use crate::ax_node::{AxNode, AxTree};
use crate::element_line::{ElementName, NAME_CHARS, NodesById, can_be_used, element_line};
use crate::element_refs::{ElementRef, ElementRefs};

/// Levels of elements inside each other that are followed.
const DEPTH: usize = 400;
/// Levels by which lines are moved in.
const INDENT: usize = 8;

/// Roles of elements that have a line of their own although they cannot be used.
const SHOWN: [&str; 29] = [
    "Iframe",
    "alert",
    "alertdialog",
    "article",
    "banner",
    "blockquote",
    "code",
    "complementary",
    "contentinfo",
    "dialog",
    "figure",
    "form",
    "grid",
    "heading",
    "main",
    "menu",
    "menubar",
    "meter",
    "navigation",
    "progressbar",
    "radiogroup",
    "row",
    "search",
    "status",
    "table",
    "tablist",
    "toolbar",
    "tooltip",
    "tree",
];

/// Roles of elements that have a line only if they have a name.
const NAMED: [&str; 5] = ["group", "image", "img", "region", "list"];

/// The frames of a page: its own, and those inside.
#[derive(Debug, Default)]
pub(crate) struct PageFrames {
    pub(crate) main: AxTree,
    /// The others, by the node of the element that shows them.
    pub(crate) inner: BTreeMap<i64, AxTree>,
}

/// Writes a page as a text, and numbers its elements.
pub(crate) fn page_text(frames: &PageFrames, refs: &mut ElementRefs) -> String {
    let mut writer = PageWriter { frames, refs, text: String::new(), visited: BTreeSet::new() };
    let root = frames.main.nodes.iter().find(|node| node.parent_id.is_none());
    let title = root
        .map(|root| truncate_with_ellipsis(&one_line(&root.name), NAME_CHARS))
        .unwrap_or_default();
    if !title.is_empty() {
        writer.write_line(0, &format!("page \"{title}\""));
    }
    writer.write_tree(&frames.main, 0, 0);
    writer.text
}

struct PageWriter<'p> {
    frames: &'p PageFrames,
    refs: &'p mut ElementRefs,
    text: String,
    /// Frames that were written, each once.
    visited: BTreeSet<i64>,
}

/// Where a node stands.
#[derive(Clone, Copy)]
struct Position<'n> {
    /// Levels of shown elements around it.
    indent: usize,
    /// Levels of any elements around it.
    depth: usize,
    /// The name of the closest element around it that has a line, which says its text already.
    said: &'n str,
}

impl PageWriter<'_> {
    fn write_tree(&mut self, tree: &AxTree, indent: usize, depth: usize) {
        let nodes: NodesById<'_> =
            tree.nodes.iter().map(|node| (node.node_id.as_str(), node)).collect();
        // The first node without a parent; a tree of a frame has one.
        let root = tree.nodes.iter().find(|node| node.parent_id.is_none());
        if let Some(root) = root {
            let mut seen = BTreeSet::new();
            let position = Position { indent, depth, said: "" };
            self.write_children(root, &nodes, position, &mut seen);
        }
    }

    fn write_children<'n>(
        &mut self,
        node: &'n AxNode,
        nodes: &NodesById<'n>,
        position: Position<'_>,
        seen: &mut BTreeSet<&'n str>,
    ) {
        if position.depth > DEPTH {
            return;
        }
        let position = Position { depth: position.depth + 1, ..position };
        let mut pieces = Vec::new();
        for id in &node.child_ids {
            let Some(child) = nodes.get(id.as_str()) else { continue };
            // A tree has no circle; what a broken one has is passed over.
            if !seen.insert(child.node_id.as_str()) {
                continue;
            }
            if child.role == "StaticText" {
                if !is_said(&child.name, position.said) {
                    pieces.push(child.name.as_str());
                }
                continue;
            }
            self.write_text(&std::mem::take(&mut pieces), position.indent);
            self.write_node(child, nodes, position, seen);
        }
        self.write_text(&pieces, position.indent);
    }

    fn write_node<'n>(
        &mut self,
        node: &'n AxNode,
        nodes: &NodesById<'n>,
        position: Position<'_>,
        seen: &mut BTreeSet<&'n str>,
    ) {
        let role = node.role.as_str();
        if matches!(role, "InlineTextBox" | "LineBreak" | "ListMarker") {
            return;
        }
        if role == "MenuListPopup" {
            // The entries of a list that is not open are chosen by their names.
            let mut entries = Vec::new();
            list_entries(node, nodes, seen, &mut entries);
            let line = format!("entries: {}", entries.join(", "));
            return self.write_line(position.indent, &line);
        }
        let is_usable = !node.ignored && can_be_used(node);
        let has_line = !node.ignored
            && (is_usable
                || SHOWN.contains(&role)
                || (NAMED.contains(&role) && !node.name.trim().is_empty()));
        if !has_line {
            return self.write_children(node, nodes, position, seen);
        }
        let name = ElementName::of(node, nodes);
        let line = element_line(node, &name);
        let number = node.backend_id.filter(|_| is_usable).map(|node| {
            let shown = line.clone();
            self.refs.number(ElementRef { node, shown })
        });
        self.write_line(
            position.indent,
            &match number {
                Some(number) => format!("[{number}] {line}"),
                None => line,
            },
        );
        // What is in a field is its value, which has been written.
        if matches!(role, "textbox" | "searchbox" | "spinbutton") {
            return;
        }
        let inner = Position {
            indent: position.indent + 1,
            said: name.said(node).unwrap_or(position.said),
            ..position
        };
        self.write_children(node, nodes, inner, seen);
        if let Some(owner) = node.backend_id
            && let Some(tree) = self.frames.inner.get(&owner)
            && self.visited.insert(owner)
        {
            self.write_tree(tree, inner.indent, inner.depth);
        }
    }

    /// Writes pieces of text that follow each other. Only those that are shown as they were written
    /// have line breaks.
    fn write_text(&mut self, pieces: &[&str], indent: usize) {
        if pieces.iter().any(|piece| piece.contains('\n')) {
            return self.write_lines(&pieces.concat(), indent);
        }
        let pieces = pieces.iter().map(|piece| one_line(piece)).filter(|piece| !piece.is_empty());
        let line = pieces.collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            self.write_text_line(&line, indent);
        }
    }

    fn write_lines(&mut self, text: &str, indent: usize) {
        // Empty lines around it say nothing.
        let lines = text.trim_end().split('\n').skip_while(|line| line.trim().is_empty());
        for line in lines {
            self.write_text_line(&line.replace(is_other_space, " "), indent);
        }
    }

    fn write_text_line(&mut self, line: &str, indent: usize) {
        let line = line.trim_end();
        if line.is_empty() {
            self.text.push('\n');
        } else if line.trim_start().starts_with('[') {
            // Only an element begins with a number in brackets.
            self.write_line(indent, &format!("\"{line}\""));
        } else {
            self.write_line(indent, line);
        }
    }

    fn write_line(&mut self, indent: usize, line: &str) {
        for _ in 0..indent.min(INDENT) {
            self.text.push(' ');
        }
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Lists the names of the entries below a node.
fn list_entries<'n>(
    node: &'n AxNode,
    nodes: &NodesById<'n>,
    seen: &mut BTreeSet<&'n str>,
    entries: &mut Vec<String>,
) {
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        if node.role == "option" {
            entries.push(one_line(&node.name));
            continue;
        }
        let children = node.child_ids.iter().rev().filter_map(|id| nodes.get(id.as_str()).copied());
        left.extend(children.filter(|child| seen.insert(child.node_id.as_str())));
    }
}

/// Returns whether the element around a piece of text has said it.
fn is_said(text: &str, said: &str) -> bool {
    !said.is_empty() && one_line(said).contains(&one_line(text))
}

/// Returns whether a character is white space that may end a line or move it.
fn is_other_space(c: char) -> bool {
    c.is_whitespace() && c != ' ' && c != '\t'
}

#[cfg(test)]
mod tests;
