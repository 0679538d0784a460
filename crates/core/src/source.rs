//! Sources: who said a part of a message or of a prompt.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Characters of a name that are kept.
const NAME_CHARS: usize = 120;

/// The kind of a source. Their order is that of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// A child agent, by ID.
    Child,
    /// This program.
    Host,
    /// Material from the person beside the prompt, by the way it came in.
    Input,
    /// An MCP server.
    Mcp,
    /// The memory, by topic.
    Memory,
    /// The agent that gave the task, or a message.
    Parent,
    /// A plugin.
    Plugin,
    /// A file of the project.
    Project,
    /// A skill.
    Skill,
    /// A summary of earlier messages, by the model that wrote it.
    Summary,
    /// A tool.
    Tool,
    /// The person.
    User,
    /// The web, by host.
    Web,
}

impl SourceKind {
    const ALL: [Self; 13] = [
        Self::Child,
        Self::Host,
        Self::Input,
        Self::Mcp,
        Self::Memory,
        Self::Parent,
        Self::Plugin,
        Self::Project,
        Self::Skill,
        Self::Summary,
        Self::Tool,
        Self::User,
        Self::Web,
    ];

    /// Returns the name used in labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Host => "host",
            Self::Input => "input",
            Self::Mcp => "mcp",
            Self::Memory => "memory",
            Self::Parent => "parent",
            Self::Plugin => "plugin",
            Self::Project => "project",
            Self::Skill => "skill",
            Self::Summary => "summary",
            Self::Tool => "tool",
            Self::User => "user",
            Self::Web => "web",
        }
    }

    /// Returns whether there is one source of this kind, which needs no name.
    const fn is_single(self) -> bool {
        matches!(self, Self::Host | Self::Parent | Self::User)
    }
}

/// A source of a text or an image. It grants nothing and only informs. As text it is a label, such
/// as `user`, `tool:read_file` or `web:example.com`.
///
/// ```
/// use deputize_core::source::Source;
/// let source: Source = "web:example.com".parse()?;
/// assert_eq!(source, Source::web("example.com"));
/// assert!(source.is_outside());
/// # Ok::<(), deputize_core::source::InvalidSource>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Source {
    kind: SourceKind,
    /// Short, and of characters that no text around it gives a meaning; `None` for a single source.
    name: Option<Arc<str>>,
}

impl Source {
    /// Creates a source of a kind. Of a long name the beginning is kept, and `_` takes the place of
    /// unusual characters.
    fn named(kind: SourceKind, name: impl AsRef<str>) -> Self {
        let name = name.as_ref().chars().take(NAME_CHARS);
        let name: String = name.map(|c| if is_plain(c) { c } else { '_' }).collect();
        Self { kind, name: Some(name.into()) }
    }

    const fn single(kind: SourceKind) -> Self {
        Self { kind, name: None }
    }

    /// This program.
    #[must_use]
    pub const fn host() -> Self {
        Self::single(SourceKind::Host)
    }

    /// The person.
    #[must_use]
    pub const fn user() -> Self {
        Self::single(SourceKind::User)
    }

    /// The agent that gave the task, or a message.
    #[must_use]
    pub const fn parent() -> Self {
        Self::single(SourceKind::Parent)
    }

    /// A tool, by name.
    #[must_use]
    pub fn tool(name: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Tool, name)
    }

    /// A child agent, by ID.
    #[must_use]
    pub fn child(id: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Child, id)
    }

    /// A file of the project, by path.
    #[must_use]
    pub fn project(path: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Project, path)
    }

    /// Material from the person beside the prompt, by the way it came in.
    #[must_use]
    pub fn input(way: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Input, way)
    }

    /// The web, by host.
    #[must_use]
    pub fn web(host: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Web, host)
    }

    /// An MCP server, by name.
    #[must_use]
    pub fn mcp(server: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Mcp, server)
    }

    /// A plugin, by name.
    #[must_use]
    pub fn plugin(name: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Plugin, name)
    }

    /// A summary of earlier messages, by the model that wrote it.
    #[must_use]
    pub fn summary(model: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Summary, model)
    }

    /// A skill, by name.
    #[must_use]
    pub fn skill(name: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Skill, name)
    }

    /// The memory, by topic.
    #[must_use]
    pub fn memory(topic: impl AsRef<str>) -> Self {
        Self::named(SourceKind::Memory, topic)
    }

    /// Returns the source that an effect of an older record names: such a record names all children
    /// together.
    #[must_use]
    pub fn from_lasting_label(label: &str) -> Self {
        label.parse().unwrap_or_else(|_| Self::child("unknown"))
    }

    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        self.kind
    }

    /// Returns whether it is outside of this machine and its person, or may have read anything, as
    /// a child may.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self.kind, SourceKind::Child | SourceKind::Mcp | SourceKind::Web)
    }
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '~')
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

/// A text is no label of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no source, such as `user`, `tool:read_file` or `web:example.com`")]
pub struct InvalidSource(String);

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(label: &str) -> Result<Self, InvalidSource> {
        let (kind, name) = label.split_once(':').map_or((label, None), |(k, n)| (k, Some(n)));
        let kind = SourceKind::ALL.into_iter().find(|known| known.as_str() == kind);
        let source = match (kind, name) {
            (Some(kind), None) if kind.is_single() => Some(Self::single(kind)),
            (Some(kind), Some(name)) if !kind.is_single() => {
                Some(Self::named(kind, name)).filter(|source| source.name.as_deref() == Some(name))
            }
            _ => None,
        };
        source.ok_or_else(|| InvalidSource(label.chars().take(NAME_CHARS).collect()))
    }
}

impl TryFrom<String> for Source {
    type Error = InvalidSource;

    fn try_from(label: String) -> Result<Self, InvalidSource> {
        label.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_are_those_of_the_specification() {
        let labels = [
            (Source::user(), "user"),
            (Source::host(), "host"),
            (Source::parent(), "parent"),
            (Source::project("AGENTS.md"), "project:AGENTS.md"),
            (Source::tool("read_file"), "tool:read_file"),
            (Source::web("a.example:81"), "web:a.example:81"),
            (Source::mcp("docs"), "mcp:docs"),
            (Source::child("s/1.0.0"), "child:s/1.0.0"),
            (Source::memory("user"), "memory:user"),
            (Source::plugin("words"), "plugin:words"),
            (Source::skill("release"), "skill:release"),
            (Source::input("stdin"), "input:stdin"),
            (Source::summary("p/m"), "summary:p/m"),
        ];
        for (source, label) in labels {
            assert_eq!(source.to_string(), label);
            assert_eq!(label.parse(), Ok(source.clone()));
            let json = serde_json::to_value(&source).unwrap();
            assert_eq!(json, label);
            assert_eq!(serde_json::from_value::<Source>(json).unwrap(), source);
        }
        assert_eq!(Source::from_lasting_label("mcp:docs"), Source::mcp("docs"));
        assert!(Source::from_lasting_label("children").is_outside());
        for bad in ["", "users", "user:a", "web", "web:a b", "web:<", "children"] {
            let error = bad.parse::<Source>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no source, such as ")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_name_makes_a_label_that_is_read_again(name in ".{0,200}") {
            for kind in SourceKind::ALL {
                let source = if kind.is_single() {
                    Source::single(kind)
                } else {
                    Source::named(kind, &name)
                };
                let label = source.to_string();
                prop_assert_eq!(label.parse(), Ok(source));
                prop_assert!(label.len() <= 140 && label.chars().all(is_plain));
            }
        }
    }
}
