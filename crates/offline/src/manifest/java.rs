//! `pom.xml` and the build files of Gradle.

use std::sync::LazyLock;

use regex::Regex;

use super::{Dependency, Package, Program, Tool, one_line};
use crate::pattern::fixed;

/// An element of XML with its path, or the text in it.
fn elements(text: &str) -> Vec<(Vec<String>, String)> {
    let mut out: Vec<(Vec<String>, String)> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        if !before.trim().is_empty() && !path.is_empty() {
            out.push((path.clone(), one_line(before)));
        }
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        if let Some(data) = after.strip_prefix("![CDATA[") {
            rest = data.split_once("]]>").map_or("", |(_, after)| after);
            continue;
        }
        let Some((tag, after)) = after.split_once('>') else { break };
        rest = after;
        if tag.starts_with('/') {
            if path.last().is_some_and(|name| name == "dependency") {
                out.push((path.clone(), String::new()));
            }
            path.pop();
        } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
            let name = tag.split_whitespace().next().unwrap_or_default();
            path.push(name.to_owned());
        }
    }
    out
}

#[expect(clippy::too_many_lines, reason = "one arm for each element")]
pub(super) fn pom(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Maven);
    let mut group = String::new();
    let mut parent_version = String::new();
    let mut artifact = String::new();
    let mut name = String::new();
    let mut scope = String::new();
    let mut version = String::new();
    let mut optional = false;
    let elements = elements(text);
    let properties: Vec<(String, String)> = elements
        .iter()
        .filter_map(|(path, value)| match path.as_slice() {
            [_, properties, key] if properties == "properties" => {
                Some((format!("${{{key}}}"), value.clone()))
            }
            _ => None,
        })
        .collect();
    for (path, value) in elements {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["project", "artifactId"] => artifact = value,
            ["project", "name"] => name = value,
            ["project", "groupId"] => group = value,
            ["project", "version"] => out.version = value,
            ["project", "parent", "version"] => parent_version = value,
            ["project", "description"] => out.about = value,
            ["project", "licenses", "license", "name"] if out.licence.is_empty() => {
                out.licence = value;
            }
            ["project", "modules", "module"] => out.workspace.joins = true,
            ["project", "dependencies", "dependency", "artifactId"] => {
                out.needs.dependencies.push(Dependency::new(&value, ""));
            }
            ["project", "dependencies", "dependency", "scope"] => scope = value,
            ["project", "dependencies", "dependency", "version"] => version = value,
            ["project", "dependencies", "dependency", "optional"] => optional = value == "true",
            ["project", "dependencies", "dependency"] => {
                let wanted = std::mem::take(&mut version);
                let scope = std::mem::take(&mut scope);
                let optional = std::mem::take(&mut optional);
                // What the surroundings provide is needed to build, not added at run time.
                let development = matches!(scope.as_str(), "test" | "provided" | "system");
                if development || optional {
                    let names = if development {
                        &mut out.needs.development
                    } else {
                        &mut out.needs.optional
                    };
                    names.extend(out.needs.dependencies.pop().map(|dependency| dependency.name));
                } else if let Some(last) = out.needs.dependencies.last_mut() {
                    let known = properties.iter().find(|(key, _)| *key == wanted);
                    last.version = known.map_or(wanted, |(_, value)| value.clone());
                }
            }
            [.., "manifest", "mainClass"] => {
                out.targets.programs.push(Program { name: artifact.clone(), at: value });
            }
            _ => {}
        }
    }
    let _ = (group, name);
    out.name = artifact;
    if out.version.is_empty() {
        out.version = parent_version;
    }
    if out.version.contains("${") {
        let known = properties.iter().find(|(key, _)| *key == out.version);
        out.version = known.map(|(_, value)| value.clone()).unwrap_or_default();
    }
    (!out.name.is_empty()).then_some(out)
}

static GRADLE_VERSION: LazyLock<Regex> =
    LazyLock::new(|| fixed(r#"(?m)^version\s*=?\s*['"]([^'"$]+)['"]"#));
static GRADLE_ABOUT: LazyLock<Regex> =
    LazyLock::new(|| fixed(r#"(?m)^description\s*=?\s*['"]([^'"$]+)['"]"#));

pub(super) fn gradle(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Gradle);
    let first = |rule: &Regex| {
        rule.captures(text).and_then(|found| Some(found.get(1)?.as_str().to_owned()))
    };
    out.version = first(&GRADLE_VERSION).unwrap_or_default();
    out.about = first(&GRADLE_ABOUT).unwrap_or_default();
    Some(out)
}
