//! A key, which nothing can show.

use reqwest::header::{HeaderValue, InvalidHeaderValue};
use zeroize::Zeroizing;

/// A key: it cannot be printed, compared or stored, is zeroed when dropped, and leaves only
/// inside a request header that is marked as sensitive.
///
/// ```
/// let secret = deputize_providers::Secret::new("sk-1234\n");
/// assert_eq!(secret.scrub("bad key sk-1234!"), "bad key [redacted]!");
/// ```
///
/// ```compile_fail
/// let secret = deputize_providers::Secret::new("sk-1234");
/// println!("{secret:?}");
/// ```
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a key must not be printable")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a key; space and line ends around it, as files have them, are dropped.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = Zeroizing::new(text.into());
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without this key in it.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(self.0.as_str(), "[redacted]")
        }
    }

    /// The key behind a prefix, as a sensitive header.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let text = Zeroizing::new(format!("{prefix}{}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text)?;
        value.set_sensitive(true);
        Ok(value)
    }
}
