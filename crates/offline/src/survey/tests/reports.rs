//! What a report takes from the text of files.

use super::*;

#[test]
fn code_without_a_grammar_describes_nothing() {
    let script = "#!/usr/bin/env pwsh\n$basedir=Split-Path $MyInvocation.MyCommand.Definition -Parent\n\n$exe=\"\"\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("package.json", r#"{"name": "kite", "version": "1.0.0"}"#),
            ("shims/a.ps1", script),
            ("shims/b.ps1", script),
        ],
    );
    assert!(report.contains("| `shims/a.ps1` | 1 | 4 |  |"), "{report}");
}

/// What a report says of the dependencies of a package with metadata alone.
fn needed(more: &[(&str, &str)]) -> String {
    let metadata = ("PKG-INFO", "Metadata-Version: 1.1\nName: kite\nVersion: 1.0\n");
    let mut files = vec![metadata, ("kite/fly.py", "a = 1\n")];
    files.extend(more);
    section_of(&survey_in("Survey this repository", &files), "Dependencies")
}

#[test]
fn metadata_alone_leaves_dependencies_to_the_file_beside_it() {
    let text = "attrs<25,>=22\nwing[fast]\n\n[:python_version < \"3\"]\nsix\n\n[test]\npytest\n";
    let all = "2 at run time: `attrs` `<25,>=22`, `wing`; 1 optional.";
    for path in ["requires.txt", "kite.egg-info/requires.txt"] {
        assert_eq!(needed(&[(path, text)]), all);
    }
    assert_eq!(needed(&[]), "Not stated.");
    assert_eq!(needed(&[("setup.cfg", "[egg_info]\ntag_build =\n")]), "Not stated.");
    assert_eq!(needed(&[("requires.txt", "-r other.txt\n")]), "Not stated.");
    assert_eq!(needed(&[("requires.txt", "\n[test]\npytest\n")]), "None at run time; 1 optional.");
}

#[test]
fn dependencies_of_some_platforms_are_named_apart() {
    let cargo = "[package]\nname = \"kite\"\n[dependencies]\nwing = \"1\"\n\
                 [target.'cfg(windows)'.dependencies]\ngust = \"2\"\nwing = \"1\"\n\
                 [target.'cfg(target_os = \"windows\")'.dependencies]\nbreeze = \"3\"\n\
                 [target.'cfg(not(unix))'.dependencies]\ngust = \"2\"\nrope = { version = \"4\", optional = true }\n";
    let report = survey_in("Survey this repository", &[("Cargo.toml", cargo)]);
    let section = report.split_once("## Dependencies\n\n").unwrap().1;
    assert!(
        section.starts_with(
            "1 at run time: `wing` 1; 1 optional.\n\n\
             - On Windows: `breeze` 3, `gust` 2\n\
             - Where `cfg(not(unix))`: `gust` 2\n"
        ),
        "{report}"
    );
    let python = "[project]\nname = \"kite\"\ndependencies = [\"colorama; sys_platform == 'win32'\", \
                  \"tomli>=2; python_version<'3.11'\"]\n";
    let report = survey_in("Survey this repository", &[("pyproject.toml", python)]);
    let section = report.split_once("## Dependencies\n\n").unwrap().1;
    assert!(
        section.starts_with(
            "None at run time on every platform.\n\n\
             - For Python < 3.11: `tomli` >=2\n\
             - On Windows: `colorama`\n"
        ),
        "{report}"
    );
}

#[test]
fn what_is_not_needed_at_run_time_is_not_called_so() {
    let pom = "<project><artifactId>kite</artifactId><dependencies>\
               <dependency><artifactId>gust</artifactId><scope>provided</scope></dependency>\
               </dependencies></project>";
    let npm = r#"{"name": "kite", "dependencies": {"a": "1"}, "peerDependencies": {"b": "1", "c": "1"},
        "peerDependenciesMeta": {"c": {"optional": true}}}"#;
    let go = "module example.org/kite\n\nrequire (\n\t\"gust.org/x\" v1.0.0\n)\n";
    for (path, text, said) in [
        ("pom.xml", pom, "None at run time; 1 for development and building."),
        ("package.json", npm, "2 at run time: `a` 1, `b` 1; 1 optional."),
        ("go.mod", go, "1 at run time: `gust.org/x` v1.0.0."),
    ] {
        let report = survey_in("Survey this repository", &[(path, text), ("a.js", "a();\n")]);
        assert_eq!(section_of(&report, "Dependencies"), said, "{path}");
    }
}

