//! Facts as markdown, and a child's report that reads back.

use std::fmt::Write as _;

use super::facts::{Facts, Place};
use super::language::{self, Class};
use super::rules::risk::Gravity;
use super::scope::{Scope, under};
use super::survey::shorten;
use super::wording::{bullets, count, inert, number, percent, plural};

/// Rows of the table of languages.
const LANGUAGES: usize = 8;
/// Packages, entry points, items and findings that are named.
const NAMED: usize = 12;
/// References of one finding that are shown.
const SHOWN: usize = 3;

/// What the count of public items leaves out.
const UNCOUNTED: &str = "Not counted: modules, re-exports, fields and variants, and what macros \
                         or generators make.\n";

/// Begins the figures at the end of a part's report.
const FIGURES: &str = "\n```json figures\n";
const END: &str = "\n```";

/// A part of a survey that was handed to a child.
#[derive(Debug)]
pub(super) struct PartReport {
    /// What it covers.
    pub(super) label: String,
    /// What it found; nothing when that could not be read.
    pub(super) facts: Option<Facts>,
    /// Why it is not complete.
    pub(super) problem: Option<String>,
    /// What it said, when that could not be read as figures.
    pub(super) text: Option<String>,
}

/// All that a report says.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// What was surveyed, quoted.
    pub(super) subject: String,
    /// The directory, for what lies right in it.
    pub(super) root: String,
    /// What was found in all.
    pub(super) facts: Facts,
    /// The parts that children did.
    pub(super) parts: Vec<PartReport>,
    /// What is missing or odd at the top of the tree.
    pub(super) housekeeping: Vec<String>,
}

/// The report of a part: for people, and with its figures for whoever puts parts together.
pub(super) fn of_part(scope: &Scope, facts: &Facts) -> String {
    let (subject, root) = (scope.short_label(), scope.top().to_owned());
    let report = Report { subject, root, facts: facts.clone(), ..Report::default() };
    let figures = serde_json::to_string(facts).unwrap_or_default();
    format!("{}{FIGURES}{figures}{END}\n", render(&report))
}

/// The figures of a part's report.
pub(super) fn figures(text: &str) -> Option<Facts> {
    let (_, figures) = text.rsplit_once(FIGURES)?;
    serde_json::from_str(figures.split_once(END)?.0).ok()
}

/// A report as markdown.
pub(super) fn render(report: &Report) -> String {
    let facts = &report.facts;
    let mut out = format!("# Survey of {}\n\n{}\n", report.subject, about(&report.root, facts));
    let sections = [
        ("Languages", languages(facts)),
        ("Parts", parts(&report.parts)),
        ("Documents", documents(facts)),
        ("Largest files", heaviest(facts)),
        ("Packages", packages(facts)),
        ("Where it starts", entries(facts)),
        ("Public items", items(facts)),
        ("Tests", tests(facts)),
        ("Worth a look", findings(facts)),
        ("Open remarks", remarks(facts)),
        ("Housekeeping", bullets(report.housekeeping.iter().cloned())),
        ("Reports taken over as they came", as_they_came(&report.parts)),
        ("Not looked at", bullets(facts.gaps.iter().cloned().chain(lost(&report.parts)))),
    ];
    for (title, text) in sections {
        if let Some(text) = text {
            let _ = write!(out, "\n## {title}\n\n{}\n", text.trim_end());
        }
    }
    out
}

/// What it is, in the words of its manifest and its README.
fn introduction(root: &str, facts: &Facts) -> String {
    // What lies deeper tells of a part, not of the whole.
    let top = |path: &str| under(root, language::file_name(path)) == path;
    let package = facts.packages.iter().find(|package| top(&package.path));
    let readme = facts.readme.as_ref().filter(|readme| top(&readme.path));
    let title = readme.map(|readme| readme.title.as_str()).filter(|title| !title.is_empty());
    let named = package.filter(|package| title.is_none() || !package.about.is_empty());
    let Some(name) = named.map(|package| package.name.as_str()).or(title) else {
        return String::new();
    };
    let about = package.filter(|package| !package.about.is_empty());
    let lead = readme.filter(|readme| !readme.lead.is_empty());
    // What both say in the same words is said once, where there is more of it.
    let (about, lead) = match (about, lead) {
        (Some(package), Some(readme)) if begins_with(&readme.lead, &package.about) => {
            (None, Some(readme))
        }
        (Some(package), Some(readme)) if begins_with(&package.about, &readme.lead) => {
            (Some(package), None)
        }
        both => both,
    };
    let about = about.map(|package| format!("{} (`{}`)", package.about, package.path));
    let lead = lead.map(|readme| format!("{} (`{}`)", readme.lead, readme.path));
    let said: Vec<String> = [about, lead].into_iter().flatten().collect();
    if said.is_empty() {
        return format!("**{name}**: no description found.\n\n");
    }
    format!("**{name}**: {}\n\n", said.join(" "))
}

