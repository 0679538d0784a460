//! Files that an answer names and that do not exist: its words that have the shape of a path,
//! compared with what the host saw.
//!
//! The comparison reads no sentence, so it holds in any language. In doubt a word is no path, and a
//! file is not listed: a child that only mentions files must not be accused.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use deputize_core::file_state::FileLedger;
use deputize_core::{AgentId, Outcome};
use serde_json::Value;
use serde_json::value::RawValue;

/// Limit on the names in an answer that are looked up.
const MOST: usize = 20;
/// Limit on a path, in bytes.
const PATH_BYTES: usize = 400;
/// Limit on the directory entries searched for a name.
const ENTRIES: usize = 50_000;
/// Limit on an unknown file extension, in bytes.
const ENDING_BYTES: usize = 8;
/// Fence around a block that is not the child's own text.
const FENCE: &str = "```";
/// The first letter behind those that are written with spaces between words.
const WITHOUT_SPACES: char = '\u{2e80}';
/// Files that are known by their whole name.
const NAMES: [&str; 9] = [
    "CHANGELOG",
    "Containerfile",
    "Dockerfile",
    "Gemfile",
    "Justfile",
    "LICENSE",
    "Makefile",
    "README",
    "justfile",
];
/// Endings of files, for names without a directory.
const ENDINGS: [&str; 46] = [
    "bash", "c", "cfg", "conf", "cpp", "cs", "css", "csv", "go", "h", "hpp", "html", "ini", "java",
    "js", "json", "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "pdf", "php", "png",
    "proto", "py", "rb", "rs", "rst", "scala", "sh", "sql", "svg", "swift", "toml", "ts", "tsx",
    "txt", "vue", "xml", "yaml", "yml", "zig",
];

/// Returns the files that an answer names although neither the child nor an agent below it is known
/// to have read or written them. Whether they exist is for [`missing`] to say.
pub(crate) fn unknown_names(
    outcome: &Outcome,
    files: &FileLedger,
    parent: &AgentId,
) -> Vec<String> {
    let answer = outcome.text.as_deref().unwrap_or_default();
    let mut names = named_paths(answer, outcome.output.as_ref());
    if names.is_empty() {
        return Vec::new();
    }
    let read = [&outcome.agent, parent].map(|agent| files.read_by(agent)).into_iter().flatten();
    let mut known: Vec<PathBuf> = read.map(|(path, _)| path).collect();
    let receipts = outcome.all_receipts();
    known.extend(receipts.flat_map(|(_, seen)| seen.files_written.keys().cloned()));
    names.retain(|name| {
        let name = Path::new(name.strip_prefix("./").unwrap_or(name));
        !known.iter().any(|path| path.ends_with(name))
    });
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the names of files that are neither in one of these directories nor below one. This looks
/// at the file system.
pub(crate) fn missing(mut names: Vec<String>, directories: &[PathBuf]) -> Vec<String> {
    names.retain(|name| !directories.iter().any(|it| it.join(name).symlink_metadata().is_ok()));
    let mut left = ENTRIES;
    let mut folders: VecDeque<PathBuf> = directories.iter().cloned().collect();
    while let Some(folder) = folders.pop_front().filter(|_| !names.is_empty()) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else {
                // In so large a tree a name alone may be anywhere.
                names.retain(|name| name.contains('/'));
                return names;
            };
            left = rest;
            let path = entry.path();
            names.retain(|name| !path.ends_with(name.strip_prefix("./").unwrap_or(name)));
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back(path);
            }
        }
    }
    names
}

/// Returns the paths that an answer names, each once: in its value, if it has one, and in the text
/// around that.
fn named_paths<'a>(answer: &'a str, value: Option<&'a Value>) -> Vec<&'a str> {
    let mut paths = Vec::new();
    if let Some(value) = value {
        add_from_value(value, &mut paths);
    }
    let is_bare = value.is_some() && serde_json::from_str::<&RawValue>(answer).is_ok();
    if !is_bare {
        add_from_text(answer, &mut paths);
    }
    paths
}

fn add_from_value<'a>(value: &'a Value, paths: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => add_from_text(text, paths),
        Value::Array(items) => items.iter().for_each(|item| add_from_value(item, paths)),
        Value::Object(map) => {
            for (key, value) in map {
                // A key with a value that denies it names no file that is to be there.
                if !matches!(value, Value::Null | Value::Bool(false)) {
                    add(path(key, true), paths);
                }
                add_from_value(value, paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds the paths in a text, without its blocks and quotations: their words may be of others.
fn add_from_text<'a>(text: &'a str, paths: &mut Vec<&'a str>) {
    let mut fenced = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(FENCE) {
            fenced = !fenced;
        } else if !(fenced || line.starts_with('>')) {
            add_from_line(line, paths);
        }
    }
}

fn add_from_line<'a>(line: &'a str, paths: &mut Vec<&'a str>) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let quoted = rest.get(first.len_utf8()..).filter(|_| matches!(first, '`' | '"'));
        if let Some((inside, after)) = quoted.and_then(|text| text.split_once(first)) {
            // With a space in it it is a command or a sentence.
            add(path(inside, true), paths);
            rest = after;
            continue;
        }
        let word = rest.find(is_between).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
        let after = rest.get(word.len()..).unwrap_or_default();
        if word.is_empty() {
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        // `app.go()` is a call, and `https://x.org/a.html` an address.
        let is_other = after.starts_with('(') || after.starts_with("://");
        if is_other {
            rest =
                after.find(char::is_whitespace).and_then(|at| after.get(at..)).unwrap_or_default();
            continue;
        }
        add(path(word, false), paths);
        // `src/a.rs:12` names a place in a file.
        rest = after;
    }
}

