//! How a line looks that begins a public item, a test case or a program, language by language.
//!
//! The patterns serve twice: the search tool finds the lines with them, and the same patterns
//! take the lines apart. A group `kind` names what an item is, a group `name` its name. Where
//! two lines make an item only together, each says its own half: see [`Begins`].

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::offline::pattern::fixed;

/// The line patterns of a language; an empty one matches nothing.
#[derive(Debug)]
pub(in crate::offline) struct Grammar {
    /// Its name in the table of languages.
    pub(in crate::offline) language: &'static str,
    /// Public items.
    pub(in crate::offline) items: &'static str,
    /// Test cases.
    pub(in crate::offline) tests: &'static str,
    /// Where a program begins.
    pub(in crate::offline) entry: &'static str,
}

const GRAMMARS: &[Grammar] = &[
    Grammar {
        language: "Rust",
        items: r#"^\s*pub\s+(?:(?:async|unsafe|safe|const|extern(?:\s+"[^"]*")?)\s+)*(?P<kind>fn|struct|enum|trait|union|type|static|const|macro)\s+(?:mut\s+)?(?:r#)?(?P<name>[A-Za-z]\w*|_\w+)|^\s*(?P<exports>#\[(?:cfg_attr\(.*\b)?macro_export\b.*\])(?:\s*macro_rules!\s*(?P<exported>\w+))?|^\s*macro_rules!\s*(?P<macro>\w+)"#,
        tests: r"^\s*#\[(?:[\w:]+::)?(?:test|rstest|test_case|quickcheck)\b",
        entry: r"^(?:pub\s+)?(?:async\s+)?fn\s+main\s*\(",
    },
    Grammar {
        language: "Python",
        items: r"^(?:async\s+)?(?P<kind>class|def)\s+(?P<name>[A-Za-z]\w*)",
        tests: r"^\s*(?:async\s+)?def\s+test_?\w*\s*\(",
        entry: r#"^if\s+__name__\s*==\s*['"]__main__"#,
    },
    Grammar { language: "TypeScript", items: TYPESCRIPT, tests: JEST, entry: "" },
    Grammar {
        language: "JavaScript",
        items: r"^\s*export\s+(?:default\s+)?(?:async\s+)?(?P<kind>function|class|const|let)\*?\s+(?P<name>[\w$]+)|^(?:module\.)?exports\.(?P<member>[\w$]+)\s*=|^module\.exports\s*=\s*(?:(?:async\s+)?(?:class|function)\s+)?(?P<whole>[A-Za-z_$][\w$]*)",
        tests: JEST,
        entry: "",
    },
    Grammar {
        language: "Go",
        items: r"^(?P<kind>func|type|const|var)\s+(?:\([^)]*\)\s*)?(?P<name>[A-Z]\w*)",
        tests: r"^func\s+(?:Test|Fuzz|Example)\w*\s*\(",
        entry: r"^func\s+main\s*\(\s*\)",
    },
    Grammar {
        language: "Java",
        items: r"^\s*public\s+(?:(?:static|final|abstract|sealed|strictfp)\s+)*(?P<kind>class|interface|enum|record|@interface)\s+(?P<name>\w+)",
        tests: r"^\s*@(?:Test|ParameterizedTest|RepeatedTest)\b",
        entry: r"\bpublic\s+static\s+void\s+main\s*\(",
    },
    Grammar {
        language: "Kotlin",
        items: r"^(?:public\s+)?(?:(?:open|data|sealed|abstract|enum|inline|value|suspend)\s+)*(?P<kind>class|interface|object|fun)\s+(?:<[^>]*>\s*)?(?P<name>\w+)",
        tests: r"^\s*@(?:Test|ParameterizedTest)\b",
        entry: r"^(?:suspend\s+)?fun\s+main\s*\(",
    },
    Grammar {
        language: "Scala",
        items: r"^(?:(?:final|sealed|abstract|case|implicit)\s+)*(?P<kind>class|trait|object|enum)\s+(?P<name>\w+)",
        tests: r#"^\s*(?:test\s*\(\s*"|it\s+should\b|".*"\s+(?:should|in)\b)"#,
        entry: r"\bextends\s+App\b|\bdef\s+main\s*\(|^@main\b",
    },
    Grammar {
        language: "C#",
        items: r"^\s*public\s+(?:(?:static|sealed|abstract|partial|readonly)\s+)*(?P<kind>class|interface|enum|struct|record)\s+(?P<name>\w+)",
        tests: r"^\s*\[(?:Fact|Theory|Test|TestCase|TestMethod)\b",
        entry: r"\bstatic\s+(?:async\s+)?(?:void|int|Task(?:<int>)?)\s+Main\s*\(",
    },
    Grammar {
        language: "C",
        items: r"^(?:typedef\s+)?(?P<kind>struct|enum|union)\s+(?P<name>\w+)\s*\{|^(?:extern\s+|\w+_API\s+)?(?:const\s+)?[a-z_]\w*[\s*]+(?P<member>\w+)\s*\([^;{}()]*\)\s*;",
        tests: r"^\s*(?:TEST|TEST_CASE|START_TEST)\s*\(",
        entry: r"^(?:int|void)\s+main\s*\(",
    },
    Grammar {
        language: "C++",
        items: r"^\s*(?P<kind>class|struct|enum class|enum)\s+(?:\w+_EXPORT\s+)?(?P<name>\w+)[^;]*$",
        tests: r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)\s*\(",
        entry: r"^(?:int|void|auto)\s+main\s*\(",
    },
    Grammar {
        language: "Ruby",
        items: r"^\s*(?P<kind>class|module)\s+(?P<name>[A-Z][\w:]*)",
        tests: r#"^\s*(?:it\s+['"]|specify\s+['"]|test\s+['"]|def\s+test_)"#,
        entry: r"^if\s+__FILE__\s*==\s*\$(?:0|PROGRAM_NAME)",
    },
    Grammar {
        language: "PHP",
        items: r"^\s*(?:(?:abstract|final|readonly)\s+)*(?P<kind>class|interface|trait|enum)\s+(?P<name>\w+)|^(?P<free>function)\s+(?P<member>\w+)\s*\(",
        tests: r"^\s*(?:public\s+)?function\s+test\w*\s*\(|^\s*#\[Test\]|^\s*(?:it|test)\s*\(\s*'",
        entry: "",
    },
    Grammar {
        language: "Swift",
        items: r"^\s*(?:public|open)\s+(?:(?:final|static|class|indirect)\s+)*(?P<kind>class|struct|enum|protocol|actor|func)\s+(?P<name>\w+)",
        tests: r"^\s*(?:func\s+test\w*\s*\(|@Test\b)",
        entry: r"^@main\b",
    },
    Grammar {
        language: "Dart",
        items: r"^(?:(?:abstract|sealed|final|base)\s+)*(?P<kind>class|mixin|enum|extension)\s+(?P<name>[A-Z]\w*)",
        tests: r#"^\s*(?:test|testWidgets)\s*\("#,
        entry: r"^(?:void|Future<void>)?\s*main\s*\(",
    },
    Grammar {
        language: "Elixir",
        items: r"^\s*(?P<kind>defmodule|defprotocol)\s+(?P<name>[A-Z][\w.]*)",
        tests: r#"^\s*(?:test|property)\s+""#,
        entry: "",
    },
    Grammar {
        language: "Zig",
        items: r"^pub\s+(?:inline\s+|extern\s+)?(?P<kind>fn|const)\s+(?P<name>\w+)",
        tests: r#"^test\s+(?:"|\w+\s*\{|\{)"#,
        entry: r"^pub\s+fn\s+main\s*\(",
    },
    Grammar {
        language: "Haskell",
        items: r"^(?P<kind>data|newtype|class|type)\s+(?:[^=]*=>\s*)?(?P<name>[A-Z]\w*)",
        tests: r#"^\s*(?:it|prop|testCase)\s+""#,
        entry: r"^main\s*::",
    },
    Grammar {
        language: "Lua",
        items: r"^(?P<kind>function)\s+(?P<name>[\w.:]+)",
        tests: r#"^\s*it\s*\(\s*['"]"#,
        entry: "",
    },
    Grammar {
        language: "Shell",
        items: r"^(?:function\s+)?(?P<name>[A-Za-z_][\w-]*)\s*\(\)\s*\{?",
        tests: r"^\s*@test\s",
        entry: "",
    },
];

