//! What a server says of a failure, by HTTP status or inside a reply, and what it means.

use std::fmt;
use std::time::Duration;

use deputize_core::model::{FailureKind, RawCall};
use deputize_core::truncate::truncate_bytes;

use crate::json::{Json, Members};
use crate::limits::UNREADABLE_CALL_BYTES;
use crate::line::{page_title, truncate_to_line};
use crate::retry_after;

/// A failure in a server's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerError {
    /// The HTTP status, of the answer or as named inside a reply.
    pub status: Option<u16>,
    /// Its code or type, such as `context_length_exceeded`; may be empty.
    pub code: String,
    /// Its words, on one line; may be empty.
    pub message: String,
    /// The requested wait, if any.
    pub retry_after: Option<Duration>,
    /// Whether it says itself that the request is worth another try.
    pub should_retry: Option<bool>,
    /// What the model wrote where it meant to call a tool, if the server could not read that.
    pub failed_generation: Option<String>,
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
const CODES: [(&str, u16); 32] = [
    ("rate_limit_exceeded", 429),
    ("rate_limit_error", 429),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("toomanyrequests", 429),
    ("resource_exhausted", 429),
    ("overloaded_error", 529),
    ("api_error", 500),
    ("timeout_error", 504),
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
    ("usage_limit_reached", 402),
    ("usage_not_included", 402),
    ("permission_denied", 403),
    ("permission_error", 403),
    ("model_not_found", 404),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("invalid_request_error", 400),
    ("invalid_prompt", 400),
    ("invalid_encrypted_content", 400),
    ("badrequesterror", 400),
    ("bad_request", 400),
];

/// The code of a call that the server could not read, as Groq has it.
pub(crate) const UNREADABLE_CALL: &str = "tool_use_failed";

const CONTEXT_CODES: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    "model_context_window_exceeded",
];

const CONTEXT_WORDS: [&str; 26] = [
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
    "longer than the maximum model length",
    "longer than the model's context length",
    "greater than the context length",
    "context length of only",
    "context the overflows",
    "maximum prompt length",
    "prompt token count of",
    "prompt exceeds max length",
    "exceeded model token limit",
    "`inputs` must have less than",
    "tokens + `max_new_tokens` must be",
    "range of input length should be",
];

/// What servers say that count tokens by the minute of a request that alone has more than that.
const LARGER_THAN_A_MINUTE: &str = "request too large for";

const QUOTA_WORDS: [&str; 6] = [
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credit",
    "credit balance",
    "out of credits",
];

/// Words about money that some servers say in the status of a wrong request.
const BILLED_WORDS: [&str; 2] = ["credit balance is too low", "api usage limits"];

impl ServerError {
    /// Reads the body of an answer with a failure status. `waits` is the time that its headers ask
    /// to wait.
    #[must_use]
    pub fn of_answer(status: u16, body: &str, waits: Option<Duration>) -> Self {
        let text = body.trim();
        let value = crate::json::parse(text).map(|json| json.value).ok();
        let value = value.map(|value| match value {
            Json::Array(items) => items.into_iter().next().unwrap_or_default(),
            other => other,
        });
        let reported = value.as_ref().filter(|value| value.is_object()).map(|value| {
            let error = value.get("error").filter(|error| !error.is_null());
            Self::of_value(error.or_else(|| value.get("detail")).unwrap_or(value))
        });
        let mut error = reported.unwrap_or_else(|| Self::words(text));
        if error.message.is_empty() && !text.starts_with('<') {
            error.message = truncate_to_line(text);
        }
        error.status = Some(status);
        error.retry_after = waits.or(error.retry_after);
        error
    }

    /// From bare text.
    pub(crate) fn words(text: &str) -> Self {
        let message = if text.trim_start().starts_with('<') {
            page_title(text)
        } else {
            truncate_to_line(text)
        };
        let retry_after = retry_after::from_words(&message);
        Self { message, retry_after, ..Self::default() }
    }

