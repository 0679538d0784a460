//! Files that an answer says were written: pure. What was written is for the host to know; this
//! only finds what to look up.

use serde_json::Value;
use serde_json::value::RawValue;

/// How many names of one answer are looked up.
const MOST: usize = 20;
/// How long a name may be, in bytes.
const NAME_BYTES: usize = 400;
/// Words that say that something was written.
const VERBS: [&str; 20] = [
    "added",
    "changed",
    "created",
    "edited",
    "extended",
    "extracted",
    "fixed",
    "generated",
    "implemented",
    "modified",
    "moved",
    "patched",
    "refactored",
    "renamed",
    "replaced",
    "rewrote",
    "saved",
    "updated",
    "written",
    "wrote",
];
/// What is done by whoever was `able to` or `managed to`.
const INFINITIVES: [&str; 16] = [
    "add",
    "change",
    "create",
    "edit",
    "extend",
    "fix",
    "generate",
    "implement",
    "modify",
    "patch",
    "refactor",
    "rename",
    "replace",
    "rewrite",
    "save",
    "update",
];
/// Words after `made` that tell of a file.
const MADE: [&str; 6] = ["change", "changes", "edits", "file", "files", "modifications"];
/// Words that say that it was not, or is only to be, where one stands shortly before the verb.
const NEGATIONS: [&str; 29] = [
    "not", "no", "nothing", "never", "without", "could", "would", "should", "cannot", "can't",
    "didn't", "failed", "wasn't", "weren't", "isn't", "aren't", "haven't", "hasn't", "hadn't",
    "won't", "unable", "neither", "none", "be", "must", "needs", "may", "might", "if",
];
/// Words of a heading or a label that is about what is only to be.
const PLANS: [&str; 12] = [
    "expected",
    "missing",
    "necessary",
    "needed",
    "planned",
    "possible",
    "proposed",
    "recommended",
    "required",
    "should",
    "suggested",
    "to",
];
/// Words that begin a command in backticks, and no name.
const COMMANDS: [&str; 24] = [
    "bash", "cargo", "cat", "cd", "cp", "echo", "git", "go", "grep", "head", "ls", "make", "mkdir",
    "mv", "node", "npm", "npx", "pytest", "python", "python3", "rm", "sed", "sh", "touch",
];
/// What stands around a value in an answer with other words.
const FENCE: &str = "```";
/// Of how many words a value is one that tells what was done to a file.
const WORDS: usize = 2;
/// How many words a name with spaces may have.
const SPACED: usize = 6;
/// How many bytes may stand between two names at the beginning of an item.
const BETWEEN: usize = 6;
/// How many words a negation may stand before the verb.
const NEGATES: usize = 3;
/// Words with which a verb tells of somebody else's work, if `by` follows.
const PASSIVE: [&str; 4] = ["been", "is", "was", "were"];
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

/// The paths that an answer names as written, each once: in its value, if it has one, and in the
/// text around that.
pub(crate) fn named_as_written<'a>(answer: &'a str, value: Option<&'a Value>) -> Vec<&'a str> {
    let mut found = Vec::new();
    match value {
        None => in_text(answer, &mut found),
        Some(value) => {
            in_value(value, false, &mut found);
            let bare = serde_json::from_str::<&RawValue>(answer).is_ok();
            if let Some((before, block)) = answer.split_once(FENCE).filter(|_| !bare) {
                let after = block.rsplit_once(FENCE).map_or("", |(_, after)| after);
                [before, after].into_iter().for_each(|text| in_text(text, &mut found));
            }
        }
    }
    found
}

fn add<'a>(path: &'a str, found: &mut Vec<&'a str>) {
    if !found.contains(&path) && found.len() < MOST {
        found.push(path);
    }
}

