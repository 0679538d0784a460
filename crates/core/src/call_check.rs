//! What a tool says of a call before it runs.

use std::borrow::Cow;

/// What a tool says of a call that it would not refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallCheck {
    /// The policy alone says whether the call may run.
    Accepted,
    /// The call needs an approval, whatever effects the tool has in general.
    Asks(CallRisk),
}

/// What a person risks who approves a call, for questions.
///
/// ```
/// use deputize_core::tool::CallRisk;
///
/// let risk = CallRisk::new("outgoing", "it leaves this machine and cannot be taken back");
/// assert_eq!(risk.class, "outgoing");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRisk {
    /// The class of the call, in one word, such as `dangerous`.
    pub class: Cow<'static, str>,
    /// What the call may do, as a clause without a full stop.
    pub reason: Cow<'static, str>,
}

impl CallRisk {
    /// The class of a call that nothing bounds.
    pub const DANGEROUS: &str = "dangerous";
    /// The class of a call whose effect later sessions obey or believe.
    pub const LASTING: &str = "lasting";
    /// The class of a call that sends something out.
    pub const OUTGOING: &str = "outgoing";

    /// Creates the risk of a class.
    #[must_use]
    pub fn new(class: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { class: class.into(), reason: reason.into() }
    }

    /// Returns the risk of a command, or of code that nothing bounds.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self {
            class: Cow::Borrowed(Self::DANGEROUS),
            reason: Cow::Borrowed("it would run with all your rights, and no sandbox holds it"),
        }
    }
}