/// Returns whether a character stands between words.
fn is_between(c: char) -> bool {
    let is_letter = c.is_alphanumeric() && c < WITHOUT_SPACES;
    !(is_letter || "_./~+@-".contains(c))
}

fn add<'a>(path: Option<&'a str>, paths: &mut Vec<&'a str>) {
    if let Some(path) = path.filter(|path| !paths.contains(path) && paths.len() < MOST) {
        paths.push(path);
    }
}

/// Returns the path that a word is, if it has the shape of one.
fn path(word: &str, quoted: bool) -> Option<&str> {
    let word = word.split([':', '#']).next()?.trim_end_matches(['.', '-']);
    let is_plain = |c: char| c.is_alphanumeric() || "_./+-".contains(c);
    if word.is_empty() || word.len() > PATH_BYTES || !word.chars().all(is_plain) {
        return None;
    }
    let Some((folder, name)) = word.rsplit_once('/') else {
        let (stem, ending) = word.rsplit_once('.').unwrap_or((word, ""));
        // `Node.js` is no file, and a `README` in a sentence no certain one.
        let is_file = is_known(ending) && (quoted || !ending.eq_ignore_ascii_case("js"));
        let is_named = quoted && NAMES.contains(&word);
        return (is_named || (is_file && !stem.is_empty())).then_some(word);
    };
    // `docs.rs/a/b.html` is an address.
    let first = folder.split('/').next().unwrap_or_default();
    if !first.starts_with('.') && first.contains('.') {
        return None;
    }
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let may_end = ending.len() <= ENDING_BYTES
        && ending.starts_with(|c: char| c.is_ascii_lowercase())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_file = !stem.is_empty() && (is_known(ending) || may_end);
    (is_file || NAMES.contains(&name)).then_some(word)
}

fn is_known(ending: &str) -> bool {
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_found_in_any_language() {
        for (answer, expected) in [
            (
                "I created `src/a.rs` and updated (docs/b.md), then out.txt.",
                &["src/a.rs", "docs/b.md", "out.txt"][..],
            ),
            ("Ich habe „src/a.rs“ angelegt; bericht.md folgt.", &["src/a.rs", "bericht.md"]),
            ("J'ai écrit « notes/été.md ».", &["notes/été.md"]),
            ("我创建了src/a.rs，并更新了`文档/b.md`。", &["src/a.rs", "文档/b.md"]),
            ("Создан файл отчёт.txt", &["отчёт.txt"]),
            ("Wrote ./x/y.unknown:12:3 and \"/tmp/z.log\".", &["./x/y.unknown", "/tmp/z.log"]),
            (
                "[the notes](docs/n.md#L3), **src/z.rs**, ../../up.toml",
                &["docs/n.md", "src/z.rs", "../../up.toml"],
            ),
            (
                "`Makefile`, sub/Dockerfile and `util.js`",
                &["Makefile", "sub/Dockerfile", "util.js"],
            ),
            ("| src/q.rs | Created |", &["src/q.rs"]),
        ] {
            assert_eq!(named_paths(answer, None), expected, "{answer}");
        }
    }

    #[test]
    fn other_words_are_no_paths() {
        for answer in [
            "Updated foo.bar() and e.g. the and/or of version 1.2 at https://x.org/a.html",
            "Node.js 20, README and LICENSE; docs.rs/tokio/index.html",
            "`cargo test src/a.rs` and \"see src/a.rs for it\"",
            "> I created a.md\n```\ncreated a.rs\n```",
            "app.go(), ~/x.md, ann@x.rs, .env, a/b.Then, http/1.1",
        ] {
            assert_eq!(named_paths(answer, None), [""; 0], "{answer}");
        }
    }

    #[test]
    fn paths_in_a_value_are_found_and_the_text_is_not_read_twice() {
        let value = serde_json::json!({
            "a.rs": "new", "b.rs": false, "files": ["src/x.rs", {"path": "y.md"}], "summary": "See z.rs."
        });
        let expected = ["a.rs", "src/x.rs", "y.md", "z.rs"];
        assert_eq!(named_paths(&value.to_string(), Some(&value)), expected);
        let around = format!("Beside w.md:\n```json\n{value}\n```");
        assert_eq!(named_paths(&around, Some(&value)), [&expected[..], &["w.md"]].concat());
    }

    #[test]
    fn few_names_of_many_are_looked_up() {
        let many: String = (0..99).map(|n| format!("a{n}.rs\n")).collect();
        assert_eq!(named_paths(&many, None).len(), MOST);
    }

    #[test]
    fn what_is_anywhere_below_a_directory_is_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("work");
        fs::create_dir_all(cwd.join("crates/x/src")).unwrap();
        fs::write(cwd.join("crates/x/src/lib.rs"), "").unwrap();
        fs::write(folder.path().join("up.toml"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", cwd.join("link.md")).unwrap();
        let absolute = cwd.join("crates/x/src/lib.rs").display().to_string();
        let names =
            ["lib.rs", "src/lib.rs", "./crates/x/src/lib.rs", "../up.toml", "link.md", &absolute];
        let all = names.iter().chain(&["x/lib.rs", "src/main.rs", "ib.rs", "/no/lib.rs"]);
        let all: Vec<String> = all.map(|name| (*name).to_owned()).collect();
        assert_eq!(missing(all, &[cwd]), ["x/lib.rs", "src/main.rs", "ib.rs", "/no/lib.rs"]);
    }

    proptest! {
        #[test]
        fn whatever_it_is_given_it_gives_parts_of_it(answer in "(a/b.rs|[a-z./:`\"( \n\u{202e}é我]){0,40}") {
            for path in named_paths(&answer, None) {
                prop_assert!(!path.is_empty() && answer.contains(path));
            }
        }
    }
}
