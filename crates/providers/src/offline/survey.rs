//! One survey of one scope: which searches it takes, and what their results say.

use std::collections::{BTreeMap, BTreeSet};

use super::conversation::Ask;
use super::facts::{Facts, NOTABLE, Place, REFERENCES};
use super::items::{self, Item};
use super::language::{self, Class};
use super::manifest;
use super::part::{Part, part_of};
use super::readme;
use super::rules::grammar;
use super::rules::risk;
use super::scope::Scope;
use super::search::{Found, Hit, Search};

/// Pages of the search that counts lines: this times [`super::search::PAGE`] files are seen.
pub(super) const SIZE_PAGES: usize = 6;
/// Pages of each search for public items, and of each for what is frequent.
const PAGES: usize = 3;
/// Languages whose lines are looked at one by one: those with most lines.
const LANGUAGES: usize = 6;

/// Open remarks.
const REMARKS: &str = r"\b(?:TODO|FIXME)\b|(?://|#|\*|--|;)\s*(?:XXX|HACK)\b|\b(?:XXX|HACK):";

/// What a survey knows so far. `ask` collects what is still to be called; with `closing`
/// nothing more can be, and what there is must do.
pub(super) fn survey(ask: &mut Ask<'_, '_>, scope: &Scope, closing: bool) -> Facts {
    let mut facts = Facts::default();
    let sizes = Search::counts(scope, "lines", "^", &[]).pages(SIZE_PAGES).ask(ask);
    let names = Search::files(scope, &[]).pages(SIZE_PAGES).ask(ask);
    let files: Vec<(&str, u64)> = sizes.counts().collect();
    if ask.waits() && !closing {
        return facts;
    }
    count(&mut facts, &files);
    if !sizes.more && sizes.problem.is_none() {
        no_text(&mut facts, &files, &names);
    }
    size_gaps(&mut facts, scope, &sizes, files.len() as u64);
    let languages = main_languages(&facts);
    let asked = Asked {
        readme: readme::ask(ask, &files),
        manifests: manifest::ask(ask, scope, &files),
        scripts: manifest::ask_scripts(ask, scope, &files),
        items: languages.iter().flat_map(|name| items(ask, scope, name)).collect(),
        tests: languages.iter().filter_map(|name| tests(ask, scope, name)).collect(),
        inner_tests: inner_tests(ask, scope, &languages),
        dense: languages.iter().filter_map(|name| dense(ask, scope, name)).collect(),
        rare: rare(ask, scope, &present(&facts)),
        remarks: Search::lines(scope, "open_remarks", REMARKS, &[]).ask(ask),
        headings: headings(ask, scope, &facts),
    };
    if ask.waits() && !closing {
        return facts;
    }
    let judge = Judge::of(&asked);
    facts.entries.clone_from(&asked.scripts);
    let items = judge.items(&mut facts, &asked);
    let imports = items::imports(&items).map_or_else(Found::nothing, |pattern| {
        let globs = globs(languages.iter().map(|name| language::by_name(name)));
        let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
        Search::lines(scope, "imports", &pattern, &globs).pages(1).ask(ask)
    });
    if ask.waits() && !closing {
        return facts;
    }
    facts.notable = items::notable(&items, &imports);
    asked.judge(&mut facts, &judge, &files);
    facts
}

/// The results of the second round.
struct Asked<'t> {
    readme: Option<super::facts::Readme>,
    manifests: manifest::Manifests<'t>,
    scripts: Vec<Place>,
    items: Vec<(&'static str, Found<'t>)>,
    tests: Vec<(&'static str, Found<'t>)>,
    /// Where tests begin inside files of Rust.
    inner_tests: Found<'t>,
    dense: Vec<(&'static str, Found<'t>)>,
    rare: Vec<Found<'t>>,
    remarks: Found<'t>,
    headings: Found<'t>,
}

