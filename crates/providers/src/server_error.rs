//! What a server says of a failure, by HTTP status or inside a reply, and what it means.

use std::fmt;
use std::time::Duration;

use deputize_core::FailureKind;
use serde_json::Value;

use crate::line::{page_title, shown};
use crate::retry_after;

/// A failure in a server's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The HTTP status, of the answer or as named inside a reply.
    pub status: Option<u16>,
    /// Its code or type, such as `context_length_exceeded`; may be empty.
    pub code: String,
    /// Its words, on one line; may be empty.
    pub message: String,
    /// How long to wait, if it says so.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.map(|status| format!("HTTP {status}"));
        let code = (!self.code.is_empty()).then(|| format!("`{}`", self.code));
        let head: Vec<String> = status.into_iter().chain(code).collect();
        match (head.is_empty(), self.message.is_empty()) {
            (true, true) => f.write_str("an error without words"),
            (true, false) => f.write_str(&self.message),
            (false, true) => f.write_str(&head.join(" ")),
            (false, false) => write!(f, "{}: {}", head.join(" "), self.message),
        }
    }
}

/// Codes and types that say the same as a status.
const CODES: [(&str, u16); 25] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("toomanyrequests", 429),
    ("resource_exhausted", 429),
    ("timeout", 408),
    ("request_timeout", 408),
    ("invalid_api_key", 401),
    ("authentication_error", 401),
    ("unauthorized", 401),
    ("unauthenticated", 401),
    ("insufficient_quota", 402),
    ("insufficient_balance", 402),
    ("insufficient_credits", 402),
    ("billing_hard_limit_reached", 402),
    ("billing_error", 402),
    ("permission_denied", 403),
    ("permission_error", 403),
    ("model_not_found", 404),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("invalid_request_error", 400),
    ("badrequesterror", 400),
    ("bad_request", 400),
];

const CONTEXT_CODES: [&str; 3] =
    ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"];

const CONTEXT_WORDS: [&str; 14] = [
    "maximum context length",
    "context length exceeded",
    "context_length_exceeded",
    "exceeds the context",
    "exceeded the context",
    "exceed context",
    "exceeds the available context",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "reduce the length of",
    "exceeds the maximum number of tokens",
];

const QUOTA_WORDS: [&str; 6] = [
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credit",
    "credit balance",
    "out of credits",
];

impl ServerError {
    /// From the body of an answer with a failure status. `waits` is what its headers say.
    #[must_use]
    pub fn of_answer(status: u16, body: &str, waits: Option<Duration>) -> Self {
        let text = body.trim();
        let value = crate::json::parse(text).map(|json| json.value).ok();
        let value = value.map(|value| match value {
            Value::Array(items) => items.into_iter().next().unwrap_or_default(),
            other => other,
        });
        let told = value.as_ref().and_then(Value::as_object).map(|object| {
            let error = object.get("error").filter(|error| !error.is_null());
            let error = error.or_else(|| object.get("detail"));
            Self::of_value(error.unwrap_or(&Value::Object(object.clone())))
        });
        let mut error = told.unwrap_or_else(|| Self::words(text));
        if error.message.is_empty() && !text.starts_with('<') {
            error.message = shown(text);
        }
        error.status = Some(status);
        error.retry_after = waits.or(error.retry_after);
        error
    }

    /// From bare text.
    pub(crate) fn words(text: &str) -> Self {
        let message =
            if text.trim_start().starts_with('<') { page_title(text) } else { shown(text) };
        let retry_after = retry_after::from_words(&message);
        Self { status: None, code: String::new(), message, retry_after }
    }

