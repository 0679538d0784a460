//! Ranks tools by the words of a query.

use std::collections::BTreeSet;

use deputize_core::CatalogEntry;
use serde_json::Value;

/// Weight of a word in a tool's name, in its description, and among the names of its arguments.
const WEIGHTS: [f64; 3] = [4.0, 1.0, 0.5];
/// Part of the weight of a word that only begins with the one of the query, or the other way round.
const PREFIX_PART: f64 = 0.5;
/// Limit on the words of a query.
const QUERY_WORDS: usize = 64;
/// Fewest characters of a word that may be the beginning of another.
const PREFIX_CHARS: usize = 3;

/// The words of a tool: in its name, in its description, and of its arguments.
struct ToolWords([BTreeSet<String>; 3]);

impl ToolWords {
    fn of(entry: &CatalogEntry) -> Self {
        let decl = &entry.tool.spec().decl;
        let schema = decl.parameters.to_value();
        let arguments = schema.get("properties").and_then(Value::as_object);
        let arguments = arguments.into_iter().flatten();
        let arguments: Vec<&str> = arguments.map(|(name, _)| name.as_str()).collect();
        Self([words(decl.name.as_str()), words(&decl.description), words(&arguments.join(" "))])
    }

    /// Returns how much a word of a query says of the tool; 0 if it is in none of its words.
    fn weight(&self, word: &str) -> f64 {
        let is_prefix = |own: &String| {
            let shorter = own.len().min(word.len());
            shorter >= PREFIX_CHARS && (own.starts_with(word) || word.starts_with(own.as_str()))
        };
        let weight = |(words, weight): (&BTreeSet<String>, f64)| {
            if words.contains(word) {
                weight
            } else if words.iter().any(is_prefix) {
                weight * PREFIX_PART
            } else {
                0.0
            }
        };
        self.0.iter().zip(WEIGHTS).map(weight).sum()
    }
}

/// Returns the words of a text in lower case, without repetition: runs of letters and digits, and
/// the parts of a name such as `createIssue`.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        words.insert(run.to_lowercase());
        let mut part = String::new();
        let mut is_lower = false;
        for c in run.chars() {
            if c.is_uppercase() && is_lower {
                words.insert(std::mem::take(&mut part));
            }
            is_lower = c.is_lowercase();
            part.extend(c.to_lowercase());
        }
        words.insert(part);
    }
    words
}

/// Returns the tools that a query is about, best first: a tool of this very name, then those with
/// most of its words, where a word counts the more the fewer tools have it. Equal ones keep their
/// order.
pub(crate) fn rank<'e>(tools: &[&'e CatalogEntry], query: &str) -> Vec<&'e CatalogEntry> {
    let of_tools: Vec<ToolWords> = tools.iter().map(|entry| ToolWords::of(entry)).collect();
    let mut scores = vec![0.0; tools.len()];
    for word in words(query).into_iter().take(QUERY_WORDS) {
        let weights: Vec<f64> = of_tools.iter().map(|tool| tool.weight(&word)).collect();
        let have = weights.iter().filter(|weight| **weight > 0.0).count();
        let rarity = (1.0 + ratio(tools.len(), have)).ln();
        scores.iter_mut().zip(&weights).for_each(|(score, weight)| *score += weight * rarity);
    }
    let query = query.trim();
    let mut ranked: Vec<(f64, &CatalogEntry)> = tools
        .iter()
        .zip(scores)
        .map(|(entry, score)| {
            let is_named = entry.name().as_str().eq_ignore_ascii_case(query);
            (if is_named { f64::INFINITY } else { score }, *entry)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

fn ratio(all: usize, some: usize) -> f64 {
    let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    count(all) / count(some.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        words(text).into_iter().collect()
    }

    #[test]
    fn names_come_apart_into_words() {
        assert_eq!(
            found("mcp__hub__createIssue2"),
            ["create", "createissue2", "hub", "issue2", "mcp"]
        );
        assert_eq!(found("Lists ÄPFEL, äpfel."), ["lists", "äpfel"]);
        assert_eq!(found(" _ "), Vec::<String>::new());
    }
}
