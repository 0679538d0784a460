//! Which package stands for a project, and what its manifest says of it: name, version, licence.

use super::{NOT_READ, Report};
use crate::licence;
use crate::manifest::{Package, Tool};
use crate::modules::is_source;
use crate::part::Part;
use crate::wording::{self, code, quote, shorten};

/// Licence files that are named.
const FILES: usize = 4;
/// Characters of a declared licence that are shown.
const DECLARED: usize = 80;

/// Returns the tools that build packages of a language.
fn tools_of(language: &str) -> &'static [Tool] {
    match language {
        "Rust" => &[Tool::Cargo],
        "Python" => &[Tool::Python],
        "JavaScript" | "TypeScript" | "Vue" | "Svelte" => &[Tool::Npm],
        "Go" => &[Tool::Go],
        "Java" | "Kotlin" | "Groovy" => &[Tool::Maven, Tool::Gradle],
        "C" | "C++" => &[Tool::CMake, Tool::Meson, Tool::Autotools, Tool::Make],
        _ => &[],
    }
}

/// Returns the package that stands for the whole: at the top, of the main language. Of several of
/// one name, the first one that has a version.
pub(super) fn main_package<'r>(report: &'r Report, language: &str) -> Option<&'r Package> {
    let fits = |package: &&Package| tools_of(language).contains(&package.tool);
    let is_at_top = |package: &&Package| package.folder() == top(report);
    // A private manifest of another language configures tools.
    let all = || packages_with_name(report).filter(|it| fits(it) || !it.private || !is_at_top(it));
    let first = all().filter(is_at_top).find(fits);
    let is_same = |package: &&Package| first.is_some_and(|first| package.name == first.name);
    let mut same = all().filter(is_at_top).filter(fits).filter(is_same);
    let versioned = same.find(|package| !package.version.is_empty());
    versioned.or(first).or_else(|| all().find(is_at_top)).or_else(|| {
        // A project whose only package, or the one that holds most, lies below the top.
        let mut named = all();
        let first = named.next();
        let only = first.filter(|_| named.next().is_none());
        only.or_else(|| largest_package(report, all()))
    })
}

fn top(report: &Report) -> &str {
    if report.top.root == "." { "" } else { &report.top.root }
}

fn packages_with_name(report: &Report) -> impl Iterator<Item = &Package> {
    report.packages.iter().filter(|package| !package.name.is_empty())
}

/// Returns which of some packages holds most of all sources, if one does.
fn largest_package<'r>(
    report: &'r Report,
    packages: impl Iterator<Item = &'r Package>,
) -> Option<&'r Package> {
    let lines = |folder: &str| {
        let files = report.inventory.below(if folder.is_empty() { "." } else { folder });
        let own = files.filter(|file| is_source(&file.path) && file.part() == Part::Main);
        own.filter_map(|file| file.lines).sum::<u64>()
    };
    let all = lines(top(report));
    packages
        .filter(|package| lines(package.folder()) * 2 > all)
        .max_by_key(|package| package.folder().len())
}

/// Returns the version of a project: that of its package, or without one the version that all its
/// published packages share.
pub(super) fn version(report: &Report, package: Option<&Package>) -> String {
    let published = report.packages.iter().filter(|package| package.is_published());
    match package {
        Some(package) => package.version.clone(),
        None => match values(published, |package| &package.version).as_slice() {
            [one] => (*one).to_owned(),
            _ => String::new(),
        },
    }
}