const TYPESCRIPT: &str = r"^\s*export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?P<kind>function|class|interface|type|enum|const|namespace)\*?\s+(?P<name>[\w$]+)";
const JEST: &str =
    r#"^\s*(?:it|test)(?:\.(?:each|only|skip|concurrent|todo)\b[^(]*)?\s*\(\s*['"`]"#;

/// Go declares in groups too: where one opens and closes, and the lines one step in, which
/// declare something only inside of one.
const GO_GROUPS: &str = r"^(?P<opens>const|var|type)\s*\(\s*(?://.*)?$|^(?P<closes>\))|^\t(?P<within>[A-Z]\w*)(?:\[.*\])?(?:\s*,|\s+[^\s:]|\s*$)";

/// The lines of a language by which items are declared in groups, if it has such.
pub(in crate::offline) fn groups(language: &str) -> Option<&'static str> {
    (language == "Go").then_some(GO_GROUPS)
}

/// The grammar of a language, if there is one.
pub(in crate::offline) fn grammar(language: &str) -> Option<&'static Grammar> {
    GRAMMARS.iter().find(|grammar| grammar.language == language)
}

/// What a line begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::offline) enum Begins {
    /// A program.
    Program,
    /// A public item, by kind and name.
    Item(String, String),
    /// The macro that follows is public.
    Exports,
    /// A macro, public only where it was said so before.
    Macro(String),
    /// A group of public items of this kind, if their names are public.
    Group(String),
    /// What comes after a group.
    GroupEnd,
    /// A name one step in, an item only inside of a group.
    Member(String),
}

