//! What a survey covers: whole directories, and directories without those below.

/// A directory of a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// Its path, `.` for the working directory.
    pub(super) dir: String,
    /// With all below it, or only the files right in it.
    pub(super) deep: bool,
}

/// What a survey covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    /// The directory that holds all of it.
    pub(super) root: String,
    /// Its pieces; none: all of the root.
    pub(super) pieces: Vec<Piece>,
}

const HEAD: &str = "Survey the part ";
const OF: &str = " of ";
const TAIL: &str = ": languages and sizes, entry points, public items, tests, open remarks and \
                    risks. Report as markdown with a reference `path:line` for each statement.";

impl Scope {
    /// All of a directory.
    pub(super) fn whole(root: &str) -> Self {
        Self { root: root.to_owned(), pieces: Vec::new() }
    }

    /// Pieces of a directory, each with whether it goes deep.
    #[cfg(test)]
    pub(super) fn new<'d>(root: &str, pieces: impl IntoIterator<Item = (&'d str, bool)>) -> Self {
        let piece = |(dir, deep): (&str, bool)| Piece { dir: dir.to_owned(), deep };
        Self { root: root.to_owned(), pieces: pieces.into_iter().map(piece).collect() }
    }

    /// The task that a child gets for it: for people to read, and for [`Self::from_goal`].
    pub(super) fn goal(&self) -> String {
        format!("{HEAD}{}{OF}`{}`{TAIL}", self.label(), self.root)
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

    /// Reads a goal back.
    pub(super) fn from_goal(text: &str) -> Option<Self> {
        let quoted = text.trim_start().strip_prefix(HEAD)?;
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

    /// Where to search, and the glob that keeps a search inside the scope, for files with
    /// these name patterns (all files: none).
    pub(super) fn search(&self, names: &[&str]) -> (String, Option<String>) {
        let path = match self.pieces.as_slice() {
            [Piece { dir, .. }] => dir.clone(),
            _ => self.root.clone(),
        };
        let all = ["*"];
        let patterns = if names.is_empty() { all.as_slice() } else { names };
        let within = |piece: &Piece| {
            let dir = relative(&path, &piece.dir);
            let deep = if piece.deep { "**/" } else { "" };
            let place = |name: &&str| under(&escape(dir), &format!("{deep}{name}"));
            patterns.iter().map(place).collect::<Vec<_>>()
        };
        let deep_root = [Piece { dir: path.clone(), deep: true }];
        let whole = matches!(self.pieces.as_slice(), [] | [Piece { deep: true, .. }]);
        let pieces = if self.pieces.is_empty() { &deep_root } else { self.pieces.as_slice() };
        if whole && names.is_empty() {
            return (path, None);
        }
        let globs: Vec<String> = pieces.iter().flat_map(within).collect();
        let glob = match globs.as_slice() {
            [one] => one.clone(),
            many => format!("{{{}}}", many.join(",")),
        };
        (path, Some(glob))
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

/// A directory relative to one above it; `.` for itself.
fn relative<'d>(base: &str, dir: &'d str) -> &'d str {
    if base == dir {
        return ".";
    }
    match base {
        "." | "" => dir,
        base => dir.strip_prefix(base).map_or(dir, |rest| rest.trim_start_matches('/')),
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
    fn a_goal_says_what_it_covers_and_reads_back() {
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
                assert_eq!(Scope::from_goal(&scope.goal()), Some(scope));
            }
        }
        assert_eq!(Scope::from_goal("Survey the party"), None);
    }

    #[test]
    fn a_search_stays_inside_its_scope() {
        let cases: [(Scope, &[&str], &str, Option<&str>); 7] = [
            (scope(".", &[]), &[], ".", None),
            (scope(".", &[]), &["*.rs"], ".", Some("**/*.rs")),
            (scope(".", &[("src", true)]), &[], "src", None),
            (scope(".", &[("src", true)]), &["*.rs", "*.py"], "src", Some("{**/*.rs,**/*.py}")),
            (scope(".", &[(".", false)]), &[], ".", Some("*")),
            (
                scope("x", &[("x/a[1]", true), ("x", false)]),
                &["*.rs"],
                "x",
                Some("{a[[]1[]]/**/*.rs,*.rs}"),
            ),
            (
                scope("/srv", &[("/srv/a", true), ("/srv/b", true)]),
                &[],
                "/srv",
                Some("{a/**/*,b/**/*}"),
            ),
        ];
        for (scope, names, path, glob) in cases {
            assert_eq!(scope.search(names), (path.to_owned(), glob.map(str::to_owned)));
        }
    }
}
