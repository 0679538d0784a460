//! What a README says first.

use serde_json::json;

use super::conversation::Ask;
use super::facts::Readme;
use super::language;
use super::part::{Part, part_of};
use super::survey::shorten;

/// Lines of it that are read.
const LINES: u64 = 80;
/// Characters of its first paragraph that are kept.
const LEAD: usize = 420;

/// The README nearest to the top, read.
pub(super) fn ask(ask: &mut Ask<'_, '_>, files: &[(&str, u64)]) -> Option<Readme> {
    let path = nearest(files)?;
    let done = ask.call("read_file", json!({"path": path, "limit": LINES}))?;
    Some(read(path, &plain(done.ok()?)))
}

fn nearest<'f>(files: &[(&'f str, u64)]) -> Option<&'f str> {
    let readmes = files.iter().map(|(path, _)| *path).filter(|path| {
        let name = language::file_name(path).to_ascii_lowercase();
        let known = [
            "readme",
            "readme.md",
            "readme.rst",
            "readme.txt",
            "readme.adoc",
            "readme.org",
            "readme.markdown",
        ];
        known.contains(&name.as_str()) && part_of(path) == Part::Main
    });
    readmes.min_by_key(|path| (path.matches('/').count(), path.len()))
}

/// The text of a file out of a result of `read_file`, which numbers the lines.
pub(super) fn plain(content: &str) -> String {
    let line = |line: &str| match line.split_once('\t') {
        Some((number, text)) if number.trim().parse::<u64>().is_ok() => text.to_owned(),
        Some(_) | None => line.to_owned(),
    };
    content.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Title and first paragraph of prose.
fn read(path: &str, text: &str) -> Readme {
    let mut reader = Reader::default();
    for line in text.lines().map(str::trim) {
        reader.line(line);
        if !reader.lead.is_empty() {
            break;
        }
    }
    reader.end_paragraph();
    let lead = if reader.lead.is_empty() { &reader.tagline } else { &reader.lead };
    let lead = without_announcement(lead);
    Readme { path: path.to_owned(), title: shorten(&reader.title, 80), lead: shorten(&lead, LEAD) }
}

/// A text without the sentence at its end that announces something further down.
fn without_announcement(text: &str) -> String {
    let Some(text) = text.strip_suffix(':') else { return text.to_owned() };
    text.rsplit_once(". ").map_or_else(|| format!("{text}."), |(before, _)| format!("{before}."))
}

/// Headings after which a paragraph no longer says what the whole is.
const HEADINGS: usize = 2;

/// Reads prose line by line, until it knows the title and the lead.
#[derive(Default)]
struct Reader<'t> {
    title: String,
    tagline: String,
    lead: String,
    paragraph: Vec<&'t str>,
    /// Inside a block of code.
    fenced: bool,
    /// Inside a block of HTML, which lasts until a blank line.
    html: bool,
    headings: usize,
    /// Under a heading of which no text says what the whole is.
    aside: bool,
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: &'t str) {
        if line.starts_with("```") {
            self.fenced = !self.fenced;
            return;
        }
        if self.fenced {
            return;
        }
        if line.is_empty() {
            self.html = false;
            self.end_paragraph();
        } else if self.html || line.starts_with('<') {
            self.html = true;
            self.tags(line);
        } else if line.starts_with('#') || line.starts_with("= ") {
            self.end_paragraph();
            self.heading(line.trim_matches(['#', '=', ' ']));
        } else if line.len() > 2 && line.chars().all(|c| "=-~*".contains(c)) {
            // The line before it was a heading.
            if let Some(above) = self.paragraph.pop() {
                self.heading(above);
            }
        } else if ["- ", "* ", "+ ", "1. "].iter().any(|mark| line.starts_with(mark)) {
            self.end_paragraph();
        } else if !decoration(line) {
            self.paragraph.push(line.trim_start_matches("> "));
        }
    }

    fn tags(&mut self, line: &str) {
        if line.starts_with("<h1") && self.title.is_empty() {
            self.title = strip(line);
        } else if ["<h2", "<h3", "<h4"].iter().any(|tag| line.starts_with(tag))
            && self.tagline.is_empty()
        {
            self.tagline = strip(&line.replace("<br", " <br"));
        }
    }

    fn heading(&mut self, text: &str) {
        if self.title.is_empty() {
            self.title = strip(text);
        }
        self.headings += 1;
        let lower = text.to_ascii_lowercase();
        let aside = [
            "install",
            "require",
            "licen",
            "prerequisite",
            "quick",
            "getting started",
            "table of",
            "contents",
            "usage",
            "status",
            "sponsor",
            "news",
        ];
        self.aside = self.headings > HEADINGS || aside.iter().any(|word| lower.contains(word));
    }

    fn end_paragraph(&mut self) {
        let text = strip(&std::mem::take(&mut self.paragraph).join(" "));
        let letters = || text.chars().filter(|c| c.is_alphabetic());
        let shouted = letters().filter(|c| c.is_uppercase()).count() * 2 > letters().count();
        if self.lead.is_empty() && !self.aside && !shouted {
            self.lead = text;
        }
    }
}

