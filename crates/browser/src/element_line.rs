//! An element of a page in a line.

use std::collections::BTreeMap;

use deputize_core::truncate::truncate_with_ellipsis;
use deputize_core::wording::one_line;

use crate::ax_node::AxNode;

/// Characters of a name or a value in a line.
pub(crate) const NAME_CHARS: usize = 200;
/// Characters of the text that names an element without a name.
const CONTENT_CHARS: usize = 80;
/// Nodes that are looked through for that text.
const CONTENT_NODES: usize = 200;

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

/// The nodes of a tree by their ids.
pub(crate) type NodesById<'n> = BTreeMap<&'n str, &'n AxNode>;

/// The name of an element in its line.
pub(crate) struct ElementName {
    text: String,
    /// Characters of it that have room.
    most: usize,
}

impl ElementName {
    /// Returns the name of an element; for one that takes the focus and has none, what stands in it.
    pub(crate) fn of(node: &AxNode, nodes: &NodesById<'_>) -> Self {
        let is_empty = node.name.trim().is_empty() && node.value.trim().is_empty();
        if is_empty && node.is("focusable") && !USABLE.contains(&node.role.as_str()) {
            return Self { text: content_text(node, nodes), most: CONTENT_CHARS };
        }
        Self { text: node.name.clone(), most: NAME_CHARS }
    }

    /// Returns the text of the element that its line says; nothing if only the beginning of it is there.
    pub(crate) fn said<'n>(&'n self, node: &'n AxNode) -> Option<&'n str> {
        let (text, most) = match self.text.as_str() {
            "" if is_editable(node) => (node.value.as_str(), NAME_CHARS),
            text => (text, self.most),
        };
        match text {
            "" => None,
            text if text.chars().nth(most).is_some() => Some(""),
            text => Some(text),
        }
    }
}

/// Returns the beginning of the text below a node.
fn content_text<'n>(node: &'n AxNode, nodes: &NodesById<'n>) -> String {
    let mut text = String::new();
    let mut left = vec![node];
    for _ in 0..CONTENT_NODES {
        let Some(node) = left.pop().filter(|_| text.len() <= 4 * CONTENT_CHARS) else { break };
        if node.role == "StaticText" {
            text.push_str(&node.name);
            text.push(' ');
            continue;
        }
        let children = node.child_ids.iter().take(CONTENT_NODES).rev();
        left.extend(children.filter_map(|id| nodes.get(id.as_str()).copied()));
    }
    one_line(&text)
}

/// Returns whether an element is a field by its content, such as a `div` that can be edited.
fn is_editable(node: &AxNode) -> bool {
    !USABLE.contains(&node.role.as_str())
        && node.is("focusable")
        && !node.property("editable").is_empty()
}

/// Returns whether an element can be used: by its role, or because it takes the focus, as what can be
/// edited does too.
pub(crate) fn can_be_used(node: &AxNode) -> bool {
    USABLE.contains(&node.role.as_str()) || node.is("focusable")
}

/// An element in a line: role, name, value and state.
pub(crate) fn element_line(node: &AxNode, name: &ElementName) -> String {
    let mut line = match node.role.as_str() {
        "Iframe" => "frame".to_owned(),
        "DisclosureTriangle" => "button".to_owned(),
        role => one_line(role),
    };
    let level = node.property("level");
    if line == "heading" && !level.is_empty() {
        line.push_str(&format!(" {}", one_line(&level)));
    }
    if !name.text.trim().is_empty() {
        let name = truncate_with_ellipsis(&one_line(&name.text), name.most);
        line.push_str(&format!(" \"{name}\""));
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
    if is_editable(node) {
        line.push_str(" (editable)");
    }
    if !matches!(node.property("invalid").as_str(), "" | "false") {
        line.push_str(" (invalid)");
    }
    line
}
