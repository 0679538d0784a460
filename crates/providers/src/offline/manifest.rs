//! Packages, by the lines of their manifests, and other files that say how work is done here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::conversation::Ask;
use super::facts::{NOTABLE, Package, Place};
use super::language;
use super::part::{Part, part_of};
use super::readme::plain;
use super::scope::{Scope, under};
use super::search::{Found, Search};
use super::survey::shorten;

/// Lines of manifests that are read.
const LINES: u64 = 1_500;
/// Lines of one value that are read.
const VALUE_LINES: u64 = 12;

/// Manifests, by file name.
const NAMES: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "go.mod",
    "composer.json",
    "pom.xml",
    "pubspec.yaml",
    "mix.exs",
    "Package.swift",
    "build.gradle",
    "build.gradle.kts",
    "*.gemspec",
    "*.csproj",
    "*.cabal",
    "deno.json",
    "CMakeLists.txt",
    "setup.py",
];

/// The lines of manifests that name things.
const PATTERN: &str = r#"^\s{0,4}"?(?:name|description|summary|synopsis|private|version)"?\s*[:=]|^\[|^module\s|^\s*\w+\.(?:name|summary|description)\s*=|^\s{0,4}<(?:artifactId|name|description)>|^\s*</?parent>|^[\w.-]+\s*=\s*"[\w.]+:[\w.]+"|^\s+app:\s|^\s*name:\s*"|^(?i:project)\s*\(|^\s*<Description>"#;

/// Whether a file is a manifest of the project itself.
fn is_manifest(path: &str) -> bool {
    let name = language::file_name(path);
    let known = NAMES.iter().any(|known| match known.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *known,
    });
    known && part_of(path) == Part::Main
}

/// The naming lines of all manifests.
#[derive(Debug)]
pub(super) struct Manifests<'t> {
    /// The lines.
    pub(super) found: Found<'t>,
    /// Lines whose value goes on below them, by file and number, with all of it.
    whole: BTreeMap<(&'t str, u64), String>,
}

/// Asks for the naming lines, and for what those begin that go on below.
pub(super) fn ask<'t>(
    ask: &mut Ask<'t, '_>,
    scope: &Scope,
    files: &[(&str, u64)],
) -> Manifests<'t> {
    if !files.iter().any(|(path, _)| is_manifest(path)) {
        return Manifests { found: Found::nothing(), whole: BTreeMap::new() };
    }
    let found = Search::lines(scope, "manifests", PATTERN, NAMES).first(LINES).ask(ask);
    let open = found.hits().filter(|hit| is_manifest(hit.path) && is_open(hit.text));
    let whole = open.take(NOTABLE).filter_map(|hit| {
        let arguments = json!({"path": hit.path, "offset": hit.line, "limit": VALUE_LINES});
        let text = ask.call("read_file", arguments)?.ok()?;
        Some(((hit.path, hit.line), joined(&plain(text))))
    });
    let whole = whole.collect();
    Manifests { found, whole }
}

/// Marks of a text of several lines.
const QUOTES: [&str; 2] = ["\"\"\"", "'''"];

/// What a line gives to its key.
fn value(text: &str) -> &str {
    text.split_once([':', '=']).map_or("", |(_, value)| value.trim())
}

/// Whether the value of a line goes on below it.
fn is_open(text: &str) -> bool {
    let value = value(text);
    let quoted = |quote: &&str| value.strip_prefix(*quote).is_some_and(|v| !v.contains(*quote));
    QUOTES.iter().any(quoted) || matches!(value, ">" | ">-" | "|" | "|-")
}

