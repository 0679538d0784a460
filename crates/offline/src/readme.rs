//! Beginning of a README.

use super::inventory::Inventory;
use super::language::file_name;
use super::licence::is_legal;
use super::markup::{shown_text, split_bracket, strip};
use super::paths::parent;
use super::wording::{sentence_end, shorten};

/// Lines of it that are read.
pub(super) const LINES: u64 = 80;
/// Characters of its first paragraph that are kept.
const LEAD: usize = 420;

/// Beginning of a README.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readme {
    pub(super) path: String,
    pub(super) title: String,
    pub(super) lead: String,
}

/// Returns the path of the README of a folder.
pub(super) fn nearest<'i>(inventory: &'i Inventory, folder: &str) -> Option<&'i str> {
    let known = [
        "readme.md",
        "readme.rst",
        "readme.markdown",
        "readme",
        "readme.txt",
        "readme.adoc",
        "readme.org",
    ];
    let rank = |path: &str| known.iter().position(|name| *name == file_name(path).to_lowercase());
    let paths = inventory.files.iter().map(|file| file.path.as_str());
    let here = paths.filter(|path| parent(path) == folder && rank(path).is_some());
    here.min_by_key(|path| rank(path))
}

/// Returns the title and the first paragraph of a README. Text that HTML centres stands for a
/// paragraph where there is none.
pub(super) fn read(path: &str, text: &str) -> Readme {
    let reader = Reader::of(text);
    let leads = [&reader.texts.subtitle, &reader.texts.lead, &reader.texts.tagline];
    let lead = leads.into_iter().find(|text| !text.is_empty()).map_or("", String::as_str);
    Readme { path: path.to_owned(), title: shorten(&reader.texts.title, 80), lead: paragraph(lead) }
}

/// Returns the first paragraph of prose in a text of markup. `None` when the text begins with
/// a licence, or has no prose outside of HTML, lists, tables and code.
pub(super) fn prose(text: &str) -> Option<String> {
    let reader = Reader::of(text);
    let lead = paragraph(&reader.texts.lead);
    (!lead.is_empty() && !reader.legal).then_some(lead)
}

fn paragraph(text: &str) -> String {
    shorten(&without_announcement(strip_marks(text)).replace("**", ""), LEAD)
}

/// A text without the marks that make all of it bold.
fn strip_marks(text: &str) -> &str {
    let inner = text.strip_prefix("**").and_then(|text| text.strip_suffix("**"));
    inner.filter(|inner| !inner.contains("**")).unwrap_or(text)
}

/// A text without the sentence at its end that announces something further down.
fn without_announcement(text: &str) -> String {
    let Some(text) = text.strip_suffix(':') else { return text.to_owned() };
    text.rsplit_once(". ").map_or_else(|| format!("{text}."), |(before, _)| format!("{before}."))
}

/// Headings after which a paragraph no longer says what the whole is, not counting those of
/// [`ASIDES`].
const HEADINGS: usize = 2;
/// A heading with one of these words has no text below it that says what the whole is.
const ASIDES: &[&str] = &[
    "badges",
    "book",
    "change",
    "changelog",
    "changes",
    "contents",
    "contributing",
    "docs",
    "documentation",
    "history",
    "install",
    "installation",
    "installing",
    "licence",
    "license",
    "licenses",
    "licensing",
    "links",
    "msrv",
    "news",
    "prerequisite",
    "prerequisites",
    "quick",
    "quickstart",
    "release",
    "releases",
    "required",
    "requirement",
    "requirements",
    "requires",
    "sponsor",
    "sponsors",
    "started",
    "status",
    "toc",
    "updates",
    "usage",
    "versioning",
];
/// Words of a paragraph that is set apart as a whole and still says what the whole is.
const TAGLINE: usize = 6;
/// Columns by which a block is set apart.
const BLOCK: usize = 4;
/// Words of a line in a paragraph of HTML that can be a sentence.
const SENTENCE: usize = 4;