    /// From an error object inside a reply, or the words in its place.
    pub(crate) fn of_value(value: &Json<'_>) -> Self {
        let Json::Object(error) = value else {
            return match value {
                Json::String(words) => Self::words(words),
                other => Self::words(&other.to_string()),
            };
        };
        let word = |key: &str| error.get(key).and_then(Json::as_str).filter(|it| !it.is_empty());
        let number = |key: &str| {
            let status = error.get(key).and_then(Json::as_u64);
            let status = status.or_else(|| word(key).and_then(|word| word.parse().ok()));
            status.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n))
        };
        let words = word("message").or_else(|| word("detail")).or_else(|| word("msg"));
        let mut message = words.map(truncate_to_line).unwrap_or_default();
        let upstream = error.get("metadata").and_then(|it| it.get("raw")).and_then(Json::as_str);
        if let Some(upstream) = upstream {
            message = format!("{message}: {}", truncate_to_line(upstream));
        }
        let code = word("code").filter(|code| code.parse::<u64>().is_err());
        let kind = word("type").filter(|kind| *kind != "error");
        let code = code.or(kind).or_else(|| word("status")).unwrap_or_default();
        Self {
            status: number("code").or_else(|| number("status")).or_else(|| number("status_code")),
            retry_after: waits(error).or_else(|| retry_after::from_words(&message)),
            code: truncate_to_line(code),
            message,
            should_retry: None,
            failed_generation: word("failed_generation").map(str::to_owned),
        }
    }

    /// Extracts the error from the start of a body, if it reports a call that the server could not
    /// parse: the code and the part of the call.
    pub(crate) fn of_cut_call(status: u16, body: &str) -> Option<Self> {
        if !body.contains(UNREADABLE_CALL) {
            return None;
        }
        let written = body.split_once("\"failed_generation\"");
        let written = written.and_then(|(_, rest)| rest.split_once('"')).map(|(_, rest)| rest);
        Some(Self {
            status: Some(status),
            code: UNREADABLE_CALL.to_owned(),
            failed_generation: written.map(str::to_owned),
            ..Self::default()
        })
    }

    /// Returns the call that the model meant to make, where the server could not read it: without
    /// a name, so that no tool runs, and with the server's words, from which the model learns what
    /// was wrong.
    pub(crate) fn unreadable_call(&self) -> Option<RawCall> {
        if self.code != UNREADABLE_CALL {
            return None;
        }
        let written = self.failed_generation.as_deref().unwrap_or_default();
        let written = truncate_bytes(written, UNREADABLE_CALL_BYTES);
        let parts = [self.message.as_str(), written];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(RawCall { name: String::new(), arguments: parts.join(" | ") })
    }

    /// Returns the failure that a part of a reply reports, if any.
    pub(crate) fn within(value: &Json<'_>) -> Option<Self> {
        let is_reported = |error: &&Json<'_>| match error {
            Json::Null | Json::Bool(false) => false,
            Json::String(words) => !words.is_empty(),
            Json::Object(members) => !members.is_empty(),
            Json::Bool(true) | Json::Number(_) | Json::Array(_) => true,
        };
        if let Some(error) = value.get("error").filter(is_reported) {
            return Some(Self::of_value(error));
        }
        let is_one = value.get("object").and_then(Json::as_str) == Some("error");
        is_one.then(|| Self::of_value(value))
    }

    /// From the data of an event that is named an error.
    pub(crate) fn of_event(data: &str) -> Self {
        let value = crate::json::parse(data).map(|json| json.value).ok();
        let value = value.filter(Json::is_object);
        let reported =
            value.map(|value| Self::within(&value).unwrap_or_else(|| Self::of_value(&value)));
        reported.unwrap_or_else(|| Self::words(data))
    }

    /// The status, or the one that the code stands for. Some servers tell with the status of
    /// any wrong request what others have one for.
    pub(crate) fn meaning(&self) -> Option<u16> {
        let code = self.code.to_ascii_lowercase();
        let coded = CODES.iter().find(|(word, _)| *word == code).map(|(_, n)| *n);
        let more_precise =
            coded.filter(|coded| self.status == Some(400) && (401..=404).contains(coded));
        more_precise.or(self.status).or(coded)
    }

    fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    fn is_context_overflow(&self) -> bool {
        let judged = matches!(self.meaning(), None | Some(400 | 413 | 422 | 500));
        let coded = CONTEXT_CODES.contains(&self.code.as_str());
        let always = self.meaning() == Some(429) && self.says(&[LARGER_THAN_A_MINUTE]);
        always || judged && (coded || self.says(&CONTEXT_WORDS) || self.meaning() == Some(413))
    }

    /// Returns whether it speaks of money rather than of speed.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        let code = self.code.to_ascii_lowercase();
        let coded = CODES.iter().any(|(word, status)| *status == 402 && *word == code);
        let limited = matches!(self.meaning(), Some(402 | 429) | None);
        // Some servers use the same words for a limit that heals, but then say when.
        let said = self.says(&QUOTA_WORDS) && self.retry_after.is_none();
        let billed = matches!(self.meaning(), Some(400 | 403 | 429)) && self.says(&BILLED_WORDS);
        coded || self.status == Some(402) || (limited && said) || billed
    }

    /// Whether a code that is not known says that the request itself is wrong.
    fn blames_the_request(&self) -> bool {
        let code = self.code.to_ascii_lowercase();
        ["policy", "invalid", "unsupported"].iter().any(|word| code.contains(word))
    }

    /// Whether its status is that of a request that is wrong in itself.
    fn is_fatal(&self) -> bool {
        let other = [401, 402, 403, 404, 405, 407, 408, 409, 410, 425, 429];
        self.meaning().is_some_and(|n| (400..500).contains(&n) && !other.contains(&n))
    }

    /// Returns what kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        if self.is_quota() {
            return FailureKind::Unavailable;
        }
        if self.is_context_overflow() {
            return FailureKind::ContextOverflow;
        }
        // The provider is well, and the reply is of no use: the model may make another.
        if self.code == UNREADABLE_CALL {
            return FailureKind::Incomplete;
        }
        match self.meaning() {
            Some(_) if self.should_retry == Some(true) && self.is_fatal() => FailureKind::Transient,
            Some(300..=399 | 401 | 402 | 403 | 404 | 405 | 407 | 410) => FailureKind::Unavailable,
            None if self.blames_the_request() => FailureKind::Fatal,
            Some(408 | 409 | 425 | 429 | 500..) | None => FailureKind::Transient,
            Some(_) => FailureKind::Fatal,
        }
    }
}

