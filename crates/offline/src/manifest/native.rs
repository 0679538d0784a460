//! Build files of programs in C: CMake, Meson, Autotools and Make.

use std::sync::LazyLock;

use regex::Regex;

use super::{Package, Tool};
use crate::pattern::fixed;

static PROJECT: LazyLock<Regex> =
    LazyLock::new(|| fixed(r#"(?is)\bproject\s*\(\s*"?([\w.+-]+)"?([^)]*)\)"#));
static CMAKE_VERSION: LazyLock<Regex> = LazyLock::new(|| fixed(r"(?i)\bVERSION\s+([\d.]+)"));
static CMAKE_ABOUT: LazyLock<Regex> = LazyLock::new(|| fixed(r#"(?is)\bDESCRIPTION\s+"([^"]+)""#));
static CMAKE_TESTS: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?im)^\s*(?:enable_testing|add_test|include\s*\(\s*CTest)"));
static CMAKE_PROGRAM: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?im)^\s*add_executable\s*\(\s*([\w.-]+)\s*([^)]*)\)"));
static MESON_PROJECT: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?s)\bproject\s*\(\s*'([^']+)'(.*?)\)\s*\n"));
static MESON_VERSION: LazyLock<Regex> = LazyLock::new(|| fixed(r"\bversion\s*:\s*'([^']+)'"));
static MESON_LICENCE: LazyLock<Regex> = LazyLock::new(|| fixed(r"\blicense\s*:\s*\[?\s*'([^']+)'"));
static AC_INIT: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"(?s)\bAC_INIT\s*\(\s*\[?([^\],)]+)\]?\s*,\s*\[?([^\],)]+)\]?"));
static M4_DEFINE: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"m4_define\s*\(\s*\[?(\w+)\]?\s*,\s*\[?([^\],)]*)\]?\s*\)"));
static TARGET: LazyLock<Regex> = LazyLock::new(|| fixed(r"^([A-Za-z][\w.-]*)\s*:(?:[^=]|$)"));

fn group(rule: &Regex, text: &str, at: usize) -> Option<String> {
    Some(rule.captures(text)?.get(at)?.as_str().trim().to_owned())
}

/// Returns a text without what stands after a mark of a comment.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn cmake(path: &str, text: &str) -> Option<Package> {
    let text = without_comments(text);
    let mut out = Package::new(path, Tool::CMake);
    let name = group(&PROJECT, &text, 1)?;
    let rest = group(&PROJECT, &text, 2).unwrap_or_default();
    out.name = if name.contains('$') { String::new() } else { name };
    out.version = group(&CMAKE_VERSION, &rest, 1).unwrap_or_default();
    out.about = group(&CMAKE_ABOUT, &rest, 1).unwrap_or_default();
    if CMAKE_TESTS.is_match(&text) {
        out.targets.scripts.insert("test".to_owned(), String::new());
    }
    for found in CMAKE_PROGRAM.captures_iter(&text) {
        if let (Some(name), Some(sources)) = (found.get(1), found.get(2)) {
            let name = name.as_str().to_owned();
            let at = sources.as_str().to_owned();
            out.targets.programs.push(super::Program { name, at });
        }
    }
    Some(out)
}

pub(super) fn meson(path: &str, text: &str) -> Option<Package> {
    let text = without_comments(text);
    let mut out = Package::new(path, Tool::Meson);
    out.name = group(&MESON_PROJECT, &text, 1)?;
    let rest = group(&MESON_PROJECT, &text, 2).unwrap_or_default();
    out.version = group(&MESON_VERSION, &rest, 1).unwrap_or_default();
    out.licence = group(&MESON_LICENCE, &rest, 1).unwrap_or_default();
    Some(out)
}

pub(super) fn autoconf(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Autotools);
    let plain = |text: String| if text.contains(['$', '(', '_']) { String::new() } else { text };
    out.name = group(&AC_INIT, text, 1).unwrap_or_default();
    let mut version = group(&AC_INIT, text, 2).unwrap_or_default();
    for defined in M4_DEFINE.captures_iter(text) {
        if let (Some(name), Some(value)) = (defined.get(1), defined.get(2)) {
            version = version.replace(name.as_str(), value.as_str().trim());
        }
    }
    out.version = plain(version);
    Some(out)
}

pub(super) fn make(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Make);
    for line in text.lines() {
        if let Some(target) = TARGET.captures(line).and_then(|found| found.get(1)) {
            out.targets.scripts.insert(target.as_str().to_owned(), String::new());
        }
    }
    Some(out)
}