/// Reads prose line by line, until it knows the title and the lead.
#[derive(Default)]
struct Reader<'t> {
    texts: ReaderTexts,
    paragraph: Vec<&'t str>,
    inside: Blocks,
    /// Whether nothing that follows says what the whole is.
    over: bool,
    /// Whether there was a paragraph.
    begun: bool,
    /// Whether the first paragraph belongs to a licence.
    legal: bool,
    headings: usize,
    /// Whether there was any heading.
    headed: bool,
    /// Under a heading of which no text says what the whole is.
    aside: bool,
}

/// The texts that a reader looks for.
#[derive(Default)]
struct ReaderTexts {
    title: String,
    /// Text after the name in the first heading.
    subtitle: String,
    tagline: String,
    lead: String,
}

/// The blocks that a line is in.
#[derive(Default)]
struct Blocks {
    /// A block of code.
    fenced: bool,
    /// A comment of HTML.
    comment: bool,
    /// A block of HTML, which lasts until a blank line.
    html: bool,
    /// One that sets text apart, so that its lines are prose.
    centred: bool,
    /// The body of a directive of reStructuredText.
    directive: bool,
    /// An item of a list, which lasts until a blank line.
    list: bool,
    /// A quoted note, which warns of something and says what nothing is.
    note: bool,
}

impl<'t> Reader<'t> {
    /// Reads a text up to the end of its first paragraph.
    fn of(text: &'t str) -> Self {
        let mut reader = Self::default();
        for line in text.lines() {
            if reader.is_inside_block(line) {
                continue;
            }
            reader.line(line.trim());
            if !reader.texts.lead.is_empty() || reader.over {
                break;
            }
        }
        reader.end_paragraph();
        reader
    }

    /// Whether a line belongs to an indented block: a quote, code, or the body of a directive.
    fn is_inside_block(&mut self, line: &str) -> bool {
        let indent = line.len() - line.trim_start().len();
        let blank = line.trim().is_empty();
        self.inside.directive &= blank || indent > 0;
        if self.inside.directive || self.inside.fenced || self.inside.comment {
            return self.inside.directive;
        }
        self.inside.directive = line.starts_with(".. ");
        let deep = indent >= BLOCK || line.starts_with('\t');
        deep && !blank && self.paragraph.is_empty() && !self.inside.html && !self.inside.list
    }

    fn line(&mut self, line: &'t str) {
        if line.starts_with("```") {
            self.inside.fenced = !self.inside.fenced;
            return;
        }
        if self.inside.fenced {
            return;
        }
        if self.inside.comment || line.starts_with("<!--") {
            self.inside.comment = !line.contains("-->");
            return;
        }
        self.inside.note = line.starts_with('>') && (self.inside.note || line.contains("[!"));
        if line.is_empty() {
            self.inside.html = false;
            self.inside.centred = false;
            self.inside.list = false;
            self.end_paragraph();
        } else if self.inside.note {
            self.end_paragraph();
        } else if self.inside.html || line.starts_with('<') {
            self.inside.centred |=
                ["<p", "<div", "<center"].iter().any(|tag| line.starts_with(tag));
            self.inside.html = true;
            self.tags(line);
        } else if is_rule(line) {
            // The line before it was a heading.
            if let Some(above) = self.paragraph.pop() {
                self.heading(above);
            }
        } else if line.starts_with('#') || line.starts_with("= ") {
            self.end_paragraph();
            self.heading(line.trim_matches(['#', '=', ' ']));
        } else if ["- ", "* ", "+ ", "1. "].iter().any(|mark| line.starts_with(mark)) {
            self.end_paragraph();
            self.inside.list = true;
        } else if !self.inside.list && !decoration(line) {
            self.paragraph.push(line.trim_start_matches("> "));
        }
    }

    fn tags(&mut self, line: &str) {
        if line.starts_with("<h1") && self.texts.title.is_empty() {
            self.texts.title = strip(line);
        } else if ["<h2", "<h3", "<h4"].iter().any(|tag| line.starts_with(tag))
            && self.texts.tagline.is_empty()
        {
            self.texts.tagline = strip(&line.replace("<br", " <br"));
        } else if self.inside.centred && self.texts.tagline.is_empty() && !line.starts_with('<') {
            let text = strip(line);
            if text.split(' ').count() >= SENTENCE {
                self.texts.tagline = text;
            }
        }
    }

