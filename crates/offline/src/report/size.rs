//! The sizes of a project by language.

use std::collections::BTreeMap;

use super::and_more;
use crate::inventory::Inventory;
use crate::language::{self, Class};
use crate::part::Part;
use crate::wording::{count, number, percent};

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
    /// Those by others or by programs.
    foreign: Size,
    binary: u64,
}

impl Sizes {
    pub(super) fn of(inventory: &Inventory) -> Self {
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
