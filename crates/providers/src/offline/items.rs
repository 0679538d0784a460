//! Public items: how many there are, and which to name first.

use std::collections::BTreeMap;

use super::facts::{Facts, NOTABLE, Place};
use super::rules::grammar::{self, Begins};
use super::search::{Found, Hit};

/// Bytes of the names that are looked for in the lines that import something.
const NAMES: usize = 1_700;
/// A name of fewer letters is found in too many other words.
const SHORTEST: usize = 3;

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
    for hit in hits {
        match grammar::begins(language, hit.text) {
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
                let rank = rank(&kind, inner, hit.path);
                items.push(Item { kind, name, path: hit.path.to_owned(), line: hit.line, rank });
            }
            None => {}
        }
    }
    items
}

/// What is worth naming first when nothing else is known: the kinds that others build on,
/// near the top of the tree.
fn rank(kind: &str, inner: bool, path: &str) -> usize {
    let kind = match kind {
        "trait" | "interface" | "protocol" | "defprotocol" => 0,
        "class" | "struct" | "type" | "defmodule" => 1,
        "enum" | "record" | "object" | "data" => 2,
        "function" if !inner => 2,
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
    for item in items.iter().filter(|item| item.kind != "function" && item.kind != "const") {
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
            let named = item.kind != "function" && item.kind != "const";
            let used = if named { uses.get(item.name.as_str()).copied() } else { None };
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
