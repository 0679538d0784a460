//! Sizes of directories that hold too many files to read all their names.

use serde_json::json;

use super::conversation::{Ask, TurnCall};
use super::plan::PlanUnit;
use super::scope::{Scope, under};
use super::search::Search;

/// Directories of one level that are measured one by one; with more, the level is taken whole.
const MOST: usize = 150;

/// Returns the entries of a directory, each with its size as the search tool counts it; `None`
/// while the answer is pending, or if there is none.
pub(super) fn children(ask: &mut Ask<'_, '_>, root: &str, dir: &str) -> Option<Vec<PlanUnit>> {
    let listing = ask.call("list_dir", json!({"path": dir, "depth": 1})).and_then(TurnCall::ok)?;
    let below: Vec<String> =
        listing.lines().filter_map(|line| Some(under(dir, line.strip_suffix('/')?))).collect();
    if below.len() > MOST {
        return None;
    }
    let mut units = Vec::new();
    let pieces = below.iter().map(|dir| (dir.as_str(), true)).chain([(dir, false)]);
    for (dir, deep) in pieces {
        let scope = Scope::new(root, [(dir, deep)]);
        let found = Search::counts(&scope, "lines", "^", &[]).first(1).ask(ask);
        if found.totals.matching > 0 {
            let files = found.totals.matching;
            let lines = found.totals.matches;
            units.push(PlanUnit { dir: dir.to_owned(), deep, files, lines });
        }
    }
    (!ask.waits()).then_some(units)
}
