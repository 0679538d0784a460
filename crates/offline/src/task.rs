//! What is asked, by rule: the shapes of tasks that this model knows.

use std::sync::LazyLock;

use regex::Regex;

use super::language;
use super::pattern::fixed;
use super::scope::Scope;

/// How the work of a survey is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Handed to children when it is worth it.
    Fitting,
    /// Not handed on, because the person said so.
    Alone,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Task {
    /// A survey of a directory.
    Survey {
        /// The directory.
        root: String,
        /// How.
        sharing: Sharing,
    },
    /// A survey of one part, as [`Scope::from_brief`] reads it.
    Part(Scope),
    /// The text of a file.
    Read {
        /// Its path.
        path: String,
    },
    /// The lines that hold something.
    Search {
        /// What, as it was written.
        wanted: String,
        /// Where.
        path: String,
        /// Whether it is a pattern already.
        pattern: bool,
    },
    /// Where the test cases are.
    Tests {
        /// The directory.
        root: String,
    },
    /// The entries of a directory.
    List {
        /// Its path.
        path: String,
    },
    /// A command.
    Run {
        /// It.
        command: String,
    },
    /// A new file with a text.
    Write {
        /// Its path.
        path: String,
        /// All of its text.
        text: String,
    },
    /// Something else.
    Unknown,
}

macro_rules! rule {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| fixed($pattern));
    };
}

rule!(
    POLITE,
    r"(?i)^(?:(?:please|hi|hello|hey|ok|okay|now|first|then|so)\b[,!.]?\s*|(?:can|could|would|will) you\s+(?:please\s+)?|(?:i want|i would like|i'd like) you to\s+|(?:let us|let's|help me(?: to)?)\s+)+"
);
rule!(
    READ,
    r"(?is)^(?:read|show(?: me)?|open|print|cat|display)\s+(?:the\s+)?(?:file\s+|contents? of\s+)*(\S+?)[.?!]?$"
);
rule!(
    LIST,
    r"(?is)^(?:list|ls)(?:\s+(?:the\s+)?(?:files|contents|entries|directory|folder|dir)?(?:\s*(?:in|of|under|at))?\s*(?:(?:the|this)\s+(?:directory|folder|repository|repo))?\s*(\S*?))?[.?!]?$"
);
rule!(
    WHERE,
    r"(?is)^where(?:'s|\s+(?:is|are|do we|does))\s+(?:the\s+)?(.+?)(?:\s+(?:defined|declared|used|implemented|set|located|called))?[?.!]*$"
);
rule!(
    TESTS,
    r"(?is)^(?:where(?:'s|\s+(?:is|are|do|does|can i find))|find|locate|list|show(?:\s+me)?)\s+(?:all\s+)?(?:(?:the|its|our|my)\s+)?(?:(?:unit|integration)\s+)?(?:tests|test\s+(?:cases?|suites?|files?|code))(?:\s+(?:live|lie|stand|located|defined|kept|found))?(?:\s+(?:in|under|of|for|inside|within)\s+(.+?))?[?.!]*$"
);
rule!(
    KIND,
    r"(?i)\s+(?:function|method|struct|class|enum|trait|interface|type|macro|module|constant|variable|test|field)$"
);
rule!(
    SEARCH,
    r"(?is)^(?:search(?:\s+for)?|find|grep(?:\s+for)?|look\s+for|locate|count|(?:show(?:\s+me)?|list)\s+all)\s+(?:all\s+|the\s+|any\s+)?(.+?)(?:\s+(?:in|under|inside|within)\s+(\S+?))?[?.!]?$"
);
rule!(RUN, r"(?is)^(?:run|execute)(?:\s+the\s+command)?\s*:?\s+(.+)$");
rule!(WRITE, r"(?is)^(?:write|create)\s+(?:the\s+|a\s+)?(?:file\s+)?(\S+?):\s?(.+)$");
rule!(
    CHANGES,
    r"(?i)^(?:fix|implement|add|write|refactor|rename|delete|remove|change|update|create|build|make|install|translate|deploy|upgrade|convert|commit|push|replace|test|debug|generate|move|optimi[sz]e)\b"
);
rule!(
    SURVEYS,
    r"(?i)\b(?:survey|review|overview|summar(?:y|i[sz]e)|explain|describe|analy[sz]e|analysis|audit|inspect|assess|assessment|examine|explore|understand|study|scan|health|onboard\w*|walk me through|tell me about|report on|look (?:at|around|through|over)|introduc\w+|get to know|map out)\b"
);
rule!(
    ASKS,
    r"(?i)\b(?:what(?:'s| is| does| do| are)|how (?:is|big|does|large|many)|which|where (?:do|should|to|can) (?:i|we|start|begin))\b.*\b(?:this|here|repo\w*|project|code\s?base|code|director\w+|folder|package|crate|module|start|begin|languages?)\b"
);
rule!(
    RISKS,
    r"(?i)\b(?:risks?|bugs?|problems?|vulnerabilit\w+|security (?:issues?|holes?|problems?)|issues|weakness\w*|code smells?|smells)\b"
);
rule!(
    ALONE,
    r"(?i)\b(?:without (?:delegat\w+|children|helpers|sub-?agents)|(?:do not|don't|never) delegate|by yourself|on your own|yourself|alone)\b"
);
rule!(
    NOT,
    r"(?i)\b(?:\w+n['’]t|dont|do not|not|never|no|without|stop|avoid|skip|instead of|rather than)\b"
);
rule!(REMOTE, r"(?i)\b(?:https?|ssh|git)://|\bgit@");
rule!(
    HERE,
    r"(?i)\b(?:this|here|repo(?:sitory)?|project|code(?:\s?base)?|sources?|directory|folder|package|crate|module|workspace)\b"
);
rule!(FOLDER_NAME, r"(?i)\b(?:directory|folder|dir)\s+(?:called\s+|named\s+)?([\w.-]+)");
rule!(NAME_FOLDER, r"(?i)\b([\w.-]+)\s+(?:directory|folder|dir)\b");

