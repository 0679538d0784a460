//! The names of skills and profiles.

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
    Err(DocumentError::whole(format!(
        "a {kind}'s name has 1 to {NAME_CHARS} lower-case letters, digits and single hyphens inside"
    )))
}
