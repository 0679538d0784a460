//! What the rules say, as it is printed.

/// A decision of the rules.
#[derive(Debug)]
pub(super) struct Decision {
    /// The name of the field for a single question: `class` or `decision`.
    pub(super) field: &'static str,
    pub(super) got: &'static str,
    pub(super) rule: &'static str,
    pub(super) reason: String,
}
