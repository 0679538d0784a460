//! Identity of a project: its name, version and description, and the facts below them.

use super::identity::{licence, main_package, manifests, version};
use super::size::Sizes;
use super::{NOT_READ, Report, and_more, quote_commands};
use crate::manifest::Tool;
use crate::wording::{self, bullets, quote, sentence_end, shorten};

pub(super) fn introduction(report: &Report) -> String {
    let sizes = Sizes::of(&report.inventory);
    let package = main_package(report, sizes.main_language());
    let readme = report.top.readme.as_ref();
    let titled = readme.map(|readme| readme.title.clone()).filter(|title| !title.is_empty());
    let name = package.map(|package| package.name.clone()).or(titled);
    let name = name.unwrap_or_else(|| report.top.name.clone());
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

/// Whether two texts begin alike.
fn same(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let letters = text.chars().filter(|c| c.is_alphanumeric()).take(60);
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    let one = plain(one);
    let other = plain(other);
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
    if let Some(manifests) = package.and_then(|package| manifests(report, package)) {
        lines.push(format!("Manifests: {manifests}"));
    }
    if package.is_some_and(|package| package.leaves_to_workspace("version")) {
        lines.push(format!("Version: {NOT_READ}"));
    }
    lines.push(format!("Licence: {}", licence(report, package)));
    lines.push(format!("Size: {}", sizes.say()));
    let requires = package.map(|package| package.needs.requires.as_str()).unwrap_or_default();
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
        lines.push(format!("Build: {}", quote_commands(&report.commands.build)));
    }
    if !report.commands.test.is_empty() {
        lines.push(format!("Test: {}", quote_commands(&report.commands.test)));
    }
    if !report.top.checks.is_empty() {
        let left = report.top.checks.len().saturating_sub(4);
        let first = report.top.checks.iter().take(4).map(|path| format!("`{path}`"));
        lines.push(format!("Continuous integration: {}", and_more(first.collect(), left)));
    }
    bullets(lines.into_iter()).unwrap_or_default()
}
