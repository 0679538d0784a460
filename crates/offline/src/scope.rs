//! Scope of a survey: whole directories, and directories without those below.

use std::sync::Arc;

/// A directory of a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// Its path, `.` for the working directory.
    pub(super) dir: String,
    /// With all below it, or only the files right in it.
    pub(super) deep: bool,
}

/// Scope of a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    /// The directory that holds all of it.
    pub(super) root: String,
    /// Its pieces; none: all of the root.
    pub(super) pieces: Vec<Piece>,
}

/// Bytes of the longest glob that a search takes.
const LONGEST_GLOB: usize = 1_000;

/// Pieces that a short label names, and a goal.
const SHOWN: usize = 5;
const IN_GOAL: usize = 4;

/// Begins the goal of a child.
const GOAL: &str = "Survey part ";
/// Begins the line of its context that says exactly what its part is.
const PART: &str = "Your part: ";
const OF: &str = " of ";
/// The rest of the context.
const BRIEF: &str = "Report on languages and sizes, entry points, public items, tests, open \
                     remarks and risks, as markdown with a reference `path:line` for each \
                     statement. Another agent surveys each of the other parts. Look only at \
                     yours, with the tools for files; change nothing.";

impl Scope {
    /// All of a directory.
    pub(super) fn whole(root: &str) -> Self {
        Self { root: root.to_owned(), pieces: Vec::new() }
    }

    /// Pieces of a directory, each with whether it goes deep.
    pub(super) fn new<'d>(root: &str, pieces: impl IntoIterator<Item = (&'d str, bool)>) -> Self {
        let piece = |(dir, deep): (&str, bool)| Piece { dir: dir.to_owned(), deep };
        Self { root: root.to_owned(), pieces: pieces.into_iter().map(piece).collect() }
    }

    /// The goal that a child gets for it, short, because people watch it.
    pub(super) fn goal(&self, number: usize, of: usize) -> String {
        let name = |piece: &Piece| match (piece.deep, piece.dir.as_str()) {
            (true, dir) => dir.to_owned(),
            (false, ".") => "./*".to_owned(),
            (false, dir) => under(dir, "*"),
        };
        let left = self.pieces.len().saturating_sub(IN_GOAL);
        let most = if left < 2 { self.pieces.len() } else { IN_GOAL };
        let names: Vec<String> = self.pieces.iter().take(most).map(name).collect();
        let more = if left < 2 { String::new() } else { format!(" and {left} more") };
        format!("{GOAL}{number} of {of}: {}{more}", names.join(", "))
    }

    /// The context that goes with the goal: all of the part, for [`Self::from_brief`] too.
    pub(super) fn context(&self) -> String {
        format!("{PART}{}{OF}`{}`\n{BRIEF}", self.label(), self.root)
    }

    /// The pieces as text: `dir/**` with all below it, `dir/*` only its files.
    pub(super) fn label(&self) -> String {
        if self.pieces.is_empty() {
            return format!("`{}`", self.root);
        }
        let mark = |piece: &Piece| {
            let stars = if piece.deep { "**" } else { "*" };
            format!("`{}`", under(&piece.dir, stars))
        };
        self.pieces.iter().map(mark).collect::<Vec<_>>().join(", ")
    }

    /// The same for a report, where many pieces are not all named.
    pub(super) fn short_label(&self) -> String {
        let left = self.pieces.len().saturating_sub(SHOWN);
        if left < 2 {
            return self.label();
        }
        let first = Self {
            root: self.root.clone(),
            pieces: self.pieces.iter().take(SHOWN).cloned().collect(),
        };
        format!("{} and {left} more", first.label())
    }

    /// Reads back what a child is to do, from its goal and from the context in its prompt.
    pub(super) fn from_brief(goal: &str, system: &[Arc<str>]) -> Option<Self> {
        let (number, _) = goal.trim_start().strip_prefix(GOAL)?.split_once(OF)?;
        number.parse::<usize>().ok()?;
        let lines = system.iter().flat_map(|text| text.lines());
        let quoted = lines.filter_map(|line| line.strip_prefix(PART)).next_back()?;
        let (pieces, rest) = quoted.split_once(&format!("`{OF}`"))?;
        let (root, _) = rest.split_once('`')?;
        let piece = |mark: &str| {
            let mark = mark.trim().trim_matches('`');
            if let Some(dir) = mark.strip_suffix("**") {
                Some(Piece { dir: above(dir), deep: true })
            } else {
                let dir = mark.strip_suffix('*')?;
                Some(Piece { dir: above(dir), deep: false })
            }
        };
        let pieces: Option<Vec<_>> = pieces.split("`, `").map(piece).collect();
        Some(Self { root: root.to_owned(), pieces: pieces? })
    }

    /// Where to search, with the globs that keep a search inside the scope, for files with
    /// these name patterns (none: all files). More than one where a glob would get too long.
    pub(super) fn places(&self, names: &[&str]) -> Vec<(String, Option<String>)> {
        if let [] | [Piece { deep: true, .. }] = self.pieces.as_slice() {
            let path = self.pieces.first().map_or(&self.root, |piece| &piece.dir);
            return vec![(path.clone(), (!names.is_empty()).then(|| braces(names)))];
        }
        let path = self.common();
        let mut out: Vec<(String, Option<String>)> = Vec::new();
        let mut group: Vec<&Piece> = Vec::new();
        for piece in &self.pieces {
            group.push(piece);
            if group.len() > 1 && glob(&path, &group, names).len() > LONGEST_GLOB {
                group.pop();
                out.push((path.clone(), Some(glob(&path, &group, names))));
                group = vec![piece];
            }
        }
        out.push((path.clone(), Some(glob(&path, &group, names))));
        out
    }

    /// The directory that stands for it: its only piece, or its root.
    pub(super) fn top(&self) -> &str {
        match self.pieces.as_slice() {
            [Piece { dir, .. }] => dir,
            _ => &self.root,
        }
    }

    /// The deepest directory that holds all pieces.
    fn common(&self) -> String {
        let mut common = self.pieces.first().map_or(self.root.as_str(), |piece| &piece.dir);
        while common != self.root
            && !self.pieces.iter().all(|piece| relative(common, &piece.dir).is_some())
        {
            common = common.rsplit_once('/').map_or(self.root.as_str(), |(above, _)| above);
        }
        common.to_owned()
    }
}

