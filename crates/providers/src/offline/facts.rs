//! What a survey found, as numbers and references that add up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::risk::{self, Gravity};

/// References kept of one kind of finding.
pub(super) const REFERENCES: usize = 5;
/// Notable items, entry points and packages kept.
pub(super) const NOTABLE: usize = 24;

/// Files and their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) files: u64,
    pub(super) lines: u64,
}

impl Size {
    pub(super) const fn add(&mut self, files: u64, lines: u64) {
        self.files += files;
        self.lines += lines;
    }
}

/// A place in a file, with what stands there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) path: String,
    /// Its line, from 1; 0: the whole file.
    pub(super) line: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) what: String,
}

impl Place {
    pub(super) fn reference(&self) -> String {
        match self.line {
            0 => format!("`{}`", self.path),
            line => format!("`{}:{line}`", self.path),
        }
    }
}

/// A package, by its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Package {
    /// Its manifest.
    pub(super) path: String,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) about: String,
    /// Commands and programs that it declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) programs: Vec<String>,
}

/// Lines that one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) total: u64,
    /// Files with it.
    pub(super) files: u64,
    /// Where most of it stands.
    pub(super) places: Vec<Place>,
    /// While it is counted: the first line and the number of lines of each file.
    #[serde(skip)]
    pub(super) by_file: BTreeMap<String, (u64, u64)>,
}

impl Finding {
    /// Notes a line.
    pub(super) fn hit(&mut self, path: &str, line: u64) {
        self.total += 1;
        let (_, count) = self.by_file.entry(path.to_owned()).or_insert((line, 0));
        *count += 1;
    }

    /// Names the places: the files with most lines, each with the first of them.
    pub(super) fn settle(&mut self) {
        let mut files: Vec<_> = std::mem::take(&mut self.by_file).into_iter().collect();
        self.files = files.len() as u64;
        files.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
        let place = |(path, (line, count)): (String, (u64, u64))| {
            let what = if count > 1 { format!("×{count}") } else { String::new() };
            Place { path, line, what }
        };
        self.places = files.into_iter().take(REFERENCES).map(place).collect();
    }
}

/// What a README says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Readme {
    pub(super) path: String,
    pub(super) title: String,
    pub(super) lead: String,
}

/// What a survey found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    /// All text files with at least one line.
    pub(super) size: Size,
    /// Of them, those by others or by programs.
    pub(super) foreign: Size,
    /// Files that are not text, and their bytes.
    pub(super) binary: u64,
    pub(super) binary_bytes: u64,
    /// Files with nothing in them.
    pub(super) empty: u64,
    /// By language.
    pub(super) languages: BTreeMap<String, Size>,
    /// The longest files of code by hand.
    pub(super) longest: Vec<(String, u64)>,
    /// The largest files of any kind, by bytes.
    pub(super) heaviest: Vec<(String, u64)>,
    /// Documents by their first heading, where there are no programs.
    pub(super) documents: Vec<Place>,
    pub(super) readme: Option<Readme>,
    pub(super) packages: Vec<Package>,
    pub(super) packages_total: u64,
    pub(super) entries: Vec<Place>,
    /// Public items, by kind.
    pub(super) items: BTreeMap<String, u64>,
    /// Items worth naming, each with how many lines import it.
    pub(super) notable: Vec<(u64, Place)>,
    pub(super) test_cases: u64,
    pub(super) test_files: u64,
    /// Open remarks, by word.
    pub(super) remarks: BTreeMap<String, u64>,
    pub(super) remark_places: Vec<Place>,
    /// By the id of the rule.
    pub(super) findings: BTreeMap<String, Finding>,
    /// What was not looked at, and why.
    pub(super) gaps: Vec<String>,
    /// Numbers that are lower bounds.
    pub(super) at_least: Vec<String>,
}

impl Facts {
    /// Adds what was found in another part.
    pub(super) fn add(&mut self, other: Self) {
        self.size.add(other.size.files, other.size.lines);
        self.foreign.add(other.foreign.files, other.foreign.lines);
        self.binary += other.binary;
        self.binary_bytes += other.binary_bytes;
        self.empty += other.empty;
        for (language, size) in other.languages {
            self.languages.entry(language).or_default().add(size.files, size.lines);
        }
        self.longest.extend(other.longest);
        self.longest.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
        self.longest.truncate(REFERENCES);
        self.heaviest.extend(other.heaviest);
        self.heaviest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        self.heaviest.truncate(REFERENCES);
        self.documents.extend(other.documents);
        self.documents.truncate(NOTABLE);
        self.readme = match (self.readme.take(), other.readme) {
            (Some(mine), Some(other)) => Some(nearest(mine, other)),
            (mine, other) => mine.or(other),
        };
        self.packages.extend(other.packages);
        self.packages.sort_by(|a, b| depth(&a.path).cmp(&depth(&b.path)).then(a.path.cmp(&b.path)));
        self.packages.truncate(NOTABLE);
        self.packages_total += other.packages_total;
        self.entries.extend(other.entries);
        self.entries.truncate(NOTABLE);
        for (kind, count) in other.items {
            *self.items.entry(kind).or_default() += count;
        }
        self.notable = merged(std::mem::take(&mut self.notable), other.notable);
        self.test_cases += other.test_cases;
        self.test_files += other.test_files;
        for (word, count) in other.remarks {
            *self.remarks.entry(word).or_default() += count;
        }
        self.remark_places.extend(other.remark_places);
        self.remark_places.sort_by_key(|place| !place.what.starts_with("FIXME"));
        self.remark_places.truncate(2 * REFERENCES);
        for (id, finding) in other.findings {
            let mine = self.findings.entry(id).or_default();
            mine.total += finding.total;
            mine.files += finding.files;
            mine.places.extend(finding.places);
            mine.places.truncate(REFERENCES);
        }
        self.gaps.extend(other.gaps);
        for what in other.at_least {
            if !self.at_least.contains(&what) {
                self.at_least.push(what);
            }
        }
    }

    /// Findings with their rules, the gravest first.
    pub(super) fn ranked(&self) -> Vec<(&'static risk::Risk, &Finding)> {
        let mut all: Vec<_> = self
            .findings
            .iter()
            .filter_map(|(id, finding)| Some((risk::with_id(id)?, finding)))
            .collect();
        all.sort_by(|(a, x), (b, y)| a.gravity.cmp(&b.gravity).then(y.total.cmp(&x.total)));
        all
    }

    /// How many lines rules of a gravity found.
    pub(super) fn findings_of(&self, gravity: Gravity) -> u64 {
        let of = self.ranked().into_iter().filter(|(risk, _)| risk.gravity == gravity);
        of.map(|(_, finding)| finding.total).sum()
    }
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

fn nearest(one: Readme, other: Readme) -> Readme {
    if depth(&other.path) < depth(&one.path) { other } else { one }
}

/// What is used most first; what is used alike, from both in turn.
fn merged(one: Vec<(u64, Place)>, other: Vec<(u64, Place)>) -> Vec<(u64, Place)> {
    let mut out = Vec::new();
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    loop {
        let pair = [one.next(), other.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        out.extend(pair.into_iter().flatten());
    }
    out.sort_by_key(|(uses, _)| std::cmp::Reverse(*uses));
    out.truncate(NOTABLE);
    out
}
