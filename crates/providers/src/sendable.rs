//! What a model wrote, as servers take it back.

use serde_json::Value;
use serde_json::value::RawValue;

/// A name as servers accept it. The model may have written any text, and one bad name in the
/// past would make the server refuse every request that follows.
pub(crate) fn name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Arguments as servers accept them: several read them back as a JSON object and fail on
/// anything else. What was wrong with them is in the call's result.
pub(crate) fn arguments(arguments: &str) -> &str {
    let raw = serde_json::from_str::<&RawValue>(arguments);
    let is_object = raw.is_ok_and(|raw| raw.get().starts_with('{'));
    // Half of a character passes as an escape, but servers cannot read it.
    let whole = || !arguments.contains("\\u") || serde_json::from_str::<Value>(arguments).is_ok();
    if is_object && whole() { arguments } else { "{}" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_model_wrote_can_be_sent() {
        assert_eq!(name("read_file"), "read_file");
        assert_eq!(name("no tool, é!"), "no_tool____");
        assert_eq!(name(""), "_");
        assert_eq!(name(&"n".repeat(100)).len(), 64);
        for bad in ["", "{", "[]", "1", "null", "{} {}", "\u{0}", r#"{"a":"\ud83d"}"#] {
            assert_eq!(arguments(bad), "{}", "{bad:?}");
        }
        let escaped = r#"{"a":"\ud83d\ude00"}"#;
        assert_eq!(arguments(escaped), escaped, "a whole pair");
        let spaced = "{ \"a\": 1 }";
        assert_eq!(arguments(spaced), spaced, "good ones stay as they are");
    }
}