#[test]
fn what_several_manifests_say_is_said_of_each_by_its_path() {
    let info = "Metadata-Version: 2.1\nName: kite\nSummary: Flies kites\n\
                Requires-Dist: gust; extra == \"test\"\n";
    let scripts: Vec<(String, &str)> = (10..17)
        .map(|n| (format!("scripts/s{n}.py"), "if __name__ == '__main__':\n    run()\n"))
        .collect();
    let mut files = vec![
        ("pyproject.toml", "[tool.black]\n"),
        ("setup.py", "from setuptools import setup\nmore = {}\nsetup(name='kite', **more)\n"),
        ("PKG-INFO", info),
    ];
    files.extend(scripts.iter().map(|(path, text)| (path.as_str(), *text)));
    let report = survey_in("Survey this repository", &files);
    assert!(report.starts_with("# kite\n\nFlies kites. (`PKG-INFO`)\n"), "{report}");
    assert_eq!(section_of(&report, "Dependencies"), "None at run time; 1 optional.");
    let entries = section_of(&report, "Entry points");
    assert!(entries.ends_with("- script: `scripts/s13.py:1`\n- 3 more scripts"), "{entries}");
}

/// What a report says of the dependencies of a package with a `setup.py` alone.
fn set_up(text: &str) -> String {
    let text = format!("from setuptools import setup\n{text}");
    let files = [("setup.py", text.as_str()), ("kite.py", "a = 1\n")];
    section_of(&survey_in("Survey this repository", &files), "Dependencies")
}

#[test]
fn dependencies_that_a_program_computes_are_not_called_none() {
    let computed = "Computed in `setup.py`, at line 4.";
    for text in [
        "needs = open('needs.txt').read()\nsetup(name='kite',\n  install_requires=needs.split())\n",
        "needs = ['a']\nneeds.append(b)\nsetup(name='kite', install_requires=needs)\n",
        "needs = ['a', b]\n\nsetup(name='kite', install_requires=needs)\n",
        "more = {}\nsetup(name='kite',\n  **more)\n",
    ] {
        assert_eq!(set_up(text), computed, "{text}");
    }
    let listed = "needs = ['a>=1',  # why\n  'b']\nsetup(name='kite', install_requires=needs)\n";
    assert_eq!(set_up(listed), "2 at run time: `a` >=1, `b`.");
    assert_eq!(set_up("setup(name='kite', install_requires=[])\n"), "None at run time.");
    let dynamic = "[project]\nname = 'kite'\ndynamic = ['dependencies']\n";
    let files = [("pyproject.toml", dynamic), ("kite.py", "a = 1\n")];
    let report = survey_in("Survey this repository", &files);
    assert_eq!(section_of(&report, "Dependencies"), "Not stated.");
    let cfg = "[metadata]\nname = kite\n[options]\ninstall_requires = file: needs.txt\n";
    let report = survey_in("Survey this repository", &[("setup.cfg", cfg), ("kite.py", "a = 1\n")]);
    assert_eq!(section_of(&report, "Dependencies"), "Not stated.");
}

#[test]
fn a_library_of_python_begins_where_it_is_imported() {
    let entries = |name: &str, files: &[(&str, &str)]| {
        let manifest = format!("[project]\nname = '{name}'\n");
        let mut all = vec![("pyproject.toml", manifest.as_str())];
        all.extend(files);
        section_of(&survey_in("Survey this repository", &all), "Entry points")
    };
    let text = "a = 1\n";
    assert_eq!(
        entries(
            "kite-py",
            &[
                ("src/kite_py/__init__.py", text),
                ("src/kite_py/fly.py", text),
                ("src/kite_py/deep/__init__.py", text),
                ("src/kite_more/__init__.py", text),
                ("tests/__init__.py", text),
                ("tools/__init__.py", text),
            ]
        ),
        "- library `kite_more`: `src/kite_more/__init__.py`\n\
         - library `kite_py`: `src/kite_py/__init__.py`"
    );
    assert_eq!(
        entries("kite", &[("kite.py", text), ("helper.py", text), ("tools/__init__.py", text)]),
        "- library `kite`: `kite.py`"
    );
    assert_eq!(
        entries(
            "Kite",
            &[
                ("wing/__init__.py", ""),
                ("wing/lift.py", text),
                ("wing/_own.py", text),
                ("wing/tail/__init__.py", text),
                ("_wing/__init__.py", text),
            ]
        ),
        "- library `wing` with `lift`, `tail`: `wing/__init__.py`"
    );
    assert_eq!(
        entries("air-kite", &[("air/kite/__init__.py", text), ("air/kite/a.py", text)]),
        "- library `air.kite`: `air/kite/__init__.py`"
    );
}