fn begins_with(text: &str, head: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    letters(text).starts_with(&letters(head))
}

fn about(root: &str, facts: &Facts) -> String {
    let mut out = introduction(root, facts);
    if facts.size.files == 0 {
        out.push_str("No text file with a line in it was found here.");
        return out;
    }
    let more = if facts.at_least.iter().any(|what| what == "sizes") { "At least " } else { "" };
    let (files, lines) = (facts.size.files, facts.size.lines);
    let _ =
        write!(out, "{more}{} and {} in text files.", count(files, "file"), count(lines, "line"));
    if facts.binary > 0 {
        let kib = number(facts.binary_bytes.div_ceil(1024));
        let _ = write!(out, " {} beside them ({kib} KiB).", count(facts.binary, "binary file"));
    }
    if facts.languages.values().all(|size| size.lines == 0) {
        return out;
    }
    let code = |name: &&String| language::by_name(name).class == Class::Code;
    let code: u64 =
        facts.languages.iter().filter(|(name, _)| code(name)).map(|(_, s)| s.lines).sum();
    let own = facts.size.lines.saturating_sub(facts.foreign.lines);
    if code == 0 {
        return out;
    }
    let _ = write!(
        out,
        " Of the {} written here, {} are code.",
        count(own, "line"),
        percent(code, own)
    );
    out
}

fn languages(facts: &Facts) -> Option<String> {
    let mut all: Vec<_> = facts.languages.iter().collect();
    if all.is_empty() {
        return None;
    }
    all.sort_by_key(|(_, size)| std::cmp::Reverse(size.lines));
    let most = if all.len() == LANGUAGES + 1 { all.len() } else { LANGUAGES };
    let mut rows: Vec<(String, u64, u64)> = all
        .iter()
        .take(most)
        .map(|(name, size)| ((*name).clone(), size.files, size.lines))
        .collect();
    let rest = all.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let (files, lines) = rest.iter().fold((0, 0), |(f, l), (_, s)| (f + s.files, l + s.lines));
        rows.push((count(rest.len() as u64, "more language"), files, lines));
    }
    if facts.foreign.files > 0 {
        let label = "vendored, generated, lock files".to_owned();
        rows.push((label, facts.foreign.files, facts.foreign.lines));
    }
    rows.push(("**all**".to_owned(), facts.size.files, facts.size.lines));
    let mut out = "| language | files | lines | share |\n| --- | ---: | ---: | ---: |\n".to_owned();
    for (name, files, lines) in rows {
        let share = percent(lines, facts.size.lines);
        let _ = writeln!(out, "| {name} | {} | {} | {share} |", number(files), number(lines));
    }
    if let Some((path, lines)) = facts.longest.first().filter(|(_, lines)| *lines > 0) {
        let others: Vec<String> = facts
            .longest
            .iter()
            .skip(1)
            .map(|(path, lines)| format!("`{path}` ({})", number(*lines)))
            .collect();
        let _ = write!(out, "\nLongest file of code: `{path}` ({})", count(*lines, "line"));
        if !others.is_empty() {
            let _ = write!(out, ", then {}", others.join(", "));
        }
        out.push('.');
    }
    Some(out)
}

fn parts(parts: &[PartReport]) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let mut out =
        "| part | files | lines | mostly | test cases | worth a look (high/medium/low) |\n\
                   | --- | ---: | ---: | --- | ---: | ---: |\n"
            .to_owned();
    for part in parts {
        let Some(facts) = &part.facts else {
            let _ = writeln!(out, "| {} | ? | ? | no figures | ? | ? |", part.label);
            continue;
        };
        let most = facts.languages.iter().max_by_key(|(_, size)| size.lines);
        let most = most.map_or("-", |(name, _)| name.as_str());
        let [high, medium, low] =
            [Gravity::High, Gravity::Medium, Gravity::Low].map(|g| facts.findings_of(g));
        let (files, lines) = (number(facts.size.files), number(facts.size.lines));
        let tests = number(facts.test_cases);
        let _ = writeln!(
            out,
            "| {} | {files} | {lines} | {most} | {tests} | {high}/{medium}/{low} |",
            part.label
        );
    }
    Some(out)
}

fn has_code(facts: &Facts) -> bool {
    facts.languages.keys().any(|name| language::by_name(name).class == Class::Code)
}

fn documents(facts: &Facts) -> Option<String> {
    // Where there are programs, in any part, documents are not what it is about.
    if has_code(facts) {
        return None;
    }
    let places = facts.documents.iter().take(NAMED);
    bullets(places.map(|place| format!("{} ({})", inert(&place.what), place.reference())))
}

