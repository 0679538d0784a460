//! From an effort to the fields that ask for it; the front page of the wire has the table.

use serde_json::{Value, json};

/// The least budget that servers take.
const LEAST_BUDGET: u64 = 1024;

/// The first version whose models decide themselves how much they think.
const FIRST_ADAPTIVE: ClaudeVersion = ClaudeVersion { major: 4, minor: 6 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClaudeVersion {
    major: u32,
    minor: u32,
}

/// Fields of a request body. `max_tokens` bounds what may be thought.
pub(super) fn fields(model: &str, effort: &str, max_tokens: u64) -> Vec<(&'static str, Value)> {
    match claude_version(model) {
        Some(version) if version >= FIRST_ADAPTIVE => adaptive(effort, version),
        _ => budget(effort, max_tokens),
    }
}

fn adaptive(effort: &str, version: ClaudeVersion) -> Vec<(&'static str, Value)> {
    let level = match effort {
        "none" | "minimal" => "low",
        "xhigh" if version == FIRST_ADAPTIVE => "max",
        level => level,
    };
    let mut fields = vec![("output_config", json!({ "effort": level }))];
    if effort != "none" {
        // Newer models leave the words of their thinking out unless asked.
        fields.push(("thinking", json!({"type": "adaptive", "display": "summarized"})));
    }
    fields
}

fn budget(effort: &str, max_tokens: u64) -> Vec<(&'static str, Value)> {
    let tokens = match effort {
        "none" => return vec![("thinking", json!({"type": "disabled"}))],
        "minimal" => LEAST_BUDGET,
        "low" => 4096,
        "medium" => 8192,
        "high" => 16_384,
        "xhigh" | "max" => 24_000,
        _ => return Vec::new(),
    };
    let tokens = tokens.min(max_tokens.saturating_sub(max_tokens / 4));
    if tokens < LEAST_BUDGET {
        return Vec::new();
    }
    vec![("thinking", json!({"type": "enabled", "budget_tokens": tokens}))]
}

/// The version in the name of a Claude model, as `claude-sonnet-4-6`, `claude-3-7-sonnet-DATE`,
/// `anthropic/claude-opus-4.6` or `anthropic.claude-opus-4-6-v1:0` have it. A name without one
/// is of a new model.
fn claude_version(model: &str) -> Option<ClaudeVersion> {
    let (_, name) = model.split_once("claude")?;
    let number =
        |word: &str| -> Option<u32> { (word.len() <= 2).then(|| word.parse().ok()).flatten() };
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let Some(major) = words.by_ref().find_map(number) else {
        return Some(ClaudeVersion { major: u32::MAX, minor: 0 });
    };
    let minor = words.next().and_then(number).unwrap_or(0);
    Some(ClaudeVersion { major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        let versions = [
            ("claude-sonnet-4-6", (4, 6)),
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-opus-4-20250514", (4, 0)),
            ("claude-haiku-4-5@20251001", (4, 5)),
            ("anthropic/claude-opus-4.6", (4, 6)),
            ("us.anthropic.claude-opus-4-6-v1:0", (4, 6)),
            ("anthropic.claude-opus-4-20250514-v1:0", (4, 0)),
            ("claude-opus-5", (5, 0)),
            ("claude-fable-5-1", (5, 1)),
            ("claude-preview", (u32::MAX, 0)),
        ];
        for (name, (major, minor)) in versions {
            assert_eq!(claude_version(name), Some(ClaudeVersion { major, minor }), "{name}");
        }
        assert_eq!(claude_version("deepseek-chat"), None);
    }

    #[test]
    fn each_model_gets_its_own_form_of_each_effort() {
        let mut rows = String::new();
        for model in ["claude-opus-5", "claude-opus-4-6", "claude-haiku-4-5", "qwen3"] {
            for effort in ["none", "minimal", "low", "medium", "high", "xhigh"] {
                let fields: serde_json::Map<_, _> = fields(model, effort, 32_000)
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect();
                rows += &format!("{model} {effort}: {}\n", Value::Object(fields));
            }
        }
        insta::assert_snapshot!(rows);
    }

    #[test]
    fn a_budget_stays_below_the_output_limit_or_is_none() {
        let budget = |max| {
            let fields = budget("xhigh", max);
            fields.first().map(|(_, value)| value["budget_tokens"].as_u64().unwrap())
        };
        assert_eq!(budget(64_000), Some(24_000));
        assert_eq!(budget(8000), Some(6000));
        assert_eq!(budget(1366), Some(1025));
        assert_eq!(budget(1300), None);
        assert_eq!(budget(0), None);
    }
}
