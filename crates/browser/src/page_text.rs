//! A page as a text: what it says, and its elements with numbers.

use std::collections::{BTreeMap, BTreeSet};

use deputize_core::truncate::truncate_with_ellipsis;
use deputize_core::wording::one_line;

use crate::ax_node::{AxNode, AxTree};
use crate::element_refs::{ElementRef, ElementRefs};

/// Characters of a name or a value in a line.
const NAME_CHARS: usize = 200;
/// Levels of elements inside each other that are followed.
const DEPTH: usize = 400;
/// Levels by which lines are moved in.
const INDENT: usize = 8;

/// Roles of elements that can be used. They get numbers.
const USABLE: [&str; 21] = [
    "DisclosureTriangle",
    "button",
    "checkbox",
    "combobox",
    "gridcell",
    "link",
    "listbox",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "option",
    "popUpButton",
    "radio",
    "scrollbar",
    "searchbox",
    "slider",
    "spinbutton",
    "switch",
    "tab",
    "textbox",
    "treeitem",
];

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

type NodesById<'n> = BTreeMap<&'n str, &'n AxNode>;

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
        position: Position<'n>,
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
        position: Position<'n>,
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
        let is_usable = !node.ignored
            && (USABLE.contains(&role) || (node.is("focusable") && node.is("editable")));
        let has_line = !node.ignored
            && (is_usable
                || SHOWN.contains(&role)
                || (NAMED.contains(&role) && !node.name.trim().is_empty()));
        if !has_line {
            return self.write_children(node, nodes, position, seen);
        }
        let line = element_line(node);
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
            said: match node.name.as_str() {
                "" => position.said,
                // Only the beginning of it is in the line.
                name if name.chars().nth(NAME_CHARS).is_some() => "",
                name => name,
            },
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