    fn heading(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        // The first heading is a name, which may have any word among others.
        let first = !std::mem::replace(&mut self.headed, true);
        self.aside = words.iter().any(|word| ASIDES.contains(word)) && (!first || words.len() < 2);
        if first && !self.aside && self.texts.title.is_empty() {
            let text = strip(text);
            let parts = [" - ", " – ", " — ", ": "].iter().find_map(|dash| text.split_once(dash));
            let named = |(name, about): &(&str, &str)| {
                !name.contains(' ') && about.split(' ').count() >= SENTENCE
            };
            match parts.filter(named) {
                Some((name, about)) => {
                    name.clone_into(&mut self.texts.title);
                    about.clone_into(&mut self.texts.subtitle);
                }
                None => self.texts.title = text,
            }
        }
        if !self.aside {
            self.headings += 1;
            self.aside = self.headings > HEADINGS;
        }
    }

    fn end_paragraph(&mut self) {
        let raw = std::mem::take(&mut self.paragraph).join(" ");
        let text = strip(&raw);
        let letters = || text.chars().filter(|c| c.is_alphabetic());
        let shouted = letters().filter(|c| c.is_uppercase()).count() * 2 > letters().count();
        let first = !text.is_empty() && !std::mem::replace(&mut self.begun, !text.is_empty());
        // A paragraph set apart as a whole is a remark, or what the whole is if it comes first.
        let apart = text.starts_with('_') && text.trim_end_matches('.').ends_with('_');
        let remark = apart && (!first || text.split(' ').count() < TAGLINE);
        if is_legal(&text) {
            self.legal |= self.texts.lead.is_empty();
        } else if self.texts.lead.is_empty()
            && !goes_on(&text)
            && !self.aside
            && !shouted
            && !remark
            && !is_labelled_address(&text)
            && !is_row_of_links(&raw)
            && !is_row_of_names(&text)
            && !is_instruction(&text)
        {
            let end = sentence_end(&text).unwrap_or(text.len());
            if text.get(..end).unwrap_or_default().contains("? ") || text.ends_with(['?', '‽']) {
                // What answers a question is no description by itself.
                self.over = true;
                return;
            }
            self.texts.lead = if apart { text.trim_matches('_').to_owned() } else { text };
        }
    }
}

/// Whether a line is only a rule, as that below a heading.
fn is_rule(line: &str) -> bool {
    line.len() > 2 && line.chars().all(|c| "=-~*#^+".contains(c))
}

/// Whether a paragraph has nothing but links, perhaps with a label before them.
fn is_row_of_links(raw: &str) -> bool {
    let (plain, links) = shown_text(raw, false);
    let words = plain.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    let words = words.count();
    let label = plain.trim_end_matches([' ', ',', '|']).ends_with(':') && !raw.ends_with(':');
    links > 1 && words < 2 || links > 0 && (words == 0 || label && words <= TAGLINE)
}

/// Whether a paragraph is a row of a few words each, such as the names of languages.
fn is_row_of_names(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['|', '·', '•']).collect();
    parts.len() > 1 && parts.iter().all(|part| part.split_whitespace().count() < SENTENCE)
}

/// Programs with which a command begins.
const PROGRAMS: &[&str] = &[
    "apt", "apt-get", "brew", "bun", "cargo", "cd", "cmake", "conda", "curl", "deno", "docker",
    "git", "go", "gradle", "make", "mvn", "node", "npm", "npx", "pip", "pip3", "pipx", "pnpm",
    "poetry", "python", "python3", "rustup", "sudo", "uv", "yarn",
];
/// Words that follow a program in a command.
const COMMANDS: &[&str] = &[
    "add", "build", "clone", "create", "exec", "generate", "get", "i", "init", "install",
    "publish", "run", "start", "sync", "test", "update",
];

