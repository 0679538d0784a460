//! How a directory is cut into parts of about equal weight, along its directories.

use std::collections::{BTreeMap, BTreeSet};

use super::part::{Part, part_of};
use super::scope::{Piece, Scope, under};

/// A part has at least so many files, or so many lines.
const LEAST_FILES: u64 = 8;
const LEAST_LINES: u64 = 400;
/// More units than this are not made: it bounds the work and the length of a brief.
const MOST_UNITS: usize = 40;
/// Weight of a file beside its lines.
const FILE_WEIGHT: u64 = 5;

/// A directory that goes to a part as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlanUnit {
    pub(super) dir: String,
    /// With all below it, or only the files right in it.
    pub(super) deep: bool,
    pub(super) files: u64,
    pub(super) lines: u64,
}

impl PlanUnit {
    const fn weight(&self) -> u64 {
        self.lines + self.files * FILE_WEIGHT
    }
}

/// Divides a directory into at most `most` parts, or one if it is too small to divide. `children`
/// returns the entries of a directory, as far as they are known.
pub(super) fn parts(
    root: &str,
    most: usize,
    children: &mut dyn FnMut(&str) -> Option<Vec<PlanUnit>>,
) -> Vec<Scope> {
    let whole = vec![Scope::whole(root)];
    let Some(mut units) = children(root) else { return whole };
    // A backtick would end a name in the text of a brief.
    if most < 2 || units.iter().any(|unit| unit.dir.contains(['`', '\n'])) {
        return whole;
    }
    let total: u64 = units.iter().map(PlanUnit::weight).sum();
    let fair = total / most as u64;
    while units.len() < MOST_UNITS {
        let heavy = units.iter().filter(|unit| unit.deep && unit.weight() > fair);
        let split = heavy.filter_map(|unit| {
            let below = children(&unit.dir)?;
            below.iter().any(|unit| unit.deep).then(|| (unit.clone(), below))
        });
        let Some((unit, below)) = split.max_by_key(|(unit, _)| unit.weight()) else { break };
        units.retain(|other| *other != unit);
        units.extend(below);
        units.sort();
    }
    for parts in (2..=most.min(units.len())).rev() {
        let cut = split_evenly(&units, parts);
        let worth = |group: &&[PlanUnit]| {
            let files: u64 = group.iter().map(|unit| unit.files).sum();
            let lines: u64 = group.iter().map(|unit| unit.lines).sum();
            files >= LEAST_FILES || lines >= LEAST_LINES
        };
        if cut.iter().all(|group| worth(&group.as_slice())) {
            let all: BTreeSet<Piece> = units.iter().map(piece).collect();
            return cut.iter().map(|group| scope(root, group, &all)).collect();
        }
    }
    whole
}

fn piece(unit: &PlanUnit) -> Piece {
    Piece { dir: unit.dir.clone(), deep: unit.deep }
}

/// Returns the entries of a directory, from the sizes of all files in lines.
pub(super) fn children(dir: &str, files: &[(&str, u64)]) -> Vec<PlanUnit> {
    let prefix = under(dir, "");
    let mut below: BTreeMap<(String, bool), (u64, u64)> = BTreeMap::new();
    for (path, lines) in files {
        let Some(rest) = path.strip_prefix(prefix.as_str()) else { continue };
        let key = match rest.split_once('/') {
            Some((name, _)) => (under(dir, name), true),
            None => (dir.to_owned(), false),
        };
        let size = below.entry(key).or_default();
        size.0 += 1;
        // What others wrote is counted but not read.
        size.1 += if part_of(path) == Part::Foreign { lines / 20 } else { *lines };
    }
    let unit = |((dir, deep), (files, lines))| PlanUnit { dir, deep, files, lines };
    below.into_iter().map(unit).collect()
}

/// Cuts a row of units into so many groups of neighbours, the heaviest as light as can be.
fn split_evenly(units: &[PlanUnit], groups: usize) -> Vec<Vec<PlanUnit>> {
    let fits = |limit: u64| {
        let mut out: Vec<Vec<PlanUnit>> = vec![Vec::new()];
        let mut weight = 0;
        for (at, unit) in units.iter().enumerate() {
            let open = out.len();
            // Each group still to come needs a unit.
            let must = units.len() - at <= groups - open;
            let group = out.last_mut()?;
            if !group.is_empty() && (weight + unit.weight() > limit || must) {
                if open == groups {
                    return None;
                }
                out.push(vec![unit.clone()]);
                weight = unit.weight();
            } else {
                group.push(unit.clone());
                weight += unit.weight();
            }
        }
        Some(out)
    };
    let mut low = 0;
    let mut high = units.iter().map(PlanUnit::weight).sum::<u64>();
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle).is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    fits(high).unwrap_or_else(|| vec![units.to_vec()])
}