struct Compiled {
    language: &'static str,
    items: Option<Regex>,
    groups: Option<Regex>,
    tests: Option<Regex>,
    entry: Option<Regex>,
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let regex = |pattern: &str| (!pattern.is_empty()).then(|| fixed(pattern));
    let compiled = |grammar: &Grammar| Compiled {
        language: grammar.language,
        items: regex(grammar.items),
        groups: groups(grammar.language).map(fixed),
        tests: regex(grammar.tests),
        entry: regex(grammar.entry),
    };
    GRAMMARS.iter().map(compiled).collect()
});

/// What a line of a language begins, if it begins something.
pub(in crate::offline) fn begins(language: &str, line: &str) -> Option<Begins> {
    let grammar = COMPILED.iter().find(|grammar| grammar.language == language)?;
    let is = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(line));
    if is(&grammar.entry) {
        return Some(Begins::Program);
    }
    if is(&grammar.tests) {
        return None;
    }
    let Some(found) = grammar.items.as_ref()?.captures(line) else {
        return grouped(&grammar.groups.as_ref()?.captures(line)?);
    };
    let group = |name: &str| found.name(name).map(|part| part.as_str().to_owned());
    if let Some(name) = group("exported") {
        return Some(Begins::Item("macro".to_owned(), name));
    }
    if group("exports").is_some() {
        return Some(Begins::Exports);
    }
    if let Some(name) = group("macro") {
        return Some(Begins::Macro(name));
    }
    let name = ["name", "member", "whole"].iter().find_map(|name| group(name))?;
    let kind = group("kind").unwrap_or_else(|| match language {
        "JavaScript" => "export".to_owned(),
        _ => "function".to_owned(),
    });
    let kind = match kind.as_str() {
        "fn" | "func" | "fun" | "def" => "function".to_owned(),
        _ => kind,
    };
    Some(Begins::Item(kind, name))
}

