//! A line as names of files, words and the marks between them.

/// How long a name may be, in bytes.
const NAME_BYTES: usize = 400;
/// Words that begin a command in backticks, and no name.
const COMMANDS: [&str; 24] = [
    "bash", "cargo", "cat", "cd", "cp", "echo", "git", "go", "grep", "head", "ls", "make", "mkdir",
    "mv", "node", "npm", "npx", "pytest", "python", "python3", "rm", "sed", "sh", "touch",
];
/// How many words a name with spaces may have.
const SPACED: usize = 6;
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

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// What may be the name of a file.
    Name(&'a str),
    /// Another word, in small letters; empty for what is quoted.
    Word(String),
    /// One of `, : - | ( ) . ?`, where `.` ends a sentence and `?` a question.
    Mark(char),
}

impl Token<'_> {
    /// Whether it is one of these words, between which there are spaces.
    pub(super) fn is(&self, words: &str) -> bool {
        matches!(self, Token::Word(word) if words.split(' ').any(|other| word == other))
    }

    pub(super) fn is_mark(&self, marks: &str) -> bool {
        matches!(self, Token::Mark(mark) if marks.contains(*mark))
    }
}

/// The parts of a line. What is in quotation marks with spaces in it is one, and so is each part of
/// a link.
pub(super) fn tokens(line: &str) -> Vec<Token<'_>> {
    let apart = |c: char| c.is_whitespace() || "|—–→".contains(c);
    let (mut rest, mut found) = (line, Vec::new());
    while let Some(first) = rest.chars().next() {
        if apart(first) {
            match first {
                '|' => found.push(Token::Mark('|')),
                '—' | '–' => found.push(Token::Mark('-')),
                '→' => found.push(Token::Word("to".to_owned())),
                _ => {}
            }
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        } else if let Some((inside, after)) = quoted(rest) {
            let command = inside.split(' ').next().is_some_and(|it| COMMANDS.contains(&it));
            let name = spaced(inside).filter(|_| !command);
            found.push(name.map_or(Token::Word(String::new()), Token::Name));
            let end = after.find(apart).unwrap_or(after.len());
            marks(after.get(..end).unwrap_or_default(), &mut found);
            rest = after.get(end..).unwrap_or_default();
        } else {
            let end = rest.find(apart).unwrap_or(rest.len());
            let end = rest.get(..end).and_then(|word| word.find("](")).map_or(end, |at| at + 2);
            let before = line.get(..line.len() - rest.len()).unwrap_or_default();
            let linked = before.ends_with("](");
            let (chunk, after) = rest.split_at(end);
            add(if linked { chunk.trim_end_matches(')') } else { chunk }, &mut found);
            rest = after;
        }
    }
    found
}

/// A word with what stands around it.
fn add<'a>(chunk: &'a str, found: &mut Vec<Token<'a>>) {
    if matches!(chunk, "-" | "->" | "=>") {
        found.push(match chunk {
            "-" => Token::Mark('-'),
            _ => Token::Word("to".to_owned()),
        });
        return;
    }
    let inside = |c: char| c.is_alphanumeric() || "/.~@".contains(c);
    let Some(start) = chunk.find(inside) else { return marks(chunk, found) };
    let end = chunk.rfind(|c: char| c.is_alphanumeric() || "/+~_@".contains(c));
    let end = end.map_or(start, |at| chunk.ceil_char_boundary(at + 1));
    let (before, word) = chunk.split_at(start);
    let (word, after) = word.split_at(end.saturating_sub(start));
    marks(before, found);
    match path(word) {
        Some(name) => found.push(Token::Name(name)),
        None => found.push(Token::Word(word.to_lowercase().replace('’', "'"))),
    }
    // `](` is the middle of a link.
    marks(after.trim_end_matches("]("), found);
}

fn marks(around: &str, found: &mut Vec<Token<'_>>) {
    found.extend(around.chars().filter_map(|c| match c {
        ',' | ':' | '(' | ')' | '?' => Some(Token::Mark(c)),
        '.' | ';' | '!' => Some(Token::Mark('.')),
        _ => None,
    }));
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

/// The path that a word is, if it is one.
pub(super) fn path(word: &str) -> Option<&str> {
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