/// Whether a paragraph begins with a command, or says how to do something.
fn is_instruction(text: &str) -> bool {
    let lower = text.to_lowercase();
    let doing = ["run `", "to install", "to build", "to run", "install ", "execute `"];
    if text.starts_with("$ ") || doing.iter().any(|words| lower.starts_with(words)) {
        return true;
    }
    let code = text.strip_prefix('`').and_then(|rest| rest.split_once('`')).map(|(code, _)| code);
    let mut words = code.unwrap_or(text).split_whitespace();
    let program = words.next().is_some_and(|word| PROGRAMS.contains(&word));
    let next = words.next();
    let command = next.is_some_and(|next| next.starts_with('-') || COMMANDS.contains(&next));
    program && (command || code.is_some() && next.is_some())
}

/// Whether a paragraph goes on from what stands above it, so that it is no sentence by itself.
fn goes_on(text: &str) -> bool {
    text.starts_with("..") || text.starts_with('…') || !text.contains(char::is_alphanumeric)
}

/// Whether a paragraph is only an address with a label.
fn is_labelled_address(text: &str) -> bool {
    let plain = text.split(' ').filter(|word| !word.contains("://")).count();
    text.contains("://") && plain < SENTENCE
}

/// Lines that say nothing: badges, pictures, tags, comments, rules, links and addresses alone,
/// and where links lead.
fn decoration(line: &str) -> bool {
    let marks = ["<", "[!", "![", "|", ".. ", ":", "---", "[comment", "[//"];
    let link_alone = line.starts_with('[') && line.ends_with(')') && !line.contains(". ");
    let address = line.starts_with("http") && !line.contains(' ');
    let target = split_bracket(line).is_some_and(|(_, rest)| rest.starts_with(':'));
    marks.iter().any(|mark| line.starts_with(mark)) || link_alone || target || address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the title and the first sentence that they say.
    const CASES: [(&str, &str, &str); 45] = [
        ("# T\n\n**English** | [日本語](a) | [Русский](b)\n\nA tool.\n", "T", "A tool."),
        ("# T\n\nEnglish | 简体中文\n\nA tool.\n", "T", "A tool."),
        ("# T\n\n[Docs](a) • [Chat](b) •\n[Site](c)\n\nA tool.\n", "T", "A tool."),
        ("# T\n\nWritten by [A](b) in [C](d), [E](f).\n", "T", "Written by A in C, E."),
        ("# T\n\nDocumentation: [site](a), [api](b)\n\nA tool.\n", "T", "A tool."),
        (
            "Tee\n===\n\nA video of **T**: `Why:\ntools <http://a.b>`_\n\nA tool.\n",
            "Tee",
            "A tool.",
        ),
        (
            "###\nTee\n###\n\n.. image:: a.png\n   :alt: No text\n\n   Nor this.\n\n\
             A ``tool`` for `kites <https://a.b>`__, `wings`_ and :class:`~a.Tail`.\n",
            "Tee",
            "A `tool` for kites, wings and `a.Tail`.",
        ),
        ("# T\n\n    New in 1.2:\n\n    - a\n\nA tool.\n", "T", "A tool."),
        ("# T\n\n`npm install t` installs it.\n\nA tool.\n", "T", "A tool."),
        ("# T\n\n$ make all\n\ncargo build --release\n\nA tool.\n", "T", "A tool."),
        ("# T\n\nTo install it, run `pip install t`.\n\nRun `make`.\n\nA tool.\n", "T", "A tool."),
        ("# T\n\n`make` in colour.\n", "T", "`make` in colour."),
        ("# T\n\nIs it not awesome? Yes.\n\nNo way!\n", "T", ""),
        ("# T\n\n... so better sign this\n\nVarious helpers.\n", "T", "Various helpers."),
        ("# T\n\n…\n\nA tool.\n", "T", "A tool."),
        (
            "# Tool\n\n[![ci](a)](b)\n\nA [tool](x) to\nread `frames`.\n\nMore.",
            "Tool",
            "A tool to read `frames`.",
        ),
        ("Tool\n====\n\nA tool.\n", "Tool", "A tool."),
        ("<h1 align=\"center\">Tool</h1>\n\n## About\nText.\n", "Tool", "Text."),
        (
            "<div>\n<h1>T</h1>\n<h3>Fast.<br />Easy.</h3>\nno\n</div>\n\n## Install\nDo.\n",
            "T",
            "Fast. Easy.",
        ),
        ("# T\n\nNO WARRANTY AT ALL.\n\nA [tool][x] of [Yaml].\n", "T", "A tool of Yaml."),
        ("# T\n\n## Requirements\nNode.\n\n## What\nA tool.\n", "T", "A tool."),
        ("# T\n\n## A\n\n## B\nText.\n", "T", ""),
        ("# T\n\n[![ci](\nhttps://a.b)](\nhttps://c.d)\n\nA tool.\n", "T", "A tool."),
        ("# T\nA tool. It has:\n- x\n", "T", "A tool."),
        ("# T\nA tool with:\n", "T", "A tool with."),
        (
            "# T\n\n[![ci](a)](b)\n[x]: https://a.b\n[`y`]: <c>\n\n## Book\n\nSee the [book](b).\n\n\
        ## Introduction\n\nA [tool].\n\n[tool]: https://a.b\n",
            "T",
            "A tool.",
        ),
        ("# T\n\n> [!WARNING]\n> Use [`b`] instead.\n\n[`b`]: c\n\nA tool.\n", "T", "A tool."),
        ("# T\n\n> A quoted\n> tool.\n", "T", "A quoted tool."),
        (
            "<p align=\"center\">\n<img src=\"x\">\n</p>\n\n<p>\nT is a tool.\n</p>\n\n# Status\n\nUsed.\n\n\
        ## Changelog\n\nThe list of changes is here.\n",
            "",
            "T is a tool.",
        ),
        (
            "# T &emsp; [![Build]][ci] [![Rust]][r] ![p](q)\n\n[Build]: u\n\n**T is *a* tool.**\n\n---\n",
            "T",
            "T is *a* tool.",
        ),
        ("# Mini book reader\n\nReads.\n", "Mini book reader", "Reads."),
        ("# T\n\nA #[cfg] of [x] [y](z).\n", "T", "A #[cfg] of [x] y."),
        ("# Status\n\nFine.\n", "", ""),
        (
            "# T\n\n**Docs**: <a href=\"https://a.b\" target=\"x\">https://a.b</a>\n\nA tool.\n",
            "T",
            "A tool.",
        ),
        ("# T\n\n_formerly [u](https://a.b)_\n\nA tool.\n", "T", "A tool."),
        (
            "# T\n\n_Makes the next tool out of this one_\n\nA prize.\n",
            "T",
            "Makes the next tool out of this one",
        ),
        ("<!--\nLicensed to A.\n\nAnd more of it.\n-->\nT\n===\n\nA tool.\n", "T", "A tool."),
        ("## T - A library of tools.\n\nTo build it, run:\n", "T", "A library of tools."),
        ("# T: Tools of any size\n\nWhat is next?\n", "T", "Tools of any size"),
        ("# A well-known - tool\n\nA tool.\n", "A well-known - tool", "A tool."),
        ("# T\n\nCopyright 2020 A.\n\nA tool.\n", "T", "A tool."),
        ("[[[ x ]\n", "", "[[[ x ]"),
        ("", "", ""),
        ("```\ncode\n```\n\nText said.", "", "Text said."),
        ("# A\n```sh\nrun\n```\nThen text.", "A", "Then text."),
    ];

    #[test]
    fn a_readme_says_what_it_is_in_its_first_paragraph() {
        for (text, title, lead) in CASES {
            let readme = read("README.md", text);
            assert_eq!((readme.title.as_str(), readme.lead.as_str()), (title, lead), "{text}");
        }
    }

    #[test]
    fn the_readme_of_a_folder_is_found() {
        let file = |path: &str| crate::inventory::File::new(path.into(), 1, None);
        let files = ["README", "docs/README.md", "readme.md"].map(file).to_vec();
        let inventory = Inventory { files, ..Inventory::default() };
        assert_eq!(nearest(&inventory, ""), Some("readme.md"));
        assert_eq!(nearest(&inventory, "docs"), Some("docs/README.md"));
        assert_eq!(nearest(&inventory, "src"), None);
    }
}
