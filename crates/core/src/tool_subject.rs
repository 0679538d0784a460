//! The kind of work that a tool does, and what a call of it is about.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind of work that a tool does, for people and editors. It raises no trust: a policy judges
/// by [`Effects`](crate::Effects) and by the commands of a call.
///
/// ```
/// use deputize_core::ToolKind;
///
/// assert_eq!(ToolKind::from_name("fetch"), Some(ToolKind::Fetch));
/// assert_eq!(ToolKind::Fetch.as_str(), "fetch");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolKind {
    /// Reads a file or other data.
    Read,
    /// Changes a file or other data.
    Edit,
    /// Removes a file or other data.
    Delete,
    /// Moves or renames a file.
    Move,
    /// Searches or lists.
    Search,
    /// Runs a command or code.
    Execute,
    /// Gets data over the network.
    Fetch,
    /// Delegates work to other agents, or controls them.
    Delegate,
    /// Plans or reflects, without effects.
    Think,
    /// Anything else.
    #[default]
    Other,
}

impl ToolKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Edit,
        Self::Delete,
        Self::Move,
        Self::Search,
        Self::Execute,
        Self::Fetch,
        Self::Delegate,
        Self::Think,
        Self::Other,
    ];

    /// Returns its name, such as `read`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Fetch => "fetch",
            Self::Delegate => "delegate",
            Self::Think => "think",
            Self::Other => "other",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the verb that begins lines for people, such as `run`.
    #[must_use]
    pub const fn verb(self) -> Option<&'static str> {
        match self {
            Self::Execute => Some("run"),
            Self::Think | Self::Other => None,
            kind => Some(kind.as_str()),
        }
    }

    /// Returns the usual role of the subject of such a tool.
    #[must_use]
    pub const fn role(self) -> ArgumentRole {
        match self {
            Self::Read | Self::Edit | Self::Delete | Self::Move => ArgumentRole::Path,
            Self::Search => ArgumentRole::Pattern,
            Self::Execute => ArgumentRole::Command,
            Self::Fetch => ArgumentRole::Url,
            Self::Delegate => ArgumentRole::Task,
            Self::Think | Self::Other => ArgumentRole::Text,
        }
    }
}

/// The role of an argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArgumentRole {
    /// A command for a shell, which a policy judges.
    Command,
    /// A file or directory.
    Path,
    /// The line of the file at which a call begins, from 1.
    Line,
    /// A search pattern.
    Pattern,
    /// A pattern of file names.
    NamePattern,
    /// An address.
    Url,
    /// A patch, which names the files that it changes.
    Patch,
    /// The task of one child.
    Task,
    /// A list of tasks: objects with an argument that is a [`Task`](Self::Task).
    Tasks,
    /// An action on agents, in one word.
    Action,
    /// The agents that the action applies to.
    Agents,
    /// Any other text.
    Text,
}

/// An argument that describes what a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SubjectArgument {
    name: Cow<'static, str>,
    role: ArgumentRole,
}

/// The subject of a tool's calls. The default, for a tool that declares nothing: by convention,
/// `command` is a command and `path` a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    verb: Option<Cow<'static, str>>,
    arguments: Vec<SubjectArgument>,
}

impl Default for Subject {
    fn default() -> Self {
        let argument = |name, role| SubjectArgument { name: Cow::Borrowed(name), role };
        let arguments =
            vec![argument("command", ArgumentRole::Command), argument("path", ArgumentRole::Path)];
        Self { verb: None, arguments }
    }
}

impl Subject {
    /// Creates a subject described by one argument, with the verb for people. Other arguments keep
    /// their roles, and a command stays one: no tool can hide it from a policy.
    ///
    /// ```
    /// use deputize_core::{ArgumentRole, Subject};
    ///
    /// let subject = Subject::new(Some("fetch".into()), "address", ArgumentRole::Url);
    /// assert_eq!(subject.main(), Some(("address", ArgumentRole::Url)));
    /// assert_eq!(subject.name(ArgumentRole::Command), Some("command"));
    /// ```
    #[must_use]
    pub fn new(
        verb: Option<Cow<'static, str>>,
        argument: impl Into<Cow<'static, str>>,
        role: ArgumentRole,
    ) -> Self {
        let mut subject = Self { verb, ..Self::default() };
        subject.insert(0, argument.into(), role);
        subject
    }