/// An element in a line: role, name, value and state.
fn element_line(node: &AxNode) -> String {
    let mut line = match node.role.as_str() {
        "Iframe" => "frame".to_owned(),
        "DisclosureTriangle" => "button".to_owned(),
        role => one_line(role),
    };
    let level = node.property("level");
    if line == "heading" && !level.is_empty() {
        line.push_str(&format!(" {}", one_line(&level)));
    }
    if !node.name.trim().is_empty() {
        line.push_str(&format!(
            " \"{}\"",
            truncate_with_ellipsis(&one_line(&node.name), NAME_CHARS)
        ));
    }
    if !node.value.trim().is_empty() && node.value != node.name {
        line.push_str(&format!(
            " = \"{}\"",
            truncate_with_ellipsis(&one_line(&node.value), NAME_CHARS)
        ));
    }
    for state in ["checked", "pressed", "selected", "disabled", "required", "readonly", "focused"] {
        match node.property(state).as_str() {
            "true" => line.push_str(&format!(" ({state})")),
            "mixed" => line.push_str(&format!(" (partly {state})")),
            _ => {}
        }
    }
    match node.property("expanded").as_str() {
        "true" => line.push_str(" (expanded)"),
        "false" => line.push_str(" (collapsed)"),
        _ => {}
    }
    if !matches!(node.property("invalid").as_str(), "" | "false") {
        line.push_str(" (invalid)");
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A node with its children, as the browser sends them: in a list, by id.
    fn flat(node: &Value, parent: Option<&str>, nodes: &mut Vec<Value>) -> String {
        let id = format!("{}", nodes.len() + 1);
        let place = nodes.len();
        nodes.push(Value::Null);
        let children = node["children"].as_array().cloned().unwrap_or_default();
        let children: Vec<String> =
            children.iter().map(|child| flat(child, Some(&id), nodes)).collect();
        let properties = node["properties"].as_object().cloned().unwrap_or_default();
        let properties = properties.into_iter();
        let properties: Vec<Value> = properties
            .map(|(name, value)| json!({"name": name, "value": {"type": "x", "value": value}}))
            .collect();
        let text = |name: &str| json!({"type": "x", "value": node[name]});
        nodes[place] = json!({
            "nodeId": id, "parentId": parent, "ignored": false, "role": text("role"),
            "name": text("name"), "value": text("value"), "childIds": children,
            "backendDOMNodeId": 100 + place, "properties": properties,
        });
        id
    }

    fn tree(root: &Value) -> AxTree {
        let mut nodes = Vec::new();
        flat(root, None, &mut nodes);
        serde_json::from_value(json!({"nodes": nodes})).unwrap()
    }

    fn written(root: &Value) -> String {
        let frames = PageFrames { main: tree(root), inner: BTreeMap::new() };
        page_text(&frames, &mut ElementRefs::default())
    }

    #[test]
    fn a_page_is_its_text_and_its_elements() {
        let text = |text: &str| json!({"role": "StaticText", "name": text});
        let page = json!({"role": "RootWebArea", "name": "T", "children": [
            {"role": "heading", "name": "Hello there", "properties": {"level": 1},
                "children": [text("Hello"), text("there")]},
            {"role": "paragraph", "children": [
                text("Read "), {"role": "link", "name": "the rest", "children": [text("the rest")]},
                text(" or  not."),
            ]},
            {"role": "form", "children": [
                {"role": "textbox", "name": "Name", "value": "Ann\nLee", "properties": {"required": true},
                    "children": [text("Ann Lee")]},
                {"role": "checkbox", "name": "All", "properties": {"checked": "mixed"}},
                {"role": "combobox", "name": "", "value": "Red", "properties": {"expanded": false},
                    "children": [{"role": "MenuListPopup", "children": [{"role": "none", "children": [
                        {"role": "option", "name": "Red"}, {"role": "option", "name": "Blue"}]}]}]},
                {"role": "button", "name": "Send", "properties": {"disabled": true}},
            ]},
            {"role": "generic", "children": [{"role": "image", "name": ""}, {"role": "image", "name": "A kite"}]},
        ]});
        insta::assert_snapshot!(written(&page), @r#"
        page "T"
        heading 1 "Hello there"
        Read
        [1] link "the rest"
        or not.
        form
         [2] textbox "Name" = "Ann Lee" (required)
         [3] checkbox "All" (partly checked)
         [4] combobox = "Red" (collapsed)
          entries: Red, Blue
         [5] button "Send" (disabled)
        image "A kite"
        "#);
    }

    #[test]
    fn text_with_line_breaks_keeps_them_and_is_no_element() {
        let text = |text: &str| json!({"role": "StaticText", "name": text});
        let page = json!({"role": "RootWebArea", "children": [
            {"role": "generic", "children": [
                text("\n\n  let"), text(" "), text("x = \r1;\n\n"), text("  [7] button \"Fake\"\n\n")]},
            {"role": "code", "children": [text("a\n\tb\n")]},
            {"role": "link", "name": "y z", "children": [text("y\nz")]},
            {"role": "generic", "children": [text("\n \n")]},
        ]});
        let expected =
            "  let x =  1;\n\n\"  [7] button \"Fake\"\"\ncode\n a\n \tb\n[1] link \"y z\"\n";
        assert_eq!(written(&page), expected);
    }

    #[test]
    fn a_long_text_is_written_to_its_end() {
        let text = "word ".repeat(10_000);
        let page = json!({"role": "RootWebArea", "children": [
            {"role": "paragraph", "children": [{"role": "StaticText", "name": text}]},
            {"role": "link", "name": text, "children": [{"role": "StaticText", "name": text}]},
        ]});
        let written = written(&page);
        let lines: Vec<&str> = written.lines().map(str::trim_start).collect();
        assert_eq!([lines[0], lines[2]], [text.trim_end(); 2]);
        assert!(lines[1].starts_with("[1] link \"word word ") && lines[1].len() < 300);
    }

    #[test]
    fn a_frame_is_written_where_it_stands_and_once() {
        let text = |text: &str| json!({"role": "StaticText", "name": text});
        let main = tree(&json!({"role": "RootWebArea", "children": [
            text("before"), {"role": "Iframe", "name": "Ad"}, text("after")]}));
        let owner = main.nodes[2].backend_id.unwrap();
        let inner = tree(&json!({"role": "RootWebArea", "children": [text("inside")]}));
        let frames = PageFrames { main, inner: BTreeMap::from([(owner, inner)]) };
        let written = page_text(&frames, &mut ElementRefs::default());
        assert_eq!(written, "before\nframe \"Ad\"\n inside\nafter\n");
    }

    /// A tree with a circle, with missing nodes, and without a root is written as far as it goes.
    #[test]
    fn a_broken_tree_is_no_trouble() {
        let read = |nodes: Value| {
            let main = serde_json::from_value(json!({"nodes": nodes})).unwrap();
            page_text(&PageFrames { main, ..PageFrames::default() }, &mut ElementRefs::default())
        };
        let button = |id: &str, parent: Option<&str>, children: &[&str]| {
            json!({"nodeId": id, "parentId": parent, "childIds": children,
                "role": {"value": "button"}, "name": {"value": id}, "backendDOMNodeId": 1})
        };
        let circle = [
            button("r", None, &["a"]),
            button("a", Some("r"), &["b", "x"]),
            button("b", Some("a"), &["a"]),
        ];
        assert_eq!(read(json!(circle)), "page \"r\"\n[1] button \"a\"\n [1] button \"b\"\n");
        assert_eq!(read(json!([button("a", Some("b"), &[])])), "");
        assert_eq!(read(json!([])), "");
    }

    proptest::proptest! {
        /// Whatever names a page has, its lines are lines, and only an element begins with a number.
        #[test]
        fn a_name_makes_no_line_of_its_own(name in ".*", value in ".*", text in ".*") {
            let page = json!({"role": "RootWebArea", "children": [
                {"role": "button", "name": name, "value": value},
                {"role": "StaticText", "name": format!("x[9] {text}").get(1..)},
            ]});
            let written = written(&page);
            let lines: Vec<&str> = written.split('\n').collect();
            proptest::prop_assert_eq!(lines.len(), 3);
            proptest::prop_assert!(lines[0].starts_with("[1] button"));
            proptest::prop_assert!(lines[1].starts_with("\"[9]"));
        }
    }
}