/// In a value: below a key that says it (`files_written`, `created`), beside a word that does
/// (`"action": "created"`, `"written": true`), or in a text that does.
fn in_value<'a>(value: &'a Value, said: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if said => {
            let words = || text.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty());
            // `src/a.rs (new)`, but not `docs/b.md asks for it`.
            let remark = words().nth(1).is_none_or(|word| !word.starts_with(char::is_alphanumeric));
            let all = words().all(|word| path(word).is_some());
            let most = if all { MOST } else { usize::from(remark) };
            words().take(most).filter_map(path).for_each(|path| add(path, found));
            in_text(text, found);
        }
        Value::String(text) => in_text(text, found),
        Value::Array(items) => items.iter().for_each(|item| in_value(item, said, found)),
        Value::Object(map) => {
            let beside = map.iter().any(|(key, value)| match value {
                Value::Bool(true) => key_says_written(key),
                Value::String(word) => {
                    word.split_whitespace().count() <= WORDS && says_written(word)
                }
                _ => false,
            });
            for (key, value) in map {
                let denied = matches!(value, Value::Null | Value::Bool(false));
                if let Some(path) = path(key).filter(|_| said && !denied) {
                    add(path, found);
                }
                let said = said || key_says_written(key) || (beside && value.is_string());
                in_value(value, said, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a key says that something was written: `files_written`, `filesWritten`.
fn key_says_written(key: &str) -> bool {
    let mut words = String::with_capacity(key.len());
    for c in key.chars() {
        if c.is_uppercase() {
            words.push(' ');
        }
        words.push(c);
    }
    says_written(&words)
}

/// In a line that says so, or in a list, a table or a block of names below a line or heading
/// that does.
fn in_text<'a>(text: &'a str, found: &mut Vec<&'a str>) {
    // How far the items of a list of claims are indented, once there is one.
    let mut list: Option<Option<usize>> = None;
    let mut fenced = false;
    for raw in text.lines() {
        let line = raw.trim();
        if line.starts_with(FENCE) {
            fenced = !fenced;
            if !fenced {
                list = None;
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if fenced {
            // Of other blocks nobody knows whose words they are.
            let named = path(line.split_once(" (").map_or(line, |(name, _)| name));
            if list.is_some() {
                named.into_iter().for_each(|path| add(path, found));
            }
            continue;
        }
        let says = says_written(line);
        let opens = says && (is_heading(line) || unmarked(line).ends_with(':'));
        let indent = raw.len() - raw.trim_start().len();
        if !is_item(line) {
            list = opens.then_some(None);
        } else if let Some(first) = &mut list {
            let first = *first.get_or_insert(indent);
            if !says && indent <= first {
                leading(line).for_each(|path| add(path, found));
            }
        } else if opens {
            list = Some(None);
        }
        if says {
            names(line).for_each(|(path, _)| add(path, found));
        } else {
            // `a.txt (new)` says so of itself alone.
            let new = names(line).filter(|(_, after)| is_new(after));
            new.for_each(|(path, _)| add(path, found));
        }
    }
}

/// Whether what stands behind a name says that the file is new.
fn is_new(after: &str) -> bool {
    let after = after.trim_start_matches(['`', '*', '"', ' ']);
    ["(new)", "(new file)", "[new]"]
        .iter()
        .any(|mark| after.get(..mark.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(mark)))
}

/// A line without the marks of headings, lists and emphasis around it.
fn unmarked(line: &str) -> &str {
    line.trim_matches(|c: char| "#*_-+•> ".contains(c))
}

/// Whether a line is a heading, by its mark or because all of it is bold.
fn is_heading(line: &str) -> bool {
    let bold = |mark: &str| {
        let inside = line.trim_end_matches(':').strip_prefix(mark);
        inside.and_then(|rest| rest.strip_suffix(mark)).is_some_and(|rest| !rest.contains(mark))
    };
    line.starts_with('#') || bold("**") || bold("__")
}

/// Whether a line is an item of a list or a row of a table: `- a`, `* a`, `• a`, `1. a`, `1) a`,
/// `| a |`.
fn is_item(line: &str) -> bool {
    let (mark, _) = line.split_once(' ').unwrap_or((line, ""));
    let number = mark.trim_end_matches(['.', ')']);
    matches!(mark, "-" | "*" | "•" | "+")
        || line.starts_with('|')
        || (number.len() < mark.len() && number.parse::<u32>().is_ok())
}

/// The names at the beginning of an item: what stands after other words is about them.
fn leading(line: &str) -> impl Iterator<Item = &str> {
    let mut end = None;
    names(line)
        .take_while(move |(name, after)| {
            let first = end.is_none();
            let at = name.as_ptr() as usize;
            let near = end.is_none_or(|end| at.saturating_sub(end) <= BETWEEN);
            end = Some(after.as_ptr() as usize);
            first || near
        })
        .map(|(name, _)| name)
}

/// The words that may be names in a line, each with what stands behind it: words, what is in
/// quotation marks with spaces in it, and both parts of a link.
fn names(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches([' ', '\t', '|']);
            if rest.is_empty() {
                return None;
            }
            if let Some((inside, after)) = quoted(rest) {
                rest = after;
                let command = inside.split(' ').next().is_some_and(|it| COMMANDS.contains(&it));
                match spaced(inside).filter(|_| !command) {
                    Some(name) => return Some((name, rest)),
                    None => continue,
                }
            }
            let end = rest.find([' ', '\t', '|']).unwrap_or(rest.len());
            let end = rest.get(..end).and_then(|word| word.find("](")).map_or(end, |at| at + 2);
            let (word, after) = rest.split_at(end);
            rest = after;
            if let Some(name) = path(word) {
                return Some((name, after));
            }
        }
    })
}

/// What is in quotation marks at the beginning of a text, if there is a space in it, and what
/// stands behind it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(['(', '*', '[']);
    let mark = text.chars().next().filter(|mark| ['`', '"'].contains(mark))?;
    let (inside, after) = text.get(1..)?.split_once(mark)?;
    inside.trim().contains(' ').then_some((inside.trim(), after))
}