#[test]
fn a_script_named_for_tests_is_one_if_it_calls_them() {
    let test = "const test = require('node:test');\ntest('loads', () => {});\n";
    let files = [
        ("package.json", "{\"name\": \"kite\", \"version\": \"1.0.0\"}"),
        ("bindings/node/binding_test.js", test),
        ("bindings/node/index.js", "module.exports = require('./wind');\n"),
        ("bindings/node/wind.js", "exports.wind = 1;\nexports.gust = 2;\n"),
        ("lib/load_test.ts", "export function loadTest() { return 1; }\n"),
        ("lib/Wing-spec.ts", "import '../bindings/node/wind';\nit('lifts', () => {});\n"),
        ("lib/contest.js", "it('is no test by its name', () => {});\n"),
    ];
    let report = survey_in("Survey this repository", &files);
    assert_eq!(
        tests_of(&report),
        "2 test functions in 2 files:\n\n- `bindings/node`: 1 in 1 file\n- `lib`: 1 in 1 file"
    );
    let modules = section_of(&report, "Modules");
    assert!(modules.contains("| `lib/*` | 2 |") && !modules.contains("binding_test"), "{report}");
    // Only what is no test imports.
    assert!(!report.contains("Imported by most files"), "{report}");
    let repository = Repository::new(&files);
    let search = talk("find test outside of tests", FILES, 30, |tool, arguments| {
        repository.play(tool, arguments)
    });
    assert!(!search.answer.contains("binding_test.js:"), "{}", search.answer);
}

/// Returns the section about tests of a report.
fn tests_of(report: &str) -> &str {
    let section = report.split_once("## Tests\n\n").unwrap().1;
    section.split("\n\n---").next().unwrap()
}

#[test]
fn an_example_is_no_entry_point() {
    let main = "package org.kite.examples;\npublic class Fly {\n  public static void main(String[] args) {}\n}\n";
    let report = survey_in(
        "Survey this repository",
        &[
            ("pom.xml", "<project><artifactId>kite</artifactId></project>"),
            ("src/main/java/org/kite/Kite.java", "package org.kite;\npublic class Kite {}\n"),
            ("src/main/java/org/kite/examples/Fly.java", main),
        ],
    );
    assert_eq!(section_of(&report, "Entry points"), "", "{report}");
    let examples = section_of(&report, "Examples");
    assert_eq!(examples, "- `src/main/java/org/kite/examples`, 1 file: Fly.java", "{report}");
}

#[test]
fn test_files_are_named_where_no_function_is_found_in_them() {
    let report = survey_in(
        "Survey this repository",
        &[
            ("Cargo.toml", "[package]\nname = \"kite\"\n"),
            ("src/lib.rs", "#[test]\nfn a() {}\n"),
            ("tests/a.rs", "rgtest!(a, |dir| {});\n"),
            ("tests/b.rs", "rgtest!(a, |dir| {});\n#[test]\nfn b() {}\n"),
            ("tests/c.rs", "rgtest!(a, |dir| {});\n"),
            ("tests/fixtures/d.rs", "fn d() {}\n"),
            ("tests/sh/run.sh", "true\n"),
        ],
    );
    let section = report.split_once("## Tests\n\n").unwrap().1;
    assert!(
        section.starts_with(
            "2 test functions in 2 files; 3 more test files without one that a parser finds:\n\n\
             - `tests`: 1 in 1 file, and 2 more test files\n\
             - `src`: 1 in 1 file\n\
             - `tests/sh`: 1 test file\n"
        ),
        "{report}"
    );
    let none = survey_in(
        "Where are the tests?",
        &[("src/lib.rs", "fn a() {}\n"), ("tests/a.rs", "rgtest!(a);\n")],
    );
    assert_eq!(
        none,
        "1 test file of `.` without a test function that a parser finds:\n\n- `tests`: 1 test file\n"
    );
}

