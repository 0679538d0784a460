//! Marks of chat formats in commands.
//!
//! A model is shown marks with `‹`, and writes a command with what it was shown. No file says
//! which form it means, as one does for an edit, so every inert mark gets its true form.

use deputize_core::Subject;
use deputize_core::sanitize::{has_inert_mark, restore_marks};
use serde_json::Value;

/// Restores the marks in the commands of a call, and returns how many there were.
pub(super) fn restore_commands(subject: &Subject, arguments: &mut Value) -> usize {
    let commands = subject.commands(arguments).filter(|(_, command)| has_inert_mark(command));
    let names: Vec<String> = commands.map(|(name, _)| name.to_owned()).collect();
    let mut marks = 0;
    for name in names {
        let Some(Value::String(command)) = arguments.get_mut(&name) else { continue };
        if let Ok(restored) = restore_marks(command, "") {
            marks += restored.marks;
            *command = restored.text.into_owned();
        }
    }
    marks
}

/// Returns the remark on a command that ran with this many restored marks.
pub(super) fn restored_note(marks: usize) -> Option<String> {
    match marks {
        0 => None,
        1 => Some("[1 chat-format mark given with ‹ ran in the original form]".to_owned()),
        marks => Some(format!("[{marks} chat-format marks given with ‹ ran in the original form]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_restored_in_commands_alone() {
        let mut arguments = json!({"command": "echo '‹/s> ‹x>' ‹unk>", "note": "‹/s>"});
        assert_eq!(restore_commands(&Subject::default(), &mut arguments), 2);
        assert_eq!(arguments, json!({"command": "echo '</s> ‹x>' <unk>", "note": "‹/s>"}));
        assert_eq!(restored_note(0), None);
        assert!(restored_note(2).unwrap().starts_with("[2 chat-format marks "));
    }
}
