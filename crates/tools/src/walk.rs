//! Walks a tree beneath a granted directory, without following links.
//!
//! Every directory and every ignore file is opened relative to the descriptor of the granted
//! directory, so that a link put in the way while walking leads nowhere outside. The rules are
//! git's, in and outside of repositories: `.gitignore` and `.ignore` files from the granted
//! directory down, never above it.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use deputize_documents::open_beneath;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::granted_path::GrantedPath;

/// Bytes of the largest ignore file that is obeyed.
const IGNORE_BYTES: u64 = 1024 * 1024;
/// Files with rules, the strongest last.
const IGNORE_FILES: [&str; 3] = [".git/info/exclude", ".gitignore", ".ignore"];

/// Kind of an entry that a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    File,
    Link,
    Special,
}

/// One entry of a walk.
#[derive(Debug)]
pub(crate) struct WalkEntry {
    /// Its path beneath the granted directory.
    pub(crate) rel: PathBuf,
    pub(crate) kind: EntryKind,
    /// 1 for what is directly in the directory where the walk began.
    pub(crate) depth: usize,
    rules: Option<Arc<IgnoreRules>>,
}

/// The rules that hold in one directory, and those of the directories above it.
#[derive(Debug)]
struct IgnoreRules {
    own: Vec<Gitignore>,
    above: Option<Arc<IgnoreRules>>,
}

/// A walk in progress: entries in the order of their paths, part by part.
#[derive(Debug)]
pub(crate) struct Walk<'p> {
    root: &'p Dir,
    pending: Vec<WalkEntry>,
    depth: usize,
    hidden: bool,
    /// Entries that were left out as hidden or ignored, with all in them.
    pub(crate) left_out: u64,
    /// Directories and ignore files that could not be read.
    pub(crate) unreadable: u64,
}

impl<'p> Walk<'p> {
    /// Begins a walk in a directory, `depth` levels deep. With `hidden` nothing is left out but
    /// the inside of `.git`. A place that is itself hidden or ignored was asked for by name, so
    /// the rules above it do not count.
    pub(crate) fn new(place: &'p GrantedPath, depth: usize, hidden: bool) -> Self {
        let root = place.root();
        let start = place.rel();
        let mut walk =
            Self { root, pending: Vec::new(), depth, hidden, left_out: 0, unreadable: 0 };
        let mut rules = None;
        let mut above: Vec<_> = start.ancestors().skip(1).collect();
        above.reverse();
        if start != Path::new(".") {
            for dir in above {
                rules = walk.rules(dir, rules, |_| true);
            }
            let by_name = |part: &Path| walk.leaves_out(part, true, rules.as_ref());
            if start.ancestors().filter(|part| part.file_name().is_some()).any(by_name) {
                rules = None;
            }
        }
        let start = if start == Path::new(".") { Path::new("") } else { start };
        walk.enter(start, 0, rules);
        walk
    }

    /// Puts what is in a directory before what is still to come.
    fn enter(&mut self, dir: &Path, depth: usize, above: Option<Arc<IgnoreRules>>) {
        let opened = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let Ok(entries) = self.root.read_dir(opened) else {
            self.unreadable += 1;
            return;
        };
        let mut names: Vec<(OsString, EntryKind)> = Vec::new();
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_name(), kind(entry.file_type()?)))) {
                Ok(found) => names.push(found),
                Err(_) => self.unreadable += 1,
            }
        }
        let rules = if self.hidden {
            None
        } else {
            // Most directories have no such file.
            let has = |file: &str| {
                let first = file.split('/').next().unwrap_or(file);
                names.iter().any(|(name, _)| name == first)
            };
            self.rules(dir, above, has)
        };
        // No two of a directory are equal.
        names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        for (name, kind) in names {
            let rel = dir.join(name);
            if !self.hidden && self.leaves_out(&rel, kind == EntryKind::Directory, rules.as_ref()) {
                self.left_out += 1;
                continue;
            }
            self.pending.push(WalkEntry { rel, kind, depth: depth + 1, rules: rules.clone() });
        }
    }

    fn leaves_out(&self, rel: &Path, directory: bool, rules: Option<&Arc<IgnoreRules>>) -> bool {
        let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
        let mut level = rules;
        while let Some(rules) = level {
            for own in rules.own.iter().rev() {
                match own.matched(rel, directory) {
                    Match::None => {}
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                }
            }
            level = rules.above.as_ref();
        }
        rel.file_name().is_some_and(hidden)
    }

    /// The rules in a directory, below those above it, from the files that it has.
    fn rules(
        &mut self,
        dir: &Path,
        above: Option<Arc<IgnoreRules>>,
        has: impl Fn(&str) -> bool,
    ) -> Option<Arc<IgnoreRules>> {
        let files = IGNORE_FILES.iter().filter(|file| has(file));
        let own: Vec<_> = files.filter_map(|file| self.rules_of(dir, file)).collect();
        if own.is_empty() { above } else { Some(Arc::new(IgnoreRules { own, above })) }
    }

    fn rules_of(&mut self, dir: &Path, name: &str) -> Option<Gitignore> {
        let path = dir.join(name);
        // A pipe or a device by that name is no ignore file and must not be waited for.
        if !self.root.metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut text = Vec::new();
        let read = open_beneath(self.root, &path)
            .and_then(|file| file.into_std().take(IGNORE_BYTES + 1).read_to_end(&mut text));
        if read.is_err() || text.len() as u64 > IGNORE_BYTES {
            self.unreadable += 1;
            return None;
        }
        let mut builder = GitignoreBuilder::new(dir);
        for line in String::from_utf8_lossy(&text).lines() {
            // A line that is no pattern rules nothing, as in git.
            let _no_pattern = builder.add_line(None, line);
        }
        builder.build().ok().filter(|rules| !rules.is_empty())
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        let entry = self.pending.pop()?;
        let inside_git = entry.rel.file_name() == Some(".git".as_ref());
        if entry.kind == EntryKind::Directory && entry.depth < self.depth && !inside_git {
            self.enter(&entry.rel, entry.depth, entry.rules.clone());
        }
        Some(entry)
    }
}

