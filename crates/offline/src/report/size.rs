//! The sizes of a project by language.

use std::collections::BTreeMap;

use super::and_more;
use crate::inventory::Inventory;
use crate::language::{self, Class};
use crate::part::Part;
use crate::wording::{count, percent};

/// Languages that are named.
const LANGUAGES: usize = 4;

/// Files and lines of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    files: u64,
    lines: u64,
}

/// The sizes of a project.
pub(super) struct Sizes {
    /// Languages of programs, the largest first.
    languages: Vec<(&'static str, Size)>,
    /// All text files, also those by others.
    all: Size,
    /// Files that programs wrote.
    generated: u64,
    /// Files by others, and lock files.
    vendored: u64,
    binary: u64,
}

impl Sizes {
    pub(super) fn of(inventory: &Inventory) -> Self {
        let mut by_name: BTreeMap<&'static str, Size> = BTreeMap::new();
        let mut all = Size::default();
        let mut generated = 0;
        let mut vendored = 0;
        let mut binary = 0;
        for file in &inventory.files {
            let Some(lines) = file.lines else {
                binary += u64::from(inventory.binary.contains(&file.path));
                continue;
            };
            all.files += 1;
            all.lines += lines;
            if file.part() == Part::Foreign {
                let of_kind = if file.is_generated() { &mut generated } else { &mut vendored };
                *of_kind += 1;
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
        Self { languages, all, generated, vendored, binary }
    }

    pub(super) fn main_language(&self) -> &'static str {
        self.languages.first().map_or("", |(name, _)| name)
    }

    pub(super) fn say(&self) -> String {
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
        let left_out: Vec<String> =
            [(self.generated, "generated file"), (self.vendored, "vendored or lock file")]
                .into_iter()
                .filter(|(files, _)| *files > 0)
                .map(|(files, what)| count(files, what))
                .collect();
        if !left_out.is_empty() {
            let comma = if out.is_empty() { "" } else { ", " };
            out.push_str(&format!("{comma}{} left out", left_out.join(" and ")));
        }
        let text = format!(
            "{} and {} of text in all",
            count(self.all.files, "file"),
            count(self.all.lines, "line")
        );
        out = if out.is_empty() { text } else { format!("{out}; {text}") };
        if self.binary > 0 {
            out.push_str(&format!("; {}", count(self.binary, "binary file")));
        }
        out
    }
}
