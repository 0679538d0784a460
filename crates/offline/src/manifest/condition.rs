//! Conditions under which a dependency is needed: platforms, and versions of the language.

use std::sync::LazyLock;

use regex::Regex;

use crate::pattern::fixed;
use crate::wording::code;

/// Systems as manifests name them, and their names.
const SYSTEMS: [(&str, &str); 10] = [
    ("windows", "Windows"),
    ("win32", "Windows"),
    ("nt", "Windows"),
    ("unix", "Unix"),
    ("posix", "POSIX systems"),
    ("linux", "Linux"),
    ("macos", "macOS"),
    ("darwin", "macOS"),
    ("android", "Android"),
    ("wasi", "WASI"),
];

fn system(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let (_, name) = SYSTEMS.iter().find(|(known, _)| *known == lower)?;
    Some(format!("on {name}"))
}

static CFG: LazyLock<Regex> = LazyLock::new(|| {
    fixed(r#"^cfg\(\s*(?:(?:target_os|target_family)\s*=\s*"(\w+)"|(unix|windows))\s*\)$"#)
});
static SYSTEM_MARKER: LazyLock<Regex> =
    LazyLock::new(|| fixed(r#"^(?:sys_platform|platform_system|os_name)\s*==\s*["'](\w+)["']$"#));
static VERSION_MARKER: LazyLock<Regex> =
    LazyLock::new(|| fixed(r#"^python_(?:full_)?version\s*([<>=!~]=?)\s*["']([\w.*]+)["']$"#));

/// Returns the condition that a target of `Cargo.toml` is: `on Windows`, or the target itself.
pub(super) fn of_cargo_target(target: &str) -> String {
    let found = CFG.captures(target).and_then(|found| found.get(1).or(found.get(2)));
    found.and_then(|name| system(name.as_str())).unwrap_or_else(|| {
        let word = if target.starts_with("cfg(") { "where" } else { "on" };
        format!("{word} {}", code(target))
    })
}

/// Returns the condition that an environment marker of Python is; empty for an empty marker.
pub(super) fn of_python_marker(marker: &str) -> String {
    let marker = marker.trim();
    let plain = marker.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let plain = plain.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(marker).trim();
    if let Some(found) = VERSION_MARKER.captures(plain) {
        let sign = found.get(1);
        let version = found.get(2);
        let text =
            |part: Option<regex::Match<'_>>| part.map_or("", |part| part.as_str()).to_owned();
        return format!("for Python {} {}", text(sign), text(version));
    }
    let found = SYSTEM_MARKER.captures(plain).and_then(|found| found.get(1));
    match found.and_then(|name| system(name.as_str())) {
        Some(system) => system,
        None if marker.is_empty() => String::new(),
        None => format!("where {}", code(marker)),
    }
}

/// Returns the condition that a system is, as `sys.platform` names it.
pub(super) fn of_system(name: &str) -> String {
    system(name).unwrap_or_else(|| format!("on {}", code(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_reads_as_people_say_it() {
        for (target, condition) in [
            ("cfg(windows)", "on Windows"),
            ("cfg(target_os = \"macos\")", "on macOS"),
            ("cfg(unix)", "on Unix"),
            ("cfg(not(windows))", "where `cfg(not(windows))`"),
            ("x86_64-pc-windows-msvc", "on `x86_64-pc-windows-msvc`"),
        ] {
            assert_eq!(of_cargo_target(target), condition);
        }
        for (marker, condition) in [
            ("", ""),
            (" sys_platform == 'win32'", "on Windows"),
            ("platform_system == \"Darwin\"", "on macOS"),
            ("python_version<\"3.11\"", "for Python < 3.11"),
            ("(python_full_version >= '3.8.1')", "for Python >= 3.8.1"),
            ("a == 'b' and c == 'd'", "where `a == 'b' and c == 'd'`"),
        ] {
            assert_eq!(of_python_marker(marker), condition, "{marker}");
        }
    }
}
