//! The names that a file gives to others, for files that do not say what they are.

use tree_sitter::Node;

use super::{Grammar, Source, rust};

/// The names that a file gives to others, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PublicNames {
    /// The file's relation to them: `exports`, `re-exports`, `defines` or `declares`.
    pub(crate) verb: &'static str,
    pub(crate) names: Vec<String>,
    /// Public methods, where there is one name and that of a class.
    pub(crate) members: Vec<String>,
    /// Whether there may be more names, which the file takes from elsewhere.
    pub(crate) open: bool,
    /// Whether the grammar did not understand a part of the file that may give more names.
    pub(crate) partial: bool,
}

impl PublicNames {
    fn new(verb: &'static str) -> Self {
        Self { verb, ..Self::default() }
    }

    /// Adds a name once, if it is one and not part of a path or computed.
    fn add(&mut self, name: &str) {
        let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
        let known = self.names.iter().any(|known| known == name);
        if plain && !known && !matches!(name, "" | "_" | "default" | "__esModule") {
            self.names.push(name.to_owned());
        }
    }
}

/// Reads the names that a file gives to others. Where it gives none, those that it defines for
/// itself. Returns `None` where there are none of either.
pub(crate) fn public_names(grammar: Grammar, text: &str, header: bool) -> Option<PublicNames> {
    let tree = grammar.parse(text)?;
    let source = Source { text, root: tree.root_node() };
    let mut all = match grammar {
        Grammar::Rust => of_rust(source),
        Grammar::Python => of_python(source),
        Grammar::Script | Grammar::TypeScript => of_script(source),
        Grammar::Go => of_go(source),
        Grammar::C => of_c(source, header),
        Grammar::Java => of_java(source),
    };
    if let [name] = all.names.as_slice() {
        all.members = members(source, name);
    }
    all.partial = has_error_outside_bodies(source.root);
    (!all.names.is_empty()).then_some(all)
}

/// Whether the grammar did not understand something of a node that is not inside of the body of a
/// function or type. An error inside of such a body leaves the names outside of it certain.
fn has_error_outside_bodies(node: Node<'_>) -> bool {
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        if node.is_error() || node.is_missing() {
            return true;
        }
        let body = node.child_by_field_name("body").filter(|body| is_closed_body(*body));
        let children = if node.has_error() { node.child_count() } else { 0 };
        for at in 0..children {
            nodes.extend(node.child(at).filter(|child| Some(child.id()) != body.map(|it| it.id())));
        }
    }
    false
}

/// Whether a body ends where its text says so, and is not a mere group of declarations.
fn is_closed_body(body: Node<'_>) -> bool {
    let last = body.child(body.child_count().saturating_sub(1));
    body.kind() != "declaration_list" && last.is_some_and(|it| !it.is_missing() && !it.is_error())
}

fn of_rust(source: Source<'_>) -> PublicNames {
    let mut public = PublicNames::new("defines");
    let mut own = PublicNames::new("defines");
    let mut re_exported = PublicNames::new("re-exports");
    let mut exported = false;
    for node in source.children(source.root) {
        if node.kind() == "attribute_item" {
            exported |= source.text_of(node).contains("macro_export");
            continue;
        }
        let name = source.field(node, "name");
        let macros = node.kind() == "macro_definition";
        let item = node.kind().ends_with("_item") || macros;
        if item && !rust::is_test_item(source, node) {
            let visible = node.named_child(0).is_some_and(|it| source.text_of(it) == "pub");
            if visible || macros && exported {
                public.add(name);
            }
            if node.kind() != "mod_item" && name != "main" {
                own.add(name);
            }
        }
        if node.kind() == "use_declaration" && !rust::is_test_item(source, node) {
            let visible = node.named_child(0).is_some_and(|it| source.text_of(it) == "pub");
            if let Some(used) = node.child_by_field_name("argument").filter(|_| visible) {
                add_used(source, used, "", &mut re_exported);
            }
        }
        exported = false;
    }
    [public, re_exported].into_iter().find(|all| !all.names.is_empty()).unwrap_or(own)
}

