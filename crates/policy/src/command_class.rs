//! What is known of a command: its class, and why.

use std::fmt;
use std::path::PathBuf;

/// The class of a command, from harmless to what never runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandClass {
    /// No rule matches.
    Safe,
    /// A person must be asked.
    Dangerous,
    /// There is no way back and no honest use: it never runs.
    Hardline,
}

impl CommandClass {
    /// Returns the name of the class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Dangerous => "dangerous",
            Self::Hardline => "hardline",
        }
    }
}

impl fmt::Display for CommandClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a command would run.
#[derive(Debug, Clone, Default)]
pub struct CommandContext {
    /// The user's home directory, if known.
    pub home: Option<PathBuf>,
    /// The working directory, if known.
    pub directory: Option<PathBuf>,
}

/// The verdict on a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandVerdict {
    /// The class.
    pub class: CommandClass,
    /// The name of the rule that decided, such as `recursive-delete`; `none` for a safe command.
    pub rule: &'static str,
    /// What the command would do, for a person.
    pub reason: String,
}
