//! What is searched for, and how the index is asked for it.

use crate::error::IndexError;
use crate::words::{separated, visible};

/// The most characters of a query.
const QUERY_CHARS: usize = 1_000;
/// The most words of a query.
const QUERY_WORDS: usize = 32;

/// Words to search for. Words in double quotes stand beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// A word, or several that stand beside each other.
    phrases: Vec<String>,
}

impl SearchQuery {
    /// Reads words as a person or a model writes them. Nothing in them is an operator, except
    /// double quotes.
    ///
    /// ```
    /// use deputize_session_index::SearchQuery;
    /// assert!(SearchQuery::parse("NEAR(\"flaky test\" OR *").is_ok());
    /// assert!(SearchQuery::parse(" -- ").is_err());
    /// ```
    ///
    /// # Errors
    /// If there are no words, or too many.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        if text.chars().count() > QUERY_CHARS {
            return Err(IndexError::Long { most: QUERY_CHARS, unit: "characters" });
        }
        let text = visible(text);
        let mut phrases: Vec<String> = Vec::new();
        for (index, part) in text.split('"').enumerate() {
            // Every second part stands in quotes.
            if index % 2 == 1 {
                phrases.push(part.to_owned());
            } else {
                phrases.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        phrases.retain(|phrase| phrase.chars().any(char::is_alphanumeric));
        if phrases.is_empty() {
            return Err(IndexError::NoWords);
        }
        if phrases.len() > QUERY_WORDS {
            return Err(IndexError::Long { most: QUERY_WORDS, unit: "words" });
        }
        Ok(Self { phrases })
    }

    /// Returns whether it has several words or phrases.
    pub(crate) const fn has_several(&self) -> bool {
        self.phrases.len() > 1
    }

    /// Returns the expression for texts with all of the words.
    pub(crate) fn all(&self) -> String {
        self.expression(" AND ")
    }

    /// Returns the expression for texts with any of the words.
    pub(crate) fn any(&self) -> String {
        self.expression(" OR ")
    }

    /// The last word of each phrase may go on. There are no quotes in a phrase.
    fn expression(&self, operator: &str) -> String {
        let phrases = self.phrases.iter().map(|phrase| format!("\"{}\" *", separated(phrase)));
        phrases.collect::<Vec<_>>().join(operator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_phrases_stay_together() {
        let all = |text: &str| SearchQuery::parse(text).unwrap().all();
        assert_eq!(all("flaky  test"), r#""flaky" * AND "test" *"#);
        assert_eq!(all(r#"a "b c" "d"#), r#""a" * AND "b c" * AND "d" *"#);
        assert_eq!(all("NOT x:y* - ()"), r#""NOT" * AND "x:y*" *"#);
        assert_eq!(SearchQuery::parse("a b").unwrap().any(), r#""a" * OR "b" *"#);
        for none in ["", " \n", "\"\"", "* - \" ( \""] {
            assert!(matches!(SearchQuery::parse(none), Err(IndexError::NoWords)), "{none}");
        }
    }

    #[test]
    fn a_query_has_limits() {
        let describe = |text: String| SearchQuery::parse(&text).unwrap_err().to_string();
        assert_eq!(
            describe("a".repeat(1_001)),
            "the query is too long: 1000 characters are the most"
        );
        assert_eq!(describe("a ".repeat(33)), "the query is too long: 32 words are the most");
    }
}