/// Adds the names that a `use` brings in. `self` stands for the module `within`.
fn add_used(source: Source<'_>, used: Node<'_>, within: &str, names: &mut PublicNames) {
    match used.kind() {
        "scoped_use_list" => {
            let path = source.field(used, "path");
            let within = path.rsplit("::").next().unwrap_or_default().trim();
            if let Some(list) = used.child_by_field_name("list") {
                add_used(source, list, within, names);
            }
        }
        "use_list" => {
            for child in used.named_children(&mut used.walk()) {
                add_used(source, child, within, names);
            }
        }
        // A trait that is exported as `_` has no name.
        "use_as_clause" => match source.field(used, "alias") {
            "_" => {}
            alias => names.add(alias),
        },
        "use_wildcard" => names.open = true,
        "scoped_identifier" => names.add(source.field(used, "name")),
        "identifier" => names.add(source.text_of(used)),
        "self" => names.add(within),
        _ => {}
    }
}

fn of_python(source: Source<'_>) -> PublicNames {
    let mut exported = PublicNames::new("exports");
    let mut defined = PublicNames::new("defines");
    let mut values = PublicNames::new("defines");
    for node in source.children(source.root) {
        let item = match node.kind() {
            "decorated_definition" => node.child_by_field_name("definition"),
            "expression_statement" => node.named_child(0),
            _ => Some(node),
        };
        let Some(item) = item else { continue };
        let public = |name: &str| !name.starts_with('_');
        match item.kind() {
            "class_definition" | "function_definition" => {
                let name = source.field(item, "name");
                if public(name) {
                    defined.add(name);
                }
            }
            "assignment" => {
                let name = source.field(item, "left");
                let right = item.child_by_field_name("right");
                if name == "__all__" {
                    right.into_iter().for_each(|list| add_strings(source, list, &mut exported));
                } else if public(name) && name.chars().any(char::is_uppercase) {
                    values.add(name);
                }
            }
            "augmented_assignment" if source.field(item, "left") == "__all__" => {
                exported.open = true;
            }
            _ => {}
        }
    }
    [exported, defined].into_iter().find(|all| !all.names.is_empty()).unwrap_or(values)
}

/// Adds the strings of a list. Anything else in its place makes the names open.
fn add_strings(source: Source<'_>, list: Node<'_>, names: &mut PublicNames) {
    if !matches!(list.kind(), "list" | "tuple") {
        names.open = true;
        return;
    }
    for item in list.named_children(&mut list.walk()) {
        match item.kind() {
            "string" => names.add(source.text_of(item).trim_matches(['"', '\''])),
            "comment" => {}
            _ => names.open = true,
        }
    }
}

fn of_script(source: Source<'_>) -> PublicNames {
    let mut exported = PublicNames::new("exports");
    let mut defined = PublicNames::new("defines");
    let mut declared = PublicNames::new("declares");
    for node in source.children(source.root) {
        match node.kind() {
            "export_statement" => add_exported(source, node, &mut exported),
            "expression_statement" => {
                let assignment = node.named_child(0);
                assignment.into_iter().for_each(|it| add_assigned(source, it, &mut exported));
            }
            "ambient_declaration" => add_declared(source, node, &mut declared),
            "function_declaration" | "class_declaration" | "generator_function_declaration" => {
                defined.add(source.field(node, "name"));
            }
            _ => {}
        }
    }
    [exported, declared].into_iter().find(|all| !all.names.is_empty()).unwrap_or(defined)
}

/// Adds what an `export` statement names.
fn add_exported(source: Source<'_>, node: Node<'_>, names: &mut PublicNames) {
    if let Some(declaration) = node.child_by_field_name("declaration") {
        add_declared(source, declaration, names);
    }
    if let Some(value) = node.child_by_field_name("value") {
        let own = source.field(value, "name");
        names.add(if value.kind() == "identifier" { source.text_of(value) } else { own });
    }
    let mut star = true;
    for child in node.named_children(&mut node.walk()) {
        match child.kind() {
            "export_clause" => {
                star = false;
                // Which words are names is not certain in a clause that has an error.
                if child.has_error() {
                    continue;
                }
                for one in child.named_children(&mut child.walk()) {
                    let alias = source.field(one, "alias");
                    names.add(if alias.is_empty() { source.field(one, "name") } else { alias });
                }
            }
            "namespace_export" => {
                star = false;
                names.add(child.named_child(0).map_or("", |name| source.text_of(name)));
            }
            // `export = kite`
            "identifier" => names.add(source.text_of(child)),
            _ => {}
        }
    }
    // `export * from`
    names.open |= star && node.child_by_field_name("source").is_some();
}