/// The path that several words are together: not more than a few, and the last one ends as files
/// do.
fn spaced(words: &str) -> Option<&str> {
    let plain = |c: char| c.is_alphanumeric() || "_./~+@-() ".contains(c);
    let few = words.split(' ').count() <= SPACED && words.len() <= NAME_BYTES;
    let last = words.rsplit(' ').next()?;
    (few && words.chars().all(plain) && path(last).is_some()).then_some(words)
}

/// Whether a word is one of these.
fn is_of(list: &[&str], word: &str) -> bool {
    list.iter().any(|other| word.eq_ignore_ascii_case(other))
}

fn any_of(list: &[&str], words: &[&str]) -> bool {
    words.iter().any(|word| is_of(list, word))
}

/// The words of a text, with what belongs to names and negations.
fn words(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '/' || c == '.'));
    words.map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty()).collect()
}

/// Whether a line says that the one who speaks wrote something.
fn says_written(line: &str) -> bool {
    let words = words(line);
    if (is_heading(line) || unmarked(line).ends_with(':')) && any_of(&PLANS, &words) {
        return false;
    }
    let last = |wanted: &str| words.iter().rposition(|word| word.eq_ignore_ascii_case(wanted));
    let (by, into) = (last("by"), last("into"));
    let did = words.iter().enumerate().any(|(at, word)| {
        let near = words.get(at.saturating_sub(NEGATES)..at).unwrap_or_default();
        let next = |most: usize| words.get(at + 1..words.len().min(at + 1 + most));
        let made = || {
            let next = |most| next(most).unwrap_or_default();
            any_of(&MADE, next(5)) && !any_of(&NEGATIONS, next(2))
        };
        let able = || match near {
            [.., how, to] => is_of(&["able", "managed"], how) && to.eq_ignore_ascii_case("to"),
            _ => false,
        };
        let said = is_of(&VERBS, word)
            || (is_of(&["made"], word) && made())
            || (is_of(&["put"], word) && into > Some(at))
            || (is_of(&["now"], word) && any_of(&["contains"], next(1).unwrap_or_default()))
            || (is_of(&INFINITIVES, word) && able());
        let others = by > Some(at) && any_of(&PASSIVE, near);
        said && !others && !any_of(&NEGATIONS, near)
    });
    did || line.split(". ").any(is_label)
}

/// `New file: a.txt`, or `New files` as a heading.
fn is_label(sentence: &str) -> bool {
    let words = words(sentence);
    let [first, second, ..] = words[..] else { return false };
    let alone = words.len() == 2 || sentence.contains(':');
    let new = is_of(&["new"], first) && is_of(&["file", "files"], second);
    new && alone && !any_of(&PLANS, &words) && !any_of(&NEGATIONS, &words)
}

/// The path that a word is, if it is one.
fn path(word: &str) -> Option<&str> {
    let around = |c: char| "`'\"()[]{},;:!?<>*".contains(c);
    let word = word.trim_matches(around).trim_end_matches('.').trim_matches(around);
    let word = word.strip_prefix("file://").unwrap_or(word);
    // `src/a.rs:12:3` and `src/a.rs#L12` name a place in a file.
    let word = word.split([':', '#']).next().filter(|_| !word.contains("://"))?;
    let plain = |c: char| c.is_alphanumeric() || "_./~+@-".contains(c);
    if word.is_empty() || word.len() > NAME_BYTES || !word.chars().all(plain) {
        return None;
    }
    let name = word.rsplit('/').next()?;
    if NAMES.contains(&name) {
        return Some(word);
    }
    let (stem, ending) = name.rsplit_once('.')?;
    let known = ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    let in_folder = word.contains('/') && ending.starts_with(|c: char| c.is_ascii_alphabetic());
    (!stem.is_empty() && (known || in_folder)).then_some(word)
}

#[cfg(test)]
mod tests;
