//! What a project is: its name, version and description, and the facts below them.

use super::size::Sizes;
use super::{Report, and_more, quoted};
use crate::manifest::{Package, Tool};
use crate::modules::is_source;
use crate::part::Part;
use crate::syntax::sentence_end;
use crate::wording::{self, bullets, quote, shorten};

/// Says of a field that another manifest has it.
pub(super) const NOT_READ: &str = "from the workspace (not read)";

/// The package that stands for the whole: at the top, of the main language.
fn main_package<'r>(report: &'r Report, language: &str) -> Option<&'r Package> {
    let top = if report.root == "." { "" } else { report.root.as_str() };
    let fits = |package: &&Package| {
        let tools: &[Tool] = match language {
            "Rust" => &[Tool::Cargo],
            "Python" => &[Tool::Python],
            "JavaScript" | "TypeScript" => &[Tool::Npm],
            "Go" => &[Tool::Go],
            "Java" => &[Tool::Maven, Tool::Gradle],
            "C" | "C++" => &[Tool::CMake, Tool::Meson, Tool::Autotools, Tool::Make],
            _ => &[],
        };
        tools.contains(&package.tool) && !package.name.is_empty()
    };
    let at_top = || report.packages.iter().filter(|package| package.folder() == top);
    at_top().find(fits).or_else(|| at_top().find(|package| !package.name.is_empty())).or_else(
        || {
            // A project whose only package, or the one that holds most, lies below the top.
            let mut named = report.packages.iter().filter(|package| !package.name.is_empty());
            let first = named.next();
            let only = first.filter(|_| named.next().is_none());
            only.or_else(|| largest_package(report))
        },
    )
}

/// Returns the package that holds most of all sources, if one does.
fn largest_package(report: &Report) -> Option<&Package> {
    let lines = |folder: &str| {
        let files = report.inventory.below(if folder.is_empty() { "." } else { folder });
        let own = files.filter(|file| is_source(&file.path) && file.part() == Part::Main);
        own.filter_map(|file| file.lines).sum::<u64>()
    };
    let all = lines(if report.root == "." { "" } else { &report.root });
    let named = report.packages.iter().filter(|package| !package.name.is_empty());
    named
        .filter(|package| lines(package.folder()) * 2 > all)
        .max_by_key(|package| package.folder().len())
}

pub(super) fn introduction(report: &Report) -> String {
    let sizes = Sizes::of(&report.inventory);
    let package = main_package(report, sizes.main_language());
    let readme = report.top.readme.as_ref();
    let titled = readme.map(|readme| readme.title.clone()).filter(|title| !title.is_empty());
    let name = package.map(|package| package.name.clone()).or(titled);
    let name = name.unwrap_or_else(|| report.name.clone());
    let version = version(report, package);
    let head = if version.is_empty() { format!("# {name}") } else { format!("# {name} {version}") };
    let about = package.map(|package| package.about.as_str()).unwrap_or_default();
    let mut said = Vec::new();
    if let (false, Some(package)) = (about.is_empty(), package) {
        said.push(format!("{} (`{}`)", sentence(about), package.about_path()));
    }
    if let Some(readme) = readme.filter(|readme| !readme.lead.is_empty())
        && !same(about, &readme.lead)
    {
        let end = sentence_end(&readme.lead).unwrap_or(readme.lead.len());
        let lead = readme.lead.get(..end).unwrap_or_default();
        said.push(format!("{} (`{}`)", sentence(lead), readme.path));
    }
    if said.is_empty() {
        inert_line(&head)
    } else {
        format!("{}\n\n{}", inert_line(&head), said.join(" "))
    }
}

fn inert_line(text: &str) -> String {
    text.replace(['`', '\n'], "'")
}

