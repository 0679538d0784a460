//! Words after expansion: text, with marks where a part is unknown.

/// Stands for a part of a word that is unknown: any text, or none, or several words.
pub(crate) const HOLE: char = '\u{F8F0}';
/// Stands before the number of a process substitution whose output a word names.
pub(crate) const STREAM: char = '\u{F8F1}';

/// Whether all of a word is known.
pub(crate) fn is_known(word: &str) -> bool {
    !word.contains(HOLE)
}

/// Returns the part of a word behind its last slash.
pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether a word has an unquoted-looking pattern of file names.
pub(crate) fn has_glob(word: &str) -> bool {
    word.contains(['*', '?', '['])
}