/// The lines of a value as a single one.
fn joined(text: &str) -> String {
    let (first, below) = text.split_once('\n').unwrap_or((text, ""));
    let key = first.split([':', '=']).next().unwrap_or_default();
    let opened = value(first);
    let said = match QUOTES.iter().find(|quote| opened.starts_with(**quote)) {
        Some(quote) => {
            let begun = opened.trim_start_matches(quote);
            let below = below.split(quote).next().unwrap_or_default().lines();
            // A backslash at the end joins the next line without a break.
            let lines = std::iter::once(begun).chain(below).map(|l| l.trim_end_matches('\\'));
            lines.collect::<Vec<_>>().join(" ")
        }
        None => {
            let inside = |line: &&str| line.starts_with([' ', '\t']);
            below.lines().take_while(inside).collect::<Vec<_>>().join(" ")
        }
    };
    format!("{key}= {}", said.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The packages that the lines name, nearest to the top first, and how many manifests there
/// are in all.
pub(super) fn packages(manifests: &Manifests<'_>, files: &[(&str, u64)]) -> (Vec<Package>, u64) {
    let mut all: BTreeMap<&str, (Package, String)> = BTreeMap::new();
    for hit in manifests.found.hits().filter(|hit| is_manifest(hit.path)) {
        let empty = || (Package { path: hit.path.to_owned(), ..Package::default() }, String::new());
        let (package, section) = all.entry(hit.path).or_insert_with(empty);
        let whole = manifests.whole.get(&(hit.path, hit.line));
        line(package, section, whole.map_or(hit.text, String::as_str));
    }
    let mut packages: Vec<Package> =
        all.into_values().map(|(package, _)| package).filter(|p| !p.name.is_empty()).collect();
    packages.sort_by_key(|package| package.path.matches('/').count());
    packages.truncate(NOTABLE);
    let total = files.iter().filter(|(path, _)| is_manifest(path)).count();
    (packages, total as u64)
}

/// Takes a line of a manifest into its package. `section` is the last heading.
fn line(package: &mut Package, section: &mut String, text: &str) {
    let text = text.trim();
    if text.starts_with('[') {
        text.trim_matches(['[', ']']).clone_into(section);
        return;
    }
    if let Some(name) = text.strip_prefix("module ") {
        set(&mut package.name, name);
        return;
    }
    if text == "<parent>" || text == "</parent>" {
        text.trim_matches(['<', '>']).clone_into(section);
        return;
    }
    if section == "parent" {
        return;
    }
    if let Some((_, tagged)) = text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        let value = tagged.split('<').next().unwrap_or_default();
        let about = text.starts_with("<description") || text.starts_with("<Description");
        set(if about { &mut package.about } else { &mut package.name }, value);
        return;
    }
    if text.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("project")) {
        let inner = text.split_once('(').map_or("", |(_, inner)| inner);
        set(&mut package.name, inner.split([' ', ')']).next().unwrap_or_default());
        return;
    }
    let Some((key, value)) = text.split_once([':', '=']) else { return };
    let key = key.trim().trim_matches('"').rsplit('.').next().unwrap_or_default().trim();
    let value = value.trim().trim_end_matches(',').trim();
    let own = matches!(section.as_str(), "" | "package" | "project" | "tool.poetry" | "metadata");
    match (key, section.as_str()) {
        ("name", "bin") => package.programs.push(bare(value).to_owned()),
        (_, "project.scripts" | "tool.poetry.scripts") => package.programs.push(key.to_owned()),
        ("name" | "app", _) if own => set(&mut package.name, value),
        ("description" | "summary" | "synopsis", _) if own => set(&mut package.about, value),
        _ => {}
    }
}

fn bare(value: &str) -> &str {
    value.trim().trim_start_matches('>').trim_matches(['"', '\'', ':', ' ', ','])
}

/// Sets what is not set yet: the first line of a manifest that names something is about itself.
fn set(field: &mut String, value: &str) {
    let value = bare(value);
    let plain = !value.starts_with(['{', '[', '$', '|', '>']) && !value.contains("#{");
    let plain = plain && !value.is_empty();
    if field.is_empty() && plain {
        *field = shorten(value, 160);
    }
}

/// The scripts and programs of the `package.json` at the top.
pub(super) fn ask_scripts(
    ask: &mut Ask<'_, '_>,
    scope: &Scope,
    files: &[(&str, u64)],
) -> Vec<Place> {
    let path = under(&scope.root, "package.json");
    if !files.iter().any(|(file, _)| *file == path) {
        return Vec::new();
    }
    let done = ask.call("read_file", json!({"path": path, "limit": 600}));
    let Some(text) = done.and_then(super::conversation::Done::ok) else { return Vec::new() };
    scripts(&path, &plain(text))
}

fn scripts(path: &str, text: &str) -> Vec<Place> {
    let Ok(manifest) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let keys = |field: &str| -> Vec<String> {
        let names = manifest.get(field).and_then(Value::as_object);
        names.map(|names| names.keys().cloned().collect()).unwrap_or_default()
    };
    let words = |field: &str| manifest.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut out = Vec::new();
    let mut say = |what: String| out.push(Place { path: path.to_owned(), line: 0, what });
    let programs = keys("bin");
    if !programs.is_empty() {
        say(format!("programs: {}", list(&programs)));
    } else if let Some(program) = words("bin") {
        say(format!("program: {program}"));
    }
    if let Some(main) = words("main").or_else(|| words("module")) {
        say(format!("module: {main}"));
    }
    let scripts = keys("scripts");
    if !scripts.is_empty() {
        say(format!("scripts: {}", list(&scripts)));
    }
    out
}

