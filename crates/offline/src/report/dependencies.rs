//! Needs of a project's packages.

use std::collections::{BTreeMap, BTreeSet};

use super::{NOT_READ, Report, and_more};
use crate::manifest::{Dependency, Package, Tool};
use crate::requirements::{is_incomplete, says_importers};
use crate::wording::{self, bullets, code, count, number};

/// Dependencies that are named.
const DEPENDENCIES: usize = 12;
/// Conditions whose dependencies are named.
const CONDITIONS: usize = 8;

/// A dependency, and how many packages need it.
struct RequiredDependency<'r> {
    dependency: &'r Dependency,
    users: u64,
}

/// Knowledge of when dependencies are needed.
#[derive(Debug, Clone, Copy)]
struct Knowledge {
    /// Whether none is needed on some platforms only.
    unconditional: bool,
    /// Whether some sources, which may import more, are not known.
    incomplete: bool,
}

/// Says what the packages of a project need, apart for each tool that has packages.
pub(super) fn dependencies(report: &Report) -> Option<String> {
    let mut groups: BTreeMap<Tool, Vec<&Package>> = BTreeMap::new();
    for package in report.packages.iter().filter(|package| registry(package.tool).is_some()) {
        groups.entry(package.tool).or_default().push(package);
    }
    if groups.len() > 1 {
        groups.retain(|_, packages| packages.iter().any(|package| states_needs(package)));
    }
    let many = groups.len() > 1;
    let texts = groups.into_iter().filter_map(|(tool, packages)| {
        let text = of_packages(report, &packages, many)?;
        Some(match registry(tool).filter(|_| many) {
            Some(registry) => format!("{registry}: {text}"),
            None => text,
        })
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns what dependencies of a tool's packages are known by. `None` for a tool whose manifests
/// are not read for dependencies.
fn registry(tool: Tool) -> Option<&'static str> {
    match tool {
        Tool::Cargo => Some("Cargo"),
        Tool::Npm => Some("npm"),
        Tool::Python => Some("Python"),
        Tool::Go => Some("Go"),
        Tool::Maven => Some("Maven"),
        Tool::Gradle | Tool::CMake | Tool::Meson | Tool::Autotools | Tool::Make => None,
    }
}

/// Whether a manifest is one of a package, and not only of settings of tools.
fn states_needs(package: &Package) -> bool {
    let sets = [&package.needs.optional, &package.needs.development];
    !package.name.is_empty()
        || !package.needs.dependencies.is_empty()
        || sets.iter().any(|set| !set.is_empty())
}

/// Describes what the packages of one tool need. `many` means that there are others.
fn of_packages(report: &Report, packages: &[&Package], many: bool) -> Option<String> {
    let published = report.packages.iter().any(Package::is_published);
    let (private, own): (Vec<&Package>, Vec<&Package>) =
        packages.iter().partition(|package| published && package.private);
    if many && own.is_empty() {
        return of_private(report, &private);
    }
    let mut conditions = by_condition(report, &own);
    let private = only_private(by_condition(report, &private), &conditions);
    let always = conditions.remove("").unwrap_or_default();
    let known = Knowledge {
        unconditional: conditions.keys().all(|condition| says_importers(condition)),
        incomplete: conditions.keys().any(|condition| is_incomplete(condition)),
    };
    let mut out = summary(report, packages, &always, known);
    let unread = always.iter().chain(conditions.values().flatten()).chain(&private);
    let unread = unread.filter(|it| it.dependency.leaves_to_workspace()).count();
    if unread > 0 {
        out.push_str(&format!("; {} {NOT_READ}", count(unread as u64, "version")));
    }
    out.push('.');
    let left = conditions.len().saturating_sub(CONDITIONS);
    let more = (left > 0).then(|| format!("and those of {}", count(left as u64, "more condition")));
    let lines = conditions
        .iter()
        .take(CONDITIONS)
        .map(|(condition, needed)| format!("{}: {}", capitalize(condition), names(report, needed)));
    let private = (!private.is_empty())
        .then(|| format!("Private packages need: {}", names(report, &private)));
    if let Some(lines) = bullets(lines.chain(more).chain(private)) {
        out.push_str(&format!("\n\n{lines}"));
    }
    Some(out)
}

/// Says what packages need of which none is published.
fn of_private(report: &Report, packages: &[&Package]) -> Option<String> {
    let needed = only_private(by_condition(report, packages), &BTreeMap::new());
    let named = (!needed.is_empty()).then(|| names(report, &needed));
    let all: Vec<String> = named.into_iter().chain(on_demand(report, packages)).collect();
    (!all.is_empty()).then(|| format!("private packages need {}.", all.join("; ")))
}

/// Returns what private packages always need, without what others need too.
fn only_private<'r>(
    mut private: BTreeMap<&str, Vec<RequiredDependency<'r>>>,
    others: &BTreeMap<&str, Vec<RequiredDependency<'_>>>,
) -> Vec<RequiredDependency<'r>> {
    let is_known = |name: &str| others.values().flatten().any(|it| it.dependency.name == name);
    let mut needed = private.remove("").unwrap_or_default();
    needed.retain(|it| !is_known(&it.dependency.name));
    needed
}