    /// Adds an argument after the main one.
    #[must_use]
    pub fn with(mut self, argument: impl Into<Cow<'static, str>>, role: ArgumentRole) -> Self {
        self.insert(usize::from(self.verb.is_some()), argument.into(), role);
        self
    }

    /// Replaces the verb.
    #[must_use]
    pub fn with_verb(self, verb: impl Into<Cow<'static, str>>) -> Self {
        Self { verb: Some(verb.into()), ..self }
    }

    fn insert(&mut self, place: usize, name: Cow<'static, str>, role: ArgumentRole) {
        let known = self.arguments.iter().position(|argument| argument.name == name);
        let known = known.map(|known| self.arguments.remove(known).role);
        let role = known.filter(|role| *role == ArgumentRole::Command).unwrap_or(role);
        self.arguments.insert(place.min(self.arguments.len()), SubjectArgument { name, role });
    }

    /// Returns the verb of lines for people; `None` if the tool declares none, so that such lines
    /// show its name and all arguments.
    #[must_use]
    pub fn verb(&self) -> Option<&str> {
        self.verb.as_deref()
    }

    /// Returns the argument that describes a call best; `None` if the tool declares none.
    #[must_use]
    pub fn main(&self) -> Option<(&str, ArgumentRole)> {
        self.verb.as_ref()?;
        self.arguments.first().map(|argument| (&*argument.name, argument.role))
    }

    /// Returns the role of the argument of this name, if known.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<ArgumentRole> {
        self.arguments.iter().find(|argument| argument.name == name).map(|argument| argument.role)
    }

    /// Returns the name of the first argument of this role.
    #[must_use]
    pub fn name(&self, role: ArgumentRole) -> Option<&str> {
        self.names(role).next()
    }

    /// Returns the value of the first argument of this role in a call.
    #[must_use]
    pub fn value<'a>(&self, role: ArgumentRole, call: &'a Map<String, Value>) -> Option<&'a Value> {
        self.names(role).find_map(|name| call.get(name))
    }

    /// Returns the text of the first argument of this role in a call.
    #[must_use]
    pub fn text<'a>(&self, role: ArgumentRole, call: &'a Map<String, Value>) -> Option<&'a str> {
        self.names(role).find_map(|name| call.get(name)?.as_str())
    }

    /// Returns each command in a call, with the name of its argument.
    pub fn commands<'a>(
        &'a self,
        call: &'a Value,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let text = |name: &'a str| Some((name, call.get(name)?.as_str()?));
        self.names(ArgumentRole::Command).filter_map(text)
    }

    fn names(&self, role: ArgumentRole) -> impl Iterator<Item = &str> {
        let arguments = self.arguments.iter().filter(move |argument| argument.role == role);
        arguments.map(|argument| &*argument.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn commands(subject: &Subject, call: &Value) -> Vec<String> {
        subject.commands(call).map(|(name, command)| format!("{name}: {command}")).collect()
    }

    #[test]
    fn a_kind_has_one_name_everywhere() {
        for kind in ToolKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.as_str()));
            assert_eq!(ToolKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(ToolKind::from_name("Read"), None);
    }

    #[test]
    fn a_tool_that_says_nothing_has_the_usual_arguments() {
        let subject = Subject::default();
        let call = json!({"command": "ls", "path": "/w"});
        assert_eq!((subject.verb(), subject.main()), (None, None));
        assert_eq!(commands(&subject, &call), ["command: ls"]);
        assert_eq!(subject.text(ArgumentRole::Path, call.as_object().unwrap()), Some("/w"));
    }

    #[test]
    fn the_main_argument_stands_before_the_usual_ones() {
        let subject = Subject::new(Some("open".into()), "file", ArgumentRole::Path)
            .with("from", ArgumentRole::Line);
        assert_eq!(subject.main(), Some(("file", ArgumentRole::Path)));
        assert_eq!(subject.name(ArgumentRole::Line), Some("from"));
        let both = json!({"path": "/other", "file": "/w"});
        assert_eq!(subject.text(ArgumentRole::Path, both.as_object().unwrap()), Some("/w"));
    }

    #[test]
    fn a_command_is_never_anything_else() {
        let call = json!({"command": "rm -rf /", "script": "ls"});
        let hidden = Subject::new(Some("read".into()), "command", ArgumentRole::Text);
        assert_eq!(commands(&hidden, &call), ["command: rm -rf /"]);
        let more = Subject::new(Some("run".into()), "script", ArgumentRole::Command);
        assert_eq!(commands(&more, &call), ["script: ls", "command: rm -rf /"]);
    }
}