/// A glob for files with these names in these pieces, as seen from a directory above them.
fn glob(path: &str, pieces: &[&Piece], names: &[&str]) -> String {
    let names = if names.is_empty() { "*".to_owned() } else { braces(names) };
    let mut deep = Vec::new();
    let mut flat = Vec::new();
    let mut here = false;
    for piece in pieces {
        let dir = relative(path, &piece.dir).unwrap_or(&piece.dir);
        match (piece.deep, dir) {
            (false, ".") => here = true,
            (true, dir) => deep.push(escape(dir)),
            (false, dir) => flat.push(escape(dir)),
        }
    }
    let mut ways = Vec::new();
    if !deep.is_empty() {
        ways.push(format!("{}/**/{names}", braces(&deep)));
    }
    if !flat.is_empty() {
        ways.push(format!("{}/{names}", braces(&flat)));
    }
    if here {
        ways.push(names);
        // A glob without a separator would match names in any directory.
        ways.push("./".to_owned());
    }
    braces(&ways)
}

/// One pattern, or several as alternatives.
fn braces(patterns: &[impl AsRef<str>]) -> String {
    match patterns {
        [one] => one.as_ref().to_owned(),
        many => {
            let many: Vec<&str> = many.iter().map(AsRef::as_ref).collect();
            format!("{{{}}}", many.join(","))
        }
    }
}

/// A name below a directory.
pub(super) fn under(dir: &str, name: &str) -> String {
    match dir {
        "." | "" => name.to_owned(),
        "/" => format!("/{name}"),
        dir => format!("{dir}/{name}"),
    }
}

/// A directory relative to one above it; `.` for itself, nothing when it lies elsewhere.
fn relative<'d>(base: &str, dir: &'d str) -> Option<&'d str> {
    match base {
        base if base == dir => Some("."),
        "." | "" => Some(dir),
        base => dir.strip_prefix(base)?.strip_prefix('/'),
    }
}

fn above(dir: &str) -> String {
    match dir.trim_end_matches('/') {
        "" if dir.starts_with('/') => "/".to_owned(),
        "" => ".".to_owned(),
        dir => dir.to_owned(),
    }
}