/// Words that stand where the name of a directory could, and are none.
const NO_NAMES: &[&str] = &[
    "a",
    "all",
    "an",
    "and",
    "app",
    "application",
    "base",
    "briefly",
    "carefully",
    "code",
    "codebase",
    "crate",
    "current",
    "detail",
    "directory",
    "entire",
    "everything",
    "files",
    "folder",
    "for",
    "full",
    "here",
    "in",
    "is",
    "it",
    "library",
    "module",
    "my",
    "of",
    "our",
    "package",
    "parent",
    "please",
    "project",
    "quickly",
    "repo",
    "repository",
    "root",
    "shortly",
    "software",
    "source",
    "sources",
    "that",
    "the",
    "thing",
    "this",
    "to",
    "top",
    "tree",
    "whole",
    "with",
    "work",
    "working",
    "workspace",
    "yourself",
];

impl Task {
    /// Reads a task.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        let text = text.get(POLITE.find(text).map_or(0, |polite| polite.end())..).unwrap_or(text);
        command(text).or_else(|| lookup(text)).or_else(|| survey(text)).unwrap_or(Self::Unknown)
    }
}

/// Tasks that have an effect; only in these very forms.
fn command(text: &str) -> Option<Task> {
    if let Some(found) = RUN.captures(text) {
        let command = unquote(found.get(1)?.as_str().trim());
        let first = command.split_whitespace().next()?.to_ascii_lowercase();
        let prose = ["the", "a", "an", "all", "my", "your", "our", "this", "it", "some", "every"];
        return (!prose.contains(&first.as_str())).then(|| Task::Run { command: command.into() });
    }
    let found = WRITE.captures(text)?;
    let path = unquote(found.get(1)?.as_str());
    let text = found.get(2)?.as_str().to_owned();
    is_path(path).then(|| Task::Write { path: path.to_owned(), text })
}

/// Tasks that one call answers.
fn lookup(text: &str) -> Option<Task> {
    let group = |found: &regex::Captures<'_>, at: usize| {
        found.get(at).map(|part| unquote(part.as_str().trim()).to_owned())
    };
    if let Some(found) = READ.captures(text) {
        let path = group(&found, 1).filter(|path| is_path(path))?;
        return Some(Task::Read { path });
    }
    if let Some(found) = LIST.captures(text) {
        let path = group(&found, 1).filter(|path| !path.is_empty());
        return Some(Task::List { path: path.unwrap_or_else(|| ".".to_owned()) });
    }
    if let Some(found) = TESTS.captures(text) {
        let root = found.get(1).and_then(|place| path_in(place.as_str()));
        let here = found.get(1).is_none_or(|place| HERE.is_match(place.as_str()));
        return (here || root.is_some())
            .then(|| Task::Tests { root: root.unwrap_or_else(|| ".".to_owned()) });
    }
    let asked = WHERE.captures(text).filter(|_| !ASKS.is_match(text));
    let by_name = asked.is_some();
    let found = asked.or_else(|| SEARCH.captures(text))?;
    let mut raw = found.get(1)?.as_str().trim();
    if by_name {
        raw = raw.get(..KIND.find(raw).map_or(raw.len(), |kind| kind.start())).unwrap_or(raw);
        // Only a name can be looked for by its letters, not a thing that is described.
        if raw.contains(char::is_whitespace) && unquote(raw) == raw {
            return None;
        }
    }
    if RISKS.is_match(raw) && unquote(raw) == raw {
        return None;
    }
    let path = group(&found, 2).filter(|path| !no_name(path)).unwrap_or_else(|| ".".to_owned());
    let pattern = raw.len() > 2 && raw.starts_with('/') && raw.ends_with('/');
    let wanted = if pattern { raw.trim_matches('/') } else { raw };
    Some(Task::Search { wanted: wanted.to_owned(), path, pattern })
}

