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
/// Words that say that it was not.
const NEGATIONS: [&str; 12] = [
    "not", "no", "nothing", "never", "without", "could", "would", "should", "cannot", "can't",
    "didn't", "failed",
];
/// Endings of files, for names without a directory.
const ENDINGS: [&str; 46] = [
    "bash", "c", "cfg", "conf", "cpp", "cs", "css", "csv", "go", "h", "hpp", "html", "ini", "java",
    "js", "json", "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "pdf", "php", "png",
    "proto", "py", "rb", "rs", "rst", "scala", "sh", "sql", "svg", "swift", "toml", "ts", "tsx",
    "txt", "vue", "xml", "yaml", "yml", "zig",
];

/// The paths that an answer names in a line that says that something was written, each once.
pub(crate) fn named_as_written(answer: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for line in answer.lines().filter(|line| says_written(line)) {
        for path in line.split_whitespace().filter_map(path) {
            if !found.contains(&path) && found.len() < MOST {
                found.push(path);
            }
        }
    }
    found
}

fn says_written(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    let mut written = false;
    let says_no = words.any(|word| {
        let is = |other: &&str| word.eq_ignore_ascii_case(other);
        written |= VERBS.iter().any(&is);
        NEGATIONS.iter().any(is)
    });
    written && !says_no
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

    proptest! {
        #[test]
        fn whatever_it_is_given_it_gives_parts_of_it(answer in "(wrote|[a-z./:` \n\u{202e}é]){0,40}") {
            for path in named_as_written(&answer) {
                prop_assert!(!path.is_empty() && answer.contains(path));
            }
        }
    }
}