/// Adds the names of a declaration.
fn add_declared(source: Source<'_>, node: Node<'_>, names: &mut PublicNames) {
    match node.kind() {
        "ambient_declaration" | "lexical_declaration" | "variable_declaration" => {
            for child in node.named_children(&mut node.walk()) {
                add_declared(source, child, names);
            }
        }
        _ => names.add(source.field(node, "name")),
    }
}

/// Adds what an assignment to `module.exports` or `exports.name` gives.
fn add_assigned(source: Source<'_>, node: Node<'_>, names: &mut PublicNames) {
    let left = source.field(node, "left");
    let right = node.child_by_field_name("right");
    let Some(right) = right.filter(|_| node.kind() == "assignment_expression") else { return };
    if right.kind() == "assignment_expression" {
        add_assigned(source, right, names);
    }
    if let Some((object, name)) = left.rsplit_once('.')
        && matches!(object, "exports" | "module.exports")
    {
        names.add(name);
    } else if left == "module.exports" {
        match right.kind() {
            "identifier" => names.add(source.text_of(right)),
            "object" => {
                for child in right.named_children(&mut right.walk()) {
                    match child.kind() {
                        "shorthand_property_identifier" => names.add(source.text_of(child)),
                        "pair" => names.add(source.field(child, "key").trim_matches(['"', '\''])),
                        "method_definition" => names.add(source.field(child, "name")),
                        "comment" => {}
                        _ => names.open = true,
                    }
                }
            }
            _ => names.add(source.field(right, "name")),
        }
    }
}

fn of_go(source: Source<'_>) -> PublicNames {
    let mut exported = PublicNames::new("exports");
    let mut own = PublicNames::new("defines");
    let mut program = false;
    source.walk(|node| match node.kind() {
        "package_clause" => {
            program = source.text_of(node).ends_with("main");
            false
        }
        "function_declaration" | "type_spec" | "type_alias" | "const_spec" | "var_spec" => {
            let name = source.field(node, "name");
            if name.starts_with(char::is_uppercase) {
                exported.add(name);
            }
            if !matches!(name, "main" | "init") {
                own.add(name);
            }
            false
        }
        kind => {
            kind == "source_file" || kind.ends_with("_declaration") || kind.ends_with("spec_list")
        }
    });
    if program || exported.names.is_empty() { own } else { exported }
}

fn of_c(source: Source<'_>, header: bool) -> PublicNames {
    let verb = if header { "declares" } else { "defines" };
    let mut public = PublicNames::new(verb);
    let mut own = PublicNames::new(verb);
    source.walk(|node| {
        let function = node.kind() == "function_definition";
        let declares = header && matches!(node.kind(), "declaration" | "type_definition");
        if !function && !declares {
            let kind = node.kind();
            return matches!(
                kind,
                "translation_unit" | "linkage_specification" | "declaration_list"
            ) || kind.starts_with("preproc_");
        }
        if has_error_outside_bodies(node) {
            return false;
        }
        let mut cursor = node.walk();
        let private = node.named_children(&mut cursor).any(|child| {
            child.kind() == "storage_class_specifier" && source.text_of(child) == "static"
        });
        for declarator in node.children_by_field_name("declarator", &mut node.walk()) {
            let mut at = declarator;
            while let Some(inner) = at.child_by_field_name("declarator") {
                at = inner;
            }
            // A name without small letters may be a macro that the parser cannot see through.
            let name = source.text_of(at);
            if name == "main" || !name.contains(char::is_lowercase) {
                continue;
            }
            if !private || header {
                public.add(name);
            }
            own.add(name);
        }
        false
    });
    if public.names.is_empty() { own } else { public }
}

fn of_java(source: Source<'_>) -> PublicNames {
    let mut names = PublicNames::new("defines");
    for node in source.children(source.root) {
        let kind = node.kind();
        if kind.ends_with("_declaration")
            && !kind.starts_with("package")
            && !kind.starts_with("import")
        {
            names.add(source.field(node, "name"));
        }
    }
    names
}

