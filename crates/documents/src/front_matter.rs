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
        let front = parse_plain(yaml).map_or_else(|| parse_yaml(yaml), Ok)?;
        Ok(Self { front, body: body.to_owned() })
    }

    /// Parses a text of another program, which reads more than YAML: where the front matter is none,
    /// each line that begins with a name and `:` is a field. Returns also why it had to.
    ///
    /// # Errors
    /// As [`Document::parse`], where the lines have one of the fields `known` twice.
    pub fn parse_foreign(
        text: &str,
        known: &[&str],
    ) -> Result<(Self, Option<DocumentError>), DocumentError> {
        let error = match Self::parse(text) {
            Ok(document) => return Ok((document, None)),
            Err(error) => error,
        };
        let (yaml, body) = split(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        match parse_lines(yaml, known) {
            Some(front) => Ok((Self { front, body: body.to_owned() }, Some(error))),
            None => Err(error),
        }
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

/// Parses `key: text` and `key: [word, word]`, one a line, as most files have it; `None` if there is
/// anything else. For these, the YAML library would take longer than the rest of a start.
fn parse_plain(yaml: &str) -> Option<Map<String, Value>> {
    let mut front = Map::new();
    for line in yaml.lines() {
        let (key, value) = line.split_once(": ")?;
        let key = plain_text(key, "_")?;
        let value = match value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(words) => {
                words.split(", ").map(|word| plain_text(word, "-_")).collect::<Option<_>>()?
            }
            None => plain_text(value, " -_.,;/()")?.into(),
        };
        if front.insert(key.to_owned(), value).is_some() {
            return None;
        }
    }
    Some(front)
}

/// Returns a text that YAML reads as just this text: a letter, then letters, digits and these
/// marks, and no word with a meaning of its own.
fn plain_text<'t>(text: &'t str, marks: &str) -> Option<&'t str> {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let fits = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    fits.then_some(text)
}

fn parse_yaml(yaml: &str) -> Result<Map<String, Value>, DocumentError> {
    match serde_saphyr::from_str_with_options::<Value>(yaml, options()) {
        Ok(Value::Object(front)) => Ok(front),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => {
            let text = "the front matter is not a mapping, such as `name: VALUE`";
            Err(DocumentError::whole(text))
        }
        Err(error) => Err(invalid_yaml(&error)),
    }
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
    let text = match text.contains("weak recursion") {
        true => "an alias is a part of what it stands for",
        false => text,
    };
    let hint = match text.contains("mapping values") {
        true => "; put a text with `: ` in it between quotes",
        false => "",
    };
    let message = format!("not valid YAML: {}{hint}", for_terminal_line(text, REASON_CHARS));
    DocumentError { line: error.location().map(|at| at.line() + 1), message }
}

/// Parses fields by their lines; `None` if one of those that are known is there twice. Lines that
/// begin no field belong to the one before, so that no word of a list gets lost.
fn parse_lines(yaml: &str, known: &[&str]) -> Option<Map<String, Value>> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in yaml.lines() {
        match (field_line(line), fields.last_mut()) {
            (Some((name, value)), _) => fields.push((name, vec![without_comment(value)])),
            (None, Some((_, lines))) => lines.push(without_comment(line.trim())),
            (None, None) => {}
        }
    }
    let mut front = Map::new();
    for (name, lines) in fields {
        let before = front.insert(name.to_owned(), value_of(&lines));
        if before.is_some() && known.contains(&name) {
            return None;
        }
    }
    Some(front)
}

/// Returns the name and the value of a line that begins a field.
fn field_line(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name);
    (fits && (value.is_empty() || value.starts_with(char::is_whitespace)))
        .then(|| (name, value.trim()))
}

/// Returns a line without the comment at its end.
fn without_comment(line: &str) -> &str {
    let is_even = |text: &str, mark: char| text.matches(mark).count().is_multiple_of(2);
    match line.split_once(" #") {
        Some((text, _)) if is_even(text, '"') && is_even(text, '\'') => text.trim_end(),
        _ => line,
    }
}

