//! Target of a search, and its regular expression.

use super::task::{LineFilter, Term};

/// Target of a search.
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
    /// Whether other spellings of the name may be meant.
    pub(super) is_name: bool,
}

impl Query {
    /// Returns the query for what is asked for. Only a name fits in another case, and only where
    /// no use of it is asked for, a plural may mean its singular.
    pub(super) fn of(term: &Term, filter: LineFilter) -> Self {
        let exact = !matches!(filter, LineFilter::Any | LineFilter::Comments);
        match term {
            Term::Pattern(pattern) => Self::exact(pattern, pattern.clone()),
            Term::Literal(text) => Self::exact(text, regex::escape(text)),
            Term::Name(word) => {
                let name = if exact { word.clone() } else { singular(word) };
                let any_case = !name.chars().any(char::is_uppercase);
                Self {
                    any_case,
                    is_name: true,
                    words: word.clone(),
                    ..Self::exact(&name, regex::escape(&name))
                }
            }
        }
    }

    fn exact(name: &str, pattern: String) -> Self {
        let words = name.to_owned();
        let name = name.to_owned();
        Self { words, name, pattern, any_case: false, is_name: false }
    }

    /// Returns whether a name is the one that was asked for, with the ending of a plural.
    pub(super) fn is_as_written(&self, name: &str) -> bool {
        self.words != self.name
            && (name == self.words || self.any_case && name.eq_ignore_ascii_case(&self.words))
    }

    /// Returns a wider query for a name that was not found as it stands: its singular, and other
    /// spellings of a name of several words.
    pub(super) fn wider(&self) -> Option<Self> {
        if !self.is_name {
            return None;
        }
        let name = singular(&self.name);
        let words: Vec<&str> =
            name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return None;
        }
        let words: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
        let pattern = words.join(r"[\s_-]*");
        (pattern != self.pattern || !self.any_case).then(|| Self {
            pattern,
            any_case: true,
            name: name.clone(),
            ..self.clone()
        })
    }
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
            ("TODOs", "TODO"),
            ("queries", "query"),
            ("matches", "match"),
            ("class", "class"),
            ("status", "status"),
            ("a.b()", "a.b()"),
        ] {
            assert_eq!(Query::of(&Term::Name(text.into()), LineFilter::Any).name, name, "{text}");
        }
        let wider = Query::of(&Term::Name("parse-frame".into()), LineFilter::Any).wider().unwrap();
        assert_eq!(wider.pattern, r"parse[\s_-]*frame");
    }

    #[test]
    fn what_stands_in_quotes_or_between_slashes_is_taken_as_it_is() {
        let literal = Query::of(&Term::Literal("two Words".into()), LineFilter::Any);
        assert_eq!((literal.pattern.as_str(), literal.any_case), ("two Words", false));
        let literal = Query::of(&Term::Literal("parses".into()), LineFilter::Any);
        assert_eq!((literal.pattern.as_str(), literal.any_case), ("parses", false));
        assert_eq!(literal.wider(), None);
        let exact = Query::of(&Term::Pattern(r"fn \w+s".into()), LineFilter::Any);
        assert_eq!(
            (exact.pattern.as_str(), exact.any_case, exact.wider()),
            (r"fn \w+s", false, None)
        );
    }
}
