//! A survey as markdown, and a child's report that reads back.

mod dependencies;
mod files;
mod identity;
mod project;
mod size;
mod test_files;

use dependencies::dependencies;
use files::{connected, examples, module_table};
use project::{facts, introduction};
use size::Sizes;
pub(super) use test_files::of_tests;
use test_files::tests;

use crate::commands::Commands;
use crate::entries::Entry;
use crate::figures::Figures;
use crate::inventory::Inventory;
use crate::manifest::Package;
use crate::modules::Module;
use crate::readme::Readme;
use crate::scope::Scope;
use crate::wording::{bullets, count, printable, quote};

/// Entry points that are named with their places.
const ENTRIES: usize = 12;
/// Begins the figures at the end of a part's report.
const FIGURES: &str = "\n```json figures\n";
const END: &str = "\n```";

/// A part of a survey that was handed to a child.
#[derive(Debug)]
pub(super) struct PartReport {
    pub(super) label: String,
    /// Its figures; `None` if they could not be read.
    pub(super) figures: Option<Figures>,
    /// Why it is not complete.
    pub(super) problem: Option<String>,
}

/// Says of a field that another manifest has it.
const NOT_READ: &str = "from the workspace (not read)";

/// Files at the top of a project beside its packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Top {
    /// The path of the project.
    pub(super) root: String,
    /// The name of its directory, where no manifest and no README names it.
    pub(super) name: String,
    /// Names of its entries, also of hidden ones.
    pub(super) entries: Vec<String>,
    pub(super) readme: Option<Readme>,
    /// Licence files, each with the licences whose texts it has.
    pub(super) licences: Vec<(String, Vec<&'static str>)>,
    /// Files that configure continuous integration.
    pub(super) checks: Vec<String>,
}

/// All that a report says.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) top: Top,
    pub(super) packages: Vec<Package>,
    pub(super) inventory: Inventory,
    pub(super) commands: Commands,
    pub(super) entries: Vec<Entry>,
    pub(super) modules: Vec<Module>,
    pub(super) figures: Figures,
    /// The parts that children did.
    pub(super) parts: Vec<PartReport>,
    /// Parts that were not read, and why.
    pub(super) gaps: Vec<String>,
}

/// Renders the report of a part, with its figures for whoever puts parts together.
pub(super) fn of_part(scope: &Scope, figures: &Figures) -> String {
    let tests = figures.all_tests();
    let json = serde_json::to_string(figures).unwrap_or_default();
    format!(
        "Survey of {}: {} parsed, {} in {}.\n{FIGURES}{json}{END}\n",
        scope.short_label(),
        count(figures.parsed, "source file"),
        count(tests.cases, "test function"),
        count(tests.files, "file"),
    )
}

/// Reads the figures of a part's report.
pub(super) fn figures(text: &str) -> Option<Figures> {
    let (_, json) = text.rsplit_once(FIGURES)?;
    serde_json::from_str(json.split_once(END)?.0).ok()
}

/// Renders a report.
pub(super) fn render(report: &Report) -> String {
    let sizes = Sizes::of(&report.inventory);
    let sections = [
        Some(introduction(report)),
        Some(facts(report, &sizes)),
        section("Entry points", entry_points(report)),
        section("Modules", module_table(report)),
        section("Dependencies", dependencies(report)),
        section("Largest and most connected", connected(report)),
        section("Tests", tests(report)),
        section("Examples", examples(report)),
        section("Not looked at", bullets(report.gaps.iter().cloned())),
        Some(made_by(report.parts.len())),
    ];
    let text: Vec<String> = sections.into_iter().flatten().collect();
    printable(&format!("{}\n", text.join("\n\n")))
}

fn section(title: &str, body: Option<String>) -> Option<String> {
    body.map(|body| format!("## {title}\n\n{body}"))
}

fn quote_commands(commands: &[String]) -> String {
    let quote = |command: &String| match command.split_once(" (") {
        Some((command, what)) => format!("`{command}` ({}", quote(what)),
        None => format!("`{command}`"),
    };
    commands.iter().map(quote).collect::<Vec<_>>().join(", ")
}

fn and_more(mut named: Vec<String>, left: usize) -> String {
    if left > 0 {
        named.push(format!("{left} more"));
    }
    named.join(", ")
}

fn entry_points(report: &Report) -> Option<String> {
    let line = |entry: &Entry| match entry.at.as_str() {
        "" => entry.what.clone(),
        at if at.ends_with(')') => format!("{}: `{at}", entry.what),
        at => format!("{}: `{at}`", entry.what),
    };
    let (placed, rest) = report.entries.split_at(report.entries.len().min(ENTRIES));
    let names: Vec<&str> = rest.iter().map(|entry| entry.what.as_str()).collect();
    let more = (!rest.is_empty()).then(|| format!("and {} more: {}", rest.len(), names.join(", ")));
    bullets(placed.iter().map(line).chain(more))
}

fn made_by(children: usize) -> String {
    let by = match children {
        0 => String::new(),
        children => {
            format!(" {} were parsed by a child agent each.", count(children as u64, "part"))
        }
    };
    format!(
        "---\nMade by `offline`: rules and parsers over the results of file tools, no language \
         model.{by}"
    )
}