fn list(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(10).cloned().collect();
    let more = names.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Files that say how something is built, run or checked.
pub(super) fn landmarks(files: &[(&str, u64)]) -> Vec<Place> {
    let known = |path: &str| {
        let name = language::file_name(path);
        Some(match name {
            "Makefile" | "makefile" | "GNUmakefile" => "make targets",
            "justfile" | "Justfile" => "just recipes",
            "Dockerfile" | "Containerfile" => "container image",
            "docker-compose.yml" | "docker-compose.yaml" | "compose.yml" | "compose.yaml" => {
                "services"
            }
            ".gitlab-ci.yml" | "Jenkinsfile" | ".travis.yml" | "azure-pipelines.yml" => {
                "continuous integration"
            }
            "Procfile" => "processes",
            "lib.rs" if path.ends_with("src/lib.rs") => "library begins",
            "__main__.py" => "program begins",
            "manage.py" => "Django commands",
            _ if path.contains(".github/workflows/") => "continuous integration",
            _ => return None,
        })
    };
    let own = files.iter().filter(|(path, _)| part_of(path) == Part::Main);
    let found = own.filter_map(|(path, _)| {
        Some(Place { path: (*path).to_owned(), line: 0, what: known(path)?.to_owned() })
    });
    found.take(NOTABLE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(lines: &[&str]) -> (String, String, Vec<String>) {
        let (mut package, mut section) = (Package::default(), String::new());
        lines.iter().for_each(|text| line(&mut package, &mut section, text));
        (package.name, package.about, package.programs)
    }

    #[test]
    fn manifests_name_their_package() {
        let cases: [(&[&str], &str, &str, &[&str]); 8] = [
            (
                &[
                    "[package]",
                    "name = \"a\"",
                    "description = \"Does.\"",
                    "[[bin]]",
                    "name = \"x\"",
                    "[dependencies.b]",
                ],
                "a",
                "Does.",
                &["x"],
            ),
            (&["[workspace]"], "", "", &[]),
            (&["  \"name\": \"a\",", "  \"description\": \"Does.\","], "a", "Does.", &[]),
            (
                &["[project]", "name = 'a'", "[project.scripts]", "run = \"a.cli:main\""],
                "a",
                "",
                &["run"],
            ),
            (&["module example.org/a"], "example.org/a", "", &[]),
            (
                &["  <artifactId>a</artifactId>", "  <description>Does.</description>"],
                "a",
                "Does.",
                &[],
            ),
            (&["  spec.name = \"a\"", "  spec.summary = \"Does.\""], "a", "Does.", &[]),
            (&["project(a LANGUAGES C)"], "a", "", &[]),
        ];
        for (lines, name, about, programs) in cases {
            let programs = programs.iter().map(|&p| p.to_owned()).collect();
            assert_eq!(package(lines), (name.to_owned(), about.to_owned(), programs));
        }
    }

    #[test]
    fn a_description_may_go_on_below() {
        for (text, said) in [
            ("description = \"\"\"\nA tool\nto fly.\n\"\"\"\nname = \"x\"", "A tool to fly."),
            ("description = \"\"\"A tool \\\n  to [fly].\"\"\"\n", "A tool to [fly]."),
            ("description = '''\nA tool.'''", "A tool."),
            ("description: >-\n  A tool\n  to fly.\nname: x", "A tool to fly."),
            ("description: |\n", ""),
        ] {
            let first = text.lines().next().unwrap();
            assert!(is_open(first), "{first}");
            assert_eq!(package(&[&joined(text)]).1, said, "{text}");
        }
        for line in
            ["description = \"A.\"", "description = \"\"\"A.\"\"\"", "name = \"x\"", "[package]"]
        {
            assert!(!is_open(line), "{line}");
        }
    }

    #[test]
    fn a_package_json_tells_what_can_be_run() {
        let text =
            r#"{"main": "a.js", "bin": {"a": "a.js"}, "scripts": {"build": "x", "test": "y"}}"#;
        let said: Vec<_> = scripts("package.json", text).into_iter().map(|p| p.what).collect();
        assert_eq!(said, ["programs: a", "module: a.js", "scripts: build, test"]);
        assert_eq!(scripts("package.json", "{"), []);
    }
}
