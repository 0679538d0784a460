//! Text for a person about a denied call.

use deputize_core::sanitize::for_exact_line;
use deputize_core::{ArgumentRole, ToolSpec};
use serde_json::Value;

/// Maximum number of characters of a command or path that are repeated.
const SUBJECT_CHARS: usize = 200;

/// Puts the command or the path of a call before the reason for which it was denied. A call about
/// something else has the reason alone.
pub(super) fn with_subject(tool: &ToolSpec, arguments: &Value, reason: &str) -> String {
    let subject = arguments.as_object().and_then(|map| {
        let roles = [ArgumentRole::Command, ArgumentRole::Path];
        roles.into_iter().find_map(|role| tool.subject.text(role, map))
    });
    match subject {
        Some(subject) => format!("{}: {reason}", for_exact_line(subject, SUBJECT_CHARS)),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::schema::Schema;
    use deputize_core::{Effects, ToolDecl, ToolKind, ToolName};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_command_or_path_of_a_call_precedes_the_reason() {
        let decl = ToolDecl {
            name: ToolName::literal("work"),
            description: String::new(),
            parameters: Schema::new(&json!({"type": "object"})).unwrap(),
        };
        let plain = ToolSpec::effectful(decl, Effects::Unknown);
        let runs = plain.clone().about(ToolKind::Execute, "script");
        let writes = plain.clone().about(ToolKind::Edit, "file");
        let words = |tool: &ToolSpec| {
            with_subject(tool, &json!({"script": "make\nall", "file": "a.txt"}), "no")
        };
        assert_eq!(words(&runs), "make\\nall: no");
        assert_eq!(words(&writes), "a.txt: no");
        assert_eq!(words(&plain), "no");
    }
}
