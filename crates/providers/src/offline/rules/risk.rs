//! What makes a line worth a second look, as a table.
//!
//! A rule is a hint, not a proof: it sees one line. Lines that are only comments, files by
//! others, and (unless a rule says so) tests and examples are left out.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::offline::language::{Class, Language};
use crate::offline::part::Part;
use crate::offline::pattern::fixed;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::offline) enum Gravity {
    /// Look at it today.
    High,
    /// Look at it.
    Medium,
    /// Good to know.
    Low,
}

/// Where a rule looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// In programs, but not in their tests and examples.
    Code,
    /// In programs and data, tests included.
    All,
}

/// One rule.
#[derive(Debug)]
pub(in crate::offline) struct Risk {
    /// Its id, which reports carry.
    pub(in crate::offline) id: &'static str,
    /// What it found, for people.
    pub(in crate::offline) title: &'static str,
    /// How much it matters.
    pub(in crate::offline) gravity: Gravity,
    /// The lines.
    pattern: &'static str,
    /// Lines that look alike and are harmless.
    except: &'static str,
    /// The languages it is for; none: all.
    languages: &'static [&'static str],
    places: Where,
    /// Whether it finds so many lines that it is searched for by itself.
    dense: bool,
}

const fn risk(
    gravity: Gravity,
    id: &'static str,
    title: &'static str,
    languages: &'static [&'static str],
    pattern: &'static str,
) -> Risk {
    Risk { id, title, gravity, pattern, except: "", languages, places: Where::Code, dense: false }
}

/// A rule about files rather than lines.
const fn by_name(id: &'static str, title: &'static str) -> Risk {
    risk(Gravity::Medium, id, title, ANY, "")
}

impl Risk {
    /// What it counts.
    pub(in crate::offline) const fn unit(&self) -> &'static str {
        if self.pattern.is_empty() { "file" } else { "line" }
    }

    const fn except(self, except: &'static str) -> Self {
        Self { except, ..self }
    }

    const fn everywhere(self) -> Self {
        Self { places: Where::All, ..self }
    }

    const fn dense(self) -> Self {
        Self { dense: true, ..self }
    }
}

const JS: &[&str] = &["JavaScript", "TypeScript", "Vue", "Svelte"];
const PY: &[&str] = &["Python"];
const RUST: &[&str] = &["Rust"];
const NATIVE: &[&str] = &["C", "C++"];
const ANY: &[&str] = &[];

/// What stands for a value instead of being one.
const PLACEHOLDER: &str = r#"(?i)example|change.?me|placeholder|dummy|your[_-]|<[a-z_ -]+>|\$\{|\{\{|xxx|\*\*\*|\.\.\.|test|fake|sample|redacted|env[.\[(]|getenv|=\s*["'][a-z]+(?:[_-][a-z]+)*["']|:\s*["'][a-z ]+["']"#;

