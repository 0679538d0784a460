//! What the fuzz targets share: the laws that hold for any bytes, and a meter of memory.
//!
//! A target is a law about foreign bytes: the reading is total (an answer or an error, never a
//! panic), it is linear and bounded in memory ([`meter`]), and it says the same however the
//! bytes come ([`cuts`], [`stream`]).

pub mod cuts;
pub mod meter;
pub mod pieces;
pub mod session_file;
pub mod stream;

/// Fails unless a text is one line of bounded length that a terminal shows as it is.
///
/// # Panics
/// When it is not.
pub fn one_line(text: &str, most_chars: usize) {
    assert!(!text.contains(|c: char| c.is_control()), "controls in {text:?}");
    let chars = text.chars().count();
    assert!(chars <= most_chars, "{chars} characters, at most {most_chars} expected: {text:?}");
}
