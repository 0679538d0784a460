//! Texts that look like secrets, so that no later session reads them.

use deputize_core::sanitize::Secrets;

/// Beginnings of keys that services give out.
const KEY_BEGINNINGS: [&str; 26] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "shpat_",
    "ya29.",
    "SG.",
    "AGE-SECRET-KEY-1",
];
/// A word with such a beginning is a key from this length.
const KEY_CHARS: usize = 16;
/// Names whose values are secrets.
const NAMES: [&str; 16] = [
    "password",
    "passwd",
    "pwd",
    "pass",
    "secret",
    "token",
    "api_key",
    "api-key",
    "api key",
    "apikey",
    "access_key",
    "access-key",
    "access key",
    "secret_key",
    "secret-key",
    "secret key",
];
/// A value of such a name is a secret from this length, if it has letters and digits.
const VALUE_CHARS: usize = 8;
/// Names that also speak of code: what follows may be the ID of a commit.
const NAMES_BEFORE_COMMITS: [&str; 2] = ["token", "pass"];

/// Returns what in a text looks like a secret, or is one of this program. Such a text is not kept for
/// later sessions.
///
/// ```
/// use deputize_core::sanitize::Secrets;
/// use deputize_tools::secret_in;
///
/// let found = secret_in("password = hunter2022", &Secrets::default());
/// assert_eq!(found.as_deref(), Some("a value of `password`"));
/// assert_eq!(secret_in("Ask for the password.", &Secrets::default()), None);
/// ```
#[must_use]
pub fn secret_in(text: &str, known: &Secrets) -> Option<String> {
    // What a model writes comes with masks in place of the values.
    if text.contains(Secrets::MASK) || known.scrub(text) != text {
        return Some("a key of this program".to_owned());
    }
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY") {
        return Some("a private key".to_owned());
    }
    if let Some(beginning) = key_in(text) {
        return Some(format!("a key that begins with `{beginning}`"));
    }
    if text.split_whitespace().any(is_url_with_password) {
        return Some("an address with a password".to_owned());
    }
    let named = named_value(text).or_else(|| has_bearer_token(text).then_some("Bearer"));
    named.map(|name| format!("a value of `{name}`"))
}

/// Whether a text has a token as headers have it, behind `Bearer`.
fn has_bearer_token(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let [scheme, token] = pair else { return false };
        let has = |kind: fn(&u8) -> bool| token.as_bytes().iter().any(kind);
        scheme.trim_start_matches(['"', '\'', '`']).eq_ignore_ascii_case("bearer")
            && token.len() >= KEY_CHARS
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
    })
}

fn key_in(text: &str) -> Option<&'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut words = text.split(|c| !is_part(c)).filter(|word| word.len() >= KEY_CHARS);
    words.find_map(|word| {
        let is_key = |start: &&str| {
            let rest = word.strip_prefix(*start);
            // The names of settings have neither.
            rest.is_some_and(|rest| rest.contains(|c: char| c.is_ascii_digit() || c.is_uppercase()))
        };
        let beginning = KEY_BEGINNINGS.into_iter().find(is_key);
        beginning.or_else(|| is_web_token(word).then_some("eyJ"))
    })
}

/// Whether a word is a JSON Web Token: three parts, of which the first two are objects in Base64.
fn is_web_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    matches!(parts.as_slice(), [head, body, _] if head.starts_with("eyJ") && body.starts_with("eyJ"))
}

fn is_url_with_password(word: &str) -> bool {
    let authority = word.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    let person = authority.and_then(|authority| authority.rsplit_once('@'));
    person.and_then(|(person, _)| person.split_once(':')).is_some_and(|(_, word)| !word.is_empty())
}

/// Returns the name of a secret that is followed by a value: behind `=`, `:` or `is`, or one that
/// looks like a key behind a blank.
fn named_value(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    NAMES.into_iter().find(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let (before, rest) = (lower.get(..at), lower.get(at + name.len()..));
            // A bypass is none.
            let is_word = !before.unwrap_or_default().ends_with(|c: char| c.is_alphanumeric());
            let may_name_commit = NAMES_BEFORE_COMMITS.contains(name);
            (is_word || *name != "pass") && has_value(rest.unwrap_or_default(), may_name_commit)
        })
    })
}

/// Whether a text begins with the value of the name before it. Behind a blank alone, a word that may be
/// the ID of a commit is none if `may_name_commit`.
fn has_value(rest: &str, may_name_commit: bool) -> bool {
    let quotes = ['"', '\'', '`'];
    let rest = rest.trim_start_matches(quotes);
    let words = rest.trim_start();
    let marked = words.strip_prefix(['=', ':']).or_else(|| words.strip_prefix("is "));
    if marked.is_none() && !rest.starts_with(char::is_whitespace) {
        return false;
    }
    let value = marked.unwrap_or(words).trim_start().trim_start_matches(quotes);
    let value = value.split(|c: char| c.is_whitespace() || "\"'`,;".contains(c)).next();
    value.is_some_and(|value| {
        let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
        let is_key = value.len() >= KEY_CHARS
            && value.bytes().all(|b| b.is_ascii_alphanumeric())
            && !(may_name_commit && is_commit_id(value));
        (is_key || marked.is_some() && value.len() >= VALUE_CHARS)
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
            && !value.contains("://")
    })
}

/// Whether a word may be the ID of a commit, whole or shortened.
fn is_commit_id(word: &str) -> bool {
    (7..=40).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `secret` or `plain`, a blank, and a text.
    const CORPUS: &str = include_str!("../tests/secrets.txt");

    #[test]
    fn every_row_of_the_corpus_is_judged_as_it_says() {
        let rows: Vec<_> = CORPUS.lines().filter_map(|row| row.split_once(' ')).collect();
        for (wanted, text) in &rows {
            // The rows hold no whole key, so that no scanner takes them for real ones.
            let text = text.replace('~', "");
            let found = secret_in(&text, &Secrets::default());
            assert_eq!(found.is_some(), *wanted == "secret", "{text}: {found:?}");
        }
        println!("{} texts", rows.len());
        assert!(rows.len() > 60, "{}", rows.len());
    }
}