    /// From an error object inside a reply, or the words in its place.
    pub(crate) fn of_value(value: &Value) -> Self {
        let Value::Object(error) = value else {
            return match value {
                Value::String(words) => Self::words(words),
                other => Self::words(&other.to_string()),
            };
        };
        let word = |key: &str| error.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
        let number = |key: &str| {
            let status = error.get(key).and_then(Value::as_u64);
            let status = status.or_else(|| word(key).and_then(|word| word.parse().ok()));
            status.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n))
        };
        let words = word("message").or_else(|| word("detail")).or_else(|| word("msg"));
        let mut message = words.map(shown).unwrap_or_default();
        let upstream = error.get("metadata").and_then(|it| it.get("raw")).and_then(Value::as_str);
        if let Some(upstream) = upstream {
            message = format!("{message}: {}", shown(upstream));
        }
        let code = word("code").filter(|code| code.parse::<u64>().is_err());
        let code = code.or_else(|| word("type")).or_else(|| word("status")).unwrap_or_default();
        Self {
            status: number("code").or_else(|| number("status")).or_else(|| number("status_code")),
            retry_after: retry_after::from_words(&message),
            code: shown(code),
            message,
        }
    }

    /// The status, or the one that the code stands for.
    fn meaning(&self) -> Option<u16> {
        let code = self.code.to_ascii_lowercase();
        self.status.or_else(|| CODES.iter().find(|(word, _)| *word == code).map(|(_, n)| *n))
    }

    fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    fn is_context_overflow(&self) -> bool {
        let judged = matches!(self.meaning(), None | Some(400 | 413 | 422 | 500));
        let coded = CONTEXT_CODES.contains(&self.code.as_str());
        judged && (coded || self.says(&CONTEXT_WORDS) || self.meaning() == Some(413))
    }

    /// Whether it speaks of money rather than of speed.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        let code = self.code.to_ascii_lowercase();
        let coded = CODES.iter().any(|(word, status)| *status == 402 && *word == code);
        let limited = matches!(self.meaning(), Some(402 | 429) | None);
        // Some servers use the same words for a limit that heals, but then say when.
        let said = self.says(&QUOTA_WORDS) && self.retry_after.is_none();
        coded || self.status == Some(402) || (limited && said)
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        if self.is_quota() {
            return FailureKind::Unavailable;
        }
        if self.is_context_overflow() {
            return FailureKind::ContextOverflow;
        }
        match self.meaning() {
            Some(300..=399 | 401 | 402 | 403 | 404 | 405 | 407 | 410) => FailureKind::Unavailable,
            Some(408 | 409 | 425 | 429 | 500..) | None => FailureKind::Transient,
            Some(_) => FailureKind::Fatal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> String {
        let error = ServerError::of_answer(status, body, None);
        format!("{:?} | {error}", error.kind())
    }

    #[test]
    fn what_servers_say_is_understood() {
        let rows: [(u16, &str); 22] = [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error","code":400}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"too many tokens in prompt","type":"BadRequestError","code":400}"#,
            ),
            (413, ""),
            (
                400,
                r#"{"error":{"message":"bad tool schema","type":"invalid_request_error","param":"tools"}}"#,
            ),
            (422, r#"{"detail":[{"loc":["body","model"],"msg":"field required"}]}"#),
            (401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#),
            (403, "Forbidden"),
            (404, r#"{"error":"model 'x' not found"}"#),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached. Please try again in 1m2.5s.","code":"rate_limit_exceeded"}}"#,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"exceeded your current quota, please retry in 7s","status":"RESOURCE_EXHAUSTED"}}]"#,
            ),
            (408, ""),
            (409, "{}"),
            (425, "null"),
            (500, r#"{"error":{"message":"boom"}}"#),
            (502, "<html><head><title>502 Bad Gateway</title></head><body>…</body></html>"),
            (503, r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#),
            (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            (301, ""),
            (418, "\u{1b}[31mI am a\n\nteapot"),
        ];
        let lines: Vec<String> = rows.iter().map(|(status, body)| kind(*status, body)).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn an_error_inside_a_reply_is_taken_by_its_code() {
        use serde_json::json;
        let kind = |json: Value| ServerError::of_value(&json).kind();
        assert_eq!(kind(json!({"code": "429", "message": "x"})), FailureKind::Transient);
        assert_eq!(kind(json!({"code": 401, "message": "x"})), FailureKind::Unavailable);
        assert_eq!(kind(json!({"type": "invalid_request_error"})), FailureKind::Fatal);
        assert_eq!(kind(json!("upstream died")), FailureKind::Transient);
        assert_eq!(kind(json!({"code": 99_999, "message": "x"})), FailureKind::Transient);
        assert_eq!(kind(json!({"message": "prompt is too long"})), FailureKind::ContextOverflow);
        assert_eq!(kind(json!([1])), FailureKind::Transient);
    }

    #[test]
    fn a_long_upstream_text_is_cut_and_said() {
        let raw = "y".repeat(2000);
        let json = serde_json::json!({"message": "Provider returned error", "code": 502, "metadata": {"raw": raw}});
        let error = ServerError::of_value(&json).to_string();
        assert!(error.starts_with("HTTP 502: Provider returned error: yyy"));
        assert!(error.ends_with("(1500 more characters)"));
    }
}