fn grouped(found: &Captures<'_>) -> Option<Begins> {
    let group = |name: &str| found.name(name).map(|part| part.as_str().to_owned());
    let closes = || group("closes").map(|_| Begins::GroupEnd);
    let within = || group("within").map(Begins::Member);
    group("opens").map(Begins::Group).or_else(closes).or_else(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(language: &str, line: &str) -> String {
        match begins(language, line) {
            Some(Begins::Program) => "program".to_owned(),
            Some(Begins::Item(kind, name)) => format!("{kind} {name}"),
            Some(other) => format!("{other:?}"),
            None => String::new(),
        }
    }

    #[test]
    fn every_pattern_compiles_and_belongs_to_a_language() {
        for grammar in GRAMMARS {
            for pattern in [grammar.items, grammar.tests, grammar.entry] {
                Regex::new(pattern).unwrap();
            }
            assert_eq!(
                super::super::super::language::by_name(grammar.language).name,
                grammar.language
            );
        }
    }

    #[test]
    fn lines_that_begin_something() {
        for (language, line, begun) in [
            ("Rust", "pub async fn run(", "function run"),
            ("Rust", "    pub const fn new() {", "function new"),
            ("Rust", "pub(crate) struct Hidden;", ""),
            ("Rust", "pub trait Model: Send {", "trait Model"),
            ("Rust", "async fn main() {", "program"),
            ("Rust", "    pub static mut environ: *const u8;", "static environ"),
            ("Rust", "pub static NAME: &str = \"\";", "static NAME"),
            ("Rust", "pub const LIMIT: usize = 1;", "const LIMIT"),
            ("Rust", "pub const _: () = ();", ""),
            ("Rust", "pub const unsafe extern \"C\" fn call() {", "function call"),
            ("Rust", "pub fn r#try() {", "function try"),
            ("Rust", "#[macro_export]", "Exports"),
            ("Rust", "#[macro_export(local_inner_macros)]", "Exports"),
            ("Rust", "#[cfg_attr(x, macro_export)]", "Exports"),
            ("Rust", "#[macro_export] macro_rules! cfg {", "macro cfg"),
            ("Rust", "macro_rules! hidden {", "Macro(\"hidden\")"),
            ("Python", "class Frame:", "class Frame"),
            ("Python", "def _hidden():", ""),
            ("Python", "def test_frame():", ""),
            ("Go", "func TestFrame(t *testing.T) {", ""),
            ("Python", "    def method(self):", ""),
            ("Python", "if __name__ == \"__main__\":", "program"),
            ("TypeScript", "export default async function load() {", "function load"),
            ("TypeScript", "export const x = 1", "const x"),
            ("JavaScript", "exports.parse = function", "export parse"),
            ("JavaScript", "module.exports = class List extends Base {", "export List"),
            ("JavaScript", "module.exports = {", ""),
            ("Go", "func (s *Server) Serve() error {", "function Serve"),
            ("Go", "func (s *Server) serve() error {", ""),
            ("Go", "type Server struct {", "type Server"),
            ("Go", "func main() {", "program"),
            ("Go", "const Limit = 1", "const Limit"),
            ("Go", "var ErrLost, ErrLate error", "var ErrLost"),
            ("Go", "type (", "Group(\"type\")"),
            ("Go", "const ( // limits", "Group(\"const\")"),
            ("Go", ")", "GroupEnd"),
            ("Go", "\tServer struct {", "Member(\"Server\")"),
            ("Go", "\tPair[K comparable] struct {", "Member(\"Pair\")"),
            ("Go", "\tLimit = iota", "Member(\"Limit\")"),
            ("Go", "\tNext", "Member(\"Next\")"),
            ("Go", "\tName: value,", ""),
            ("Go", "\tCall(x)", ""),
            ("Go", "\tlocal int", ""),
            ("Java", "public final class App {", "class App"),
            ("Java", "    public static void main(String[] a) {", "program"),
            ("C", "int frame_parse(const char *text, size_t n);", "function frame_parse"),
            ("C", "    return frame_parse(text, n);", ""),
            ("C", "int main(void) {", "program"),
            ("C++", "class Frame : public Base {", "class Frame"),
            ("C++", "class Frame;", ""),
            ("C#", "public sealed class App", "class App"),
            ("Ruby", "  module Frame", "module Frame"),
            ("PHP", "final class App", "class App"),
            ("PHP", "function boot() {", "function boot"),
            ("Shell", "build() {", "function build"),
        ] {
            assert_eq!(show(language, line), begun, "{language}: {line}");
        }
    }

    #[test]
    fn lines_that_are_test_cases() {
        for (language, line, yes) in [
            ("Rust", "    #[test]", true),
            ("Rust", "#[tokio::test(flavor = \"multi_thread\")]", true),
            ("Rust", "#[cfg(test)]", false),
            ("Rust", "#[bench]", false),
            ("Rust", "    #[test_case(1)]", true),
            ("Python", "    async def test_it(self):", true),
            ("Python", "def testing(", true),
            ("TypeScript", "  it('works', () => {", true),
            ("TypeScript", "  it.each([1])('works %d', (n) => {", false),
            ("TypeScript", "  split('a')", false),
            ("Go", "func TestParse(t *testing.T) {", true),
            ("Go", "func BenchmarkParse(b *testing.B) {", false),
            ("Java", "  @Test", true),
            ("Ruby", "  it \"works\" do", true),
            ("C#", "    [Fact]", true),
        ] {
            let tests = Regex::new(grammar(language).unwrap().tests).unwrap();
            assert_eq!(tests.is_match(line), yes, "{language}: {line}");
        }
    }
}