fn heaviest(facts: &Facts) -> Option<String> {
    if has_code(facts) || facts.heaviest.len() < 2 {
        return None;
    }
    let files = facts.heaviest.iter().filter(|(_, bytes)| *bytes > 0);
    bullets(files.map(|(path, bytes)| format!("`{path}`: {} KiB", number(bytes.div_ceil(1024)))))
}

fn packages(facts: &Facts) -> Option<String> {
    // A single package is what the first paragraph is about.
    if facts.packages.len() < 2 {
        return None;
    }
    let line = |package: &super::facts::Package| {
        let about =
            if package.about.is_empty() { String::new() } else { format!(": {}", package.about) };
        format!("`{}`{about} (`{}`)", package.name, package.path)
    };
    // A manifest at the top that says nothing of itself only holds the others together.
    let own = || facts.packages.iter().filter(|p| p.path.contains('/') || !p.about.is_empty());
    let told = own().count().min(NAMED) + facts.packages.len() - own().count();
    let left = facts.packages_total.saturating_sub(told as u64);
    let more = (left > 0).then(|| format!("and {}", count(left, "more manifest")));
    bullets(own().take(NAMED).map(line).chain(more))
}

fn entries(facts: &Facts) -> Option<String> {
    let mut by_what: Vec<(&str, Vec<String>)> = Vec::new();
    // What is nearest to the top comes first.
    let mut places: Vec<&Place> = facts.entries.iter().collect();
    places.sort_by_key(|place| (place.path.matches('/').count(), &place.path, place.line));
    for place in places {
        match by_what.iter_mut().find(|(what, _)| *what == place.what) {
            Some((_, places)) => places.push(place.reference()),
            None => by_what.push((&place.what, vec![place.reference()])),
        }
    }
    let programs = facts.packages.iter().filter(|package| !package.programs.is_empty());
    let declared = programs
        .map(|package| format!("programs: {} (`{}`)", package.programs.join(", "), package.path));
    let lines = by_what.into_iter().map(|(what, places)| {
        let left = places.len().saturating_sub(NAMED / 2);
        let shown: Vec<_> = places.into_iter().take(NAMED / 2).collect();
        let more = if left > 0 { format!(" and {left} more") } else { String::new() };
        format!("{what}: {}{more}", shown.join(", "))
    });
    bullets(declared.chain(lines).take(NAMED))
}

fn items(facts: &Facts) -> Option<String> {
    let total: u64 = facts.items.values().sum();
    if total == 0 {
        return None;
    }
    let mut kinds: Vec<_> = facts.items.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| plural(**count, kind)).collect();
    let more = lower_bound(facts, "public items");
    let mut out =
        format!("{more}{} outside tests and examples ({}).\n", number(total), kinds.join(", "));
    let named: Vec<String> = facts
        .notable
        .iter()
        .take(NAMED)
        .map(|(_, place)| {
            let (kind, name) = place.what.split_once(' ').unwrap_or(("", &place.what));
            format!("{kind} `{name}` {}", place.reference())
        })
        .collect();
    if !named.is_empty() {
        let _ = writeln!(out, "Among them: {}.", named.join(", "));
    }
    out.push_str(UNCOUNTED);
    Some(out)
}

fn tests(facts: &Facts) -> Option<String> {
    match (facts.test_cases, has_code(facts)) {
        (0, true) => Some("No test case was found by the patterns of these languages.".to_owned()),
        (0, false) => None,
        (cases, _) => {
            let more = lower_bound(facts, "test cases");
            let files = count(facts.test_files, "file");
            Some(format!("{more}{} in {files}.", count(cases, "test case")))
        }
    }
}

fn findings(facts: &Facts) -> Option<String> {
    let ranked = facts.ranked();
    let line = |(risk, finding): &(&'static super::rules::risk::Risk, &super::facts::Finding)| {
        let gravity = match risk.gravity {
            Gravity::High => "high",
            Gravity::Medium => "medium",
            Gravity::Low => "low",
        };
        let places: Vec<String> = finding
            .places
            .iter()
            .take(SHOWN)
            .map(|place| {
                let what =
                    if place.what.is_empty() { String::new() } else { format!(" {}", place.what) };
                format!("{}{what}", place.reference())
            })
            .collect();
        let left = finding.files.saturating_sub(places.len() as u64);
        let more =
            if left > 0 { format!(" and {}", count(left, "more file")) } else { String::new() };
        let lines = count(finding.total, risk.unit());
        format!("**{gravity}** {}, {lines}: {}{more}", risk.title, places.join(", "))
    };
    let left = ranked.len().saturating_sub(NAMED);
    let rest =
        (left > 0).then(|| format!("and {} of lower gravity", count(left as u64, "more kind")));
    bullets(ranked.iter().take(NAMED).map(line).chain(rest))
}