/// Returns the public methods of the only class of a name.
fn members(source: Source<'_>, name: &str) -> Vec<String> {
    let mut out = PublicNames::default();
    source.walk(|node| {
        let kind = node.kind();
        let class = kind.starts_with("class") || kind.starts_with("abstract_class");
        let class = class || matches!(kind, "interface_declaration" | "enum_declaration");
        let class = class && source.field(node, "name") == name;
        if let Some(body) = node.child_by_field_name("body").filter(|_| class) {
            for child in body.named_children(&mut body.walk()) {
                add_member(source, node, child, &mut out);
            }
        }
        !class
    });
    out.names
}

/// Adds a member of a class, if it is a public method.
fn add_member(source: Source<'_>, class: Node<'_>, node: Node<'_>, out: &mut PublicNames) {
    let method = match node.kind() {
        "decorated_definition" => node.child_by_field_name("definition"),
        _ => Some(node),
    };
    let Some(method) = method else { return };
    let methods =
        ["method_definition", "method_declaration", "function_definition", "method_signature"];
    if !methods.contains(&method.kind()) {
        return;
    }
    let name = source.field(method, "name");
    let first = method.named_child(0).map_or("", |first| source.text_of(first));
    let words: Vec<&str> = first.split_whitespace().collect();
    let hidden = words.iter().any(|word| matches!(*word, "private" | "protected"));
    // Methods of a class in Java are public if they say so.
    let unsaid = method.kind() == "method_declaration"
        && class.kind() != "interface_declaration"
        && !words.contains(&"public");
    if !hidden && !unsaid && !name.starts_with('_') && name != "constructor" {
        out.add(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(names: Option<PublicNames>) -> String {
        names.map_or_else(String::new, |all| {
            let mut shown = format!("{} {}", all.verb, all.names.join(" "));
            if !all.members.is_empty() {
                shown.push_str(&format!(" with {}", all.members.join(" ")));
            }
            if all.open {
                shown.push_str(" and more");
            }
            if all.partial { shown + " at least" } else { shown }
        })
    }

    /// Where the grammar of JavaScript does not understand a type, it says that there is more, and
    /// takes no word of the type for a name.
    #[test]
    fn the_grammar_of_javascript_reads_typescript_as_far_as_it_goes() {
        for (text, said) in [
            (
                "import { a } from './a';\nexport function fly(x: number): string { return '' }\nexport const b = 1;\n",
                "exports fly b at least",
            ),
            (
                "export interface Kite { fly(): void }\nexport class Main {}\n",
                "exports Main at least",
            ),
            ("export { c as d, type E } from './e';\nexport const a = 1;\n", "exports a at least"),
        ] {
            assert_eq!(describe(public_names(Grammar::Script, text, false)), said, "{text}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one case for each way to give a name")]
    fn the_names_that_a_file_gives_to_others_are_read() {
        for (path, text, said) in [
            (
                "a.rs",
                "use x::y;\npub struct Kite;\npub(crate) fn a() {}\nfn b() {}\n#[macro_export]\nmacro_rules! fly { () => {} }\n\
                 impl Kite { pub fn c() {} }\npub mod wing;\n#[cfg(test)]\npub mod far {}\n",
                "defines Kite fly wing",
            ),
            ("main.rs", "mod a;\nstruct Args;\nfn main() {}\nfn run() {}\n", "defines Args run"),
            (
                "a.rs",
                "mod wing;\nmod tail;\nuse x::Own;\n#[cfg(test)]\npub use x::Gust;\npub(crate) use x::Rope;\n\
                 pub use wing::{self, Kite, lift::{Fly as Up, Land}};\npub use self::tail::End;\npub use far::*;\npub use far::Lift as _;\nfn own() {}\n",
                "re-exports wing Kite Up Land End and more",
            ),
            (
                "a.py",
                "__all__ = ['Kite', \"fly\"]\nclass Kite: pass\nclass Other: pass\n",
                "exports Kite fly",
            ),
            (
                "a.py",
                "__all__ = ['Kite'] + more.__all__\nclass Wing: pass\n@x\ndef fly(): pass\ndef _no(): pass\n",
                "defines Wing fly",
            ),
            (
                "a.py",
                "class Kite:\n    def __init__(self): pass\n    @x\n    def fly(self): pass\n    def _no(self): pass\n",
                "defines Kite with fly",
            ),
            ("a.py", "import a\nCODES = {}\nother = 1\n", "defines CODES"),
            ("a.py", "import a\nprint(a)\n", ""),
            (
                "a.js",
                "const { x } = require('x');\nclass Kite { constructor() {} fly() {} #no() {} _own() {} }\n// why\nexports.Kite = Kite;\n",
                "exports Kite with fly",
            ),
            (
                "a.js",
                "module.exports = { Kite, fly: up, land() {}, ...rest };\n",
                "exports Kite fly land and more",
            ),
            (
                "a.js",
                "exports = module.exports = createKite;\nexports.Wing = Wing;\nfunction createKite() {}\n",
                "exports createKite Wing",
            ),
            ("a.js", "function a() {}\nfunction b() {}\na();\n", "defines a b"),
            (
                "a.ts",
                "export interface Kite { fly(): void }\nexport const a = 1, b = 2;\nexport { c as d, type E } from './e';\n\
                 export * from './f';\nexport default class Main {}\nfunction own() {}\n",
                "exports Kite a b d E Main and more",
            ),
            ("a.ts", "export * as kite from './k';\nexport default kite;\n", "exports kite"),
            (
                "a.d.ts",
                "declare function fly(): void;\ndeclare function fly(x: number): void;\ndeclare const b: number;\n",
                "declares fly b",
            ),
            (
                "a.go",
                "package kite\nfunc Fly() {}\nfunc (k Kite) Land() {}\nfunc own() {}\ntype (\n\tKite struct{}\n\tb int\n)\nconst Max = 1\n",
                "exports Fly Kite Max",
            ),
            (
                "a.go",
                "package main\nfunc main() { var x int }\nfunc Run() {}\nfunc help() {}\n",
                "defines Run help",
            ),
            (
                "a.c",
                "static int own(void) { return 1; }\nint *kite_fly(int a) { return 0; }\nint main(void) { return 0; }\n",
                "defines kite_fly",
            ),
            (
                "a.h",
                "#ifndef A\n#define A\ntypedef struct { int a; } kite_t;\nint kite_fly(int a);\nKITE_API(int) kite_land(void);\n#endif\n",
                "declares kite_t kite_fly kite_land",
            ),
            (
                "A.java",
                "package a;\nimport b.C;\n@X\npublic class Kite {\n  public Kite() {}\n  public void fly() {}\n  public void fly(int x) {}\n  void own() {}\n}\n",
                "defines Kite with fly",
            ),
            ("A.java", "interface Kite { void fly(); }\n", "defines Kite with fly"),
            // Macros inside of a body leave the name of what has the body certain.
            (
                "a.h",
                "typedef struct Kite {\n  void *(KITE_CALL *lift)(int a);\n  KITE_ALIGN(8) int b\n} Kite, *KiteRef;\nint kite_fly(int a), kite_land(int a);\n",
                "declares Kite KiteRef kite_fly kite_land",
            ),
            (
                "a.h",
                "int kite_fly(int a);\nKITE_BEGIN(x int) (kite_lost(int))) int;\nint kite_land(int a);\n",
                "declares kite_fly kite_land at least",
            ),
            ("a.rs", "pub struct Kite;\npub fn fly() { let = ; }\n", "defines Kite fly"),
            ("a.rs", "pub struct Kite;\npub fn fly) {}\n", "defines Kite at least"),
            ("a.py", "class Kite: pass\n)(\ndef fly(): pass\n", "defines Kite fly at least"),
            ("a.js", "exports.fly = fly;\n)(;\n", "exports fly at least"),
            ("a.go", "package kite\nfunc Fly() {}\nfunc ) {}\n", "exports Fly at least"),
        ] {
            let grammar = Grammar::of(path).unwrap();
            let shown = describe(public_names(grammar, text, path.ends_with(".h")));
            assert_eq!(shown, said, "{path}: {text}");
        }
    }
}
