//! Messages of a server as JSON, also where they are not quite JSON.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde_json::{Value, json};

/// The code of the error that stands in place of an answer that cannot be read. A server that sends
/// it says no more than that.
pub(crate) const UNREADABLE: i32 = i32::MIN;

/// Maximum nesting of an answer: the parser's limit.
const DEPTH: usize = 127;

/// Parses JSON, without a byte order mark, and with U+FFFD for each lone surrogate, which some
/// programs write where they cut a text.
pub(crate) fn read(text: &str) -> Option<Value> {
    let text = bare(text);
    let mended = || serde_json::from_str(&with_whole_escapes(text)?).ok();
    serde_json::from_str(text).ok().or_else(mended)
}

/// The same text where it is JSON, or what it should have been; of an answer that is none, an error
/// that says so to whoever asked.
pub(crate) fn mended(text: &str) -> Option<Cow<'_, str>> {
    // What only skips a value does not look at its escapes.
    if serde_json::from_str::<Value>(text).is_ok() {
        return Some(Cow::Borrowed(text));
    }
    read(text).or_else(|| no_json(text)).map(|value| Cow::Owned(value.to_string()))
}

/// Returns a substitute for an answer that is not JSON, or is too deep; `None` if it does not name
/// its request.
pub(crate) fn no_json(text: &str) -> Option<Value> {
    let (id, depth) = answers(bare(text))?;
    if depth > DEPTH {
        return Some(unreadable(&id, &format!("the answer is nested more than {DEPTH} deep")));
    }
    Some(unreadable(&id, "the answer is no JSON"))
}

/// Returns a substitute for an answer that cannot be read.
pub(crate) fn unreadable(id: &Value, why: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": UNREADABLE, "message": why}})
}

/// An error of the protocol as the answer to a request, whatever request it names.
pub(crate) fn as_answer(error: ErrorData, id: &RequestId) -> rmcp::model::ServerJsonRpcMessage {
    rmcp::model::ServerJsonRpcMessage::error(error, Some(id.clone()))
}

/// An error of the protocol in an answer, and which request it names.
pub(crate) fn error_in(answer: &Value) -> Option<(ErrorData, &Value)> {
    let error = answer.get("error")?;
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| code.try_into().ok());
    let message = error.get("message").and_then(Value::as_str)?.to_owned();
    let error = ErrorData::new(ErrorCode(code.unwrap_or_default()), message, None);
    Some((error, answer.get("id").unwrap_or(&Value::Null)))
}

fn bare(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

/// Returns the text with `\ufffd` in place of each lone surrogate; `None` if none does.
fn with_whole_escapes(text: &str) -> Option<String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    let mut mended = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let (written, taken) = match (half(escape), escape.get(6..).and_then(half)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (escape.get(..12)?, 12),
            (Some(0xd800..=0xdfff), _) => {
                mended = true;
                (r"\ufffd", 6)
            }
            // What is escaped may be a backslash, which then begins nothing.
            _ => {
                let taken = escape.chars().take(2).map(char::len_utf8).sum();
                (escape.get(..taken)?, taken)
            }
        };
        whole.push_str(written);
        rest = escape.get(taken..)?;
    }
    whole.push_str(rest);
    mended.then_some(whole)
}

/// The code of an escape `\uXXXX` that a text begins with.
fn half(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix(r"\u")?.get(..4)?;
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns the request that an object answers although it is not JSON (the `id` at its top, without
/// a `method` beside it), and its depth.
fn answers(text: &str) -> Option<(Value, usize)> {
    let mut rest = text.strip_prefix('{')?;
    let mut depth = 1_usize;
    let mut id = None;
    let mut deepest = depth;
    while let Some(at) = rest.find(['"', '{', '}', '[', ']']) {
        let (mark, behind) = rest.get(at..)?.split_at(1);
        rest = behind;
        match mark {
            "{" | "[" => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            "}" | "]" => depth = depth.saturating_sub(1),
            _ => {
                let end = end_of_string(rest)?;
                let (word, behind) = rest.split_at(end);
                rest = behind.get(1..)?;
                let value = rest.trim_start().strip_prefix(':').filter(|_| depth == 1);
                match (word, value) {
                    ("method", Some(_)) => return None,
                    ("id", Some(value)) => id = scalar(value.trim_start()),
                    _ => {}
                }
            }
        }
    }
    Some((id?, deepest))
}

/// Where a string ends, from behind its opening quote.
fn end_of_string(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(['"', '\\'])?;
        if text.get(at..)?.starts_with('"') {
            return Some(at);
        }
        // Past the backslash and what is escaped.
        from = at + 1 + text.get(at + 1..)?.chars().next()?.len_utf8();
    }
}

/// A number or a string that a text begins with.
fn scalar(text: &str) -> Option<Value> {
    let end = match text.strip_prefix('"') {
        Some(inside) => end_of_string(inside)? + 2,
        None => text.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(text.len()),
    };
    serde_json::from_str(text.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_and_a_mark_of_byte_order_are_no_hindrance() {
        let cut =
            read("\u{feff} {\"a\": \"b\\ud83d\", \"c\": \"\\udc00\\\\ud83d \\ud83d\\ude00\"}\r\n");
        assert_eq!(cut, Some(json!({"a": "b\u{fffd}", "c": "\u{fffd}\\ud83d \u{1f600}"})));
        assert_eq!(read(r#"["\ud83d\ud83d\ude00"]"#), Some(json!(["\u{fffd}\u{1f600}"])));
        for none in ["", "{", r#"{"a":NaN}"#, r#"{"a":"\ud8"#, r#"{"\ud83d"#, "\\é", "\\"] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn an_answer_that_is_too_deep_is_reported_as_that() {
        let nested = |depth: usize| {
            let open = "[".repeat(depth - 1);
            let close = "]".repeat(depth - 1);
            format!(r#"{{"id":7,"result":{open}{close}}}"#)
        };
        assert!(read(&nested(DEPTH)).is_some());
        assert_eq!(read(&nested(DEPTH + 1)), None);
        let actual = no_json(&nested(DEPTH + 1)).unwrap();
        assert_eq!(actual["error"]["message"], "the answer is nested more than 127 deep");
    }

    #[test]
    fn an_answer_that_is_no_json_is_reported_to_who_asked() {
        let deep = format!(
            r#"{{"a":[{{"id":1}}],"result":{}{},"id":7}}"#,
            "[".repeat(999),
            "]".repeat(999)
        );
        let named = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#, json!(7)),
            ("\u{feff}{\"id\" : \"a\\\"b\", \"result\": {\"id\": 1", json!("a\"b")),
            (deep.as_str(), json!(7)),
        ];
        for (text, id) in named {
            assert_eq!(no_json(text).unwrap()["id"], id, "{text}");
        }
        for none in [
            r#"{"id":7,"method":"ping","params":NaN}"#,
            r#"{"result":{"id":7},"a":NaN}"#,
            r#"{"id":null,"a":NaN}"#,
            r#"["id",7,NaN]"#,
            r#"{"id"#,
            "{",
            "",
        ] {
            assert_eq!(no_json(none), None, "{none}");
        }
    }
}