impl<'t> Asked<'t> {
    fn judge(self, facts: &mut Facts, judge: &Judge<'t>, files: &[(&str, u64)]) {
        facts.readme = self.readme;
        note_gap(facts, &self.manifests.found, "packages", "manifests");
        let (packages, total) = manifest::packages(&self.manifests, files);
        facts.packages = packages;
        facts.packages_total = total;
        facts.entries.extend(manifest::landmarks(files));
        facts.entries.truncate(NOTABLE);
        note_gap(facts, &self.inner_tests, "tests inside files", "Rust");
        for (language, found) in &self.dense {
            note_gap(facts, found, "frequent risks", language);
        }
        for (language, found) in &self.items {
            note_gap(facts, found, "public items", language);
        }
        for hit in self.headings.hits() {
            let new = facts.documents.last().is_none_or(|last| last.path != hit.path);
            if new && facts.documents.len() < NOTABLE {
                let what = shorten(hit.text.trim_start_matches(['#', ' ']), 80);
                let (path, line) = (hit.path.to_owned(), hit.line);
                facts.documents.push(Place { path, line, what });
            }
        }
        for (language, found) in &self.tests {
            note_gap(facts, found, "test cases", language);
            for (_, cases) in own_tests(found) {
                facts.test_cases += cases;
                facts.test_files += 1;
            }
        }
        let mut seen = BTreeSet::new();
        for found in self.dense.iter().map(|(_, found)| found).chain(&self.rare) {
            judge.risks(facts, &mut seen, found);
        }
        for found in &self.rare {
            note_gap(facts, found, "risks", "all languages");
        }
        facts.findings.values_mut().for_each(super::facts::Finding::settle);
        note_gap(facts, &self.remarks, "open remarks", "all languages");
        judge.remarks(facts, &self.remarks);
    }
}

/// Judges lines, knowing where tests begin inside files.
struct Judge<'t> {
    tests_from: BTreeMap<&'t str, u64>,
}

impl<'j> Judge<'j> {
    fn of(asked: &Asked<'j>) -> Self {
        let mut tests_from = BTreeMap::new();
        for hit in asked.inner_tests.hits() {
            let line = tests_from.entry(hit.path).or_insert(hit.line);
            *line = hit.line.min(*line);
        }
        Self { tests_from }
    }

    fn tested(&self, hit: &Hit<'_>) -> bool {
        let within = self.tests_from.get(hit.path).is_some_and(|from| hit.line >= *from);
        within || part_of(hit.path) != Part::Main
    }

    fn items(&self, facts: &mut Facts, asked: &Asked<'_>) -> Vec<Item> {
        let mut all = Vec::new();
        for (language, found) in &asked.items {
            let own = found.hits().filter(|hit| !self.tested(hit));
            all.extend(items::collect(facts, language, own));
        }
        items::sort(&mut all);
        all
    }

    /// Judges each line once, though several searches may have found it.
    fn risks<'t>(&self, facts: &mut Facts, seen: &mut BTreeSet<(&'t str, u64)>, found: &Found<'t>) {
        for hit in found.hits().filter(|hit| seen.insert((hit.path, hit.line))) {
            let language = language::of(hit.path);
            if !risk::looks_at(language, part_of(hit.path)) {
                continue;
            }
            for risk in risk::risks(language, self.tested(&hit), hit.text) {
                facts.findings.entry(risk.id.to_owned()).or_default().hit(hit.path, hit.line);
            }
        }
    }

    fn remarks(&self, facts: &mut Facts, found: &Found<'_>) {
        let mut places = Vec::new();
        let (mut said, mut turns) = (BTreeSet::new(), BTreeMap::new());
        for hit in found.hits() {
            let language = language::of(hit.path);
            let class = language.class;
            let foreign = part_of(hit.path) == Part::Foreign;
            let pattern = risk::holds_pattern(hit.text);
            if foreign || pattern || !matches!(class, Class::Code | Class::Markup) {
                continue;
            }
            let words = ["FIXME", "TODO", "HACK", "XXX"];
            let Some((word, text)) = words.iter().find_map(|word| {
                let (before, _) = hit.text.split_once(word)?;
                let said = language.in_comment(before);
                said.then(|| (*word, hit.text.get(before.len()..).unwrap_or_default()))
            }) else {
                continue;
            };
            *facts.remarks.entry(word.to_owned()).or_default() += 1;
            let place =
                Place { path: hit.path.to_owned(), line: hit.line, what: shorten(text, 90) };
            if !said.insert(place.what.clone()) {
                continue;
            }
            let turn = turns.entry(hit.path).or_insert(0_u32);
            *turn += 1;
            places.push((self.tested(&hit), !text.starts_with("FIXME"), *turn, place));
        }
        // What is in the work itself, what is broken, and one of each file come first.
        places.sort_by_key(|(tested, todo, turn, _)| (*tested, *todo, *turn));
        let first = places.into_iter().take(2 * REFERENCES).map(|(.., place)| place);
        facts.remark_places = first.collect();
    }
}

