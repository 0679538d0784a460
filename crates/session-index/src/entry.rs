//! A text of a session that is searched.

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EntryKind {
    /// What the person wrote.
    Prompt,
    /// What a child was to do.
    Task,
    /// What an agent said.
    Reply,
    /// A tool call: the tool and its short arguments.
    Call,
    /// What a tool returned, of a long result its beginning and its end.
    Result,
}

impl EntryKind {
    const ALL: [Self; 5] = [Self::Prompt, Self::Task, Self::Reply, Self::Call, Self::Result];

    /// Returns its name, such as `prompt`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Task => "task",
            Self::Reply => "reply",
            Self::Call => "call",
            Self::Result => "result",
        }
    }

    /// Returns the table with the texts of this kind. Results are most of a session, and a table of
    /// their own lets a search find first what was said.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Prompt | Self::Task | Self::Reply | Self::Call => "body",
            Self::Result => "result",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A text of a session that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number of its record.
    pub(crate) seq: u64,
    /// Unix time in milliseconds.
    pub(crate) at: u64,
    /// The agent without its session; empty for the top agent.
    pub(crate) agent: String,
    pub(crate) kind: EntryKind,
    /// The text, without anything that a person cannot see.
    pub(crate) text: String,
}