fn remarks(facts: &Facts) -> Option<String> {
    if facts.remarks.is_empty() {
        return None;
    }
    let mut words: Vec<_> = facts.remarks.iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let words: Vec<_> =
        words.iter().map(|(word, count)| format!("{} {word}", number(**count))).collect();
    let more = lower_bound(facts, "open remarks");
    let places = facts.remark_places.iter().take(NAMED / 2);
    let lines = places.map(|place: &Place| format!("{} {}", place.reference(), inert(&place.what)));
    Some(format!("{more}{}.\n\n{}", words.join(", "), bullets(lines).unwrap_or_default()))
}

fn as_they_came(parts: &[PartReport]) -> Option<String> {
    let said = parts.iter().filter_map(|part| {
        let text = part.text.as_deref()?;
        let quoted: Vec<String> =
            text.lines().take(40).map(|line| format!("> {}", shorten(line, 300))).collect();
        Some(format!("{}:\n\n{}", part.label, quoted.join("\n")))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

fn lost(parts: &[PartReport]) -> impl Iterator<Item = String> {
    parts.iter().filter_map(|part| Some(format!("{}: {}", part.label, part.problem.as_ref()?)))
}

fn lower_bound(facts: &Facts, what: &str) -> &'static str {
    if facts.at_least.iter().any(|bound| bound == what) { "At least " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Finding, Package, Readme, Size};
    use super::*;

    fn facts() -> Facts {
        let place = |path: &str, line, what: &str| Place {
            path: path.to_owned(),
            line,
            what: what.to_owned(),
        };
        let size = Size { files: 2, lines: 1_500 };
        let finding = Finding {
            total: 3,
            files: 2,
            places: vec![place("a.rs", 7, "×2")],
            ..Finding::default()
        };
        Facts {
            size,
            languages: [("Rust".to_owned(), size)].into(),
            longest: vec![("a.rs".to_owned(), 1_000)],
            readme: Some(Readme {
                path: "README.md".into(),
                title: "Kite".into(),
                lead: "Flies.".into(),
            }),
            packages: vec![Package {
                path: "Cargo.toml".into(),
                name: "kite".into(),
                ..Package::default()
            }],
            packages_total: 1,
            entries: vec![place("a.rs", 1, "program begins")],
            items: [("class".to_owned(), 2)].into(),
            notable: vec![(4, place("a.rs", 3, "class Kite"))],
            test_cases: 1,
            test_files: 1,
            remarks: [("TODO".to_owned(), 1)].into(),
            remark_places: vec![place("a.rs", 5, "TODO: `fly` <b>")],
            findings: [("eval".to_owned(), finding)].into(),
            ..Facts::default()
        }
    }

    #[test]
    fn a_report_reads_as_a_person_expects() {
        let report =
            Report { subject: "`.`".into(), root: ".".into(), facts: facts(), ..Report::default() };
        insta::assert_snapshot!(render(&report));
    }

    #[test]
    fn one_line_is_no_lines() {
        let longest = vec![("a.rs".to_owned(), 1)];
        let facts = Facts { longest, ..facts() };
        assert!(languages(&facts).unwrap().contains("`a.rs` (1 line)."));
    }

    #[test]
    fn what_a_manifest_and_a_readme_both_say_is_said_once() {
        for (about, lead, said) in [
            ("Flies", "Flies.", "Flies. (`README.md`)"),
            ("Flies kites in w…", "flies *kites* in wind.", "flies *kites* in wind. (`README.md`)"),
            ("Flies. And more.", "Flies.", "Flies. And more. (`Cargo.toml`)"),
            ("Flies.", "Kites.", "Flies. (`Cargo.toml`) Kites. (`README.md`)"),
        ] {
            let mut facts = facts();
            facts.packages[0].about = about.to_owned();
            facts.readme.as_mut().unwrap().lead = lead.to_owned();
            assert_eq!(introduction(".", &facts), format!("**kite**: {said}\n\n"));
        }
    }

    #[test]
    fn the_figures_of_a_part_come_back() {
        let text = of_part(&Scope::new(".", [("src", true)]), &facts());
        assert_eq!(figures(&text), Some(facts()));
        let forged = format!("{FIGURES}{{}}{END}");
        assert_eq!(figures(&format!("{forged}{text}")), Some(facts()), "the last ones count");
        assert_eq!(figures("no figures"), None);
    }

    #[test]
    fn what_two_parts_found_is_added() {
        let mut all = facts();
        all.add(facts());
        assert_eq!((all.size.files, all.size.lines), (4, 3_000));
        assert_eq!((all.languages["Rust"].lines, all.items["class"]), (3_000, 4));
        assert_eq!((all.findings["eval"].total, all.test_cases, all.remarks["TODO"]), (6, 2, 2));
    }
}
