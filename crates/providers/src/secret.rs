//! A key, which nothing can show.

use deputize_core::sanitize::Secrets;
use reqwest::header::{HeaderValue, InvalidHeaderValue};
use zeroize::Zeroizing;

use crate::line::CUTS;

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

/// A key and where it came from.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a key must not be printable")]
pub struct Key {
    /// The environment variable that it comes from, for messages.
    pub variable: String,
    /// The key itself.
    pub secret: Secret,
}

impl Key {
    /// Wraps the key that a variable holds.
    #[must_use]
    pub fn new(variable: impl Into<String>, text: impl Into<String>) -> Self {
        Self { variable: variable.into(), secret: Secret::new(text) }
    }
}

/// The least of a secret's beginning that is one: fewer characters tell nothing.
const BEGINNING: usize = 4;

/// A text without a secret, and without the beginning of it at a cut.
pub(crate) fn without(text: &str, secret: &str) -> String {
    const GONE: &str = "[redacted]";
    let mut text = text.replace(secret, GONE);
    for cut in CUTS.into_iter().filter(|cut| text.contains(cut)).collect::<Vec<_>>() {
        for (end, _) in secret.char_indices().rev().filter(|(end, _)| *end >= BEGINNING) {
            let beginning = secret.get(..end).unwrap_or_default();
            text = text.replace(&format!("{beginning}{cut}"), &format!("{GONE}{cut}"));
        }
    }
    text
}

impl Secret {
    /// Takes a key; space and line ends around it, as files have them, are dropped.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = Zeroizing::new(text.into());
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    /// Returns whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A shorter key, in bytes, is not looked for: it would strike innocent text.
    pub const SHORTEST: usize = 6;

    /// Returns whether it is too short to be looked for.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.0.len() < Self::SHORTEST
    }

    /// Returns a text without this key in it, unless it is shorter than [`Secret::SHORTEST`].
    ///
    /// ```
    /// let secret = deputize_providers::Secret::new("a");
    /// assert_eq!(secret.scrub("running at"), "running at");
    /// ```
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        if self.is_short() { text.to_owned() } else { without(text, &self.0) }
    }

    /// Adds it to the values that must not leave the program.
    pub(crate) fn add_to(&self, name: &str, secrets: &mut Secrets) {
        secrets.add(name, &self.0);
    }

    /// The key behind a prefix, as a sensitive header.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let text = Zeroizing::new(format!("{prefix}{}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text)?;
        value.set_sensitive(true);
        Ok(value)
    }
}
