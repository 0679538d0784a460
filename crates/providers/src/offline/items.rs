//! Public items: how many there are, and which to name first.

use std::collections::BTreeMap;

use super::facts::{Facts, NOTABLE, Place};
use super::rules::grammar::{self, Begins};
use super::search::{Found, Hit};

/// Bytes of the names that are looked for in the lines that import something.
const NAMES: usize = 1_700;
/// A name of fewer letters is found in too many other words.
const SHORTEST: usize = 3;

/// How much later an item is named whose name hides it.
const HIDDEN: usize = 8;

/// A public item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    kind: String,
    name: String,
    path: String,
    line: u64,
    rank: usize,
}

/// Takes the items and the beginnings of programs out of lines of a language; the items are
/// counted by kind.
pub(super) fn collect<'t>(
    facts: &mut Facts,
    language: &str,
    hits: impl Iterator<Item = Hit<'t>>,
) -> Vec<Item> {
    let mut items = Vec::new();
    let mut before = Before::default();
    for hit in hits {
        match before.join(&hit, grammar::begins(language, hit.text)) {
            Some(Begins::Program) => facts.entries.push(Place {
                path: hit.path.to_owned(),
                line: hit.line,
                what: if hit.path.ends_with("build.rs") {
                    "build script"
                } else {
                    "program begins"
                }
                .to_owned(),
            }),
            Some(Begins::Item(kind, name)) => {
                *facts.items.entry(kind.clone()).or_default() += 1;
                let inner = hit.text.starts_with([' ', '\t']);
                let hidden = if is_hidden(&name) { HIDDEN } else { 0 };
                let rank = rank(&kind, inner, hit.path) + hidden;
                items.push(Item { kind, name, path: hit.path.to_owned(), line: hit.line, rank });
            }
            Some(_) | None => {}
        }
    }
    items
}

/// What earlier lines of a file say about the one that comes.
#[derive(Debug, Default)]
struct Before<'t> {
    path: &'t str,
    /// The next macro is public.
    exports: bool,
    /// The kind of the group that is open.
    group: Option<String>,
}

impl<'t> Before<'t> {
    /// Makes an item of a line that is one only after those before it.
    fn join(&mut self, hit: &Hit<'t>, begins: Option<Begins>) -> Option<Begins> {
        if self.path != hit.path {
            *self = Self { path: hit.path, ..Self::default() };
        }
        let exported = std::mem::take(&mut self.exports);
        match begins? {
            Begins::Exports => self.exports = true,
            Begins::Group(kind) => self.group = Some(kind),
            Begins::GroupEnd => self.group = None,
            Begins::Macro(name) if exported => return Some(Begins::Item("macro".to_owned(), name)),
            Begins::Member(name) => return Some(Begins::Item(self.group.clone()?, name)),
            Begins::Macro(_) => {}
            begins @ (Begins::Program | Begins::Item(..)) => return Some(begins),
        }
        None
    }
}

/// What is worth naming first when nothing else is known: the kinds that others build on,
/// near the top of the tree.
fn rank(kind: &str, inner: bool, path: &str) -> usize {
    let kind = match kind {
        "trait" | "interface" | "protocol" | "defprotocol" => 0,
        "class" | "struct" | "type" | "defmodule" => 1,
        "enum" | "record" | "object" | "data" => 2,
        "function" | "macro" if !inner => 2,
        _ => 4,
    };
    kind * 2 + path.matches('/').count()
}

/// Puts those first that come first without more: one of each file, by rank.
pub(super) fn sort(items: &mut Vec<Item>) {
    items.sort_by(|a, b| {
        a.rank.cmp(&b.rank).then_with(|| (&a.path, a.line).cmp(&(&b.path, b.line)))
    });
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Item)> = std::mem::take(items)
        .into_iter()
        .map(|item| {
            let turn = turns.entry(item.path.clone()).or_default();
            *turn += 1;
            (*turn, item)
        })
        .collect();
    ranked.sort_by_key(|(turn, item)| (*turn, item.rank));
    *items = ranked.into_iter().map(|(_, item)| item).collect();
}