/// A path as a glob that matches itself.
fn escape(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if "*?[]{},".contains(c) {
            out.push('[');
            out.push(c);
            out.push(']');
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(root: &str, pieces: &[(&str, bool)]) -> Scope {
        Scope::new(root, pieces.iter().copied())
    }

    #[test]
    fn a_brief_says_what_it_covers_and_reads_back() {
        type Case<'c> = (&'c str, &'c [(&'c str, bool)], &'c str);
        let cases: [Case<'_>; 6] = [
            (".", &[], "`.`"),
            (".", &[("src", true)], "`src/**`"),
            (".", &[("src", true), (".", false)], "`src/**`, `*`"),
            (".", &[("a b", true), ("c, d", false)], "`a b/**`, `c, d/*`"),
            ("/srv/app", &[("/srv/app/x", true)], "`/srv/app/x/**`"),
            ("..", &[("../a", true), ("..", false)], "`../a/**`, `../*`"),
        ];
        for (root, pieces, label) in cases {
            let scope = scope(root, pieces);
            assert_eq!(scope.label(), label);
            if !pieces.is_empty() {
                let system =
                    ["Who you are.".into(), format!("CONTEXT:\n{}", scope.context()).into()];
                assert_eq!(Scope::from_brief(&scope.goal(1, 2), &system), Some(scope));
            }
        }
    }

    #[test]
    fn a_brief_needs_a_goal_and_a_context() {
        let system = [scope(".", &[("src", true)]).context().into()];
        assert_eq!(Scope::from_brief("Survey part of it", &system), None);
        assert_eq!(Scope::from_brief("Survey this repository", &system), None);
        assert_eq!(Scope::from_brief("Survey part 1 of 2: src", &[]), None);
    }

    #[test]
    fn a_goal_is_short() {
        let dirs: Vec<String> = (0..9).map(|n| format!("crates/c{n}")).collect();
        let deep = |dirs: &[String]| Scope::new(".", dirs.iter().map(|dir| (dir.as_str(), true)));
        let here = scope(".", &[(".", false), ("src", false), ("web", true)]);
        assert_eq!(here.goal(1, 3), "Survey part 1 of 3: ./*, src/*, web");
        assert_eq!(
            deep(&dirs).goal(2, 3),
            "Survey part 2 of 3: crates/c0, crates/c1, crates/c2, crates/c3 and 5 more"
        );
        assert!(deep(&dirs[..5]).goal(2, 3).ends_with(", crates/c3, crates/c4"));
    }

    #[test]
    fn a_search_stays_inside_its_scope() {
        type Case<'c> = (Scope, &'c [&'c str], &'c str, Option<&'c str>);
        let cases: [Case<'_>; 9] = [
            (scope(".", &[]), &[], ".", None),
            (scope(".", &[]), &["*.rs"], ".", Some("*.rs")),
            (scope(".", &[("src", true)]), &[], "src", None),
            (scope(".", &[("src", true)]), &["*.rs", "*.py"], "src", Some("{*.rs,*.py}")),
            (scope(".", &[(".", false)]), &[], ".", Some("{*,./}")),
            (scope(".", &[("a/b", false)]), &["*.rs"], "a/b", Some("{*.rs,./}")),
            (scope(".", &[("a/b/c", true), ("a/b/d", true)]), &[], "a/b", Some("{c,d}/**/*")),
            (
                scope("x", &[("x/a[1]", true), ("x/b", true), ("x/c", false), ("x", false)]),
                &["*.rs", "*.c"],
                "x",
                Some("{{a[[]1[]],b}/**/{*.rs,*.c},c/{*.rs,*.c},{*.rs,*.c},./}"),
            ),
            (scope("/srv", &[("/srv/a", true), ("/srv/b", true)]), &[], "/srv", Some("{a,b}/**/*")),
        ];
        for (scope, names, path, glob) in cases {
            assert_eq!(scope.places(names), [(path.to_owned(), glob.map(str::to_owned))]);
        }
    }

    #[test]
    fn a_long_glob_becomes_several() {
        let dirs: Vec<String> = (0..40).map(|n| format!("{n:0>50}")).collect();
        let scope = Scope::new(".", dirs.iter().map(|dir| (dir.as_str(), true)));
        let places = scope.places(&["*.rs"]);
        assert_eq!(places.len(), 3);
        for dir in &dirs {
            let holds =
                |(_, glob): &&(String, Option<String>)| glob.as_ref().unwrap().contains(dir);
            assert_eq!(places.iter().filter(holds).count(), 1);
        }
    }
}
