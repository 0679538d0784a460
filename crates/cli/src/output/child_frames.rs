//! Frames around what children said, which are for models and which people do not see.

use serde_json::{Deserializer, Value};

/// Returns a result of children without the frames around what they said; `None` if it
/// has no children. An error may stand before the JSON, and notes behind it.
pub(crate) fn children_unframed(content: &str) -> Option<String> {
    let (before, json) = content.split_at(content.find('{')?);
    if !before.is_empty() && !before.starts_with("error: ") {
        return None;
    }
    let mut values = Deserializer::from_str(json).into_iter::<Value>();
    let mut value = values.next()?.ok()?;
    let notes = json.get(values.byte_offset()..)?;
    for entry in value.get_mut("results")?.as_array_mut()? {
        if let Some(Value::String(summary)) = entry.get_mut("summary") {
            *summary = without_child_frames(summary);
        }
    }
    Some(format!("{before}{value}{notes}"))
}

/// Returns the message of another agent's end, without frames.
pub(crate) fn delivery_unframed(text: &str) -> String {
    let text = without_frames(text, "<tool:");
    let line = |line: &str| children_unframed(line).unwrap_or_else(|| line.to_owned());
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a child's summary without its frames: one that was cut has two.
pub(crate) fn without_child_frames(summary: &str) -> String {
    without_frames(summary, "<child:")
}

/// A text without the frames that open so, and with what is in them.
fn without_frames(text: &str, opening: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, inside, behind)) = first_frame(rest, opening) {
        out.push_str(before);
        out.push_str(inside);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Splits a text into the part before its first frame, the frame's content and the rest. Text
/// inside that only looks like a frame does not end it.
fn first_frame<'t>(text: &'t str, opening: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let at = match text.strip_prefix(opening) {
        Some(_) => 0,
        None => text.find(&format!("\n{opening}"))? + 1,
    };
    let (before, frame) = text.split_at(at);
    let (head, body) = frame.split_once('\n')?;
    let (_, boundary) = head.strip_suffix('>')?.rsplit_once(' ')?;
    let (inside, behind) = body.split_once(&format!("</{boundary}>"))?;
    Some((before, inside.strip_suffix('\n').unwrap_or(inside), behind))
}

#[cfg(test)]
mod tests {
    use deputize_core::sanitize::frame_quote;
    use deputize_core::source::Source;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_frame_of_a_child_is_left_beside_errors_notes_and_cuts() {
        let framed = |text: &str| frame_quote(&Source::child("s/1.0.0"), text).into_string();
        let cut = format!("{}\n[5 of 9 bytes left out]\n{}", framed("one"), framed("two"));
        assert_eq!(without_child_frames(&cut), "one\n[5 of 9 bytes left out]\ntwo");
        let alike = "<child:x abc>\nno frame\n</abc>";
        assert_eq!(without_child_frames(&framed(alike)), alike);
        let result = |summary: &str| json!({"results": [{"summary": summary}]}).to_string();
        let expected = format!("error: it ended early:\n{}\n[Read a again.]", result(&cut));
        let seen = children_unframed(&expected).unwrap();
        assert!(seen.starts_with("error: it ended early:\n{") && seen.contains("\\ntwo"), "{seen}");
        assert!(seen.ends_with("\n[Read a again.]") && !seen.contains("child:"), "{seen}");
        let framed = frame_quote(&Source::tool("delegate_task"), &result(&cut)).into_string();
        let seen =
            delivery_unframed(&format!("Your child s/1.0.0 has ended: completed.\n{framed}"));
        assert!(seen.starts_with("Your child s/1.0.0 has ended: completed.\n{"), "{seen}");
        assert!(
            seen.contains("\\ntwo") && !seen.contains("</") && !seen.contains("<tool:"),
            "{seen}"
        );
        for other in ["{}", "x {\"results\": []}", "{\"results\": 1}", "{"] {
            assert_eq!(children_unframed(other), None, "{other}");
        }
    }
}
