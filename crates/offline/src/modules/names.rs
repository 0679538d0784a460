//! Public names of a module without documentation.

use super::{Module, is_source};
use crate::conversation::Ask;
use crate::inventory::{File, Inventory, whole};
use crate::language::file_name;
use crate::part::Part;
use crate::paths::parent;
use crate::syntax::{FILE_BYTES, Grammar, PublicNames, public_names};
use crate::wording::and_more;

/// Files of a module that are read until one has names.
const FILES: usize = 3;
/// Names that a line has, if it has room.
const NAMES: usize = 4;
/// Characters of a line.
const WIDTH: usize = 96;

/// Returns the names in the largest file of a module as a line. `None` where there are none, or a
/// file is still to be read. `modules` are all modules.
pub(super) fn line(
    ask: &mut Ask<'_, '_>,
    inventory: &Inventory,
    module: &Module,
    modules: &[Module],
) -> Option<String> {
    for file in largest(inventory, module, modules) {
        let grammar = Grammar::of(&file.path)?;
        let text = whole(ask, &file.path);
        if ask.waits() {
            return None;
        }
        let names = text.and_then(|text| public_names(grammar, &text, file.path.ends_with(".h")));
        if let Some(names) = names {
            let path = if module.single { "" } else { file.path.as_str() };
            return Some(describe_names(file_name(path), &names));
        }
    }
    None
}

/// Returns the largest sources of a module that can be parsed.
fn largest<'i>(inventory: &'i Inventory, module: &Module, modules: &[Module]) -> Vec<&'i File> {
    let folder = if module.path.is_empty() { "." } else { module.path.as_str() };
    let named = |file: &&File| modules.iter().any(|other| other.single && other.path == file.path);
    let mine = |file: &&File| {
        let flat = parent(&file.path) == module.path;
        if module.rest { flat && !named(file) } else { module.deep || flat }
    };
    let mut files: Vec<&File> = if module.single {
        inventory.get(&module.path).into_iter().collect()
    } else {
        inventory.below(folder).filter(mine).collect()
    };
    files.retain(|file| {
        let parsed = Grammar::of(&file.path).is_some() && file.bytes <= FILE_BYTES;
        parsed && file.lines.is_some() && file.part() == Part::Main && is_source(&file.path)
    });
    files.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.path.cmp(&b.path)));
    files.truncate(FILES);
    files
}

/// Says which names a file gives, with as many of them as fit.
fn describe_names(file: &str, all: &PublicNames) -> String {
    let subject = if file.is_empty() { String::new() } else { format!("`{file}` ") };
    let code = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let with = |most: usize| {
        let names = and_more(code(&all.names), most);
        let names = match names.rsplit_once(" and ") {
            Some((shown, left)) if all.partial => format!("{shown} and at least {left}"),
            _ => names,
        };
        let more = if all.open { ", and what other files export" } else { "" };
        let members = and_more(code(&all.members), most);
        let members = if all.members.is_empty() { members } else { format!(" with {members}") };
        format!("{subject}{} {names}{members}{more}", all.verb)
    };
    let fits = (1..=NAMES).rev().map(with).find(|text| text.chars().count() <= WIDTH);
    fits.unwrap_or_else(|| with(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_names_is_a_lower_bound_where_a_part_cannot_be_parsed() {
        let text = (0..9).map(|n| format!("int kite_{n}(void);\n")).collect::<String>();
        for (more, said_of_it) in [
            ("", "and 5 more"),
            ("KITE_BEGIN(x int) (kite_lost(int))) int;\n", "and at least 5 more"),
        ] {
            let names = public_names(Grammar::C, &format!("{text}{more}"), true).unwrap();
            assert_eq!(
                describe_names("", &names),
                format!("declares `kite_0`, `kite_1`, `kite_2`, `kite_3` {said_of_it}")
            );
        }
    }
}
