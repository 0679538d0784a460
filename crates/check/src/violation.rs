//! Violations of a tool's contract.

use std::error::Error;
use std::fmt;

/// A rule of the contract that tools keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContractRule {
    /// A rule for its specification.
    Spec(SpecRule),
    /// A rule for its calls.
    Call(CallRule),
}

impl From<SpecRule> for ContractRule {
    fn from(rule: SpecRule) -> Self {
        Self::Spec(rule)
    }
}

impl From<CallRule> for ContractRule {
    fn from(rule: CallRule) -> Self {
        Self::Call(rule)
    }
}

impl ContractRule {
    /// Returns its name, for lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec(rule) => rule.name(),
            Self::Call(rule) => rule.name(),
        }
    }
}

/// A rule for the specification of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SpecRule {
    /// Its specification never changes.
    Stable,
    /// It has a description that is short enough and has only visible characters.
    Description,
    /// Its schema is valid, is self-contained, and requires only declared properties.
    Schema,
    /// Each argument has a description.
    Described,
    /// Its examples match its schema and have titles.
    Example,
    /// If it cannot be used, it explains why.
    Usable,
}

impl SpecRule {
    const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Description => "description",
            Self::Schema => "schema",
            Self::Described => "described",
            Self::Example => "example",
            Self::Usable => "usable",
        }
    }
}

/// A rule for the calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CallRule {
    /// The files that an example names exist. The check's own directory is empty;
    /// [`ToolCheck::inside`](crate::ToolCheck::inside) sets another one.
    Files,
    /// A call that matches the schema works.
    Works,
    /// A call does not panic.
    NoPanic,
    /// A call ends within its time limit.
    Ends,
    /// A cancelled call ends soon.
    Cancels,
    /// A read-only tool changes nothing in its directory.
    OnlyLooks,
    /// A tool with repeatable or parallel calls works the same when called again or concurrently.
    Repeats,
    /// Its refusals have text that a model can act on.
    Refusal,
    /// The effects that it reports have absolute paths.
    Facts,
}

impl CallRule {
    const fn name(self) -> &'static str {
        match self {
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

/// A violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the tool.
    pub tool: String,
    /// The violated rule.
    pub rule: ContractRule,
    /// The finding, and the remedy.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}): {}", self.tool, self.rule.name(), self.found)
    }
}

/// All violations of a tool, formatted one per line, even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// Returns whether this rule is violated.
    #[must_use]
    pub fn has(&self, rule: impl Into<ContractRule>) -> bool {
        let rule = rule.into();
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