/// Returns the different values that a field of packages has, also the empty one.
fn values<'r>(
    packages: impl Iterator<Item = &'r Package>,
    field: impl Fn(&'r Package) -> &'r String,
) -> Vec<&'r str> {
    let mut all: Vec<&str> = packages.map(|package| field(package).as_str()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Says what each manifest beside that of a package is called by it, if one says something else.
pub(super) fn manifests(report: &Report, package: &Package) -> Option<String> {
    let differs = |own: &str, other: &str| !other.is_empty() && own != other;
    let others: Vec<&Package> = packages_with_name(report)
        .filter(|other| other.folder() == package.folder() && other.path != package.path)
        .filter(|other| {
            differs(&package.name, &other.name)
                || differs(&package.version, &other.version)
                || differs(&package.licence, &other.licence)
        })
        .collect();
    let all = std::iter::once(package).chain(others.iter().copied());
    let said: Vec<String> = all.map(identity).collect();
    (!others.is_empty()).then(|| said.join(", "))
}

/// Says which name, version and licence a manifest has.
fn identity(package: &Package) -> String {
    let mut out = format!("{} names {}", code(&package.path), code(&package.name));
    if !package.version.is_empty() {
        out.push_str(&format!(" {}", wording::version(&package.version)));
    }
    if !package.licence.is_empty() {
        out.push_str(&format!(", licence {}", quote(&shorten(&package.licence, DECLARED))));
    }
    out
}

/// Says under which licence a project is: as its manifest declares it, and by the texts at its top.
pub(super) fn licence(report: &Report, package: Option<&Package>) -> String {
    match (declared_licence(report, package), report.top.licences.as_slice()) {
        (Some(declared), files) => declared_and_texts(&declared, files),
        (None, []) => match package {
            Some(package) => {
                format!("not stated in {} or a file at the top", code(&package.path))
            }
            None => "not stated in a manifest or a file at the top".to_owned(),
        },
        (None, files) => by_texts(files),
    }
}

/// Returns the licence that the manifest of a package declares, or without a package those that
/// all packages declare.
fn declared_licence(report: &Report, package: Option<&Package>) -> Option<String> {
    let Some(package) = package else {
        // A private package needs no licence.
        let states = |package: &&Package| !package.private || !package.licence.is_empty();
        let mut all = values(packages_with_name(report).filter(states), |package| &package.licence);
        let unstated = all.iter().any(|licence| licence.is_empty());
        all.retain(|licence| !licence.is_empty());
        return match all.as_slice() {
            [] => None,
            [one] if unstated => Some(format!("{one}, stated by some packages")),
            [one] => Some((*one).to_owned()),
            many => Some(format!("differs by package: {}", many.join(", "))),
        };
    };
    if package.leaves_to_workspace("license") {
        return Some(NOT_READ.to_owned());
    }
    (!package.licence.is_empty()).then(|| package.licence.clone())
}

/// Says what a manifest declares, and apart from it which other licences texts are.
fn declared_and_texts(declared: &str, files: &[(String, Vec<&'static str>)]) -> String {
    let mut same = Vec::new();
    let mut apart = Vec::new();
    for (path, licences) in files.iter().take(FILES) {
        let path = code(path);
        let is_declared = |licence: &&str| licence::names(declared, licence);
        let others: Vec<&str> = licences.iter().copied().filter(|it| !is_declared(it)).collect();
        let text = others.join(", ");
        // A text that the declaration refers to may be any.
        if others.is_empty() || declared.starts_with("see ") || declared == NOT_READ {
            same.push(path);
        } else if others.len() < licences.len() {
            apart.push(format!("{path} has the text of {text} too"));
            same.push(path);
        } else {
            apart.push(format!("{path} has the text of {text}"));
        }
    }
    let mut out = quote(&shorten(declared, DECLARED));
    if !same.is_empty() {
        out.push_str(&format!(" ({})", same.join(", ")));
    }
    if !apart.is_empty() {
        out.push_str(&format!("; {}", apart.join(", ")));
    }
    out
}

fn by_texts(files: &[(String, Vec<&'static str>)]) -> String {
    let (known, unknown): (Vec<_>, Vec<_>) =
        files.iter().take(FILES).partition(|(_, licences)| !licences.is_empty());
    let paths = |files: &[&(String, Vec<&str>)]| {
        files.iter().map(|(path, _)| code(path)).collect::<Vec<_>>().join(", ")
    };
    let mut names: Vec<&str> = Vec::new();
    for licence in known.iter().flat_map(|(_, licences)| licences) {
        if !names.contains(licence) {
            names.push(licence);
        }
    }
    let said = (!known.is_empty())
        .then(|| format!("{} by its text ({})", names.join(", "), paths(&known)));
    let more = (!unknown.is_empty()).then(|| format!("see {}", paths(&unknown)));
    said.into_iter().chain(more).collect::<Vec<_>>().join("; ")
}
