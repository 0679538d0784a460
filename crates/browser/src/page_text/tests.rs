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
fn what_takes_the_focus_has_a_number_and_the_beginning_of_its_text() {
    let text = |text: &str| json!({"role": "StaticText", "name": text});
    let focusable = |role: &str, children: &[Value]| json!({"role": role, "properties": {"focusable": true}, "children": children});
    let long = "word ".repeat(60);
    let mut editor =
        focusable("generic", &[text("some "), json!({"role": "link", "name": "more"})]);
    editor["value"] = "some more".into();
    editor["properties"]["editable"] = "richtext".into();
    let page = json!({"role": "RootWebArea", "children": [
        focusable("generic", &[text("Press"), text(" me")]),
        focusable("main", &[text(&long), json!({"role": "link", "name": "on"})]),
        editor,
        focusable("Canvas", &[]),
        {"role": "generic", "children": [text("no number")]},
    ]});
    let beginning = &long[..79];
    let expected = format!(
        "[1] generic \"Press me\"\n[2] main \"{beginning}…\"\n {}\n [3] link \"on\"\n\
         [4] generic = \"some more\" (editable)\n [5] link \"more\"\n[6] Canvas\nno number\n",
        long.trim_end()
    );
    assert_eq!(written(&page), expected);
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
    let expected = "  let x =  1;\n\n\"  [7] button \"Fake\"\"\ncode\n a\n \tb\n[1] link \"y z\"\n";
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
