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
    let all = "3 at run time: `attrs` `<25,>=22`, `six`, `wing`; 1 optional.";
    assert_eq!(needed(&[("requires.txt", text)]), all);
    assert_eq!(needed(&[("kite.egg-info/requires.txt", text)]), all);
    assert_eq!(needed(&[]), "Not stated.");
    assert_eq!(needed(&[("setup.cfg", "[egg_info]\ntag_build =\n")]), "Not stated.");
    assert_eq!(needed(&[("requires.txt", "-r other.txt\n")]), "Not stated.");
    assert_eq!(needed(&[("requires.txt", "\n[test]\npytest\n")]), "None at run time; 1 optional.");
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
