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
    let mut title = String::new();
    let mut lead: Vec<&str> = Vec::new();
    let mut fenced = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.starts_with('#') || line.starts_with("= ");
        let underline = line.len() > 2 && line.chars().all(|c| "=-~*".contains(c));
        if underline {
            // The line before it was a heading.
            if let (true, Some(above)) = (title.is_empty(), lead.pop()) {
                above.clone_into(&mut title);
            }
            lead.clear();
        } else if heading && title.is_empty() {
            strip(line.trim_start_matches(['#', '=', ' ']).trim_end_matches('#'))
                .clone_into(&mut title);
        } else if heading || line.is_empty() {
            if !lead.is_empty() {
                break;
            }
        } else if !fenced && !decoration(line) && !line.starts_with("```") {
            lead.push(line);
        }
    }
    let lead = shorten(&strip(&lead.join(" ")), LEAD);
    Readme { path: path.to_owned(), title: shorten(&title, 80), lead }
}

/// Lines that say nothing: badges, pictures, tags, comments, rules, links alone.
fn decoration(line: &str) -> bool {
    let marks = ["<", "[!", "![", "|", ".. ", ":", "---", "[comment", "[//", "- [", "* ["];
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
        return (inner.len() < 200 && !inner.contains(' ') || inner.contains('='))
            .then_some(("", rest));
    }
    let (shown, rest) = from.strip_prefix('[')?.split_once(']')?;
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
            ("<h1 align=\"center\">Tool</h1>\n\n## About\nText.\n", "About", "Text."),
            ("", "", ""),
            ("```\ncode\n```\n\nText", "", "Text"),
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
