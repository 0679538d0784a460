//! What a report takes from the text of files.

use super::*;

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