/// Text on one line, cut with a mark.
pub(super) fn shorten(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Counts files and their lines by language.
pub(super) fn count(facts: &mut Facts, files: &[(&str, u64)]) {
    for (path, lines) in files {
        facts.size.add(1, *lines);
        let language = language::of(path);
        if part_of(path) == Part::Foreign {
            facts.foreign.add(1, *lines);
            continue;
        }
        facts.languages.entry(language.name.to_owned()).or_default().add(1, *lines);
        if language.class == Class::Code && part_of(path) == Part::Main {
            facts.longest.push(((*path).to_owned(), *lines));
        }
    }
    facts.longest.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    facts.longest.truncate(REFERENCES);
}

/// What is in the list of names and has no lines: not text, or empty.
fn no_text(facts: &mut Facts, files: &[(&str, u64)], names: &Found<'_>) {
    let text: BTreeSet<&str> = files.iter().map(|(path, _)| *path).collect();
    for (path, bytes) in names.sizes() {
        let binary = bytes > 0 && !text.contains(path);
        if binary {
            facts.binary += 1;
            facts.binary_bytes += bytes;
        }
        facts.empty += u64::from(bytes == 0);
        facts.heaviest.push((path.to_owned(), bytes));
        if part_of(path) != Part::Foreign {
            for id in risk::file_risks(path, bytes, binary) {
                facts.findings.entry(id.to_owned()).or_default().hit(path, 0);
            }
        }
    }
    facts.heaviest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    facts.heaviest.truncate(REFERENCES);
}

/// The headings of documents, where there is no program to speak of.
fn headings<'t>(ask: &mut Ask<'t, '_>, scope: &Scope, facts: &Facts) -> Found<'t> {
    let code = |name: &String| language::by_name(name).class == Class::Code;
    if facts.languages.keys().any(code) || !facts.languages.contains_key("Markdown") {
        return Found::nothing();
    }
    Search::lines(scope, "headings", r"^#\s+\S", &["*.md", "*.markdown", "*.mdx"])
        .first(500)
        .ask(ask)
}

fn size_gaps(facts: &mut Facts, scope: &Scope, sizes: &Found<'_>, seen: u64) {
    if let Some(problem) = &sizes.problem {
        facts.gaps.push(format!("counting the lines of {} {problem}", scope.label()));
    } else if !sizes.read {
        facts.gaps.push(format!("the sizes of {}", scope.label()));
    } else if sizes.more {
        let all = sizes.files;
        facts
            .gaps
            .push(format!("sizes beyond the first {seen} of {all} files in {}", scope.label()));
        facts.at_least.push("sizes".to_owned());
    }
}

/// The languages whose lines are looked at, those with most lines first.
pub(super) fn main_languages(facts: &Facts) -> Vec<&'static str> {
    let mut code: Vec<_> = facts
        .languages
        .iter()
        .map(|(name, size)| (size.lines, language::by_name(name)))
        .filter(|(_, language)| language.class == Class::Code)
        .collect();
    code.sort_by_key(|(lines, _)| std::cmp::Reverse(*lines));
    let known = code.iter().filter(|(_, language)| grammar::grammar(language.name).is_some());
    known.map(|(_, language)| language.name).take(LANGUAGES).collect()
}

fn present(facts: &Facts) -> Vec<&'static str> {
    facts.languages.keys().map(|name| language::by_name(name).name).collect()
}

fn globs(languages: impl Iterator<Item = &'static language::Language>) -> Vec<String> {
    languages.flat_map(language::Language::globs).collect()
}

