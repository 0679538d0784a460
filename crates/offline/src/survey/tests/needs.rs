//! What a report says of what is needed, and of what is imported.

use super::*;

/// Surveys a module of Go that requires four others.
fn dependencies_of_go(files: &[(&str, &str)]) -> String {
    let manifest = "module example.org/kite\n\nrequire (\n\tgust.org/x v1.0.0\n\trope.org/x/v2 v2.0.0\n\
                    \twing.org/x v3.0.0\n\ttail.org/x v4.0.0\n)\n";
    let mut all = vec![("go.mod", manifest)];
    all.extend(files);
    dependencies_of(&all)
}

/// Returns the whole section about dependencies of a survey.
fn dependencies_of(files: &[(&str, &str)]) -> String {
    let report = survey_in("Survey this repository", files);
    let section = report.split_once("## Dependencies\n\n").map_or("", |(_, text)| text);
    let section = section.split("\n\n## ").next().unwrap_or_default();
    section.split("\n\n---\n").next().unwrap_or_default().to_owned()
}

const LIBRARY: &str = "package kite\n\nimport \"gust.org/x/deep\"\n";
const TEST: &str = "package kite\n\nimport (\n\t\"gust.org/x\"\n\t\"rope.org/x/v2\"\n)\n";

#[test]
fn a_module_that_only_tests_import_is_named_apart() {
    let tools = "//go:build tools\n\npackage kite\n\nimport _ \"tail.org/x\"\n";
    let example = "package main\n\nimport \"wing.org/x\"\n\nfunc main() {}\n";
    assert_eq!(
        dependencies_of_go(&[
            ("kite.go", LIBRARY),
            ("kite_test.go", TEST),
            ("examples/fly/main.go", example),
            ("tools.go", tools),
        ]),
        "1 at run time: `gust.org/x` v1.0.0.\n\n\
         - Only examples and tools import: `tail.org/x` v4.0.0, `wing.org/x` v3.0.0\n\
         - Only tests import: `rope.org/x/v2` v2.0.0"
    );
}

#[test]
fn a_module_that_only_a_generated_file_imports_is_needed() {
    assert_eq!(
        dependencies_of_go(&[
            ("kite.go", LIBRARY),
            ("kite.pb.go", "package kite\n\nimport \"rope.org/x/v2\"\n"),
            ("kite_test.go", TEST),
            ("vendor/wing.org/x/a.go", "package x\n\nimport \"tail.org/x\"\n"),
        ]),
        "2 at run time: `gust.org/x` v1.0.0, `rope.org/x/v2` v2.0.0.\n\n\
         - No file imports: `tail.org/x` v4.0.0, `wing.org/x` v3.0.0"
    );
    // Without a source nothing contradicts the manifest.
    let all = dependencies_of_go(&[("README.md", "# Kite\n")]);
    assert!(all.starts_with("4 at run time: `gust.org/x` v1.0.0, "), "{all}");
}

#[test]
fn a_tool_of_a_go_module_is_for_development() {
    let manifest = "module example.org/kite\n\ntool gust.org/x/cmd/gust\n\ntool (\n\t\"rope.org/x\"\n\
                    \ttail.org/x/cmd/tail // Draws.\n)\n\nrequire (\n\tgust.org/x v1.0.0\n\
                    \trope.org/x v1.0.0\n\ttail.org/x v1.0.0 // indirect\n\twing.org/x v1.0.0\n)\n";
    let library = ("kite.go", "package kite\n\nimport \"gust.org/x/deep\"\n");
    assert_eq!(
        dependencies_of(&[("go.mod", manifest), library]),
        "1 at run time: `gust.org/x` v1.0.0; 2 for development and building.\n\n\
         - No file imports: `wing.org/x` v1.0.0"
    );
    assert_eq!(
        dependencies_of(&[("go.mod", manifest)]),
        "1 at run time: `wing.org/x` v1.0.0; 3 for development and building."
    );
}

#[test]
fn where_a_source_was_not_parsed_nothing_is_said_of_all() {
    let large = format!("package kite\n{}", "// Flies.\n".repeat(60_000));
    assert_eq!(
        dependencies_of_go(&[("kite.go", LIBRARY), ("kite_test.go", TEST), ("large.go", &large)]),
        "1 at run time by the files that were parsed: `gust.org/x` v1.0.0.\n\n\
         - None of the files that were parsed imports: `tail.org/x` v4.0.0, `wing.org/x` v3.0.0\n\
         - Of the files that were parsed, only tests import: `rope.org/x/v2` v2.0.0"
    );
}