/// A group as a scope: where a group holds all that lies in a directory, it names the
/// directory instead.
fn scope(root: &str, group: &[PlanUnit], all: &BTreeSet<Piece>) -> Scope {
    let mut mine: BTreeSet<Piece> = group.iter().map(piece).collect();
    loop {
        let parent = |piece: &Piece| {
            let dir = if piece.deep { piece.dir.rsplit_once('/')?.0 } else { piece.dir.as_str() };
            (dir != root && dir != "." && !dir.is_empty()).then(|| dir.to_owned())
        };
        let below = |piece: &&Piece, dir: &str| {
            piece.dir == dir || piece.dir.starts_with(&format!("{dir}/"))
        };
        let whole = mine.iter().filter_map(parent).find(|dir| {
            let inside = all.iter().filter(|piece| below(piece, dir));
            let held = inside.clone().all(|piece| mine.iter().any(|own| covers(own, piece)));
            held && !mine.contains(&Piece { dir: dir.clone(), deep: true }) && inside.count() > 0
        });
        let Some(dir) = whole else { break };
        mine.retain(|piece| !below(&piece, &dir));
        mine.insert(Piece { dir, deep: true });
    }
    Scope { root: root.to_owned(), pieces: mine.into_iter().collect() }
}

fn covers(own: &Piece, piece: &Piece) -> bool {
    own == piece
        || own.deep && piece.dir.starts_with(&format!("{}/", own.dir))
        || own.deep && own.dir == piece.dir
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(files: &[(&str, u64)], most: usize) -> Vec<String> {
        parts(".", most, &mut |dir| Some(children(dir, files)))
            .iter()
            .map(|scope| scope.label().replace('`', ""))
            .collect()
    }

    #[test]
    fn parts_follow_the_directories() {
        let flat = [("a/x.rs", 500), ("b/x.rs", 500), ("c/x.rs", 500), ("x.rs", 500)];
        assert_eq!(show(&flat, 2), ["*, a/**", "b/**, c/**"]);
        assert_eq!(show(&flat, 4), ["*", "a/**", "b/**", "c/**"]);
        assert_eq!(show(&flat, 1), ["."]);
        let deep =
            [("src/a/x.rs", 900), ("src/b/x.rs", 900), ("src/c/x.rs", 900), ("README.md", 9)];
        assert_eq!(show(&deep, 3), ["*, src/a/**", "src/b/**", "src/c/**"]);
        assert_eq!(show(&deep, 2), ["*, src/a/**", "src/b/**, src/c/**"]);
    }

    #[test]
    fn what_is_small_stays_whole() {
        assert_eq!(show(&[], 3), ["."]);
        assert_eq!(show(&[("a.rs", 9999)], 3), ["."]);
        assert_eq!(show(&[("a/x.rs", 10), ("b/x.rs", 10)], 3), ["."]);
        assert_eq!(show(&[("a`b/x.rs", 1000), ("b/x.rs", 1000)], 3), ["."]);
    }

    proptest! {
        /// Each file lies in exactly one part.
        #[test]
        fn parts_cover_every_file_once(
            paths in prop::collection::btree_map("[ab]{1,2}(/[abc]){0,4}\\.rs", 1..3000u64, 0..60),
            most in 1..6usize,
        ) {
            let files: Vec<_> = paths.iter().map(|(path, lines)| (path.as_str(), *lines)).collect();
            let parts = parts(".", most, &mut |dir| Some(children(dir, &files)));
            prop_assert!(parts.len() <= most);
            for (path, _) in &files {
                let dir = path.rsplit_once('/').map_or(".", |(dir, _)| dir);
                let inside = |scope: &&Scope| scope.pieces.is_empty() || scope.pieces.iter().any(|piece| {
                    piece.dir == dir || piece.deep && (piece.dir == "." || dir.starts_with(&format!("{}/", piece.dir)))
                });
                prop_assert_eq!(parts.iter().filter(inside).count(), 1, "{}", path);
            }
        }
    }
}