static RISKS: &[Risk] = &[
    risk(Gravity::High, "private-key", "private key in the repository", ANY, r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s*$").everywhere(),
    risk(Gravity::High, "access-key", "text with the form of an access key", ANY, r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[abprs]-[0-9A-Za-z-]{20,}|sk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}|AIza[0-9A-Za-z_-]{35}|glpat-[0-9A-Za-z_-]{20})\b").except(r"(?i)EXAMPLE|x{8}|0{8}|1234567").everywhere(),
    risk(Gravity::High, "secret-literal", "password, token or key written into the code", ANY, r#"(?i)\b[\w.-]*(?:passwo?r?d|passphrase|secret|api_?key|access_?token|auth_?token|private_?key)\b["']?\s*(?::=|=|:)\s*["'][^"'\s]{8,}["']"#).except(PLACEHOLDER),
    risk(Gravity::High, "merge-marker", "left-over merge conflict", ANY, r"^(?:<{7}|>{7}) \S").everywhere(),
    risk(Gravity::High, "no-tls-check", "certificate check switched off", ANY, r"\bverify\s*=\s*False\b|InsecureSkipVerify:\s*true|rejectUnauthorized:\s*false|danger_accept_invalid_(?:certs|hostnames)\(\s*true|SSL_VERIFYPEER\s*(?:,|=>)\s*(?:0|false)|NODE_TLS_REJECT_UNAUTHORIZED\W+0|_create_unverified_context|VERIFY_NONE\b|\bcurl\s(?:[^|]*\s)?(?:-k|--insecure)\s"),
    risk(Gravity::High, "pipe-to-shell", "download piped into a shell", &["Shell", "Dockerfile", "Make", "YAML", "Python", "JavaScript", "Ruby"], r"\b(?:curl|wget)\b[^|]*\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"),
    risk(Gravity::High, "shell-true", "command line built for a shell", PY, r"\bshell\s*=\s*True\b|\bos\.(?:system|popen)\s*\("),
    risk(Gravity::High, "shell-exec", "command run through a shell", &["JavaScript", "TypeScript", "PHP", "Ruby"], r"\bexec(?:Sync)?\(\s*`[^`]*\$\{|\b(?:shell_exec|passthru|proc_open)\s*\(|\bsystem\s*\(\s*[\x22'][^\x22']*#\{"),
    risk(Gravity::High, "eval", "`eval`: text executed as code", &["Python", "JavaScript", "TypeScript", "PHP", "Ruby", "Vue", "Svelte"], r"(?:^|[^.\w>])eval\s*\(|\bnew\s+Function\s*\(").except(r"\b(?:def|function)\s+eval\b|\beval\s*\([^()]*\)\s*\{"),
    risk(Gravity::High, "exec", "`exec`: text executed as code", PY, r"(?:^|[^.\w>])exec\s*\(").except(r"\bdef\s+exec\b"),
    risk(Gravity::High, "sql-concat", "SQL put together from strings", &["Python", "JavaScript", "TypeScript", "Java", "Kotlin", "Go", "PHP", "Ruby", "C#", "Rust"], r#"(?i)["'`](?:select\s+[\w*,.\s]+\s+from|insert\s+into|update\s+\w+\s+set|delete\s+from)\s[^"'`]*(?:["']\s*(?:\+|%\s*[\w(]|\.\s*format\()|\$\{|'\s*\.\s*\$)|\bf["'](?:select|insert\s+into|update|delete\s+from)\s[^"']*\{|\b(?:format!|Sprintf)\(\s*"(?:select|insert into|update|delete from)\s[^"]*(?:\{|%[sv])"#),
    risk(Gravity::High, "unsafe-c", "C function without bounds", NATIVE, r"\b(?:gets|strcpy|strcat|sprintf|vsprintf)\s*\("),
    risk(Gravity::High, "unpickle", "data decoded by a format that can run code", &["Python", "PHP", "Java", "Ruby"], r"\b(?:pickle|cPickle|dill)\.loads?\s*\(|\byaml\.(?:unsafe_)?load\s*\(|\bunserialize\s*\(|\bMarshal\.load\b|\bnew\s+ObjectInputStream\b").except(r"SafeLoader|safe_load"),
    risk(Gravity::Medium, "privileged", "container or workflow with wide rights", &["YAML", "Dockerfile", "Shell"], r"--privileged\b|^\s*privileged:\s*true|pull_request_target|^\s*permissions:\s*write-all"),
    risk(Gravity::Medium, "chmod-777", "file open for everyone to write", ANY, r"\bchmod\s+(?:-R\s+)?0?777\b|\bchmod\([^)]*0o?777\)"),
    risk(Gravity::Medium, "raw-html", "HTML set without escaping", JS, r"dangerouslySetInnerHTML|\.innerHTML\s*\+?=[^=]|\bdocument\.write\s*\(|\bv-html\s*=|\{@html\b"),
    risk(Gravity::Medium, "weak-hash", "MD5 or SHA-1", ANY, r#"\bhashlib\.(?:md5|sha1)\b|createHash\(\s*['"](?:md5|sha1)['"]|\bmd5\.(?:New|Sum)\b|\bsha1\.(?:New|Sum)\b|getInstance\(\s*"(?:MD5|SHA-?1)"|\b(?:MD5|SHA1)\.Create\("#),
    risk(Gravity::Medium, "debug-on", "debug mode switched on", PY, r"^\s*DEBUG\s*=\s*True\b|\.run\([^)]*debug\s*=\s*True"),
    risk(Gravity::Medium, "swallowed", "error swallowed", &["Python", "JavaScript", "TypeScript", "Java", "C#", "Kotlin"], r"^\s*except\s*:\s*(?:pass)?\s*$|^\s*except\s+(?:Base)?Exception\s*:\s*pass\b|\bcatch\s*(?:\([^)]*\))?\s*\{\s*\}"),
    risk(Gravity::Medium, "unsafe-rust", "`unsafe` code", RUST, r"\bunsafe\s*(?:\{|fn\b|impl\b)").except(r#"["`].*\bunsafe\b.*["`]"#),
    risk(Gravity::Medium, "unsafe-go", "`unsafe.Pointer`", &["Go"], r"\bunsafe\.Pointer\b"),
    risk(Gravity::Medium, "unfinished", "`todo!()` or `unimplemented!()`", RUST, r"\b(?:todo|unimplemented)!\s*\("),
    by_name("artefact", "compiled or packed file in the repository"),
    by_name("large-file", "file of more than 5 MiB"),
    risk(Gravity::Low, "debugger", "debugging left in", &["Python", "JavaScript", "TypeScript", "PHP", "Ruby", "Rust", "Vue", "Svelte"], r"^\s*(?:breakpoint\(\)|import i?pdb\b|i?pdb\.set_trace|debugger;?\s*$|binding\.pry\b|byebug\b|var_dump\()|\bdbg!\("),
    risk(Gravity::Low, "silenced", "checks switched off for a line or file", &["Python", "JavaScript", "TypeScript", "Go", "Vue", "Svelte"], r"@ts-(?:ignore|nocheck)|eslint-disable|#\s*type:\s*ignore|//nolint"),
    risk(Gravity::Low, "latest-image", "image without a fixed version", &["Dockerfile"], r"^FROM\s+\S+:latest\b|^FROM\s+[a-z][\w./-]*\s*$").except(r"(?i)^FROM\s+scratch|\sAS\s"),
    risk(Gravity::Low, "console", "`console.log` in the code", JS, r"\bconsole\.(?:log|debug)\s*\(").dense(),
    risk(Gravity::Low, "panic", "`unwrap`, `expect` or `panic!` outside tests", RUST, r"\.unwrap\(\)|\.expect\(|\bpanic!\s*\(").dense(),
];

/// Bytes that a search puts around a pattern.
const FRAME: usize = 40;

/// Ends of the names of files that are made from others.
const ARTEFACTS: &[&str] = &[
    ".exe", ".dll", ".so", ".dylib", ".a", ".o", ".obj", ".class", ".jar", ".war", ".pyc", ".whl",
    ".egg", ".node", ".wasm", ".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".dmg", ".deb", ".rpm",
    ".msi", ".apk",
];
/// A file of more bytes is large.
const LARGE: u64 = 5 * 1024 * 1024;

/// The ids of the rules that a file meets by its name and its bytes.
pub(in crate::offline) fn file_risks(path: &str, bytes: u64, binary: bool) -> Vec<&'static str> {
    let made = binary && ARTEFACTS.iter().any(|end| path.ends_with(end));
    let large = (bytes > LARGE).then_some("large-file");
    made.then_some("artefact").into_iter().chain(large).collect()
}

/// Bytes of the longest pattern that a search takes.
const LONGEST_PATTERN: usize = 2_000;

/// Begins the tests inside a file of Rust: what follows it in the file is one.
pub(in crate::offline) const RUST_TESTS: &str =
    r"^\s*(?:pub(?:\([a-z]+\))?\s+)?mod\s+(?:\w+_)?tests?(?:_\w+)?\s*\{";

struct Compiled {
    pattern: Option<Regex>,
    except: Option<Regex>,
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let regex = |pattern: &str| (!pattern.is_empty()).then(|| fixed(pattern));
    RISKS.iter().map(|r| Compiled { pattern: regex(r.pattern), except: regex(r.except) }).collect()
});

static PATTERN_INSIDE: LazyLock<Regex> = LazyLock::new(|| fixed(r"\\[sbwdSW(.|]"));

/// Whether a line holds a regular expression, as far as one can see.
pub(in crate::offline) fn holds_pattern(line: &str) -> bool {
    PATTERN_INSIDE.is_match(line)
}

/// A rule by its id.
pub(in crate::offline) fn with_id(id: &str) -> Option<&'static Risk> {
    RISKS.iter().find(|risk| risk.id == id)
}

/// The patterns of the searches for everything rare: those for all files, and those for files
/// of these languages. They are as few as the longest pattern that a search takes allows.
pub(in crate::offline) fn rare(languages: &[&str]) -> (Vec<String>, Vec<String>) {
    let wanted = |places: Where| {
        RISKS.iter().filter(move |risk| {
            let mut names = risk.languages.iter();
            let here = risk.languages.is_empty() || names.any(|name| languages.contains(name));
            here && risk.places == places && !risk.dense && !risk.pattern.is_empty()
        })
    };
    (joined(wanted(Where::All)), joined(wanted(Where::Code)))
}

fn joined<'r>(risks: impl Iterator<Item = &'r Risk>) -> Vec<String> {
    let mut searches: Vec<String> = Vec::new();
    for risk in risks {
        let pattern = format!("(?:{})", risk.pattern);
        match searches.last_mut() {
            Some(last) if last.len() + pattern.len() + FRAME < LONGEST_PATTERN => {
                last.push('|');
                last.push_str(&pattern);
            }
            Some(_) | None => searches.push(pattern),
        }
    }
    searches
}