#[test]
fn children_tell_what_only_tests_import() {
    let mut files = vec![(
        "go.mod".to_owned(),
        "module example.org/kite\n\nrequire gust.org/x v1.0.0\nrequire rope.org/x v1.0.0\n"
            .to_owned(),
    )];
    let filler = "// Flies.\n".repeat(60);
    for number in 0..20 {
        files.push((
            format!("a/n{number}.go"),
            format!("package a\n\nimport \"gust.org/x\"\n{filler}"),
        ));
        files.push((
            format!("b/n{number}_test.go"),
            format!("package b\n\nimport \"rope.org/x\"\n{filler}"),
        ));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    let (shared, children) = with_children(&Repository::new(&files));
    assert_eq!(children, 2);
    let needed =
        "1 at run time: `gust.org/x` v1.0.0.\n\n- Only tests import: `rope.org/x` v1.0.0\n";
    assert!(shared.answer.contains(needed), "{}", shared.answer);
}

#[test]
fn a_program_that_go_does_not_build_is_no_entry_point() {
    let generator = "//go:build ignore\n\npackage main\n\nfunc main() {}\n";
    let report = survey_in(
        "Survey this repository",
        &[("go.mod", "module example.org/kite\n"), ("gen.go", generator), ("kite.go", LIBRARY)],
    );
    assert_eq!(section_of(&report, "Entry points"), "");
}

/// Returns the line about the files that most others import.
fn most_imported(files: &[(&str, &str)]) -> String {
    let report = survey_in("Survey this repository", files);
    let line = report.lines().find(|line| line.starts_with("- Imported by most files: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn imports_are_counted_for_sources_not_for_declarations() {
    for (specifier, source) in [
        ("./x.js", "x.ts"),
        ("./x.js", "x.tsx"),
        ("./x.js", "x.js"),
        ("./x.js", "x.jsx"),
        ("./x", "x.js"),
        ("./x", "x.jsx"),
        ("./x.mjs", "x.mts"),
    ] {
        let import = format!("import {{ a }} from '{specifier}';\n");
        let files = [
            ("a.ts", import.as_str()),
            ("b.ts", import.as_str()),
            ("x.d.ts", "export const a: number;\n"),
            (source, "export const a = 1;\n"),
        ];
        let line = most_imported(&files);
        assert!(
            line.contains(&format!("`{source}`")) && !line.contains("d.ts"),
            "{specifier}: {line}"
        );
    }
    let import = "import { a } from './x.js';\n";
    let both = [("a.ts", import), ("b.ts", import), ("x.js", "var a;\n"), ("x.ts", "let a;\n")];
    assert!(most_imported(&both).contains("`x.ts`"), "{}", most_imported(&both));
    let only = [("a.ts", import), ("b.ts", import), ("x.d.ts", "export const a: number;\n")];
    assert!(most_imported(&only).contains("`x.d.ts`"), "{}", most_imported(&only));
}

#[test]
fn a_justfile_is_not_one_of_make() {
    let report = survey_in(
        "Survey this repository",
        &[("justfile", "test:\n    cargo test\n"), ("src/lib.rs", "fn a() {}\n")],
    );
    assert!(report.contains("Just 2 lines in 1 file") && !report.contains("Make"), "{report}");
}

#[test]
fn a_dependency_counts_once_however_often_it_is_named() {
    let python = "[project]\nname = \"kite\"\n[project.optional-dependencies]\n\
                  test = [\"gust>=1; python_version < '3'\", \"Rope_End\"]\n\
                  dev = [\"kite[test]\", \"gust\", \"rope-end>=2\", \"tail\"]\n\
                  [dependency-groups]\na = [\"wing\", {include-group = \"b\"}]\nb = [\"wing>=1\"]\n";
    let report = survey_in("Survey this repository", &[("pyproject.toml", python)]);
    assert_eq!(
        section_of(&report, "Dependencies"),
        "None at run time; 3 optional; 1 for development and building."
    );
    let member = |name: &str| {
        format!(
            "[package]\nname = \"{name}\"\n[dependencies]\nrope = {{ version = \"1\", optional = true }}\n\
             [dev-dependencies]\ngust = \"1\"\n[build-dependencies]\ngust = \"1\"\ncc = \"1\"\n\
             [target.'cfg(unix)'.dev-dependencies]\nwing = {{ path = \"../b\" }}\nb = {{ path = \"../b\" }}\n"
        )
    };
    let a = member("a");
    let b = member("b");
    let report = survey_in("Survey this repository", &[("a/Cargo.toml", &a), ("b/Cargo.toml", &b)]);
    assert_eq!(
        section_of(&report, "Dependencies"),
        "None at run time; 1 optional; 3 for development and building."
    );
}

#[test]
fn a_licence_too_many_is_said_after_all_files() {
    let cargo = "[package]\nname = \"kite\"\nlicense = \"BSL-1.0\"\n";
    let both = "Boost Software License - Version 1.0\ncc0 1.0 universal\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("Cargo.toml", cargo),
            ("COPYING", both),
            ("LICENSE", "Boost Software License - Version 1.0"),
        ],
    );
    let line = "- Licence: BSL-1.0 (`COPYING`, `LICENSE`); `COPYING` has the text of CC0-1.0 too\n";
    assert!(report.contains(line), "{report}");
}

#[test]
fn tools_of_a_manifest_without_a_name_are_not_needed_at_run_time() {
    let files = [
        ("Cargo.toml", "[package]\nname = \"kite\"\n[dependencies]\nwing = \"1\"\n"),
        ("package.json", r#"{"dependencies": {"eslint": "^10"}, "scripts": {"lint": "eslint"}}"#),
        ("src/lib.rs", "fn a() {}\n"),
    ];
    assert_eq!(
        dependencies_of(&files),
        "Cargo: 1 at run time: `wing` 1.\n\nnpm: private packages need `eslint` ^10."
    );
}

#[test]
fn dependencies_stand_apart_for_each_tool() {
    let cargo = "[package]\nname = \"kite\"\n[dependencies]\nwing = \"1\"\n[dev-dependencies]\ngust = \"1\"\n\
                 [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
    let python = "[project]\nname = \"kite\"\ndependencies = [\"rope>=2\"]\n\
                  [project.optional-dependencies]\nfly = [\"tail\"]\n";
    let cargo_needs =
        "1 at run time: `wing` 1; 1 for development and building.\n\n- On Unix: `libc` 0.2";
    assert_eq!(
        dependencies_of(&[("Cargo.toml", cargo), ("pyproject.toml", python)]),
        format!("Cargo: {cargo_needs}\n\nPython: 1 at run time: `rope` >=2; 1 optional.")
    );
    // Settings of tools alone are no package.
    let settings = "[tool.ruff]\nline-length = 100\n";
    assert_eq!(
        dependencies_of(&[("Cargo.toml", cargo), ("pyproject.toml", settings)]),
        cargo_needs
    );
}

#[test]
fn extras_are_optional_whatever_manifest_has_them() {
    let listed = "EXTRAS = {\n    # Flies.\n    'fly': ['gust>=1', 'Rope_End'],\n    'all': ('gust', 'kite[fly]'),\n\
                  ':python_version < \"3\"': ['tail'],\n}\n\
                  setup(name='kite', install_requires=['wing'], extras_require=EXTRAS)\n";
    let computed =
        "setup(name='kite', install_requires=['wing'], extras_require={'a': ['b'], 'c': more()})\n";
    let ini = "[metadata]\nname = kite\n[options]\ninstall_requires = wing\n\
               [options.extras_require]\nfly =\n    gust>=1\n    Rope_End\nall = kite[fly]\nfar = file: far.txt\n";
    for (files, expected) in [
        (
            vec![("setup.py", listed)],
            "1 at run time: `wing`; 2 optional.\n\n- For Python < 3: `tail`",
        ),
        (vec![("setup.py", computed)], "1 at run time: `wing`."),
        (vec![("setup.cfg", ini)], "1 at run time: `wing`; 2 optional."),
        (
            vec![
                ("setup.cfg", "[metadata]\nname = kite\n[options]\ninstall_requires = wing\n"),
                ("setup.py", "setup(extras_require={'fly': ['gust']})\n"),
            ],
            "1 at run time: `wing`; 1 optional.",
        ),
    ] {
        assert_eq!(dependencies_of(&files), expected, "{files:?}");
    }
}
