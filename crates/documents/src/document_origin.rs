//! Who wrote a document.

/// Who wrote a skill or a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentOrigin {
    /// The person.
    User,
    /// The program.
    Bundled,
    /// The project.
    Project,
}

impl DocumentOrigin {
    /// Returns its name, such as `user`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Bundled => "bundled",
            Self::Project => "project",
        }
    }
}
