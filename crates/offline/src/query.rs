//! What to look for, as it is meant by how people say it.

use std::sync::LazyLock;

use regex::Regex;

use super::pattern::fixed;

static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        r"(?i)^(?:(?:all|the|any|every|each|some|of|to|where|we|places?|lines?|calls?|call\s+sites?|uses?|usages?|references?|occurrences?|mentions?|instances?|invocations?|that|which|with|have|contain|using|use|call|comments?)\s+)+",
    )
});
static AFTER: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        r"(?i)\s+(?:calls?|uses?|usages?|references?|occurrences?|mentions?|instances?|invocations?|comments?|statements?|blocks?|lines?|(?:is|are)\s+(?:used|called|defined|declared))$",
    )
});

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// As it was written.
    pub(super) words: String,
    /// The name that is meant, without the ending of a plural; the pattern itself for one.
    pub(super) name: String,
    /// A regular expression for it.
    pub(super) pattern: String,
    /// Whether letters of either case fit.
    pub(super) any_case: bool,
}

impl Query {
    /// Reads what is asked for. `exact` takes it as a regular expression.
    pub(super) fn of(text: &str, exact: bool) -> Self {
        let text = text.trim();
        let own = |name: &str, pattern: String| Self {
            words: text.to_owned(),
            name: name.to_owned(),
            any_case: !exact && !name.chars().any(char::is_uppercase),
            pattern,
        };
        if exact {
            return own(text, text.to_owned());
        }
        if let Some(quoted) = quoted(text) {
            return own(quoted, regex::escape(quoted));
        }
        let start = BEFORE.find(text).map_or(0, |found| found.end());
        let rest = text.get(start..).filter(|rest| !rest.is_empty()).unwrap_or(text);
        let end = AFTER.find(rest).map_or(rest.len(), |found| found.start());
        let rest = rest.get(..end).filter(|rest| !rest.is_empty()).unwrap_or(rest);
        let name = quoted(rest).map_or_else(|| singular(rest), str::to_owned);
        own(&name, regex::escape(&name))
    }

    /// Returns a wider query for words that were not found as they stand: other spellings of a
    /// name of several words.
    pub(super) fn wider(&self) -> Option<Self> {
        let words: Vec<&str> = self
            .name
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            return None;
        }
        let words: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
        let pattern = words.join(r"[\s_-]*");
        (pattern != self.pattern || !self.any_case).then(|| Self {
            pattern,
            any_case: true,
            ..self.clone()
        })
    }
}

/// Returns what stands in quotes.
fn quoted(text: &str) -> Option<&str> {
    ['`', '"', '\''].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
        (!inner.is_empty() && !inner.contains(*quote)).then_some(inner)
    })
}

/// Returns a single word without the ending of a plural.
fn singular(text: &str) -> String {
    let word = text.len() > 3 && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !word || text.ends_with("ss") || text.ends_with("us") || text.ends_with("is") {
        return text.to_owned();
    }
    if let Some(stem) = text.strip_suffix("ies").filter(|stem| stem.len() > 2) {
        return format!("{stem}y");
    }
    for ending in ["sses", "xes", "ches", "shes"] {
        if text.ends_with(ending) {
            return text.get(..text.len() - 2).unwrap_or(text).to_owned();
        }
    }
    text.strip_suffix('s').unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_understood_as_people_say_it() {
        for (text, name) in [
            ("unwraps", "unwrap"),
            ("all unwraps", "unwrap"),
            ("unwrap calls", "unwrap"),
            ("calls to `parse_all`", "parse_all"),
            ("uses of unsafe", "unsafe"),
            ("the TODOs", "TODO"),
            ("TODO comments", "TODO"),
            ("queries", "query"),
            ("matches", "match"),
            ("class", "class"),
            ("status", "status"),
            ("`parses`", "parses"),
            ("a.b()", "a.b()"),
            ("calls", "call"),
        ] {
            assert_eq!(Query::of(text, false).name, name, "{text}");
        }
        let exact = Query::of(r"fn \w+s", true);
        assert_eq!((exact.pattern.as_str(), exact.any_case), (r"fn \w+s", false));
        let wider = Query::of("parse frames", false).wider().unwrap();
        assert_eq!(wider.pattern, r"parse[\s_-]*frames");
    }
}