/// Returns the version of a project: its own, or the one that all its packages share.
fn version(report: &Report, package: Option<&Package>) -> String {
    let own = package.map(|package| package.version.clone()).unwrap_or_default();
    if !own.is_empty() {
        return own;
    }
    let top = if report.root == "." { "" } else { report.root.as_str() };
    let beside = report.packages.iter().filter(|other| other.folder() == top);
    let mut all: Vec<&str> =
        beside.map(|other| other.version.as_str()).filter(|version| !version.is_empty()).collect();
    if all.is_empty() && package.is_none() {
        all = report.packages.iter().map(|other| other.version.as_str()).collect();
    }
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [one] => (*one).to_owned(),
        _ => String::new(),
    }
}

/// Whether two texts begin alike.
fn same(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let letters = text.chars().filter(|c| c.is_alphanumeric()).take(60);
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    let (one, other) = (plain(one), plain(other));
    let length = one.len().min(other.len());
    length > 0 && one.get(..length) == other.get(..length)
}

fn sentence(text: &str) -> String {
    let text = quote(&shorten(text.trim(), 240));
    if text.ends_with(['.', '!', '?', '…']) { text } else { format!("{text}.") }
}

pub(super) fn facts(report: &Report, sizes: &Sizes) -> String {
    let package = main_package(report, sizes.main_language());
    let mut lines = Vec::new();
    if package.is_some_and(|package| package.leaves_to_workspace("version")) {
        lines.push(format!("Version: {NOT_READ}"));
    }
    lines.push(format!("Licence: {}", licence(report, package)));
    lines.push(format!("Size: {}", sizes.say()));
    let requires = package.map(|package| package.requires.as_str()).unwrap_or_default();
    if let (false, Some(package)) = (requires.is_empty(), package) {
        let language = match package.tool {
            Tool::Cargo => "Rust ",
            Tool::Python => "Python ",
            _ => "",
        };
        // Some manifests name the language with the version.
        let named = |(name, _): &(&str, &str)| name.chars().all(char::is_alphabetic);
        let requires = match requires.split_once(' ').filter(named) {
            Some((name, wanted)) => format!("{name} {}", wording::version(wanted)),
            None => wording::version(requires),
        };
        lines.push(format!("Requires: {language}{requires}"));
    }
    if !report.commands.build.is_empty() {
        lines.push(format!("Build: {}", quoted(&report.commands.build)));
    }
    if !report.commands.test.is_empty() {
        lines.push(format!("Test: {}", quoted(&report.commands.test)));
    }
    if !report.top.checks.is_empty() {
        let left = report.top.checks.len().saturating_sub(4);
        let first = report.top.checks.iter().take(4).map(|path| format!("`{path}`"));
        lines.push(format!("Continuous integration: {}", and_more(first.collect(), left)));
    }
    bullets(lines.into_iter()).unwrap_or_default()
}

fn licence(report: &Report, package: Option<&Package>) -> String {
    let unread = package.is_some_and(|package| package.leaves_to_workspace("license"));
    let declared = unread.then(|| NOT_READ.to_owned());
    let own = || package.map(|package| package.licence.clone()).filter(|text| !text.is_empty());
    let declared = declared.or_else(own);
    let declared = declared.or_else(|| {
        let mut all: Vec<&str> = report
            .packages
            .iter()
            .map(|package| package.licence.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        all.sort_unstable();
        all.dedup();
        match all.as_slice() {
            [one] => Some((*one).to_owned()),
            _ => None,
        }
    });
    let mut files: Vec<String> =
        report.top.licences.iter().map(|(path, _)| format!("`{path}`")).collect();
    files.truncate(4);
    if let Some(declared) = declared {
        let text = quote(&shorten(&declared, 80));
        return if files.is_empty() { text } else { format!("{text} ({})", files.join(", ")) };
    }
    let mut known: Vec<&str> = report.top.licences.iter().filter_map(|(_, name)| *name).collect();
    known.dedup();
    match (known.is_empty(), files.is_empty()) {
        (_, true) => "not stated in a manifest or a file at the top".to_owned(),
        (false, false) => format!("{} by its text ({})", known.join(", "), files.join(", ")),
        (true, false) => format!("see {}", files.join(", ")),
    }
}
