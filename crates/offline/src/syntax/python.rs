//! Python.

use tree_sitter::Node;

use super::{Grammar, Import, Outline, Source, first_sentence, line_of};

pub(super) fn outline(source: Source<'_>, test_file: bool) -> Outline {
    let mut out = Outline { doc: docstring(source), ..Outline::default() };
    source.walk(|node| match node.kind() {
        "import_statement" => {
            for child in source.children(node) {
                let name = if child.kind() == "aliased_import" {
                    source.field(child, "name")
                } else {
                    source.text_of(child)
                };
                let module = name.to_owned();
                out.imports.push(Import::Python { dots: 0, module, name: String::new() });
            }
            false
        }
        "import_from_statement" => {
            from_import(source, node, &mut out.imports);
            false
        }
        "function_definition" => {
            let name = source.field(node, "name");
            out.tests +=
                u64::from(test_file && name.starts_with("test") && is_collected(source, node));
            true
        }
        "if_statement" => {
            let condition = source.field(node, "condition");
            let main = condition.contains("__name__") && condition.contains("__main__");
            if main && !test_file && node.parent().is_some_and(|parent| parent.kind() == "module") {
                out.mains.push(line_of(node));
            }
            true
        }
        _ => true,
    });
    out
}

fn docstring(source: Source<'_>) -> Option<String> {
    let first = source.children(source.root).into_iter().find(|node| node.kind() != "comment")?;
    let string = first.named_child(0).filter(|_| first.kind() == "expression_statement")?;
    if string.kind() != "string" {
        return None;
    }
    let text = source.text_of(string).trim_start_matches(['r', 'R', 'u', 'U']);
    let text = text.trim_matches(['"', '\'']);
    // A title over a line of marks is a name; what comes below it says more.
    let mut lines = text.trim_start().lines();
    let title = lines.next().unwrap_or_default();
    let underlined = lines
        .next()
        .is_some_and(|line| line.len() > 2 && line.trim().chars().all(|c| "=-~*".contains(c)));
    if underlined && title.split_whitespace().count() < 4 {
        let rest: Vec<&str> = lines.collect();
        return first_sentence(&rest.join("\n"));
    }
    first_sentence(text)
}

/// Whether a test runner takes a function: it stands at the top of its file or of a class.
fn is_collected(source: Source<'_>, node: Node<'_>) -> bool {
    let mut at = node.parent();
    while let Some(parent) = at {
        match parent.kind() {
            "function_definition" | "lambda" => return false,
            "class_definition" => {
                let bases = source.field(parent, "superclasses");
                if !source.field(parent, "name").starts_with("Test") && !bases.contains("Test") {
                    return false;
                }
            }
            _ => {}
        }
        at = parent.parent();
    }
    true
}

fn from_import(source: Source<'_>, node: Node<'_>, out: &mut Vec<Import>) {
    let Some(from) = node.child_by_field_name("module_name") else { return };
    let text: String = source.text_of(from).split_whitespace().collect();
    let module = text.trim_start_matches('.').to_owned();
    let dots = text.len() - module.len();
    let mut cursor = node.walk();
    let mut named = false;
    for name in node.children_by_field_name("name", &mut cursor) {
        let name = match name.kind() {
            "aliased_import" => source.field(name, "name"),
            _ => source.text_of(name),
        };
        named = true;
        out.push(Import::Python { dots, module: module.clone(), name: name.to_owned() });
    }
    if !named {
        out.push(Import::Python { dots, module, name: String::new() });
    }
}

/// Returns the value of a string literal without substitutions.
fn literal(source: Source<'_>, node: Node<'_>) -> Option<String> {
    match node.kind() {
        "string" => {
            let mut out = String::new();
            for child in node.named_children(&mut node.walk()) {
                match child.kind() {
                    "string_content" => out.push_str(source.text_of(child)),
                    "string_start" | "string_end" => {}
                    _ => return None,
                }
            }
            Some(out)
        }
        "concatenated_string" => {
            let parts: Option<Vec<String>> =
                node.named_children(&mut node.walk()).map(|child| literal(source, child)).collect();
            Some(parts?.concat())
        }
        _ => None,
    }
}