/// Returns the dependencies of some packages by the condition under which they are needed, those
/// of most packages first. What is needed always has no other condition.
fn by_condition<'r>(
    report: &'r Report,
    packages: &[&'r Package],
) -> BTreeMap<&'r str, Vec<RequiredDependency<'r>>> {
    let own: Vec<&str> = report.packages.iter().map(|package| package.name.as_str()).collect();
    let all = || {
        let all = packages.iter().flat_map(|package| &package.needs.dependencies);
        all.filter(|dependency| !own.contains(&dependency.name.as_str()))
    };
    let always = |name: &str| all().any(|it| it.condition.is_empty() && it.name == name);
    let mut out: BTreeMap<&str, Vec<RequiredDependency<'_>>> = BTreeMap::new();
    for dependency in all() {
        if !dependency.condition.is_empty() && always(&dependency.name) {
            continue;
        }
        let needed = out.entry(&dependency.condition).or_default();
        match needed.iter_mut().find(|it| it.dependency.name == dependency.name) {
            Some(known) => known.users += 1,
            None => needed.push(RequiredDependency { dependency, users: 1 }),
        }
    }
    for needed in out.values_mut() {
        needed
            .sort_by(|a, b| b.users.cmp(&a.users).then(a.dependency.name.cmp(&b.dependency.name)));
    }
    out
}

/// Says what is needed at run time on every platform, and how many others there are.
fn summary(
    report: &Report,
    packages: &[&Package],
    always: &[RequiredDependency<'_>],
    known: Knowledge,
) -> String {
    // A manifest with settings of tools alone is no package that could need something.
    let unstated = packages.iter().any(|it| it.needs.unstated && !it.name.is_empty());
    let computed = packages.iter().find_map(|package| package.needs.computed.as_ref());
    let computed = computed.map(|at| format!("omputed in {}, at line {}", code(&at.path), at.line));
    let at_run_time =
        if known.incomplete { "at run time by the files that were parsed" } else { "at run time" };
    let mut out = match (always.len(), &computed) {
        (0, Some(computed)) => format!("C{computed}"),
        (0, None) if unstated => "Not stated".to_owned(),
        (0, None) if known.unconditional => format!("None {at_run_time}"),
        (0, None) => "None at run time on every platform".to_owned(),
        (found, _) => {
            format!("{} {at_run_time}: {}", number(found as u64), names(report, always))
        }
    };
    if let (false, Some(computed)) = (always.is_empty(), computed) {
        out.push_str(&format!("; others are c{computed}"));
    }
    for more in on_demand(report, packages) {
        out.push_str(&format!("; {more}"));
    }
    out
}

/// Says how many dependencies are optional, and how many are for development.
fn on_demand(report: &Report, packages: &[&Package]) -> impl Iterator<Item = String> {
    let own: BTreeSet<&str> = report.packages.iter().map(|package| package.name.as_str()).collect();
    let number_of = |names: fn(&Package) -> &BTreeSet<String>| {
        let all: BTreeSet<&str> =
            packages.iter().flat_map(|package| names(package)).map(String::as_str).collect();
        all.difference(&own).count() as u64
    };
    let kinds = [
        (number_of(|it| &it.needs.optional), "optional"),
        (number_of(|it| &it.needs.development), "for development and building"),
    ];
    kinds
        .into_iter()
        .filter(|(found, _)| *found > 0)
        .map(|(n, kind)| format!("{} {kind}", number(n)))
}

fn names(report: &Report, needed: &[RequiredDependency<'_>]) -> String {
    let many = report.packages.len() > 1;
    let one = |needed: &RequiredDependency<'_>| {
        let dependency = needed.dependency;
        let version = match dependency.version.as_str() {
            "" | "*" => String::new(),
            _ if dependency.leaves_to_workspace() => String::new(),
            version => format!(" {}", wording::version(version)),
        };
        let users = match needed.users {
            users if many && users > 1 => format!(" (×{users})"),
            _ => String::new(),
        };
        format!("{}{version}{users}", code(&dependency.name))
    };
    let left = needed.len().saturating_sub(DEPENDENCIES);
    and_more(needed.iter().take(DEPENDENCIES).map(one).collect(), left)
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