/// A survey, in one of its many wordings.
fn survey(text: &str) -> Option<Task> {
    if REMOTE.is_match(text) || CHANGES.is_match(text) {
        return None;
    }
    let path = path_in(text);
    let verb = SURVEYS.find(text);
    let bare = verb.is_some_and(|verb| verb.start() == 0);
    let lower = text.to_ascii_lowercase();
    let local = path.is_some() || HERE.is_match(text);
    let (asks, risks) = (ASKS.find(text), RISKS.find(text));
    let asked = (verb.is_some() && (local || bare))
        || asks.is_some()
        || (risks.is_some() && local)
        || risks.is_some() && lower.starts_with("find");
    let at = verb.or(asks).or(risks).map_or(0, |found| found.start());
    if !asked || negated(text, at) {
        return None;
    }
    if let Some(path) = path.as_ref().filter(|path| language::is_file_name(path)) {
        return Some(Task::Read { path: path.clone() });
    }
    let topic =
        verb.filter(|_| bare && path.is_none() && !local).and_then(|verb| text.get(verb.end()..));
    if let Some(topic) = topic {
        // "Explain monads": nothing that can be looked at.
        let words: Vec<&str> = topic.split_whitespace().filter(|word| !no_name(word)).collect();
        match words.as_slice() {
            [] => {}
            [one] if is_name(one) => {
                let root = one.trim_end_matches(['.', '?', '!']).to_owned();
                return Some(Task::Survey { root, sharing: sharing(text) });
            }
            [..] if RISKS.is_match(text) => {}
            [..] => return None,
        }
    }
    let root = path.unwrap_or_else(|| ".".to_owned());
    Some(Task::Survey { root, sharing: sharing(text) })
}

/// Whether the clause that leads to this place says not to do it.
fn negated(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let clause = before.rsplit([',', ';', ':', '.', '!', '?']).next().unwrap_or_default();
    // That nobody else is to do it does not say that it is not to be done.
    NOT.is_match(&ALONE.replace_all(clause, ""))
}

fn sharing(text: &str) -> Sharing {
    if ALONE.is_match(text) { Sharing::Alone } else { Sharing::Fitting }
}

/// A path that a text names.
fn path_in(text: &str) -> Option<String> {
    let quoted = text.split('`').nth(1).filter(|path| !path.is_empty() && !path.contains(' '));
    let words = || {
        text.split_whitespace()
            .map(|word| unquote(word.trim_end_matches([',', ';', ':', '?', '!', ')'])))
    };
    let words =
        || words().map(|word| if word.len() > 2 { word.trim_end_matches('.') } else { word });
    let slashed = || words().find(|word| is_path(word));
    let dots = || words().find(|word| matches!(*word, "." | ".." | "./"));
    let folder = || {
        let named = |rule: &LazyLock<Regex>| {
            let names = rule.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str()));
            names.map(|name| name.trim_end_matches('.')).find(|name| !no_name(name))
        };
        named(&FOLDER_NAME).or_else(|| named(&NAME_FOLDER))
    };
    let found = quoted.or_else(slashed).or_else(dots).or_else(folder)?;
    let path = found.trim_end_matches('/');
    // As the tools show it.
    let path = path.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(path);
    Some(if path.is_empty() { "/".to_owned() } else { path.to_owned() })
}

/// Whether a word can only be a path: it has a separator, or an extension that we know.
fn is_path(word: &str) -> bool {
    let prose =
        ["and/or", "either/or", "w/o", "I/O", "input/output", "pros/cons", "his/her", "TODO/FIXME"];
    let slashed = word.contains('/') && word.len() > 1 && !prose.contains(&word);
    (slashed || language::is_file_name(word)) && !word.contains("://")
}

fn is_name(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '?', '!']);
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn no_name(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    word.is_empty() || NO_NAMES.contains(&word.as_str())
}