/// Returns the value that a module gives to `__version__`, if it is a plain string.
pub(crate) fn assigned_version(text: &str) -> Option<String> {
    let tree = Grammar::Python.parse(text)?;
    let source = Source { text, root: tree.root_node() };
    let mut version = None;
    source.walk(|node| {
        if node.kind() == "assignment" {
            let names = ["__version__", "VERSION", "version"];
            let named = names.contains(&source.field(node, "left"));
            let value = node.child_by_field_name("right").and_then(|right| literal(source, right));
            if let Some(value) = value.filter(|_| named) {
                version.get_or_insert(value);
            }
        }
        matches!(node.kind(), "module" | "expression_statement" | "assignment")
    });
    version.filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// An argument of the call of `setup`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SetupArgument {
    /// Its name; `**` for a dictionary of arguments.
    pub(crate) name: String,
    /// Its strings, for a string or a list of strings.
    pub(crate) values: Vec<String>,
    /// The strings under each key, for a dictionary of them.
    pub(crate) groups: Vec<(String, Vec<String>)>,
    /// Its line, from 1.
    pub(crate) line: u64,
    /// Whether the program computes it, so that the strings are not all of it.
    pub(crate) computed: bool,
}

/// Returns the arguments of the call of `setup` in a `setup.py`.
pub(crate) fn setup_arguments(text: &str) -> Vec<SetupArgument> {
    let Some(tree) = Grammar::Python.parse(text) else { return Vec::new() };
    let source = Source { text, root: tree.root_node() };
    let mut out = Vec::new();
    source.walk(|node| {
        let called = source.field(node, "function");
        if node.kind() != "call" || !matches!(called, "setup" | "setuptools.setup") {
            return true;
        }
        let Some(arguments) = node.child_by_field_name("arguments") else { return false };
        for argument in arguments.named_children(&mut arguments.walk()) {
            let line = line_of(argument);
            if argument.kind() == "dictionary_splat" {
                let name = "**".to_owned();
                out.push(SetupArgument { name, line, computed: true, ..SetupArgument::default() });
                continue;
            }
            let Some(value) = argument.child_by_field_name("value") else { continue };
            let name = source.field(argument, "name").to_owned();
            let value = match value.kind() {
                "identifier" => assigned_once(source, source.text_of(value)).unwrap_or(value),
                _ => value,
            };
            let argument = SetupArgument { name, line, ..SetupArgument::default() };
            out.push(if value.kind() == "dictionary" {
                let groups = groups(source, value);
                let computed = groups.is_none();
                SetupArgument { groups: groups.unwrap_or_default(), computed, ..argument }
            } else {
                let (values, computed) = strings(source, value);
                SetupArgument { values, computed, ..argument }
            });
        }
        false
    });
    out
}

/// Returns the strings of a literal or of a list of literals, and whether it is anything else.
fn strings(source: Source<'_>, value: Node<'_>) -> (Vec<String>, bool) {
    if !matches!(value.kind(), "list" | "tuple") {
        let text = literal(source, value);
        let computed = text.is_none();
        return (text.into_iter().collect(), computed);
    }
    let mut cursor = value.walk();
    let items = value.named_children(&mut cursor).filter(|item| item.kind() != "comment");
    let items: Vec<Option<String>> = items.map(|item| literal(source, item)).collect();
    let computed = items.iter().any(Option::is_none);
    (items.into_iter().flatten().collect(), computed)
}

/// Returns the strings under each key of a dictionary. `None` where any of them is computed.
fn groups(source: Source<'_>, dictionary: Node<'_>) -> Option<Vec<(String, Vec<String>)>> {
    let mut cursor = dictionary.walk();
    let pairs = dictionary.named_children(&mut cursor).filter(|pair| pair.kind() != "comment");
    pairs
        .map(|pair| {
            let key = literal(source, pair.child_by_field_name("key")?)?;
            let (values, computed) = strings(source, pair.child_by_field_name("value")?);
            (!computed).then_some((key, values))
        })
        .collect()
}

/// Returns the value that the top of a module gives to a name, if nothing else but one place
/// that reads it names it: what is named more often may be changed there.
fn assigned_once<'s>(source: Source<'s>, name: &str) -> Option<Node<'s>> {
    let mut value = None;
    let mut named = 0;
    source.walk(|node| {
        let keyword = node.parent().is_some_and(|above| {
            above.kind() == "keyword_argument"
                && above.child_by_field_name("name").is_some_and(|own| own.id() == node.id())
        });
        if node.kind() == "identifier" && source.text_of(node) == name && !keyword {
            named += 1;
            let assignment = node.parent().filter(|above| above.kind() == "assignment");
            let statement = assignment.and_then(|assignment| assignment.parent());
            let top = statement.and_then(|statement| statement.parent());
            if top.is_some_and(|top| top.kind() == "module") {
                value = assignment.and_then(|assignment| assignment.child_by_field_name("right"));
            }
        }
        true
    });
    value.filter(|_| named == 2)
}
