//! A survey as markdown, and a child's report that reads back.

use std::collections::BTreeMap;

use super::commands::Commands;
use super::entries::Entry;
use super::figures::{Figures, group_folders};
use super::inventory::{File, Inventory};
use super::language::{self, Class};
use super::manifest::{Dependency, Package, Tool};
use super::modules::{Module, is_source};
use super::part::Part;
use super::scope::Scope;
use super::survey::Top;
use super::syntax::sentence_end;
use super::wording::{bullets, count, inert, number, percent, shorten};

/// Languages that are named.
const LANGUAGES: usize = 4;
/// Dependencies that are named.
const DEPENDENCIES: usize = 12;
/// Files that are named as largest, and as imported most.
const LARGEST: usize = 5;
/// Entry points that are named with their places.
const ENTRIES: usize = 12;
/// Rows of the folders of tests.
const TESTS: usize = 12;
/// Examples that are named.
const EXAMPLES: usize = 8;

/// Says of a field that another manifest has it.
const NOT_READ: &str = "from the workspace (not read)";

/// Begins the figures at the end of a part's report.
const FIGURES: &str = "\n```json figures\n";
const END: &str = "\n```";

/// A part of a survey that was handed to a child.
#[derive(Debug)]
pub(super) struct PartReport {
    /// What it covers.
    pub(super) label: String,
    /// What it found; `None` when that could not be read.
    pub(super) figures: Option<Figures>,
    /// Why it is not complete.
    pub(super) problem: Option<String>,
}

/// All that a report says.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) root: String,
    /// What the directory is called where no manifest and no README names it.
    pub(super) name: String,
    pub(super) top: Top,
    pub(super) packages: Vec<Package>,
    pub(super) inventory: Inventory,
    pub(super) commands: Commands,
    pub(super) entries: Vec<Entry>,
    pub(super) modules: Vec<Module>,
    pub(super) figures: Figures,
    /// The parts that children did.
    pub(super) parts: Vec<PartReport>,
    /// What was not looked at, and why.
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

/// Renders where tests are.
pub(super) fn of_tests(
    root: &str,
    figures: &Figures,
    gaps: &[String],
    commands: &[String],
) -> String {
    let all = figures.all_tests();
    let mut out = if all.cases == 0 {
        format!(
            "No test function was found in `{root}` among {}.\n",
            count(figures.parsed, "source file")
        )
    } else {
        format!(
            "{} in {} of `{root}`:\n\n{}\n",
            count(all.cases, "test function"),
            count(all.files, "file"),
            bullets(test_folders(figures)).unwrap_or_default()
        )
    };
    if !commands.is_empty() {
        out.push_str(&format!("\nRun them with {}.\n", quoted(commands)));
    }
    if let Some(gaps) = bullets(gaps.iter().cloned()) {
        out.push_str(&format!("\nNot looked at:\n\n{gaps}\n"));
    }
    out
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
    format!("{}\n", text.join("\n\n"))
}

fn section(title: &str, body: Option<String>) -> Option<String> {
    body.map(|body| format!("## {title}\n\n{body}"))
}

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

fn introduction(report: &Report) -> String {
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
        said.push(format!("{} (`{}`)", sentence(about), package.path));
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
    let text = inert(&shorten(text.trim(), 240));
    if text.ends_with(['.', '!', '?', '…']) { text } else { format!("{text}.") }
}

