//! What went wrong with a request, for a person.

use std::error::Error;

use deputize_core::sanitize::for_terminal_line;

/// The most characters of a text from outside in an error.
const SHOWN_CHARS: usize = 300;

/// Returns what went wrong with a request, without its address, on one line of at most 300
/// characters.
#[must_use]
pub fn request_problem(error: &reqwest::Error) -> String {
    let mut problem = String::new();
    let mut cause: Option<&dyn Error> = Some(error);
    // The last cause says what happened; those before it repeat the address.
    while let Some(error) = cause {
        problem = error.to_string();
        cause = error.source();
    }
    for_terminal_line(&problem, SHOWN_CHARS)
}
