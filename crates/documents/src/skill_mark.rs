//! The mark of a skill that was written after its writer had read from outside.

use std::collections::BTreeSet;

use crate::document_error::DocumentError;
use crate::front_matter::Document;

/// The field of the front matter that holds the sources.
pub(crate) const FIELD: &str = "written-after-reading";

/// Returns the text of a `SKILL.md` with a mark that names these sources, and those of a mark that
/// it has. Without any sources it is the same text.
///
/// ```
/// let text = "---\nname: a\ndescription: A.\n---\nDo a.\n";
/// let marked = deputize_documents::marked_skill(text, &["web:a.example".to_owned()])?;
/// let field = "written-after-reading: [\"web:a.example\"]";
/// assert_eq!(marked, format!("---\nname: a\ndescription: A.\n{field}\n---\nDo a.\n"));
/// # Ok::<(), deputize_documents::DocumentError>(())
/// ```
///
/// # Errors
/// If the text has no front matter to which a field can be added.
pub fn marked_skill(text: &str, sources: &[String]) -> Result<String, DocumentError> {
    let own = Document::parse(text)?.fields().words(FIELD)?.unwrap_or_default();
    let all: BTreeSet<String> = own.into_iter().chain(sources.iter().cloned()).collect();
    if all.is_empty() {
        return Ok(text.to_owned());
    }
    let marked = with_field(text, &serde_json::json!(all).to_string());
    let written = Document::parse(&marked).and_then(|document| document.fields().words(FIELD));
    match written {
        Ok(Some(words)) if words.iter().eq(&all) => Ok(marked),
        _ => Err(DocumentError::whole(format!(
            "the field `{FIELD}` cannot be added to its front matter: write each field on a line \
             of its own, and leave that one out"
        ))),
    }
}

/// Returns the sources that the mark of a text names, also where the rest of it is no skill. A mark
/// that cannot be read names one that nobody knows.
pub(crate) fn mark_sources(text: &str) -> Vec<String> {
    let words = Document::parse(text).and_then(|document| document.fields().words(FIELD));
    if let Ok(words) = words {
        return words.unwrap_or_default();
    }
    let mut words = Vec::new();
    let mut is_marked = false;
    let mut goes_on = false;
    for line in text.lines() {
        let field = line.trim_start().strip_prefix(FIELD);
        goes_on = field.is_some() || goes_on && line.starts_with([' ', '-', ']']);
        is_marked |= field.is_some();
        if goes_on {
            let is_between = |c: char| c.is_whitespace() || "[],\"'".contains(c);
            let of_line = field.unwrap_or(line).split(is_between);
            let of_line = of_line.map(|word| word.trim_start_matches([':', '-']));
            words.extend(of_line.filter(|word| !word.is_empty()).map(ToOwned::to_owned));
        }
    }
    if is_marked && words.is_empty() {
        words.push("unknown".to_owned());
    }
    words
}

/// Returns the text with the field as the last one of its front matter, in place of any that it
/// has.
fn with_field(text: &str, value: &str) -> String {
    let mut marked = String::with_capacity(text.len() + value.len());
    let mut marks = 0;
    let mut is_old = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start_matches('\u{feff}').trim_end() == "---" {
            marks += 1;
            if marks == 2 {
                marked.push_str(&format!("{FIELD}: {value}\n"));
            }
        }
        let goes_on = line.starts_with([' ', '-', ']']) && is_old;
        is_old = marks == 1 && (line.starts_with(&format!("{FIELD}:")) || goes_on);
        if !is_old {
            marked.push_str(line);
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(front: &str, sources: &[&str]) -> String {
        let sources: Vec<String> = sources.iter().map(|it| (*it).to_owned()).collect();
        let text = format!("---\n{front}\n---\nDo a.\n---\n{FIELD}: body\n");
        match marked_skill(&text, &sources) {
            Ok(marked) => {
                let body = Document::parse(&marked).unwrap().body().to_owned();
                assert_eq!(body, format!("Do a.\n---\n{FIELD}: body\n"));
                marked.split("\n---\n").next().unwrap().to_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_mark_keeps_the_sources_that_were_there() {
        let name = "name: a";
        assert_eq!(marked(name, &[]), "---\nname: a");
        let one = marked(name, &["web:b"]);
        assert_eq!(one, "---\nname: a\nwritten-after-reading: [\"web:b\"]");
        let front = one.strip_prefix("---\n").unwrap();
        assert_eq!(marked(front, &[]), one);
        let both = "---\nname: a\nwritten-after-reading: [\"mcp:a\",\"web:b\"]";
        assert_eq!(marked(front, &["mcp:a"]), both);
        let list = "written-after-reading:\n- web:b\n  \nname: a";
        assert_eq!(marked(list, &["mcp:a"]), both);
        let flow = "{name: a}";
        assert!(marked(flow, &["mcp:a"]).contains("cannot be added"), "{}", marked(flow, &["a"]));
    }

    #[test]
    fn a_mark_is_read_in_a_text_that_is_no_skill() {
        let mark = "written-after-reading: [\"mcp:a\", 'web:b']";
        for text in [
            format!("---\nname: [\n{mark}\n---\n"),
            format!("---\n{mark}\n"),
            format!("name: a\n{mark}\n"),
            format!("---\nname: a\nname: b\n{}\n---\n", mark.replace(": [", ":\n [")),
            "---\n{\nwritten-after-reading:\n- mcp:a\n- web:b\n---\n".to_owned(),
        ] {
            assert_eq!(mark_sources(&text), ["mcp:a", "web:b"], "{text}");
        }
        assert_eq!(mark_sources("---\n{\nwritten-after-reading: []\n"), ["unknown"]);
        assert_eq!(mark_sources("---\n{\nname: a\n"), [""; 0]);
    }
}
