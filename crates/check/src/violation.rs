//! What a tool does not keep.

use std::error::Error;
use std::fmt;

/// What is asked of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ContractRule {
    /// It says the same of itself each time.
    Stable,
    /// Its description is there, short enough, and of characters that can be seen.
    Description,
    /// Its schema is one, needs nothing from elsewhere, and asks only for what it declares.
    Schema,
    /// Each argument says what it is.
    Described,
    /// Its examples fit its schema, and have a title.
    Example,
    /// What it says when it cannot be used is something.
    Usable,
    /// The files that an example names are there. In the empty directory that a check makes none
    /// are: [`ToolCheck::inside`](crate::ToolCheck::inside) names another one.
    Files,
    /// A call that fits the schema does what it shows.
    Works,
    /// A call does not panic.
    NoPanic,
    /// A call ends within its time limit.
    Ends,
    /// A call that is told to end does so soon.
    Cancels,
    /// A tool that only looks changes nothing in its directory.
    OnlyLooks,
    /// A tool whose calls may be repeated or made side by side gives each what it gave alone.
    Repeats,
    /// What it refuses, it refuses in words that a model can act on.
    Refusal,
    /// What it says it saw is where it says: paths are absolute.
    Facts,
}

impl ContractRule {
    /// Its name, for lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Description => "description",
            Self::Schema => "schema",
            Self::Described => "described",
            Self::Example => "example",
            Self::Usable => "usable",
            Self::Files => "files",
            Self::Works => "works",
            Self::NoPanic => "no-panic",
            Self::Ends => "ends",
            Self::Cancels => "cancels",
            Self::OnlyLooks => "only-looks",
            Self::Repeats => "repeats",
            Self::Refusal => "refusal",
            Self::Facts => "facts",
        }
    }
}

/// One thing that a tool does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The tool.
    pub tool: String,
    /// What was asked of it.
    pub rule: ContractRule,
    /// What was found, and what to do.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}): {}", self.tool, self.rule.name(), self.found)
    }
}

/// All that a tool does not keep; a line each, also where a test unwraps it.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// Whether this rule is among those that are not kept.
    #[must_use]
    pub fn has(&self, rule: ContractRule) -> bool {
        self.0.iter().any(|violation| violation.rule == rule)
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Violation::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl Error for Violations {}