/// A text without the quotes around it.
fn unquote(text: &str) -> &str {
    for quote in ['`', '"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match Task::of(text) {
            Task::Survey { root, sharing: Sharing::Fitting } => format!("survey {root}"),
            Task::Survey { root, sharing: Sharing::Alone } => format!("survey {root} alone"),
            Task::Part(scope) => format!("part {scope:?}"),
            Task::Read { path } => format!("read {path}"),
            Task::Search { wanted, path, pattern } => {
                format!("search {}{wanted} in {path}", if pattern { "~" } else { "" })
            }
            Task::List { path } => format!("list {path}"),
            Task::Tests { root } => format!("tests {root}"),
            Task::Run { command } => format!("run {command}"),
            Task::Write { path, text } => format!("write {path} {text}"),
            Task::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn a_survey_is_known_in_many_wordings() {
        let cases = [
            ("Survey this repository", "."),
            ("survey this repo.", "."),
            ("Survey", "."),
            ("Please give me an overview of the project", "."),
            ("Can you summarise the codebase?", "."),
            ("Review the code in crates/core", "crates/core"),
            ("Review `crates/core` please", "crates/core"),
            ("Explain the directory src", "src"),
            ("Explain the src folder", "src"),
            ("explain this project to me", "."),
            ("What is this project?", "."),
            ("what does this repo do?", "."),
            ("How is this project structured?", "."),
            ("Where should I start reading the code?", "."),
            ("Find risks in this repository", "."),
            ("Find security issues", "."),
            ("Analyze ./services/api.", "services/api"),
            ("survey crates", "crates"),
            ("Survey . ", "."),
            ("survey ..", ".."),
            ("Audit /srv/app/", "/srv/app"),
            ("Tell me about this codebase", "."),
            ("Do not change anything, just survey this repository", "."),
            ("Don't run anything. Survey this repository", "."),
            ("Hello! Please survey the whole repository in detail", "."),
            ("I'd like you to look at this repository and tell me the risks", "."),
        ];
        for (text, root) in cases {
            assert_eq!(show(text), format!("survey {root}"), "{text}");
        }
        assert_eq!(show("Survey this repository yourself"), "survey . alone");
        assert_eq!(show("Do not delegate and survey src/"), "survey src alone");
        assert_eq!(show("Survey src/ without delegating"), "survey src alone");
    }

    #[test]
    fn small_tasks_are_known_by_their_form() {
        let cases = [
            ("read Cargo.toml", "read Cargo.toml"),
            ("Read the file `src/main.rs`.", "read src/main.rs"),
            ("show me src/lib.rs", "read src/lib.rs"),
            ("Explain src/main.rs", "read src/main.rs"),
            ("list", "list ."),
            ("list src", "list src"),
            ("list files in src/a", "list src/a"),
            ("List this directory", "list ."),
            ("search for parse_frame", "search parse_frame in ."),
            ("find \"two words\" in src", "search \"two words\" in src"),
            ("grep /fn \\w+/ in crates", "search ~fn \\w+ in crates"),
            ("where is Parser defined?", "search Parser in ."),
            ("where is the parse_frame function?", "search parse_frame in ."),
            ("where is \"two words\" set", "search \"two words\" in ."),
            ("Where are the tests?", "tests ."),
            ("where do the unit tests live", "tests ."),
            ("Find the test cases in this repository", "tests ."),
            ("show me all tests in `crates/core`.", "tests crates/core"),
            ("list tests under src/", "tests src"),
            ("find TODOs", "search TODOs in ."),
            ("run cargo test", "run cargo test"),
            ("run `ls -la`", "run ls -la"),
            ("run: echo hi", "run echo hi"),
            ("write file notes.txt: hello\nthere", "write notes.txt hello\nthere"),
        ];
        for (text, task) in cases {
            assert_eq!(show(text), task, "{text}");
        }
    }

    #[test]
    fn everything_else_is_not_guessed() {
        for text in [
            "",
            "hello",
            "Fix the bug in src/main.rs",
            "Write a test for this repository",
            "refactor this project",
            "Explain monads to a beginner",
            "Survey https://example.com/a/repo",
            "run the tests",
            "what is the weather",
            "Translate this project to Go",
            "tell me a joke",
            "Please don't survey this repository",
            "Don’t review src/",
            "Never survey this repository",
            "I do not want an overview of this project",
            "please do not tell me what this project does",
            "Where are retries handled?",
            "where are the tests for retries",
            "Delete all files",
        ] {
            assert_eq!(show(text), "unknown", "{text}");
        }
    }
}
