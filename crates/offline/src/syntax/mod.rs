//! Declarations of a source file, read from its syntax tree.

use tree_sitter::{Language, Node, Parser, Tree};

mod c;
mod doc;
mod go;
mod java;
mod name;
mod public_names;
mod python;
mod rust;
mod script;
mod tree;

use doc::{first_sentence, has_file_tag, is_doc_block};
pub(crate) use name::NameRole;
pub(crate) use public_names::{PublicNames, public_names};
pub(crate) use python::{SetupArgument, assigned_version, setup_arguments};
pub(crate) use tree::{SyntaxContext, context_at, is_in_tests};

/// Bytes of the largest file that is parsed.
pub(crate) const FILE_BYTES: u64 = 512 * 1024;

/// A language with a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grammar {
    Rust,
    Python,
    /// JavaScript and TypeScript, by the grammar of TypeScript with elements. Without elements
    /// `<T>x` is a type assertion and is not understood; a grammar of its own for that is 1.3 MB.
    Script,
    Go,
    C,
    Java,
}

impl Grammar {
    /// Returns the grammar for a file, by its name. `None` also where this build lacks the grammar:
    /// such a file counts as one of a language without any.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        let grammar = match extension {
            "rs" => Self::Rust,
            "py" | "pyi" | "pyw" => Self::Python,
            "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => Self::Script,
            "go" => Self::Go,
            "c" | "h" => Self::C,
            "java" => Self::Java,
            _ => return None,
        };
        grammar.language().map(|_| grammar)
    }

    /// Returns the tables of the grammar; `None` if this build lacks them.
    fn language(self) -> Option<Language> {
        let language = match self {
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Script => tree_sitter_typescript::LANGUAGE_TSX,
            Self::Go => tree_sitter_go::LANGUAGE,
            #[cfg(feature = "c")]
            Self::C => tree_sitter_c::LANGUAGE,
            #[cfg(feature = "java")]
            Self::Java => tree_sitter_java::LANGUAGE,
            #[cfg(not(all(feature = "c", feature = "java")))]
            _ => return None,
        };
        Some(language.into())
    }

    /// Parses a text. Returns `None` for a text that the parser gives up on.
    pub(crate) fn parse(self, text: &str) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.language()?).ok()?;
        parser.parse(text, None)
    }
}

/// An import as it is written, to be resolved to a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Import {
    /// Rust: the segments of a path that begins with `crate`, `self` or `super`, or with a crate.
    Rust(Vec<String>),
    /// Python: leading dots, the module, and a name taken from it.
    Python { dots: usize, module: String, name: String },
    /// JavaScript and TypeScript: the module specifier.
    Script(String),
    /// Go: the import path.
    Go(String),
    /// C: the quoted path of an include.
    C(String),
    /// Java: the qualified name of a class or of something below it.
    Java(String),
}

/// Declarations of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outline {
    /// First sentence of the documentation of the file.
    pub(crate) doc: Option<String>,
    /// Lines at which a program begins.
    pub(crate) mains: Vec<u64>,
    /// Number of test functions.
    pub(crate) tests: u64,
    /// Imports outside of test code.
    pub(crate) imports: Vec<Import>,
    /// Rust modules in files of their own that are only compiled for tests.
    pub(crate) test_modules: Vec<String>,
    /// Comments with `TODO` or `FIXME`.
    pub(crate) remarks: u64,
    /// Whether a constraint leaves the file out of builds.
    pub(crate) is_left_out: bool,
    /// Whether the head of the file says that a program wrote it.
    pub(crate) generated: bool,
}

/// Reads the outline of a file. `test_file` means that its path is that of a test.
pub(crate) fn outline(grammar: Grammar, text: &str, test_file: bool) -> Outline {
    let Some(tree) = grammar.parse(text) else { return Outline::default() };
    let source = Source { text, root: tree.root_node() };
    let mut out = match grammar {
        Grammar::Rust => rust::outline(source),
        Grammar::Python => python::outline(source, test_file),
        Grammar::Script => script::outline(source, test_file),
        Grammar::Go => go::outline(source, test_file),
        Grammar::C => c::outline(source),
        Grammar::Java => java::outline(source),
    };
    out.generated = is_generated(source);
    out.remarks = remarks(source);
    out
}

/// A parsed text.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) text: &'s str,
    pub(crate) root: Node<'s>,
}

impl<'s> Source<'s> {
    /// Returns the text of a node.
    pub(crate) fn text_of(self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Returns the text of a field of a node.
    fn field(self, node: Node<'_>, name: &str) -> &'s str {
        node.child_by_field_name(name).map_or("", |child| self.text_of(child))
    }

    /// Returns the nodes right below a node, without unnamed ones.
    fn children(self, node: Node<'s>) -> Vec<Node<'s>> {
        node.named_children(&mut node.walk()).collect()
    }

    /// Returns what the name in a range of a line is there: the row from 0, and bytes in the line.
    pub(crate) fn role_at(self, row: usize, start: usize, end: usize) -> NameRole {
        name::role_at(self, row, start, end)
    }

    /// Visits nodes from the top in the order of the text, and what is below those for which
    /// `visit` returns true.
    pub(crate) fn walk(self, mut visit: impl FnMut(Node<'s>) -> bool) {
        self.walk_levels(|node, _| visit(node));
    }

    /// Does the same, and gives the level of each node, 0 for the top.
    pub(crate) fn walk_levels(self, mut visit: impl FnMut(Node<'s>, usize) -> bool) {
        let mut cursor = self.root.walk();
        let mut level = 0;
        loop {
            if visit(cursor.node(), level) && cursor.goto_first_child() {
                level += 1;
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                level -= 1;
            }
        }
    }
}

/// Returns the line of a node, from 1.
pub(crate) fn line_of(node: Node<'_>) -> u64 {
    node.start_position().row as u64 + 1
}

/// Whether a kind of node is a comment, in any of the grammars.
pub(crate) fn is_comment(kind: &str) -> bool {
    matches!(kind, "comment" | "line_comment" | "block_comment" | "doc_comment")
}

/// Whether the head of a text says that a program wrote it.
pub(crate) fn says_generated(grammar: Grammar, text: &str) -> bool {
    grammar.parse(text).is_some_and(|tree| is_generated(Source { text, root: tree.root_node() }))
}

/// Whether a comment before the first code says that the file is generated.
fn is_generated(source: Source<'_>) -> bool {
    let mut cursor = source.root.walk();
    let children = source.root.children(&mut cursor).take(20);
    let mut head = children.take_while(|node| is_comment(node.kind()));
    head.any(|node| {
        let text = source.text_of(node).to_ascii_lowercase();
        text.contains("do not edit") && text.contains("generated")
            || text.contains("@generated")
            || text.contains("automatically generated by")
            || text.contains("auto-generated by")
            || text.contains("autogenerated by")
    })
}

fn remarks(source: Source<'_>) -> u64 {
    let mut count = 0;
    source.walk(|node| {
        if is_comment(node.kind()) {
            let words = || source.text_of(node).split(|c: char| !c.is_alphanumeric() && c != '_');
            count += u64::from(words().any(|word| word == "TODO" || word == "FIXME"));
            return false;
        }
        true
    });
    count
}

#[cfg(test)]
mod tests;