/// The pattern of a search for what one language has in plenty, if it has such rules.
pub(in crate::offline) fn dense(language: &str) -> Option<String> {
    let wanted = |risk: &&Risk| risk.dense && risk.languages.contains(&language);
    let patterns = RISKS.iter().filter(wanted).map(|risk| format!("(?:{})", risk.pattern));
    let patterns: Vec<String> = patterns.collect();
    (!patterns.is_empty()).then(|| patterns.join("|"))
}

/// Whether rules look at the lines of a file at all.
pub(in crate::offline) fn looks_at(language: &Language, part: Part) -> bool {
    part != Part::Foreign && language.class != Class::Prose
}

/// The rules that a line meets. `tested` tells that it stands in tests or examples.
pub(in crate::offline) fn risks(
    language: &Language,
    tested: bool,
    line: &str,
) -> impl Iterator<Item = &'static Risk> {
    let comment = language.is_comment(line);
    // A line with a pattern in it looks like what the pattern finds.
    let pattern = holds_pattern(line);
    let code = language.class != Class::Prose;
    RISKS.iter().zip(COMPILED.iter()).filter_map(move |(risk, compiled)| {
        let here = risk.languages.is_empty() || risk.languages.contains(&language.name);
        let looked_at = risk.places == Where::All || !tested;
        let speaks = risk.id == "silenced" || risk.places == Where::All || !comment;
        let is = |regex: &Option<Regex>| regex.as_ref().is_some_and(|regex| regex.is_match(line));
        let met = !pattern
            && code
            && here
            && looked_at
            && speaks
            && is(&compiled.pattern)
            && !is(&compiled.except);
        met.then_some(risk)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::offline::language;
    use crate::offline::part::part_of;

    fn met(path: &str, line: &str) -> String {
        let tested = part_of(path) == Part::Test;
        let ids: Vec<_> = risks(language::of(path), tested, line).map(|risk| risk.id).collect();
        ids.join(" ")
    }

    #[test]
    fn every_rule_compiles_and_is_one() {
        let mut ids = BTreeSet::new();
        for risk in RISKS {
            Regex::new(risk.pattern).unwrap();
            Regex::new(risk.except).unwrap();
            assert!(ids.insert(risk.id));
            for name in risk.languages {
                assert_eq!(language::by_name(name).name, *name);
            }
        }
        let all: Vec<_> = language::LANGUAGES.iter().map(|language| language.name).collect();
        let (everywhere, code) = rare(&all);
        assert_eq!((everywhere.len(), code.len() < 5), (1, true));
        for pattern in everywhere.iter().chain(&code).chain(&dense("Rust")) {
            assert!(pattern.len() + FRAME <= LONGEST_PATTERN);
            regex::bytes::Regex::new(&format!("(?-u){pattern}")).unwrap();
        }
    }

    #[test]
    fn lines_that_are_worth_a_look() {
        let key = ["-----BEGIN RSA PRIV", "ATE KEY-----"].concat();
        for (path, line, ids) in [
            ("a.pem", key.as_str(), "private-key"),
            ("tests/a.pem", key.as_str(), "private-key"),
            ("a.md", key.as_str(), ""),
            ("a.py", "password = 'hunter2hunter2'", "secret-literal"),
            ("a.py", "password = os.environ['PASSWORD']", ""),
            ("a.py", "password = \"changeme123\"", ""),
            ("tests/a.py", "password = 'hunter2hunter2'", ""),
            ("a.ts", "  apiKey: \"q9d8f7g6h5j4\",", "secret-literal"),
            ("a.yml", "api_key: ${API_KEY}", ""),
            ("a.py", "subprocess.run(cmd, shell=True)", "shell-true"),
            ("a.py", "# subprocess.run(cmd, shell=True)", ""),
            ("a.py", "model.eval()", ""),
            ("a.py", "    eval(text)", "eval"),
            ("a.js", "re.exec(text)", ""),
            ("a.js", "  async exec (args) {", ""),
            ("a.py", "exec(text)", "exec"),
            ("a.py", "cur.execute(\"SELECT a FROM t WHERE b = '\" + x)", ""),
            ("a.py", "cur.execute(\"SELECT a FROM t WHERE b = \" + x)", "sql-concat"),
            ("a.py", "cur.execute(f\"SELECT a FROM t WHERE b = {x}\")", "sql-concat"),
            ("a.py", "cur.execute(\"SELECT a FROM t WHERE b = %s\", (x,))", ""),
            ("a.py", "requests.get(u, verify=False)", "no-tls-check"),
            ("a.go", "&tls.Config{InsecureSkipVerify: true}", "no-tls-check"),
            ("a.sh", "curl -fsSL https://x.y/install | sh", "pipe-to-shell"),
            ("a.md", "curl -fsSL https://x.y/install | sh", ""),
            ("a.sh", "chmod 777 /srv", "chmod-777"),
            ("a.rs", "let x = y.unwrap();", "panic"),
            ("a.rs", "/// let x = y.unwrap();", ""),
            ("a.rs", "unsafe { *p }", "unsafe-rust"),
            ("a.rs", "let x = y.unwrap_or_default();", ""),
            ("a.c", "strcpy(a, b);", "unsafe-c"),
            ("a.js", "el.innerHTML = text;", "raw-html"),
            ("a.ts", "// @ts-ignore", "silenced"),
            ("a.rs", "<<<<<<< HEAD", "merge-marker"),
            ("a.rs", r"regex(r#'\bunsafe\s*\{'#)", ""),
            ("Dockerfile", "FROM node:latest", "latest-image"),
        ] {
            assert_eq!(met(path, line), ids, "{path}: {line}");
        }
    }
}
