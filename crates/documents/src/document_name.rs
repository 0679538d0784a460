//! The names of skills and profiles.

use deputize_core::sanitize::for_terminal_line;

use crate::document_error::DocumentError;

/// Characters of a name at most.
const NAME_CHARS: usize = 64;

/// Checks the name of a document of a kind, such as a skill.
pub(crate) fn check_name(kind: &str, name: &str) -> Result<(), DocumentError> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = name.chars().count() <= NAME_CHARS
        && name.split('-').all(|part| !part.is_empty() && part.chars().all(is_letter));
    if is_valid {
        return Ok(());
    }
    let name = for_terminal_line(name, NAME_CHARS);
    Err(DocumentError::whole(format!(
        "`{name}` is not the name of a {kind}: it has 1 to {NAME_CHARS} lower-case letters, digits \
         and single hyphens inside"
    )))
}