#[test]
fn any_number_of_generated_files_is_left_out() {
    let by_hand = "fn a() {}\n".repeat(30);
    let generated = format!("// Code generated by gust. DO NOT EDIT.\n{by_hand}");
    let mut files = vec![("Cargo.toml".to_owned(), "[package]\nname = \"kite\"\n".to_owned())];
    for number in 100..190 {
        files.push((format!("src/wing/n{number}.rs"), generated.clone()));
        files.push((format!("src/mixed/n{number}.rs"), generated.clone()));
    }
    for number in 0..9 {
        files.push((format!("src/mixed/own{number}.rs"), by_hand.clone()));
        files.push((format!("src/tail/own{number}.rs"), by_hand.clone()));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    let repository = Repository::new(&files);
    let alone = survey_in("Survey this repository", &files);
    let (shared, children) = with_children(&repository);
    assert_eq!(children, 2);
    for report in [alone, shared.answer] {
        for text in [
            "- Size: Rust 540 lines in 18 files (100.0 %), 180 generated files left out; 199 files",
            "Largest files, in lines: `src/mixed/own0.rs` 30, ",
        ] {
            assert!(report.contains(text), "{text}: {report}");
        }
        assert!(!report.contains("/n1") && !report.contains("counted as sources"), "{report}");
    }
}

#[test]
fn links_that_are_not_followed_are_counted() {
    let repository = Repository::new(&[("a.rs", "fn gust() {}\n")]);
    for (task, words) in [
        ("Survey this repository", "## Not looked at\n\n- 3 symbolic links: not followed"),
        ("find gusts", "\nNot looked at:\n\n- 3 symbolic links: not followed\n"),
        ("count zephyrs", "\nNot looked at:\n\n- 3 symbolic links: not followed\n"),
        ("where are the tests?", "\nNot looked at:\n\n- 3 symbolic links: not followed\n"),
    ] {
        let said = talk(task, FILES, 20, |tool, arguments| {
            let given = repository.play(tool, arguments);
            match tool {
                "search_files" => {
                    let note = format!("{}]\n[skipped: 3 symlinks", given.2);
                    (given.0, given.1, note.leak())
                }
                _ => given,
            }
        });
        assert!(said.answer.contains(words), "{task}: {}", said.answer);
    }
}

/// A source that is too large to be parsed.
fn large_source(first: &str) -> String {
    format!("{first}\n{}", "int flies;\n".repeat(60_000))
}

#[test]
fn what_a_program_wrote_is_no_source_anywhere() {
    let parser = large_source("/* Automatically @generated by tree-sitter v0.25.6 */");
    let own = large_source("/** Flies kites. */\n");
    let hand = "fn a() {}\n".repeat(20);
    let bound = format!("/* automatically generated by rust-bindgen 0.72.1 */\n{hand}");
    let repository = Repository::new(&[
        ("Cargo.toml", "[package]\nname = \"kite\"\n"),
        ("src/bindgen_1.rs", &bound),
        ("src/hidden.c", &parser),
        ("src/lib.rs", &hand),
        ("src/own.c", &own),
        ("src/parser.c", &parser),
    ]);
    let report = talk("Survey this repository", FILES, 20, |tool, arguments| {
        if tool == "read_file" && arguments["path"] == "src/hidden.c" {
            return (CallStatus::Error, "refused: not allowed: src/hidden.c".to_owned(), "");
        }
        repository.play(tool, arguments)
    });
    let report = report.answer;
    for path in ["bindgen_1.rs", "parser.c"] {
        assert!(!report.contains(path), "{path}: {report}");
    }
    // Of a file that cannot be read at all nothing is told but that.
    assert_eq!(report.matches("hidden.c").count(), 1, "{report}");
    for text in [
        "- Size: C 60,002 lines in 1 file (100.0 %), Rust 20 lines in 1 file (0.0 %), ",
        ", 2 generated files left out;",
        "| `src/own.c` | 1 | 60,002 | Flies kites. |",
        "- Largest files, in lines: `src/own.c` 60,002, `src/lib.rs` 20\n",
        "- `src/own.c`: not parsed, for it has more than 524,288 bytes",
        "- `src/hidden.c`: ",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
}

#[test]
fn what_is_quoted_stays_as_it_is() {
    let manifest = r#"{"name": "kite", "version": "1.0.0\u001b[2J", "description": "Flies \u001b]0;x\u0007kites <up> | down.",
        "engines": {"node": "^20.10.0 || ^22.11.0"}, "dependencies": {"a": ">=1 <2 || 3", "b": "^4"}}"#;
    let long = "fn a() {}\n".repeat(20);
    let lib = format!("//! Completes words with `COMPLETE=$SHELL <bin>` | sh.\n{long}");
    let report = survey_in(
        "Survey this repository",
        &[("package.json", manifest), ("src/lib.rs", &lib), ("src/b.rs", &long)],
    );
    for text in [
        "kites <up> | down. (`package.json`)",
        "- Requires: Node `^20.10.0 || ^22.11.0`\n",
        "2 at run time: `a` `>=1 <2 || 3`, `b` ^4.",
        "| `src/lib.rs` | 1 | 21 | Completes words with `COMPLETE=$SHELL <bin>` \\| sh. |",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    assert!(!report.contains(|c: char| c.is_control() && c != '\n'), "{report:?}");
}

#[test]
fn names_and_commands_of_what_lies_below_are_its_own() {
    let report = survey_in(
        "Survey this repository",
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"kite\"\n[dependencies]\nwing = { package = \"glider\", version = \"1\" }\n",
            ),
            ("src/lib.rs", "pub fn fly() {}\n"),
            (
                "web/package.json",
                r#"{"name": "web", "version": "1.0.0", "scripts": {"test": "vitest"}}"#,
            ),
            ("web/pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
            ("tool/go.mod", "module example.com/reel/v2\n\ngo 1.22\n"),
            ("tool/main.go", "package main\n\nfunc main() {}\n"),
        ],
    );
    assert!(section_of(&report, "Dependencies").contains("`glider` 1"), "{report}");
    assert!(report.contains("cd web && pnpm install"), "{report}");
    assert!(report.contains("`cd web && pnpm test` (vitest)"), "{report}");
    assert!(report.contains("program `reel`: `tool/main.go:3`"), "{report}");
}

/// A package of npm as its manifest.
const SITE: &str = r#"{"name": "site", "version": "1.0.0", "private": true, "main": "./dist/x.js",
    "dependencies": {"next": "^15", "react": "^19"}}"#;

