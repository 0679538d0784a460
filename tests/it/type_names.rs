//! One word, one meaning: hardly any type name stands for several types. A type's name is a noun,
//! and it is the name that `Debug` prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tool_names::{code, sources};

/// How many types of one name the workspace may have.
const MOST: usize = 3;

/// Names whose meaning is the same wherever they stand: the arguments of a tool.
const RECURRING: [&str; 1] = ["Args"];

/// Words that end as participles do and are nouns.
const NOUNS: [&str; 11] = [
    "Binding",
    "Calling",
    "Listing",
    "Nesting",
    "Pacing",
    "Recording",
    "Ring",
    "Seed",
    "Setting",
    "Spending",
    // A block of a reply, as a provider names it.
    "Thinking",
];

/// Participles that do not end in `ed` or `ing`, and other words that name a moment.
const MOMENTS: [&str; 24] = [
    "Begun", "Chosen", "Done", "Drawn", "Found", "Given", "Gone", "Held", "Kept", "Known", "Left",
    "Lent", "Lost", "Made", "Met", "Over", "Said", "Seen", "Sent", "Shown", "Spent", "Taken",
    "Told", "Written",
];

/// The source files whose types have names to check.
fn all_sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "plugins", "examples/src", "benches/src", "fuzz/src", "fuzz/targets"] {
        sources(&root.join(folder), &mut files);
    }
    files
}

/// The same with all tests; those of macros and fixtures are what other programs write.
fn sources_with_tests() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> = ["crates", "plugins", "examples", "benches", "fuzz", "tests"]
        .map(|folder| root.join(folder))
        .into();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["target", "fixtures", "ui", "templates"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Whether a name is no noun: its last word is a participle, or it begins with `Of`.
fn names_a_moment(name: &str) -> bool {
    let last = name.rfind(char::is_uppercase).map_or(name, |at| &name[at..]);
    let is_noun = NOUNS.contains(&last);
    let ends_as_one = last.ends_with("ed") || last.ends_with("ing");
    let is_of = name.strip_prefix("Of").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    (ends_as_one && !is_noun) || MOMENTS.contains(&last) || is_of
}

/// The names that hand-written `Debug` impls print, each with the name of its type. A name is a
/// literal's first word if it begins with a capital letter.
fn printed_names(source: &str) -> Vec<(&str, &str)> {
    let mut names = Vec::new();
    for (at, _) in source.match_indices("Debug for ") {
        let end_of = |text: &str| text.find(|letter: char| !letter.is_alphanumeric());
        let rest = &source[at + "Debug for ".len()..];
        let name = &rest[..end_of(rest).unwrap_or(rest.len())];
        let block = &rest[..rest.find("\n}").unwrap_or(rest.len())];
        for literal in block.split('"').skip(1).step_by(2) {
            let printed = &literal[..end_of(literal).unwrap_or(literal.len())];
            if printed.starts_with(char::is_uppercase) {
                names.push((name, printed));
            }
        }
    }
    names
}

/// Returns the name of the type that a line declares. An indented `type` belongs to a trait or an impl.
fn declared(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let line = line.trim_start();
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |it| it.1);
        rest.trim_start()
    });
    let (keyword, rest) = rest.split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_indented,
        _ => false,
    };
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    is_type.then(|| &rest[..end.unwrap_or(rest.len())])
}

#[test]
fn declarations_are_found_and_nothing_else_is() {
    for (line, name) in [
        ("pub(crate) struct Head<'a> {", Some("Head")),
        ("pub enum End {", Some("End")),
        ("trait Model: Send {", Some("Model")),
        ("type Supervisors = u8;", Some("Supervisors")),
        ("pub(super) struct Unit;", Some("Unit")),
        ("    struct Inner;", Some("Inner")),
        ("    type Output = u8;", None),
        ("pub fn structure() {}", None),
        ("// struct Gone;", None),
        ("", None),
    ] {
        assert_eq!(declared(line), name, "{line}");
    }
}

#[test]
fn a_type_name_stands_for_few_types() {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in all_sources()
        .into_iter()
        .filter(|file| !file.components().any(|it| it.as_os_str() == "fuzz"))
    {
        let source = code(&fs::read_to_string(&file).unwrap());
        for name in source.lines().filter_map(declared) {
            found.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(found.len() > 900, "only {} type names were found", found.len());
    found.retain(|name, files| files.len() > MOST && !RECURRING.contains(&name.as_str()));
    assert!(found.is_empty(), "name each type for what it is: {found:#?}");
}

#[test]
fn participles_are_told_from_nouns() {
    for name in ["Said", "OfFrame", "Prepared", "HostShared", "Waiting", "CommandOver"] {
        assert!(names_a_moment(name), "{name}");
    }
    for name in ["Binding", "JobListing", "KeyRing", "Offline", "Seed", "Args", "TargetParams"] {
        assert!(!names_a_moment(name), "{name}");
    }
}

#[test]
fn a_type_is_named_by_a_noun() {
    let mut found = Vec::new();
    let files = sources_with_tests();
    assert!(files.iter().any(|file| file.ends_with("tests/sim/life.rs")), "{files:#?}");
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let names = source.lines().map(str::trim_start).filter_map(declared);
        found.extend(names.filter(|name| names_a_moment(name)).map(str::to_owned));
    }
    assert!(found.is_empty(), "name each type by a noun: {found:?}");
}

#[test]
fn debug_prints_the_name_of_the_type() {
    let tape = "impl fmt::Debug for Recorder {\n    f.debug_tuple(\"Tape\")\n}\n";
    assert_eq!(printed_names(tape), [("Recorder", "Tape")]);
    let mut count = 0;
    let mut found = Vec::new();
    for file in all_sources() {
        let code = code(&fs::read_to_string(&file).unwrap());
        let names = printed_names(&code);
        count += names.len();
        let others = names.into_iter().filter(|(name, printed)| name != printed);
        found.extend(others.map(|(name, printed)| format!("{name} prints {printed}")));
    }
    assert!(count > 40, "only {count} names were found");
    assert!(found.is_empty(), "{found:#?}");
}

/// The names that a crate's root exports by `pub use`.
fn root_exports(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in source.split(";\n") {
        let Some((_, exported)) = statement.split_once("pub use ") else { continue };
        let list =
            exported.split_once('{').map_or(exported, |(_, list)| list.trim_end_matches('}'));
        let list = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.extend(list.map(|name| name.rsplit("::").next().unwrap_or(name)));
    }
    names
}

#[test]
fn the_root_of_core_has_few_names() {
    let source = "mod a;\npub use a::{\n    B, C,\n};\npub use d;\npub use e::f::G;\n";
    assert_eq!(root_exports(source), ["B", "C", "d", "G"]);
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates/core/src");
    let root = fs::read_to_string(core.join("lib.rs")).unwrap();
    let names = root_exports(&root);
    let mut files = Vec::new();
    sources(&core, &mut files);
    let macros =
        |file: &PathBuf| fs::read_to_string(file).unwrap().matches("#[macro_export]").count();
    let macros: usize = files.iter().map(macros).sum();
    assert!(macros > 0 && names.contains(&"ToolSpec"), "{names:?}");
    assert!(names.len() + macros <= 60, "{macros} macros and {names:?}");
}
