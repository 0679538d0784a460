//! What a report takes from manifests: names, versions, licences and entry points.

use super::*;

/// Surveys a repository of which some files are ignored.
fn survey_ignoring(files: &[(&str, &str)], ignored: &[&str]) -> TestConversation {
    let repository = Repository::new(files).ignoring(ignored);
    talk("Survey this repository", FILES, 30, |tool, arguments| repository.play(tool, arguments))
}

const KITE: &str =
    r#"{"name": "kite", "version": "4.2.0", "main": "src/index.js", "license": "MIT"}"#;

#[test]
fn a_manifest_that_is_ignored_is_read() {
    let files = [
        (".gitignore", "package.json\n"),
        ("package.json", KITE),
        ("src/index.js", "a();\n"),
        ("node_modules/gust/package.json", r#"{"name": "gust", "version": "9.9.9"}"#),
    ];
    let talk = survey_ignoring(&files, &["package.json", "node_modules"]);
    assert!(talk.answer.starts_with("# kite 4.2.0\n"), "{}", talk.answer);
    assert!(talk.answer.contains("- Licence: MIT\n"), "{}", talk.answer);
    assert_eq!(section_of(&talk.answer, "Entry points"), "- library `kite`: `src/index.js`");
}

#[test]
fn ignored_manifests_below_the_top_are_read_but_no_ignored_folder() {
    let root =
        r#"{"name": "kites", "version": "1.0.0", "private": true, "workspaces": ["packages/*"]}"#;
    let ignored = [
        "packages/kite/package.json",
        "packages/kite/dist",
        "packages/tail/package.json",
        "node_modules",
    ];
    let files = [
        ("node_modules/gust/package.json", r#"{"name": "gust", "version": "9.9.9"}"#),
        ("package.json", root),
        ("packages/kite/README.md", "# Kite\n"),
        ("packages/kite/dist/package.json", r#"{"name": "built", "version": "9.9.9"}"#),
        ("packages/kite/package.json", KITE),
        ("packages/kite/src/index.js", "a();\n"),
        ("packages/tail/index.js", "a();\n"),
        (
            "packages/tail/package.json",
            r#"{"name": "tail", "version": "2.0.0", "main": "./index"}"#,
        ),
        ("packages/wing/index.js", "a();\n"),
        ("packages/wing/package.json", r#"{"name": "wing", "version": "3.0.0"}"#),
    ];
    let talk = survey_ignoring(&files, &ignored);
    assert_eq!(
        section_of(&talk.answer, "Entry points"),
        "- library `kite`: `packages/kite/src/index.js`\n\
         - library `tail`: `packages/tail/index.js`\n\
         - library `wing`: `packages/wing/index.js`"
    );
    for (tool, arguments) in &talk.calls {
        let path = arguments["path"].as_str().unwrap_or_default();
        let inside = path.contains("node_modules") || path.contains("dist");
        assert!(!inside, "{tool}: {arguments}");
    }
}

#[test]
fn a_manifest_that_cannot_be_parsed_is_named() {
    let files = [
        ("Cargo.toml", "[package\nname = \"kite\"\n"),
        ("package.json", "{\"name\": \"kite\",}"),
        ("src/lib.rs", "fn a() {}\n"),
    ];
    let report = survey_in("Survey this repository", &files);
    for line in ["\n- `Cargo.toml`: not valid TOML\n", "\n- `package.json`: not valid JSON\n"] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn each_identity_comes_from_one_manifest() {
    let go = ("go.mod", "module example.org/kite\n\ngo 1.22\n");
    let web = r#"{"name": "kite-web", "version": "7.1.0", "license": "ISC", "private": true}"#;
    let files = [go, ("package.json", web), ("kite.go", "package kite\n")];
    let report = survey_in("Survey this repository", &files);
    assert!(report.starts_with("# example.org/kite\n"), "{report}");
    for line in [
        "\n- Manifests: `go.mod` names `example.org/kite`, `package.json` names `kite-web` 7.1.0, licence ISC\n",
        "\n- Licence: not stated in `go.mod` or a file at the top\n",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
    // What a folder below says is not said of the whole.
    let files = [go, ("web/package.json", web), ("kite.go", "package kite\n")];
    let report = survey_in("Survey this repository", &files);
    assert!(!report.contains("ISC") && !report.contains("7.1.0"), "{report}");
}

#[test]
fn manifests_that_agree_are_one_identity() {
    let cargo = "[package]\nname = \"kite\"\nversion = \"1.0.0\"\nlicense = \"MIT\"\n";
    let files = [
        ("Cargo.toml", cargo),
        ("pyproject.toml", "[project]\nname = \"kite\"\ndynamic = [\"version\"]\n"),
        ("src/lib.rs", "fn a() {}\n"),
    ];
    let report = survey_in("Survey this repository", &files);
    assert!(report.starts_with("# kite 1.0.0\n"), "{report}");
    assert!(!report.contains("Manifests:"), "{report}");
}

#[test]
fn manifests_of_python_with_two_names_are_two_identities() {
    let setup =
        "from setuptools import setup\nsetup(name='kite-old', version='0.1', license='BSD')\n";
    let files = [
        ("pyproject.toml", "[project]\nname = \"kite\"\n"),
        ("setup.py", setup),
        ("kite.py", "a = 1\n"),
    ];
    let report = survey_in("Survey this repository", &files);
    assert!(report.starts_with("# kite\n"), "{report}");
    let line = "\n- Manifests: `pyproject.toml` names `kite`, `setup.py` names `kite-old` 0.1, licence BSD\n";
    assert!(report.contains(line), "{report}");
    assert!(!report.contains("Licence: BSD"), "{report}");
}

const MIT: &str = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software.\n\
                   This notice shall be included in all copies.\n";
const APACHE: &str = "Licensed under the Apache License, Version 2.0\n";

/// Returns the line of a report about the licence.
fn licence_line(files: &[(&str, &str)]) -> String {
    let report = survey_in("Survey this repository", files);
    let line = report.lines().find(|line| line.starts_with("- Licence: "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_file_with_two_licences_has_both() {
    let both =
        format!("Two licenses.\n\n#### MIT\n\n{MIT}\n#### Apache\n\n{}{APACHE}", "\n".repeat(80));
    let go = ("go.mod", "module example.org/kite\n");
    assert_eq!(
        licence_line(&[go, ("LICENSE", &both), ("kite.go", "package kite\n")]),
        "- Licence: MIT, Apache-2.0 by its text (`LICENSE`)"
    );
}

#[test]
fn a_licence_file_that_says_something_else_is_not_given_for_the_declared_one() {
    let cargo = "[package]\nname = \"kite\"\nlicense = \"MIT\"\n";
    let manifest = ("Cargo.toml", cargo);
    assert_eq!(
        licence_line(&[manifest, ("LICENSE", MIT), ("src/lib.rs", "")]),
        "- Licence: MIT (`LICENSE`)"
    );
    assert_eq!(
        licence_line(&[manifest, ("LICENSE", APACHE), ("LICENSE-MIT", MIT), ("src/lib.rs", "")]),
        "- Licence: MIT (`LICENSE-MIT`); `LICENSE` has the text of Apache-2.0"
    );
    let both = format!("{MIT}\n{APACHE}");
    assert_eq!(
        licence_line(&[manifest, ("LICENSE", &both), ("src/lib.rs", "")]),
        "- Licence: MIT (`LICENSE`); `LICENSE` has the text of Apache-2.0 too"
    );
}

#[test]
fn packages_with_several_licences_have_no_single_one() {
    let member =
        |licence: &str| format!("[package]\nname = \"{licence}\"\nlicense = \"{licence}\"\n");
    let mit = member("MIT");
    let isc = member("ISC");
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"*\"]\n"),
        ("a/Cargo.toml", mit.as_str()),
        ("a/src/lib.rs", "fn a() {}\n"),
        ("b/Cargo.toml", isc.as_str()),
        ("b/src/lib.rs", "fn a() {}\n"),
    ];
    assert_eq!(licence_line(&files), "- Licence: differs by package: ISC, MIT");
}

/// Returns the entry points that a manifest of npm and some files give.
fn entries_of_npm(fields: &str, files: &[&str]) -> String {
    let manifest = format!(r#"{{"name": "kite", "version": "1.0.0", {fields}}}"#);
    let mut all = vec![("package.json", manifest.as_str())];
    all.extend(files.iter().map(|path| (*path, "a();\n")));
    section_of(&survey_in("Survey this repository", &all), "Entry points")
}

#[test]
fn a_library_of_npm_is_found_as_node_finds_it() {
    for (main, files, at) in [
        (r#""main": "./index""#, ["index.js", "a.js"], "`index.js`"),
        (r#""main": "lib/""#, ["lib/index.js", "a.js"], "`lib/index.js`"),
        (r#""main": "./lib""#, ["lib/index.js", "a.js"], "`lib/index.js`"),
        (r#""main": ".""#, ["index.js", "a.js"], "`index.js`"),
        (r#""main": "./data""#, ["data.json", "a.js"], "`data.json`"),
        (r#""main": "./src/../a.js""#, ["b.js", "a.js"], "`a.js`"),
        (r#""main": "./index""#, ["index.ts", "a.js"], "`index.ts`"),
        (r#""main": "./out/index""#, ["b.js", "a.js"], "`out/index` (built)"),
        (r#""exports": {"./a": "./a.js"}"#, ["b.js", "a.js"], ""),
        (r#""exports": {".": [{"import": "./a.js"}, "./b.js"]}"#, ["b.js", "a.js"], "`a.js`"),
    ] {
        let entries = entries_of_npm(main, &files);
        let said = if at.is_empty() { String::new() } else { format!("- library `kite`: {at}") };
        assert_eq!(entries, said, "{main}");
    }
    let program = entries_of_npm(r#""bin": {"fly": "./bin/fly"}"#, &["bin/fly.js"]);
    assert_eq!(program, "- program `fly`: `bin/fly.js`");
}

#[test]
fn a_private_manifest_of_another_language_does_not_stand_for_the_project() {
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("README.md", "# Kites\n"),
        ("crates/tail/Cargo.toml", "[package]\nname = \"tail\"\nversion = \"2.0.0\"\n"),
        ("crates/tail/src/lib.rs", "fn a() {}\n"),
        ("crates/wing/Cargo.toml", "[package]\nname = \"wing\"\nversion = \"2.0.0\"\n"),
        ("crates/wing/src/lib.rs", "fn a() {}\n"),
        ("package.json", r#"{"name": "tools", "version": "0.0.0", "private": true}"#),
    ];
    let report = survey_in("Survey this repository", &files);
    assert!(report.starts_with("# Kites 2.0.0\n"), "{report}");
    // A private package of its own language is the project.
    let app = r#"{"name": "app", "version": "1.0.0", "private": true}"#;
    let report = survey_in("Survey this repository", &[("package.json", app), ("a.vue", "a\n")]);
    assert!(report.starts_with("# app 1.0.0\n"), "{report}");
}
