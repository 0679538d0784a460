//! Links between documents lead somewhere, and the book contains every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{read, root};

/// The documents outside of the book.
const OUTSIDE: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"];

/// The most words that a page of the guide has.
const GUIDE_WORDS: usize = 2500;

/// Returns every page below a folder, relative to `root`.
fn pages_below(root: &Path, folder: &str) -> BTreeSet<PathBuf> {
    let mut folders = vec![root.join(folder)];
    let mut pages = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.insert(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    pages
}

/// Returns a page's lines outside of code blocks, without code spans.
fn prose(page: &str) -> String {
    let mut in_code = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Returns the targets of a page's links.
fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    let links = prose.split("](").skip(1);
    links.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// Returns the anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code && line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |at: &char| at.is_alphanumeric() || matches!(at, ' ' | '-' | '_');
            anchors.insert(heading.chars().filter(kept).collect::<String>().replace(' ', "-"));
        }
    }
    anchors
}

/// Resolves `..` in a path without looking at the disk.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Says what is wrong with a link, if anything. Pages of the book link to pages of the book only,
/// because a book holds no other files.
fn link_error(root: &Path, page: &Path, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => page.to_owned(),
        path => normalize(&page.parent().unwrap().join(path)),
    };
    let is_page = file.extension().is_some_and(|ending| ending == "md");
    if !root.join(&file).exists() {
        return Some(format!("{}: no such file: {target}", page.display()));
    }
    if page.starts_with("docs") && !(is_page && file.starts_with("docs")) {
        return Some(format!("{}: not a page of the book: {target}", page.display()));
    }
    if !anchor.is_empty()
        && !anchors(&fs::read_to_string(root.join(&file)).unwrap()).contains(anchor)
    {
        return Some(format!("{}: no such heading: {target}", page.display()));
    }
    None
}

fn link_errors(root: &Path, page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join(page)).unwrap();
    targets(&text).iter().filter_map(|target| link_error(root, page, target)).collect()
}

#[test]
fn no_link_is_dead() {
    let mut pages = pages_below(&root(), "docs");
    pages.extend(OUTSIDE.map(PathBuf::from));
    let errors: Vec<String> = pages.iter().flat_map(|page| link_errors(&root(), page)).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn a_dead_link_is_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs/guide")).unwrap();
    fs::write(dir.path().join("code.rs"), "").unwrap();
    fs::write(dir.path().join("docs/guide/a.md"), "# An `a` page: first\n\n```\n# no\n```\n")
        .unwrap();
    let page = "[fine](guide/a.md#an-a-page-first) [self](#title) `[code](gone.md)` [web](http://x/)\n\
                # Title\n[gone](guide/b.md) [moved](guide/a.md#no) [out](../code.rs)\n";
    fs::write(dir.path().join("docs/page.md"), page).unwrap();
    assert_eq!(
        link_errors(dir.path(), Path::new("docs/page.md")),
        [
            "docs/page.md: no such file: guide/b.md",
            "docs/page.md: no such heading: guide/a.md#no",
            "docs/page.md: not a page of the book: ../code.rs",
        ]
    );
}

#[test]
fn the_book_contains_every_page_once() {
    let summary = Path::new("docs/SUMMARY.md");
    let listed = targets(&read("docs/SUMMARY.md"));
    let files: BTreeSet<PathBuf> =
        listed.iter().map(|target| summary.parent().unwrap().join(target)).collect();
    assert_eq!(files.len(), listed.len(), "a page is listed twice: {listed:?}");
    let mut pages = pages_below(&root(), "docs");
    pages.remove(summary);
    assert_eq!(files, pages, "left: docs/SUMMARY.md, right: the pages below docs");
}

/// Returns the pages of the book that a page links.
fn linked_pages(page: &Path, text: &str) -> BTreeSet<PathBuf> {
    let paths = targets(text).into_iter().filter(|target| !target.contains("://"));
    let folder = page.parent().unwrap();
    let paths = paths.map(|target| normalize(&folder.join(target.split('#').next().unwrap())));
    paths.filter(|path| path.starts_with("docs") && *path != Path::new("docs/SUMMARY.md")).collect()
}

/// The front page of the book is left out: `README.md` takes its place.
#[test]
fn every_page_is_in_the_table_of_documents_or_linked_by_a_page_in_it() {
    let readme = read("README.md");
    let table = readme.split("\n## Documents\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut reached = linked_pages(Path::new("README.md"), table);
    for page in reached.clone() {
        reached.extend(linked_pages(&page, &fs::read_to_string(root().join(&page)).unwrap()));
    }
    let mut pages = linked_pages(Path::new("docs/SUMMARY.md"), &read("docs/SUMMARY.md"));
    pages.remove(Path::new("docs/README.md"));
    let missing: Vec<_> = pages.difference(&reached).collect();
    assert!(missing.is_empty(), "README.md, Documents: {missing:?}");
}

#[test]
fn a_page_of_the_guide_is_short() {
    for page in pages_below(&root(), "docs/guide") {
        let words = fs::read_to_string(root().join(&page)).unwrap().split_whitespace().count();
        assert!(words <= GUIDE_WORDS, "{}: {words} words: split it", page.display());
    }
}

#[test]
fn the_program_names_pages_that_exist() {
    let mut folders = vec![root().join("crates/cli/src/command")];
    let mut named = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            for rest in fs::read_to_string(&path).unwrap_or_default().split("see docs/").skip(1) {
                let page = rest.split('"').next().unwrap();
                assert!(root().join("docs").join(page).exists(), "{}: {page}", path.display());
                named += 1;
            }
        }
    }
    assert!(named >= 2, "{named}");
}
