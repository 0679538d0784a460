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
/// Words that say that it was not, where one stands shortly before the verb.
const NEGATIONS: [&str; 12] = [
    "not", "no", "nothing", "never", "without", "could", "would", "should", "cannot", "can't",
    "didn't", "failed",
];
/// What stands around a value in an answer with other words.
const FENCE: &str = "```";
/// Of how many words a value is one that tells what was done to a file.
const WORDS: usize = 2;
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

/// In a line that says so, or in a list below such a line that ends with a colon.
fn in_text<'a>(text: &'a str, found: &mut Vec<&'a str>) {
    let mut listed = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let says = says_written(line);
        listed = if is_item(line) { listed } else { says && line.ends_with(':') };
        if !(says || listed) {
            continue;
        }
        line.split_whitespace().filter_map(path).for_each(|path| add(path, found));
    }
}

/// Whether a line is an item of a list: `- a`, `* a`, `• a`, `1. a`, `1) a`.
fn is_item(line: &str) -> bool {
    let (mark, _) = line.split_once(' ').unwrap_or((line, ""));
    let number = mark.trim_end_matches(['.', ')']);
    matches!(mark, "-" | "*" | "•" | "+")
        || (number.len() < mark.len() && number.parse::<u32>().is_ok())
}

/// Whether a line says that the one who speaks wrote something.
fn says_written(line: &str) -> bool {
    let words: Vec<&str> = line
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '/' || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    let any = |list: &[&str], words: &[&str]| {
        words.iter().any(|word| list.iter().any(|other| word.eq_ignore_ascii_case(other)))
    };
    words.iter().enumerate().any(|(at, word)| {
        let (before, after) = words.split_at(at);
        let near = before.get(at.saturating_sub(NEGATES)..).unwrap_or_default();
        let others = any(&PASSIVE, near) && any(&["by"], after);
        any(&VERBS, &[*word]) && !any(&NEGATIONS, near) && !others
    })
}

/// The path that a word is, if it is one.
fn path(word: &str) -> Option<&str> {
    let around = |c: char| "`'\"()[]{},;:!?<>*".contains(c);
    let word = word.trim_matches(around).trim_end_matches('.').trim_matches(around);
    // `src/a.rs:12:3` names a place in a file.
    let word = word.split(':').next().filter(|_| !word.contains("://"))?;
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_in_lines_that_say_written() {
        let lines = [
            "I created `src/a.rs` and updated (docs/b.md), then out.txt.",
            "Wrote ./x/y.unknown:12:3 and \"/tmp/z.log\".",
            "I read src/c.rs.",
            "I did not change src/d.rs; nothing was written to e.txt",
            "Updated foo.bar() and e.g. the and/or of version 1.2 at https://x.org/a.html",
            "Fixed `src/a.rs` again",
            "Created ../../up.toml and .env",
        ];
        assert_eq!(
            named_as_written(&lines.join("\n"), None),
            ["src/a.rs", "docs/b.md", "out.txt", "./x/y.unknown", "/tmp/z.log", "../../up.toml"]
        );
        let many: String = (0..99).map(|n| format!("wrote a{n}.rs\n")).collect();
        assert_eq!(named_as_written(&many, None).len(), MOST);
    }

    #[test]
    fn claims_as_models_make_them() {
        let cases: [(&str, &[&str]); 11] = [
            ("Created report.md with no errors.", &["report.md"]),
            ("Updated docs/a.md without any problems.", &["docs/a.md"]),
            (
                "I created:\n- report.md\n- `src/b.rs` (new)\n\nThe rest is in c.rs.",
                &["report.md", "src/b.rs"],
            ),
            ("Files changed:\n1. a.rs\n2) b.rs", &["a.rs", "b.rs"]),
            ("Files that I read:\n- a.rs", &[]),
            ("Created Makefile and sub/Dockerfile", &["Makefile", "sub/Dockerfile"]),
            ("report.md was created.", &["report.md"]),
            ("The parser was changed in src/a.rs by commit 12ab.", &[]),
            ("I have not yet updated a.md.", &[]),
            ("a.md could not be updated.", &[]),
            ("Nothing was written to a.md.", &[]),
        ];
        for (answer, expected) in cases {
            assert_eq!(named_as_written(answer, None), expected, "{answer}");
        }
    }

    #[test]
    fn claims_in_a_value_as_schemas_ask_for_them() {
        let cases: [(&str, &[&str]); 14] = [
            (r#"{"files_written":["src/x.rs","docs/y.md"],"ok":true}"#, &["src/x.rs", "docs/y.md"]),
            (r#"{"modifiedFiles":"src/x.rs, src/y.rs"}"#, &["src/x.rs", "src/y.rs"]),
            (r#"{"created":[{"path":"src/x.rs","why":"docs/y.md asks for it"}]}"#, &["src/x.rs"]),
            (r#"{"files":[{"path":"src/x.rs","action":"created"}]}"#, &["src/x.rs"]),
            (r#"{"path":"src/x.rs","written":true}"#, &["src/x.rs"]),
            (r#"{"changed":{"src/x.rs":"a new test","src/y.rs":false}}"#, &["src/x.rs"]),
            (r#"{"summary":"I read a.rs.\nI wrote src/x.rs."}"#, &["src/x.rs"]),
            (r#"{"updated":["src/x.rs (the parser of b.rs)"]}"#, &["src/x.rs"]),
            (r#"{"path":"src/x.rs","written":false}"#, &[]),
            (r#"{"files_not_written":["src/x.rs"]}"#, &[]),
            (r#"{"files_read":["src/x.rs"],"unchanged":["src/y.rs"]}"#, &[]),
            (r#"{"path":"src/x.rs","finding":"a check was added without a test"}"#, &[]),
            (r#"{"path":"src/x.rs","action":"not changed"}"#, &[]),
            (r#"["src/x.rs"]"#, &[]),
        ];
        for (answer, expected) in cases {
            let value: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(named_as_written(answer, Some(&value)), expected, "{answer}");
            let fenced = format!("I wrote z.md, and this:\n```json\n{answer}\n```\nDone.");
            let named = named_as_written(&fenced, Some(&value));
            assert_eq!(named, [expected, &["z.md"]].concat(), "{answer}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_given_it_gives_parts_of_it(answer in "(wrote|[a-z./:` \n\u{202e}é]){0,40}") {
            for path in named_as_written(&answer, None) {
                prop_assert!(!path.is_empty() && answer.contains(path));
            }
        }
    }
}
