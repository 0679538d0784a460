//! Files that an answer says were written: pure. What was written is for the host to know; this
//! only finds what to look up.

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

/// The paths that an answer names as written, each once: in a line that says so, or in a list
/// below such a line that ends with a colon.
pub(crate) fn named_as_written(answer: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut listed = false;
    for line in answer.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let says = says_written(line);
        listed = if is_item(line) { listed } else { says && line.ends_with(':') };
        if !(says || listed) {
            continue;
        }
        for path in line.split_whitespace().filter_map(path) {
            if !found.contains(&path) && found.len() < MOST {
                found.push(path);
            }
        }
    }
    found
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
            named_as_written(&lines.join("\n")),
            ["src/a.rs", "docs/b.md", "out.txt", "./x/y.unknown", "/tmp/z.log", "../../up.toml"]
        );
        let many: String = (0..99).map(|n| format!("wrote a{n}.rs\n")).collect();
        assert_eq!(named_as_written(&many).len(), MOST);
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
            assert_eq!(named_as_written(answer), expected, "{answer}");
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_given_it_gives_parts_of_it(answer in "(wrote|[a-z./:` \n\u{202e}é]){0,40}") {
            for path in named_as_written(&answer) {
                prop_assert!(!path.is_empty() && answer.contains(path));
            }
        }
    }
}