/// Lines that say nothing: badges, pictures, tags, comments, rules, links alone.
fn decoration(line: &str) -> bool {
    let marks = ["<", "[!", "![", "|", ".. ", ":", "---", "[comment", "[//"];
    let link_alone = line.starts_with('[') && line.ends_with(')') && !line.contains(". ");
    marks.iter().any(|mark| line.starts_with(mark)) || link_alone
}

/// Text without links, tags and pictures.
fn strip(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['[', '!', '<']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (shown, after) = link(from).unwrap_or_else(|| {
            let end = from.chars().next().map_or(0, char::len_utf8);
            from.split_at(end)
        });
        out.push_str(shown);
        rest = after;
    }
    out.push_str(rest);
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is shown of a link, a picture or a tag at the begin of a text, and what follows it.
fn link(from: &str) -> Option<(&str, &str)> {
    if let Some(picture) = from.strip_prefix("![") {
        let (_, rest) = picture.split_once("](")?;
        return Some(("", rest.split_once(')')?.1));
    }
    if let Some(tag) = from.strip_prefix('<') {
        let (inner, rest) = tag.split_once('>')?;
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') {
            return None;
        }
        return (inner.len() < 200 && !inner.contains(' ')
            || inner.contains('=')
            || inner.ends_with('/'))
        .then_some(("", rest));
    }
    let (shown, rest) = from.strip_prefix('[')?.split_once(']')?;
    if !rest.starts_with(['(', '[']) {
        return (shown.trim().len() > 1).then_some((shown, rest));
    }
    if let Some(target) = rest.strip_prefix('(') {
        return Some((shown, target.split_once(')')?.1));
    }
    Some((shown, rest.strip_prefix('[')?.split_once(']')?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_says_what_it_is_in_its_first_paragraph() {
        let cases = [
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
            ("# T\n\n## Requirements\nNode.\n\n## What\nA tool.\n", "T", ""),
            ("# T\nA tool. It has:\n- x\n", "T", "A tool."),
            ("# T\nA tool with:\n", "T", "A tool with."),
            ("", "", ""),
            ("```\ncode\n```\n\nText said.", "", "Text said."),
            ("# A\n```sh\nrun\n```\nThen text.", "A", "Then text."),
        ];
        for (text, title, lead) in cases {
            let readme = read("README.md", text);
            assert_eq!((readme.title.as_str(), readme.lead.as_str()), (title, lead), "{text}");
        }
    }

    #[test]
    fn the_nearest_readme_is_read() {
        let files = [("docs/README.md", 1), ("README.md", 1), ("vendor/readme.md", 1)];
        assert_eq!(nearest(&files), Some("README.md"));
        assert_eq!(nearest(&files[2..]), None);
    }
}
