//! `pom.xml` and the build files of Gradle.

use std::sync::LazyLock;

use regex::Regex;

use super::{Dependency, Package, PackageNeeds, Program, Tool, one_line};
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

/// The properties of a project, each with the form in which values name it.
struct PomProperties(Vec<(String, String)>);

impl PomProperties {
    fn read(elements: &[(Vec<String>, String)]) -> Self {
        let property = |(path, value): &(Vec<String>, String)| match path.as_slice() {
            [_, properties, key] if properties == "properties" => {
                Some((format!("${{{key}}}"), value.clone()))
            }
            _ => None,
        };
        Self(elements.iter().filter_map(property).collect())
    }

    /// Returns the value that a text names; `None` if it names none.
    fn get(&self, text: &str) -> Option<String> {
        self.0.iter().find(|(key, _)| key == text).map(|(_, value)| value.clone())
    }
}

/// What was read of a dependency, beside its name, which is the package's last one.
#[derive(Default)]
struct PomDependency {
    scope: String,
    version: String,
    is_optional: bool,
}

impl PomDependency {
    /// Takes an element inside a dependency, or its end.
    fn read(
        &mut self,
        path: &[&str],
        value: String,
        needs: &mut PackageNeeds,
        properties: &PomProperties,
    ) {
        match path {
            ["artifactId"] => needs.dependencies.push(Dependency::new(&value, "")),
            ["scope"] => self.scope = value,
            ["version"] => self.version = value,
            ["optional"] => self.is_optional = value == "true",
            [] => std::mem::take(self).sort_last(needs, properties),
            _ => {}
        }
    }

    /// Puts the last dependency where it belongs, with its version.
    fn sort_last(self, needs: &mut PackageNeeds, properties: &PomProperties) {
        // What the surroundings provide is needed to build, not added at run time.
        let is_development = matches!(self.scope.as_str(), "test" | "provided" | "system");
        if is_development || self.is_optional {
            let last = needs.dependencies.pop().map(|dependency| dependency.name);
            let names = if is_development { &mut needs.development } else { &mut needs.optional };
            names.extend(last);
        } else if let Some(last) = needs.dependencies.last_mut() {
            last.version = properties.get(&self.version).unwrap_or(self.version);
        }
    }
}

pub(super) fn pom(path: &str, text: &str) -> Option<Package> {
    let mut out = Package { name: String::new(), ..Package::new(path, Tool::Maven) };
    let mut parent_version = String::new();
    let mut dependency = PomDependency::default();
    let elements = elements(text);
    let properties = PomProperties::read(&elements);
    for (path, value) in elements {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["project", "artifactId"] => out.name = value,
            ["project", "version"] => out.version = value,
            ["project", "parent", "version"] => parent_version = value,
            ["project", "description"] => out.about = value,
            ["project", "licenses", "license", "name"] if out.licence.is_empty() => {
                out.licence = value;
            }
            ["project", "modules", "module"] => out.workspace.joins = true,
            ["project", "dependencies", "dependency", rest @ ..] => {
                dependency.read(rest, value, &mut out.needs, &properties);
            }
            [.., "manifest", "mainClass"] => {
                out.targets.programs.push(Program { name: out.name.clone(), at: value });
            }
            _ => {}
        }
    }
    if out.version.is_empty() {
        out.version = parent_version;
    }
    if out.version.contains("${") {
        out.version = properties.get(&out.version).unwrap_or_default();
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
