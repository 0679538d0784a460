//! Answers to calls, and their JSON text.

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallAnswer {
    /// The tool succeeded. JSON text, passed on unchanged; the host rejects what is not JSON.
    Ok(String),
    /// [`CallAnswer::Ok`] with notes of the tool itself, which are separate from the content.
    Noted(String, Vec<String>),
    /// The call was cancelled. JSON text: the output until then, or `null`.
    Cancelled(String),
    /// The tool refuses the call. Text for the model: what to change.
    Refused(String),
    /// The tool failed. Text for the operator.
    Failed(String),
}

impl CallAnswer {
    /// Returns [`CallAnswer::Ok`] with this text as a JSON string.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Ok(quoted(text))
    }

    /// Returns the JSON object that crosses the boundary.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Ok(json) => format!("{{\"ok\":{json}}}"),
            Self::Noted(json, notes) => {
                let notes: Vec<String> = notes.iter().map(|note| quoted(note)).collect();
                format!("{{\"ok\":{json},\"notes\":[{}]}}", notes.join(","))
            }
            Self::Cancelled(json) => format!("{{\"cancelled\":{json}}}"),
            Self::Refused(text) => format!("{{\"refused\":{}}}", quoted(text)),
            Self::Failed(text) => format!("{{\"failed\":{}}}", quoted(text)),
        }
    }
}

/// Returns a JSON string with this text.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(answer: &CallAnswer) -> Value {
        serde_json::from_str(&answer.to_json()).unwrap()
    }

    #[test]
    fn each_answer_is_an_object_with_one_member() {
        assert_eq!(CallAnswer::Ok("[1]".into()).to_json(), r#"{"ok":[1]}"#);
        assert_eq!(CallAnswer::text("a\"b").to_json(), r#"{"ok":"a\"b"}"#);
        assert_eq!(CallAnswer::Refused("no\n".into()).to_json(), r#"{"refused":"no\n"}"#);
        assert_eq!(CallAnswer::Failed("\u{1b}\\".into()).to_json(), r#"{"failed":"\u001b\\"}"#);
    }

    #[test]
    fn remarks_stand_beside_the_content() {
        let answer = CallAnswer::Noted("1".into(), vec!["a\"".into(), "b".into()]);
        assert_eq!(answer.to_json(), r#"{"ok":1,"notes":["a\"","b"]}"#);
        assert_eq!(CallAnswer::Cancelled("null".into()).to_json(), r#"{"cancelled":null}"#);
    }

    #[test]
    fn every_control_character_survives() {
        let text: String = ('\0'..'\u{100}').collect();
        assert_eq!(read(&CallAnswer::text(&text)), json!({ "ok": text }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_survives(text in any::<String>()) {
            prop_assert_eq!(read(&CallAnswer::text(&text)), json!({ "ok": text }));
            prop_assert_eq!(read(&CallAnswer::Refused(text.clone())), json!({ "refused": text }));
            prop_assert_eq!(read(&CallAnswer::Failed(text.clone())), json!({ "failed": text }));
        }
    }
}