/// Returns the wait that an error requests in a field of its own.
fn waits(error: &Members<'_>) -> Option<Duration> {
    let within = |key: &str| error.get("metadata").and_then(|it| it.get(key));
    let number = |key: &str| error.get(key).or_else(|| within(key)).and_then(Json::as_f64);
    let seconds = ["retry_after", "retry_after_seconds"].into_iter().find_map(number);
    let seconds = number("retry_after_ms").map(|ms| ms / 1000.0).or(seconds)?;
    retry_after::seconds(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> String {
        let error = ServerError::of_answer(status, body, None);
        format!("{:?} | {error}", error.kind())
    }

    #[test]
    fn a_code_that_blames_the_request_is_not_tried_again() {
        let kind =
            |code: &str| ServerError::of_value(&serde_json::json!({"code": code}).into()).kind();
        for code in ["content_policy_violation", "invalid_image_format", "unsupported_value"] {
            assert_eq!(kind(code), FailureKind::Fatal, "{code}");
        }
        assert_eq!(kind("vector_store_timeout"), FailureKind::Transient);
    }

    #[test]
    fn what_servers_say_is_understood() {
        let rows: [(u16, &str); 23] = [
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
            // As llama-server says it, in all three formats.
            (
                400,
                r#"{"error":{"code":400,"message":"request (354 tokens) exceeds the available context size (256 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":354,"n_ctx":256}}"#,
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
    fn a_conversation_that_is_too_long_is_known_in_each_servers_words() {
        let rows: [(u16, &str); 11] = [
            (
                400,
                r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"The input (40017 tokens) is longer than the model's context length (32768 tokens).","type":"BadRequestError","code":400}"#,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`","error_type":"validation"}"#,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` must have less than 4095 tokens. Given: 5000","error_type":"validation"}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144","type":"invalid_request_error"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"prompt token count of 135021 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
            ),
            (
                500,
                r#"{"error":"Trying to keep the first 6241 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
            ),
            (400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#),
            (
                400,
                r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 129024]"}}"#,
            ),
            // More than the account has for a minute, so that no wait is long enough.
            (
                429,
                r#"{"error":{"message":"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ),
            (
                413,
                r#"{"error":{"message":"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 12000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ),
        ];
        for (status, body) in rows {
            assert!(kind(status, body).starts_with("ContextOverflow | "), "{status} {body}");
        }
        let later = r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 20000, Requested 15000. Please try again in 10s.","type":"tokens","code":"rate_limit_exceeded"}}"#;
        assert!(kind(429, later).starts_with("Transient | "), "{}", kind(429, later));
    }

    #[test]
    fn what_messages_servers_say_is_understood() {
        let rows: [(u16, &str); 8] = [
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"},"request_id":"req_1"}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}"#,
            ),
            (
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit of 40,000 input tokens per minute."}}"#,
            ),
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            ),
            (404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: m-1"}}"#),
            (
                500,
                r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#,
            ),
        ];
        let lines: Vec<String> = rows.iter().map(|(status, body)| kind(*status, body)).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn an_error_inside_a_reply_is_taken_by_its_code() {
        use serde_json::json;
        let kind = |json: serde_json::Value| ServerError::of_value(&json.into()).kind();
        assert_eq!(kind(json!({"code": "429", "message": "x"})), FailureKind::Transient);
        assert_eq!(kind(json!({"code": 401, "message": "x"})), FailureKind::Unavailable);
        assert_eq!(kind(json!({"type": "invalid_request_error"})), FailureKind::Fatal);
        assert_eq!(kind(json!("upstream died")), FailureKind::Transient);
        assert_eq!(kind(json!({"code": 99_999, "message": "x"})), FailureKind::Transient);
        assert_eq!(kind(json!({"message": "prompt is too long"})), FailureKind::ContextOverflow);
        assert_eq!(kind(json!([1])), FailureKind::Transient);
        for (code, expected) in [
            ("overloaded_error", FailureKind::Transient),
            ("api_error", FailureKind::Transient),
            ("timeout_error", FailureKind::Transient),
            ("rate_limit_error", FailureKind::Transient),
            ("billing_error", FailureKind::Unavailable),
            ("authentication_error", FailureKind::Unavailable),
            ("permission_error", FailureKind::Unavailable),
            ("not_found_error", FailureKind::Unavailable),
            ("request_too_large", FailureKind::ContextOverflow),
            ("model_context_window_exceeded", FailureKind::ContextOverflow),
            ("invalid_request_error", FailureKind::Fatal),
        ] {
            assert_eq!(kind(json!({"type": code, "message": "x"})), expected, "{code}");
        }
    }

    #[test]
    fn a_code_says_more_than_the_status_of_any_wrong_request() {
        let error = |code: &str| format!(r#"{{"error":{{"message":"x","code":"{code}"}}}}"#);
        assert_eq!(
            kind(400, &error("model_not_found")),
            "Unavailable | HTTP 400 `model_not_found`: x"
        );
        assert_eq!(kind(400, &error("invalid_prompt")), "Fatal | HTTP 400 `invalid_prompt`: x");
        assert_eq!(
            kind(500, &error("model_not_found")),
            "Transient | HTTP 500 `model_not_found`: x"
        );
    }

    #[test]
    fn a_call_that_the_server_cannot_read_is_given_back_and_names_no_tool() {
        let failure_of = |message: &str, written: &str| {
            let error = serde_json::json!({"message": message, "type": "invalid_request_error",
                "code": "tool_use_failed", "failed_generation": written});
            ServerError::of_answer(400, &serde_json::json!({ "error": error }).to_string(), None)
        };
        let call = failure_of("Missing 'path'.", "<function=f>{}").unreadable_call().unwrap();
        assert_eq!(
            call,
            RawCall { name: String::new(), arguments: "Missing 'path'. | <function=f>{}".into() }
        );
        let long = failure_of("x", &"é".repeat(UNREADABLE_CALL_BYTES)).unreadable_call().unwrap();
        assert!(long.arguments.len() <= UNREADABLE_CALL_BYTES + 4);
        let cut = r#"{"error":{"code":"tool_use_failed","failed_generation":"<function=f>{\"a"#;
        let cut = ServerError::of_cut_call(400, cut).unwrap().unreadable_call().unwrap();
        assert_eq!(cut.arguments, r#"<function=f>{\"a"#);
        assert_eq!(ServerError::of_cut_call(400, "{\"error\":{"), None);
        assert_eq!(ServerError::words("tool_use_failed").unreadable_call(), None);
    }

    #[test]
    fn a_server_may_say_that_another_try_is_worth_it() {
        let kind = |status, should_retry| {
            let error = ServerError::of_answer(status, "", None);
            ServerError { should_retry, ..error }.kind()
        };
        assert_eq!(kind(400, Some(true)), FailureKind::Transient);
        assert_eq!(kind(400, None), FailureKind::Fatal);
        assert_eq!(kind(401, Some(true)), FailureKind::Unavailable);
        assert_eq!(kind(429, Some(false)), FailureKind::Transient);
    }

    #[test]
    fn an_error_may_say_when_to_come_again() {
        use serde_json::json;
        let waits = |json: serde_json::Value| ServerError::of_value(&json.into()).retry_after;
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(waits(json!({"retry_after": 7})), seconds(7));
        assert_eq!(waits(json!({"retry_after_ms": 3000, "retry_after": 7})), seconds(3));
        assert_eq!(waits(json!({"metadata": {"retry_after_seconds": 9.0}})), seconds(9));
        assert_eq!(waits(json!({"retry_after": -1, "message": "try again in 2s"})), seconds(2));
        assert_eq!(waits(json!({"retry_after": 1e300})), Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn a_long_upstream_text_is_cut_and_said() {
        let raw = "y".repeat(2000);
        let json = serde_json::json!({"message": "Provider returned error", "code": 502, "metadata": {"raw": raw}});
        let error = ServerError::of_value(&json.into()).to_string();
        assert!(error.starts_with("HTTP 502: Provider returned error: yyy"));
        assert!(error.ends_with("(1500 more characters)"));
    }
}