/// The pattern of the lines that import one of these items, or begin with its name: what is
/// used most is worth most. Nothing when there are few items.
pub(super) fn imports(items: &[Item]) -> Option<String> {
    if items.len() < 2 {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for item in items.iter().filter(|item| is_imported(item)) {
        let plain = item.name.len() >= SHORTEST
            && item.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if plain && !names.contains(&item.name.as_str()) {
            bytes += item.name.len() + 1;
            if bytes > NAMES {
                break;
            }
            names.push(&item.name);
        }
    }
    let head = r"^\s*(?:(?:(?:pub\S*\s+)?use|import|from|export|using)\b.*|(?:\w+,\s*)*)";
    (!names.is_empty()).then(|| format!(r"{head}\b(?:{})\b", names.join("|")))
}

/// Whether a name says that it is public only because it must be.
fn is_hidden(name: &str) -> bool {
    name.starts_with('_')
}

/// Whether lines that import it tell what it is worth: a value's name is often another's too.
fn is_imported(item: &Item) -> bool {
    let value = matches!(item.kind.as_str(), "function" | "const" | "static" | "var");
    !value && !is_hidden(&item.name)
}

/// The items to name, those first that most lines import.
pub(super) fn notable(items: &[Item], imports: &Found<'_>) -> Vec<(u64, Place)> {
    let mut uses: BTreeMap<&str, u64> = BTreeMap::new();
    for hit in imports.hits() {
        let words = hit.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.len() >= SHORTEST) {
            *uses.entry(word).or_default() += 1;
        }
    }
    let mut order: Vec<(u64, &Item)> = items
        .iter()
        .map(|item| {
            let used = if is_imported(item) { uses.get(item.name.as_str()).copied() } else { None };
            (used.unwrap_or(0), item)
        })
        .collect();
    order.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    let mut seen = Vec::new();
    order.retain(|(_, item)| {
        let new = !seen.contains(&item.name.as_str());
        seen.push(&item.name);
        new
    });
    let place = |(used, item): (u64, &Item)| {
        let what = format!("{} {}", item.kind, item.name);
        (used, Place { path: item.path.clone(), line: item.line, what })
    };
    order.into_iter().take(NOTABLE).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(language: &str, lines: &[(&str, &str)]) -> (Vec<String>, Facts) {
        let mut facts = Facts::default();
        let hits = lines.iter().zip(1..).map(|((path, text), line)| Hit { path, line, text });
        let items = collect(&mut facts, language, hits);
        (items.iter().map(|item| format!("{} {}", item.kind, item.name)).collect(), facts)
    }

    #[test]
    fn a_macro_is_public_where_the_line_before_says_so() {
        let (items, facts) = found(
            "Rust",
            &[
                ("a.rs", "#[macro_export]"),
                ("a.rs", "macro_rules! cfg_if {"),
                ("a.rs", "macro_rules! hidden {"),
                ("a.rs", "#[macro_export]"),
                ("b.rs", "macro_rules! in_another_file {"),
            ],
        );
        assert_eq!(items, ["macro cfg_if"]);
        assert_eq!(facts.items, [("macro".to_owned(), 1)].into());
    }

    #[test]
    fn a_group_declares_what_is_inside_of_it() {
        let (items, _) = found(
            "Go",
            &[
                ("a.go", "type Lone struct {"),
                ("a.go", "\tField int"),
                ("a.go", "const ("),
                ("a.go", "\tFirst = iota"),
                ("a.go", "\tSecond"),
                ("a.go", ")"),
                ("a.go", "\tField int"),
                ("a.go", "type ("),
                ("a.go", "\tServer struct {"),
                ("b.go", "\tField int"),
            ],
        );
        assert_eq!(items, ["type Lone", "const First", "const Second", "type Server"]);
    }
}
