//! Why calls are denied.

/// Why a call may not run, for its two readers.
///
/// ```
/// use deputize_core::policy::Denial;
///
/// let denial = Denial::new("no mail to everybody");
/// assert_eq!(denial.for_person, denial.for_model);
/// let denial = Denial { for_model: "no mail to everybody: name one person".into(), ..denial };
/// assert_eq!(denial.for_person, "no mail to everybody");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The rule, and what to do instead, for the model.
    pub for_model: String,
    /// The rule, for the person who follows the run.
    pub for_person: String,
}

impl Denial {
    /// Creates a denial that says the same to model and person.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { for_model: reason.clone(), for_person: reason }
    }
}