/// The searches for rare risks: for keys in all files, for the others in programs and settings.
fn rare<'t>(ask: &mut Ask<'t, '_>, scope: &Scope, languages: &[&'static str]) -> Vec<Found<'t>> {
    let known = languages.iter().map(|name| language::by_name(name));
    let told = known.filter(|language| {
        let silent = ["SVG", "CSV", "Lock file", "Patch", "Snapshot", "Log", "JSON Lines"];
        let speaks = !matches!(language.class, Class::Prose | Class::Other);
        speaks && !silent.contains(&language.name)
    });
    let globs = globs(told);
    let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
    let (everywhere, code) = risk::rare(languages);
    let mut searches: Vec<Search> =
        everywhere.into_iter().map(|pattern| Search::lines(scope, "keys", &pattern, &[])).collect();
    if !globs.is_empty() {
        searches.extend(
            code.into_iter().map(|pattern| Search::lines(scope, "risks", &pattern, &globs)),
        );
    }
    searches.iter().map(|search| search.ask(ask)).collect()
}

/// What a search in a language found; nothing where no pattern for it is known.
pub(super) type InLanguage<'t> = Option<(&'static str, Found<'t>)>;

fn items<'t>(
    ask: &mut Ask<'t, '_>,
    scope: &Scope,
    language: &'static str,
) -> Vec<(&'static str, Found<'t>)> {
    let Some(grammar) = grammar::grammar(language) else { return Vec::new() };
    let patterns = [grammar.items, grammar.entry].into_iter().filter(|p| !p.is_empty());
    let alone = patterns.collect::<Vec<_>>().join("|");
    let searches = [("public_items", alone.as_str())].into_iter();
    let searches = searches.chain(grammar::groups(language).map(|groups| ("item_groups", groups)));
    searches
        .map(|(what, pattern)| {
            (language, by_language(scope, what, pattern, language).pages(PAGES).ask(ask))
        })
        .collect()
}

/// How many test cases each file of a language has.
pub(super) fn tests<'t>(
    ask: &mut Ask<'t, '_>,
    scope: &Scope,
    language: &'static str,
) -> InLanguage<'t> {
    let grammar = grammar::grammar(language)?;
    let found = by_language(scope, "test_cases", grammar.tests, language).pages(PAGES).ask(ask);
    Some((language, found))
}

/// The files with test cases, without those that others wrote.
pub(super) fn own_tests<'t>(found: &Found<'t>) -> impl Iterator<Item = (&'t str, u64)> {
    found.counts().filter(|(path, _)| part_of(path) != Part::Foreign)
}

fn dense<'t>(ask: &mut Ask<'t, '_>, scope: &Scope, language: &'static str) -> InLanguage<'t> {
    let pattern = risk::dense(language)?;
    Some((language, by_language(scope, "frequent_risks", &pattern, language).pages(PAGES).ask(ask)))
}

fn by_language(scope: &Scope, what: &str, pattern: &str, language: &str) -> Search {
    let globs = language::by_name(language).globs();
    let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
    // Of test cases only the number counts.
    if what == "test_cases" {
        Search::counts(scope, what, pattern, &globs)
    } else {
        Search::lines(scope, what, pattern, &globs)
    }
}

fn inner_tests<'t>(ask: &mut Ask<'t, '_>, scope: &Scope, languages: &[&str]) -> Found<'t> {
    if !languages.contains(&"Rust") {
        return Found::nothing();
    }
    by_language(scope, "inner_tests", risk::RUST_TESTS, "Rust").pages(PAGES).ask(ask)
}

/// Notes what a search did not tell.
pub(super) fn note_gap(facts: &mut Facts, found: &Found<'_>, what: &str, language: &str) {
    if let Some(problem) = &found.problem {
        facts.gaps.push(format!("{what} ({language}): the search {problem}"));
    } else if !found.read {
        facts.gaps.push(format!("{what} ({language})"));
    } else if found.more {
        let total = found.total;
        let seen = found.len();
        facts.gaps.push(format!("{what} ({language}) beyond the first {seen} lines of {total}"));
        facts.at_least.push(what.to_owned());
    }
}