fn kind(kind: cap_std::fs::FileType) -> EntryKind {
    if kind.is_dir() {
        EntryKind::Directory
    } else if kind.is_file() {
        EntryKind::File
    } else if kind.is_symlink() {
        EntryKind::Link
    } else {
        EntryKind::Special
    }
}

/// A path as it is shown: relative to the directory that an agent works in, where it is below
/// that; on one line, with everything invisible made visible.
pub(crate) fn relative(cwd: &Path, path: &Path) -> String {
    let path = path.strip_prefix(cwd).unwrap_or(path);
    if path.as_os_str().is_empty() {
        return ".".to_owned();
    }
    crate::display_name::display_name(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ToolFixture;
    use crate::granted_path::Access;

    fn walked(bench: &ToolFixture, path: &str, depth: usize, hidden: bool) -> String {
        let place = GrantedPath::existing(&bench.cx, path, Access::Read).unwrap();
        let mut walk = Walk::new(&place, depth, hidden);
        let mut paths: Vec<_> =
            walk.by_ref().map(|entry| entry.rel.display().to_string()).collect();
        paths.push(format!("-{}", walk.left_out));
        paths.join(" ")
    }

    #[test]
    fn ignore_files_are_obeyed_from_the_root_down_also_outside_a_repository() {
        let bench = ToolFixture::new();
        std::fs::write(bench.path("../.gitignore"), "*\n").unwrap();
        bench.put(".gitignore", "*.log\n/target\n!keep.log\n").put("a.log", "").put("keep.log", "");
        bench.put("target/x", "").put("src/target/y", "").put("src/b.log", "").put("src/c", "");
        bench.put("src/.ignore", "c\n").put(".hidden/z", "").put(".git/info/exclude", "local\n");
        bench.put("local", "");
        assert_eq!(walked(&bench, ".", 9, false), "keep.log src src/target src/target/y -9");
        assert_eq!(walked(&bench, "src", 9, false), "src/target src/target/y -3");
        assert_eq!(walked(&bench, "src", 1, false), "src/target -3");
        // What is named is meant.
        assert_eq!(walked(&bench, "target", 9, false), "target/x -0");
        assert_eq!(walked(&bench, ".hidden", 9, false), ".hidden/z -0");
        let all = walked(&bench, ".", 2, true);
        assert!(
            all.contains(".hidden/z") && all.contains("a.log") && !all.contains(".git/info"),
            "{all}"
        );
    }

    #[test]
    fn entries_come_in_the_order_of_their_paths() {
        let bench = ToolFixture::new();
        for name in ["b/z", "b.txt", "a", "b/a/x", "b-c/x"] {
            bench.put(name, "");
        }
        assert_eq!(walked(&bench, ".", 9, false), "a b b/a b/a/x b/z b-c b-c/x b.txt -0");
    }

    #[test]
    fn links_are_not_followed_and_a_pipe_is_no_ignore_file() {
        let bench = ToolFixture::new();
        bench.fifo(".gitignore").link("../outside", "out").link(".", "loop").put("f", "");
        std::fs::write(bench.path("../outside/secret"), "").unwrap();
        assert_eq!(walked(&bench, ".", 9, false), "f loop out -1");
    }
}
