//! A Markdown file whose beginning is YAML.

use deputize_core::sanitize::for_terminal_line;
use serde_json::{Map, Value};

use crate::document_error::DocumentError;
use crate::fields::Fields;

/// The line before and after the front matter.
const MARK: &str = "---";
/// Values in a front matter at most, aliases counted as often as they are used.
const MOST_VALUES: usize = 1_000;
/// Levels of lists and mappings at most.
const MOST_LEVELS: usize = 8;
/// Characters of a reason at most.
const REASON_CHARS: usize = 300;

/// A Markdown text with front matter: YAML between two lines `---`, and then the body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    front: Map<String, Value>,
    body: String,
}

impl Document {
    /// Parses a text.
    ///
    /// # Errors
    /// If it does not begin with front matter, that does not end, or it is not a YAML mapping
    /// within the limits.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (yaml, body) = split(text)?;
        let front = match serde_saphyr::from_str_with_options::<Value>(yaml, options()) {
            Ok(Value::Object(front)) => front,
            Ok(Value::Null) => Map::new(),
            Ok(_) => {
                return Err(DocumentError::whole(
                    "the front matter is not a mapping, such as `name: VALUE`",
                ));
            }
            Err(error) => return Err(invalid_yaml(&error)),
        };
        Ok(Self { front, body: body.to_owned() })
    }

    /// Returns the fields of the front matter.
    #[must_use]
    pub const fn fields(&self) -> Fields<'_> {
        Fields::new(&self.front)
    }

    /// Returns the text after the front matter.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }
}

/// Returns the front matter, and the body without the empty lines at its beginning.
fn split(text: &str) -> Result<(&str, &str), DocumentError> {
    let is_mark = |line: &str| line.trim_end() == MARK;
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_mark(line)).ok_or_else(|| {
        DocumentError::whole("it does not begin with front matter: `---`, fields, `---`")
    })?;
    let mut end = first.len();
    for line in lines {
        if is_mark(line) {
            let yaml = text.get(first.len()..end).unwrap_or_default();
            let body = text.get(end + line.len()..).unwrap_or_default();
            return Ok((yaml, body.trim_start_matches(['\n', '\r'])));
        }
        end += line.len();
    }
    Err(DocumentError::whole("its front matter has no end: a line `---`"))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: MOST_LEVELS,
            flow_nesting_limit: MOST_LEVELS,
            max_nodes: MOST_VALUES,
            max_events: 4 * MOST_VALUES,
            max_aliases: MOST_VALUES,
            max_anchors: MOST_VALUES,
            max_recorded_anchor_events: 4 * MOST_VALUES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 4 * MOST_VALUES,
            max_replay_stack_depth: MOST_LEVELS,
        },
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn invalid_yaml(error: &serde_saphyr::Error) -> DocumentError {
    let error = error.without_snippet();
    let text = error.to_string();
    // The line is that of the file, not that of the front matter; how the library could be set up
    // is of no use here.
    let text = text.split(" at line ").next().unwrap_or(&text);
    let text = text.split(", set ").next().unwrap_or(text);
    let hint = match text.contains("mapping values") {
        true => "; put a text with `: ` in it between quotes",
        false => "",
    };
    let message = format!("not valid YAML: {}{hint}", for_terminal_line(text, REASON_CHARS));
    DocumentError { line: error.location().map(|at| at.line() + 1), message }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        Document::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn fields_and_body() {
        let document =
            Document::parse("\u{feff}---\r\nname: a\r\n---  \r\n\r\n# Title\r\n---\n").unwrap();
        assert_eq!(document.fields().text("name").unwrap().unwrap(), "a");
        assert_eq!(document.body(), "# Title\r\n---\n");
        let empty = Document::parse("---\n---").unwrap();
        assert_eq!((empty.fields().names().count(), empty.body()), (0, ""));
    }

    #[test]
    fn what_is_no_document_is_said_with_its_line() {
        insta::assert_snapshot!(
            [
                "# Title\n",
                "---\nname: a\n",
                "---\n- a\n---\n",
                "---\nname: a\ndescription: Use when: always\n---\n",
                "---\nname: a\nname: b\n---\n",
                "---\na: [[[[[[[[[1]]]]]]]]]\n---\n",
            ]
            .map(error)
            .join("\n"),
            @r"
            it does not begin with front matter: `---`, fields, `---`
            its front matter has no end: a line `---`
            the front matter is not a mapping, such as `name: VALUE`
            line 3: not valid YAML: mapping values are not allowed in this context; put a text with `: ` in it between quotes
            line 3: not valid YAML: duplicate mapping key: name
            line 2: not valid YAML: recursion limit exceeded
            "
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_document_or_an_error(text in "(---\n)?[-a-z: \\[{&*\n\"']{0,200}(---\n)?.{0,20}") {
            if let Ok(document) = Document::parse(&text) {
                prop_assert!(text.ends_with(document.body()));
            }
        }
    }
}