#[test]
fn a_private_package_does_not_pass_for_the_published_one() {
    let report = survey_in(
        "Survey this repository",
        &[
            ("packages/a/package.json", r#"{"name": "a", "version": "1.0.0", "main": "a.js"}"#),
            ("packages/a/a.js", "a();\n"),
            ("packages/site/package.json", SITE),
            ("packages/site/x.js", "a();\n"),
        ],
    );
    assert_eq!(section_of(&report, "Entry points"), "- library `a`: `packages/a/a.js`");
    let section = report.split_once("## Dependencies\n\n").unwrap().1;
    let needed = "None at run time.\n\n- Private packages need: `next` ^15, `react` ^19\n";
    assert!(section.starts_with(needed), "{report}");
}

#[test]
fn a_private_package_alone_is_the_project() {
    let report = survey_in(
        "Survey this repository",
        &[("package.json", SITE), ("dist/x.js", "a();\n"), ("x.js", "a();\n")],
    );
    assert_eq!(section_of(&report, "Entry points"), "- private package `site`: `dist/x.js`");
    let needed = "2 at run time: `next` ^15, `react` ^19.";
    assert_eq!(section_of(&report, "Dependencies"), needed);
}

#[test]
fn what_a_crate_needs_that_is_not_published_is_named_apart() {
    let report = survey_in(
        "Survey this repository",
        &[
            ("Cargo.toml", "[package]\nname = \"kite\"\n[dependencies]\nwing = \"1\"\n"),
            ("src/lib.rs", "fn a() {}\n"),
            (
                "xtask/Cargo.toml",
                "[package]\nname = \"xtask\"\npublish = false\n[dependencies]\nwing = \"1\"\nrope = \"2\"\n",
            ),
            ("xtask/src/main.rs", "fn main() {}\n"),
        ],
    );
    let section = report.split_once("## Dependencies\n\n").unwrap().1;
    let needed = "1 at run time: `wing` 1.\n\n- Private packages need: `rope` 2\n";
    assert!(section.starts_with(needed), "{report}");
}
