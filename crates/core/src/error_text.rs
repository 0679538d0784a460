//! Formats errors as text.

use std::error::Error;

/// Describes an error and its causes in one line. Leaves out causes that the preceding text already
/// contains.
///
/// ```
/// use deputize_core::describe_error;
/// #[derive(Debug)]
/// struct Open(std::io::Error);
/// impl std::fmt::Display for Open {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("cannot open `a`")
///     }
/// }
/// impl std::error::Error for Open {
///     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
///         Some(&self.0)
///     }
/// }
/// let error = Open(std::io::Error::other("no room"));
/// assert_eq!(describe_error(&error), "cannot open `a`: no room");
/// ```
#[must_use]
pub fn describe_error(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let cause = source.to_string();
        if !text.to_lowercase().contains(&without_number(&cause).to_lowercase()) {
            text = format!("{text}: {cause}");
        }
        next = source.source();
    }
    text
}

/// Returns a system error's text without its number.
fn without_number(text: &str) -> &str {
    text.split_once(" (os error ").map_or(text, |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, io::Error);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn each_cause_is_said_once() {
        let describe = |text, cause| describe_error(&Layer(text, cause));
        assert_eq!(describe("cannot open", io::Error::other("no room")), "cannot open: no room");
        assert_eq!(describe("failed: no room", io::Error::other("no room")), "failed: no room");
        let files = || io::Error::from_raw_os_error(24);
        assert!(files().to_string().starts_with("Too many open files (os error"));
        let text = "too many open files, nothing was started";
        assert_eq!(describe(text, files()), text);
    }
}