fn facts(report: &Report, sizes: &Sizes) -> String {
    let package = main_package(report, sizes.main_language());
    let mut lines = Vec::new();
    lines.push(format!("Licence: {}", licence(report, package)));
    lines.push(format!("Size: {}", sizes.say()));
    if package.is_some_and(|package| package.leaves_to_workspace("version")) {
        lines.push(format!("Version: {NOT_READ}"));
    }
    let requires = package.map(|package| package.requires.as_str()).unwrap_or_default();
    if let (false, Some(package)) = (requires.is_empty(), package) {
        let language = match package.tool {
            Tool::Cargo => "Rust ",
            Tool::Python => "Python ",
            _ => "",
        };
        lines.push(format!("Requires: {language}{}", inert(requires)));
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
        let text = inert(&shorten(&declared, 80));
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

fn quoted(commands: &[String]) -> String {
    let quote = |command: &String| match command.split_once(" (") {
        Some((command, what)) => format!("`{command}` ({}", inert(what)),
        None => format!("`{command}`"),
    };
    commands.iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// Files and lines of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    files: u64,
    lines: u64,
}

/// The sizes of a project.
struct Sizes {
    /// Languages of programs, the largest first.
    languages: Vec<(&'static str, Size)>,
    /// All text files, also those by others.
    all: Size,
    /// Those by others or by programs.
    foreign: Size,
    binary: u64,
}

impl Sizes {
    fn of(inventory: &Inventory) -> Self {
        let mut by_name: BTreeMap<&'static str, Size> = BTreeMap::new();
        let (mut all, mut foreign, mut binary) = (Size::default(), Size::default(), 0);
        for file in &inventory.files {
            let Some(lines) = file.lines else {
                binary += u64::from(inventory.binary.contains(&file.path));
                continue;
            };
            all.files += 1;
            all.lines += lines;
            if file.part() == Part::Foreign {
                foreign.files += 1;
                foreign.lines += lines;
                continue;
            }
            let language = language::of(&file.path);
            if language.class == Class::Code {
                let size = by_name.entry(language.name).or_default();
                size.files += 1;
                size.lines += lines;
            }
        }
        let mut languages: Vec<_> = by_name.into_iter().collect();
        languages.sort_by_key(|(name, size)| (std::cmp::Reverse(size.lines), *name));
        Self { languages, all, foreign, binary }
    }

    fn main_language(&self) -> &'static str {
        self.languages.first().map_or("", |(name, _)| name)
    }

    fn say(&self) -> String {
        let code: u64 = self.languages.iter().map(|(_, size)| size.lines).sum();
        let left = self.languages.len().saturating_sub(LANGUAGES);
        let one = |(name, size): &(&str, Size)| {
            let share = percent(size.lines, code);
            format!(
                "{name} {} in {} ({share})",
                count(size.lines, "line"),
                count(size.files, "file")
            )
        };
        let named = self.languages.iter().take(LANGUAGES).map(one).collect();
        let mut out = and_more(named, left);
        let text = format!(
            "{} and {} of text in all",
            count(self.all.files, "file"),
            count(self.all.lines, "line")
        );
        out = if out.is_empty() { text } else { format!("{out}; {text}") };
        if self.foreign.files > 0 {
            out.push_str(&format!(
                ", {} of them vendored, generated or lock files",
                number(self.foreign.files)
            ));
        }
        if self.binary > 0 {
            out.push_str(&format!("; {}", count(self.binary, "binary file")));
        }
        out
    }
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

fn module_table(report: &Report) -> Option<String> {
    if report.modules.is_empty() {
        return None;
    }
    const ROWS: usize = 12;
    let mut out = "| folder | files | lines | what it is |\n| --- | ---: | ---: | --- |".to_owned();
    for module in report.modules.iter().take(ROWS) {
        let about = inert(&shorten(&module.about, 100));
        out.push_str(&format!(
            "\n| `{}` | {} | {} | {about} |",
            module.label(),
            number(module.files),
            number(module.lines)
        ));
    }
    let rest = report.modules.get(ROWS..).unwrap_or_default();
    if !rest.is_empty() {
        let files = rest.iter().map(|module| module.files).sum();
        let lines = rest.iter().map(|module| module.lines).sum();
        out.push_str(&format!(
            "\n| {} more | {} | {} | |",
            rest.len(),
            number(files),
            number(lines)
        ));
    }
    Some(out)
}

fn dependencies(report: &Report) -> Option<String> {
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
            version => format!(" {}", inert(version)),
        };
        let users = if many && *users > 1 { format!(" (×{users})") } else { String::new() };
        format!("`{}`{version}{users}", inert(&dependency.name))
    };
    let left = all.len().saturating_sub(DEPENDENCIES);
    let named = and_more(all.iter().take(DEPENDENCIES).map(one).collect(), left);
    let mut out = match all.len() {
        0 => "None at run time".to_owned(),
        found => format!("{} at run time: {named}", number(found as u64)),
    };
    if optional > 0 {
        out.push_str(&format!("; {} optional", number(optional)));
    }
    if development > 0 {
        out.push_str(&format!("; {} for development and building", number(development)));
    }
    out.push('.');
    Some(out)
}

fn connected(report: &Report) -> Option<String> {
    let mut files: Vec<&File> = report
        .inventory
        .files
        .iter()
        .filter(|file| is_source(&file.path) && file.part() == Part::Main)
        .filter(|file| !report.figures.generated.contains(&file.path))
        .filter(|file| !report.figures.only_tests.contains(&file.path))
        .filter(|file| file.lines.is_some())
        .collect();
    files.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.path.cmp(&b.path)));
    let one = |file: &&File| format!("`{}` {}", file.path, number(file.lines.unwrap_or(0)));
    let largest: Vec<String> = files.iter().take(LARGEST).map(one).collect();
    let mut imported: Vec<(&String, &u64)> = report.figures.imported.iter().collect();
    imported.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let one = |(path, count): &(&String, &u64)| format!("`{path}` {count}");
    let most: Vec<String> =
        imported.iter().filter(|(_, count)| **count > 1).take(LARGEST).map(one).collect();
    let mut lines = Vec::new();
    if !largest.is_empty() {
        lines.push(format!("Largest files, in lines: {}", largest.join(", ")));
    }
    if !most.is_empty() {
        lines.push(format!("Imported by most files: {}", most.join(", ")));
    }
    bullets(lines.into_iter())
}

