//! Role of a name at a place: a definition or a use.

use tree_sitter::{Node, Point};

use super::Source;

/// Role of a name at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRole {
    /// The name that a definition gives.
    Definition,
    /// The name in a declaration of what is defined elsewhere, as a prototype in C.
    Declaration,
    Use,
}

/// Kinds of nodes, by their ends, whose field `name` is what they define.
const DEFINING: [&str; 6] =
    ["_item", "_definition", "_declaration", "_spec", "_signature", "_constant"];
const DEFINING_WHOLE: [&str; 7] = [
    "enum_variant",
    "enumerator",
    "field_definition",
    "method_elem",
    "preproc_def",
    "preproc_function_def",
    "variable_declarator",
];
/// Types of C, which are defined where their body stands.
const C_TYPES: [&str; 3] = ["struct_specifier", "union_specifier", "enum_specifier"];

pub(super) fn role_at(source: Source<'_>, row: usize, start: usize, end: usize) -> NameRole {
    let start = Point::new(row, start);
    let end = Point::new(row, end);
    let Some(name) = source.root.named_descendant_for_point_range(start, end) else {
        return NameRole::Use;
    };
    let Some(above) = name.parent() else { return NameRole::Use };
    let kind = above.kind();
    let named = ["name", "property"].iter().any(|field| is_field(above, field, name));
    let defines = DEFINING.iter().any(|end| kind.ends_with(end)) || DEFINING_WHOLE.contains(&kind);
    let import = kind.contains("import") || kind == "extern_crate_declaration";
    let body = || above.child_by_field_name("body").is_some();
    if named && (defines && !import || C_TYPES.contains(&kind) && body()) {
        return NameRole::Definition;
    }
    if kind == "assignment" && is_field(above, "left", name) && is_declared_there(above) {
        return NameRole::Definition;
    }
    declarator_role(name).unwrap_or(NameRole::Use)
}

fn is_field(above: Node<'_>, field: &str, node: Node<'_>) -> bool {
    above.child_by_field_name(field).is_some_and(|own| own.id() == node.id())
}

/// Whether an assignment of Python stands at the top of a module or of a class.
fn is_declared_there(assignment: Node<'_>) -> bool {
    let block = assignment.parent().and_then(|statement| statement.parent());
    block.is_some_and(|block| {
        let class = block.parent().is_some_and(|above| above.kind() == "class_definition");
        block.kind() == "module" || block.kind() == "block" && class
    })
}

/// Returns the role of a name that a declarator of C has, perhaps below others.
fn declarator_role(name: Node<'_>) -> Option<NameRole> {
    let mut at = name;
    let mut function = false;
    let mut above = at.parent()?;
    while above.kind().ends_with("_declarator") {
        let inner = above.kind() == "parenthesized_declarator";
        if !inner && !is_field(above, "declarator", at) {
            return None;
        }
        function |= above.kind() == "function_declarator";
        at = above;
        above = at.parent()?;
    }
    let mut cursor = above.walk();
    if !above.children_by_field_name("declarator", &mut cursor).any(|own| own.id() == at.id()) {
        return None;
    }
    let external = above.children(&mut above.walk()).any(|child| {
        child.kind() == "storage_class_specifier"
            && child.child(0).is_some_and(|it| it.kind() == "extern")
    });
    Some(match above.kind() {
        "function_definition" | "type_definition" | "field_declaration" => NameRole::Definition,
        "declaration" if !function && !external => NameRole::Definition,
        "declaration" | "parameter_declaration" => NameRole::Declaration,
        _ => NameRole::Use,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Grammar;
    use super::*;

    /// Returns the lines on which a text has `kite` as a word, each with its role.
    fn roles(grammar: Grammar, text: &str) -> Vec<(usize, NameRole)> {
        let tree = grammar.parse(text).unwrap();
        let source = Source { text, root: tree.root_node() };
        let word = regex::Regex::new(r"\bkite\b").unwrap();
        let of = |(row, line): (usize, &str)| {
            let roles: Vec<_> = word
                .find_iter(line)
                .map(|found| (row + 1, source.role_at(row, found.start(), found.end())))
                .collect();
            roles
        };
        text.lines().enumerate().flat_map(of).collect()
    }

    #[test]
    fn a_definition_is_distinguished_from_a_use_in_each_language() {
        use NameRole::{Declaration, Definition, Use};
        for (grammar, text, expected) in [
            (
                Grammar::Rust,
                "use a::kite;\nfn kite() {}\nfn a() { kite(); }\nenum E { kite }\n",
                vec![Use, Definition, Use, Definition],
            ),
            (
                Grammar::Python,
                "import kite\nkite = 1\ndef kite(): pass\nclass A:\n    kite = 2\n    def a(self):\n        kite = 3\n",
                vec![Use, Definition, Definition, Definition, Use],
            ),
            (
                Grammar::Script,
                "import { kite } from 'a';\nconst kite = 1;\nfunction kite() {}\nkite();\nclass A { kite() {} }\n",
                vec![Use, Definition, Definition, Use, Definition],
            ),
            (
                Grammar::Script,
                "interface A { kite(): void }\ntype kite = 1;\nlet a: kite;\n",
                vec![Definition, Definition, Use],
            ),
            (
                Grammar::Go,
                "package a\nfunc kite() {}\nvar kite = 1\nfunc b() { kite() }\n",
                vec![Definition, Definition, Use],
            ),
            (
                Grammar::C,
                "int kite(int);\nint *kite(int a) { return kite; }\nextern int kite;\nint kite = 1;\nstruct kite;\nstruct kite { int a; };\n#define kite 1\n",
                vec![
                    Declaration,
                    Definition,
                    Use,
                    Declaration,
                    Definition,
                    Use,
                    Definition,
                    Definition,
                ],
            ),
            (
                Grammar::Java,
                "class A { int kite; void kite() { this.kite = kite(); } }\n",
                vec![Definition, Definition, Use, Use],
            ),
        ] {
            let roles: Vec<NameRole> =
                roles(grammar, text).into_iter().map(|(_, role)| role).collect();
            assert_eq!(roles, expected, "{text}");
        }
    }
}
