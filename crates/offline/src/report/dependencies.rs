//! What the packages of a project need.

use std::collections::BTreeMap;

use super::project::NOT_READ;
use super::{Report, and_more};
use crate::manifest::{Dependency, Tool};
use crate::wording::{self, code, count, number};

/// Dependencies that are named.
const DEPENDENCIES: usize = 12;

pub(super) fn dependencies(report: &Report) -> Option<String> {
    let own: Vec<&str> = report.packages.iter().map(|package| package.name.as_str()).collect();
    let mut wanted: BTreeMap<&str, (u64, &Dependency)> = BTreeMap::new();
    let (mut optional, mut development) = (0, 0);
    for package in &report.packages {
        optional += package.optional;
        development += package.development;
        for dependency in &package.dependencies {
            if !own.contains(&dependency.name.as_str()) {
                wanted.entry(&dependency.name).or_insert((0, dependency)).0 += 1;
            }
        }
    }
    let manifests = report.packages.iter().filter(|package| {
        matches!(package.tool, Tool::Cargo | Tool::Npm | Tool::Python | Tool::Go | Tool::Maven)
    });
    if manifests.count() == 0 {
        return None;
    }
    let mut all: Vec<(u64, &Dependency)> = wanted.into_values().collect();
    all.sort_by(|(a, one), (b, other)| b.cmp(a).then(one.name.cmp(&other.name)));
    let many = report.packages.len() > 1;
    let one = |(users, dependency): &(u64, &Dependency)| {
        let version = match dependency.version.as_str() {
            "" | "*" => String::new(),
            _ if dependency.leaves_to_workspace() => String::new(),
            version => format!(" {}", wording::version(version)),
        };
        let users = if many && *users > 1 { format!(" (×{users})") } else { String::new() };
        format!("{}{version}{users}", code(&dependency.name))
    };
    let left = all.len().saturating_sub(DEPENDENCIES);
    let named = and_more(all.iter().take(DEPENDENCIES).map(one).collect(), left);
    // A manifest with settings of tools alone is no package that could need something.
    let unstated = report.packages.iter().any(|it| it.unstated && !it.name.is_empty());
    let mut out = match all.len() {
        0 if unstated => "Not stated".to_owned(),
        0 => "None at run time".to_owned(),
        found => format!("{} at run time: {named}", number(found as u64)),
    };
    if optional > 0 {
        out.push_str(&format!("; {} optional", number(optional)));
    }
    if development > 0 {
        out.push_str(&format!("; {} for development and building", number(development)));
    }
    let unread = all.iter().filter(|(_, dependency)| dependency.leaves_to_workspace()).count();
    if unread > 0 {
        out.push_str(&format!("; {} {NOT_READ}", count(unread as u64, "version")));
    }
    out.push('.');
    Some(out)
}