/// Returns a line for each folder with tests, those with most first.
fn test_folders(figures: &Figures) -> impl Iterator<Item = String> {
    let mut folders = figures.tests.clone();
    group_folders(&mut folders, TESTS);
    let mut folders: Vec<_> = folders.into_iter().collect();
    folders.sort_by(|a, b| b.1.cases.cmp(&a.1.cases).then(a.0.cmp(&b.0)));
    folders.into_iter().map(|(folder, tests)| {
        let folder = if folder.is_empty() { "." } else { folder.as_str() };
        let below = if tests.below { " and other folders in it" } else { "" };
        format!("`{folder}`{below}: {} in {}", number(tests.cases), count(tests.files, "file"))
    })
}

fn tests(report: &Report) -> Option<String> {
    let all = report.figures.all_tests();
    let files = report
        .inventory
        .files
        .iter()
        .filter(|file| file.part() == Part::Test && is_source(&file.path));
    let files = files.count() as u64;
    if all.cases == 0 && files == 0 {
        return (report.figures.parsed > 0).then(|| "No test function was found.".to_owned());
    }
    let mut out = if all.cases == 0 {
        format!(
            "{} in folders of tests; no test function that a parser can tell.",
            count(files, "file")
        )
    } else {
        format!("{} in {}:", count(all.cases, "test function"), count(all.files, "file"))
    };
    if let Some(folders) = bullets(test_folders(&report.figures)) {
        out.push_str(&format!("\n\n{folders}"));
    }
    if !report.commands.test.is_empty() {
        out.push_str(&format!("\n\nRun them with {}.", quoted(&report.commands.test)));
    }
    Some(out)
}

fn examples(report: &Report) -> Option<String> {
    let folders = ["examples", "example", "demo", "demos", "samples"];
    let mut by_folder: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in report.inventory.files.iter().filter(|file| file.part() == Part::Example) {
        let mut at = 0;
        for part in file.path.split('/') {
            let end = at + part.len();
            if folders.contains(&part.to_ascii_lowercase().as_str()) {
                let folder = file.path.get(..end).unwrap_or_default().to_owned();
                by_folder.entry(folder).or_default().push(&file.path);
                break;
            }
            at = end + 1;
        }
    }
    let line = |(folder, files): (&String, &Vec<&str>)| {
        let prefix = format!("{folder}/");
        let mut names: Vec<&str> = files
            .iter()
            .filter(|path| is_source(path))
            .filter_map(|path| example_name(path.strip_prefix(&prefix)?))
            .collect();
        names.sort_unstable();
        names.dedup();
        let left = names.len().saturating_sub(EXAMPLES);
        let names = names.iter().take(EXAMPLES).map(|name| inert(name)).collect();
        let names = and_more(names, left);
        let names = if names.is_empty() { String::new() } else { format!(": {names}") };
        format!("`{folder}`, {}{names}", count(files.len() as u64, "file"))
    };
    bullets(by_folder.iter().take(4).map(line))
}

/// Returns the name of an example by its path below the folder of examples, which may be a
/// package of its own.
fn example_name(path: &str) -> Option<&str> {
    let path = path.strip_prefix("src/").unwrap_or(path);
    path.strip_prefix("bin/").unwrap_or(path).split('/').next()
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