/// Returns the value of a field that has these lines: a list, a whole number, or a text.
fn value_of(lines: &[&str]) -> Value {
    let whole = lines.iter().filter(|line| !line.is_empty()).copied().collect::<Vec<_>>();
    let items = whole.iter().map(|line| line.strip_prefix("- ")).collect::<Option<Vec<_>>>();
    let text = whole.join(" ");
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let items = items.or_else(|| inner.map(|inner| inner.split(',').collect()));
    match (items, text.parse::<u64>()) {
        (Some(items), _) if !whole.is_empty() => {
            items.into_iter().map(unquoted).filter(|item| !item.is_empty()).collect()
        }
        (_, Ok(number)) => number.into(),
        _ => unquoted(text.trim_start_matches(['|', '>', '-', '+', ' '])).into(),
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
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
                "---\na: &a [*a]\n---\n",
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
            line 2: not valid YAML: an alias is a part of what it stands for
            "
        );
    }

    #[test]
    fn plain_front_matter_is_parsed_without_the_library() {
        let front =
            parse_plain("name: a-b\ndescription: Does a part, then checks.\ntools: [c, d]\n");
        let expected = serde_json::json!({
            "name": "a-b", "description": "Does a part, then checks.", "tools": ["c", "d"]
        });
        assert_eq!(front.map(Value::Object), Some(expected));
        for other in ["a: 1", "a: yes", "no: a", "a: b: c", "a: 'b'", "a: [b, null]", "a: b #c"] {
            assert_eq!(parse_plain(other), None, "{other}");
        }
    }

    #[test]
    fn what_other_programs_read_is_read_by_its_lines() {
        let text = "---\nname: a\ndescription: Use when: \"x\" <e>Context: y</e>\nuser: b\nuser: c\n\
                    tools:\n  - Read\n- 'Grep' # x\ndisallowedTools: [Bash,\n  \"Write\"]\nmaxTurns: 3\n\
                    model: 'opus'\nnotes: >\n  One: 1\n  two\n---\nBody.\n";
        let (document, why) = Document::parse_foreign(text, &["tools"]).unwrap();
        assert_eq!(why.unwrap().line, Some(3));
        assert_eq!(document.body(), "Body.\n");
        let expected = serde_json::json!({
            "name": "a", "description": "Use when: \"x\" <e>Context: y</e>", "user": "c",
            "tools": ["Read", "Grep"], "disallowedTools": ["Bash", "Write"], "maxTurns": 3,
            "model": "opus", "notes": "One: 1 two",
        });
        assert_eq!(Value::Object(document.front), expected);
        let good = "---\nname: a\n---\n";
        assert_eq!(Document::parse_foreign(good, &[]), Document::parse(good).map(|it| (it, None)));
        let twice = "---\na: b: c\ntools: x\ntools: y\n---\n";
        assert_eq!(
            Document::parse_foreign(twice, &["tools"]),
            Err(Document::parse(twice).unwrap_err())
        );
        assert!(Document::parse_foreign("# Title\n", &[]).is_err());
    }

    proptest! {
        #[test]
        fn plain_front_matter_is_what_the_library_makes_of_it(
            yaml in "([a-z_]{1,3}: (\\[?[a-zA-Z][a-zA-Z0-9 ,._;/()-]{0,8}\\]?|true|NULL|No)\r?\n){0,3}"
        ) {
            if let Some(front) = parse_plain(&yaml) {
                prop_assert_eq!(Ok(front), parse_yaml(&yaml).map_err(|error| error.to_string()));
            }
        }

        #[test]
        fn any_text_is_a_document_or_an_error(text in "(---\n)?[-a-z: \\[{&*\n\"']{0,200}(---\n)?.{0,20}") {
            if let Ok(document) = Document::parse(&text) {
                prop_assert!(text.ends_with(document.body()));
            }
        }
    }
}
